//! Runs one test.

use super::{
    arm::{Host, Server},
    clients::New,
    cuts::Cuts,
    entities::{Entities, Entity, lock, named, string},
    errors, events,
    file::{Test, UnifiedFile, list},
    matching::{self, Place as Depth},
    operations::{self, Done, Failure},
    setting::Topology,
    special, transactions,
};
use bson::{Bson, Document, doc};
use onionskin::{
    Client,
    options::{ReadConcern, ReadPreference, WriteConcern},
};
use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

/// The state that the operations of a test share.
pub(crate) struct Stage<R: Host> {
    pub(crate) runtime: R,
    pub(crate) entities: Entities<R>,
    pub(crate) new: New<R>,
    /// The faults that operations meet, if they meet any.
    pub(crate) cuts: Option<Cuts>,
    pub(crate) on_sockets: bool,
    /// A client of the runner.
    pub(crate) own: Client<R>,
    /// The fail points that are switched off at the end, with the clients that reach them.
    pub(crate) fail_points: Mutex<Vec<(Client<R>, String)>>,
}

/// Plays a test on a deployment.
pub(crate) async fn play<R: Host>(
    server: Server<R>,
    file: &UnifiedFile,
    test: &Test,
) -> Result<(), String> {
    let Server {
        runtime,
        mut place,
        seed,
        cuts,
        on_sockets,
    } = server;
    // The format lets clients that do not say so use all services. In a file with clients for one
    // service, whose fail points are those of this service, they use it as well.
    let is_for_one = |client: &Document| {
        client
            .get_bool("useMultipleMongoses")
            .is_ok_and(|many| !many)
    };
    place.many_routers = place.balancer.is_some() && !file.clients().any(is_for_one);
    place.checks_often = on_sockets && test.sets_fail_points();
    let new = New {
        runtime: runtime.clone(),
        place,
        seed,
    };
    let own = new.own("runner", None)?;
    let stage = Arc::new(Stage {
        runtime,
        entities: Entities::default(),
        new,
        cuts,
        on_sockets,
        own,
        fail_points: Mutex::default(),
    });
    let played = stage.run(file, test).await;
    let played = played.map_err(|why| stage.with_events(&why));
    let ended = stage.end().await;
    played.and(ended)
}

impl<R: Host> Stage<R> {
    async fn run(self: &Arc<Self>, file: &UnifiedFile, test: &Test) -> Result<(), String> {
        // An earlier test may have left a transaction open, whose locks would delay this test.
        if self.on_sockets && self.new.place.topology != Topology::Single {
            let admin = self.own.database("admin");
            let killed = admin.run_command(doc! { "killAllSessions": [] }).await;
            killed.map_err(|error| format!("killAllSessions: {error}"))?;
        }
        for data in &file.initial_data {
            self.fill(data)
                .await
                .map_err(|why| format!("initialData: {why}"))?;
        }
        // Other tests on the same deployment may have used these collections.
        for (database, collection) in file.without_data().filter(|_| self.on_sockets) {
            self.drop_collection(database, collection).await?;
        }
        for entity in &file.entities {
            self.create(entity).await?;
        }
        for (index, operation) in test.operations.iter().enumerate() {
            self.step(operation)
                .await
                .map_err(|why| format!("operation {index}: {why}"))?;
        }
        for client in self.clients() {
            client.client.flush_events().await;
        }
        // Connections that break cause more events.
        if self.cuts.is_none() {
            for expected in &test.events {
                events::check(&self.entities, expected)?;
            }
            for expected in &test.messages {
                events::check_messages(&self.entities, expected)?;
            }
        }
        for expected in &test.outcome {
            self.check_outcome(expected).await?;
        }
        Ok(())
    }

    /// Returns the reason of a failure, with the events of all clients.
    fn with_events(&self, why: &str) -> String {
        let seen = self
            .clients()
            .into_iter()
            .map(|client| events::all(&client.watch.events()));
        let seen = seen.filter(|seen| !seen.is_empty());
        format!("{why}\n    events: {}", seen.collect::<Vec<_>>().join("; "))
    }

    fn clients(&self) -> Vec<Arc<super::entities::Watched<R>>> {
        self.entities.clients()
    }

    /// Creates an entity.
    pub(crate) async fn create(&self, entity: &Document) -> Result<(), String> {
        self.entities.create(entity, &self.new).await
    }

    /// Replaces a collection by the given documents.
    async fn fill(&self, data: &Document) -> Result<(), String> {
        let database = self.own.database(string(data, "databaseName")?);
        let name = string(data, "collectionName")?;
        let collection = database.collection::<Document>(name);
        let text = |error: onionskin::Error| error.to_string();
        let majority = WriteConcern::majority();
        self.drop_collection(database.name(), name).await?;
        let documents = list(data, "documents")?;
        let options = data
            .get_document("createOptions")
            .cloned()
            .unwrap_or_default();
        if documents.is_empty() || !options.is_empty() {
            let mut command = doc! { "create": name };
            command.extend(options);
            command.insert("writeConcern", doc! { "w": "majority" });
            database.run_command(command).await.map_err(text)?;
        }
        if !documents.is_empty() {
            let insert = collection.insert_many(&documents).write_concern(majority);
            insert.await.map_err(text)?;
        }
        Ok(())
    }

