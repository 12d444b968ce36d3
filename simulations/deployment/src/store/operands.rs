//! The operands of stages, with the server's error codes.

use bson::{Bson, Document};

use super::error::StoreError;
use super::order::{display, type_name};
use super::pipeline::{Answer, pipeline};
use super::projection::Projection;
use super::release::Release;
use super::stages::stage_name;
use super::{expression, number, path};

/// The stages that are not allowed in `$facet`.
const NOT_IN_FACET: &[&str] = &["$collStats", "$facet", "$indexStats", "$merge", "$out"];

/// Parses the operand of `$project`.
pub(super) fn project(operand: &Document, release: Release) -> Answer<Projection> {
    if operand.is_empty() {
        let text = "projection specification must have at least one field";
        return Err(StoreError::new(51272, text));
    }
    Projection::new(operand, false, release).map_err(|error| invalid("$project", error))
}

/// Parses the operand of `$unset`.
pub(super) fn unset(operand: &Bson) -> Answer<Projection> {
    let names: Vec<&str> = match operand {
        Bson::String(name) => vec![name],
        Bson::Array(names) if names.is_empty() => {
            let text = "$unset specification must be a string or an array with at least one field";
            return Err(StoreError::new(31119, text));
        }
        Bson::Array(names) => {
            let texts = names.iter().map(Bson::as_str);
            texts.collect::<Option<_>>().ok_or_else(|| {
                let text = "$unset specification must be a string or an array containing only \
                            string values";
                StoreError::new(31120, text)
            })?
        }
        _ => {
            let text = "$unset specification must be a string or an array";
            return Err(StoreError::new(31002, text));
        }
    };
    Projection::without(&names).map_err(|error| invalid("$unset", error))
}

fn invalid(stage: &str, error: StoreError) -> StoreError {
    error.within(&format!("Invalid {stage}"))
}

/// Parses the operand of `$limit`.
pub(super) fn limit(operand: &Bson) -> Answer<usize> {
    match whole_number("$limit", operand) {
        Ok(0) => Err(StoreError::new(15958, "the limit must be positive")),
        Ok(count) => Ok(count),
        Err(text) => {
            let text = format!("invalid argument to $limit stage: {text}");
            Err(StoreError::new(5_107_201, text))
        }
    }
}

/// Parses the operand of `$skip`.
pub(super) fn skip(operand: &Bson) -> Answer<usize> {
    whole_number("$skip", operand).map_err(|text| {
        let text = format!("invalid argument to $skip stage: {text}");
        StoreError::new(5_107_200, text)
    })
}

/// Returns a number that is whole and not negative, or the text of the error.
fn whole_number(name: &str, operand: &Bson) -> Result<usize, String> {
    let shown = display(operand);
    if !number::is_number(operand) {
        return Err(format!("Expected a number in: {name}: {shown}"));
    }
    match (number::as_integer(operand), number::as_double(operand)) {
        (Some(count), _) if count < 0 => Err(format!(
            "Expected a non-negative number in: {name}: {shown}"
        )),
        // A count beyond the address space is beyond all documents.
        (Some(count), _) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        (None, Some(value)) if value.is_nan() => Err(format!(
            "Expected an integer, but found NaN in: {name}: {shown}"
        )),
        (None, Some(value)) if value.is_finite() && value.fract() != 0.0 => {
            Err(format!("Expected an integer: {name}: {shown}"))
        }
        _ => Err(format!(
            "Cannot represent as a 64-bit integer: {name}: {shown}"
        )),
    }
}

/// Returns the name of the field that `$count` makes.
pub(super) fn count(operand: &Bson) -> Answer<&str> {
    let refuse = |code, text: &str| Err(StoreError::new(code, text));
    match operand.as_str() {
        None => refuse(40156, "the count field must be a non-empty string"),
        Some("") => refuse(40157, "the count field must be a non-empty string"),
        Some(name) if name.starts_with('$') => {
            refuse(40158, "the count field cannot be a $-prefixed path")
        }
        Some(name) if name.contains('.') => refuse(40160, "the count field cannot contain '.'"),
        Some("_id") => refuse(15948, "a group's _id may only be specified once"),
        Some(name) => Ok(name),
    }
}

