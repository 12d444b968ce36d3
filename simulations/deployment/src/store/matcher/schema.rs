//! The operator `$jsonSchema`.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::parse::{Nesting, types};
use super::predicate::fits;
use super::report::Reporter;
use crate::store::error::StoreError;
use crate::store::expression::EvaluationContext;
use crate::store::order::{Key, compare, type_name};
use crate::store::pattern::Pattern;
use crate::store::{collation, number, size};

type Answer<T> = Result<T, StoreError>;

/// The keywords of JSON Schema that a server does not support either.
const UNSUPPORTED: [&str; 6] = ["$ref", "$schema", "default", "definitions", "format", "id"];

/// The keywords that a server has and the simulated server does not.
const REFUSED: [&str; 4] = [
    "additionalItems",
    "dependencies",
    "encrypt",
    "patternProperties",
];

/// A parsed schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    rules: Vec<Rule>,
    /// The fields `title` and `description`, which reports of failures repeat.
    notes: Document,
}

/// The size of the fixed part of the report of one rule, in bytes.
const REPORT_BYTES: usize = 256;

/// One keyword of a schema.
#[derive(Clone, Debug)]
struct Rule {
    keyword: String,
    /// The value of the keyword in the schema; `None` if it has further schemas, so that no schema
    /// is copied more than once.
    given: Option<Bson>,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Type(Vec<&'static str>),
    Enum(Vec<Bson>),
    Required(Vec<String>),
    Properties(Vec<(String, Schema)>),
    /// The known names, and the schema of all other fields; without a schema there must be none.
    Additional(BTreeSet<String>, Option<Box<Schema>>),
    /// A bound of numbers, which numbers can be equal to unless it is exclusive.
    Minimum(Bson, bool),
    Maximum(Bson, bool),
    MultipleOf(f64),
    /// A bound of the number of characters, items or fields.
    AtLeast(&'static str, usize),
    AtMost(&'static str, usize),
    Pattern(Pattern),
    Items(Box<Schema>),
    /// A schema for each of the first items.
    ItemList(Vec<Schema>),
    Unique,
    All(Vec<Schema>),
    Any(Vec<Schema>),
    One(Vec<Schema>),
    Not(Box<Schema>),
}

impl Schema {
    /// Parses a schema.
    pub(super) fn parse(given: &Document, nesting: Nesting<'_>) -> Answer<Self> {
        nesting.check()?;
        let mut schema = Self {
            rules: Vec::new(),
            notes: Document::new(),
        };
        if given.contains_key("type") && given.contains_key("bsonType") {
            let text = "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'";
            return Err(StoreError::failed_to_parse(text));
        }
        for (keyword, value) in given {
            match keyword.as_str() {
                "title" | "description" => {
                    wanted(keyword, value, "string", Bson::as_str)?;
                    schema.notes.insert(keyword, value.clone());
                }
                "exclusiveMinimum" | "exclusiveMaximum" => {
                    wanted(keyword, value, "boolean", Bson::as_bool)?;
                    let bound = keyword.trim_start_matches("exclusive").to_lowercase();
                    if !given.contains_key(&bound) {
                        let text = format!(
                            "$jsonSchema keyword '{bound}' must be a present if {keyword} is \
                             present"
                        );
                        return Err(StoreError::failed_to_parse(text));
                    }
                }
                _ => {
                    let test = test(keyword, value, given, nesting.deeper())?;
                    schema.rules.push(Rule {
                        keyword: keyword.clone(),
                        given: (!test.has_schemas()).then(|| value.clone()),
                        test,
                    });
                }
            }
        }
        Ok(schema)
    }

    /// True if a value satisfies the schema.
    pub(crate) fn holds(&self, value: &Bson, context: &EvaluationContext) -> bool {
        context.budget.count(1);
        self.rules.iter().all(|rule| rule.holds(value, context))
    }

    /// Returns a report for each rule that a value does not satisfy, as far as there is room.
    pub(crate) fn failures(&self, value: &Bson, reporter: &Reporter<'_>) -> Vec<Document> {
        let failed = self
            .rules
            .iter()
            .filter(|rule| !rule.holds(value, reporter.context));
        let failed = failed.take_while(|_| reporter.take(REPORT_BYTES));
        failed.map(|rule| rule.report(value, reporter)).collect()
    }

    /// Returns the title and the description, if there is room for them.
    pub(crate) fn notes(&self, reporter: &Reporter<'_>) -> Document {
        match reporter.take(size::of(&self.notes)) {
            true => self.notes.clone(),
            false => Document::new(),
        }
    }
}

/// Returns a keyword's value if it has the right type.
fn wanted<'a, T: 'a>(
    keyword: &str,
    value: &'a Bson,
    kind: &str,
    read: impl FnOnce(&'a Bson) -> Option<T>,
) -> Answer<T> {
    read(value).ok_or_else(|| {
        let text = format!("$jsonSchema keyword '{keyword}' must be a {kind}");
        StoreError::type_mismatch(text)
    })
}

fn test(keyword: &str, value: &Bson, all: &Document, nesting: Nesting<'_>) -> Answer<Test> {
    let schema = |value: &Bson| {
        let inner = wanted(keyword, value, "object", Bson::as_document)?;
        Schema::parse(inner, nesting)
    };
    let schemas = |value: &Bson| {
        let items = wanted(keyword, value, "array", Bson::as_array)?;
        if items.is_empty() && keyword != "items" {
            let text = format!("$jsonSchema keyword '{keyword}' must be a non-empty array");
            return Err(StoreError::bad_value(text));
        }
        items.iter().map(schema).collect::<Answer<Vec<_>>>()
    };
    let bound = || {
        let bound = number::as_integer(value).and_then(|n| usize::try_from(n).ok());
        bound.ok_or_else(|| {
            let text = format!("$jsonSchema keyword '{keyword}' must be a non-negative integer");
            StoreError::failed_to_parse(text)
        })
    };
    let is_set = |name: &str| all.get_bool(name).unwrap_or(false);
    let numeric = || {
        wanted(keyword, value, "number", |v| {
            number::is_number(v).then_some(v)
        })
    };
    Ok(match keyword {
        "bsonType" => Test::Type(types(value)?),
        "type" => Test::Type(json_types(value)?),
        "enum" => Test::Enum(alternatives(keyword, value)?),
        "required" => Test::Required(names(keyword, value)?),
        "properties" => Test::Properties(properties(keyword, value, schema)?),
        "additionalProperties" => {
            let known = all.get_document("properties").ok();
            let known = known
                .into_iter()
                .flat_map(Document::keys)
                .cloned()
                .collect();
            match value {
                Bson::Boolean(true) => Test::All(Vec::new()),
                Bson::Boolean(false) => Test::Additional(known, None),
                other => Test::Additional(known, Some(Box::new(schema(other)?))),
            }
        }
        "minimum" => Test::Minimum(numeric()?.clone(), is_set("exclusiveMinimum")),
        "maximum" => Test::Maximum(numeric()?.clone(), is_set("exclusiveMaximum")),
        "multipleOf" => Test::MultipleOf(divisor(numeric()?)?),
        "minLength" => Test::AtLeast("string", bound()?),
        "maxLength" => Test::AtMost("string", bound()?),
        "minItems" => Test::AtLeast("array", bound()?),
        "maxItems" => Test::AtMost("array", bound()?),
        "minProperties" => Test::AtLeast("object", bound()?),
        "maxProperties" => Test::AtMost("object", bound()?),
        "pattern" => {
            let text = wanted(keyword, value, "string", Bson::as_str)?;
            Test::Pattern(nesting.pattern(text, "")?)
        }
        "items" if matches!(value, Bson::Array(_)) => Test::ItemList(schemas(value)?),
        "items" => Test::Items(Box::new(schema(value)?)),
        "uniqueItems" if wanted(keyword, value, "bool", Bson::as_bool)? => Test::Unique,
        "uniqueItems" => Test::All(Vec::new()),
        "allOf" => Test::All(schemas(value)?),
        "anyOf" => Test::Any(schemas(value)?),
        "oneOf" => Test::One(schemas(value)?),
        "not" => Test::Not(Box::new(schema(value)?)),
        _ => return Err(refused(keyword)),
    })
}

fn divisor(value: &Bson) -> Answer<f64> {
    let divisor = number::as_double(value).filter(|number| *number > 0.0);
    divisor.ok_or_else(|| {
        let text = "$jsonSchema keyword 'multipleOf' must have a positive value";
        StoreError::failed_to_parse(text)
    })
}

fn refused(keyword: &str) -> StoreError {
    let unsupported = format!("$jsonSchema keyword '{keyword}' is not currently supported");
    let unsupported = StoreError::failed_to_parse(unsupported);
    if REFUSED.contains(&keyword) {
        return unsupported.not_simulated(keyword);
    }
    match UNSUPPORTED.contains(&keyword) {
        true => unsupported,
        false => StoreError::failed_to_parse(format!("Unknown $jsonSchema keyword: {keyword}")),
    }
}

/// Returns the values of an array that has at least one value, and each only once.
fn alternatives(keyword: &str, value: &Bson) -> Answer<Vec<Bson>> {
    let items = wanted(keyword, value, "array", Bson::as_array)?;
    if items.is_empty() {
        let text = format!("$jsonSchema keyword '{keyword}' cannot be an empty array");
        return Err(StoreError::failed_to_parse(text));
    }
    let distinct: BTreeSet<Key> = items
        .iter()
        .map(|item| collation::key(None, item))
        .collect();
    if distinct.len() < items.len() {
        let text = format!("$jsonSchema keyword '{keyword}' array cannot contain duplicate values");
        return Err(StoreError::failed_to_parse(text));
    }
    Ok(items.clone())
}

fn names(keyword: &str, value: &Bson) -> Answer<Vec<String>> {
    let items = wanted(keyword, value, "array", Bson::as_array)?;
    let name = |item| wanted(keyword, item, "array of strings", Bson::as_str).map(str::to_owned);
    let names = items.iter().map(name).collect::<Answer<_>>()?;
    alternatives(keyword, value).map(|_| names)
}

fn properties(
    keyword: &str,
    value: &Bson,
    schema: impl Fn(&Bson) -> Answer<Schema>,
) -> Answer<Vec<(String, Schema)>> {
    let fields = wanted(keyword, value, "object", Bson::as_document)?;
    let field = |(name, value): (&String, &Bson)| Ok((name.clone(), schema(value)?));
    fields.iter().map(field).collect()
}

/// Returns the BSON types of the names of types in JSON Schema.
fn json_types(value: &Bson) -> Answer<Vec<&'static str>> {
    let one = |name: &Bson| match name.as_str() {
        Some("object") => Ok(vec!["object"]),
        Some("array") => Ok(vec!["array"]),
        Some("number") => Ok(vec!["int", "long", "double", "decimal"]),
        Some("boolean") => Ok(vec!["bool"]),
        Some("string") => Ok(vec!["string"]),
        Some("null") => Ok(vec!["null"]),
        Some("integer") => Err(StoreError::bad_value(
            "$jsonSchema type 'integer' is not currently supported.",
        )),
        Some(other) => Err(StoreError::bad_value(format!(
            "Unknown type name alias: {other}"
        ))),
        None => Err(StoreError::type_mismatch(
            "$jsonSchema keyword 'type' must be either a string or an array of strings",
        )),
    };
    match value {
        Bson::Array(items) if items.is_empty() => Err(StoreError::failed_to_parse(
            "$jsonSchema keyword 'type' must name at least one type",
        )),
        Bson::Array(items) => {
            let found: Vec<_> = items.iter().map(one).collect::<Answer<_>>()?;
            Ok(found.concat())
        }
        other => one(other),
    }
}

impl Rule {
    fn holds(&self, value: &Bson, context: &EvaluationContext) -> bool {
        let budget = &context.budget;
        budget.count(1);
        if budget.is_exhausted() {
            return false;
        }
        match (&self.test, value) {
            (Test::Type(names), _) => names.contains(&type_name(value)),
            (Test::Enum(values), _) => {
                budget.count(values.len());
                values.iter().any(|one| context.equal(one, value))
            }
            (Test::Required(names), Bson::Document(fields)) => {
                budget.count(names.len());
                names.iter().all(|name| fields.contains_key(name))
            }
            (Test::Properties(properties), Bson::Document(fields)) => {
                budget.count(properties.len());
                let mut present = properties
                    .iter()
                    .filter_map(|(n, s)| Some((fields.get(n)?, s)));
                present.all(|(value, schema)| schema.holds(value, context))
            }
            (Test::Additional(known, schema), Bson::Document(fields)) => {
                budget.count(fields.len());
                let mut others = fields.iter().filter(|(name, _)| !known.contains(*name));
                others.all(|(_, v)| schema.as_ref().is_some_and(|s| s.holds(v, context)))
            }
            (Test::Items(schema), Bson::Array(items)) => {
                items.iter().all(|item| schema.holds(item, context))
            }
            (Test::ItemList(schemas), Bson::Array(items)) => {
                let mut pairs = schemas.iter().zip(items);
                pairs.all(|(schema, item)| schema.holds(item, context))
            }
            (Test::Unique, Bson::Array(items)) => {
                let mut seen = BTreeSet::new();
                items.iter().all(|item| seen.insert(context.key(item)))
            }
            (Test::All(schemas), _) => schemas.iter().all(|s| s.holds(value, context)),
            (Test::Any(schemas), _) => schemas.iter().any(|s| s.holds(value, context)),
            (Test::One(schemas), _) => {
                schemas.iter().filter(|s| s.holds(value, context)).count() == 1
            }
            (Test::Not(schema), _) => !schema.holds(value, context),
            _ => self.test.holds_for_scalar(value, context),
        }
    }

    /// Returns the report of a failure, in the form of the server.
    fn report(&self, value: &Bson, reporter: &Reporter<'_>) -> Document {
        let context = reporter.context;
        let keyword = self.keyword.as_str();
        let mut report = doc! { "operatorName": keyword };
        match (&self.test, value) {
            (Test::Properties(properties), Bson::Document(fields)) => {
                let present = properties
                    .iter()
                    .filter_map(|(n, s)| Some((n, s, fields.get(n)?)));
                let failed = present.filter(|(_, schema, v)| !schema.holds(v, context));
                let failed =
                    failed.take_while(|(name, ..)| reporter.take(REPORT_BYTES + name.len()));
                let failed = failed.map(|(name, schema, value)| {
                    let mut entry = doc! { "propertyName": name };
                    entry.extend(schema.notes(reporter));
                    entry.insert("details", schema.failures(value, reporter));
                    entry
                });
                report.insert("propertiesNotSatisfied", failed.collect::<Vec<_>>());
            }
            (Test::All(schemas) | Test::Any(schemas), _) => {
                let failed = (0_i32..)
                    .zip(schemas)
                    .filter(|(_, s)| !s.holds(value, context));
                let failed = failed.take_while(|_| reporter.take(REPORT_BYTES));
                let failed = failed.map(|(index, schema)| {
                    doc! { "index": index, "details": schema.failures(value, reporter) }
                });
                report.insert("schemasNotSatisfied", failed.collect::<Vec<_>>());
            }
            (test, _) => {
                if let Some(given) = &self.given {
                    report.insert("specifiedAs", doc! { keyword: reporter.copy(given) });
                }
                test.describe(value, &mut report, reporter);
            }
        }
        report
    }
}

impl Test {
    /// True if the test applies further schemas.
    const fn has_schemas(&self) -> bool {
        matches!(
            self,
            Self::Properties(_)
                | Self::Additional(_, Some(_))
                | Self::Items(_)
                | Self::ItemList(_)
                | Self::All(_)
                | Self::Any(_)
                | Self::One(_)
                | Self::Not(_)
        )
    }

    /// True if a value without further schemas satisfies the test. A test of another type is
    /// satisfied.
    fn holds_for_scalar(&self, value: &Bson, context: &EvaluationContext) -> bool {
        match self {
            Self::Minimum(bound, is_exclusive) if number::is_number(value) => {
                let order = compare(value, bound);
                order.is_gt() || order.is_eq() && !is_exclusive
            }
            Self::Maximum(bound, is_exclusive) if number::is_number(value) => {
                let order = compare(value, bound);
                order.is_lt() || order.is_eq() && !is_exclusive
            }
            Self::MultipleOf(unit) => number::as_double(value)
                .is_none_or(|n| !number::is_number(value) || n % unit == 0.0),
            Self::AtLeast(kind, bound) => length(kind, value).is_none_or(|n| n >= *bound),
            Self::AtMost(kind, bound) => length(kind, value).is_none_or(|n| n <= *bound),
            Self::Pattern(pattern) => value.as_str().is_none() || fits(pattern, value, context),
            _ => true,
        }
    }

    /// Adds the reason of a failure to its report.
    fn describe(&self, value: &Bson, report: &mut Document, reporter: &Reporter<'_>) {
        let reason = match self {
            Self::Type(_) => "type did not match",
            Self::Enum(_) => "value was not found in enum",
            Self::Required(names) => {
                let fields = value.as_document();
                let missing = names
                    .iter()
                    .filter(|n| !fields.is_some_and(|f| f.contains_key(n)));
                let missing: Bson = missing.cloned().collect::<Vec<_>>().into();
                report.insert("missingProperties", reporter.copy(&missing));
                return;
            }
            Self::Additional(known, _) => {
                let fields = value.as_document().into_iter().flat_map(Document::keys);
                let others = fields.filter(|name| !known.contains(*name)).cloned();
                let others: Bson = others.collect::<Vec<_>>().into();
                report.insert("additionalProperties", reporter.copy(&others));
                return;
            }
            Self::Minimum(..) | Self::Maximum(..) => "comparison failed",
            Self::MultipleOf(_) => "considered value is not a multiple of the specified value",
            Self::AtLeast("string", _) | Self::AtMost("string", _) => {
                "specified string length was not satisfied"
            }
            Self::AtLeast("array", _) | Self::AtMost("array", _) => {
                "array did not match specified length"
            }
            Self::AtLeast(..) | Self::AtMost(..) => {
                "specified number of properties was not satisfied"
            }
            Self::Pattern(_) => "regular expression did not match",
            Self::Unique => "found a duplicate item",
            Self::One(_) => "more than one subschema matched, or none did",
            Self::Not(_) => "child expression matched",
            _ => "at least one item did not match the sub-schema",
        };
        report.insert("reason", reason);
        report.insert("consideredValue", reporter.copy(value));
        if matches!(self, Self::Type(_)) {
            report.insert("consideredType", type_name(value));
        }
    }
}

/// Returns the number of characters, items or fields of a value of this type.
fn length(kind: &str, value: &Bson) -> Option<usize> {
    match (kind, value) {
        ("string", Bson::String(text)) => Some(text.chars().count()),
        ("array", Bson::Array(items)) => Some(items.len()),
        ("object", Bson::Document(fields)) => Some(fields.len()),
        _ => None,
    }
}
