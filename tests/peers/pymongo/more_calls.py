"""Further calls for `calls.py`: options, read preferences behind a router, and a declared API.

A server may refuse a call. Its command is compared nevertheless.
"""

from bson import Timestamp
from pymongo import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReadPreference,
    ReplaceOne,
    ReturnDocument,
    UpdateMany,
    UpdateOne,
    WriteConcern,
)
from pymongo.client_session import TransactionOptions
from pymongo.collation import Collation
from pymongo.cursor import CursorType
from pymongo.operations import SearchIndexModel
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, Secondary

NONE = {"a": 77}
ITEMS = {"$set": {"l.$[e]": 1}}
FILTERS = [{"e": 1}]
SET = {"$set": {"b": 2}}
COLLATION = Collation(locale="en", strength=2)
UP = [("a", 1)]
LET = {"x": 1}
SEARCH = {"mappings": {"dynamic": True}}


def options(client):
    """Returns calls with the options that other calls do not have."""
    db = client.app
    return (
        writes(db.things)
        + finds_and_changes(db.things)
        + reads(db, db.things)
        + bulk_writes(client, db.things)
        + unacknowledged(client, db)
        + indexes(db.things)
        + search_indexes(db.things)
        + names(client, db)
        + streams(client, db.things)
        + sessions(client, db.things)
    )


def writes(things):
    return [
        ("an index for hints", lambda: things.create_index(UP, name="a_1")),
        (
            "insert_many with options",
            lambda: things.insert_many(
                [{"_id": 1}, {"_id": 2}], bypass_document_validation=True, comment="c"
            ),
        ),
        (
            "update_many with options",
            lambda: things.update_many(
                NONE,
                ITEMS,
                array_filters=FILTERS,
                bypass_document_validation=True,
                collation=COLLATION,
                hint="a_1",
                let=LET,
                comment="c",
            ),
        ),
        (
            "replace_one with more options",
            lambda: things.replace_one(
                NONE, {"a": 1}, bypass_document_validation=True, collation=COLLATION, sort={"a": 1}
            ),
        ),
        (
            "delete_one with options",
            lambda: things.delete_one(
                NONE, collation=COLLATION, hint={"a": 1}, let=LET, comment="c"
            ),
        ),
    ]


def finds_and_changes(things):
    return [
        (
            "find_one_and_update with more options",
            lambda: things.find_one_and_update(
                NONE,
                ITEMS,
                array_filters=FILTERS,
                collation=COLLATION,
                maxTimeMS=5000,
                bypassDocumentValidation=True,
            ),
        ),
        (
            "find_one_and_replace with options",
            lambda: things.find_one_and_replace(
                NONE,
                {"a": 2},
                projection={"a": 1},
                sort=UP,
                upsert=True,
                return_document=ReturnDocument.AFTER,
                hint="a_1",
                let=LET,
                comment="c",
                collation=COLLATION,
                maxTimeMS=5000,
                bypassDocumentValidation=True,
            ),
        ),
        (
            "find_one_and_delete with options",
            lambda: things.find_one_and_delete(
                NONE,
                projection={"a": 1},
                hint="a_1",
                let=LET,
                comment="c",
                collation=COLLATION,
                maxTimeMS=5000,
            ),
        ),
        (
            "delete_one with a journal",
            lambda: things.with_options(write_concern=WriteConcern(j=True)).delete_one(NONE),
        ),
        (
            "find_one_and_delete with a concern",
            lambda: things.with_options(write_concern=WriteConcern(1)).find_one_and_delete(NONE),
        ),
    ]


