//! Compares values with those that a test expects (Unified Test Format, *Evaluating Matches*).

use bson::{Bson, Document};

/// The entities that special operators look up.
pub(crate) trait Lookup {
    /// Returns the value of an entity for `$$matchesEntity`.
    fn value(&self, entity: &str) -> Result<Bson, String>;
    /// Returns the `lsid` of a session for `$$sessionLsid`.
    fn session(&self, entity: &str) -> Result<Document, String>;
}

/// The place of a value, which decides whether a document may have fields that are not expected.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// The whole value, or an element of an array that is the whole value.
    Root,
    /// A part of another value.
    Nested,
}

/// Compares an actual value with the expected one. `None` stands for a missing value.
pub(crate) fn compare(
    lookup: &dyn Lookup,
    expected: &Bson,
    actual: Option<&Bson>,
    place: Place,
) -> Result<(), String> {
    if let Bson::Document(document) = expected
        && let Some((operator, argument)) = operator(document)
    {
        return special(lookup, operator, argument, actual, place);
    }
    let actual = actual.ok_or("it is missing")?;
    match (expected, actual) {
        (Bson::Document(expected), Bson::Document(actual)) => {
            documents(lookup, expected, actual, place)
        }
        (Bson::Array(expected), Bson::Array(actual)) => {
            if expected.len() != actual.len() {
                return Err(format!(
                    "{} elements instead of {}: {}",
                    actual.len(),
                    expected.len(),
                    shown(&Bson::Array(actual.clone()))
                ));
            }
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare(lookup, expected, Some(actual), place)
                    .map_err(|why| format!("[{index}]: {why}"))?;
            }
            Ok(())
        }
        _ => match (number(expected), number(actual)) {
            (Some(expected), Some(actual)) if expected.equals(actual) => Ok(()),
            _ if expected == actual => Ok(()),
            _ => Err(format!("{} instead of {}", shown(actual), shown(expected))),
        },
    }
}

fn documents(
    lookup: &dyn Lookup,
    expected: &Document,
    actual: &Document,
    place: Place,
) -> Result<(), String> {
    for (key, expected) in expected {
        compare(lookup, expected, actual.get(key), Place::Nested)
            .map_err(|why| format!("{key}: {why}"))?;
    }
    let extra = actual.keys().find(|key| !expected.contains_key(key));
    match extra {
        Some(key) if place == Place::Nested => Err(format!(
            "{key} is not expected: {}",
            shown(&actual.clone().into())
        )),
        _ => Ok(()),
    }
}

/// Returns the operator of a document whose only key begins with `$$`.
fn operator(document: &Document) -> Option<(&str, &Bson)> {
    let (key, argument) = document.iter().next()?;
    (document.len() == 1 && key.starts_with("$$")).then_some((key, argument))
}

fn special(
    lookup: &dyn Lookup,
    operator: &str,
    argument: &Bson,
    actual: Option<&Bson>,
    place: Place,
) -> Result<(), String> {
    match operator {
        "$$exists" => match argument.as_bool() {
            Some(wanted) if wanted == actual.is_some() => Ok(()),
            Some(true) => Err("it is missing".to_owned()),
            Some(false) => Err(format!("it exists: {}", shown_option(actual))),
            None => Err("$$exists needs a boolean".to_owned()),
        },
        "$$unsetOrMatches" => match actual {
            None => Ok(()),
            Some(_) => compare(lookup, argument, actual, place),
        },
        "$$type" => {
            let actual = actual.ok_or("it is missing")?;
            let names = match argument {
                Bson::Array(names) => names.as_slice(),
                one => std::slice::from_ref(one),
            };
            match names
                .iter()
                .filter_map(Bson::as_str)
                .any(|name| is_a(actual, name))
            {
                true => Ok(()),
                false => Err(format!("the type of {} is not {argument}", shown(actual))),
            }
        }
        "$$matchesEntity" => {
            let name = argument.as_str().ok_or("$$matchesEntity needs a name")?;
            compare(lookup, &lookup.value(name)?, actual, place)
        }
        "$$matchesHexBytes" => {
            let hex = argument.as_str().ok_or("$$matchesHexBytes needs a text")?;
            match actual {
                Some(Bson::Binary(binary)) if to_hex(&binary.bytes) == hex.to_lowercase() => Ok(()),
                other => Err(format!("{} instead of {hex}", shown_option(other))),
            }
        }
        "$$sessionLsid" => {
            let name = argument.as_str().ok_or("$$sessionLsid needs a name")?;
            let lsid = lookup.session(name)?.into();
            compare(lookup, &lsid, actual, Place::Nested)
        }
        "$$lte" => {
            let found = actual.and_then(number);
            match (found, number(argument)) {
                (Some(found), Some(most)) if found.value <= most.value => Ok(()),
                _ => Err(format!(
                    "{} is not at most {argument}",
                    shown_option(actual)
                )),
            }
        }
        "$$matchAsDocument" => {
            let text = actual.and_then(Bson::as_str).ok_or("it is no text")?;
            let json: serde_json::Value =
                serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
            let document = Bson::try_from(json).map_err(|error| error.to_string())?;
            compare(lookup, argument, Some(&document), Place::Nested)
        }
        "$$matchAsRoot" => compare(lookup, argument, actual, Place::Root),
        other => Err(format!("the operator {other} does not exist")),
    }
}

