//! Runs the operations of the official test files about log messages.

use bson::{Bson, Document};
use onionskin_core::{
    event::{Event, EventKind, PoolEvent, SdamEvent},
    log::{Component, Level, LogOptions},
    options::{ReadMode, ReadPreference, WriteConcern},
};
use onionskin_tests::compressors::with_compressors;
use onionskin_tokio::{Client, Collection, Database, Error, TokioRuntime};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The longest time to wait for an event, or for a fail point to be switched off.
const SOON: Duration = Duration::from_secs(10);

/// The entities of one test.
pub(crate) struct Stage<'a> {
    uri: &'a str,
    clients: BTreeMap<String, Watched>,
    databases: BTreeMap<String, Database>,
    collections: BTreeMap<String, Collected>,
}

/// A client and the names of its events.
struct Watched {
    client: Client,
    events: Arc<Mutex<Vec<String>>>,
    /// True if the client has set a fail point, which must be switched off at the end.
    has_set_fail_point: bool,
}

struct Collected {
    collection: Collection<Document>,
    read_preference: Option<ReadPreference>,
    unacknowledged: bool,
}

impl<'a> Stage<'a> {
    /// Creates a stage without entities for this deployment.
    pub(crate) fn new(uri: &'a str) -> Self {
        Self {
            uri,
            clients: BTreeMap::new(),
            databases: BTreeMap::new(),
            collections: BTreeMap::new(),
        }
    }

    /// Runs a test. Returns an error if an operation does not end as the test expects, and for an
    /// entity or operation that this runner does not support.
    pub(crate) async fn play(&mut self, file: &Value, test: &Value) -> Result<(), String> {
        for data in list(&file["initialData"]) {
            self.fill(data).await?;
        }
        self.create(&file["createEntities"])?;
        for operation in list(&test["operations"]) {
            let name = text(&operation["name"])?;
            let result = self.operate(name, operation).await;
            let expected = operation.get("expectError");
            match (result, expected) {
                (Ok(Ok(())), None) => {}
                (Ok(Err(error)), Some(expected)) => {
                    let by_server = error.code().is_some();
                    if expected["isClientError"] == Value::Bool(by_server) {
                        return Err(format!("{name}: {error} is of the other side"));
                    }
                }
                (Ok(Ok(())), Some(_)) => return Err(format!("{name} did not fail")),
                (Ok(Err(error)), None) => return Err(format!("{name}: {error}")),
                (Err(reason), _) => return Err(format!("{name}: {reason}")),
            }
        }
        Ok(())
    }

    /// Waits until listeners and subscribers have got all events.
    pub(crate) async fn flush(&self) {
        for watched in self.clients.values() {
            watched.client.flush_events().await;
        }
    }

    /// Switches off all fail points and closes all clients.
    pub(crate) async fn clear(self) {
        let Self {
            clients,
            databases,
            collections,
            ..
        } = self;
        drop((databases, collections));
        for (_, watched) in clients {
            if watched.has_set_fail_point {
                let off = bson::doc! { "configureFailPoint": "failCommand", "mode": "off" };
                let admin = watched.client.database("admin");
                let answer = admin.run_command(off).timeout(SOON).await;
                answer.expect("the fail point is taken away");
            }
            watched.client.shutdown().await;
        }
    }

    async fn fill(&self, data: &Value) -> Result<(), String> {
        let Watched { client, .. } = client(self.uri, &Value::Null)?;
        let database = client.database(text(&data["databaseName"])?);
        let collection = database.collection::<Document>(text(&data["collectionName"])?);
        let drop = bson::doc! { "drop": collection.name() };
        // The command fails if the collection does not exist.
        let _ = database.run_command(drop).await;
        let documents: Vec<Document> = list(&data["documents"])
            .iter()
            .map(document)
            .collect::<Result<_, _>>()?;
        if !documents.is_empty() {
            collection.insert_many(&documents).await.map_err(text_of)?;
        }
        client.shutdown().await;
        Ok(())
    }

