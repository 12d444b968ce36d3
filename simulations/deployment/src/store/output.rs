//! The stages that write to a collection: `$out` and `$merge`.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::collection::Collection;
use super::error::StoreError;
use super::executor::{Execution, in_execution};
use super::expression::{self, Scope};
use super::index::Index;
use super::names::SYSTEM_DATABASES;
use super::operands::check_fields;
use super::order::type_name;
use super::parts::Parts;
use super::pipeline::{parse, pipeline};
use super::release::Release;
use super::types::{Environment, Namespace, Update, UpdateStatement};
use super::write::with_id_first;
use super::{Answer, Store, path, stages};

/// The first release in which `$out` can write to another database.
const OUT_TO_DATABASE: Release = Release([4, 4, 0]);

/// The target of the stage `$out` or `$merge`.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) target: Namespace,
    /// The operand of the stage.
    pub(super) options: Document,
    pub(super) is_out: bool,
}

/// Returns an error if the stage `$out` or `$merge` is malformed.
pub(super) fn check(stage: &Document, release: Release) -> Answer<()> {
    let Some((name, operand)) = stage.iter().next() else {
        return Ok(());
    };
    let options = match operand {
        Bson::String(target) => return check_target(name, target),
        Bson::Document(_) if name == "$out" && release < OUT_TO_DATABASE => {
            let text = "$out only supports a string argument, but found object";
            return Err(StoreError::new(16990, text));
        }
        Bson::Document(options) => options,
        other => {
            let kind = type_name(other);
            let text =
                format!("{name} only supports a string or object argument, but found {kind}");
            return Err(StoreError::new(
                if name == "$out" { 16990 } else { 51182 },
                text,
            ));
        }
    };
    let (known, required): (&[&str], &str) = match name.as_str() {
        "$out" => (&["db", "coll", "timeseries"], "coll"),
        _ => (
            &["into", "on", "let", "whenMatched", "whenNotMatched"],
            "into",
        ),
    };
    check_fields(name, options, known)?;
    let Some(place) = options.get(required) else {
        let text = format!("BSON field '{name}.{required}' is missing but a required field");
        return Err(StoreError::new(40414, text));
    };
    if name == "$out" && !options.contains_key("db") {
        let text = "BSON field '$out.db' is missing but a required field";
        return Err(StoreError::new(40414, text));
    }
    match place {
        Bson::String(target) => check_target(name, target)?,
        Bson::Document(place) if name == "$merge" => {
            check_target(name, place.get_str("coll").unwrap_or_default())?;
        }
        other if name == "$merge" => {
            let kind = type_name(other);
            let text = format!(
                "$merge 'into' field  must be either a string or an object, but found {kind}"
            );
            return Err(StoreError::new(51178, text));
        }
        other => {
            let kind = type_name(other);
            return Err(StoreError::type_mismatch(format!(
                "BSON field '$out.coll' is the wrong type '{kind}', expected type 'string'"
            )));
        }
    }
    match name.as_str() {
        "$merge" => {
            check_on(options.get("on"))?;
            check_modes(options, release)
        }
        _ if options.contains_key("timeseries") => {
            let text = "BSON field '$out.timeseries' is an unknown field.";
            Err(StoreError::new(40415, text).not_simulated("timeseries of $out"))
        }
        _ => Ok(()),
    }
}

/// Returns an error if the option `on` of `$merge` does not name fields.
fn check_on(on: Option<&Bson>) -> Answer<()> {
    match on {
        None | Some(Bson::String(_)) => Ok(()),
        Some(Bson::Array(names)) if names.is_empty() => {
            let text = "If explicitly specifying $merge 'on', must include at least one field";
            Err(StoreError::new(51187, text))
        }
        Some(Bson::Array(names)) => match names.iter().find(|name| name.as_str().is_none()) {
            None => Ok(()),
            Some(other) => {
                let kind = type_name(other);
                let text = format!("$merge 'on' array elements must be strings, but found {kind}");
                Err(StoreError::new(51134, text))
            }
        },
        Some(other) => {
            let kind = type_name(other);
            let text = format!(
                "$merge 'on' field  must be either a string or an array of strings, but found \
                 {kind}"
            );
            Err(StoreError::new(51186, text))
        }
    }
}

