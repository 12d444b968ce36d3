//! Filters. A filter is parsed once and then tested on each document.

mod parse;
mod predicate;
mod report;
mod schema;
#[cfg(test)]
mod tests;

use bson::{Bson, Document, doc};

use super::budget::Budget;
use super::error::StoreError;
use super::expression::{self, EvaluationContext, Scope};
use super::index::Bounds;
use super::release::Release;
use super::{path, size};
use parse::Nesting;
use predicate::Predicate;
pub(crate) use report::Reporter;
use schema::Schema;

/// A parsed filter.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    root: Node,
}

#[derive(Clone, Debug)]
enum Node {
    And(Vec<Self>),
    Or(Vec<Self>),
    Nor(Vec<Self>),
    Path(String, Predicate),
    Expression(Bson),
    Schema(Schema),
}

impl Matcher {
    /// Parses a filter, which can use the operators that the release has.
    pub(crate) fn new(filter: &Document, release: Release) -> Result<Self, StoreError> {
        Ok(Self {
            root: parse::filter(filter, Nesting::of(filter, release, &Budget::default()))?,
        })
    }

    /// Parses each field of a stored filter as a filter of its own. The patterns of all of them
    /// share the memory of one filter.
    pub(crate) fn clauses(filter: &Document) -> Result<Vec<Self>, StoreError> {
        let budget = Budget::default();
        let nesting = Nesting::of_stored(filter, &budget);
        let clauses = filter.iter().map(|(name, operand)| {
            let clause = doc! { name: operand.clone() };
            Ok(Self {
                root: parse::filter(&clause, nesting)?,
            })
        });
        clauses.collect()
    }

    /// True if a document matches.
    pub(crate) fn matches(
        &self,
        document: &Document,
        context: &EvaluationContext,
    ) -> Result<bool, StoreError> {
        self.root.matches(document, context)
    }

    /// Returns the schema if the filter is a schema and nothing else.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match &self.root {
            Node::And(nodes) => match nodes.as_slice() {
                [Node::Schema(schema)] => Some(schema),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the only values of `_id` that can match, or `None` if the filter gives no list of
    /// values.
    pub(crate) fn ids(&self) -> Option<Vec<&Bson>> {
        self.root.equalities("_id")
    }

    /// Returns the only values of a field that can match, or `None` if the filter gives no list of
    /// values.
    pub(crate) fn equalities(&self, path: &str) -> Option<Vec<&Bson>> {
        self.root.equalities(path)
    }

    /// Returns the bounds within which the values of a field must be.
    pub(crate) fn bounds(&self, path: &str) -> Bounds<'_> {
        self.root.bounds(path)
    }

    /// Returns the index of the array element that matched, for the positional operator `$`.
    pub(crate) fn position(
        &self,
        document: &Document,
        context: &EvaluationContext,
    ) -> Option<usize> {
        self.root.position(document, context)
    }

    /// Returns the names of the fields that decide whether a document matches, or `None` if any
    /// field can decide.
    fn first_names(&self) -> Option<Vec<&str>> {
        let mut names = Vec::new();
        self.root.first_names(&mut names).then_some(names)
    }

    /// Returns the paths and values that an upsert takes over from the filter.
    pub(crate) fn upsert_fields(&self) -> Vec<(&str, &Bson)> {
        let mut fields = Vec::new();
        self.root.upsert_fields(&mut fields);
        fields
    }
}

