//! The stages that make documents without a collection: `$documents`, `$collStats`, `$indexStats`.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::Answer;
use super::error::StoreError;
use super::expression::{self, Scope};
use super::number;
use super::order::{display, display_document, type_name};
use super::pipeline::Run;
use super::release::{Name, Release, name};
use super::stages::GIVEN;
use super::types::{Namespace, Shared};

impl Run<'_> {
    /// Runs a stage that makes the documents.
    pub(super) fn source(
        &self,
        collection: &str,
        name: &str,
        operand: &Bson,
    ) -> Answer<Vec<Shared>> {
        match name {
            "$documents" if !collection.is_empty() => {
                let text = "'$documents' can only be run with {aggregate: 1}";
                Err(StoreError::new(73, text))
            }
            "$documents" | GIVEN => self.made(operand),
            "$collStats" => self.collection_statistics(collection, operand),
            _ => {
                let namespace = Namespace::new(self.database, collection);
                let indexes = self.store.list_indexes(&namespace).unwrap_or_default();
                let row = |i: Document| {
                    doc! {
                        "name": i.get_str("name").unwrap_or_default(),
                        "key": i.get_document("key").cloned().unwrap_or_default(),
                        "accesses": { "ops": 0_i64, "since": self.context.now },
                    }
                };
                Ok(indexes.into_iter().map(|i| Arc::new(row(i))).collect())
            }
        }
    }

    /// Runs `$collStats`. Latencies and plans are not counted.
    fn collection_statistics(&self, collection: &str, operand: &Bson) -> Answer<Vec<Shared>> {
        let release = self.context.release;
        let parts = statistics_parts(operand, release)?;
        let namespace = Namespace::new(self.database, collection);
        let statistics = self.store.statistics(&namespace);
        let mut row = doc! { "ns": namespace.to_string(), "localTime": self.context.now };
        let counted = ["storageStats", "count", "queryExecStats"];
        let needs_collection = counted.iter().find(|part| parts.contains_key(part));
        if let Some(part) = needs_collection
            && !self.store.contains(&namespace)
        {
            let text = format!(
                "Unable to retrieve {part} in $collStats stage :: caused by :: \
                 Collection [{namespace}] not found."
            );
            return Err(StoreError::new(26, text));
        }
        if let Some(Bson::Document(options)) = parts.get("latencyStats") {
            let mut none = doc! { "latency": 0_i64, "ops": 0_i64 };
            if options.get("histograms").is_some_and(expression::truthy) {
                none.insert("histogram", Vec::<Bson>::new());
            }
            let kinds = ["reads", "writes", "commands", "transactions"];
            let latencies: Document = kinds
                .iter()
                .map(|kind| ((*kind).to_owned(), none.clone().into()))
                .collect();
            row.insert("latencyStats", latencies);
        }
        if let Some(Bson::Document(options)) = parts.get("storageStats") {
            let scale = options.get("scale").and_then(number::truncated);
            let scale = scale.unwrap_or(1);
            if scale < 1 {
                let text = format!("BSON field 'scale' value must be >= 1, actual value '{scale}'");
                let is_old = release < Release([8, 0, 0]);
                return Err(StoreError::new(if is_old { 51024 } else { 2 }, text));
            }
            row.insert("storageStats", statistics.scaled(scale));
        }
        if parts.contains_key("count") {
            row.insert("count", i64::try_from(statistics.count).unwrap_or(i64::MAX));
        }
        if parts.contains_key("queryExecStats") {
            let scans = doc! { "total": 0_i64, "nonTailable": 0_i64 };
            row.insert("queryExecStats", doc! { "collectionScans": scans });
        }
        Ok(vec![Arc::new(row)])
    }

    /// Evaluates the operand of `$documents`, and returns the documents in the resulting array.
    fn made(&self, operand: &Bson) -> Answer<Vec<Shared>> {
        expression::check(operand, self.context.release)?;
        if self.parses_only {
            return Ok(Vec::new());
        }
        let nothing = Document::new();
        let made = expression::evaluate(operand, &Scope::new(&nothing, self.context))?;
        let Some(Bson::Array(items)) = made else {
            return Err(StoreError::new(5_858_203, "an array is expected"));
        };
        let document = |item| match item {
            Bson::Document(document) => Ok(Arc::new(document)),
            other => {
                let text = format!(
                    "an array of documents is expected, but an element is {}",
                    display(&other)
                );
                Err(StoreError::new(40228, text))
            }
        };
        items.into_iter().map(document).collect()
    }
}