/// Returns the number of documents that `$sample` takes.
pub(super) fn sample(operand: &Bson) -> Answer<usize> {
    let Bson::Document(options) = operand else {
        let text = "the $sample stage specification must be an object";
        return Err(StoreError::new(28745, text));
    };
    if let Some(other) = options.keys().find(|name| *name != "size") {
        let text = format!("unrecognized option to $sample: {other}");
        return Err(StoreError::new(28748, text));
    }
    let Some(size) = options.get("size") else {
        let text = "$sample stage must specify a size";
        return Err(StoreError::new(28749, text));
    };
    let Some(size) = number::truncated(size) else {
        let text = "size argument to $sample must be a number";
        return Err(StoreError::new(28746, text));
    };
    usize::try_from(size).map_err(|_| {
        let text = "size argument to $sample must not be negative";
        StoreError::new(28747, text)
    })
}

/// Returns an error if the operand of `$sortByCount` is not a path or an expression.
pub(super) fn check_sort_by_count(operand: &Bson) -> Answer<()> {
    let text = "the sortByCount field must be defined as a $-prefixed path or an expression inside \
                an object";
    match operand {
        Bson::Document(inner) => match inner.keys().next() {
            Some(name) if name.starts_with('$') => Ok(()),
            _ => Err(StoreError::new(40147, text)),
        },
        Bson::String(path) if path.starts_with('$') => Ok(()),
        Bson::String(_) => Err(StoreError::new(40148, text)),
        _ => {
            let text = "the sortByCount field must be specified as a string or as an object";
            Err(StoreError::new(40149, text))
        }
    }
}

/// Returns an error if the result of a facet cannot have this name.
fn check_facet_name(name: &str) -> Answer<()> {
    if name.is_empty() {
        return path::check_field(name);
    }
    path::check_name(name)
}

/// Returns the names and the pipelines of `$facet`.
pub(super) fn facets(operand: &Bson, release: Release) -> Answer<Vec<(&str, Vec<Document>)>> {
    let Some(given) = operand.as_document().filter(|given| !given.is_empty()) else {
        let text = "the $facet specification must be a non-empty object";
        return Err(StoreError::new(40169, text));
    };
    let facets = given.iter().map(|(name, stages)| {
        check_facet_name(name)?;
        let Bson::Array(items) = stages else {
            let kind = type_name(stages);
            let text = format!("arguments to $facet must be arrays, {name} is type {kind}");
            return Err(StoreError::new(40170, text));
        };
        let is_stage = |item: &Bson| item.as_document().is_some_and(|stage| !stage.is_empty());
        if let Some(other) = items.iter().find(|item| !is_stage(item)) {
            let text = format!(
                "elements of arrays in $facet spec must be non-empty objects, {name} argument \
                 contained an element of type {}: {}",
                type_name(other),
                display(other)
            );
            return Err(StoreError::new(40171, text));
        }
        let stages = pipeline(stages, release)?;
        for stage in &stages {
            let inner = stage_name(stage)?;
            if NOT_IN_FACET.contains(&inner) {
                let text = format!("{inner} is not allowed to be used within a $facet stage");
                return Err(StoreError::new(40600, text));
            }
        }
        Ok((name.as_str(), stages))
    });
    facets.collect()
}

/// Returns an error with this code if a stage of an inner pipeline of `outer` writes.
pub(super) fn check_writes(stage: &Document, code: i32, outer: &str) -> Answer<()> {
    match stage_name(stage)? {
        name @ ("$out" | "$merge") => {
            let text = format!("{name} is not allowed within a {outer}'s sub-pipeline");
            Err(StoreError::new(code, text))
        }
        _ => Ok(()),
    }
}

/// Returns the expression of `$replaceRoot`.
pub(super) fn new_root(operand: &Bson) -> Answer<&Bson> {
    let Bson::Document(options) = operand else {
        let kind = type_name(operand);
        let text =
            format!("expected an object as specification for $replaceRoot stage, got {kind}");
        return Err(StoreError::new(40229, text));
    };
    check_fields("$replaceRoot", options, &["newRoot"])?;
    options.get("newRoot").ok_or_else(|| {
        let text = "BSON field '$replaceRoot.newRoot' is missing but a required field";
        StoreError::new(40414, text)
    })
}

