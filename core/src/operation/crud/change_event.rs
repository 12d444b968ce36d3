//! The events of change streams.

use crate::{bson::decode_document, options::open_names};
use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, Timestamp};
use serde::{Deserialize, Serialize};

/// The position of an event in a change stream, after which another stream can resume. Its content
/// has no meaning for applications. It can be stored as BSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResumeToken(RawDocumentBuf);

impl ResumeToken {
    /// Returns the token that a document is, such as the `_id` of an event.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::operation::crud::ResumeToken;
    ///
    /// // The token that the application has stored.
    /// let token = ResumeToken::from_document(rawdoc! { "_data": "8265" });
    /// assert_eq!(token.as_document().get_str("_data").ok(), Some("8265"));
    /// ```
    #[must_use]
    pub const fn from_document(document: RawDocumentBuf) -> Self {
        Self(document)
    }

    /// Returns the document of the token.
    ///
    /// ```
    /// use onionskin_core::operation::crud::ResumeToken;
    ///
    /// /// Returns the bytes of a token, to be stored.
    /// fn bytes(token: &ResumeToken) -> Vec<u8> {
    ///     token.as_document().as_bytes().to_vec()
    /// }
    /// ```
    #[must_use]
    pub fn as_document(&self) -> &RawDocument {
        &self.0
    }
}

/// An event of a change stream. `T` is the type of the documents of the collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamEvent<T> {
    /// The token after which a stream resumes with the next event.
    #[serde(rename = "_id")]
    pub id: ResumeToken,
    /// The kind of change.
    pub operation_type: OperationType,
    /// The changed collection, or the dropped database. `None` for an event that ends the stream.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub ns: Option<ChangeNamespace>,
    /// The kind of a new collection, with `show_expanded_events`. From server 8.1 on.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub ns_type: Option<ChangeNamespaceType>,
    /// The new name of a renamed collection.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub to: Option<ChangeNamespace>,
    /// The id of the session whose transaction made the change.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub lsid: Option<Document>,
    /// The number of the transaction that made the change.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub txn_number: Option<i64>,
    /// The `_id` of the changed document, and the parts of its shard key.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub document_key: Option<Document>,
    /// The fields that an update has changed.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub update_description: Option<UpdateDescription>,
    /// The cluster time of the change.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub cluster_time: Option<Timestamp>,
    /// The server's wall clock time of the change. From server 6.0 on.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<DateTime>,
    /// The new document of an insert or a replacement, or that of an update if `full_document` asks
    /// for it. `None` also if an update's document was not found.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub full_document: Option<T>,
    /// The document before the change, if `full_document_before_change` asks for it.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub full_document_before_change: Option<T>,
    /// The fields that have no place above, such as `collectionUUID` and `operationDescription`.
    #[serde(flatten)]
    pub other: Document,
}

const fn none<T>() -> Option<T> {
    None
}

/// The description of an update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateDescription {
    /// The paths of the fields that have new values, with these values.
    #[serde(default)]
    pub updated_fields: Document,
    /// The paths of the fields that are gone.
    #[serde(default)]
    pub removed_fields: Vec<String>,
    /// The arrays that were shortened. From server 5.0 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated_arrays: Option<Vec<TruncatedArray>>,
    /// The components of each path of which a field name is a number or has a dot, with
    /// `show_expanded_events`. From server 6.1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disambiguated_paths: Option<Document>,
}

/// An array that an update has shortened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TruncatedArray {
    /// The path of the array.
    pub field: String,
    /// The new number of elements.
    pub new_size: i32,
}

/// The name of a changed collection or of a dropped database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeNamespace {
    /// The name of the database.
    pub db: String,
    /// The name of the collection; `None` for a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coll: Option<String>,
}

open_names! {
    /// The kind of change of an event.
    OperationType {
        /// A document was inserted.
        Insert = "insert",
        /// Fields of a document were updated.
        Update = "update",
        /// A document was replaced.
        Replace = "replace",
        /// A document was deleted.
        Delete = "delete",
        /// A collection was dropped.
        Drop = "drop",
        /// A collection was renamed.
        Rename = "rename",
        /// A database was dropped.
        DropDatabase = "dropDatabase",
        /// The stream ends, because its collection or database was dropped or renamed. A new stream
        /// can start after this event.
        Invalidate = "invalidate",
    }

    /// The kind of a new collection.
    ChangeNamespaceType {
        /// A collection.
        Collection = "collection",
        /// A time series collection.
        Timeseries = "timeseries",
        /// A view.
        View = "view",
    }
}

impl From<ResumeToken> for Bson {
    /// Returns the document of the token, or null if the document is not valid BSON.
    fn from(token: ResumeToken) -> Self {
        decode_document(&token.0).map_or(Self::Null, Self::Document)
    }
}
