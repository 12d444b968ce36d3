//! Parses filters into predicates, with the server's error messages.

use bson::{Bson, Document};

use super::predicate::{Bits, Predicate};
use super::schema::Schema;
use super::{Matcher, Node};
use crate::store::budget::Budget;
use crate::store::error::StoreError;
use crate::store::order::{compare, type_of_number};
use crate::store::pattern::Pattern;
use crate::store::release::Release;
use crate::store::{expression, number, path};

type Answer<T> = Result<T, StoreError>;

/// The largest depth of nested filters. The server has the same limit.
const MAX_DEPTH: usize = 100;

/// The most memory that all compiled patterns of one filter may take together, in bytes.
const MAX_COMPILED_BYTES: usize = 8 * 1024 * 1024;

/// The depth of a part of a filter, the limits of its patterns, and the release that the server
/// claims. The filter can use the operators that the release has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting<'a> {
    levels: usize,
    /// The memory that each pattern in the filter may take.
    pattern_bytes: usize,
    /// The steps that the compilation of all patterns may take.
    compilation: &'a Budget,
    release: Release,
    /// The release that decides which patterns are malformed.
    pattern_release: Release,
    /// True within `$elemMatch`.
    is_of_element: bool,
}

impl<'a> Nesting<'a> {
    /// Returns the outermost level of a filter. The patterns of the filter share
    /// [`MAX_COMPILED_BYTES`] and the budget.
    pub(super) fn of(filter: &Document, release: Release, compilation: &'a Budget) -> Self {
        let share = MAX_COMPILED_BYTES / patterns_in(filter).max(1);
        Self {
            levels: 0,
            pattern_bytes: share,
            compilation,
            release,
            pattern_release: release,
            is_of_element: false,
        }
    }

    /// Returns the outermost level of a filter that was checked when it was stored. It can use what
    /// any release has.
    pub(super) fn of_stored(filter: &Document, compilation: &'a Budget) -> Self {
        Self {
            pattern_release: Release([0; 3]),
            ..Self::of(filter, Release::default(), compilation)
        }
    }

    pub(super) fn deeper(self) -> Self {
        Self {
            levels: self.levels + 1,
            ..self
        }
    }

    /// Compiles a pattern of the filter.
    pub(super) fn pattern(self, text: &str, options: &str) -> Answer<Pattern> {
        let (release, max_bytes) = (self.pattern_release, self.pattern_bytes);
        Pattern::new(text, options, release, max_bytes, self.compilation)
    }

    pub(super) fn check(self) -> Answer<()> {
        if self.levels > MAX_DEPTH {
            let text = format!("exceeded maximum query tree depth of {MAX_DEPTH}");
            return Err(StoreError::bad_value(text));
        }
        Ok(())
    }
}

/// Returns at least the number of regular expressions in a filter. The recursion is safe, because
/// the depth of received documents is limited.
fn patterns_in(filter: &Document) -> usize {
    fn count(value: &Bson) -> usize {
        match value {
            Bson::RegularExpression(_) => 1,
            Bson::Document(inner) => patterns_in(inner),
            Bson::Array(items) => items.iter().map(count).sum(),
            _ => 0,
        }
    }
    let named = ["$regex", "pattern"]
        .iter()
        .filter(|name| filter.contains_key(name));
    named.count() + filter.values().map(count).sum::<usize>()
}

pub(super) fn filter(filter: &Document, nesting: Nesting<'_>) -> Answer<Node> {
    nesting.check()?;
    let mut nodes = Vec::new();
    for (name, value) in filter {
        match name.as_str() {
            "$expr" | "$text" | "$where" if nesting.is_of_element => {
                let text = format!("{name} can only be applied to the top-level document");
                return Err(StoreError::bad_value(text));
            }
            "$and" => nodes.push(Node::And(list(name, value, nesting)?)),
            "$or" => nodes.push(Node::Or(list(name, value, nesting)?)),
            "$nor" => nodes.push(Node::Nor(list(name, value, nesting)?)),
            "$comment" => {}
            "$jsonSchema" => {
                let Bson::Document(schema) = value else {
                    let text = "$jsonSchema must be an object";
                    return Err(StoreError::type_mismatch(text));
                };
                nodes.push(Node::Schema(Schema::parse(schema, nesting)?));
            }
            "$expr" => {
                expression::check(value, nesting.release)?;
                nodes.push(Node::Expression(value.clone()));
            }
            "$where" | "$text" | "$sampleRate" | "$alwaysTrue" | "$alwaysFalse" => {
                return Err(refusal(name, nesting.release));
            }
            _ if name.starts_with('$') && !matches!(name.as_str(), "$ref" | "$id" | "$db") => {
                return Err(unknown_at_top(name));
            }
            _ => field(name, value, nesting, &mut nodes)?,
        }
    }
    Ok(Node::And(nodes))
}

