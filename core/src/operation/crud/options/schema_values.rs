//! Types of options of indexes and collections.

use crate::{
    bson::DocumentWriter,
    error::Error,
    options::{OptionValue, Place, numbers, open_names, options},
    time::whole_seconds,
};
use bson::{Document, doc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

open_names! {
    /// The documents that a server validates (`validationLevel`).
    ValidationLevel {
        /// No documents.
        Off = "off",
        /// All documents that are written.
        Strict = "strict",
        /// Inserted documents, and updated ones that were valid.
        Moderate = "moderate",
    }

    /// The reaction of a server to an invalid document (`validationAction`).
    ValidationAction {
        /// Refuses the write.
        Error = "error",
        /// Writes a warning into its log.
        Warn = "warn",
        /// Refuses the write, and writes a warning into its log. From server 8.1 on.
        ErrorAndLog = "errorAndLog",
    }

    /// The precision of a time series (`granularity`).
    TimeseriesGranularity {
        /// Seconds.
        Seconds = "seconds",
        /// Minutes.
        Minutes = "minutes",
        /// Hours.
        Hours = "hours",
    }
}

numbers! {
    /// The version of an index (`v`).
    IndexVersion {
        /// Version 0, which servers no longer make.
        V0 = 0,
        /// Version 1.
        V1 = 1,
        /// Version 2, the default.
        V2 = 2,
    }

    /// The version of a text index.
    TextIndexVersion {
        /// Version 1.
        V1 = 1,
        /// Version 2.
        V2 = 2,
        /// Version 3, the default.
        V3 = 3,
    }

    /// The version of a `2dsphere` index.
    Sphere2DIndexVersion {
        /// Version 2.
        V2 = 2,
        /// Version 3, the default.
        V3 = 3,
    }
}

/// The members that have to be ready before the primary completes an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitQuorum {
    /// This number of members.
    Nodes(u32),
    /// All members that vote. This is the default of servers.
    VotingMembers,
    /// A majority of the members that vote.
    Majority,
    /// A mode of the replica set's configuration.
    Custom(String),
}

impl CommitQuorum {
    fn name(&self) -> Result<&str, u32> {
        match self {
            Self::Nodes(members) => Err(*members),
            Self::VotingMembers => Ok("votingMembers"),
            Self::Majority => Ok("majority"),
            Self::Custom(mode) => Ok(mode),
        }
    }
}

impl Serialize for CommitQuorum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            Ok(name) => serializer.serialize_str(name),
            Err(members) => i32::try_from(members)
                .unwrap_or(i32::MAX)
                .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for CommitQuorum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Members(u32),
            Name(String),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Members(members) => Self::Nodes(members),
            Form::Name(name) => match name.as_str() {
                "votingMembers" => Self::VotingMembers,
                "majority" => Self::Majority,
                _ => Self::Custom(name),
            },
        })
    }
}

impl OptionValue for CommitQuorum {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        match self.name() {
            Ok(name) => {
                body.str(key, name);
                Ok(())
            }
            Err(members) => members.write(key, body),
        }
    }
}

