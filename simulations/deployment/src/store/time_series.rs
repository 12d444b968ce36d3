//! Time series collections. Their documents are kept as they are, and not in buckets.

use bson::{Bson, DateTime, Document, doc};

use super::collection::Collection;
use super::error::StoreError;
use super::expression::truthy;
use super::read::not_on_view;
use super::types::Namespace;
use super::{Answer, Store, number};

/// The first part of the name of the collection in which a server keeps the buckets of a time
/// series collection.
pub(crate) const BUCKETS: &str = "system.buckets.";

/// The options of `create` that a time series collection has besides `timeseries`.
const COMPATIBLE: [&str; 5] = [
    "timeseries",
    "expireAfterSeconds",
    "collation",
    "storageEngine",
    "indexOptionDefaults",
];

/// Checks the option `timeseries` of a new collection, and returns it with all fields.
pub(super) fn check_options(options: &Document) -> Answer<Option<Document>> {
    let Ok(given) = options.get_document("timeseries") else {
        return Ok(None);
    };
    let invalid = |text: String| Err(StoreError::new(72, text));
    let mut others = options.iter().filter(|(_, value)| truthy(value));
    if let Some((other, _)) = others.find(|(name, _)| !COMPATIBLE.contains(&name.as_str())) {
        return invalid(format!("'timeseries' is not allowed with '{other}'"));
    }
    let (time, meta) = (
        given.get_str("timeField").ok(),
        given.get_str("metaField").ok(),
    );
    if time.is_some_and(|time| time.is_empty() || time.contains('.')) {
        return invalid("'timeField' must be a top-level field".to_owned());
    }
    if meta.is_some_and(|meta| meta.is_empty() || meta.contains('.') || meta == "_id") {
        return invalid("'metaField' must be a top-level field other than '_id'".to_owned());
    }
    if time == meta {
        return invalid("'metaField' cannot be the same as 'timeField'".to_owned());
    }
    let span = given
        .get("bucketMaxSpanSeconds")
        .and_then(number::as_integer);
    let rounding = given
        .get("bucketRoundingSeconds")
        .and_then(number::as_integer);
    let mut full = given.clone();
    if let Some(rounding) = rounding {
        if span != Some(rounding) || given.contains_key("granularity") {
            let text = "'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be equal, and \
                        given without 'granularity'";
            return invalid(text.to_owned());
        }
        return Ok(Some(full));
    }
    let granularity = given.get_str("granularity").unwrap_or("seconds").to_owned();
    let usual: i32 = match granularity.as_str() {
        "minutes" => 86_400,
        "hours" => 2_592_000,
        _ => 3_600,
    };
    if span.is_some_and(|span| span != i64::from(usual)) {
        let text = format!("'bucketMaxSpanSeconds' of the granularity '{granularity}' is {usual}");
        return invalid(text);
    }
    full.insert("granularity", granularity);
    full.insert("bucketMaxSpanSeconds", usual);
    Ok(Some(full))
}

impl Collection {
    /// Returns the options of a time series collection, or `None` for other collections.
    pub(crate) fn time_series(&self) -> Option<&Document> {
        self.options.get_document("timeseries").ok()
    }

    /// Returns the numbers of the records whose time field is a date up to `last`.
    pub(super) fn timed(&self, last: DateTime) -> impl Iterator<Item = u64> + '_ {
        let field = self
            .time_series()
            .and_then(|series| series.get_str("timeField").ok());
        let is_past = move |document: &Document| {
            let date = field.and_then(|field| document.get_datetime(field).ok());
            date.is_some_and(|date| *date <= last)
        };
        let records = self.records.iter();
        records
            .filter(move |(_, document)| is_past(document))
            .map(|(record, _)| *record)
    }
}

/// Returns a document in the order of the fields in which a time series collection returns it: the
/// time, the metadata, the others. Fails if the document has no time.
pub(super) fn measurement(series: &Document, document: &Document) -> Answer<Document> {
    let time = series.get_str("timeField").unwrap_or_default();
    if !matches!(document.get(time), Some(Bson::DateTime(_))) {
        let text = format!("'{time}' must be present and contain a valid BSON UTC datetime value");
        return Err(StoreError::bad_value(text));
    }
    let first = [Some(time), series.get_str("metaField").ok()];
    let first = first.into_iter().flatten();
    let mut arranged: Document = first
        .filter_map(|name| Some((name.to_owned(), document.get(name)?.clone())))
        .collect();
    arranged.extend(
        document
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    Ok(arranged)
}

/// Returns the entries of `listCollections` of a time series collection and its buckets.
pub(super) fn entries(namespace: &Namespace, options: &Document, uuid: Bson) -> [Document; 2] {
    let mut of_buckets = doc! { "clusteredIndex": true };
    of_buckets.extend(options.clone());
    let name = namespace.collection.as_str();
    [
        doc! {
            "name": name, "type": "timeseries", "options": options.clone(),
            "info": { "readOnly": false },
        },
        doc! {
            "name": format!("{BUCKETS}{name}"), "type": "collection", "options": of_buckets,
            "info": { "readOnly": false, "uuid": uuid },
        },
    ]
}

impl Store {
    /// Returns an error if a collection is a time series collection, for commands that are not
    /// implemented there.
    pub(super) fn refuse_time_series(&self, namespace: &Namespace, what: &str) -> Answer<()> {
        let collection = self.collection(namespace);
        if collection.and_then(Collection::time_series).is_none() {
            return Ok(());
        }
        let error = match what {
            "update" | "delete" => {
                StoreError::new(72, format!("Time-series {what}s are not enabled"))
            }
            // For a server, a time series collection is a view of its buckets.
            _ => not_on_view(namespace),
        };
        Err(error.not_simulated(&format!("{what} on time series collections")))
    }
}
