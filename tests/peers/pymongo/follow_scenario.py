"""Writes with PyMongo while the servers suffer from a scenario, and reads the documents afterwards.

Usage: follow_scenario.py URI SECONDS
Inserts documents with the write concern `majority` for SECONDS. An insert that fails is counted:
its document may be there or not. Prints a JSON summary. The exit code is 0 if each acknowledged
document is there once, and an insert after the end of the scenario succeeds.
"""

import json
import sys
import time

import pymongo
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

# The pause after a failed insert.
PAUSE_SECONDS = 0.05


def main():
    uri, seconds = sys.argv[1], float(sys.argv[2])
    client = MongoClient(uri, serverSelectionTimeoutMS=20_000, heartbeatFrequencyMS=500)
    log = client.peer.get_collection(
        "scenario", write_concern=WriteConcern(w="majority"), read_concern=ReadConcern("majority")
    )
    acknowledged, failed, errors = set(), set(), []
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        try:
            log.insert_one({"_id": number})
            acknowledged.add(number)
        except PyMongoError as error:
            failed.add(number)
            errors.append(repr(error)[:200])
            time.sleep(PAUSE_SECONDS)
    log.insert_one({"_id": number + 1})
    acknowledged.add(number + 1)
    found = [document["_id"] for document in log.find()]
    summary = {
        "pymongo": pymongo.version,
        "acknowledged": len(acknowledged),
        "failed": len(failed),
        "errors": errors[:3],
        "lost": sorted(acknowledged.difference(found)),
        "unexpected": sorted(set(found) - acknowledged - failed),
        "doubled": len(found) - len(set(found)),
    }
    print(json.dumps(summary))
    is_good = not (summary["lost"] or summary["unexpected"] or summary["doubled"])
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
