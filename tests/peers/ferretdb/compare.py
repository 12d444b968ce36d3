"""Compares the simulated server with FerretDB on random operations.

    cargo build --release -p onionskin-simulations
    python=$(tests/peers/pymongo/build.sh)
    $python tests/peers/ferretdb/compare.py target/release/onionskin [SEED] [COUNT]

With SEED, the cases are those of the example `compare_with_mingo`: COUNT of each kind (2,000 by
default). Without SEED, the standard input has the cases, one in a line of Extended JSON.

    ONIONSKIN_FERRETDB_CASES=100000 $python tests/peers/ferretdb/compare.py target/release/onionskin

With this variable, cases of one seed after the other are run, from SEED (1 by default), until so
many were compared. Cases with something that FerretDB is known not to implement are left out before
they run.

Each operation runs on both servers. The answers must be equal byte by byte: types and values, the
order of fields, and the order of documents. An operation that FerretDB does not implement is not
compared. A difference with a reason in RULES is counted under that reason. The exit code is 1 if
there is a difference without a reason.
"""

import collections
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

import bson
import pymongo
from bson import json_util
from bson.raw_bson import RawBSONDocument

from rules import explanation, is_claimed, is_unevaluated, not_implemented

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# The number of cases that must be compared; 0 for all cases of one seed.
TARGET = int(os.environ.get("ONIONSKIN_FERRETDB_CASES", "0"))

# The number of generated cases of each kind, if there is a TARGET, as a multiple of COUNT. FerretDB
# has almost no operators of expressions, so most pipelines are left out.
SHARES = {"filter": 1, "find": 1, "update": 1, "pipeline": 8}

# The result of a case that is not compared.
REFUSED = "refused by FerretDB"

# The number of cases whose documents are in the collection at the same time.
BATCH = 8

# The difference between the lowest `_id` of a case and that of the next case.
IDS = 16

# The number of clients, each with a database of its own.
WORKERS = 3

# The number of differences of a kind that are printed.
PRINTED = 20

RAW = bson.CodecOptions(document_class=RawBSONDocument)

# An operation that runs longer ends the comparison.
TIMEOUT_MILLISECONDS = 60_000


@contextlib.contextmanager
def started(command, stream, pattern):
    """Starts a server, and yields the text that the pattern finds in its output."""
    process = subprocess.Popen(command, **{stream: subprocess.PIPE}, text=True)
    try:
        output = getattr(process, stream)
        found = next((match for match in map(pattern.search, output) if match), None)
        if found is None:
            sys.exit(f"{command[0]} ended before it listened")
        # A server whose output is not read stops at a full pipe.
        threading.Thread(target=lambda: collections.deque(output, 0), daemon=True).start()
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def ferretdb(folder):
    """Starts FerretDB with its data in the folder."""
    build = subprocess.run([HERE / "build.sh"], stdout=subprocess.PIPE, text=True, check=True)
    command = [build.stdout.strip(), "--handler=sqlite", "--telemetry=disable", "--debug-addr=-"]
    command += [f"--sqlite-url=file:{folder}/", f"--state-dir={folder}"]
    command += ["--listen-addr=127.0.0.1:0"]
    return started(command, "stderr", re.compile(r"Listening on TCP (\S+?)\.\.\."))


def simulated(binary):
    """Starts the simulated server."""
    pattern = re.compile(r"mongodb://([^/\s]+)")
    return started([binary, "serve", "--standalone"], "stdout", pattern)