    async fn drop_collection(&self, database: &str, name: &str) -> Result<(), String> {
        let collection = self.own.database(database).collection::<Document>(name);
        let dropped = collection.drop().write_concern(WriteConcern::majority());
        dropped.await.map_err(|error| error.to_string())
    }

    async fn check_outcome(&self, expected: &Document) -> Result<(), String> {
        let database = self.own.database(string(expected, "databaseName")?);
        let name = string(expected, "collectionName")?;
        let found: Vec<Document> = database
            .collection::<Document>(name)
            .find(doc! {})
            .sort(doc! { "_id": 1 })
            .read_preference(ReadPreference::default())
            .read_concern(ReadConcern::local())
            .await
            .map_err(|error| error.to_string())?
            .into_vec()
            .await
            .map_err(|error| error.to_string())?;
        let wanted = list(expected, "documents")?;
        let differs = wanted.len() != found.len()
            || wanted.iter().zip(&found).any(|(wanted, found)| {
                let wanted = Bson::Document(wanted.clone());
                let found = Bson::Document(found.clone());
                matching::compare(&self.entities, &wanted, Some(&found), Depth::Nested).is_err()
            });
        match differs {
            false => Ok(()),
            true => Err(format!("outcome: {name} has {found:?}")),
        }
    }

    /// Runs an operation and compares its result with the expected one.
    pub(crate) async fn step(self: &Arc<Self>, operation: &Document) -> Result<(), String> {
        let name = string(operation, "name")?;
        let done = self.perform(operation).await;
        if operation
            .get_bool("ignoreResultAndError")
            .unwrap_or_default()
        {
            return match done {
                Err(Failure::Runner(reason)) => Err(format!("{name}: {reason}")),
                _ => Ok(()),
            };
        }
        self.judge(operation, done)
            .map_err(|why| format!("{name}: {why}"))
    }

    pub(crate) fn judge(&self, operation: &Document, done: Done<R>) -> Result<(), String> {
        let answer = match (done, operation.get_document("expectError").ok()) {
            (Err(failure), Some(expected)) => {
                return errors::check(&self.entities, expected, &failure);
            }
            (Ok(_), Some(_)) => return Err("it did not fail".to_owned()),
            (Err(Failure::Driver(error)), None) => return Err(error.to_string()),
            (Err(Failure::Runner(reason)), None) => return Err(reason),
            (Ok(answer), None) => answer,
        };
        if let Some(expected) = operation.get("expectResult") {
            matching::compare(&self.entities, expected, answer.value(), Depth::Root)
                .map_err(|why| format!("its result: {why}"))?;
        }
        match operation.get_str("saveResultAsEntity") {
            Ok(name) => self.entities.add(name, answer.into_entity()),
            Err(_) => Ok(()),
        }
    }

    /// Runs an operation. It can run other operations in turn, so that its future is boxed.
    pub(crate) fn perform<'a>(
        self: &'a Arc<Self>,
        operation: &'a Document,
    ) -> Pin<Box<dyn Future<Output = Done<R>> + Send + 'a>> {
        Box::pin(async move {
            let text = |key| string(operation, key);
            let (name, object) = (text("name")?, text("object")?);
            let arguments = operation
                .get_document("arguments")
                .cloned()
                .unwrap_or_default();
            match object {
                "testRunner" => special::operate(self, name, &arguments).await,
                _ if name == "withTransaction" => {
                    transactions::with_transaction(self, object, arguments).await
                }
                _ => {
                    let cuts = self.cuts.as_ref();
                    cuts.inspect(|cuts| cuts.begin(name));
                    let done = operations::operate(&self.entities, object, name, arguments).await;
                    cuts.inspect(|cuts| cuts.end());
                    done
                }
            }
        })
    }

    /// Switches off all fail points and closes all clients.
    async fn end(&self) -> Result<(), String> {
        let mut ended = Ok(());
        let fail_points = std::mem::take(&mut *lock(&self.fail_points));
        for (client, name) in fail_points {
            let off = doc! { "configureFailPoint": name, "mode": "off" };
            if let Err(error) = client.database("admin").run_command(off).await {
                ended = Err(format!("a fail point stays on: {error}"));
            }
            client.shutdown().await;
        }
        for watched in self.entities.take_clients() {
            watched.client.clone().shutdown().await;
        }
        self.own.clone().shutdown().await;
        ended
    }

    /// Creates the entities of an operation.
    pub(crate) async fn create_all(&self, arguments: &Document) -> Result<(), String> {
        for entity in named(arguments)? {
            self.create(&entity).await?;
        }
        Ok(())
    }

    /// Returns an entity of the kind `Thread`.
    pub(crate) fn thread(&self, name: &str) -> Result<Arc<Mutex<super::entities::Thread>>, String> {
        match self.entities.get(name)? {
            Entity::Thread(thread) => Ok(thread),
            _ => Err(format!("{name} is no thread")),
        }
    }
}
