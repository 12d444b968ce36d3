//! The entities of a test, by name.

use super::{
    arm::Host, clients::New, file::list, matching::Lookup, setting::Topology, transactions,
    watch::Watch,
};
use bson::{Bson, Document};
use onionskin::{
    ChangeStream, Client, ClientSession, Collection, Cursor, Database, Error, GridFsBucket,
    Runtime, SessionChangeStream, SessionCursor,
    gridfs::GridFsBucketOptions,
    options::{CollectionOptions, DatabaseOptions, SessionOptions},
};
use onionskin_core::description::TopologyDescription;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// An entity.
pub(crate) enum Entity<R: Runtime> {
    Client(Arc<Watched<R>>),
    Database(Database<R>),
    Collection(Collection<R, Document>),
    Bucket(GridFsBucket<R>),
    Session(Arc<Slot<R>>),
    Cursor(Arc<Mutex<Option<Open<R>>>>),
    Topology(Arc<TopologyDescription>),
    Thread(Arc<Mutex<Thread>>),
    /// A value, or the list of errors, failures or events that a loop collects.
    Value(Bson),
}

impl<R: Runtime> Clone for Entity<R> {
    fn clone(&self) -> Self {
        match self {
            Self::Client(client) => Self::Client(Arc::clone(client)),
            Self::Database(database) => Self::Database(database.clone()),
            Self::Collection(collection) => Self::Collection(collection.clone()),
            Self::Bucket(bucket) => Self::Bucket(bucket.clone()),
            Self::Session(session) => Self::Session(Arc::clone(session)),
            Self::Cursor(cursor) => Self::Cursor(Arc::clone(cursor)),
            Self::Topology(topology) => Self::Topology(Arc::clone(topology)),
            Self::Thread(thread) => Self::Thread(Arc::clone(thread)),
            Self::Value(value) => Self::Value(value.clone()),
        }
    }
}

/// A client and its record.
pub(crate) struct Watched<R: Runtime> {
    pub(crate) client: Client<R>,
    pub(crate) watch: Arc<Watch>,
}

/// A session, which is absent while an operation uses it and after its end.
pub(crate) struct Slot<R: Runtime> {
    pub(crate) lsid: Document,
    session: Mutex<Option<ClientSession<R>>>,
}

impl<R: Runtime> Slot<R> {
    pub(crate) fn new(session: ClientSession<R>) -> Self {
        Self {
            lsid: session.id().clone(),
            session: Mutex::new(Some(session)),
        }
    }

    /// Returns the session, which goes back when the value is dropped.
    pub(crate) fn borrow(self: &Arc<Self>) -> Result<Borrowed<R>, String> {
        let session = lock(&self.session).take();
        let session = session.ok_or("the session is in use, or has ended")?;
        Ok(Borrowed {
            slot: Arc::clone(self),
            session: Some(session),
        })
    }

    pub(crate) async fn end(&self) -> Result<(), Error> {
        let session = self.take();
        match session {
            Some(session) => session.end().await,
            None => Ok(()),
        }
    }

    pub(crate) fn take(&self) -> Option<ClientSession<R>> {
        lock(&self.session).take()
    }

    pub(crate) fn put(&self, session: ClientSession<R>) {
        *lock(&self.session) = Some(session);
    }
}

/// A session while an operation uses it.
pub(crate) struct Borrowed<R: Runtime> {
    slot: Arc<Slot<R>>,
    session: Option<ClientSession<R>>,
}

impl<R: Runtime> Borrowed<R> {
    pub(crate) fn session(&mut self) -> &mut ClientSession<R> {
        self.session.as_mut().expect("it is there until the drop")
    }
}

impl<R: Runtime> Drop for Borrowed<R> {
    fn drop(&mut self) {
        *lock(&self.slot.session) = self.session.take();
    }
}

/// A cursor or a change stream, outside of sessions or in one.
pub(crate) enum Open<R: Runtime> {
    Plain(Cursor<R, Document>),
    InSession(SessionCursor<R, Document>, Arc<Slot<R>>),
    Changes(ChangeStream<R, Document>),
    ChangesInSession(SessionChangeStream<R, Document>, Arc<Slot<R>>),
}

/// The operations of a thread that wait, and the state of the thread.
#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) waiting: VecDeque<Document>,
    pub(crate) is_busy: bool,
    pub(crate) failure: Option<String>,
}