def reads(db, things):
    snapshot = things.with_options(read_concern=ReadConcern("local"))
    return [
        (
            "find with a whole collation",
            lambda: list(
                things.find(
                    NONE,
                    collation=Collation(
                        locale="en",
                        caseLevel=True,
                        caseFirst="upper",
                        strength=3,
                        numericOrdering=True,
                        alternate="shifted",
                        maxVariable="punct",
                        normalization=True,
                        backwards=False,
                    ),
                )
            ),
        ),
        ("find with partial results", lambda: list(things.find({}, allow_partial_results=True))),
        ("find a negative number", lambda: list(things.find({}, limit=-2))),
        ("find with an exact batch", lambda: list(things.find({}, limit=2, batch_size=2))),
        (
            "find_one with more options",
            lambda: things.find_one(
                NONE,
                projection={"a": 1},
                collation=COLLATION,
                hint=UP,
                max={"a": 9},
                min={"a": 0},
                return_key=True,
                show_record_id=True,
                let=LET,
                max_time_ms=5000,
                allow_partial_results=True,
            ),
        ),
        ("find with the level local", lambda: list(snapshot.find(NONE))),
        ("count_documents in time", lambda: things.count_documents(NONE, maxTimeMS=5000)),
        ("count_documents locally", lambda: snapshot.count_documents(NONE)),
        ("estimated_document_count in time", lambda: things.estimated_document_count(maxTimeMS=5)),
        ("distinct in time", lambda: things.distinct("a", NONE, maxTimeMS=5000)),
        ("distinct locally", lambda: snapshot.distinct("a", NONE)),
        (
            "aggregate into another collection",
            lambda: list(
                things.aggregate(
                    [{"$match": NONE}, {"$merge": {"into": "others"}}],
                    bypassDocumentValidation=True,
                    batchSize=3,
                )
            ),
        ),
        ("aggregate without a first batch", lambda: list(things.aggregate([], batchSize=0))),
        (
            "aggregate on a database with options",
            lambda: list(
                db.aggregate([{"$documents": [{"a": 1}]}], comment="c", let=LET, maxTimeMS=5000)
            ),
        ),
        (
            "run_cursor_command",
            lambda: list(db.cursor_command({"find": "things", "batchSize": 1}, comment="c")),
        ),
        (
            "run_cursor_command of another command",
            lambda: list(db.cursor_command({"listCollections": 1, "nameOnly": True})),
        ),
        ("list_collection_names with a filter", lambda: db.list_collection_names(filter=NONE)),
        (
            "list_collections with options",
            lambda: list(db.list_collections(comment="c", authorizedCollections=True)),
        ),
    ]


def bulk_writes(client, things):
    models = [
        InsertOne({"_id": 10}),
        UpdateOne(NONE, ITEMS, array_filters=FILTERS, collation=COLLATION, sort={"a": 1}),
        UpdateOne(NONE, SET, hint="a_1"),
        UpdateMany(NONE, ITEMS, array_filters=FILTERS, collation=COLLATION),
        ReplaceOne(NONE, {"a": 1}, hint="a_1", collation=COLLATION, sort={"a": 1}),
        DeleteOne(NONE, hint="a_1", collation=COLLATION),
        DeleteMany(NONE, hint="a_1"),
    ]
    place = {"namespace": "app.things"}
    of_client = [
        InsertOne({"_id": 11}, **place),
        UpdateOne(NONE, ITEMS, array_filters=FILTERS, collation=COLLATION, sort={"a": 1}, **place),
        UpdateOne(NONE, [SET], hint="a_1", upsert=False, **place),
        UpdateMany(NONE, ITEMS, array_filters=FILTERS, collation=COLLATION, hint="a_1", **place),
        ReplaceOne(NONE, {"a": 1}, hint="a_1", collation=COLLATION, sort={"a": 1}, **place),
        DeleteOne(NONE, hint="a_1", collation=COLLATION, **place),
        DeleteMany(NONE, hint="a_1", **place),
    ]
    return [
        ("bulk_write in order", lambda: things.bulk_write(models, bypass_document_validation=True)),
        (
            "bulk_write in any order",
            lambda: things.bulk_write(
                [DeleteOne({"_id": 10}), InsertOne({"_id": 12}), DeleteOne({"_id": 12})],
                ordered=False,
            ),
        ),
        (
            "bulk_write of a client with options",
            lambda: client.bulk_write(
                of_client,
                bypass_document_validation=True,
                let=LET,
                write_concern=WriteConcern("majority"),
            ),
        ),
        (
            "bulk_write of a client in any order",
            lambda: client.bulk_write([DeleteOne({"_id": 11}, **place)], ordered=False),
        ),
    ]


def unacknowledged(client, db):
    silent = db.get_collection("things", write_concern=WriteConcern(w=0))
    return [
        ("insert_many unacknowledged", lambda: silent.insert_many([{"_id": 21}])),
        ("update_one unacknowledged", lambda: silent.update_one(NONE, SET)),
        ("replace_one unacknowledged", lambda: silent.replace_one(NONE, {"a": 1})),
        ("delete_many unacknowledged", lambda: silent.delete_many(NONE)),
        ("bulk_write unacknowledged", lambda: silent.bulk_write([DeleteOne(NONE)])),
        (
            "bulk_write of a client unacknowledged",
            lambda: client.bulk_write(
                [DeleteOne(NONE, namespace="app.things")],
                ordered=False,
                write_concern=WriteConcern(w=0),
            ),
        ),
    ]


