//! Compares the answers of the simulated server with those of mingo.

use super::{Case, Kind, rules};
use bson::{Bson, Document};
use onionskin_bson::extjson;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The answers are equal.
    Equal,
    /// The simulated server refuses the operation. mingo checks less, so nothing is compared.
    Refused(String),
    /// A rule says why the answers differ.
    Explained(&'static str),
    /// The answers differ.
    Different {
        /// The answer of the simulated server.
        ours: String,
        /// The answer of mingo.
        theirs: String,
    },
}

/// Compares our answer with mingo's, which is a line with an array of documents or with
/// `{"error": …}`.
#[must_use]
pub fn compare(case: &Case, theirs: &str) -> Comparison {
    let ours = match case.ours() {
        Ok(ours) => ours,
        Err(error) => return Comparison::Refused(error),
    };
    // JavaScript has dates that are no time.
    let parsed = extjson::parse_value(theirs).unwrap_or(Bson::Undefined);
    let ours: Vec<Bson> = ours.into_iter().map(Bson::from).collect();
    let equal = match (case.kind, parsed.as_array()) {
        (Kind::Expression, _) | (_, None) => same(&Bson::Array(ours.clone()), &parsed),
        (_, Some(theirs)) => same(&sorted_array(&ours), &sorted_array(theirs)),
    };
    if equal {
        return Comparison::Equal;
    }
    if let Some(reason) = rules::explanation(case, &parsed) {
        return Comparison::Explained(reason);
    }
    Comparison::Different {
        ours: Bson::Array(ours).to_string(),
        theirs: parsed.to_string(),
    }
}

fn as_number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(n) => Some((*n).into()),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    }
}

/// True if two values are equal, apart from the types of numbers and from rounding. JavaScript has
/// only one type of numbers.
pub(super) fn same(ours: &Bson, theirs: &Bson) -> bool {
    match (ours, theirs) {
        (Bson::Document(ours), Bson::Document(theirs)) => same_documents(ours, theirs),
        (Bson::Array(ours), Bson::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        }
        // mingo computes with null as with a number that is none.
        (Bson::Null, Bson::Double(number)) if number.is_nan() => true,
        _ => match (as_number(ours), as_number(theirs)) {
            (Some(a), Some(b)) => {
                (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
            }
            _ => ours == theirs,
        },
    }
}

/// Returns a value with the fields of all its documents in the order of their names.
fn sorted(value: &Bson) -> Bson {
    match value {
        Bson::Document(document) => {
            let mut fields: Vec<_> = document.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields.into_iter();
            Bson::Document(
                fields
                    .map(|(name, value)| (name.clone(), sorted(value)))
                    .collect(),
            )
        }
        Bson::Array(items) => sorted_array(items),
        _ => value.clone(),
    }
}

fn sorted_array(items: &[Bson]) -> Bson {
    Bson::Array(items.iter().map(sorted).collect())
}

fn same_documents(ours: &Document, theirs: &Document) -> bool {
    let fields = ours.iter().zip(theirs);
    ours.len() == theirs.len()
        && fields
            .into_iter()
            .all(|((a, x), (b, y))| a == b && same(x, y))
}