/// A number, whose type does not matter.
#[derive(Clone, Copy)]
struct Number {
    value: f64,
    whole: Option<i64>,
}

impl Number {
    fn equals(self, other: Self) -> bool {
        match (self.whole, other.whole) {
            (Some(one), Some(two)) => one == two,
            _ => self.value == other.value,
        }
    }
}

fn number(value: &Bson) -> Option<Number> {
    let (value, whole) = match *value {
        Bson::Int32(n) => (f64::from(n), Some(i64::from(n))),
        Bson::Int64(n) => (n as f64, Some(n)),
        Bson::Double(n) => (n, None),
        _ => return None,
    };
    Some(Number { value, whole })
}

/// True if a value has the type with this alias of the `$type` operator.
fn is_a(value: &Bson, alias: &str) -> bool {
    match value {
        Bson::Double(_) => matches!(alias, "double" | "number"),
        Bson::String(_) => alias == "string",
        Bson::Document(_) => alias == "object",
        Bson::Array(_) => alias == "array",
        Bson::Binary(_) => alias == "binData",
        Bson::Undefined => alias == "undefined",
        Bson::ObjectId(_) => alias == "objectId",
        Bson::Boolean(_) => alias == "bool",
        Bson::DateTime(_) => alias == "date",
        Bson::Null => alias == "null",
        Bson::RegularExpression(_) => alias == "regex",
        Bson::DbPointer(_) => alias == "dbPointer",
        Bson::JavaScriptCode(_) => alias == "javascript",
        Bson::Symbol(_) => alias == "symbol",
        Bson::JavaScriptCodeWithScope(_) => alias == "javascriptWithScope",
        Bson::Int32(_) => matches!(alias, "int" | "number"),
        Bson::Timestamp(_) => alias == "timestamp",
        Bson::Int64(_) => matches!(alias, "long" | "number"),
        Bson::Decimal128(_) => matches!(alias, "decimal" | "number"),
        Bson::MinKey => alias == "minKey",
        Bson::MaxKey => alias == "maxKey",
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(value: &Bson) -> String {
    value.clone().into_relaxed_extjson().to_string()
}

fn shown_option(value: Option<&Bson>) -> String {
    value.map_or_else(|| "nothing".to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{bson, doc};

    struct Known;

    impl Lookup for Known {
        fn value(&self, entity: &str) -> Result<Bson, String> {
            match entity {
                "known" => Ok(bson!({ "x": 1 })),
                other => Err(format!("no entity {other}")),
            }
        }

        fn session(&self, _: &str) -> Result<Document, String> {
            Ok(doc! { "id": 7 })
        }
    }

    #[test]
    fn values_match_by_the_rules_of_the_format() {
        let actual = bson!({ "a": 1, "b": { "c": "x", "d": [1, 2] }, "t": "{\"z\": 1}" });
        for (expected, is_met) in [
            (bson!({}), true),
            (bson!({ "a": 1_i64 }), true),
            (bson!({ "a": 1.0 }), true),
            (bson!({ "a": 2 }), false),
            (bson!({ "z": 1 }), false),
            (bson!({ "b": { "c": "x", "d": [1, 2] } }), true),
            (bson!({ "b": { "c": "x" } }), false),
            (bson!({ "b": { "c": "x", "d": [1] } }), false),
            (bson!({ "b": { "$$matchAsRoot": { "c": "x" } } }), true),
            (
                bson!({ "b": { "c": { "$$type": "string" }, "d": { "$$type": "array" } } }),
                true,
            ),
            (bson!({ "a": { "$$type": ["string", "bool"] } }), false),
            (bson!({ "a": { "$$type": "number" } }), true),
            (
                bson!({ "a": { "$$exists": true }, "z": { "$$exists": false } }),
                true,
            ),
            (bson!({ "a": { "$$exists": false } }), false),
            (
                bson!({ "a": { "$$unsetOrMatches": 1 }, "z": { "$$unsetOrMatches": 1 } }),
                true,
            ),
            (bson!({ "a": { "$$unsetOrMatches": 2 } }), false),
            (bson!({ "a": { "$$lte": 1 } }), true),
            (bson!({ "a": { "$$lte": 0 } }), false),
            (bson!({ "t": { "$$matchAsDocument": { "z": 1 } } }), true),
            (bson!({ "t": { "$$matchAsDocument": {} } }), false),
            (
                bson!({ "t": { "$$matchAsDocument": { "$$matchAsRoot": {} } } }),
                true,
            ),
            (bson!({ "a": { "$$sessionLsid": "s" } }), false),
            (bson!({ "a": { "$$matchesEntity": "known" } }), false),
            (bson!({ "a": { "$$matchesEntity": "unknown" } }), false),
            (bson!({ "a": { "$$unknown": 1 } }), false),
        ] {
            let found = compare(&Known, &expected, Some(&actual), Place::Root);
            assert_eq!(found.is_ok(), is_met, "{expected}: {found:?}");
        }
    }
}
