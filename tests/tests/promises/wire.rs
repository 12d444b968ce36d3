//! Tests of the fields that the options of a client and of its calls add to commands.

use crate::shown;
use bson::{Bson, Document, doc};
use onionskin::{Client, Runtime};
use onionskin_core::event::{CommandEvent, Event, EventKind};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::TokioRuntime;
use std::sync::{Arc, Mutex, MutexGuard};

/// A client, and the commands that it has sent.
pub(super) struct Sent<R: Runtime = TokioRuntime> {
    log: Arc<Mutex<Vec<Document>>>,
    pub(super) client: Client<R>,
}

impl<R: Runtime> Sent<R> {
    /// Creates a client of the deployment at `uri` with these options.
    pub(super) fn new(runtime: R, uri: &str, options: &str) -> Self {
        let separator = if uri.contains('?') { '&' } else { '?' };
        let builder = Client::builder_from_uri(runtime, &format!("{uri}{separator}{options}"));
        let log: Arc<Mutex<Vec<Document>>> = Arc::default();
        let commands = log.clone();
        let listener = Arc::new(move |event: &Event| {
            if let EventKind::Command(CommandEvent::Started { command, .. }) = &event.kind {
                let command = Document::try_from(command).expect("BSON");
                commands.lock().expect("nobody panicked").push(command);
            }
        });
        let builder = builder.expect("a connection string");
        let client = builder.event_listener(listener).build();
        let client = client.expect("it has warnings only");
        Self { log, client }
    }

    /// Removes all commands.
    pub(super) async fn clear(&self) {
        self.flushed().await.clear();
    }

    /// Returns the value at a path in the last command with this name, for example
    /// `updates.0.upsert`.
    pub(super) async fn path(&self, name: &str, path: &str) -> Option<Bson> {
        let mut keys = path.split('.');
        let first = self.field(name, keys.next()?).await?;
        keys.try_fold(first, |value, key| match value {
            Bson::Document(mut document) => document.remove(key),
            Bson::Array(mut items) => {
                let index = key.parse().expect("an index");
                (index < items.len()).then(|| items.swap_remove(index))
            }
            _ => None,
        })
    }

    /// Returns the number of commands with this name.
    pub(super) async fn count(&self, name: &str) -> usize {
        let sent = self.flushed().await;
        let named = sent.iter().filter(|command| command.contains_key(name));
        named.count()
    }

    /// Returns the commands after the listener has got all of them.
    pub(super) async fn flushed(&self) -> MutexGuard<'_, Vec<Document>> {
        self.client.flush_events().await;
        self.log.lock().expect("nobody panicked")
    }

    /// Returns a field of the last command with this name; `None` if there is no such command.
    pub(super) async fn field(&self, name: &str, field: &str) -> Option<Bson> {
        let sent = self.flushed().await;
        let mut newest_first = sent.iter().rev();
        let command = newest_first.find(|command| command.contains_key(name))?;
        command.get(field).cloned()
    }
}

pub(super) fn on_tokio(future: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new()
        .expect("a runtime")
        .block_on(future);
}

#[test]
fn concerns_and_preferences_of_a_connection_string_are_sent() {
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let options = "w=1&journal=true&wTimeoutMS=500&readConcernLevel=majority\
             &readPreference=secondaryPreferred&readPreferenceTags=dc:ny&readPreferenceTags=\
             &heartbeatFrequencyMS=10000";
        let sent = Sent::new(TokioRuntime::default(), deployment.uri(), options);
        let client = sent.client.clone();
        let warnings: Vec<_> = client.warnings().iter().map(shown).collect();
        assert_eq!(warnings, [""; 0]);

        let things = client.database("promises").collection::<Document>("things");
        let concern = Bson::from(doc! { "w": 1, "j": true, "wtimeout": 500_i64 });
        things.insert_one(doc! { "_id": 1 }).await.expect("a reply");
        assert_eq!(
            sent.field("insert", "writeConcern").await.as_ref(),
            Some(&concern)
        );
        things.delete_one(doc! {}).await.expect("a reply");
        assert_eq!(
            sent.field("delete", "writeConcern").await.as_ref(),
            Some(&concern)
        );
        let change = doc! { "$set": { "a": 1 } };
        things.update_one(doc! {}, change).await.expect("a reply");
        assert_eq!(
            sent.field("update", "writeConcern").await.as_ref(),
            Some(&concern)
        );

        let preference = doc! { "mode": "secondaryPreferred", "tags": [{ "dc": "ny" }, {}] };
        let preference = Bson::from(preference);
        let level = Bson::from(doc! { "level": "majority" });
        things.find_one(doc! {}).await.expect("a reply");
        things.count_documents(doc! {}).await.expect("a reply");
        for name in ["find", "aggregate"] {
            assert_eq!(sent.field(name, "readConcern").await.as_ref(), Some(&level));
            assert_eq!(
                sent.field(name, "$readPreference").await.as_ref(),
                Some(&preference)
            );
        }
        client.shutdown().await;
    });
}
