//! Updates. An update is parsed once and then applied to each matching document.

mod arrays;
mod operators;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::budget::Budget;
use super::change::{OperatorPath, UpdateStyle};
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::matcher::{ItemMatcher, Matcher};
use super::order::{display, equal};
use super::release::Release;
use super::types::Update;
use super::{path, pipeline, stages};

type Answer<T> = Result<T, StoreError>;

/// A parsed update.
#[derive(Clone, Debug)]
pub(crate) enum Updater {
    Replacement(Document),
    Operators(Vec<Operation>, BTreeMap<String, Matcher>),
    Pipeline(Vec<Document>),
}

/// One update operator on one path.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    operator: &'static str,
    path: String,
    operand: Bson,
    pull: Option<ItemMatcher>,
}

/// The effect of an update operator on the value at its path.
#[derive(Clone, Debug, PartialEq)]
enum Effect {
    Keep,
    Set(Bson),
    Unset,
}

/// The operators of updates.
pub(crate) const OPERATORS: &[&str] = &[
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$setOnInsert",
    "$currentDate",
    "$push",
    "$addToSet",
    "$pull",
    "$pullAll",
    "$pop",
    "$bit",
];

impl Updater {
    /// Parses an update, and the array filters that define the elements meant by `$[name]` in a
    /// path.
    pub(crate) fn new(
        update: &Update,
        array_filters: &[Document],
        release: Release,
    ) -> Answer<Self> {
        match update {
            Update::Pipeline(stages) => {
                if !array_filters.is_empty() {
                    return Err(StoreError::failed_to_parse(
                        "arrayFilters may not be specified for pipeline-style updates",
                    ));
                }
                stages::check_update(stages, release)?;
                pipeline::parse(stages, 0, release)?;
                Ok(Self::Pipeline(stages.clone()))
            }
            Update::Document(document) => {
                if document
                    .keys()
                    .next()
                    .is_some_and(|first| first.starts_with('$'))
                {
                    let operations = operations(document, release)?;
                    let filters = filters(array_filters, release)?;
                    check_defined(&filters, &operations)?;
                    check_used(filters.keys(), &operations, document)?;
                    Ok(Self::Operators(operations, filters))
                } else {
                    replacement(document)
                }
            }
        }
    }

    /// True if the update replaces the whole document.
    pub(crate) fn is_replacement(&self) -> bool {
        matches!(self, Self::Replacement(_))
    }

    /// Returns the way in which the update was expressed, for change streams.
    pub(crate) fn style(&self) -> UpdateStyle {
        let operations = match self {
            Self::Replacement(_) => return UpdateStyle::Replacement,
            Self::Pipeline(_) => return UpdateStyle::Pipeline,
            Self::Operators(operations, _) => operations,
        };
        let mut paths = Vec::new();
        for operation in operations {
            let appends = matches!(operation.operator, "$push" | "$addToSet");
            let path = operation.path.clone();
            paths.push(OperatorPath { path, appends });
            if let ("$rename", Some(path)) = (operation.operator, operation.operand.as_str()) {
                let path = path.to_owned();
                paths.push(OperatorPath { path, appends });
            }
        }
        UpdateStyle::Operators(Arc::new(paths))
    }

    /// Returns the document after the update. A change of `_id` is an error.
    pub(crate) fn apply(
        &self,
        document: &Document,
        position: Option<usize>,
        inserting: bool,
        context: &EvaluationContext,
    ) -> Answer<Document> {
        let budget = &context.budget;
        let mark = budget.charged();
        let result = match self {
            Self::Replacement(replacement) => replace(document, replacement),
            Self::Operators(operations, filters) => {
                let mut result = document.clone();
                for operation in operations {
                    if operation.operator == "$setOnInsert" && !inserting {
                        continue;
                    }
                    let targets =
                        paths::expand(&result, &operation.path, position, filters, context)?;
                    for target in targets {
                        budget.step(1)?;
                        budget.charge_copies(&operation.operand, 1)?;
                        operation.apply(&mut result, &target, context)?;
                    }
                }
                result
            }
            Self::Pipeline(stages) => {
                let result = pipeline::transform(document, stages, context)?;
                with_id_of(document, result)
            }
        };
        budget.release_to(mark);
        match (document.get("_id"), result.get("_id")) {
            (Some(before), Some(after)) if equal(before, after) => Ok(result),
            (None, _) => Ok(result),
            (Some(_), after) => Err(immutable_id(after, self.is_replacement())),
        }
    }
}

