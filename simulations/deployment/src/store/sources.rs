//! The stages that make documents without a collection: `$documents`, `$collStats`, `$indexStats`.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::Answer;
use super::error::StoreError;
use super::expression::{self, Scope};
use super::number;
use super::order::display;
use super::pipeline::Run;
use super::release::Release;
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
            "$collStats" => {
                let namespace = Namespace::new(self.database, collection);
                let statistics = self.store.statistics(&namespace);
                let mut row = doc! { "ns": namespace.to_string(), "localTime": self.context.now };
                let asked = |part: &str| operand.as_document().and_then(|parts| parts.get(part));
                if asked("count").is_some() {
                    row.insert("count", i64::try_from(statistics.count).unwrap_or(i64::MAX));
                }
                if let Some(storage) = asked("storageStats") {
                    let options = storage.as_document();
                    let scale = options.and_then(|options| options.get("scale"));
                    let scale = scale.and_then(number::truncated).unwrap_or(1);
                    if scale < 1 {
                        let text = format!(
                            "BSON field 'scale' value must be >= 1, actual value '{scale}'"
                        );
                        let is_old = self.context.release < Release([8, 0, 0]);
                        return Err(StoreError::new(if is_old { 51024 } else { 2 }, text));
                    }
                    row.insert("storageStats", statistics.scaled(scale));
                }
                Ok(vec![Arc::new(row)])
            }
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
