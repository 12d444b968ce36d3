//! The sessions of calls: each call can run in a session of the application, and in a causally
//! consistent session each read and write has its place in the order of the session.

use super::{on_each_adapter, rows};
use crate::wire::Sent;
use bson::{Bson, Document, doc};
use onionskin::{
    Client, ClientSession, Collection, Database, Runtime,
    options::{DeleteOneModel, IndexModel, InsertOneModel, SearchIndexModel},
};
use onionskin_deployment::deployment::ServerVersion;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::conformance::Host;
use std::collections::BTreeSet;

/// Passes each call to the macro `$each`: `read` for a command with a read concern, `write` for one
/// with a write concern and `other` for the rest, the struct of the call, the command that the call
/// sends, and the call of a handle in the stage.
macro_rules! all_calls {
    ($each:ident $stage:ident) => {
        $each!($stage write InsertOne "insert": things.insert_one(doc! {}));
        $each!($stage write InsertMany "insert": things.insert_many([doc! {}]));
        $each!($stage write CollectionBulkWrite "delete": things.bulk_write([delete()]));
        $each!($stage write Update "update": things.update_one(doc! {}, set()));
        $each!($stage write Update "update": things.update_many(doc! {}, set()));
        $each!($stage write Replace "update": things.replace_one(doc! {}, doc! {}));
        $each!($stage write Delete "delete": things.delete_one(doc! {}));
        $each!($stage write Delete "delete": things.delete_many(doc! {}));
        $each!($stage write FindOneAndDelete "findAndModify": things.find_one_and_delete(doc! {}));
        $each!($stage write FindOneAndReplace "findAndModify":
            things.find_one_and_replace(doc! {}, doc! {}));
        $each!($stage write FindOneAndUpdate "findAndModify":
            things.find_one_and_update(doc! {}, set()));
        $each!($stage write BulkWrite "bulkWrite": client.bulk_write([insert(&$stage.things)]));
        $each!($stage write Aggregate "aggregate": things.aggregate([doc! { "$out": "others" }]));
        $each!($stage read Aggregate "aggregate": things.aggregate([]));
        $each!($stage read Aggregate "aggregate":
            database.aggregate([doc! { "$documents": [{ "a": 1 }] }]));
        $each!($stage read Find "find": things.find(doc! {}));
        $each!($stage read FindOne "find": things.find_one(doc! {}));
        $each!($stage read CountDocuments "aggregate": things.count_documents(doc! {}));
        $each!($stage read EstimatedDocumentCount "count": things.estimated_document_count());
        $each!($stage read Distinct "distinct": things.distinct("a", doc! {}));
        $each!($stage read Watch "aggregate": things.watch());
        $each!($stage read Watch "aggregate": database.watch());
        $each!($stage read Watch "aggregate": client.watch());
        $each!($stage write CreateIndex "createIndexes": things.create_index(index("a")));
        $each!($stage write CreateIndex "createIndexes": things.create_indexes([index("b")]));
        $each!($stage other ListIndexes "listIndexes": things.list_indexes());
        $each!($stage other ListIndexes "listIndexes": things.list_index_names());
        $each!($stage write DropIndex "dropIndexes": things.drop_index("a_1"));
        $each!($stage write DropIndex "dropIndexes": things.drop_indexes());
        $each!($stage other CreateSearchIndex "createSearchIndexes":
            things.create_search_index(search_index()));
        $each!($stage other CreateSearchIndex "createSearchIndexes":
            things.create_search_indexes([search_index()]));
        $each!($stage other UpdateSearchIndex "updateSearchIndex":
            things.update_search_index("a", doc! {}));
        $each!($stage other DropSearchIndex "dropSearchIndex": things.drop_search_index("a"));
        $each!($stage other ListSearchIndexes "aggregate": things.list_search_indexes());
        $each!($stage write CreateCollection "create": database.create_collection("more"));
        $each!($stage other ListCollections "listCollections": database.list_collections());
        $each!($stage other ListCollections "listCollections": database.list_collection_names());
        $each!($stage other RunCommand "ping": database.run_command(doc! { "ping": 1 }));
        $each!($stage other RunCursorCommand "listCollections":
            database.run_cursor_command(doc! { "listCollections": 1 }));
        $each!($stage other ListDatabases "listDatabases": client.list_databases());
        $each!($stage other ListDatabases "listDatabases": client.list_database_names());
        $each!($stage write RenameCollection "renameCollection": things.rename("others"));
        $each!($stage write DropCollection "drop": things.drop());
        $each!($stage write DropDatabase "dropDatabase": database.drop());
    };
}

