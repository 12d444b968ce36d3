//! The differences between mingo and a MongoDB server that the cases can have. Other operators and
//! shapes on which mingo differs are not generated.

use super::compare::same;
use super::{Case, Kind};
use bson::{Bson, Document};

/// A reason why the answers to a case may differ, and the condition on the case.
type Rule = (&'static str, fn(&Case) -> bool);

const RULES: [Rule; 11] = [
    // The manual of `$elemMatch`: the operators apply to the elements, and an element that is an
    // array is compared as a whole.
    (
        "mingo compares the elements of an array in an array",
        |case| mentions(case, "$elemMatch") && any_array(case, is_nested),
    ),
    // The manual of projections: a path goes through all arrays, also through arrays in arrays.
    (
        "mingo excludes no fields of documents in an array in an array",
        |case| case.kind == Kind::Find && any_array(case, is_nested),
    ),
    // The manual of `$pull`: a document is a query on elements that are documents. A filter on a
    // path of `i` finds no value in an element that is no document.
    (
        "mingo finds fields in elements that are no documents",
        |case| {
            let filters = mentions(case, "$pull") || mentions(case, "arrayFilters");
            case.kind == Kind::Update && filters && any_array(case, has_other_elements)
        },
    ),
    // An array filter is a query: a missing field is no empty array.
    (
        "mingo takes a missing field as an array in array filters",
        |case| {
            let array = mentions(case, "$size") || mentions(case, "[]");
            mentions(case, "arrayFilters") && array
        },
    ),
    // The manual of `$addToSet`: existing duplicates stay.
    ("mingo removes existing duplicates with $addToSet", |case| {
        mentions(case, "$addToSet") && any_array(case, has_duplicates)
    }),
    // The manual of `$bit`: 64-bit integers keep their bits.
    ("mingo computes $bit with 32 bits", |case| {
        mentions(case, "$bit") && case.documents.iter().any(has_large_number)
    }),
    // The manual of `$lookup`: a document is joined once.
    (
        "mingo joins a document once for each equal element of its array",
        |case| mentions(case, "$lookup") && any_array(case, has_duplicates),
    ),
    // The manual of `$zip`: a default stands for the end of a shorter array.
    ("mingo uses the defaults of $zip for null", |case| {
        mentions(case, "defaults")
    }),
    // The manual of `$indexOfBytes`: the place is that of a byte in UTF-8.
    ("mingo counts the units of JavaScript as bytes", |case| {
        let texts = case.documents.iter().map(ToString::to_string);
        let mut texts = texts.chain([case.operation.to_string()]);
        mentions(case, "$indexOfBytes") && texts.any(|text| !text.is_ascii())
    }),
    // The manual of `$regexFind`: `idx` counts code points.
    (
        "mingo counts the units of JavaScript in the places of matches",
        |case| {
            let texts = case.documents.iter().map(ToString::to_string);
            let mut texts = texts.chain([case.operation.to_string()]);
            mentions(case, "$regexFind") && texts.any(|text| text.chars().any(|c| c > '\u{ffff}'))
        },
    ),
    // JavaScript has no 64-bit integers.
    ("mingo rounds products above 2^53", |case| {
        mentions(case, "$multiply") && mentions(case, "$mod")
    }),
];

/// Returns the reason why the answers may differ, or `None` if they must be equal.
pub(super) fn explanation(case: &Case, theirs: &Bson) -> Option<&'static str> {
    match theirs {
        Bson::Document(_) => Some("mingo refuses null and empty arrays"),
        // 2^63 is written as a 64-bit integer, and there are dates that are no time.
        Bson::Undefined => Some("mingo returns a number or a date that BSON does not have"),
        _ => RULES
            .iter()
            .find(|(_, holds)| holds(case))
            .map(|(reason, _)| *reason),
    }
}

fn mentions(case: &Case, name: &str) -> bool {
    case.operation.to_string().contains(name)
}

/// True if any array in the documents satisfies the condition.
fn any_array(case: &Case, condition: fn(&[Bson]) -> bool) -> bool {
    fn within(value: &Bson, condition: fn(&[Bson]) -> bool) -> bool {
        match value {
            Bson::Array(items) => {
                condition(items) || items.iter().any(|item| within(item, condition))
            }
            Bson::Document(fields) => fields.values().any(|value| within(value, condition)),
            _ => false,
        }
    }
    let documents = case.documents.iter().flat_map(Document::values);
    let mut values = documents.chain(case.operation.get("other"));
    values.any(|value| within(value, condition))
}

fn is_nested(items: &[Bson]) -> bool {
    items.iter().any(|item| matches!(item, Bson::Array(_)))
}

fn has_other_elements(items: &[Bson]) -> bool {
    items.iter().any(|item| !matches!(item, Bson::Document(_)))
}

fn has_duplicates(items: &[Bson]) -> bool {
    let pairs = items.iter().enumerate();
    pairs
        .into_iter()
        .any(|(place, item)| items[..place].iter().any(|other| same(item, other)))
}

fn has_large_number(document: &Document) -> bool {
    fn is_large(value: &Bson) -> bool {
        match value {
            Bson::Int64(number) => i32::try_from(*number).is_err(),
            Bson::Double(number) => number.abs() >= 2_147_483_648.0,
            Bson::Document(inner) => has_large_number(inner),
            Bson::Array(items) => items.iter().any(is_large),
            _ => false,
        }
    }
    document.values().any(is_large)
}