/// Returns the result of a pipeline. If it has no `_id`, it keeps that of the document, as its
/// first field.
fn with_id_of(document: &Document, result: Document) -> Document {
    match document.get("_id") {
        Some(id) if !result.contains_key("_id") => {
            let mut kept = doc! { "_id": id.clone() };
            kept.extend(result);
            kept
        }
        _ => result,
    }
}

fn immutable_id(after: Option<&Bson>, replacing: bool) -> StoreError {
    let shown = display(after.unwrap_or(&Bson::Null));
    let message = if replacing || after.is_none() {
        format!(
            "After applying the update, the (immutable) field '_id' was found to have been \
             altered to _id: {shown}"
        )
    } else {
        "Performing an update on the path '_id' would modify the immutable field '_id'".to_owned()
    };
    StoreError::new(66, message)
}

fn replacement(document: &Document) -> Answer<Updater> {
    match document.keys().find(|name| name.starts_with('$')) {
        Some(name) => Err(StoreError::new(
            52,
            format!(
                "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context \
                 of an update's replacement document. Consider using an aggregation pipeline with \
                 $replaceWith."
            ),
        )),
        None => Ok(Updater::Replacement(document.clone())),
    }
}

fn replace(document: &Document, replacement: &Document) -> Document {
    let mut result = Document::new();
    if let Some(id) = replacement.get("_id").or_else(|| document.get("_id")) {
        result.insert("_id", id.clone());
    }
    let rest = replacement.iter().filter(|(name, _)| *name != "_id");
    result.extend(rest.map(|(name, value)| (name.clone(), value.clone())));
    result
}

fn operations(document: &Document, release: Release) -> Answer<Vec<Operation>> {
    let mut found: Vec<Operation> = Vec::new();
    for (name, fields) in document {
        let Some(operator) = OPERATORS.iter().find(|o| *o == name) else {
            return Err(StoreError::failed_to_parse(format!(
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style \
                 update specified as an array"
            )));
        };
        let Bson::Document(fields) = fields else {
            return Err(StoreError::failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: \
                 {{$mod: {{<field>: ...}}}} not {{{name}: {}}}",
                super::order::type_name(fields),
                display(fields)
            )));
        };
        for (path, operand) in fields {
            paths::check(path)?;
            operators::check(operator, path, operand)?;
            found.push(Operation {
                operator,
                path: path.clone(),
                operand: operand.clone(),
                pull: (*operator == "$pull")
                    .then(|| ItemMatcher::new(operand, release))
                    .transpose()?,
            });
        }
    }
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for operation in &found {
        let mut touched = vec![operation.path.as_str()];
        if operation.operator == "$rename" {
            touched.push(operation.operand.as_str().unwrap_or_default());
        }
        for path in touched {
            if let Some(at) = paths::conflict(&taken, path) {
                return Err(StoreError::new(
                    40,
                    format!("Updating the path '{path}' would create a conflict at '{at}'"),
                ));
            }
            taken.insert(path);
        }
    }
    // The server applies the operators in the order of their paths, not in the order of the update.
    found.sort_by(|a, b| paths::compare(&a.path, &b.path));
    Ok(found)
}

fn filters(array_filters: &[Document], release: Release) -> Answer<BTreeMap<String, Matcher>> {
    let mut named = BTreeMap::new();
    for filter in array_filters {
        let matcher = Matcher::new(filter, release)?;
        let mut name = None;
        find_top_name(filter, &mut name)?;
        let name = name.ok_or_else(|| {
            StoreError::failed_to_parse(
                "Cannot use an expression without a top-level field name in arrayFilters",
            )
        })?;
        let is_alphanumeric = name.chars().all(|c| c.is_ascii_alphanumeric());
        if !is_alphanumeric || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(StoreError::bad_value(format!(
                "Error parsing array filter :: caused by :: The top-level field name must be an \
                 alphanumeric string beginning with a lowercase letter, found '{name}'"
            )));
        }
        let name = name.to_owned();
        if named.insert(name.clone(), matcher).is_some() {
            return Err(StoreError::failed_to_parse(format!(
                "Found multiple array filters with the same top-level field name {name}"
            )));
        }
    }
    Ok(named)
}

/// Returns the name of the array filter in a part of a path; an empty one stands for all elements.
fn filter_name(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']')
}

/// Returns an error if a path names an array filter that the update does not have.
fn check_defined(filters: &BTreeMap<String, Matcher>, operations: &[Operation]) -> Answer<()> {
    for Operation { path, .. } in operations {
        let mut names = path.split('.').filter_map(filter_name);
        if let Some(name) = names.find(|name| !name.is_empty() && !filters.contains_key(*name)) {
            return Err(no_filter(name, path));
        }
    }
    Ok(())
}

