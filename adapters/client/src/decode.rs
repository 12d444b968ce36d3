//! Decoders, which turn replies into the results of operations.

use crate::{
    ChangeStream, Client, Cursor, RawBatchCursor, Runtime, SessionChangeStream, SessionCursor,
    SessionRawBatchCursor,
};
use bson::{Bson, Document, RawDocument};
use onionskin_core::{
    bson::decode_document_into,
    client::SessionId,
    error::Error,
    operation::{
        self, Decode, Exchange,
        crud::{
            self, ChangeStreamEvent, CreateIndexResult, CreateIndexesResult, DatabaseSpecification,
            DeleteResult, InsertOneResult, UpdateResult,
        },
    },
};
use serde::de::DeserializeOwned;
use std::{marker::PhantomData, sync::Arc};

/// The decoder of `insert_one`, with the `_id` of the inserted document.
#[derive(Debug)]
pub(crate) struct InsertedOne(pub(crate) Bson);

impl Decode for InsertedOne {
    type Output = InsertOneResult;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<InsertOneResult, Error> {
        let id = std::mem::replace(&mut self.0, Bson::Null);
        Ok(InsertOneResult::from_exchange(id, exchange))
    }
}

/// The decoder of `find_one`, which decodes the first document of the reply as `T`.
#[derive(Debug)]
pub(crate) struct FirstDocument<T>(pub(crate) PhantomData<fn() -> T>);

impl<T: DeserializeOwned + 'static> Decode for FirstDocument<T> {
    type Output = Option<T>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Option<T>, Error> {
        crud::decode_first(reply(exchange)?)
    }
}

/// The decoder of updates, which returns the counts of the reply, or zeros if the write was not
/// acknowledged.
#[derive(Debug)]
pub(crate) struct Updated;

impl Decode for Updated {
    type Output = UpdateResult;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<UpdateResult, Error> {
        UpdateResult::from_exchange(exchange)
    }
}

/// The decoder of deletes, which returns the count of the reply, or zero if the write was not
/// acknowledged.
#[derive(Debug)]
pub(crate) struct Deleted;

impl Decode for Deleted {
    type Output = DeleteResult;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<DeleteResult, Error> {
        DeleteResult::from_exchange(exchange)
    }
}

/// The decoder of `count_documents`, which returns the number in the reply.
#[derive(Debug)]
pub(crate) struct Counted;

impl Decode for Counted {
    type Output = u64;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<u64, Error> {
        crud::count_from_reply(reply(exchange)?)
    }
}

/// The decoder of `estimated_document_count`, which returns the number in the reply.
#[derive(Debug)]
pub(crate) struct Estimated;

impl Decode for Estimated {
    type Output = u64;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<u64, Error> {
        crud::number_in(reply(exchange)?)
    }
}

/// The decoder of `distinct`, which returns the values of the reply.
#[derive(Debug)]
pub(crate) struct DistinctValues;

impl Decode for DistinctValues {
    type Output = Vec<Bson>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Vec<Bson>, Error> {
        crud::values_from_reply(reply(exchange)?)
    }
}

/// The decoder of `findAndModify`, which decodes the document of the reply as `T`. There is none if
/// the write was not acknowledged.
#[derive(Debug)]
pub(crate) struct FoundDocument<T>(pub(crate) PhantomData<fn() -> T>);

impl<T: DeserializeOwned + 'static> Decode for FoundDocument<T> {
    type Output = Option<T>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Option<T>, Error> {
        exchange.reply().map_or(Ok(None), crud::found_document)
    }
}

/// The decoder of commands whose reply has nothing to return.
#[derive(Debug)]
pub(crate) enum Done {
    /// The error of the command is that of the call.
    OnSuccess,
    /// A collection or database that the command drops may be missing.
    OrMissing,
}

impl Decode for Done {
    type Output = ();

    fn decode(&mut self, _: &mut Exchange) -> Result<(), Error> {
        Ok(())
    }

