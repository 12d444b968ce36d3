"""Runs the integration tests of the Go driver against `onionskin serve` and prints a table.

    cargo build --release -p onionskin-simulations
    python3 tests/peers/go/suite.py target/release/onionskin [TOPOLOGY]

TOPOLOGY is `replica-set`, `standalone`, `sharded` or `all` (the default). Needs Go and its module
proxy. Failures are grouped by the reason in REASONS; those without a reason are listed with their
first message.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

MODULE = "go.mongodb.org/mongo-driver/v2"
VERSION = "v2.10.0"
TARGET = pathlib.Path(__file__).resolve().parent / "target"

TOPOLOGIES = {
    "replica-set": ["--members", "3"],
    "standalone": ["--standalone"],
    "sharded": ["--sharded", "2"],
}

PACKAGES = [
    "./internal/integration",
    "./x/mongo/driver/integration",
    "./internal/docexamples",
    "./mongo",
]

# Tests of files that the module does not contain, of encryption, and of seed lists in DNS.
LEFT_OUT = (
    "TestUnifiedSpecs|TestReadWriteConcernSpec|TestInitialDNS|ClientSideEncryption|Mongocryptd"
)

# The reason of a failure by a part of its output. The first one counts.
REASONS = [
    ("not simulated", r"globalScriptEngine|no such command: 'getShardMap'"),
    ("metadata of containers", r"docker|container|64 6f 63 6b 65 72"),
]

TIME_LIMIT = "20m"


def prepare():
    """Returns the folder of the driver's sources."""
    source = TARGET / f"mongo-driver-{VERSION}"
    if not source.exists():
        download = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
        found = json.loads(subprocess.run(download, check=True, capture_output=True).stdout)
        shutil.copytree(found["Dir"], source)
        subprocess.run(["chmod", "-R", "u+w", source], check=True)
        # The workspace of the driver has folders that the module does not contain.
        (source / "go.work").unlink(missing_ok=True)
    return source


def run(source, binary, topology):
    """Runs all packages against one deployment. Returns the outcomes and outputs of the tests."""
    server = subprocess.Popen(
        [binary, "serve", *TOPOLOGIES[topology]], stdout=subprocess.PIPE, text=True
    )
    try:
        uri = server.stdout.readline().strip()
        # One package after the other, because they set fail points.
        command = ["go", "test", "-json", "-vet=off", "-count=1", "-p", "1", "-timeout", TIME_LIMIT]
        done = subprocess.run(
            [*command, "-skip", LEFT_OUT, *PACKAGES],
            cwd=source,
            env={**os.environ, "MONGODB_URI": uri},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        server.kill()
        server.wait()
    outcomes, outputs = {}, collections.defaultdict(str)
    for line in done.stdout.splitlines():
        event = json.loads(line)
        key = (event["Package"], event.get("Test"))
        if event["Action"] == "output":
            outputs[key] += event["Output"]
        elif event["Action"] in ("pass", "fail", "skip"):
            outcomes[key] = event["Action"]
    return outcomes, outputs


def main():
    binary, *rest = sys.argv[1:] or sys.exit(__doc__)
    named = rest[0] if rest else "all"
    topologies = list(TOPOLOGIES) if named == "all" else [named]
    source, binary = prepare(), os.path.abspath(binary)
    rows, reasons, unexplained = [], collections.Counter(), []
    for topology in topologies:
        outcomes, outputs = run(source, binary, topology)
        counts = collections.Counter()
        for (package, test), outcome in outcomes.items():
            # A test with others in it has the outcome of these.
            is_outer = any(
                p == package and t and test and t.startswith(f"{test}/") for p, t in outcomes
            )
            own = outputs[package, test]
            if test is None or is_outer and "Error Trace" not in own:
                continue
            counts[outcome] += 1
            if outcome == "fail":
                what = next((what for what, part in REASONS if re.search(part, own)), None)
                reasons[what or "without a known reason"] += 1
                if what is None:
                    unexplained.append((topology, test, own))
        rows.append([topology, *(str(counts[key]) for key in ("pass", "fail", "skip"))])
    print("| topology | passed | failed | skipped |\n|---|---|---|---|")
    for cells in rows:
        print(f"| {' | '.join(cells)} |")
    print("\nFailures:")
    for what, count in reasons.most_common():
        print(f"- {what}: {count}")
    for topology, test, own in unexplained:
        print(f"\n{topology} {test}")
        for line in own.splitlines()[:12]:
            print(f"    {line}")


if __name__ == "__main__":
    main()