fn no_filter(name: &str, path: &str) -> StoreError {
    let text = format!("No array filter found for identifier '{name}' in path '{path}'");
    StoreError::bad_value(text)
}

/// Returns an error if no path of an update has an array filter's name.
fn check_used<'a>(
    mut names: impl Iterator<Item = &'a String>,
    operations: &[Operation],
    update: &Document,
) -> Answer<()> {
    let parts = operations
        .iter()
        .flat_map(|operation| operation.path.split('.'));
    let used: BTreeSet<&str> = parts.filter_map(filter_name).collect();
    match names.find(|name| !used.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let shown = display(&Bson::Document(update.clone()));
            let text = format!(
                "The array filter for identifier '{name}' was not used in the update {shown}"
            );
            Err(StoreError::failed_to_parse(text))
        }
    }
}

/// Finds the first part of the paths of a filter. Paths with different first parts are an error.
fn find_top_name<'a>(filter: &'a Document, name: &mut Option<&'a str>) -> Answer<()> {
    for (path, value) in filter {
        if path.starts_with('$') {
            let filters = value.as_array().into_iter().flatten();
            for filter in filters.filter_map(Bson::as_document) {
                find_top_name(filter, name)?;
            }
            continue;
        }
        let found = path.split('.').next().unwrap_or(path);
        let known = *name.get_or_insert(found);
        if known != found {
            return Err(StoreError::failed_to_parse(format!(
                "Error parsing array filter :: caused by :: Expected a single top-level field \
                 name, found '{known}' and '{found}'"
            )));
        }
    }
    Ok(())
}

impl Operation {
    fn apply(
        &self,
        document: &mut Document,
        target: &str,
        context: &EvaluationContext,
    ) -> Answer<()> {
        if self.operator == "$rename" {
            return self.rename(document, target, &context.budget);
        }
        if self.operator == "$pop"
            && let Err(blocked) = paths::traverse(document, target)
        {
            let paths::Blocked { part, shown, .. } = blocked;
            let text = format!("Cannot create field '{part}' in element {shown}");
            return Err(StoreError::new(28, text));
        }
        let effect = operators::effect(self, document, target, context)?;
        match effect {
            Effect::Keep => Ok(()),
            Effect::Set(value) => paths::set(document, target, value, &context.budget),
            Effect::Unset => paths::unset(document, target, &context.budget),
        }
    }

    fn rename(&self, document: &mut Document, target: &str, budget: &Budget) -> Answer<()> {
        if let Err(paths::Blocked { name, shown, .. }) = paths::traverse(document, target) {
            let text = format!(
                "cannot use the part ({name} of {target}) to traverse the element ({shown})"
            );
            return Err(StoreError::new(28, text));
        }
        let Some(value) = path::exact(document, target).cloned() else {
            return Ok(());
        };
        let to = self.operand.as_str().unwrap_or_default();
        for (side, path) in [("source", target), ("destination", to)] {
            if let Some(name) = paths::array_above(document, path) {
                let id = display(document.get("_id").unwrap_or(&Bson::Null));
                return Err(StoreError::bad_value(format!(
                    "The {side} field cannot be an array element, '{path}' in doc with _id: {id} \
                     has an array field called '{name}'"
                )));
            }
        }
        paths::unset(document, target, budget)?;
        paths::set(document, to, value, budget)
    }
}

/// Returns the document that an upsert starts from: the fields for which the filter demands
/// equality, or only `_id` for a replacement.
pub(crate) fn upsert_base(matcher: &Matcher, replacing: bool, budget: &Budget) -> Answer<Document> {
    let mut fields: BTreeMap<&str, &Bson> = BTreeMap::new();
    for (path, value) in matcher.upsert_fields() {
        if replacing && path != "_id" && !path.starts_with("_id.") {
            continue;
        }
        path::check(path)?;
        if path.starts_with("_id.") {
            let text = format!(
                "field at '_id' must be exactly specified, field at sub-path '{path}'found"
            );
            return Err(StoreError::new(111, text));
        }
        let above = path.match_indices('.').map(|(end, _)| &path[..end]);
        if let Some(above) = above.into_iter().find(|above| fields.contains_key(above)) {
            let text = format!(
                "cannot infer query fields to set, both paths '{path}' and '{above}' are matched"
            );
            return Err(StoreError::new(54, text));
        }
        if fields.insert(path, value).is_some() {
            let text = format!("cannot infer query fields to set, path '{path}' is matched twice");
            return Err(StoreError::new(54, text));
        }
    }
    let mut base = Document::new();
    // The server takes the fields in the order of their paths.
    for (path, value) in fields {
        paths::set(&mut base, path, value.clone(), budget)?;
    }
    Ok(base)
}
