//! The operations of tests, each as a call of the driver.

pub(crate) mod bulk;
mod changes;
mod client;
mod collection;
mod cursor;
mod database;
mod gridfs;
mod indexes;

use super::{
    entities::{Borrowed, Entities, Entity, Open, Slot, strictly, string},
    transactions,
};
use bson::{Bson, Document};
use onionskin::{Collection, Runtime, error::Error};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::{Arc, Mutex};

/// The result of an operation that succeeded.
pub(crate) enum Answer<R: Runtime> {
    /// No value.
    Nothing,
    Value(Bson),
    Cursor(Box<Open<R>>),
    Collection(Collection<R, Document>),
}

impl<R: Runtime> Answer<R> {
    /// Returns the value that `expectResult` is compared with.
    pub(crate) fn value(&self) -> Option<&Bson> {
        match self {
            Self::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the entity of `saveResultAsEntity`.
    pub(crate) fn into_entity(self) -> Entity<R> {
        match self {
            Self::Nothing => Entity::Value(Bson::Null),
            Self::Value(value) => Entity::Value(value),
            Self::Collection(collection) => Entity::Collection(collection),
            Self::Cursor(cursor) => Entity::Cursor(Arc::new(Mutex::new(Some(*cursor)))),
        }
    }
}

/// The reason why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The driver returned an error.
    Driver(Error),
    /// The runner could not run the operation.
    Runner(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Runner(reason)
    }
}

pub(crate) type Done<R> = Result<Answer<R>, Failure>;

/// The arguments of an operation.
pub(crate) struct Arguments<'a, R: Runtime> {
    left: Document,
    entities: &'a Entities<R>,
}

impl<'a, R: Runtime> Arguments<'a, R> {
    pub(crate) fn new(arguments: Document, entities: &'a Entities<R>) -> Self {
        Self {
            left: arguments,
            entities,
        }
    }

    fn take(&mut self, key: &str) -> Option<Bson> {
        self.left.remove(key)
    }

    fn document(&mut self, key: &str) -> Result<Document, Failure> {
        match self.take(key) {
            Some(Bson::Document(document)) => Ok(document),
            other => Err(Failure::Runner(format!("{key} is {other:?}"))),
        }
    }

    fn text(&mut self, key: &str) -> Result<String, Failure> {
        match self.take(key) {
            Some(Bson::String(text)) => Ok(text),
            other => Err(Failure::Runner(format!("{key} is {other:?}"))),
        }
    }

    fn documents(&mut self, key: &str) -> Result<Vec<Document>, Failure> {
        let Some(Bson::Array(values)) = self.take(key) else {
            return Err(Failure::Runner(format!("{key} is no array")));
        };
        let documents = values.into_iter().map(|value| match value {
            Bson::Document(document) => Ok(document),
            other => Err(Failure::Runner(format!("{key} has {other}"))),
        });
        documents.collect()
    }

    /// Returns a value of a type that can be read from BSON.
    fn read<T: DeserializeOwned>(&mut self, key: &str) -> Result<T, Failure> {
        let value = self.take(key).ok_or_else(|| format!("there is no {key}"))?;
        Ok(bson::deserialize_from_bson(value).map_err(|error| error.to_string())?)
    }

    /// Takes the session out of its slot, if the operation has one.
    fn session(&mut self) -> Result<Option<Borrowed<R>>, Failure> {
        Ok(self.slot()?.map(|slot| slot.borrow()).transpose()?)
    }

    fn slot(&mut self) -> Result<Option<Arc<Slot<R>>>, Failure> {
        let Some(name) = self.take("session") else {
            return Ok(None);
        };
        let name = name
            .as_str()
            .ok_or_else(|| "session is no name".to_owned())?;
        Ok(Some(self.entities.session(name)?))
    }

    /// Returns the remaining arguments as options. Fails if one of them is no such option.
    fn options<T: DeserializeOwned + Serialize>(self) -> Result<T, Failure> {
        Ok(strictly(&self.left)?)
    }

    /// Fails if there are arguments that no operation has taken.
    fn end(self) -> Result<(), Failure> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(Failure::Runner(format!("there is no argument {key}"))),
        }
    }
}

/// Runs a call, in a session if there is one.
macro_rules! call {
    ($call:expr, $session:expr) => {{
        let mut call = $call;
        if let Some(borrowed) = &mut $session {
            call = call.session(borrowed.session());
        }
        call.await?
    }};
}

/// Opens a cursor, in a session if there is one.
macro_rules! open {
    ($call:expr, $slot:expr) => {{
        let call = $call;
        match $slot {
            None => $crate::entities::Open::Plain(call.await?),
            Some(slot) => {
                let mut borrowed = slot.borrow()?;
                let cursor = call.session(borrowed.session()).await?;
                drop(borrowed);
                $crate::entities::Open::InSession(cursor, slot)
            }
        }
    }};
}

use {call, open};

/// Runs an operation on an entity.
pub(crate) async fn operate<R: Runtime>(
    entities: &Entities<R>,
    object: &str,
    name: &str,
    arguments: Document,
) -> Done<R> {
    let entity = entities.get(object)?;
    let arguments = Arguments::new(arguments, entities);
    match entity {
        Entity::Client(client) => client::operate(&client.client, name, arguments).await,
        Entity::Database(database) => database::operate(&database, name, arguments).await,
        Entity::Collection(collection) => collection::operate(&collection, name, arguments).await,
        Entity::Bucket(bucket) => gridfs::operate(&bucket, name, arguments).await,
        Entity::Session(session) => {
            let mut arguments = arguments;
            if name != "endSession" {
                let mut borrowed = session.borrow()?;
                let left = &mut arguments.left;
                if transactions::operate(borrowed.session(), name, left).await? {
                    arguments.end()?;
                    return Ok(Answer::Nothing);
                }
            }
            arguments.end()?;
            match name {
                "endSession" => {
                    session.end().await?;
                    Ok(Answer::Nothing)
                }
                "getSnapshotTime" => {
                    let time = session.borrow()?.session().snapshot_time();
                    let time = time.ok_or_else(|| "there is no time yet".to_owned())?;
                    Ok(Answer::Value(time.into()))
                }
                _ => unknown("a session", name),
            }
        }
        Entity::Cursor(cursor) => cursor::operate(&cursor, name, arguments).await,
        Entity::Topology(_) | Entity::Thread(_) | Entity::Value(_) => unknown("this entity", name),
    }
}

fn unknown<R: Runtime>(of: &str, name: &str) -> Done<R> {
    Err(Failure::Runner(format!("{of} has no operation {name}")))
}

/// Returns a value that can be written as BSON.
fn answer<R: Runtime>(value: &impl Serialize) -> Done<R> {
    let value = bson::serialize_to_bson(value).map_err(|error| error.to_string())?;
    Ok(Answer::Value(value))
}

fn documents<R: Runtime>(documents: Vec<Document>) -> Done<R> {
    Ok(Answer::Value(documents.into()))
}

/// Returns the name of the collection of an operation on a database.
fn collection_name<R: Runtime>(arguments: &mut Arguments<'_, R>) -> Result<String, Failure> {
    let name = string(&arguments.left, "collection")?.to_owned();
    arguments.take("collection");
    Ok(name)
}