pub(super) use all_calls;

/// A client, and the handles and sessions with which the calls are made.
struct Stage<R: Runtime> {
    deployment: Embedded,
    sent: Sent<R>,
    client: Client<R>,
    database: Database<R>,
    things: Collection<R, Document>,
    /// A session of the client.
    own: ClientSession<R>,
    /// A session of another client.
    foreign: ClientSession<R>,
    /// The structs of the calls so far.
    seen: BTreeSet<String>,
}

impl<R: Runtime> Stage<R> {
    async fn new<H: Host<R = R>>() -> Self {
        let mut options = ServeOptions::sharded(1);
        options.version = ServerVersion::named("8.2").expect("a release");
        let deployment = Embedded::start(options).expect("a deployment");
        let foreign = Sent::new(H::runtime(), deployment.uri(), "").client;
        let sent = Sent::new(H::runtime(), deployment.uri(), "");
        let client = sent.client.clone();
        let database = client.database("promises");
        Self {
            deployment,
            sent,
            own: client.start_session().await.expect("a session"),
            foreign: foreign.start_session().await.expect("a session"),
            things: database.collection("things"),
            database,
            client,
            seen: BTreeSet::new(),
        }
    }

    /// Asserts that the calls were all that have options. Calls of GridFS have no sessions, and
    /// those that start a session or a transaction send nothing.
    fn assert_complete(&self) {
        let rows = rows();
        let calls = rows.iter().filter_map(|row| row.split("::").next());
        let has_none = |name: &str| {
            ["GridFs", "Open", "Start"]
                .iter()
                .any(|begin| name.starts_with(begin))
        };
        let calls = calls.filter(|name| !has_none(name));
        let calls: BTreeSet<String> = calls.map(str::to_owned).collect();
        assert_eq!(self.seen, calls);
    }

    async fn end(self) {
        let foreign = self.foreign.client().clone();
        drop((self.own, self.foreign, self.things, self.database));
        foreign.shutdown().await;
        self.client.shutdown().await;
        drop(self.deployment);
    }

    /// Returns the time after which the last command with this name reads or writes.
    async fn after(&self, name: &str) -> Option<Bson> {
        self.sent.path(name, "readConcern.afterClusterTime").await
    }
}

pub(super) fn set() -> Document {
    doc! { "$set": { "a": 1 } }
}

pub(super) fn delete() -> DeleteOneModel {
    DeleteOneModel::builder().build()
}

pub(super) fn insert<R: Runtime>(into: &Collection<R, Document>) -> InsertOneModel {
    let model = InsertOneModel::builder().namespace(into.namespace());
    model.document(doc! {}).build()
}

pub(super) fn search_index() -> SearchIndexModel {
    SearchIndexModel::builder().build()
}

pub(super) fn index(key: &str) -> IndexModel {
    IndexModel::builder().keys(doc! { key: 1 }).build()
}

/// Sessions prose 4 and 5: each call sends the id of its session, or that of an implicit session.
/// It refuses the session of another client, and sends nothing then.
fn sends_its_own_id_and_refuses_a_foreign_one<H: Host>() {
    macro_rules! check {
        ($stage:ident $kind:ident $call:ident $command:literal: $($build:tt)+) => {
            let case = stringify!($($build)+);
            $stage.seen.insert(stringify!($call).to_owned());
            let own = Some(Bson::from($stage.own.id().clone()));
            drop($stage.$($build)+.session(&mut $stage.own).await);
            assert_eq!($stage.sent.field($command, "lsid").await, own, "{case}");
            drop($stage.$($build)+.await);
            let implicit = $stage.sent.field($command, "lsid").await;
            assert!(implicit.is_some() && implicit != own, "{case}");
            let before = $stage.sent.count($command).await;
            let refused = $stage.$($build)+.session(&mut $stage.foreign).await;
            let error = refused.map(drop).expect_err(case).to_string();
            assert!(error.contains("another client"), "{case}: {error}");
            assert_eq!($stage.sent.count($command).await, before, "{case}");
        };
    }

    H::block_on(async {
        let mut stage = Stage::new::<H>().await;
        all_calls!(check stage);
        stage.assert_complete();
        stage.end().await;
    });
}