/// Returns the collection and the pipeline of `$unionWith`. Without a collection, its name is
/// empty, and the pipeline makes the documents.
pub(super) fn union(operand: &Bson, release: Release) -> Answer<(&str, Vec<Document>)> {
    let no_name = || StoreError::new(73, "the collection of $unionWith has no name");
    let options = match operand {
        Bson::String(from) if from.is_empty() => return Err(no_name()),
        Bson::String(from) => return Ok((from, Vec::new())),
        Bson::Document(options) => options,
        other => {
            let kind = type_name(other);
            return Err(StoreError::failed_to_parse(format!(
                "the $unionWith stage specification must be an object or string, but found {kind}"
            )));
        }
    };
    check_fields("$unionWith", options, &["coll", "pipeline"])?;
    let stages = options.get("pipeline");
    let stages = stages.map_or(Ok(vec![]), |stages| pipeline(stages, release))?;
    for stage in &stages {
        check_writes(stage, 31441, "$unionWith")?;
    }
    match options.get("coll") {
        Some(Bson::String(from)) if from.is_empty() => Err(no_name()),
        Some(Bson::String(from)) => Ok((from, stages)),
        Some(other) => {
            let kind = type_name(other);
            Err(StoreError::type_mismatch(format!(
                "BSON field '$unionWith.coll' is the wrong type '{kind}', expected type 'string'"
            )))
        }
        None => match stages.first().map(stage_name) {
            Some(Ok("$documents")) => Ok(("", stages)),
            _ => Err(StoreError::failed_to_parse(
                "$unionWith stage without explicit collection must have a pipeline with \
                 $documents as first stage",
            )),
        },
    }
}

/// Returns an error if the operand of a stage has an unknown field.
pub(super) fn check_fields(stage: &str, options: &Document, known: &[&str]) -> Answer<()> {
    match options.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => {
            let text = format!("BSON field '{stage}.{other}' is an unknown field.");
            Err(StoreError::new(40415, text))
        }
    }
}

/// The path of `$unwind`, and its options.
pub(super) struct Unwind<'a> {
    pub(super) field: &'a str,
    /// True if a document without elements stays.
    pub(super) keeps: bool,
    /// The path that gets the index of the element.
    pub(super) numbering: Option<&'a str>,
}

/// Parses the operand of `$unwind`.
pub(super) fn unwind(operand: &Bson) -> Answer<Unwind<'_>> {
    let mut options = Unwind {
        field: "",
        keeps: false,
        numbering: None,
    };
    let given = match operand {
        Bson::String(path) => path.as_str(),
        Bson::Document(given) => unwind_options(given, &mut options)?,
        other => {
            let kind = type_name(other);
            let text = format!(
                "expected either a string or an object as specification for $unwind stage, got \
                 {kind}"
            );
            return Err(StoreError::new(15981, text));
        }
    };
    if given.is_empty() {
        return Err(StoreError::new(28812, "no path specified to $unwind stage"));
    }
    let Some(field) = given.strip_prefix('$') else {
        let text = format!("path option to $unwind stage should be prefixed with a '$': {given}");
        return Err(StoreError::new(28818, text));
    };
    Ok(Unwind { field, ..options })
}

fn unwind_options<'a>(given: &'a Document, options: &mut Unwind<'a>) -> Answer<&'a str> {
    let mut path = "";
    for (name, value) in given {
        let kind = type_name(value);
        match (name.as_str(), value) {
            ("path", Bson::String(given)) => path = given,
            ("path", _) => {
                let text = format!("expected a string as the path for $unwind stage, got {kind}");
                return Err(StoreError::new(28808, text));
            }
            ("preserveNullAndEmptyArrays", Bson::Boolean(_)) => {
                options.keeps = expression::truthy(value);
            }
            ("preserveNullAndEmptyArrays", _) => {
                let text = format!(
                    "expected a boolean for the preserveNullAndEmptyArrays option to $unwind \
                     stage, got {kind}"
                );
                return Err(StoreError::new(28809, text));
            }
            ("includeArrayIndex", Bson::String(field)) if field.starts_with('$') => {
                let text = format!(
                    "includeArrayIndex option to $unwind stage should not be prefixed with a '$': \
                     {field}"
                );
                return Err(StoreError::new(28822, text));
            }
            ("includeArrayIndex", Bson::String(field)) if !field.is_empty() => {
                options.numbering = Some(field);
            }
            ("includeArrayIndex", _) => {
                let text = format!(
                    "expected a non-empty string for the includeArrayIndex  option to $unwind \
                     stage, got {kind}"
                );
                return Err(StoreError::new(28810, text));
            }
            _ => {
                let text = format!("unrecognized option to $unwind stage: {name}");
                return Err(StoreError::new(28811, text));
            }
        }
    }
    Ok(path)
}