fn unknown_at_top(name: &str) -> StoreError {
    StoreError::bad_value(format!(
        "unknown top level operator: {name}. If you have a field name that starts with a '$' \
         symbol, consider using $getField or $setField."
    ))
}

fn unknown(name: &str) -> StoreError {
    StoreError::bad_value(format!("unknown operator: {name}"))
}

/// Returns the error of an operator that servers have and the simulated server does not. It is that
/// of a server without JavaScript, without the index that the operator needs, or without the
/// operator.
fn refusal(name: &str, release: Release) -> StoreError {
    let error = match name {
        "$where" => {
            let has_code = release >= Release([6, 0, 0]);
            let code = if has_code { 6_108_304 } else { 2 };
            StoreError::new(code, "no globalScriptEngine in $where parsing")
        }
        "$text" => StoreError::new(27, "text index required for $text query"),
        "$near" | "$nearSphere" => StoreError::new(291, "unable to find index for $geoNear query"),
        "$sampleRate" | "$alwaysTrue" | "$alwaysFalse" => unknown_at_top(name),
        _ => unknown(name),
    };
    error.not_simulated(name)
}

fn list(name: &str, value: &Bson, nesting: Nesting<'_>) -> Answer<Vec<Node>> {
    let Bson::Array(items) = value else {
        return Err(StoreError::bad_value(format!("{name} must be an array")));
    };
    if items.is_empty() {
        return Err(StoreError::bad_value(
            "$and/$or/$nor must be a nonempty array",
        ));
    }
    items
        .iter()
        .map(|item| match item {
            Bson::Document(inner) => filter(inner, nesting.deeper()),
            _ => Err(StoreError::bad_value(
                "$or/$and/$nor entries need to be full objects",
            )),
        })
        .collect()
}

fn field(name: &str, value: &Bson, nesting: Nesting<'_>, nodes: &mut Vec<Node>) -> Answer<()> {
    path::check(name)?;
    match value {
        Bson::Document(inner) if is_operators(inner) => {
            for predicate in predicates(inner, nesting.deeper())? {
                nodes.push(Node::Path(name.to_owned(), predicate));
            }
        }
        _ => nodes.push(Node::Path(name.to_owned(), equality(value, nesting)?)),
    }
    Ok(())
}

/// True if the first field of a document is an operator. A DBRef is a value without operators.
pub(super) fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|first| {
        first.starts_with('$') && !matches!(first.as_str(), "$ref" | "$id" | "$db")
    })
}

/// Returns the predicate for a value without an operator: a match for a regular expression,
/// equality for any other value.
pub(super) fn equality(value: &Bson, nesting: Nesting<'_>) -> Answer<Predicate> {
    match value {
        Bson::RegularExpression(r) => {
            let pattern = nesting.pattern(r.pattern.as_str(), r.options.as_str())?;
            Ok(Predicate::Regex(pattern, Box::new(value.clone())))
        }
        Bson::Undefined => Err(StoreError::bad_value("cannot compare to undefined")),
        _ => Ok(Predicate::Equal(value.clone())),
    }
}

/// Parses the operators on one field.
pub(super) fn predicates(document: &Document, nesting: Nesting<'_>) -> Answer<Vec<Predicate>> {
    nesting.check()?;
    let mut found = Vec::new();
    for (name, value) in document {
        let predicate = match name.as_str() {
            "$comment" => continue,
            "$options" if document.contains_key("$regex") => continue,
            "$options" => return Err(StoreError::bad_value("$options needs a $regex")),
            "$regex" => regex_operator(value, document.get("$options"), nesting)?,
            "$not" => negation(value, nesting)?,
            "$elemMatch" => element_match(value, nesting)?,
            "$all" => all(value, nesting)?,
            _ => comparison(name, value, nesting)?,
        };
        found.push(predicate);
    }
    Ok(found)
}

