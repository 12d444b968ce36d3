//! Decoders, which turn replies into the results of operations.

use crate::{Client, Cursor, Runtime};
use bson::{Bson, Document};
use onionskin_core::{
    bson::decode_document_into,
    error::Error,
    operation::{
        self, Decode, Exchange,
        crud::{self, DeleteResult, InsertOneResult, UpdateResult},
    },
};
use serde::de::DeserializeOwned;
use std::{marker::PhantomData, sync::Arc};

/// The decoder of `insert_one`, with the `_id` of the inserted document.
#[derive(Debug)]
pub(crate) struct InsertedOne(pub(crate) Bson);

impl Decode for InsertedOne {
    type Output = InsertOneResult;

    fn decode(&mut self, _: &mut Exchange) -> Result<InsertOneResult, Error> {
        Ok(InsertOneResult::new(std::mem::replace(
            &mut self.0,
            Bson::Null,
        )))
    }
}

/// The decoder of `find_one`, which decodes the first document of the reply as `T`.
#[derive(Debug)]
pub(crate) struct FirstDocument<T>(pub(crate) PhantomData<fn() -> T>);

impl<T: DeserializeOwned + 'static> Decode for FirstDocument<T> {
    type Output = Option<T>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Option<T>, Error> {
        let reply = exchange
            .reply()
            .ok_or_else(|| Error::protocol("the command has no reply"))?;
        crud::decode_first(reply)
    }
}

/// The decoder of updates, which returns the counts of the reply, or zeros if the write was not
/// acknowledged.
#[derive(Debug)]
pub(crate) struct Updated;

impl Decode for Updated {
    type Output = UpdateResult;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<UpdateResult, Error> {
        Ok(exchange
            .reply()
            .map(UpdateResult::from_reply)
            .unwrap_or_default())
    }
}

/// The decoder of deletes, which returns the count of the reply, or zero if the write was not
/// acknowledged.
#[derive(Debug)]
pub(crate) struct Deleted;

impl Decode for Deleted {
    type Output = DeleteResult;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<DeleteResult, Error> {
        Ok(exchange
            .reply()
            .map(DeleteResult::from_reply)
            .unwrap_or_default())
    }
}

/// The decoder of `count_documents`, which returns the number in the reply.
#[derive(Debug)]
pub(crate) struct Counted;

impl Decode for Counted {
    type Output = u64;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<u64, Error> {
        crud::count_from_reply(
            exchange
                .reply()
                .ok_or_else(|| Error::protocol("the command has no reply"))?,
        )
    }
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
    pub(crate) batch_size: Option<u32>,
    pub(crate) marker: PhantomData<fn() -> T>,
}

impl<R: Runtime, T> Decode for OpenCursor<R, T> {
    type Output = Cursor<R, T>;

    fn decode(&mut self, exchange: &mut Exchange) -> Result<Cursor<R, T>, Error> {
        let mut cursor = operation::Cursor::from_exchange(exchange, self.database.clone())?;
        cursor.set_batch_size(self.batch_size.and_then(|size| i32::try_from(size).ok()));
        Ok(Cursor::new(self.client.clone(), cursor))
    }
}
