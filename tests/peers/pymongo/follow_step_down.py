"""Drives a deployment with PyMongo: CRUD, batches, and retryable writes through a step-down.

Usage: follow_step_down.py URI
Prints a JSON summary. The exit code is 0 if all checks passed, and 1 otherwise.
"""

import json
import sys
import threading
import time

import pymongo
from pymongo import MongoClient, ReturnDocument, UpdateOne
from pymongo.errors import DuplicateKeyError, NotPrimaryError, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

WRITES_BEFORE, WRITES_AFTER = 200, 200


def check(summary, name, ok, detail=None):
    summary["checks"][name] = bool(ok)
    if not ok:
        summary["failures"].append({"check": name, "detail": repr(detail)})


def crud(client, summary):
    items = client.peer.items
    items.drop()
    result = items.insert_many([{"_id": i, "n": i, "even": i % 2 == 0} for i in range(1000)])
    check(summary, "insert_many", len(result.inserted_ids) == 1000)
    found = [d["_id"] for d in items.find().sort("_id", 1).batch_size(70)]
    check(summary, "find_in_batches", found == list(range(1000)), len(found))
    result = items.update_many({"even": True}, {"$set": {"seen": 1}})
    check(summary, "update_many", (result.matched_count, result.modified_count) == (500, 500))
    result = items.update_one({"_id": "new"}, {"$set": {"n": 1}}, upsert=True)
    check(summary, "upsert", result.upserted_id == "new", result.raw_result)
    result = items.delete_many({"even": False})
    check(summary, "delete_many", result.deleted_count == 500, result.raw_result)
    check(summary, "count", items.count_documents({}) == 501)
    check(summary, "distinct", items.distinct("seen") == [1])
    changed = items.find_one_and_update(
        {"_id": 2}, {"$inc": {"n": 5}}, return_document=ReturnDocument.AFTER
    )
    check(summary, "find_one_and_update", changed and changed["n"] == 7, changed)
    try:
        items.insert_one({"_id": 2})
        check(summary, "duplicate_key", False)
    except DuplicateKeyError as error:
        check(summary, "duplicate_key", error.code == 11000)
    bulk = items.bulk_write([UpdateOne({"_id": i}, {"$set": {"b": 1}}) for i in (0, 2, 4)])
    check(summary, "bulk_write", bulk.modified_count == 3, bulk.bulk_api_result)
    items.create_index([("n", 1)], name="by_n")
    check(summary, "list_indexes", "by_n" in items.index_information())
    check(summary, "list_collections", "items" in client.peer.list_collection_names())
    check(summary, "list_databases", "peer" in client.list_database_names())
    unacknowledged = client.peer.get_collection("quiet", write_concern=WriteConcern(w=0))
    unacknowledged.insert_one({"_id": 1})
    deadline = time.monotonic() + 5
    while client.peer.quiet.count_documents({}) == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    check(summary, "unacknowledged_insert", client.peer.quiet.count_documents({}) == 1)


def step_down(client, summary):
    log = client.peer.get_collection("log", write_concern=WriteConcern(w="majority"))
    log.drop()
    old = client.primary
    failures, acknowledged, stepped = [], [], threading.Event()
    summary["sent_without_number"] = 0

    def insert(number):
        try:
            log.insert_one({"_id": number})
        except NotPrimaryError as error:
            # PyMongo checks after the check-out whether its server is a primary. If the server has
            # stepped down since the selection, PyMongo sends the write without a transaction number
            # and does not retry it. Such a refusal has no label, and nothing was written.
            if error.has_error_label("RetryableWriteError"):
                raise
            summary["sent_without_number"] += 1
            log.insert_one({"_id": number})

    def write():
        for number in range(WRITES_BEFORE + WRITES_AFTER):
            if number == WRITES_BEFORE:
                stepped.wait(10)
            try:
                insert(number)
                acknowledged.append(number)
            except PyMongoError as error:
                failures.append(repr(error))

    writer = threading.Thread(target=write)
    started = time.monotonic()
    writer.start()
    while len(acknowledged) < WRITES_BEFORE // 2 and writer.is_alive():
        time.sleep(0.001)
    try:
        client.admin.command("replSetStepDown", 30)
    except OperationFailure as error:
        check(summary, "step_down_command", False, error)
    stepped.set()
    writer.join()
    summary["step_down_seconds"] = round(time.monotonic() - started, 3)
    check(summary, "all_writes_acknowledged", not failures, failures[:3])
    check(summary, "new_primary", client.primary not in (None, old), (old, client.primary))
    stored = [d["_id"] for d in log.find().sort("_id", 1)]
    check(summary, "each_write_once", stored == acknowledged, (len(stored), len(acknowledged)))
    summary["old_primary"], summary["new_primary"] = str(old), str(client.primary)


def main():
    summary = {"pymongo": pymongo.version, "checks": {}, "failures": []}
    try:
        client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=10_000, heartbeatFrequencyMS=500)
        hello = client.admin.command("hello")
        crud(client, summary)
        if "setName" in hello:
            step_down(client, summary)
    except Exception as error:  # the summary reports every failure
        summary["failures"].append({"check": "run", "detail": repr(error)})
    print(json.dumps(summary, indent=2))
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