/// The parts of `$collStats`, with the code for a wrong type before 5.0.
const PARTS: [Name<i32>; 4] = [
    name("latencyStats", 40167),
    name("storageStats", 40279),
    name("count", 40480),
    name("queryExecStats", 31141).since(4, 4, 0),
];

/// Returns an error if a pipeline begins with a malformed `$collStats`.
pub(super) fn check(stages: &[Document], release: Release) -> Answer<()> {
    match stages.first().and_then(|stage| stage.get("$collStats")) {
        Some(operand) => statistics_parts(operand, release).map(drop),
        None => Ok(()),
    }
}

/// Returns the operand of `$collStats`, which is an object of objects. Before 5.0, what is in the
/// inner objects is not checked.
fn statistics_parts(operand: &Bson, release: Release) -> Answer<&Document> {
    let is_old = release < Release([5, 0, 0]);
    let Bson::Document(parts) = operand else {
        let code = if is_old { 40166 } else { 5_447_000 };
        let shown = display(operand);
        let text = format!("$collStats must take a nested object but found: $collStats: {shown}");
        return Err(StoreError::new(code, text));
    };
    for (part, value) in parts {
        let Some(code) = Name::find(&PARTS, part, release) else {
            return Err(match is_old {
                true => {
                    let text = format!("unrecognized option to $collStats: {part}");
                    StoreError::new(40168, text)
                }
                false => {
                    let text = format!("BSON field '$collStats.{part}' is an unknown field.");
                    StoreError::new(40415, text)
                }
            });
        };
        if value.as_document().is_none() {
            let kind = type_name(value);
            return Err(match is_old {
                true => {
                    let text = format!("{part} argument must be an object, but got {part}: {kind}");
                    StoreError::new(code, text)
                }
                false => StoreError::type_mismatch(format!(
                    "BSON field '$collStats.{part}' is the wrong type '{kind}', expected type \
                     'object'"
                )),
            });
        }
        if !is_old && let Bson::Document(options) = value {
            check_part(part, options, release)?;
        }
    }
    Ok(parts)
}

/// Returns an error if an object in `$collStats` is malformed.
fn check_part(part: &str, options: &Document, release: Release) -> Answer<()> {
    if matches!(part, "count" | "queryExecStats") && !options.is_empty() {
        let shown = display_document(options);
        let text = format!("expected an empty object, but got {shown}");
        return Err(StoreError::new(31170, text));
    }
    for (option, value) in options {
        let path = format!("$collStats.{part}.{option}");
        let is_number = number::as_double(value).is_some();
        let kind = type_name(value);
        match (part, option.as_str()) {
            ("storageStats", "scale") if !is_number => {
                // Before 8.0, the quotation mark precedes the bracket.
                let end = if release < Release([8, 0, 0]) {
                    "']"
                } else {
                    "]'"
                };
                return Err(StoreError::type_mismatch(format!(
                    "BSON field '{path}' is the wrong type '{kind}', expected types '[long, int, \
                     decimal, double{end}"
                )));
            }
            ("storageStats", "verbose" | "waitForLock") | ("latencyStats", "histograms")
                if !is_number && !matches!(value, Bson::Boolean(_)) =>
            {
                return Err(StoreError::type_mismatch(format!(
                    "Field '{option}' should be a boolean value, but found: {kind}"
                )));
            }
            ("latencyStats", other) if other != "histograms" => {
                let text = format!("BSON field '{path}' is an unknown field.");
                return Err(StoreError::new(40415, text));
            }
            // Unknown options of `storageStats` are ignored.
            _ => {}
        }
    }
    Ok(())
}
