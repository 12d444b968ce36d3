"""Calls for `calls.py` that in Rust set a concern or a read preference of their own.

PyMongo sets them on a handle, from which the calls take them.
"""

from pymongo import DeleteOne, IndexModel, MongoClient, ReadPreference, ReturnDocument, WriteConcern
from pymongo.read_concern import ReadConcern

NONE = {"a": 77}
SET = {"$set": {"b": 2}}
UP = [("a", 1)]
MAJORITY = WriteConcern("majority")


def own_options(client):
    """Returns the calls with their names, in order."""
    things = client.app.things
    return (
        writes(things.with_options(write_concern=MAJORITY))
        + names(client, client.app)
        + reads(client.app, things)
        + cursor_commands(client.app)
        + [("drop_database with a concern", lambda: drop_database(*client.address))]
    )


def writes(things):
    return [
        ("insert_one with a concern", lambda: things.insert_one({"_id": 1})),
        ("insert_many with a concern", lambda: things.insert_many([{"_id": 2}, {"_id": 3}])),
        ("update_one with a concern", lambda: things.update_one(NONE, SET)),
        ("update_many with a concern", lambda: things.update_many(NONE, SET)),
        ("replace_one with a concern", lambda: things.replace_one(NONE, {"a": 1})),
        ("delete_one with a concern", lambda: things.delete_one(NONE)),
        ("delete_many with a concern", lambda: things.delete_many(NONE)),
        ("find_one_and_update with a concern", lambda: things.find_one_and_update(NONE, SET)),
        (
            "find_one_and_replace with a concern",
            lambda: things.find_one_and_replace(
                NONE, {"a": 1}, upsert=True, return_document=ReturnDocument.AFTER
            ),
        ),
        ("find_one_and_delete with a concern", lambda: things.find_one_and_delete(NONE)),
        ("bulk_write with a concern", lambda: things.bulk_write([DeleteOne(NONE)])),
        ("create_index with a concern", lambda: things.create_index(UP, name="a_1")),
        (
            "create_indexes with a concern",
            lambda: things.create_indexes([IndexModel([("b", 1)], name="b_1")]),
        ),
        ("drop_index with a concern", lambda: things.drop_index("b_1")),
        ("drop_indexes with a concern", lambda: things.drop_indexes()),
        ("aggregate with both concerns", lambda: with_both_concerns(things)),
    ]


def with_both_concerns(things):
    """Writes the result of a pipeline to another collection."""
    both = things.with_options(read_concern=ReadConcern("majority"))
    return list(both.aggregate([{"$out": "copies"}]))


def names(client, db):
    def durable(name):
        return db.get_collection(name, write_concern=MAJORITY)

    return [
        (
            "aggregate a database with a concern",
            lambda: list(
                client.get_database("app", write_concern=MAJORITY).aggregate(
                    [{"$documents": [{"a": 1}]}, {"$out": "more"}]
                )
            ),
        ),
        ("rename with a concern", lambda: durable("copies").rename("renamed")),
        ("drop with a concern", lambda: durable("renamed").drop()),
    ]


def drop_database(host, port):
    """Drops a database with the only write concern that this call has, that of its client."""
    with MongoClient(host, port, w="majority") as durable:
        durable.drop_database("app", comment="c")


def reads(db, things):
    own = {
        "read_concern": ReadConcern("majority"),
        "read_preference": ReadPreference.SECONDARY_PREFERRED,
    }
    things = things.with_options(**own)
    db = db.with_options(**own)
    return [
        ("find with own options", lambda: list(things.find({}, batch_size=2))),
        ("find_one with own options", lambda: things.find_one(NONE)),
        ("aggregate with own options", lambda: list(things.aggregate([{"$match": NONE}]))),
        (
            "aggregate a database with own options",
            lambda: list(db.aggregate([{"$documents": [{"a": 1}]}])),
        ),
        ("count_documents with own options", lambda: things.count_documents(NONE)),
        ("estimated_document_count with own options", lambda: things.estimated_document_count()),
        ("distinct with own options", lambda: things.distinct("a", NONE)),
        ("watch with own options", lambda: things.watch().close()),
        ("watch a database with own options", lambda: db.watch().close()),
    ]


def cursor_commands(db):
    def in_batches():
        secondary = ReadPreference.SECONDARY
        cursor = db.cursor_command({"find": "things", "batchSize": 1}, read_preference=secondary)
        list(cursor.batch_size(2))

    def tail():
        command = {"find": "small", "tailable": True, "awaitData": True, "batchSize": 1}
        cursor = db.cursor_command(command, max_await_time_ms=20)
        cursor.next()
        assert cursor.try_next() is None
        cursor.close()

    return [
        ("run_cursor_command in batches", in_batches),
        (
            "a capped collection",
            lambda: db.command({"create": "small", "capped": True, "size": 4096}),
        ),
        ("a document to tail", lambda: db.small.insert_one({"_id": 1})),
        ("run_cursor_command that waits", tail),
    ]