    fn create(&mut self, entities: &Value) -> Result<(), String> {
        for entity in list(entities) {
            let entity = entity.as_object().ok_or("an entity is no object")?;
            let (kind, entity) = entity.iter().next().ok_or("an entity is empty")?;
            let id = text(&entity["id"])?.to_owned();
            match kind.as_str() {
                "client" => {
                    let watched = client(self.uri, entity)?;
                    self.clients.insert(id, watched);
                }
                "database" => {
                    let watched = self.client(&entity["client"])?;
                    let database = watched.client.database(text(&entity["databaseName"])?);
                    self.databases.insert(id, database);
                }
                "collection" => {
                    let database = self.databases.get(text(&entity["database"])?);
                    let database = database.ok_or("no such database")?;
                    let options = &entity["collectionOptions"];
                    let collected = Collected {
                        collection: database.collection(text(&entity["collectionName"])?),
                        read_preference: read_preference(&options["readPreference"])?,
                        unacknowledged: options["writeConcern"]["w"] == 0,
                    };
                    self.collections.insert(id, collected);
                }
                // Operations with a session are not supported, so the entity is not needed.
                "session" => {}
                other => return Err(format!("there is no {other} here")),
            }
        }
        Ok(())
    }

    fn client(&self, id: &Value) -> Result<&Watched, String> {
        let found = self.clients.get(text(id)?);
        found.ok_or_else(|| format!("no client {id}"))
    }

    /// Runs one operation. The outer error is one of the runner, the inner error is one of the
    /// operation.
    async fn operate(
        &mut self,
        name: &str,
        operation: &Value,
    ) -> Result<Result<(), Error>, String> {
        let arguments = &operation["arguments"];
        let object = text(&operation["object"])?;
        Ok(match name {
            "createEntities" => {
                self.create(&arguments["entities"])?;
                Ok(())
            }
            "waitForEvent" => {
                let watched = self.client(&arguments["client"])?;
                watched.wait_for(arguments).await?;
                Ok(())
            }
            "failPoint" => {
                let id = text(&arguments["client"])?;
                let watched = self.clients.get_mut(id).ok_or("no such client")?;
                watched.has_set_fail_point = true;
                let command = document(&arguments["failPoint"])?;
                let admin = watched.client.database("admin");
                admin.run_command(command).await.map(drop)
            }
            "close" => {
                let watched = self.clients.remove(object).ok_or("no such client")?;
                watched.client.shutdown().await;
                Ok(())
            }
            "listDatabases" => {
                let watched = self.client(&operation["object"])?;
                let admin = watched.client.database("admin");
                let command = bson::doc! { "listDatabases": 1 };
                admin.run_command(command).await.map(drop)
            }
            "runCommand" => {
                let database = self.databases.get(object).ok_or("no such database")?;
                let command = command(&arguments["commandName"], &arguments["command"])?;
                database.run_command(command).await.map(drop)
            }
            "insertOne" | "find" | "bulkWrite" => {
                let collected = self.collections.get(object).ok_or("no such collection")?;
                collected.operate(name, arguments).await?
            }
            other => return Err(format!("there is no {other} here")),
        })
    }
}

impl Collected {
    async fn operate(&self, name: &str, arguments: &Value) -> Result<Result<(), Error>, String> {
        Ok(match name {
            "find" => {
                let mut find = self.collection.find(document(&arguments["filter"])?);
                if let Some(preference) = &self.read_preference {
                    find = find.read_preference(preference.clone());
                }
                match find.await {
                    Ok(mut cursor) => loop {
                        match cursor.next().await {
                            None => break Ok(()),
                            Some(Ok(_)) => {}
                            Some(Err(error)) => break Err(error),
                        }
                    },
                    Err(error) => Err(error),
                }
            }
            // A bulk write of one insert sends the same command as a single insert.
            "bulkWrite" if list(&arguments["requests"]).len() == 1 => {
                let request = &arguments["requests"][0]["insertOne"];
                self.insert(document(&request["document"])?).await
            }
            "insertOne" => self.insert(document(&arguments["document"])?).await,
            other => return Err(format!("there is no {other} of this kind here")),
        })
    }

    async fn insert(&self, document: Document) -> Result<(), Error> {
        let mut insert = self.collection.insert_one(document);
        if self.unacknowledged {
            insert = insert.write_concern(WriteConcern::nodes(0));
        }
        insert.await.map(drop)
    }
}

