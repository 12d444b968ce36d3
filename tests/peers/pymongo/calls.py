"""Makes calls whose commands are compared with those of the same calls in Rust.

Usage: calls.py URI SCENE

Before each call a `ping` tells its name. `tests/tests/peers/wire` makes the same calls, by scenes.
"""

import sys

import pymongo
from pymongo import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReadPreference,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
    WriteConcern,
)
from pymongo.collation import Collation
from pymongo.cursor import CursorType
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.server_api import ServerApi

import more_calls
import own_options

FILTER = {"a": 1}
SET = {"$set": {"b": 2}}
COLLATION = Collation(locale="en", strength=2)
UP = [("a", 1)]


def calls(client):
    """Returns the calls with their names, in order."""
    db = client.app
    things = db.things
    majority = things.with_options(
        read_concern=ReadConcern("majority"), write_concern=WriteConcern(w="majority", wtimeout=500)
    )
    silent = things.with_options(write_concern=WriteConcern(w=0))
    secondary = things.with_options(read_preference=ReadPreference.SECONDARY_PREFERRED)

    def with_session(call):
        with client.start_session() as session:
            return call(session)

    def transaction(end):
        def run(session):
            session.start_transaction(
                read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority")
            )
            things.insert_one({"_id": end}, session=session)
            list(things.find(FILTER, session=session))
            getattr(session, end)()

        return lambda: with_session(run)

    def watched(stream):
        stream.close()

    return [
        ("insert_one", lambda: things.insert_one({"_id": 1, "a": 1})),
        (
            "insert_one with options",
            lambda: things.insert_one({"_id": 2}, bypass_document_validation=True, comment="c"),
        ),
        ("insert_many", lambda: things.insert_many([{"_id": n, "a": n} for n in range(3, 6)])),
        ("insert_many unordered", lambda: things.insert_many([{"_id": 6}], ordered=False)),
        ("insert with a concern", lambda: majority.insert_one({"_id": 7})),
        ("create_index", lambda: things.create_index(UP, name="a_1")),
        (
            "create_index with options",
            lambda: things.create_index(
                [("b", -1), ("c", 1)],
                name="own",
                sparse=True,
                hidden=True,
                comment="c",
            ),
        ),
        (
            "create_indexes",
            lambda: things.create_indexes(
                [
                    IndexModel(
                        [("d", 1)],
                        name="d_1",
                        unique=True,
                        partialFilterExpression={"d": {"$gt": 1}},
                        collation=COLLATION,
                    )
                ]
            ),
        ),
        ("list_indexes", lambda: list(things.list_indexes(comment="c"))),
        ("drop_index", lambda: things.drop_index("own")),
        ("find", lambda: list(things.find(FILTER))),
        (
            "find with shape",
            lambda: list(
                things.find(FILTER, projection={"a": 1}, sort=UP, skip=1, limit=5, batch_size=2)
            ),
        ),
        (
            "find with options",
            lambda: list(
                things.find(
                    FILTER,
                    collation=COLLATION,
                    comment="c",
                    let={"x": 1},
                    allow_disk_use=True,
                    no_cursor_timeout=True,
                    max_time_ms=5000,
                    hint="_id_",
                )
            ),
        ),
        (
            "find with bounds",
            lambda: list(
                things.find({}, hint=UP, min={"a": 0}, max={"a": 9}, return_key=True)
            ),
        ),
        ("find with places", lambda: list(things.find({}, show_record_id=True, limit=2))),
        ("find in batches", lambda: list(things.find({}, batch_size=2, comment="c"))),
        ("find and close", lambda: first(things.find({}, batch_size=2))),
        ("find_one", lambda: things.find_one(FILTER)),
        ("find_one with options", lambda: things.find_one(FILTER, sort=UP, skip=1, comment="c")),
        ("find with a concern", lambda: list(majority.find(FILTER))),
        ("find on a secondary", lambda: list(secondary.find(FILTER))),
        ("aggregate", lambda: list(things.aggregate([{"$match": FILTER}]))),
        (
            "aggregate with options",
            lambda: list(
                things.aggregate(
                    [{"$match": FILTER}],
                    allowDiskUse=True,
                    batchSize=3,
                    hint={"a": 1},
                    let={"x": 1},
                    comment="c",
                    collation=COLLATION,
                    maxTimeMS=5000,
                )
            ),
        ),
        ("aggregate to a collection", lambda: list(majority.aggregate([{"$out": "copies"}]))),
        ("aggregate on a database", lambda: list(db.aggregate([{"$documents": [{"a": 1}]}]))),
        ("count_documents", lambda: things.count_documents(FILTER)),
        (
            "count_documents with options",
            lambda: things.count_documents(
                FILTER, skip=1, limit=2, hint="a_1", collation=COLLATION, comment="c"
            ),
        ),
        ("estimated_document_count", lambda: things.estimated_document_count(comment="c")),
        ("distinct", lambda: things.distinct("a")),
        (
            "distinct with options",
            lambda: things.distinct("a", FILTER, collation=COLLATION, comment="c", hint="a_1"),
        ),
        ("update_one", lambda: things.update_one(FILTER, SET)),
        (
            "update_one with options",
            lambda: things.update_one(
                {"a": 77},
                {"$set": {"l.$[e]": 1}},
                array_filters=[{"e": 1}],
                hint="a_1",
                collation=COLLATION,
                let={"x": 1},
                comment="c",
                sort={"a": 1},
                bypass_document_validation=True,
            ),
        ),
        ("update_one with a pipeline", lambda: things.update_one(FILTER, [SET], upsert=True)),
        ("update_many", lambda: things.update_many(FILTER, SET)),
        ("update_many with an upsert", lambda: things.update_many({"_id": 20}, SET, upsert=True)),
        ("replace_one", lambda: things.replace_one({"_id": 1}, {"a": 1})),
        (
            "replace_one with options",
            lambda: things.replace_one(
                {"_id": 21}, {"a": 1}, upsert=True, hint="_id_", comment="c", let={"x": 1}
            ),
        ),
        ("delete_one", lambda: things.delete_one({"_id": 20})),
        (
            "delete_many with options",
            lambda: things.delete_many(
                {"a": 77}, hint="a_1", collation=COLLATION, comment="c", let={"x": 1}
            ),
        ),
        ("find_one_and_update", lambda: things.find_one_and_update(FILTER, SET)),
        (
            "find_one_and_update with options",
            lambda: things.find_one_and_update(
                FILTER,
                SET,
                projection={"a": 1},
                sort=UP,
                upsert=True,
                return_document=pymongo.ReturnDocument.AFTER,
                hint="a_1",
                let={"x": 1},
                comment="c",
            ),
        ),
        ("find_one_and_replace", lambda: things.find_one_and_replace({"_id": 21}, {"a": 2})),
        ("find_one_and_delete", lambda: things.find_one_and_delete({"_id": 21}, sort=UP)),
        (
            "bulk_write of a collection",
            lambda: things.bulk_write(
                [
                    InsertOne({"_id": 30}),
                    UpdateOne({"_id": 30}, SET, upsert=True),
                    UpdateMany(FILTER, SET, hint="a_1"),
                    ReplaceOne({"_id": 30}, {"a": 3}),
                    DeleteOne({"_id": 30}),
                    DeleteMany({"a": 77}, collation=COLLATION),
                ],
                comment="c",
                let={"x": 1},
            ),
        ),
        (
            "bulk_write of a client",
            lambda: client.bulk_write(
                [
                    InsertOne({"_id": 31}, namespace="app.things"),
                    UpdateOne({"_id": 31}, SET, namespace="app.things", upsert=True),
                    ReplaceOne({"_id": 31}, {"a": 3}, namespace="app.others"),
                    DeleteMany({"a": 77}, namespace="app.things", collation=COLLATION),
                ],
                comment="c",
                verbose_results=True,
            ),
        ),
        ("unacknowledged", lambda: silent.insert_one({"_id": 40})),
        ("create_collection", lambda: db.create_collection("plain")),
        (
            "create_collection with options",
            lambda: db.create_collection(
                "small",
                capped=True,
                size=4096,
                max=10,
                validator={"a": 1},
                validationLevel="moderate",
                validationAction="warn",
                collation=COLLATION,
                comment="c",
            ),
        ),
        ("tailable", lambda: tail(db.small)),
        ("rename", lambda: db.plain.rename("renamed", dropTarget=True)),
        ("drop", lambda: db.renamed.drop(comment="c")),
        ("list_collections", lambda: list(db.list_collections(filter={"name": "small"}))),
        ("list_collection_names", lambda: db.list_collection_names()),
        ("list_databases", lambda: list(client.list_databases(comment="c"))),
        ("list_database_names", lambda: client.list_database_names()),
        ("run_command", lambda: db.command({"count": "things", "query": FILTER})),
        (
            "run_command on a secondary",
            lambda: db.command({"count": "things"}, read_preference=ReadPreference.SECONDARY),
        ),
        ("in a session", lambda: with_session(lambda s: things.find_one(FILTER, session=s))),
        ("commit", transaction("commit_transaction")),
        ("abort", transaction("abort_transaction")),
        ("watch a collection", lambda: watched(things.watch())),
        (
            "watch with options",
            lambda: watched(
                things.watch(
                    [{"$match": FILTER}],
                    full_document="updateLookup",
                    full_document_before_change="whenAvailable",
                    batch_size=3,
                    collation=COLLATION,
                    show_expanded_events=True,
                    comment="c",
                )
            ),
        ),
        ("watch a database", lambda: watched(db.watch())),
        ("watch a client", lambda: watched(client.watch())),
        ("drop a database", lambda: client.drop_database("app")),
    ]


def first(cursor):
    """Reads one document and closes the cursor."""
    cursor.next()
    cursor.close()


def tail(small):
    """Reads from a tailable cursor until it waits once in vain."""
    small.insert_one({"_id": 1, "a": 1})
    cursor = small.find({}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(20)
    cursor.next()
    for _ in cursor:
        raise AssertionError("there is one document")
    cursor.close()


SCENES = {
    "calls": calls,
    "options": more_calls.options,
    "routed": more_calls.routed,
    "declared": more_calls.declared,
    "own": own_options.own_options,
}


def main():
    uri, scene = sys.argv[1:]
    options = {"serverSelectionTimeoutMS": 10_000}
    if scene == "declared":
        options["server_api"] = ServerApi("1", strict=True, deprecation_errors=True)
    with pymongo.MongoClient(uri, **options) as client:
        for name, call in SCENES[scene](client):
            client.admin.command({"ping": 1, "comment": name})
            try:
                call()
            except OperationFailure as error:
                if scene == "calls":
                    raise
                print(f"{name}: {error}")
    print("done")


main()
