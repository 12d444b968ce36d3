//! Projections of `find`, of `findAndModify` and of the stage `$project`.

use bson::{Bson, Document};

use super::budget::Budget;
use super::error::StoreError;
use super::expression::{self, EvaluationContext, Scope, slice};
use super::matcher::Matcher;
use super::order::display;
use super::{number, path};

type Answer<T> = Result<T, StoreError>;

/// A parsed projection.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    including: bool,
    id: bool,
    fields: Vec<(String, Field)>,
}

#[derive(Clone, Debug)]
enum Field {
    Keep,
    Drop,
    Slice(Option<i64>, i64),
    ElementMatch(Matcher),
    Positional,
    Computed(Bson),
}

impl Projection {
    /// Parses a projection. With `of_find`, the projection can contain `.$`, `$elemMatch`, and
    /// `$slice` with one or two numbers, as in `find` and `findAndModify`.
    pub(crate) fn new(specification: &Document, of_find: bool) -> Answer<Self> {
        let mut fields = Vec::new();
        let (mut including, mut id) = (None, None);
        for (name, value) in specification {
            let field = field(name, value, of_find)?;
            if name == "_id" {
                match field {
                    Field::Keep => id = Some(true),
                    Field::Drop => id = Some(false),
                    computed => fields.push((name.clone(), computed)),
                }
                continue;
            }
            let wants = match field {
                Field::Keep | Field::Computed(_) | Field::Positional => Some(true),
                Field::Drop => Some(false),
                Field::Slice(..) | Field::ElementMatch(_) => None,
            };
            if let (Some(wants), Some(mode)) = (wants, including)
                && wants != mode
            {
                let (code, words) = if wants {
                    (
                        31253,
                        format!("Cannot do inclusion on field {name} in exclusion projection"),
                    )
                } else {
                    (
                        31254,
                        format!("Cannot do exclusion on field {name} in inclusion projection"),
                    )
                };
                return Err(StoreError::new(code, words));
            }
            including = including.or(wants);
            let name = name.strip_suffix(".$").unwrap_or(name).to_owned();
            fields.push((name, field));
        }
        let matches = fields
            .iter()
            .any(|(_, f)| matches!(f, Field::ElementMatch(_)));
        let including = including.unwrap_or_else(|| matches || id == Some(true));
        Ok(Self {
            including,
            id: id.unwrap_or(true),
            fields,
        })
    }

    /// True if the projection computes fields, so that its results can be larger than the
    /// documents.
    pub(crate) fn computes(&self) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|(_, field)| matches!(field, Field::Computed(_)))
    }

    /// Applies the projection to a document. The matcher of the query gives the position for `.$`.
    pub(crate) fn apply(
        &self,
        document: &Document,
        matcher: Option<&Matcher>,
        context: &EvaluationContext,
    ) -> Answer<Document> {
        let budget = &context.budget;
        let pairs = self.fields.len().saturating_mul(document.len());
        budget.step(pairs as u64)?;
        let mut result =
            if self.including {
                let mut kept: Vec<&str> = if self.id { vec!["_id"] } else { vec![] };
                kept.extend(self.fields.iter().filter_map(|(name, field)| {
                    (!matches!(field, Field::Computed(_) | Field::Drop)).then_some(name.as_str())
                }));
                include(document, &kept)
            } else {
                let mut dropped: Vec<&str> = if self.id { vec![] } else { vec!["_id"] };
                dropped.extend(self.fields.iter().filter_map(|(name, field)| {
                    matches!(field, Field::Drop).then_some(name.as_str())
                }));
                exclude(document, &dropped)
            };
        let scope = Scope::new(document, context);
        for (name, field) in &self.fields {
            match field {
                Field::Keep | Field::Drop => {}
                Field::Computed(expression) => match expression::evaluate(expression, &scope)? {
                    Some(value) => assign_within(&mut result, name, value, budget)?,
                    None => exclude_within(&mut result, name, budget)?,
                },
                Field::Slice(skip, take) => each_array(&mut result, name, &mut |items| {
                    *items = slice(items, *skip, *take);
                }),
                Field::ElementMatch(matcher) => {
                    let items = document.get_array(name).cloned().unwrap_or_default();
                    let mut found = None;
                    for item in items {
                        let mut wrapped = Document::new();
                        wrapped.insert("e", Bson::Array(vec![item.clone()]));
                        if matcher.matches(&wrapped, context)? {
                            found = Some(item);
                            break;
                        }
                    }
                    match found {
                        Some(item) => assign(&mut result, name, Bson::Array(vec![item])),
                        None => {
                            result.remove(name);
                        }
                    }
                }
                Field::Positional => {
                    let place = matcher
                        .and_then(|m| m.position(document, context))
                        .ok_or_else(|| {
                            StoreError::new(
                                51246,
                                "Executor error during find command :: caused by :: positional \
                             operator '.$' couldn't find a matching element in the array",
                            )
                        })?;
                    each_array(&mut result, name, &mut |items| {
                        *items = items.get(place).cloned().into_iter().collect();
                    });
                }
            }
        }
        Ok(result)
    }
}

