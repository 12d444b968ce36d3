//! The stage `$lookup`.

use bson::{Bson, Document, doc};

use super::error::StoreError;
use super::expression::{self, Scope};
use super::matcher::Matcher;
use super::operands::check_writes;
use super::order::{display, type_name};
use super::pipeline::{Answer, Run, pipeline};
use super::projection::assign_within;
use super::release::Release;
use super::stages::stage_name;
use super::types::Shared;
use super::{path, size};

/// The first release in which a `$lookup` can have both fields and a pipeline.
const EQUALITY_WITH_PIPELINE: Release = Release([5, 0, 0]);

/// The parsed operand of `$lookup`.
struct Join<'a> {
    /// The other collection, unless the pipeline makes the documents.
    from: Option<&'a str>,
    into: &'a str,
    /// The fields that have to be equal, here and in the other collection.
    fields: Option<(&'a str, &'a str)>,
    variables: Option<&'a Document>,
    stages: Vec<Document>,
}

/// Returns the error for a malformed operand. Newer servers than 7.0 have other codes for some of
/// these errors.
fn refuse<T>(text: impl Into<String>) -> Answer<T> {
    Err(StoreError::failed_to_parse(text))
}

/// Parses the operand of `$lookup`.
fn join(spec: &Document, release: Release) -> Answer<Join<'_>> {
    spec.iter()
        .try_for_each(|(name, value)| check_argument(name, value))?;
    let stages = spec.get("pipeline").map(|stages| pipeline(stages, release));
    let stages = stages.transpose()?;
    for stage in stages.iter().flatten() {
        check_writes(stage, 51047, "$lookup")?;
    }
    let variables = spec.get_document("let").ok();
    for (name, value) in variables.into_iter().flatten() {
        expression::check_variable_name(name)?;
        expression::check(value, release)?;
    }
    let text = |name: &str| spec.get_str(name).ok().filter(|text| !text.is_empty());
    let from = text("from");
    if from.is_none() {
        check_without_collection(stages.as_deref())?;
    }
    let Some(into) = text("as") else {
        return refuse("must specify 'as' field for a $lookup");
    };
    path::check_field(into)?;
    let fields = match (text("localField"), text("foreignField"), &stages) {
        (local, foreign, Some(_))
            if release < EQUALITY_WITH_PIPELINE && (local.is_some() || foreign.is_some()) =>
        {
            return refuse(
                "$lookup with 'pipeline' may not specify 'localField' or 'foreignField'",
            );
        }
        (Some(local), Some(foreign), _) => {
            path::check_field(local)?;
            path::check_field(foreign)?;
            Some((local, foreign))
        }
        (None, None, Some(_)) => None,
        (_, _, None) => {
            return refuse(
                "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be \
                 specified",
            );
        }
        _ => {
            return refuse(
                "$lookup requires both or neither of 'localField' and 'foreignField' to be \
                 specified",
            );
        }
    };
    if variables.is_some() && stages.is_none() {
        return refuse("$lookup with a 'let' argument must also specify 'pipeline'");
    }
    Ok(Join {
        from,
        into,
        fields,
        variables,
        stages: stages.unwrap_or_default(),
    })
}

/// Returns an error if an argument is unknown or has a wrong type.
fn check_argument(name: &str, value: &Bson) -> Answer<()> {
    let kind = type_name(value);
    match (name, value) {
        ("pipeline", _)
        | ("let", Bson::Document(_))
        | ("from" | "as" | "localField" | "foreignField", Bson::String(_)) => Ok(()),
        ("let", _) => refuse(format!(
            "$lookup argument 'let: {}' must be an object, is type {kind}",
            display(value)
        )),
        ("from", _) => refuse(format!(
            "$lookup 'from' field must be a string, but found {kind}"
        )),
        ("as" | "localField" | "foreignField", _) => refuse(format!(
            "$lookup argument '{name}' must be a string, found {name}: {}: {kind}",
            display(value)
        )),
        _ => refuse(format!("unknown argument to $lookup: {name}")),
    }
}

/// Returns an error if the pipeline of a `$lookup` without another collection makes no documents.
fn check_without_collection(stages: Option<&[Document]>) -> Answer<()> {
    let Some(stages) = stages else {
        return refuse("must specify 'pipeline' when 'from' is empty");
    };
    match stages.first().map(stage_name) {
        Some(Ok("$documents")) => Ok(()),
        _ => refuse(
            "$lookup stage without explicit collection must have a pipeline with $documents as \
             first stage",
        ),
    }
}

impl Run<'_> {
    /// Adds to each document an array with the matching documents of another collection.
    pub(super) fn lookup(&self, documents: Vec<Shared>, spec: &Document) -> Answer<Vec<Shared>> {
        let join = join(spec, self.context.release)?;
        let foreign = match join.from {
            Some(from) => self.collection(from, &[])?,
            None => Vec::new(),
        };
        if documents.is_empty() {
            super::pipeline::parse(&join.stages, self.depth + 1, self.context.release)?;
        }
        let budget = &self.context.budget;
        self.each(documents, |document| {
            budget.step(foreign.len() as u64)?;
            let outer = self.context.variables.iter();
            let bytes =
                outer.map(|(name, value)| name.len() + value.as_ref().map_or(0, size::memory));
            budget.charge(bytes.sum())?;
            let mut context = self.context.clone();
            let scope = Scope::new(document, self.context);
            for (name, value) in join.variables.into_iter().flatten() {
                let value = expression::evaluate(value, &scope)?;
                context.variables.insert(name.clone(), value);
            }
            let mut joined = foreign.clone();
            if let Some((local, field)) = join.fields {
                let mut wanted: Vec<Bson> =
                    path::values(document, local).into_iter().cloned().collect();
                if wanted.is_empty() {
                    wanted.push(Bson::Null);
                }
                // In `$in` a regular expression matches texts, but here it equals itself only.
                let is_pattern = |value: &Bson| matches!(value, Bson::RegularExpression(_));
                let filter = match wanted.iter().any(is_pattern) {
                    true => {
                        let equal = wanted
                            .into_iter()
                            .map(|value| doc! { field: { "$eq": value } });
                        doc! { "$or": equal.collect::<Vec<_>>() }
                    }
                    false => doc! { field: { "$in": wanted } },
                };
                let matcher = Matcher::new(&filter, context.release)?;
                let mut kept = Vec::new();
                for other in joined {
                    if matcher.matches(&other, &context)? {
                        kept.push(other);
                    }
                }
                joined = kept;
            }
            let inner = Run {
                context: &context,
                depth: self.depth + 1,
                ..*self
            };
            let joined = inner.stages(joined, "", &join.stages)?;
            let mut result = document.clone();
            assign_within(&mut result, join.into, self.array(&joined)?, budget)?;
            Ok(result)
        })
    }
}