/// Returns the target of the stage `$out` or `$merge` of a pipeline on a database, or `None` for
/// another stage.
pub(crate) fn target(database: &str, stage: &Document) -> Option<Namespace> {
    let (name, operand) = stage.iter().next()?;
    let place = match (name.as_str(), operand) {
        ("$merge", Bson::Document(options)) => options.get("into")?,
        ("$merge" | "$out", operand) => operand,
        _ => return None,
    };
    match place {
        Bson::String(collection) => Some(Namespace::new(database, collection)),
        Bson::Document(place) => Some(Namespace::new(
            place.get_str("db").unwrap_or(database),
            place.get_str("coll").unwrap_or_default(),
        )),
        _ => None,
    }
}

/// Returns an error of the stage `$out` or `$merge` with the context of its pipeline, if a document
/// caused the error when it was written.
pub(super) fn in_output(error: StoreError, source: &Namespace, release: Release) -> StoreError {
    match error.code {
        66 | 121 | 11000 | 13113 => in_execution(error, Execution::Aggregate, source, release),
        _ => error,
    }
}

fn check_target(name: &str, target: &str) -> Answer<()> {
    if target.is_empty() {
        let text = format!("Invalid {name} target namespace: the collection has no name");
        return Err(StoreError::new(73, text));
    }
    Ok(())
}

/// Returns an error if the target belongs to the server itself.
fn check_place(name: &str, target: &Namespace) -> Answer<()> {
    let (special, internal) = match name {
        "$out" => (17_385, 31_321),
        _ => (31_319, 31_320),
    };
    if SYSTEM_DATABASES.contains(&target.database.as_str()) {
        let text = format!("Can't {name} to internal database: {}", target.database);
        return Err(StoreError::new(internal, text));
    }
    if target.collection.starts_with("system.") {
        let text = format!("Can't {name} to special collection: {}", target.collection);
        return Err(StoreError::new(special, text));
    }
    Ok(())
}

/// Returns an error if `$merge` has unknown modes, or modes that a server does not combine.
fn check_modes(options: &Document, release: Release) -> Answer<()> {
    let unknown = |field: &str, value: &str| {
        StoreError::bad_value(format!(
            "Enumeration value '{value}' for field '{field}' is not a valid value."
        ))
    };
    let matched = match options.get("whenMatched") {
        None => "merge",
        Some(Bson::Array(_)) => {
            let stages = pipeline(options.get("whenMatched").unwrap_or(&Bson::Null), release)?;
            stages::check_update(&stages, release)?;
            parse(&stages, 0, release)?;
            "pipeline"
        }
        Some(Bson::String(mode)) => match mode.as_str() {
            "replace" | "merge" | "keepExisting" | "fail" => mode,
            other => return Err(unknown("whenMatched", other)),
        },
        Some(other) => {
            let kind = type_name(other);
            let text = format!(
                "$merge 'whenMatched' field  must be either a string or an array, but found {kind}"
            );
            return Err(StoreError::new(51191, text));
        }
    };
    let otherwise = match options.get("whenNotMatched") {
        None => "insert",
        Some(Bson::String(mode)) => match mode.as_str() {
            "insert" | "discard" | "fail" => mode,
            other => return Err(unknown("$merge.whenNotMatched", other)),
        },
        Some(other) => {
            let kind = type_name(other);
            return Err(StoreError::type_mismatch(format!(
                "BSON field '$merge.whenNotMatched' is the wrong type '{kind}', expected type \
                 'string'"
            )));
        }
    };
    if matches!(matched, "keepExisting" | "fail") && otherwise != "insert" {
        let text = format!(
            "Combination of $merge modes 'whenMatched: {matched}' and 'whenNotMatched: \
             {otherwise}' is not supported"
        );
        return Err(StoreError::new(51181, text));
    }
    match options.get("let") {
        None => Ok(()),
        Some(Bson::Document(_)) if matched == "pipeline" => Ok(()),
        Some(Bson::Document(_)) => {
            let text = format!("Cannot use 'let' variables with 'whenMatched: {matched}' mode");
            Err(StoreError::new(51199, text))
        }
        Some(other) => {
            let kind = type_name(other);
            Err(StoreError::type_mismatch(format!(
                "BSON field '$merge.let' is the wrong type '{kind}', expected type 'object'"
            )))
        }
    }
}