class Server:
    """A server that runs the operations of the cases in a database of its own."""

    def __init__(self, address, database):
        client = pymongo.MongoClient(
            address, directConnection=True, socketTimeoutMS=TIMEOUT_MILLISECONDS, retryWrites=False
        )
        self.database = client[database]

    def command(self, command):
        """Returns the reply, or an error as a pair of code and message."""
        try:
            return self.database.command(command, codec_options=RAW)
        except pymongo.errors.OperationFailure as error:
            return error.code, error.details.get("errmsg", "")

    def fill(self, name, documents):
        """Replaces the documents of a collection. Returns the errors by the place of a document."""
        self.database[name].delete_many({})
        try:
            if documents:
                self.database[name].insert_many(documents, ordered=False)
        except pymongo.errors.BulkWriteError as error:
            return {e["index"]: (e["code"], e["errmsg"]) for e in error.details["writeErrors"]}
        return {}

    def read(self, command):
        """Returns the documents of a cursor as bytes, or an error."""
        reply = self.command(command)
        if isinstance(reply, tuple):
            return reply
        return [document.raw for document in reply["cursor"]["firstBatch"]]

    def answers(self, cases):
        """Returns the answer to each case of a batch."""
        documents = []
        for place, case in enumerate(cases):
            for id, document in enumerate(case["documents"]):
                documents.append({**document, "_id": place * IDS + id})
        errors = self.fill("cases", documents)
        refused = {documents[place]["_id"] // IDS: error for place, error in errors.items()}
        answers = [
            refused[place] if place in refused else self.answer(place, case)
            for place, case in enumerate(cases)
        ]
        if not any(case["kind"] == "update" for case in cases):
            return answers
        updated = {}
        for document in self.database.cases.with_options(RAW).find():
            updated.setdefault(document["_id"] // IDS, []).append(document.raw)
        return [
            # The document counts also after an error.
            answer if case["kind"] != "update" else (answer, updated.get(place))
            for place, (case, answer) in enumerate(zip(cases, answers))
        ]

    def answer(self, place, case):
        """Runs an operation on the documents of its case."""
        operation = dict(case["operation"])
        own = {"_id": {"$gte": place * IDS, "$lt": (place + 1) * IDS}}
        if case["kind"] == "update":
            update = {"q": {"_id": place * IDS}, "u": operation.pop("update"), **operation}
            reply = self.command({"update": "cases", "updates": [update]})
            if isinstance(reply, tuple):
                return reply
            for error in reply.get("writeErrors", []):
                return error["code"], error["errmsg"]
            return {"n": reply["n"], "nModified": reply["nModified"]}
        if "pipeline" in operation:
            if "other" in operation:
                self.fill("other", operation["other"])
            pipeline = [{"$match": own}, *operation["pipeline"]]
            return self.read({"aggregate": "cases", "pipeline": pipeline, "cursor": {}})
        filter = {"$and": [own, operation["filter"]]} if operation["filter"] else own
        return self.read({"find": "cases", **operation, "filter": filter})


def error_of(answer):
    """Returns the error of an answer, or None. An update answers with the document as well."""
    if isinstance(answer, tuple) and not isinstance(answer[0], int):
        answer = answer[0]
    return answer if isinstance(answer, tuple) else None


def readable(answer):
    """Returns the answer with documents instead of bytes."""
    if isinstance(answer, (list, tuple)):
        return [readable(item) for item in answer]
    return bson.decode(answer) if isinstance(answer, bytes) else answer


def compared(case, ours, theirs):
    """Returns the result of a comparison, and the differing answers."""
    our_error, their_error = error_of(ours), error_of(theirs)
    if not_implemented(their_error):
        return REFUSED, None
    if our_error and their_error and our_error[0] == their_error[0]:
        # The messages may differ. After an update, the documents may not.
        theirs = our_error if theirs is their_error else (our_error, theirs[1])
    if ours == theirs:
        return "equal", None
    ours, theirs = readable(ours), readable(theirs)
    if is_unevaluated(case, theirs):
        return REFUSED, None
    reason = explanation(case, ours, theirs)
    return (reason, None) if reason else ("different", (ours, theirs))


def cases_of(kind, seed, count):
    """Returns the lines of the cases of a seed."""
    command = ["cargo", "run", "--release", "--quiet", "-p", "onionskin-deployment"]
    command += ["--example", "compare_with_mingo", "--", "cases", kind, str(seed), str(count)]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()


def rounds(arguments):
    """Yields the lines of cases: once, or without end if there is a TARGET."""
    seed, count = (*map(int, arguments), *(1, 2000)[len(arguments) :])
    if TARGET:
        for seed in itertools.count(seed):
            shares = SHARES.items()
            yield [line for kind, share in shares for line in cases_of(kind, seed, share * count)]
    yield cases_of("all", seed, count) if arguments else sys.stdin


def batches(lines):
    """Returns lists of cases of one kind."""
    batch = []
    for line in lines:
        case = json_util.loads(line, json_options=json_util.CANONICAL_JSON_OPTIONS)
        if TARGET and not is_claimed(case):
            continue
        if len(batch) == BATCH or (batch and batch[0]["kind"] != case["kind"]):
            yield batch
            batch = []
        batch.append(case)
    if batch:
        yield batch


def main():
    binary, *arguments = sys.argv[1:]
    # The servers end with the script.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    counts = collections.defaultdict(collections.Counter)
    printed = collections.Counter()
    local = threading.local()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ours = stack.enter_context(simulated(binary))
        theirs = stack.enter_context(ferretdb(folder))
        workers = stack.enter_context(concurrent.futures.ThreadPoolExecutor(WORKERS))

        def run(cases):
            if not hasattr(local, "servers"):
                database = f"compared_{threading.get_ident()}"
                local.servers = [Server(address, database) for address in (ours, theirs)]
            simulated_server, ferretdb_server = local.servers
            their_answers = ferretdb_server.answers(cases)
            refused = [not_implemented(error_of(answer)) for answer in their_answers]
            asked = [] if all(refused) else simulated_server.answers(cases)
            results = []
            for case, our, their in itertools.zip_longest(cases, asked, their_answers):
                results.append((case, *compared(case, our, their)))
            return results

        for lines in rounds(arguments):
            results = itertools.chain.from_iterable(workers.map(run, batches(lines)))
            for case, result, difference in results:
                kind = case["kind"]
                counts[kind][result] += 1
                if difference and printed[kind] < PRINTED:
                    printed[kind] += 1
                    line = json_util.dumps(case, json_options=json_util.CANONICAL_JSON_OPTIONS)
                    print(f"{line}\nours     {difference[0]}\nFerretDB {difference[1]}\n")
            total = sum(results.total() - results[REFUSED] for results in counts.values())
            if total >= TARGET:
                break
            print(f"{total} of {TARGET} cases are compared", file=sys.stderr)
    for kind, results in counts.items():
        for result, count in results.most_common():
            print(f"{kind}: {count} {result}")
    print(f"{total} cases were compared")
    if not counts:
        sys.exit("there are no cases")
    sys.exit(any(results["different"] for results in counts.values()))


main()