fn comparison(name: &str, value: &Bson, nesting: Nesting<'_>) -> Answer<Predicate> {
    let plain = |value: &Bson| match value {
        Bson::RegularExpression(_) => Err(StoreError::bad_value(format!(
            "Can't have RegEx as arg to predicate over field: {name}."
        ))),
        Bson::Undefined => Err(StoreError::bad_value("cannot compare to undefined")),
        other => Ok(other.clone()),
    };
    Ok(match name {
        "$eq" => match value {
            Bson::RegularExpression(_) => Predicate::Equal(value.clone()),
            _ => equality(value, nesting)?,
        },
        "$ne" if matches!(value, Bson::RegularExpression(_)) => {
            return Err(StoreError::bad_value("Can't have regex as arg to $ne."));
        }
        "$ne" => Predicate::Not(vec![equality(value, nesting)?]),
        "$lt" => Predicate::Less(plain(value)?),
        "$lte" => Predicate::LessOrEqual(plain(value)?),
        "$gt" => Predicate::Greater(plain(value)?),
        "$gte" => Predicate::GreaterOrEqual(plain(value)?),
        "$in" => membership(name, value, nesting)?,
        "$nin" => Predicate::Not(vec![membership(name, value, nesting)?]),
        "$exists" if expression::truthy(value) => Predicate::Exists,
        "$exists" => Predicate::Not(vec![Predicate::Exists]),
        "$type" => Predicate::Type(types(value)?),
        "$mod" => modulo(value)?,
        "$size" => size(value)?,
        "$bitsAllSet" => Predicate::Bits(Bits::AllSet, places(name, value)?),
        "$bitsAllClear" => Predicate::Bits(Bits::AllClear, places(name, value)?),
        "$bitsAnySet" => Predicate::Bits(Bits::AnySet, places(name, value)?),
        "$bitsAnyClear" => Predicate::Bits(Bits::AnyClear, places(name, value)?),
        "$geoWithin" | "$geoIntersects" | "$near" | "$nearSphere" | "$within" | "$maxDistance"
        | "$minDistance" => {
            return Err(refusal(name, nesting.release));
        }
        _ => return Err(unknown(name)),
    })
}

fn membership(name: &str, value: &Bson, nesting: Nesting<'_>) -> Answer<Predicate> {
    let Bson::Array(items) = value else {
        return Err(StoreError::bad_value(format!("{name} needs an array")));
    };
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Bson::RegularExpression(r) => {
                patterns.push(nesting.pattern(r.pattern.as_str(), r.options.as_str())?);
            }
            Bson::Document(inner) if is_operators(inner) => {
                return Err(StoreError::bad_value(format!("cannot nest $ under {name}")));
            }
            other => values.push(other.clone()),
        }
    }
    values.sort_by(compare);
    Ok(Predicate::In(values, patterns))
}

fn regex_operator(value: &Bson, options: Option<&Bson>, nesting: Nesting<'_>) -> Answer<Predicate> {
    let given = match options {
        None => None,
        Some(Bson::String(options)) => Some(options.as_str()),
        Some(_) => return Err(StoreError::bad_value("$options has to be a string")),
    };
    match value {
        Bson::String(text) => Ok(Predicate::Regex(
            nesting.pattern(text, given.unwrap_or_default())?,
            Box::new(Bson::Undefined),
        )),
        Bson::RegularExpression(r) => {
            let own = r.options.as_str();
            if given.is_some() && !own.is_empty() {
                let text = "options set in both $regex and $options";
                return Err(StoreError::new(51075, text));
            }
            let compiled = nesting.pattern(r.pattern.as_str(), given.unwrap_or(own))?;
            Ok(Predicate::Regex(compiled, Box::new(value.clone())))
        }
        _ => Err(StoreError::bad_value("$regex has to be a string")),
    }
}

fn negation(value: &Bson, nesting: Nesting<'_>) -> Answer<Predicate> {
    match value {
        Bson::RegularExpression(_) => Ok(Predicate::Not(vec![equality(value, nesting)?])),
        Bson::Document(inner) if inner.is_empty() => {
            Err(StoreError::bad_value("$not cannot be empty"))
        }
        Bson::Document(inner) => Ok(Predicate::Not(predicates(inner, nesting.deeper())?)),
        _ => Err(StoreError::bad_value("$not needs a regex or a document")),
    }
}

fn element_match(value: &Bson, nesting: Nesting<'_>) -> Answer<Predicate> {
    let Bson::Document(inner) = value else {
        return Err(StoreError::bad_value("$elemMatch needs an Object"));
    };
    let first = inner.keys().next().map(String::as_str).unwrap_or_default();
    let on_fields = matches!(
        first,
        "$and" | "$or" | "$nor" | "$comment" | "$expr" | "$jsonSchema" | "$text" | "$where"
    );
    let nesting = Nesting {
        is_of_element: true,
        ..nesting.deeper()
    };
    if is_operators(inner) && !on_fields {
        return Ok(Predicate::ElementValue(predicates(inner, nesting)?));
    }
    let root = filter(inner, nesting)?;
    Ok(Predicate::ElementFields(Box::new(Matcher { root })))
}

/// Returns the operand of an `$elemMatch`.
fn condition(item: &Bson) -> Option<&Bson> {
    let (name, condition) = item.as_document()?.iter().next()?;
    (name == "$elemMatch").then_some(condition)
}

