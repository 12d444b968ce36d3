//! Tests of the fields that the options of a client and of its calls add to commands.

use crate::{root, shown};
use bson::{Bson, Document, doc};
use onionskin_core::{
    event::{CommandEvent, EventKind},
    options::{ReadConcern, ReadMode, ReadPreference, WriteConcern},
};
use onionskin_simulations::serve::{Embedded, ServeOptions};
use onionskin_tokio::{Client, Collection, TokioRuntime};
use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The commands that a client has sent.
#[derive(Clone, Default)]
struct Sent {
    log: Arc<Mutex<Vec<Document>>>,
    client: Arc<Mutex<Option<Client>>>,
}

impl Sent {
    /// Creates a client with these options. The deployment is sharded, because commands to a mongos
    /// contain every read preference except `primary`.
    fn client(&self, deployment: &Embedded, options: &str) -> Client {
        let uri = deployment.uri();
        let separator = if uri.contains('?') { '&' } else { '?' };
        let log = self.log.clone();
        let builder = Client::builder_from_uri(
            TokioRuntime::default(),
            &format!("{uri}{separator}{options}"),
        );
        let listener = Arc::new(move |event: &onionskin_core::event::Event| {
            if let EventKind::Command(CommandEvent::Started { command, .. }) = &event.kind {
                let command = Document::try_from(command).expect("BSON");
                log.lock().expect("nobody panicked").push(command);
            }
        });
        let builder = builder
            .expect("a connection string")
            .event_listener(listener);
        let client = builder.build().expect("it has warnings only");
        *self.client.lock().expect("nobody panicked") = Some(client.clone());
        client
    }

    /// Returns a field of the last command with this name.
    fn field(&self, name: &str, field: &str) -> Option<Bson> {
        // Listeners get events asynchronously, so the flush waits until the listener has got all of
        // them.
        let client = self.client.lock().expect("nobody panicked").clone();
        let client = client.expect("there is one");
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| runtime.block_on(client.flush_events()));
        let sent = self.log.lock().expect("nobody panicked");
        let mut newest_first = sent.iter().rev();
        let command = newest_first.find(|command| command.contains_key(name));
        command.expect("it was sent").get(field).cloned()
    }
}

fn on_tokio(future: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new()
        .expect("a runtime")
        .block_on(future);
}

#[test]
fn concerns_and_preferences_of_a_connection_string_are_sent() {
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::default();
        let options = "w=1&journal=true&wTimeoutMS=500&readConcernLevel=majority\
             &readPreference=secondaryPreferred&readPreferenceTags=dc:ny&readPreferenceTags=\
             &heartbeatFrequencyMS=10000";
        let client = sent.client(&deployment, options);
        let warnings: Vec<_> = client.warnings().iter().map(shown).collect();
        assert_eq!(warnings, [""; 0]);

        let things = client.database("promises").collection::<Document>("things");
        let concern = Bson::from(doc! { "w": 1, "j": true, "wtimeout": 500_i64 });
        things.insert_one(doc! { "_id": 1 }).await.expect("a reply");
        assert_eq!(
            sent.field("insert", "writeConcern").as_ref(),
            Some(&concern)
        );
        things.delete_one(doc! {}).await.expect("a reply");
        assert_eq!(
            sent.field("delete", "writeConcern").as_ref(),
            Some(&concern)
        );
        let change = doc! { "$set": { "a": 1 } };
        things.update_one(doc! {}, change).await.expect("a reply");
        assert_eq!(
            sent.field("update", "writeConcern").as_ref(),
            Some(&concern)
        );

        let preference = doc! { "mode": "secondaryPreferred", "tags": [{ "dc": "ny" }, {}] };
        let preference = Bson::from(preference);
        let level = Bson::from(doc! { "level": "majority" });
        things.find_one(doc! {}).await.expect("a reply");
        things.count_documents(doc! {}).await.expect("a reply");
        for name in ["find", "aggregate"] {
            assert_eq!(sent.field(name, "readConcern").as_ref(), Some(&level));
            assert_eq!(
                sent.field(name, "$readPreference").as_ref(),
                Some(&preference)
            );
        }
        client.shutdown().await;
    });
}

/// The options of calls, as `Call::option`. The test below shows the effect of each, except for
/// time limits.
const CALLS: [&str; 21] = [
    "CountDocuments::read_concern",
    "CountDocuments::read_preference",
    "Delete::write_concern",
    "Find::batch_size",
    "Find::limit",
    "Find::projection",
    "Find::read_preference",
    "Find::skip",
    "Find::sort",
    "Find::timeout",
    "FindOne::read_preference",
    "FindOne::timeout",
    "InsertMany::timeout",
    "InsertMany::unordered",
    "InsertMany::write_concern",
    "InsertOne::write_concern",
    "RunCommand::read_preference",
    "RunCommand::timeout",
    "Update::upsert",
    "Update::write_concern",
    // The `timeout` of the calls that a macro defines.
    "timeout",
];