fn field(name: &str, value: &Bson, of_find: bool) -> Answer<Field> {
    if name.is_empty() || name.starts_with('$') {
        let text = format!(
            "FieldPath field names may not start with '$'. Consider using \
                            $getField or $setField. Got: {name}"
        );
        return Err(StoreError::new(16410, text));
    }
    path::check(name)?;
    match value {
        Bson::Boolean(_)
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Double(_)
        | Bson::Decimal128(_) => {
            let keep = expression::truthy(value);
            Ok(match (keep, of_find && name.ends_with(".$")) {
                (true, true) => Field::Positional,
                (true, false) => Field::Keep,
                (false, _) => Field::Drop,
            })
        }
        Bson::Document(inner) if of_find && inner.contains_key("$elemMatch") => {
            let mut wrapped = Document::new();
            wrapped.insert("e", inner.clone());
            Ok(Field::ElementMatch(Matcher::new(&wrapped)?))
        }
        Bson::Document(inner) if of_find && inner.contains_key("$slice") => {
            let numbers = match inner.get("$slice") {
                Some(Bson::Array(items)) => items.iter().map(number::truncated).collect(),
                Some(other) => vec![number::truncated(other)],
                None => vec![],
            };
            match numbers.as_slice() {
                [Some(take)] => Ok(Field::Slice(None, *take)),
                [Some(skip), Some(take)] => Ok(Field::Slice(Some(*skip), *take)),
                _ => {
                    let shown = display(value);
                    let text = format!(
                        "Invalid $slice syntax. The given syntax {shown} did not \
                                        match the find() syntax"
                    );
                    Err(StoreError::new(28667, text))
                }
            }
        }
        Bson::Document(inner) if inner.is_empty() => {
            let text = "An empty sub-projection is not a valid value. Found empty object at path";
            Err(StoreError::new(51270, text))
        }
        other => {
            expression::check(other, 0)?;
            Ok(Field::Computed(other.clone()))
        }
    }
}

/// Returns the rest of each path that begins with the part `name`, or `None` if `name` itself is
/// one of the paths.
fn below<'a>(paths: &[&'a str], name: &str) -> Option<Vec<&'a str>> {
    let mut rest = Vec::new();
    for path in paths {
        match path.strip_prefix(name) {
            Some("") => return None,
            Some(tail) => rest.extend(tail.strip_prefix('.')),
            None => {}
        }
    }
    Some(rest)
}

fn include(document: &Document, paths: &[&str]) -> Document {
    let mut result = Document::new();
    for (name, value) in document {
        match below(paths, name) {
            None => {
                result.insert(name, value.clone());
            }
            Some(rest) if rest.is_empty() => {}
            Some(rest) => {
                if let Some(value) = include_value(value, &rest) {
                    result.insert(name, value);
                }
            }
        }
    }
    result
}