    fn decode_error(&mut self, error: Error) -> Result<(), Error> {
        match self {
            Self::OrMissing if crud::is_missing_namespace(&error) => Ok(()),
            Self::OrMissing | Self::OnSuccess => Err(error),
        }
    }
}

/// The decoder of `create_index`, with the names of the indexes.
#[derive(Debug)]
pub(crate) struct IndexCreated(pub(crate) Vec<String>);

impl Decode for IndexCreated {
    type Output = CreateIndexResult;

    fn decode(&mut self, _: &mut Exchange) -> Result<CreateIndexResult, Error> {
        Ok(CreateIndexesResult::new(std::mem::take(&mut self.0)).into())
    }
}

/// The decoder of `create_indexes`, with the names of the indexes.
#[derive(Debug)]
pub(crate) struct IndexesCreated(pub(crate) Vec<String>);

impl Decode for IndexesCreated {
    type Output = CreateIndexesResult;

    fn decode(&mut self, _: &mut Exchange) -> Result<CreateIndexesResult, Error> {
        Ok(CreateIndexesResult::new(std::mem::take(&mut self.0)))
    }
}

/// The decoder of `create_search_index`, which returns the name in the reply.
#[derive(Debug)]
pub(crate) struct SearchIndexCreated;

impl Decode for SearchIndexCreated {
    type Output = String;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<String, Error> {
        let mut names = crud::created_search_indexes(reply(exchange)?, 1)?;
        Ok(names.pop().unwrap_or_default())
    }
}

/// The decoder of `create_search_indexes`, which returns this number of names in the reply.
#[derive(Debug)]
pub(crate) struct SearchIndexesCreated(pub(crate) usize);

impl Decode for SearchIndexesCreated {
    type Output = Vec<String>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Vec<String>, Error> {
        crud::created_search_indexes(reply(exchange)?, self.0)
    }
}

/// The decoder of `list_databases`.
#[derive(Debug)]
pub(crate) struct Databases;

impl Decode for Databases {
    type Output = Vec<DatabaseSpecification>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Self::Output, Error> {
        crud::databases_from_reply(reply(exchange)?)
    }
}

/// The decoder of `list_database_names`.
#[derive(Debug)]
pub(crate) struct DatabaseNames;

impl Decode for DatabaseNames {
    type Output = Vec<String>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Self::Output, Error> {
        let all: Vec<DatabaseSpecification> = crud::databases_from_reply(reply(exchange)?)?;
        Ok(all.into_iter().map(|database| database.name).collect())
    }
}

/// The decoder of commands that open a cursor in a session of the application.
pub(crate) struct OpenSessionCursor<R: Runtime, T> {
    pub(crate) opener: OpenCursor<R, T>,
    /// The session; `None` if the call fails before its command.
    pub(crate) session: Option<SessionId>,
}

impl<R: Runtime, T> Decode for OpenSessionCursor<R, T> {
    type Output = SessionCursor<R, T>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<SessionCursor<R, T>, Error> {
        let cursor = self.opener.decode(exchange)?;
        Ok(SessionCursor::new(cursor, known(self.session)?))
    }
}

/// Returns the session of a call whose command has run.
fn known(session: Option<SessionId>) -> Result<SessionId, Error> {
    session.ok_or_else(|| Error::argument("the call has no session"))
}

/// The decoder of `watch`, which opens a change stream.
pub(crate) struct OpenStream<R: Runtime, T> {
    client: Client<R>,
    /// The call; `None` once its stream was opened.
    watch: Option<crud::Watch>,
    marker: PhantomData<fn() -> T>,
}