impl Node {
    fn matches(
        &self,
        document: &Document,
        context: &EvaluationContext,
    ) -> Result<bool, StoreError> {
        let each = |nodes: &[Self], wanted: bool| {
            for node in nodes {
                if node.matches(document, context)? == wanted {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match self {
            Self::And(nodes) => each(nodes, false).map(|failed| !failed),
            Self::Or(nodes) => each(nodes, true),
            Self::Nor(nodes) => each(nodes, true).map(|found| !found),
            Self::Path(path, predicate) => predicate.matches(document, path, context),
            Self::Schema(schema) => {
                context.budget.step(1)?;
                let budget = &context.budget;
                let bytes = size::memory_of_document(document)?;
                let mark = budget.charged();
                budget.charge(bytes)?;
                let holds = schema.holds(&Bson::Document(document.clone()), context);
                budget.release_to(mark);
                // The schema counts its work, which can have been too much.
                budget.step(1)?;
                Ok(holds)
            }
            Self::Expression(expression) => {
                let scope = Scope::new(document, context);
                let mark = context.budget.charged();
                let value = expression::evaluate(expression, &scope)?;
                context.budget.release_to(mark);
                Ok(value.is_some_and(|v| expression::truthy(&v)))
            }
        }
    }

    fn equalities(&self, wanted: &str) -> Option<Vec<&Bson>> {
        match self {
            Self::And(nodes) => nodes.iter().find_map(|n| n.equalities(wanted)),
            Self::Path(path, predicate) if path == wanted => predicate.equalities(),
            _ => None,
        }
    }

    fn bounds(&self, wanted: &str) -> Bounds<'_> {
        match self {
            Self::And(nodes) => {
                let all = nodes.iter().map(|node| node.bounds(wanted));
                all.fold(Bounds::default(), Bounds::and)
            }
            Self::Path(path, predicate) if path == wanted => predicate.bounds(),
            _ => Bounds::default(),
        }
    }

    fn position(&self, document: &Document, context: &EvaluationContext) -> Option<usize> {
        match self {
            Self::And(nodes) => nodes
                .iter()
                .filter_map(|n| n.position(document, context))
                .next_back(),
            // The first alternative that matches is the only one that is tried.
            Self::Or(nodes) => nodes
                .iter()
                .find(|node| matches!(node.matches(document, context), Ok(true)))
                .and_then(|node| node.position(document, context)),
            Self::Path(_, predicate) if predicate.is_negation() => None,
            Self::Path(path, predicate) => position(document, path, predicate, context),
            _ => None,
        }
    }

    /// Adds the first parts of the paths. Returns false if other fields can decide as well.
    fn first_names<'a>(&'a self, names: &mut Vec<&'a str>) -> bool {
        match self {
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => {
                nodes.iter().all(|node| node.first_names(names))
            }
            Self::Path(path, _) => {
                names.push(path.split('.').next().unwrap_or(path));
                true
            }
            Self::Expression(_) | Self::Schema(_) => false,
        }
    }

    fn upsert_fields<'a>(&'a self, fields: &mut Vec<(&'a str, &'a Bson)>) {
        match self {
            Self::And(nodes) => nodes.iter().for_each(|n| n.upsert_fields(fields)),
            Self::Or(nodes) if nodes.len() == 1 => nodes[0].upsert_fields(fields),
            Self::Path(path, predicate) => {
                let values = predicate.demanded().into_iter();
                fields.extend(values.map(|value| (path.as_str(), value)));
            }
            _ => {}
        }
    }
}

/// Returns the index of the first element that satisfies the predicate, in the first array on a
/// path.
fn position(
    document: &Document,
    path: &str,
    predicate: &Predicate,
    context: &EvaluationContext,
) -> Option<usize> {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    match (document.get(head)?, rest) {
        (Bson::Document(inner), Some(rest)) => position(inner, rest, predicate, context),
        (Bson::Array(items), None) => items
            .iter()
            .position(|item| predicate.holds_for_item(item, context)),
        (Bson::Array(items), Some(rest)) => items
            .iter()
            .position(|item| {
                let Bson::Document(inner) = item else {
                    return false;
                };
                path::any(inner, rest, &mut |seen| predicate.test(seen, context))
            })
            .or_else(|| {
                // The path can name an element, as in `a.0.b`.
                let (place, rest) = rest.split_once('.').unwrap_or((rest, ""));
                let Bson::Document(inner) = items.get(path::index(place)?)? else {
                    return None;
                };
                position(inner, rest, predicate, context)
            }),
        _ => None,
    }
}

/// A filter on one element of an array, as `$pull` has it.
#[derive(Clone, Debug)]
pub(crate) enum ItemMatcher {
    /// A filter on the fields of an element that is a document.
    Fields(Matcher),
    /// Predicates on the element.
    Value(Vec<Predicate>),
    /// A value that the element must be equal to.
    Equal(Bson),
}

impl ItemMatcher {
    /// Parses the operand of `$pull`.
    pub(crate) fn new(operand: &Bson, release: Release) -> Result<Self, StoreError> {
        let budget = Budget::default();
        match operand {
            Bson::Document(document) if parse::is_operators(document) => Ok(Self::Value(
                parse::predicates(document, Nesting::of(document, release, &budget))?,
            )),
            Bson::Document(document) => Ok(Self::Fields(Matcher::new(document, release)?)),
            Bson::RegularExpression(_) => Ok(Self::Value(vec![parse::equality(
                operand,
                Nesting::of(&Document::new(), release, &budget),
            )?])),
            other => Ok(Self::Equal(other.clone())),
        }
    }

    /// True if an element matches.
    pub(crate) fn matches(
        &self,
        item: &Bson,
        context: &EvaluationContext,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Fields(matcher) => match item {
                Bson::Document(document) => matcher.matches(document, context),
                _ => Ok(false),
            },
            Self::Value(predicates) => {
                Ok(predicates.iter().all(|p| p.test_value(Some(item), context)))
            }
            Self::Equal(value) => Ok(context.equal(value, item)),
        }
    }
}
