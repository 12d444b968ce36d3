//! Encoding of replies.

use super::{connection::Request, fault::Fault};
use crate::{legacy::LegacyReply, store::Shared};
use bson::{Document, RawDocument, Timestamp, oid::ObjectId, spec::BinarySubtype};
use onionskin_core::{
    bson::DocumentWriter,
    unstable::wire::{Flags, MessageWriter},
};

/// The element `ok: 1.0`.
const OK: &[u8] = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f";

/// The reply to a command that succeeded.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) body: Body,
    /// The reply's `writeConcernError`.
    pub(super) concern: Option<Document>,
    /// The reply's `errorLabels`.
    pub(super) labels: Vec<String>,
    /// The reply's `readOnly`, by which a router learns whether a transaction has written.
    pub(super) is_read_only: Option<bool>,
    /// The reply's `topologyVersion`: the process id and the counter.
    pub(super) version: Option<(ObjectId, i64)>,
}

/// The command's own fields in a reply.
#[derive(Debug)]
pub(super) enum Body {
    Tree(Document),
    /// The documents of a cursor.
    Batch(Batch),
}

/// The field `cursor` of a reply, with documents that are not encoded yet.
#[derive(Debug)]
pub(super) struct Batch {
    /// The name of the field with the documents.
    pub(super) field: &'static str,
    pub(super) documents: Vec<Shared>,
    /// The size of the documents in bytes.
    pub(super) bytes: usize,
    /// The document with the fields that follow.
    pub(super) rest: Vec<u8>,
}

impl Batch {
    fn write(&self, reply: &mut DocumentWriter<'_>) {
        let mut batch = Vec::with_capacity(self.bytes);
        let mut array = DocumentWriter::begin(&mut batch);
        let encoded = self.documents.iter().filter_map(|d| d.to_vec().ok());
        for (count, encoded) in encoded.enumerate() {
            array
                .elements(&[3])
                .elements(count.to_string().as_bytes())
                .elements(&[0])
                .elements(&encoded);
        }
        array.end();
        reply.nested("cursor", |cursor| {
            cursor
                .elements(&[4])
                .elements(self.field.as_bytes())
                .elements(&[0])
                .elements(&batch)
                .elements(&self.rest[4..self.rest.len() - 1]);
        });
    }
}

impl Body {
    fn write(&self, document: &mut DocumentWriter<'_>) {
        match self {
            Self::Tree(tree) => append(document, tree),
            Self::Batch(batch) => batch.write(document),
        }
    }

    /// Returns the bytes of the whole document.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        encode(|document| self.write(document))
    }
}

/// Returns the bytes of a document.
pub(super) fn encode(fill: impl FnOnce(&mut DocumentWriter<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut document = DocumentWriter::begin(&mut bytes);
    fill(&mut document);
    document.end();
    bytes
}

impl Default for Body {
    fn default() -> Self {
        Self::Tree(Document::new())
    }
}

impl From<Document> for Reply {
    fn from(document: Document) -> Self {
        Self {
            body: Body::Tree(document),
            ..Self::default()
        }
    }
}

impl Reply {
    /// Creates a reply with the documents of a cursor.
    pub(super) fn batch(batch: Batch) -> Self {
        Self {
            body: Body::Batch(batch),
            ..Self::default()
        }
    }

    /// Returns the size of the documents of a cursor, in bytes.
    pub(super) const fn batch_bytes(&self) -> usize {
        match &self.body {
            Body::Batch(batch) => batch.bytes,
            Body::Tree(_) => 0,
        }
    }
}

/// The cluster times that a member of a replica set or a router adds to each reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(super) operation: Timestamp,
    pub(super) cluster: Timestamp,
}

impl Times {
    /// Returns the later one of each time.
    pub(crate) fn latest(self, other: Self) -> Self {
        Self {
            operation: self.operation.max(other.operation),
            cluster: self.cluster.max(other.cluster),
        }
    }

    /// Returns the times of a reply after the last entry of the oplog.
    pub(super) const fn at(last: Timestamp) -> Self {
        Self {
            operation: last,
            cluster: last,
        }
    }
}