/// Where clients connect to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) topology: Topology,
    /// The servers, or the services behind a load balancer.
    pub(crate) hosts: Vec<String>,
    /// The load balancer in front of all services, if there is one.
    pub(crate) balancer: Option<String>,
    /// True if a client that does not say how many routers it uses connects to many.
    pub(crate) many_routers: bool,
    /// True if clients check their servers twice a second, unless their options name another
    /// interval. In real time, a client then soon finds a server again that a fail point has made
    /// unknown.
    pub(crate) checks_often: bool,
    /// The options of each connection string.
    pub(crate) options: String,
    /// The user name and the password, or `None` without authentication.
    pub(crate) user: Option<(&'static str, &'static str)>,
}

impl Place {
    /// Returns the connection string of a client. `many_routers` says if it connects to several
    /// routers, or to the load balancer in front of all services (Unified Test Format, *client*).
    pub(crate) fn uri(&self, many_routers: Option<bool>, options: &Document) -> String {
        let many_routers = many_routers.unwrap_or(self.many_routers);
        let is_direct = options.get("directConnection") == Some(&Bson::Boolean(true));
        let hosts = match &self.balancer {
            Some(balancer) if many_routers => slice::from_ref(balancer),
            Some(_) => &self.hosts[..1],
            None if self.topology == Topology::Sharded && !many_routers => &self.hosts[..1],
            None if is_direct => &self.hosts[..1],
            None => &self.hosts[..],
        };
        let user = match (self.user, options.get("authMechanism")) {
            (Some((name, password)), None) => format!("{name}:{password}@"),
            _ => String::new(),
        };
        let mut uri = format!("mongodb://{user}{}/?{}", hosts.join(","), self.options);
        if self.checks_often && !options.contains_key("heartbeatFrequencyMS") {
            uri += "&heartbeatFrequencyMS=500";
        }
        for (key, value) in options {
            let _ = write!(uri, "&{key}={}", encoded(&text(value)));
        }
        uri
    }
}

