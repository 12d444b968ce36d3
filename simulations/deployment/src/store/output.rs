//! The stages that write to a collection: `$out` and `$merge`.

use bson::{Bson, Document, doc};

use super::error::StoreError;
use super::types::{Environment, Namespace, Shared, Update, UpdateStatement};
use super::write::with_id_first;
use super::{Answer, Store};

impl Store {
    /// Writes the result of a pipeline to the target of `$out` or `$merge`. A `$merge` that fails
    /// on a document keeps the changes of the documents before it.
    pub(super) fn write_out(
        &mut self,
        database: &str,
        stage: &Document,
        documents: Vec<Shared>,
        environment: &mut Environment<'_>,
    ) -> Answer<()> {
        let out = stage.contains_key("$out");
        let operand = stage.values().next().cloned().unwrap_or(Bson::Null);
        let operand = operand
            .as_document()
            .cloned()
            .unwrap_or_else(|| doc! { "into": operand });
        let place = if out && operand.contains_key("coll") {
            Bson::Document(operand.clone())
        } else {
            operand.get("into").cloned().unwrap_or(Bson::Null)
        };
        let target = match &place {
            Bson::String(name) => Namespace::new(database, name),
            Bson::Document(d) => Namespace::new(
                d.get_str("db").unwrap_or(database),
                d.get_str("coll").unwrap_or_default(),
            ),
            _ => {
                return Err(StoreError::new(
                    51178,
                    "the target must be a string or an object",
                ));
            }
        };
        self.refuse_time_series(&target, "$out and $merge")?;
        if out {
            // An error must leave the old contents in place.
            return self.atomically(|store| {
                let gone = store
                    .collection(&target)
                    .map(|c| c.records.clone())
                    .unwrap_or_default();
                store.ensure(&target)?;
                for (record, document) in gone {
                    store.remove(&target, record, document)?;
                }
                for document in documents {
                    store.insert_one(&target, Document::clone(&document), environment)?;
                }
                Ok(())
            });
        }
        self.check_writable(&target)?;
        for document in documents {
            self.merge_one(&target, &operand, &document, environment)?;
        }
        Ok(())
    }

    fn merge_one(
        &mut self,
        target: &Namespace,
        options: &Document,
        document: &Document,
        environment: &mut Environment<'_>,
    ) -> Answer<()> {
        let on: Vec<&str> = match options.get("on") {
            Some(Bson::String(field)) => vec![field],
            Some(Bson::Array(fields)) => fields.iter().filter_map(Bson::as_str).collect(),
            _ => vec!["_id"],
        };
        let document = with_id_first(document.clone(), environment);
        let mut filter = Document::new();
        for field in on {
            let value = document.get(field).cloned().unwrap_or(Bson::Null);
            filter.insert(field, doc! { "$eq": value });
        }
        let context = self.context(target, None, environment)?;
        let (_, found) = self.select(target, &filter, None, 1, &context)?;
        let matched = !found.is_empty();
        let update = match (
            matched,
            options.get("whenMatched"),
            options.get_str("whenNotMatched"),
        ) {
            (false, _, Ok("discard")) => return Ok(()),
            (false, _, Ok("fail")) => {
                let text = "$merge could not find a matching document in the target collection \
                            for at least one document in the source collection";
                return Err(StoreError::new(13113, text));
            }
            (false, _, _) => {
                return self.insert_one(target, document, environment).map(|_| ());
            }
            (true, Some(Bson::Array(_)), _) => {
                Update::from_bson(options.get("whenMatched").cloned().unwrap_or_default())?
            }
            (true, Some(Bson::String(how)), _) => match how.as_str() {
                "keepExisting" => return Ok(()),
                "replace" => Update::Document(document.clone()),
                "fail" => {
                    return self.insert_one(target, document, environment).map(|_| ());
                }
                _ => Update::Pipeline(vec![merged(&document)]),
            },
            _ => Update::Pipeline(vec![merged(&document)]),
        };
        let statement = UpdateStatement::one(filter, update);
        let mut inner = Environment {
            variables: environment.variables.clone(),
            ..reborrow(environment)
        };
        inner.variables.insert("new", document);
        self.update_one(target, &statement, &mut inner).map(|_| ())
    }
}

fn reborrow<'a>(environment: &'a mut Environment<'_>) -> Environment<'a> {
    Environment {
        now: environment.now,
        timestamp: environment.timestamp,
        ids: &mut *environment.ids,
        seed: environment.seed,
        variables: Document::new(),
        bypasses_validation: environment.bypasses_validation,
        keeps_empty_timestamps: environment.keeps_empty_timestamps,
        max_steps: environment.max_steps,
    }
}

/// Returns the stage that merges a document into the existing one.
fn merged(document: &Document) -> Document {
    doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", { "$literal": document.clone() }] } }
}