/// The fields of an error reply apart from the error itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorFields<'a> {
    /// The reply's `errorLabels`.
    pub(super) labels: &'a [String],
    /// The reply's `baseBackoffMS`.
    pub(super) backoff: Option<i32>,
    /// The reply's `topologyVersion`: the process id and the counter.
    pub(super) version: Option<(ObjectId, i64)>,
}

/// The header and the common fields of a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub(super) id: i32,
    pub(super) response_to: i32,
    pub(super) legacy: bool,
    pub(super) more: bool,
    pub(super) times: Option<Times>,
}

impl Envelope {
    pub(super) fn answer(request: &Request, id: i32, times: Option<Times>) -> Self {
        Self {
            id,
            response_to: request.id,
            legacy: request.legacy,
            more: false,
            times,
        }
    }

    /// Appends the message of a successful reply.
    pub(super) fn write(self, out: &mut Vec<u8>, reply: &Reply) {
        self.message(out, |document| {
            reply.body.write(document);
            if let Some(is_read_only) = reply.is_read_only {
                append(document, &bson::doc! { "readOnly": is_read_only });
            }
            if let Some(concern) = &reply.concern {
                append(
                    document,
                    &bson::doc! { "writeConcernError": concern.clone() },
                );
            }
            if !reply.labels.is_empty() {
                append(
                    document,
                    &bson::doc! { "errorLabels": reply.labels.clone() },
                );
            }
            topology_version(document, reply.version);
            document.elements(OK);
        });
    }

    /// Appends the message of an error reply.
    pub(super) fn write_fault(self, out: &mut Vec<u8>, fault: &Fault, fields: ErrorFields<'_>) {
        self.message(out, |document| {
            append(document, &fault.error.to_reply());
            if !fields.labels.is_empty() {
                append(document, &bson::doc! { "errorLabels": fields.labels });
            }
            if let Some(concern) = &fault.concern {
                append(
                    document,
                    &bson::doc! { "writeConcernError": (**concern).clone() },
                );
            }
            if let Some(base) = fields.backoff {
                document.i32("baseBackoffMS", base);
            }
            topology_version(document, fields.version);
        });
    }

    fn message(self, out: &mut Vec<u8>, fill: impl FnOnce(&mut DocumentWriter<'_>)) {
        let fill = |document: &mut DocumentWriter<'_>| {
            fill(document);
            if let Some(times) = self.times {
                document.nested("$clusterTime", |d| {
                    timestamp(d, "clusterTime", times.cluster);
                    d.nested("signature", |s| {
                        s.binary("hash", BinarySubtype::Generic, &[0; 20])
                            .i64("keyId", 0);
                    });
                });
                timestamp(document, "operationTime", times.operation);
            }
        };
        if self.legacy {
            let mut bytes = Vec::new();
            let mut document = DocumentWriter::begin(&mut bytes);
            fill(&mut document);
            document.end();
            if let Ok(body) = RawDocument::from_bytes(&bytes) {
                LegacyReply { body }.encode(out, self.id, self.response_to);
            }
            return;
        }
        let flags = if self.more {
            Flags::MORE_TO_COME
        } else {
            Flags::default()
        };
        MessageWriter::begin(out, self.id, self.response_to)
            .flags(flags)
            .body_with(fill)
            .end();
    }
}

pub(super) fn timestamp(document: &mut DocumentWriter<'_>, key: &str, value: Timestamp) {
    document
        .elements(&[0x11])
        .elements(key.as_bytes())
        .elements(&[0])
        .elements(&value.increment.to_le_bytes())
        .elements(&value.time.to_le_bytes());
}

fn topology_version(document: &mut DocumentWriter<'_>, version: Option<(ObjectId, i64)>) {
    if let Some((process, counter)) = version {
        let version = bson::doc! { "processId": process, "counter": counter };
        append(document, &bson::doc! { "topologyVersion": version });
    }
}

/// Appends the fields of `tree`.
pub(super) fn append(document: &mut DocumentWriter<'_>, tree: &Document) {
    if let Ok(bytes) = tree.to_vec() {
        document.elements(&bytes[4..bytes.len() - 1]);
    }
}