impl<R: Runtime, T> OpenStream<R, T> {
    pub(crate) fn new(client: &Client<R>, watch: crud::Watch) -> Self {
        Self {
            client: client.clone(),
            watch: Some(watch),
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, T> Decode for OpenStream<R, T> {
    type Output = ChangeStream<R, ChangeStreamEvent<T>>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Self::Output, Error> {
        let watch = self.watch.take();
        let watch = watch.ok_or_else(|| Error::argument("the change stream was opened already"))?;
        let stream = operation::ChangeStream::from_exchange(exchange, watch)?;
        Ok(ChangeStream::new(self.client.clone(), stream))
    }
}

/// The decoder of `watch` in a session of the application.
pub(crate) struct OpenSessionStream<R: Runtime, T> {
    pub(crate) opener: OpenStream<R, T>,
    /// The session; `None` if the call fails before its command.
    pub(crate) session: Option<SessionId>,
}

impl<R: Runtime, T> Decode for OpenSessionStream<R, T> {
    type Output = SessionChangeStream<R, ChangeStreamEvent<T>>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Self::Output, Error> {
        let stream = self.opener.decode(exchange)?;
        Ok(SessionChangeStream::new(stream, known(self.session)?))
    }
}

/// The decoder of commands that open a cursor of whole batches.
pub(crate) struct OpenRawBatches<R: Runtime>(pub(crate) OpenCursor<R, ()>);

impl<R: Runtime> Decode for OpenRawBatches<R> {
    type Output = RawBatchCursor<R>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<RawBatchCursor<R>, Error> {
        let cursor = self.0.open(exchange)?;
        Ok(RawBatchCursor::new(self.0.client.clone(), cursor))
    }
}

/// The decoder of commands that open a cursor of whole batches in a session of the application.
pub(crate) struct OpenSessionRawBatches<R: Runtime> {
    pub(crate) opener: OpenRawBatches<R>,
    /// The session; `None` if the call fails before its command.
    pub(crate) session: Option<SessionId>,
}

impl<R: Runtime> Decode for OpenSessionRawBatches<R> {
    type Output = SessionRawBatchCursor<R>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<SessionRawBatchCursor<R>, Error> {
        let cursor = self.opener.decode(exchange)?;
        Ok(SessionRawBatchCursor::new(cursor, known(self.session)?))
    }
}

fn reply(exchange: &Exchange) -> Result<&RawDocument, Error> {
    let reply = exchange.reply();
    reply.ok_or_else(|| Error::protocol("the command has no reply"))
}

/// The decoder that returns the whole reply, or an empty document without a reply. It uses the
/// memory of an empty document.
#[derive(Debug)]
pub(crate) struct WholeReply(Option<Document>);

impl WholeReply {
    /// The maximum number of fields of a document whose memory is used again, so that a small reply
    /// does not keep the memory of a large command.
    const MAX_FIELDS: usize = 16;

    /// Returns a decoder that uses the memory of a document.
    pub(crate) fn with_memory_of(mut document: Document) -> Self {
        let is_small = document.len() <= Self::MAX_FIELDS;
        document.clear();
        Self(is_small.then_some(document))
    }
}

impl Decode for WholeReply {
    type Output = Document;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Document, Error> {
        let mut document = self.0.take().unwrap_or_default();
        if let Some(reply) = exchange.reply_bytes() {
            decode_document_into(&mut document, reply)?;
        }
        Ok(document)
    }
}

/// The decoder of commands that open a cursor, which returns the cursor.
pub(crate) struct OpenCursor<R: Runtime, T> {
    pub(crate) client: Client<R>,
    pub(crate) database: Arc<str>,
    pub(crate) marker: PhantomData<fn() -> T>,
}

impl<R: Runtime, T> OpenCursor<R, T> {
    pub(crate) fn new(client: &Client<R>, database: &Arc<str>) -> Self {
        Self {
            client: client.clone(),
            database: database.clone(),
            marker: PhantomData,
        }
    }

    /// Returns the decoder of a cursor with documents of another type.
    pub(crate) fn with_type<U>(self) -> OpenCursor<R, U> {
        OpenCursor {
            client: self.client,
            database: self.database,
            marker: PhantomData,
        }
    }

    fn open(&self, exchange: &mut Exchange) -> Result<operation::Cursor, Error> {
        operation::Cursor::from_exchange(exchange, self.database.clone())
    }
}

impl<R: Runtime, T> Decode for OpenCursor<R, T> {
    type Output = Cursor<R, T>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Cursor<R, T>, Error> {
        let cursor = self.open(exchange)?;
        Ok(Cursor::new(self.client.clone(), cursor))
    }
}