impl Store {
    /// Returns the target of the stage `$out` or `$merge`, or an error if it cannot be written.
    pub(super) fn destination(&self, database: &str, stage: &Document) -> Answer<Destination> {
        let is_out = stage.contains_key("$out");
        let operand = stage.values().next().cloned().unwrap_or(Bson::Null);
        let options = operand
            .as_document()
            .cloned()
            .unwrap_or_else(|| doc! { "into": operand });
        let target = target(database, stage)
            .ok_or_else(|| StoreError::new(51178, "the target must be a string or an object"))?;
        check_place(if is_out { "$out" } else { "$merge" }, &target)?;
        self.refuse_time_series(&target, "$out and $merge")?;
        if !is_out {
            self.check_writable(&target)?;
            self.check_unique(&target, &merge_fields(&options))?;
        } else if self.collection(&target).is_some_and(Collection::is_capped) {
            let text = format!("namespace '{target}' is capped so it can't be used for $out");
            return Err(StoreError::new(17152, text));
        }
        Ok(Destination {
            target,
            options,
            is_out,
        })
    }

    /// Returns an error if no unique index of the target has these fields and no others.
    fn check_unique(&self, target: &Namespace, fields: &[&str]) -> Answer<()> {
        let fields: BTreeSet<&str> = fields.iter().copied().collect();
        let has_fields = |index: &&Index| {
            let key = index.specification.get_document("key");
            let is_whole = !index.specification.contains_key("partialFilterExpression");
            let own = key.iter().flat_map(|key| key.keys().map(String::as_str));
            index.is_unique() && is_whole && own.collect::<BTreeSet<_>>() == fields
        };
        let indexes = self.collection(target).into_iter();
        let mut indexes = indexes.flat_map(|collection| &collection.indexes);
        if fields.iter().eq(&["_id"]) || indexes.any(|index| has_fields(&index)) {
            return Ok(());
        }
        let text = "Cannot find index to verify that join fields will be unique";
        Err(StoreError::new(51183, text))
    }

    /// Writes a document as `$merge` does.
    pub(super) fn merge_one(
        &mut self,
        target: &Namespace,
        options: &Document,
        document: &Document,
        environment: &mut Environment<'_>,
    ) -> Answer<()> {
        let on = merge_fields(options);
        // Without `_id` in `on`, only an inserted document gets a new `_id`.
        let document = match on.contains(&"_id") {
            true => with_id_first(document.clone(), environment),
            false => document.clone(),
        };
        let mut filter = Document::new();
        for field in on {
            let (code, kinds) = match path::exact(&document, field) {
                Some(Bson::Array(_)) => (51185, "an array"),
                None | Some(Bson::Null | Bson::Undefined) => {
                    (51132, "missing, null, undefined or an array")
                }
                Some(value) => {
                    filter.insert(field, doc! { "$eq": value.clone() });
                    continue;
                }
            };
            let text = format!("$merge write error: 'on' field '{field}' cannot be {kinds}");
            return Err(StoreError::new(code, text));
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
        let scope = Scope::new(&document, &context);
        for (name, value) in options.get_document("let").into_iter().flatten() {
            // A server sends the values to the target, and does not send a missing one.
            match expression::evaluate(value, &scope)? {
                Some(value) => inner.variables.insert(name, value),
                None => inner.variables.remove(name),
            };
        }
        inner.variables.insert("new", document);
        self.update_one(target, &statement, &mut inner).map(|_| ())
    }
}

/// Returns the fields by which `$merge` finds documents.
fn merge_fields(options: &Document) -> Vec<&str> {
    match options.get("on") {
        Some(Bson::String(field)) => vec![field],
        Some(Bson::Array(fields)) => fields.iter().filter_map(Bson::as_str).collect(),
        _ => vec!["_id"],
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
        parts: Parts {
            meter: environment.parts.meter.clone(),
            ..Parts::default()
        },
    }
}

/// Returns the stage that merges a document into the existing one.
fn merged(document: &Document) -> Document {
    doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", { "$literal": document.clone() }] } }
}