/// Returns the options of calls that the source of the async client defines.
fn options_of_calls() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in [
        "collection/mod.rs",
        "collection/read.rs",
        "collection/write.rs",
        "database.rs",
    ] {
        let path = root().join("adapters/client/src").join(file);
        let text = fs::read_to_string(path).expect("it is there");
        let mut call = "";
        for line in text.lines() {
            if let Some((_, head)) = line.split_once("impl").filter(|_| line.ends_with('{')) {
                let name = head.split_once("> ").map_or(head, |(_, name)| name);
                call = name.split(['<', ' ']).next().unwrap_or_default();
            }
            let option = line.trim().strip_prefix("pub fn ");
            let option = option.and_then(|rest| rest.split_once("(mut self"));
            if let Some((option, _)) = option {
                found.insert(match call {
                    "$name" => option.to_owned(),
                    call => format!("{call}::{option}"),
                });
            }
        }
    }
    found
}

#[test]
fn every_option_of_an_operation_except_its_time_limit_is_sent() {
    let listed: BTreeSet<String> = CALLS.map(str::to_owned).into();
    assert_eq!(listed, options_of_calls());
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::default();
        let client = sent.client(&deployment, "appName=calls");
        let things = client.database("promises").collection::<Document>("things");
        writes(&sent, &things).await;
        reads(&sent, &things).await;
        let nearest = ReadPreference::new(ReadMode::Nearest);
        let database = client.database("promises");
        let call = database
            .run_command(doc! { "ping": 1 })
            .read_preference(nearest);
        call.await.expect("a reply");
        let preference = Some(Bson::from(doc! { "mode": "nearest" }));
        assert_eq!(sent.field("ping", "$readPreference"), preference);
        client.shutdown().await;
    });
}

async fn writes(sent: &Sent, things: &Collection<Document>) {
    let concern = || WriteConcern::members(1);
    let expected = Some(Bson::from(doc! { "w": 1 }));
    let one = things
        .insert_one(doc! { "_id": 1 })
        .write_concern(concern());
    one.await.expect("a reply");
    assert_eq!(sent.field("insert", "writeConcern"), expected);
    assert_eq!(sent.field("insert", "ordered"), Some(true.into()));
    let many = things.insert_many([doc! { "_id": 2 }, doc! { "_id": 3 }]);
    many.unordered()
        .write_concern(concern())
        .await
        .expect("a reply");
    assert_eq!(sent.field("insert", "writeConcern"), expected);
    assert_eq!(sent.field("insert", "ordered"), Some(false.into()));
    let change = doc! { "$set": { "a": 1 } };
    let update = things.update_one(doc! { "_id": 9 }, change).upsert(true);
    update.write_concern(concern()).await.expect("a reply");
    assert_eq!(sent.field("update", "writeConcern"), expected);
    let Some(Bson::Array(statements)) = sent.field("update", "updates") else {
        panic!("it has statements");
    };
    let upsert = statements[0].as_document().expect("one").get_bool("upsert");
    assert_eq!(upsert.ok(), Some(true));
    let delete = things.delete_many(doc! {}).write_concern(concern());
    delete.await.expect("a reply");
    assert_eq!(sent.field("delete", "writeConcern"), expected);
}

async fn reads(sent: &Sent, things: &Collection<Document>) {
    let nearest = || ReadPreference::new(ReadMode::Nearest);
    let preference = Some(Bson::from(doc! { "mode": "nearest" }));
    let search = things
        .find(doc! {})
        .sort(doc! { "a": 1 })
        .projection(doc! { "b": 1 });
    let search = search
        .skip(2)
        .limit(3)
        .batch_size(4)
        .read_preference(nearest());
    drop(search.await.expect("a reply"));
    for (field, expected) in [
        ("sort", Bson::from(doc! { "a": 1 })),
        ("projection", Bson::from(doc! { "b": 1 })),
        ("skip", Bson::Int64(2)),
        ("limit", Bson::Int64(3)),
        ("batchSize", Bson::Int64(4)),
    ] {
        assert_eq!(sent.field("find", field), Some(expected), "{field}");
    }
    assert_eq!(sent.field("find", "$readPreference"), preference);
    let one = things
        .find_one(doc! {})
        .read_preference(ReadPreference::default());
    one.await.expect("a reply");
    assert_eq!(sent.field("find", "$readPreference"), None);
    let count = things.count_documents(doc! {}).read_preference(nearest());
    let count = count.read_concern(ReadConcern::new("local"));
    count
        .timeout(Duration::from_secs(20))
        .await
        .expect("a reply");
    assert_eq!(sent.field("aggregate", "$readPreference"), preference);
    let level = Some(Bson::from(doc! { "level": "local" }));
    assert_eq!(sent.field("aggregate", "readConcern"), level);
}
