//! Tests of the fields that the options of a client and of its calls add to commands.

use crate::shown;
use bson::{Bson, Document, doc};
use onionskin_core::event::{CommandEvent, EventKind};
use onionskin_simulations::serve::{Embedded, ServeOptions};
use onionskin_tokio::{Client, TokioRuntime};
use std::sync::{Arc, Mutex, MutexGuard};

/// The commands that a client has sent.
#[derive(Clone, Default)]
pub(super) struct Sent {
    log: Arc<Mutex<Vec<Document>>>,
    client: Arc<Mutex<Option<Client>>>,
}

impl Sent {
    /// Creates a client with these options. The deployment is sharded, because commands to a mongos
    /// contain every read preference except `primary`.
    pub(super) fn client(&self, deployment: &Embedded, options: &str) -> Client {
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

    /// Returns the value at a path in the last command with this name, for example
    /// `updates.0.upsert`.
    pub(super) fn path(&self, name: &str, path: &str) -> Option<Bson> {
        let mut keys = path.split('.');
        let first = self.field(name, keys.next()?)?;
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
    pub(super) fn count(&self, name: &str) -> usize {
        let sent = self.flushed();
        let named = sent.iter().filter(|command| command.contains_key(name));
        named.count()
    }

    /// Returns the commands after the listener has got all of them.
    fn flushed(&self) -> MutexGuard<'_, Vec<Document>> {
        let client = self.client.lock().expect("nobody panicked").clone();
        let client = client.expect("there is one");
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| runtime.block_on(client.flush_events()));
        self.log.lock().expect("nobody panicked")
    }

    /// Returns a field of the last command with this name.
    pub(super) fn field(&self, name: &str, field: &str) -> Option<Bson> {
        let sent = self.flushed();
        let mut newest_first = sent.iter().rev();
        let command = newest_first.find(|command| command.contains_key(name));
        command.expect("it was sent").get(field).cloned()
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