fn text(value: &Bson) -> String {
    match value {
        Bson::String(text) => text.clone(),
        // A property of the credential that the runner fills in.
        Bson::Document(document) if document.contains_key("$$placeholder") => {
            "ENVIRONMENT:test".to_owned()
        }
        Bson::Document(document) => {
            let pairs = document
                .iter()
                .map(|(key, value)| format!("{key}:{}", text(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
        Bson::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' | b',' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// All entities of a test.
pub(crate) struct Entities<R: Runtime> {
    map: Mutex<BTreeMap<String, Entity<R>>>,
}

impl<R: Runtime> Default for Entities<R> {
    fn default() -> Self {
        Self {
            map: Mutex::default(),
        }
    }
}

impl<R: Runtime> Entities<R> {
    /// Adds an entity. Returns an error if the name is taken.
    pub(crate) fn add(&self, name: &str, entity: Entity<R>) -> Result<(), String> {
        match lock(&self.map).insert(name.to_owned(), entity) {
            None => Ok(()),
            Some(_) => Err(format!("there are two entities {name}")),
        }
    }

    /// Sets the value of an entity that may exist.
    pub(crate) fn set(&self, name: &str, value: Bson) {
        lock(&self.map).insert(name.to_owned(), Entity::Value(value));
    }

    pub(crate) fn get(&self, name: &str) -> Result<Entity<R>, String> {
        let found = lock(&self.map).get(name).cloned();
        found.ok_or_else(|| format!("there is no entity {name}"))
    }

    pub(crate) fn client(&self, name: &str) -> Result<Arc<Watched<R>>, String> {
        match self.get(name)? {
            Entity::Client(client) => Ok(client),
            _ => Err(format!("{name} is no client")),
        }
    }

    pub(crate) fn database(&self, name: &str) -> Result<Database<R>, String> {
        match self.get(name)? {
            Entity::Database(database) => Ok(database),
            _ => Err(format!("{name} is no database")),
        }
    }

    pub(crate) fn session(&self, name: &str) -> Result<Arc<Slot<R>>, String> {
        match self.get(name)? {
            Entity::Session(session) => Ok(session),
            _ => Err(format!("{name} is no session")),
        }
    }

    /// Returns all clients.
    pub(crate) fn clients(&self) -> Vec<Arc<Watched<R>>> {
        let map = lock(&self.map);
        let clients = map.values().filter_map(|entity| match entity {
            Entity::Client(client) => Some(Arc::clone(client)),
            _ => None,
        });
        clients.collect()
    }

    /// Removes all entities, and returns the clients.
    pub(crate) fn take_clients(&self) -> Vec<Arc<Watched<R>>> {
        let all = std::mem::take(&mut *lock(&self.map));
        let clients = all.into_values().filter_map(|entity| match entity {
            Entity::Client(client) => Some(client),
            _ => None,
        });
        clients.collect()
    }

    /// Creates the entity of an element of `createEntities`.
    pub(crate) async fn create(&self, entity: &Document, new: &New<R>) -> Result<(), String>
    where
        R: Host,
    {
        let (kind, options) = entity.iter().next().ok_or("an entity is empty")?;
        let options = options.as_document().ok_or("an entity is no document")?;
        let id = string(options, "id")?;
        let made = match kind.as_str() {
            "client" => {
                let watched = new.client(id, options)?;
                new.fill_pool(&watched, options).await?;
                Entity::Client(watched)
            }
            "database" => {
                let client = self.client(string(options, "client")?)?;
                let own = sub(options, "databaseOptions");
                let own = strictly::<DatabaseOptions>(&own)?;
                let name = string(options, "databaseName")?;
                Entity::Database(client.client.database_with_options(name, own))
            }
            "collection" => {
                let database = self.database(string(options, "database")?)?;
                let own = sub(options, "collectionOptions");
                let own = strictly::<CollectionOptions>(&own)?;
                let name = string(options, "collectionName")?;
                Entity::Collection(database.collection_with_options(name, own))
            }
            "bucket" => {
                let database = self.database(string(options, "database")?)?;
                let own = sub(options, "bucketOptions");
                let own = strictly::<GridFsBucketOptions>(&own)?;
                Entity::Bucket(database.gridfs_bucket(own))
            }
            "session" => {
                let client = self.client(string(options, "client")?)?;
                let mut own = SessionOptions::default();
                for (key, value) in &sub(options, "sessionOptions") {
                    match (key.as_str(), value) {
                        ("causalConsistency", Bson::Boolean(value)) => {
                            own.causal_consistency = Some(*value);
                        }
                        ("snapshot", Bson::Boolean(value)) => own.snapshot = Some(*value),
                        ("defaultTimeoutMS", value) => {
                            let millis = value.as_i64().or_else(|| value.as_i32().map(i64::from));
                            let millis = millis.and_then(|millis| u64::try_from(millis).ok());
                            own.default_timeout = millis.map(Duration::from_millis);
                        }
                        ("defaultTransactionOptions", Bson::Document(options)) => {
                            let (options, _) = transactions::options(&mut options.clone())?;
                            own.default_transaction_options = Some(options);
                        }
                        ("snapshotTime", Bson::String(name)) => match self.get(name)? {
                            Entity::Value(Bson::Timestamp(time)) => own.snapshot_time = Some(time),
                            _ => return Err(format!("{name} is no time")),
                        },
                        (other, _) => return Err(format!("there is no session option {other}")),
                    }
                }
                let session = client.client.start_session().with_options(own);
                let session = session.await.map_err(|error| error.to_string())?;
                Entity::Session(Arc::new(Slot::new(session)))
            }
            "thread" => Entity::Thread(Arc::default()),
            other => return Err(format!("there are no entities of the kind {other}")),
        };
        self.add(id, made)
    }
}

impl<R: Runtime> Lookup for Entities<R> {
    fn value(&self, entity: &str) -> Result<Bson, String> {
        match self.get(entity)? {
            Entity::Value(value) => Ok(value),
            _ => Err(format!("{entity} is no value")),
        }
    }

    fn session(&self, entity: &str) -> Result<Document, String> {
        Ok(Self::session(self, entity)?.lsid.clone())
    }
}

/// Returns options of a document. Returns an error if the options lack one of its fields.
pub(crate) fn strictly<T: serde::de::DeserializeOwned + serde::Serialize>(
    document: &Document,
) -> Result<T, String> {
    let options: T = bson::deserialize_from_document(document.clone())
        .map_err(|error| format!("{document}: {error}"))?;
    let known = bson::serialize_to_document(&options).map_err(|error| error.to_string())?;
    match document.keys().find(|key| !known.contains_key(key)) {
        None => Ok(options),
        Some(key) => Err(format!("there is no option {key}")),
    }
}

/// Returns a text of a document.
pub(crate) fn string<'a>(document: &'a Document, key: &str) -> Result<&'a str, String> {
    document.get_str(key).map_err(|error| error.to_string())
}

/// Returns a document of a document; an empty one if there is none.
pub(crate) fn sub(document: &Document, key: &str) -> Document {
    document.get_document(key).cloned().unwrap_or_default()
}

/// Returns the entities that a `createEntities` operation names.
pub(crate) fn named(arguments: &Document) -> Result<Vec<Document>, String> {
    list(arguments, "entities")
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