def indexes(things):
    def one(keys, **options):
        return lambda: things.create_indexes([IndexModel(keys, **options)])

    return [
        ("an index that expires", one([("t", 1)], name="t_1", expireAfterSeconds=60)),
        (
            "an index of texts",
            one(
                [("text", "text")],
                name="words",
                weights={"text": 2},
                default_language="german",
                language_override="language",
                textIndexVersion=3,
            ),
        ),
        ("an index of a plane", one([("p", "2d")], name="plane", bits=20, min=-9.5, max=9.5)),
        (
            "an index of a sphere",
            one([("s", "2dsphere")], name="sphere", **{"2dsphereIndexVersion": 3}),
        ),
        ("an index of all fields", one([("$**", 1)], name="all", wildcardProjection={"a": 1})),
        (
            "an index with storage",
            one(
                [("v", 1)], name="v_1", v=2, background=True, storageEngine={"wiredTiger": {}}
            ),
        ),
        (
            "create_indexes with options",
            lambda: things.create_indexes(
                [IndexModel([("m", 1), ("n", -1)], name="m_n"), IndexModel([("o", 1)], name="o_1")],
                commitQuorum="majority",
                maxTimeMS=5000,
                comment="c",
            ),
        ),
        ("an index without a name", one([("q", 1), ("r", -1)])),
        ("drop_index with options", lambda: things.drop_index("m_n", comment="c", maxTimeMS=5000)),
        ("drop_indexes", lambda: things.drop_indexes(comment="c")),
    ]


def search_indexes(things):
    return [
        (
            "create_search_index",
            lambda: things.create_search_index(
                SearchIndexModel(SEARCH, name="s", type="vectorSearch")
            ),
        ),
        (
            "create_search_indexes",
            lambda: things.create_search_indexes(
                [SearchIndexModel(SEARCH), SearchIndexModel(SEARCH, name="t")]
            ),
        ),
        ("update_search_index", lambda: things.update_search_index("s", SEARCH)),
        ("drop_search_index", lambda: things.drop_search_index("s")),
        ("list_search_indexes", lambda: list(things.list_search_indexes())),
        ("list_search_indexes by name", lambda: list(things.list_search_indexes("s"))),
    ]


def names(client, db):
    def create(name, **options):
        return lambda: db.create_collection(name, check_exists=False, **options)

    series = {"timeField": "t", "metaField": "m", "granularity": "minutes"}
    engine = {"wiredTiger": {}}
    return [
        (
            "a clustered collection",
            create(
                "clustered",
                clusteredIndex={"key": {"_id": 1}, "unique": True},
                expireAfterSeconds=60,
            ),
        ),
        ("a time series", create("series", timeseries=series, expireAfterSeconds=60)),
        (
            "a time series with buckets",
            create(
                "buckets",
                timeseries={
                    "timeField": "t",
                    "bucketMaxSpanSeconds": 60,
                    "bucketRoundingSeconds": 60,
                },
            ),
        ),
        ("a view", create("view", viewOn="things", pipeline=[{"$match": NONE}])),
        ("images of changes", create("images", changeStreamPreAndPostImages={"enabled": True})),
        (
            "a collection with storage",
            create("stored", storageEngine=engine, indexOptionDefaults={"storageEngine": engine}),
        ),
        (
            "create_collection with a concern",
            create("durable", write_concern=WriteConcern("majority")),
        ),
        ("rename with a comment", lambda: db.stored.rename("kept", comment="c")),
        (
            "drop with a concern",
            lambda: db.get_collection("kept", write_concern=WriteConcern("majority")).drop(),
        ),
        (
            "list_databases with options",
            lambda: list(client.list_databases(filter={"name": "app"}, authorizedDatabases=True)),
        ),
        ("list_database_names with a comment", lambda: client.list_database_names(comment="c")),
        ("drop_database with a comment", lambda: client.drop_database("gone", comment="c")),
    ]


def streams(client, things):
    def token(number):
        """Returns the token of the event of an insert."""
        with things.watch() as stream:
            things.insert_one({"_id": number})
            stream.next()
            return stream.resume_token

    def watched(**options):
        things.watch(**options).close()

    def waiting():
        with things.watch(max_await_time_ms=20) as stream:
            stream.try_next()

    def tail():
        client.app.create_collection("small", capped=True, size=4096, check_exists=False)
        client.app.small.insert_one({"_id": 1})
        cursor = client.app.small.find({}, cursor_type=CursorType.TAILABLE)
        cursor.next()
        cursor.close()

    return [
        ("watch and read", lambda: token(41)),
        ("watch after a token", lambda: watched(resume_after=token(42))),
        ("watch from a token on", lambda: watched(start_after=token(43))),
        ("watch from a time on", lambda: watched(start_at_operation_time=Timestamp(1, 1))),
        ("watch with images", lambda: watched(full_document="required")),
        ("watch and wait", waiting),
        ("a tailable cursor", tail),
    ]