fn all(value: &Bson, nesting: Nesting<'_>) -> Answer<Predicate> {
    let Bson::Array(items) = value else {
        return Err(StoreError::bad_value("$all needs an array"));
    };
    if items.is_empty() {
        return Ok(Predicate::Never);
    }
    let are_conditions = condition(&items[0]).is_some();
    let inner = items.iter().map(|item| match (are_conditions, item) {
        (true, item) => match condition(item) {
            Some(condition) => element_match(condition, nesting),
            None => Err(StoreError::bad_value(
                "$all/$elemMatch has to be consistent",
            )),
        },
        (false, Bson::Document(inner)) if is_operators(inner) => {
            Err(StoreError::bad_value("no $ expressions in $all"))
        }
        (false, other) => equality(other, nesting),
    });
    Ok(Predicate::All(inner.collect::<Answer<_>>()?))
}

pub(super) fn types(value: &Bson) -> Answer<Vec<&'static str>> {
    let many = |items: &[Bson]| {
        let mut names = Vec::new();
        for item in items {
            names.extend(one_type(item)?);
        }
        Ok(names)
    };
    match value {
        Bson::Array(items) if items.is_empty() => Err(StoreError::failed_to_parse(
            "$type must match at least one type",
        )),
        Bson::Array(items) => many(items),
        other => one_type(other),
    }
}

fn one_type(value: &Bson) -> Answer<Vec<&'static str>> {
    if let Bson::String(alias) = value {
        if alias == "number" {
            return Ok(vec!["int", "long", "double", "decimal"]);
        }
        let known = (-1..=127)
            .filter_map(type_of_number)
            .find(|name| name == alias);
        return known
            .map(|name| vec![name])
            .ok_or_else(|| StoreError::bad_value(format!("Unknown type name alias: {alias}")));
    }
    if !number::is_number(value) {
        return Err(StoreError::type_mismatch(
            "type must be represented as a number or a string",
        ));
    }
    number::as_integer(value)
        .and_then(type_of_number)
        .map(|name| vec![name])
        .ok_or_else(|| StoreError::bad_value(format!("Invalid numerical type code: {value}")))
}

fn modulo(value: &Bson) -> Answer<Predicate> {
    let Bson::Array(items) = value else {
        return Err(StoreError::bad_value("malformed mod, needs to be an array"));
    };
    match items.as_slice() {
        [] | [_] => Err(StoreError::bad_value("malformed mod, not enough elements")),
        [divisor, remainder] => {
            let not_number = || StoreError::bad_value("malformed mod, divisor not a number");
            let divisor = number::truncated(divisor).ok_or_else(not_number)?;
            let remainder = number::truncated(remainder)
                .ok_or_else(|| StoreError::bad_value("malformed mod, remainder not a number"))?;
            if divisor == 0 {
                return Err(StoreError::bad_value("divisor cannot be 0"));
            }
            Ok(Predicate::Mod(divisor, remainder))
        }
        _ => Err(StoreError::bad_value("malformed mod, too many elements")),
    }
}

fn size(value: &Bson) -> Answer<Predicate> {
    if !number::is_number(value) {
        let text = format!(
            "Failed to parse $size. Expected a number in: $size: {}",
            crate::store::order::display(value)
        );
        return Err(StoreError::bad_value(text));
    }
    let Some(size) = number::as_integer(value) else {
        return Err(StoreError::bad_value("$size must be a whole number"));
    };
    usize::try_from(size).map(Predicate::Size).map_err(|_| {
        let text =
            format!("Failed to parse $size. Expected a non-negative number in: $size: {size}");
        StoreError::bad_value(text)
    })
}

/// The size of the largest mask of bits, in bytes. Each set bit takes 32 bits here.
const MAX_MASK_BYTES: usize = 64 * 1024;

fn places(name: &str, value: &Bson) -> Answer<Vec<u32>> {
    let invalid = |text: &str| StoreError::bad_value(format!("{name} {text}"));
    match value {
        Bson::Array(items) => items
            .iter()
            .map(|item| {
                number::as_integer(item)
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(|| invalid("bit positions must be integers >= 0"))
            })
            .collect(),
        Bson::Binary(binary) if binary.bytes.len() > MAX_MASK_BYTES => {
            let text = format!("this simulated server refuses masks above {MAX_MASK_BYTES} bytes");
            Err(StoreError::new(238, text))
        }
        Bson::Binary(binary) => {
            let bits = u32::try_from(binary.bytes.len() * 8).unwrap_or(0);
            let set = |p: &u32| binary.bytes[*p as usize / 8] >> (p % 8) & 1 == 1;
            Ok((0..bits).filter(set).collect())
        }
        other => {
            let number = number::as_integer(other).ok_or_else(|| {
                invalid("takes an Array, a number, or a BinData but received neither")
            })?;
            let mask = u64::try_from(number).map_err(|_| {
                StoreError::failed_to_parse(format!(
                    "Expected a non-negative number in: {name}: {number}"
                ))
            })?;
            Ok((0..64).filter(|p| mask >> p & 1 == 1).collect())
        }
    }
}
