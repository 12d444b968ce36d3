//! The results of calls for indexes, collections and databases.

use super::{CreateCollectionOptions, IndexModel, stored};
use crate::{
    bson::{deserialize, integer},
    error::Error,
    options::open_names,
};
use bson::{Binary, Bson, Document, RawBsonRef, RawDocument};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The result of `create_index`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateIndexResult {
    /// The name of the index.
    pub index_name: String,
}

/// The result of `create_indexes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateIndexesResult {
    /// The names of the indexes, in the order of the call.
    pub index_names: Vec<String>,
}

impl CreateIndexesResult {
    /// Returns the result for indexes of these names.
    #[must_use]
    pub const fn new(index_names: Vec<String>) -> Self {
        Self { index_names }
    }
}

/// The result for the first of the indexes.
impl From<CreateIndexesResult> for CreateIndexResult {
    fn from(result: CreateIndexesResult) -> Self {
        let mut names = result.index_names.into_iter();
        Self {
            index_name: names.next().unwrap_or_default(),
        }
    }
}

/// A database, as `list_databases` returns it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct DatabaseSpecification {
    /// The name.
    pub name: String,
    /// The size on disk in bytes.
    #[serde(deserialize_with = "whole")]
    pub size_on_disk: u64,
    /// True if the database has no data.
    pub empty: bool,
    /// The size on each shard; `None` on other deployments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<Document>,
}

/// Reads a number of any type, because some servers send a double.
fn whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = Bson::deserialize(deserializer)?;
    let number = match value {
        Bson::Int32(number) => integer(RawBsonRef::Int32(number)),
        Bson::Int64(number) => integer(RawBsonRef::Int64(number)),
        Bson::Double(number) => integer(RawBsonRef::Double(number)),
        _ => None,
    };
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| serde::de::Error::custom("it is no whole number"))
}

open_names! {
    /// The kind of a collection.
    CollectionType {
        /// A view.
        View = "view",
        /// A collection.
        Collection = "collection",
        /// A time series.
        Timeseries = "timeseries",
    }
}

/// The facts that a server has about a collection beside its options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct CollectionSpecificationInfo {
    /// True if the collection cannot be written, as a view.
    pub read_only: bool,
    /// The id of the collection; `None` for a view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Binary>,
}

/// A collection, as `list_collections` returns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CollectionSpecification {
    /// The name, without that of the database.
    pub name: String,
    /// The kind.
    #[serde(rename = "type")]
    pub collection_type: CollectionType,
    /// The options with which the collection was created.
    #[serde(default, deserialize_with = "stored::collection")]
    pub options: CreateCollectionOptions,
    /// The facts beside the options.
    #[serde(default)]
    pub info: CollectionSpecificationInfo,
    /// The index of `_id`; `None` for a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_index: Option<IndexModel>,
}

/// Decodes the databases of a reply to `listDatabases`. Fails if the reply has no array of them, or
/// if one does not have the form that `T` needs.
pub fn databases_from_reply<T: DeserializeOwned + 'static>(
    reply: &RawDocument,
) -> Result<Vec<T>, Error> {
    let missing = || Error::protocol("the reply to listDatabases has no documents in databases");
    let all = reply.get_array("databases").map_err(|_| missing())?;
    let decoded = all.into_iter().map(|entry| {
        let entry = entry.ok().and_then(|entry| entry.as_document());
        deserialize(entry.ok_or_else(missing)?.as_bytes())
    });
    decoded.collect()
}
