"""Drives a deployment of two services behind a load balancer with PyMongo.

Checks that a cursor stays with its service, that closing a cursor ends it on its service, and that
an error of one service clears the pool of that service only.

Usage: load_balanced.py URI
Prints a JSON summary. The exit code is 0 if all checks passed, and 1 otherwise.
"""

import json
import sys

import pymongo
from pymongo import MongoClient, monitoring
from pymongo.errors import AutoReconnect, CursorNotFound

DOCUMENTS = 100
CURSORS = 4
MOST_CURSORS = 20


class Watch(monitoring.CommandListener, monitoring.ConnectionPoolListener):
    """Records the events of commands and of cleared pools."""

    def __init__(self):
        self.commands, self.replies, self.cleared = [], {}, []

    def started(self, event):
        self.commands.append(event)

    def succeeded(self, event):
        self.replies[event.request_id] = event.reply

    def pool_cleared(self, event):
        self.cleared.append(event.service_id)

    def ignore(self, event):
        pass

    failed = pool_created = pool_ready = pool_closed = ignore
    connection_created = connection_ready = connection_closed = ignore
    connection_check_out_started = connection_check_out_failed = ignore
    connection_checked_out = connection_checked_in = ignore

    def of(self, name):
        return [command for command in self.commands if command.command_name == name]


def check(summary, name, ok, detail=None):
    summary["checks"][name] = bool(ok)
    if not ok:
        summary["failures"].append({"check": name, "detail": repr(detail)})


def cursors(client, watch, summary):
    items = client.peer.balanced
    items.drop()
    items.insert_many([{"_id": i} for i in range(DOCUMENTS)])
    watch.commands.clear()
    opened = [items.find().batch_size(7) for _ in range(CURSORS)]
    counts = [0] * CURSORS
    for _ in range(DOCUMENTS):
        for place, cursor in enumerate(opened):
            next(cursor)
            counts[place] += 1
    check(summary, "all_documents", counts == [DOCUMENTS] * CURSORS, counts)
    seen = {command.service_id for command in watch.commands}
    check(summary, "two_services", len(seen) == 2 and None not in seen, seen)
    homes = {}
    for find in watch.of("find"):
        homes[watch.replies[find.request_id]["cursor"]["id"]] = find.service_id
    fetches = watch.of("getMore")
    stayed = [homes[fetch.command["getMore"]] == fetch.service_id for fetch in fetches]
    check(summary, "cursors_stay", len(fetches) > CURSORS and all(stayed), stayed)

    cursor = items.find().batch_size(7)
    next(cursor)
    cursor.close()
    killed = watch.of("killCursors")
    reply = watch.replies.get(killed[-1].request_id) if killed else None
    check(summary, "cursor_killed", reply and len(reply["cursorsKilled"]) == 1, reply)


def open_on_both(client, watch, session=None):
    """Opens cursors until each service has one; returns them and one cursor id per service."""
    opened, of_service = [], {}
    while len(of_service) < 2 and len(opened) < MOST_CURSORS:
        opened.append(client.peer.balanced.find(session=session).batch_size(7))
        next(opened[-1])
        of_service[watch.of("find")[-1].service_id] = opened[-1].cursor_id
    return opened, of_service


def foreign_cursor(client, watch, summary):
    # Only the session of a cursor may use the cursor.
    session = client.start_session()
    opened, found = open_on_both(client, watch, session)
    check(summary, "two_cursors", len(found) == 2, found)
    # The test sends getMore as a plain command. The driver pins only its own cursors, so the
    # command uses any connection that no cursor holds.
    codes = set()
    for _ in range(2 * len(opened)):
        for owner, cursor in found.items():
            try:
                client.peer.command(
                    "getMore", cursor, collection="balanced", batchSize=1, session=session
                )
                codes.add((watch.commands[-1].service_id == owner, None))
            except CursorNotFound as error:
                codes.add((watch.commands[-1].service_id == owner, error.code))
    check(summary, "cursors_of_others_are_unknown",
          codes <= {(True, None), (False, 43)} and (False, 43) in codes, codes)
    for cursor in opened:
        cursor.close()
    session.end_session()


def lost_service(client, watch, summary):
    items = client.peer.balanced
    opened, _ = open_on_both(client, watch)
    for cursor in opened:
        cursor.close()
    watch.cleared.clear()
    client.admin.command(
        "configureFailPoint", "failCommand", mode={"times": 1},
        data={"failCommands": ["aggregate"], "closeConnection": True},
    )
    told = watch.commands[-1].service_id
    errors = 0
    for _ in range(4 * len(opened)):
        try:
            list(items.aggregate([{"$match": {"_id": 1}}]))
        except AutoReconnect:
            errors += 1
    # The driver retries the read, so the application sees no error, and only the pool of one
    # service was cleared.
    check(summary, "reads_are_repeated", errors == 0, errors)
    check(summary, "one_service_cleared", watch.cleared == [told], (watch.cleared, told))
    check(summary, "still_there", items.count_documents({}) == DOCUMENTS)


def main():
    summary = {"pymongo": pymongo.version, "checks": {}, "failures": []}
    try:
        watch = Watch()
        client = MongoClient(sys.argv[1], event_listeners=[watch], serverSelectionTimeoutMS=10_000)
        cursors(client, watch, summary)
        foreign_cursor(client, watch, summary)
        lost_service(client, watch, summary)
        client.close()
    except Exception as error:  # the summary reports every failure
        summary["failures"].append({"check": "run", "detail": repr(error)})
    print(json.dumps(summary, indent=2))
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