impl Watched {
    async fn wait_for(&self, arguments: &Value) -> Result<(), String> {
        let event = arguments["event"].as_object().ok_or("no event")?;
        let (name, details) = event.iter().next().ok_or("no event")?;
        let kind = details["newDescription"]["type"].as_str();
        let wanted = kind.map_or_else(|| name.clone(), |kind| format!("{name} {kind}"));
        let count = arguments["count"].as_u64().ok_or("no count")?;
        for _ in 0..SOON.as_millis() {
            let events = self
                .events
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let fits =
                |found: &&String| **found == wanted || found.starts_with(&format!("{wanted} "));
            if events.iter().filter(fits).count() as u64 >= count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Err(format!("{count} times {wanted} did not come"))
    }
}

fn client(uri: &str, entity: &Value) -> Result<Watched, String> {
    let mut uri = uri.to_owned();
    let mut options = entity["uriOptions"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    // The fail points of simulated servers affect commands and not streamed replies, so the client
    // polls.
    options.insert("serverMonitoringMode".to_owned(), "poll".into());
    options
        .entry("heartbeatFrequencyMS")
        .or_insert_with(|| 500.into());
    for (name, value) in &options {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let before = if uri.contains('?') { '&' } else { '?' };
        if before == '?' && !uri.ends_with('/') {
            uri.push('/');
        }
        uri += &format!("{before}{name}={value}");
    }
    let mut log = LogOptions::default();
    for component in Component::ALL {
        let level = match entity["observeLogMessages"][component.name()].as_str() {
            None => None,
            Some("debug") => Some(Level::Debug),
            Some(other) => return Err(format!("level {other} is not known to the runner")),
        };
        log = log.with_level(component, level);
    }
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = events.clone();
    let listener = Arc::new(move |event: &Event| {
        sink.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(name(event));
    });
    let client = Client::builder_from_uri(TokioRuntime::default(), &with_compressors(&uri))
        .and_then(|builder| builder.event_listener(listener).log_options(log).build())
        .map_err(|error| format!("{uri}: {error}"))?;
    Ok(Watched {
        client,
        events,
        has_set_fail_point: false,
    })
}

fn name(event: &Event) -> Option<String> {
    let name = match &event.kind {
        EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. }) => {
            return Some(format!("serverDescriptionChangedEvent {}", new.server_type));
        }
        EventKind::Sdam(SdamEvent::TopologyDescriptionChanged { .. }) => {
            "topologyDescriptionChangedEvent"
        }
        EventKind::Sdam(SdamEvent::HeartbeatSucceeded { .. }) => "serverHeartbeatSucceededEvent",
        EventKind::Sdam(SdamEvent::HeartbeatFailed { .. }) => "serverHeartbeatFailedEvent",
        EventKind::Pool(PoolEvent::Ready { .. }) => "poolReadyEvent",
        EventKind::Pool(PoolEvent::ConnectionCreated { .. }) => "connectionCreatedEvent",
        EventKind::Pool(PoolEvent::ConnectionReady { .. }) => "connectionReadyEvent",
        _ => return None,
    };
    Some(name.to_owned())
}

fn read_preference(value: &Value) -> Result<Option<ReadPreference>, String> {
    match (value["mode"].as_str(), &value["tagSets"]) {
        (None, _) => Ok(None),
        (Some("Secondary"), tags) => {
            let tags = serde_json::from_value(tags.clone()).map_err(text_of)?;
            let preference = ReadPreference::new(ReadMode::Secondary);
            preference.with_tag_sets(tags).map(Some).map_err(text_of)
        }
        (Some(other), _) => Err(format!("mode {other} is not known to the runner")),
    }
}

fn document(value: &Value) -> Result<Document, String> {
    match Bson::try_from(value.clone()) {
        Ok(Bson::Document(document)) => Ok(document),
        other => Err(format!("{other:?} is no document")),
    }
}

/// Converts a command. The name of a command must be its first key, but the JSON parser does not
/// keep the order.
fn command(name: &Value, value: &Value) -> Result<Document, String> {
    let mut rest = document(value)?;
    let name = text(name)?;
    let first = rest.remove(name).ok_or("the command has another name")?;
    let mut command = bson::doc! { name: first };
    command.extend(rest);
    Ok(command)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("{value} is no text"))
}

fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}