fn include_value(value: &Bson, paths: &[&str]) -> Option<Bson> {
    match value {
        Bson::Document(inner) => Some(Bson::Document(include(inner, paths))),
        Bson::Array(items) => Some(Bson::Array(
            items
                .iter()
                .filter_map(|i| include_value(i, paths))
                .collect(),
        )),
        _ => None,
    }
}

/// Returns a copy of a document without the values at some paths.
pub(crate) fn exclude(document: &Document, paths: &[&str]) -> Document {
    let mut result = Document::new();
    for (name, value) in document {
        match below(paths, name) {
            None => {}
            Some(rest) if rest.is_empty() => {
                result.insert(name, value.clone());
            }
            Some(rest) => {
                result.insert(name, exclude_value(value, &rest));
            }
        }
    }
    result
}

fn exclude_value(value: &Bson, paths: &[&str]) -> Bson {
    match value {
        Bson::Document(inner) => Bson::Document(exclude(inner, paths)),
        Bson::Array(items) => Bson::Array(
            items
                .iter()
                .map(|item| exclude_value(item, paths))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Removes the value at a path. Charges a copy of the document, which the removal makes.
pub(crate) fn exclude_within(document: &mut Document, path: &str, budget: &Budget) -> Answer<()> {
    let head = path.split('.').next().unwrap_or(path);
    if document.contains_key(head) {
        budget.hold_document(document)?;
        *document = exclude(document, &[path]);
    }
    Ok(())
}

/// Sets the value at a path as [`assign`] does, and charges a copy for each place after the first.
pub(crate) fn assign_within(
    document: &mut Document,
    path: &str,
    value: Bson,
    budget: &Budget,
) -> Answer<()> {
    let copies = places(document, path).saturating_sub(1);
    budget.charge_copies(&value, copies)?;
    assign(document, path, value);
    Ok(())
}

/// Returns the number of places at which [`assign`] sets the value of a path. Each element of an
/// array on the way is a place.
fn places(document: &Document, path: &str) -> usize {
    match path.split_once('.') {
        None => 1,
        Some((head, rest)) => document.get(head).map_or(1, |v| places_below(v, rest)),
    }
}

fn places_below(value: &Bson, path: &str) -> usize {
    match value {
        Bson::Document(inner) => places(inner, path),
        Bson::Array(items) => items.iter().map(|item| places_below(item, path)).sum(),
        _ => 1,
    }
}

/// Sets the value at a path. In an array on the way, the value is set in each element. A value on
/// the way that is missing, or is neither a document nor an array, is replaced by a document.
pub(crate) fn assign(document: &mut Document, path: &str, value: Bson) {
    match path.split_once('.') {
        None => {
            document.insert(path, value);
        }
        Some((head, rest)) => {
            let slot = document
                .entry(head.to_owned())
                .or_insert_with(|| Document::new().into());
            assign_below(slot, rest, value);
        }
    }
}

fn assign_below(slot: &mut Bson, path: &str, value: Bson) {
    match slot {
        Bson::Document(inner) => assign(inner, path, value),
        Bson::Array(items) => {
            items
                .iter_mut()
                .for_each(|item| assign_below(item, path, value.clone()));
        }
        other => {
            let mut inner = Document::new();
            assign(&mut inner, path, value);
            *other = Bson::Document(inner);
        }
    }
}

fn each_array(document: &mut Document, path: &str, change: &mut dyn FnMut(&mut Vec<Bson>)) {
    let (head, rest) = path
        .split_once('.')
        .map_or((path, None), |(h, r)| (h, Some(r)));
    match (document.get_mut(head), rest) {
        (Some(Bson::Array(items)), None) => change(items),
        (Some(Bson::Document(inner)), Some(rest)) => each_array(inner, rest, change),
        _ => {}
    }
}