def sessions(client, things):
    def causal():
        with client.start_session() as session:
            things.insert_one({"_id": 51}, session=session)
            things.find_one(NONE, session=session)
            things.count_documents(NONE, session=session)
            things.distinct("a", NONE, session=session)
            things.update_one(NONE, SET, session=session)
            list(things.aggregate([], session=session))

    def careless():
        with client.start_session(causal_consistency=False) as session:
            things.insert_one({"_id": 52}, session=session)
            things.find_one(NONE, session=session)

    def snapshot():
        with client.start_session(snapshot=True) as session:
            things.find_one(NONE, session=session)
            list(things.aggregate([], session=session))
            things.distinct("a", session=session)

    def transaction():
        options = TransactionOptions(
            read_concern=ReadConcern("majority"),
            write_concern=WriteConcern("majority", wtimeout=500),
            max_commit_time_ms=5000,
        )
        with client.start_session(default_transaction_options=options) as session:
            with session.start_transaction():
                things.update_many(NONE, SET, session=session)
                things.find_one_and_delete(NONE, session=session)
                things.bulk_write([DeleteOne(NONE)], session=session)
                client.app.command({"distinct": "things", "key": "a"}, session=session)
                session.commit_transaction()
                session.commit_transaction()

    def empty():
        with client.start_session() as session:
            session.start_transaction()
            session.commit_transaction()

    return [
        ("a causal session", causal),
        ("a session without order", careless),
        ("a snapshot", snapshot),
        ("a transaction with defaults", transaction),
        ("a transaction without operations", empty),
    ]


def routed(client):
    """Returns calls behind a router, which gets read preferences, with a time limit."""
    db = client.app
    things = db.things

    def reading(preference):
        return things.with_options(read_preference=preference)

    tagged = reading(Secondary([{"dc": "ny", "rack": "1"}, {}]))
    fresh = reading(Nearest(max_staleness=120))
    secondary = reading(ReadPreference.SECONDARY)
    preferred = reading(ReadPreference.SECONDARY_PREFERRED)
    primary_preferred = reading(ReadPreference.PRIMARY_PREFERRED)
    return [
        ("insert_one", lambda: things.insert_many([{"_id": n} for n in range(5)])),
        ("find", lambda: list(things.find(NONE))),
        ("find on tagged members", lambda: list(tagged.find(NONE))),
        ("find on fresh members", lambda: list(fresh.find(NONE))),
        ("find on a secondary", lambda: list(secondary.find(NONE))),
        ("find where a secondary is preferred", lambda: list(preferred.find(NONE))),
        ("find where the primary is preferred", lambda: list(primary_preferred.find(NONE))),
        ("find in batches", lambda: list(secondary.find({}, batch_size=2))),
        ("aggregate on a secondary", lambda: list(secondary.aggregate([{"$match": NONE}]))),
        (
            "aggregate into a collection",
            lambda: list(secondary.aggregate([{"$out": "others"}])),
        ),
        ("count_documents on a secondary", lambda: secondary.count_documents(NONE)),
        ("estimated count on a secondary", lambda: secondary.estimated_document_count()),
        ("distinct on a secondary", lambda: secondary.distinct("a", NONE)),
        ("list_indexes where a secondary is preferred", lambda: list(preferred.list_indexes())),
        ("update_one", lambda: secondary.update_one(NONE, SET)),
        ("find_one_and_delete", lambda: things.find_one_and_delete(NONE)),
        ("bulk_write", lambda: things.bulk_write([DeleteOne(NONE)])),
        (
            "run_command on a secondary",
            lambda: db.command({"count": "things"}, read_preference=ReadPreference.SECONDARY),
        ),
        ("list_collections", lambda: list(db.list_collections())),
        ("list_databases", lambda: list(client.list_databases())),
        ("create_index", lambda: things.create_index(UP, name="a_1")),
        ("drop", lambda: things.drop()),
    ]


def declared(client):
    """Returns calls of a client that declares its API."""
    db = client.app
    things = db.things

    def transaction():
        with client.start_session() as session:
            with session.start_transaction():
                things.insert_one({"_id": 91}, session=session)
                things.find_one(NONE, session=session)

    return [
        ("insert_many", lambda: things.insert_many([{"_id": n} for n in range(5)])),
        ("find in batches", lambda: list(things.find({}, batch_size=2))),
        ("aggregate", lambda: list(things.aggregate([{"$match": NONE}]))),
        ("count_documents", lambda: things.count_documents(NONE)),
        ("estimated_document_count", lambda: things.estimated_document_count()),
        ("distinct", lambda: things.distinct("a")),
        ("update_one", lambda: things.update_one(NONE, SET)),
        ("find_one_and_delete", lambda: things.find_one_and_delete(NONE)),
        ("list_collections", lambda: list(db.list_collections())),
        ("create_index", lambda: things.create_index(UP, name="a_1")),
        ("list_indexes", lambda: list(things.list_indexes())),
        ("run_command", lambda: db.command({"hello": 1})),
        ("a transaction", transaction),
        ("find and close", lambda: first(things.find({}, batch_size=2))),
        ("drop", lambda: things.drop()),
    ]


def first(cursor):
    """Reads one document and closes the cursor."""
    cursor.next()
    cursor.close()