options! { ($)
    /// A time series: how its documents are stored (`timeseries`).
    ///
    /// ```
    /// use onionskin_core::operation::crud::{
    ///     CreateCollectionOptions, TimeseriesGranularity, TimeseriesOptions,
    /// };
    /// use std::time::Duration;
    ///
    /// // Measurements of sensors, about one per minute, which the server keeps for thirty days.
    /// let series = TimeseriesOptions::builder()
    ///     .time_field("at")
    ///     .meta_field("sensor".to_owned())
    ///     .granularity(TimeseriesGranularity::Minutes)
    ///     .build();
    /// let options = CreateCollectionOptions::builder()
    ///     .timeseries(series)
    ///     .expire_after_seconds(Duration::from_secs(30 * 86_400))
    ///     .build();
    /// # assert_ne!(options, CreateCollectionOptions::default());
    /// // Buckets of an hour, in place of a granularity.
    /// let hour = Duration::from_secs(3_600);
    /// let series = TimeseriesOptions::builder().time_field("at").bucket_max_span(hour);
    /// let series = series.bucket_rounding(hour).build();
    /// # assert_eq!(series.granularity, None);
    /// ```
    TimeseriesOptions, built by TimeseriesOptionsBuilder, listed by timeseries_options => {
        /// The field with the time of a document. The server needs it.
        time_field: String => Body "timeField" (text),
        /// The field by which the documents are grouped.
        meta_field: String => Body "metaField" (into),
        /// The precision of the times.
        granularity: TimeseriesGranularity => Body "granularity",
        /// The longest time in a bucket, in whole seconds. From server 6.3 on.
        bucket_max_span: Duration
            => Kept "bucketMaxSpanSeconds" as "crate::options::seconds",
        /// The interval to which the start of a bucket is rounded, in whole seconds. From server
        /// 6.3 on.
        bucket_rounding: Duration
            => Kept "bucketRoundingSeconds" as "crate::options::seconds",
    }

    /// Options of later indexes of a collection (`indexOptionDefaults`).
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{CreateCollectionOptions, IndexOptionDefaults};
    ///
    /// let engine = doc! { "wiredTiger": { "configString": "prefix_compression=false" } };
    /// let defaults = IndexOptionDefaults::builder().storage_engine(engine).build();
    /// let options = CreateCollectionOptions::builder().index_option_defaults(defaults).build();
    /// # assert_ne!(options, CreateCollectionOptions::default());
    /// ```
    IndexOptionDefaults, built by IndexOptionDefaultsBuilder => {
        /// Options of the storage engine.
        storage_engine: Document => Body "storageEngine",
    }

    /// Whether change streams can return states before and after changes.
    ///
    /// ```
    /// use onionskin_core::operation::crud::{
    ///     ChangeStreamPreAndPostImages, CreateCollectionOptions,
    /// };
    ///
    /// let kept = ChangeStreamPreAndPostImages::builder().enabled(true).build();
    /// let options =
    ///     CreateCollectionOptions::builder().change_stream_pre_and_post_images(kept).build();
    /// # assert_ne!(options, CreateCollectionOptions::default());
    /// ```
    ChangeStreamPreAndPostImages, built by ChangeStreamPreAndPostImagesBuilder => {
        /// Whether the states are kept.
        enabled: bool => Body "enabled",
    }
}

impl TimeseriesOptions {
    /// Returns the options of a time series whose documents have their time in this field.
    ///
    /// ```
    /// use onionskin_core::operation::crud::TimeseriesOptions;
    ///
    /// let options = TimeseriesOptions::new("at");
    /// assert_eq!(options.meta_field, None);
    /// ```
    pub fn new(time_field: impl Into<String>) -> Self {
        Self::builder().time_field(time_field).build()
    }
}

/// Appends a time as whole seconds.
pub(crate) fn write_seconds(body: &mut DocumentWriter<'_>, key: &str, time: Option<Duration>) {
    if let Some(time) = time {
        let seconds = whole_seconds(time);
        match i32::try_from(seconds) {
            Ok(seconds) => body.i32(key, seconds),
            Err(_) => body.i64(key, seconds),
        };
    }
}

impl OptionValue for TimeseriesOptions {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        nested(key, body, |document| {
            self.write(Place::Body, document)?;
            write_seconds(document, "bucketMaxSpanSeconds", self.bucket_max_span);
            write_seconds(document, "bucketRoundingSeconds", self.bucket_rounding);
            Ok(())
        })
    }
}

impl OptionValue for IndexOptionDefaults {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        nested(key, body, |document| self.write(Place::Body, document))
    }
}

impl OptionValue for ChangeStreamPreAndPostImages {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        nested(key, body, |document| self.write(Place::Body, document))
    }
}

/// The index by which a clustered collection is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusteredIndex {
    /// The keys, which must be `{ _id: 1 }`.
    pub key: Document,
    /// Whether two documents cannot have the same key, which must be true.
    pub unique: bool,
    /// The name; `None` for that of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version; `None` for that of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<i32>,
}

impl Default for ClusteredIndex {
    fn default() -> Self {
        Self {
            key: doc! { "_id": 1 },
            unique: true,
            name: None,
            v: None,
        }
    }
}

impl OptionValue for ClusteredIndex {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        nested(key, body, |document| {
            document
                .subtree("key", &self.key)?
                .bool("unique", self.unique);
            if let Some(name) = &self.name {
                document.str("name", name);
            }
            if let Some(version) = self.v {
                document.i32("v", version);
            }
            Ok(())
        })
    }
}

/// Appends a document that `fill` writes.
fn nested(
    key: &str,
    body: &mut DocumentWriter<'_>,
    fill: impl FnOnce(&mut DocumentWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut result = Ok(());
    body.nested(key, |document| result = fill(document));
    result
}