/// Sessions prose 6: a call whose session has ended before the call is awaited fails, and nothing
/// is sent. No call can be made later, because the end and the drop of a session take the session.
fn is_refused_after_the_end_of_its_session<H: Host>() {
    macro_rules! check {
        ($stage:ident $kind:ident $call:ident $command:literal: $($build:tt)+) => {
            for is_dropped in [false, true] {
                let case = format!("{}, dropped: {is_dropped}", stringify!($($build)+));
                let mut session = $stage.client.start_session().await.expect("a session");
                let call = $stage.$($build)+.session(&mut session);
                match is_dropped {
                    true => drop(session),
                    false => session.end().await.expect("ended"),
                }
                let error = call.await.map(drop).expect_err(&case).to_string();
                assert!(error.contains("the session has ended"), "{case}: {error}");
                let sent = $stage.sent.flushed().await;
                assert!(sent.is_empty(), "{case}: {sent:?}");
            }
        };
    }

    H::block_on(async {
        let stage = Stage::new::<H>().await;
        all_calls!(check stage);
        stage.end().await;
    });
}

/// Causal prose 4: a read after a `find_one` of the same session reads after the time of the
/// `find_one`.
fn reads_follow_reads<H: Host>() {
    macro_rules! check {
        ($stage:ident read $call:ident $command:literal: $($build:tt)+) => {
            let find = $stage.things.find_one(doc! {}).session(&mut $stage.own);
            find.await.expect("a reply");
            let time = $stage.own.operation_time().map(Bson::from);
            assert!(time.is_some());
            drop($stage.$($build)+.session(&mut $stage.own).await);
            assert_eq!($stage.after($command).await, time, stringify!($call));
        };
        ($stage:ident $kind:ident $call:ident $command:literal: $($build:tt)+) => {};
    }

    H::block_on(async {
        let mut stage = Stage::new::<H>().await;
        all_calls!(check stage);
        stage.end().await;
    });
}

/// Causal prose 5: a `find_one` after a write of the same session reads after the time of the
/// write, also if the write has failed.
fn reads_follow_writes<H: Host>() {
    macro_rules! check {
        ($stage:ident write $call:ident $command:literal: $($build:tt)+) => {
            drop($stage.$($build)+.session(&mut $stage.own).await);
            let time = $stage.own.operation_time().map(Bson::from);
            assert!(time.is_some());
            let find = $stage.things.find_one(doc! {}).session(&mut $stage.own);
            find.await.expect("a reply");
            assert_eq!($stage.after("find").await, time, stringify!($call));
        };
        ($stage:ident $kind:ident $call:ident $command:literal: $($build:tt)+) => {};
    }

    H::block_on(async {
        let mut stage = Stage::new::<H>().await;
        all_calls!(check stage);
        // The server refuses the second one of two equal keys.
        for fails in [false, true] {
            let insert = stage.things.insert_one(doc! { "_id": 1 });
            let result = insert.session(&mut stage.own).await;
            assert_eq!(result.is_err(), fails);
            let time = stage.own.operation_time().map(Bson::from);
            let find = stage.things.find_one(doc! {}).session(&mut stage.own);
            find.await.expect("a reply");
            assert!(time.is_some());
            assert_eq!(stage.after("find").await, time);
        }
        stage.end().await;
    });
}

on_each_adapter! {
    every_call_sends_the_id_of_its_session_and_refuses_a_foreign_one:
        sends_its_own_id_and_refuses_a_foreign_one;
    every_call_is_refused_after_the_end_of_its_session: is_refused_after_the_end_of_its_session;
    every_read_of_a_causal_session_follows_the_read_before_it: reads_follow_reads;
    a_read_of_a_causal_session_follows_every_write_before_it: reads_follow_writes;
}
