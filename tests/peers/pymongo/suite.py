"""Runs PyMongo's own test suite against `onionskin serve` and prints the results as a table.

    cargo build --release -p onionskin-simulations
    python3 tests/peers/pymongo/suite.py target/release/onionskin [TOPOLOGY] [MODULE ...]

TOPOLOGY is `replica-set` (the default), `standalone`, `sharded`, `load-balanced` or `all`. Without
modules, the synchronous modules that need a server run, each against servers of its own. Failures
are grouped by the reason in REASONS; those without a reason are listed with their messages.
"""

import collections
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree

VERSION = "4.20.1"
HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE / "target"

TOPOLOGIES = {
    "replica-set": ["--members", "3"],
    "standalone": ["--standalone"],
    "sharded": ["--sharded", "2"],
    "load-balanced": ["--load-balanced", "2"],
}

# Modules that need no server, or something else than a server.
LEFT_OUT = re.compile(
    "auth|aws|bson|binary|code|common|custom_types|csfle|data_lake|dbref|decimal|default_exports"
    "|dns|encryption|errors|json_util$|lambda|objectid|ocsp|oidc|results|saslprep|son$|srv|ssl"
    "|timestamp|typing|uri|replica_set_reconfig|mongos_load_balancing"
)

# The reason of a failure by a part of its message or of the name of its test. The first one counts.
REASONS = [
    ("names that a resolver outside must know", r"Name or service not known|10gen\.cc"),
    ("the oplog as a collection", r"oplog"),
    ("sessions of other commands", r"test_database_aggregation_fake_cursor"),
    ("not simulated", r"notSimulated|globalScriptEngine|does not implement"),
    ("metadata of containers", r"kubernetes|docker|container"),
]

TIME_LIMIT = 900


def prepare():
    """Returns the folder of PyMongo's sources and the interpreter to run its tests with."""
    source = TARGET / f"pymongo-{VERSION}"
    python = TARGET / f"suite-{VERSION}" / "bin" / "python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        packages = [f"pymongo=={VERSION}", "pytest==8.3.4", "pytest-asyncio==0.24.0"]
        subprocess.run([*pip, "install", *packages], check=True)
    if not source.exists():
        sources = ["--no-deps", "--no-binary", "pymongo", "--dest", TARGET, f"pymongo=={VERSION}"]
        subprocess.run([*pip, "download", *sources], check=True)
        with tarfile.open(TARGET / f"pymongo-{VERSION}.tar.gz") as archive:
            archive.extractall(TARGET)
    # The tests import the installed package, which has the C extension.
    for package in ["pymongo", "bson", "gridfs"]:
        if (source / package).exists():
            (source / package).rename(source / f"{package}-sources")
    return source, python


def free_ports(count):
    """Returns the first of some free ports in a row. Some tests expect 27017, if it is free."""
    wanted = 27017
    while True:
        with contextlib.ExitStack() as stack:
            try:
                first = stack.enter_context(socket.create_server(("127.0.0.1", wanted)))
                port = first.getsockname()[1]
                for other in range(port + 1, port + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", other)))
            except (OSError, OverflowError):
                wanted = 0
                continue
            return port


class Servers:
    """A deployment of `onionskin serve`."""

    def __init__(self, binary, topology):
        # The tests look for a second router at the port after that of the first one.
        port = free_ports(4)
        command = [binary, "serve", "--port", str(port), *TOPOLOGIES[topology]]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        for line in self.process.stdout:
            found = re.search(r"mongodb://\S+", line)
            if found:
                break
        else:
            sys.exit(f"no connection string from {' '.join(map(str, command))}")
        self.uri = found.group()

    def service(self):
        """Returns the address of the port that the first service has of its own."""
        while True:
            self.log.seek(0)
            found = re.search(r"Service 0: (\S+)", self.log.read())
            if found:
                return found.group(1)
            time.sleep(0.01)

    def environment(self, topology):
        host, port = re.search(r"//([^:/]+):(\d+)", self.uri).groups()
        environment = {**os.environ, "DB_IP": host, "DB_PORT": port}
        if topology == "load-balanced":
            environment["TEST_LOAD_BALANCER"] = "1"
            # A fail point acts on one router, so most tests need a balancer with a single one.
            single = self.uri.replace(f"{host}:{port}", self.service())
            environment["SINGLE_MONGOS_LB_URI"] = single
            environment["MULTI_MONGOS_LB_URI"] = self.uri
        return environment

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def modules(source):
    found = sorted(path.stem for path in (source / "test").glob("test_*.py"))
    return [name for name in found if not LEFT_OUT.search(name.removeprefix("test_"))]


def run(source, python, binary, topology, module):
    """Runs a module. Returns the numbers of passed, failed and skipped tests, and the failures."""
    servers = Servers(binary, topology)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        try:
            subprocess.run(
                [*command, "-m", "default", f"test/{module}.py"],
                cwd=source,
                env=servers.environment(topology),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pass
        finally:
            servers.stop()
        counts, failures = collections.Counter(), []
        if not report.exists():
            return counts, [(module, "the module did not end in time")]
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            outcome = next((child for child in case if child.tag != "properties"), None)
            tag = None if outcome is None else outcome.tag
            if tag in ("failure", "error"):
                counts["failed"] += 1
                text = (outcome.get("message") or "") + "\n" + (outcome.text or "")
                failures.append((f"{case.get('classname')}.{case.get('name')}", text))
            else:
                counts["skipped" if tag == "skipped" else "passed"] += 1
        return counts, failures


def reason(name, text):
    for what, pattern in REASONS:
        if re.search(pattern, name) or re.search(pattern, text):
            return what
    return None


def run_topology(source, python, binary, topology, names):
    """Runs modules with a topology and prints their table. Returns what the summary needs."""
    totals, reasons, open_failures = collections.Counter(), collections.Counter(), []
    print(f"\n{topology}\n\n| module | passed | failed | skipped |\n|---|---|---|---|")
    for module in names:
        counts, failures = run(source, python, binary, topology, module)
        totals.update(counts)
        print(row(f"`{module}`", counts), flush=True)
        for name, text in failures:
            what = reason(name, text)
            reasons[what or "without a known reason"] += 1
            if what is None:
                open_failures.append((name, text))
    return totals, reasons, open_failures


def row(name, counts):
    numbers = [str(counts[key]) for key in ["passed", "failed", "skipped"]]
    return f"| {' | '.join([name, *numbers])} |"


def main():
    binary, *rest = sys.argv[1:] or sys.exit(__doc__)
    named = rest.pop(0) if rest and rest[0] in [*TOPOLOGIES, "all"] else "replica-set"
    source, python = prepare()
    binary, names = os.path.abspath(binary), rest or modules(source)
    topologies = list(TOPOLOGIES) if named == "all" else [named]
    results = {
        topology: run_topology(source, python, binary, topology, names) for topology in topologies
    }
    print("\n| topology | passed | failed | skipped |\n|---|---|---|---|")
    for topology, (totals, _, _) in results.items():
        print(row(topology, totals))
    for topology, (_, reasons, open_failures) in results.items():
        print(f"\nFailures, {topology}:")
        for what, count in reasons.most_common():
            print(f"- {what}: {count}")
        for name, text in open_failures:
            lines = [line for line in text.splitlines() if line.strip()]
            errors = [line[2:].strip() for line in lines if line.startswith("E ")]
            print(f"\n{name}\n    {(errors or lines or ['?'])[0][:300]}")
            print(f"    {(errors or lines or ['?'])[-1][:300]}")


if __name__ == "__main__":
    main()
