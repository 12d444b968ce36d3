//! Aggregation expressions, evaluated on one document.

mod arguments;
mod calendar;
mod check;
mod collections;
mod control;
mod dates;
mod format;
mod free_dates;
mod functions;
mod known;
mod math;
pub(crate) mod named;
mod objects;
mod operators;
mod selection;
mod sets;
mod strings;
mod summary;
mod values;

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bson::{Bson, DateTime, Document, Timestamp};

use super::budget::Budget;
use super::collation::{self, Collation};
use super::error::StoreError;
use super::order::{Key, compare, compare_with};
use super::pattern::Pattern;
use super::release::Release;
use super::{number, size};

pub(crate) use check::{check, check_operand, check_variable_name};
pub(crate) use collections::slice;
pub(crate) use known::Form;
#[cfg(test)]
pub(crate) use known::OPERATORS;
pub(crate) use objects::merged;
pub(crate) use selection::of_group;
pub(crate) use summary::summary;
pub(crate) use values::truthy;

/// The result of an expression: a value, or `None` if the value is missing.
pub(crate) type Evaluated = Result<Option<Bson>, StoreError>;

/// The inputs of expressions other than the document.
#[derive(Clone, Debug)]
pub(crate) struct EvaluationContext {
    pub(crate) now: DateTime,
    pub(crate) timestamp: Timestamp,
    /// The variables of the command, and of the stages around the pipeline. The value of a missing
    /// field is `None`.
    pub(crate) variables: BTreeMap<String, Option<Bson>>,
    /// The state of the generator for `$rand` and `$sample`. Each draw changes it.
    pub(crate) random_state: Cell<u64>,
    /// Counts the memory and the steps of the evaluation. All clones share the counters.
    pub(crate) budget: Budget,
    /// The pattern that was compiled last, with its text and options.
    pub(super) last_pattern: RefCell<Option<(String, String, Pattern)>>,
    /// The collation by which strings are compared, or `None` to compare their bytes.
    pub(crate) collation: Option<Arc<Collation>>,
    /// The release that the server claims. Expressions can use the operators that it has.
    pub(crate) release: Release,
}

/// The number of bytes of strings that a collation compares in one step.
const COLLATED_BYTES_PER_STEP: usize = 8;

impl Default for EvaluationContext {
    fn default() -> Self {
        Self {
            now: DateTime::from_millis(0),
            timestamp: Timestamp {
                time: 0,
                increment: 0,
            },
            variables: BTreeMap::new(),
            random_state: Cell::new(0),
            budget: Budget::default(),
            last_pattern: RefCell::default(),
            collation: None,
            release: Release::default(),
        }
    }
}

impl EvaluationContext {
    /// Compiles a pattern, unless it is the one that was compiled last.
    pub(super) fn pattern(&self, text: &str, options: &str) -> Result<Pattern, StoreError> {
        let mut last = self.last_pattern.borrow_mut();
        if let Some((own, with, pattern)) = &*last
            && own == text
            && with == options
        {
            return Ok(pattern.clone());
        }
        let pattern = Pattern::new(text, options, self.release, usize::MAX, &self.budget)?;
        *last = Some((text.to_owned(), options.to_owned(), pattern.clone()));
        Ok(pattern)
    }

    /// Compares two values, and strings by the collation.
    pub(crate) fn compare(&self, a: &Bson, b: &Bson) -> Ordering {
        match &self.collation {
            None => compare(a, b),
            Some(collation) => compare_with(a, b, &|a: &str, b: &str| {
                let bytes = a.len().saturating_add(b.len());
                self.budget.count(bytes / COLLATED_BYTES_PER_STEP + 1);
                collation.compare(a, b)
            }),
        }
    }

    /// True if two values compare equal.
    pub(crate) fn equal(&self, a: &Bson, b: &Bson) -> bool {
        self.compare(a, b).is_eq()
    }

    /// Returns the key of a value. The keys of values that compare equal are equal.
    pub(crate) fn key(&self, value: &Bson) -> Key {
        if self.collation.is_some() {
            let bytes = size::memory(value);
            self.budget.count(bytes / COLLATED_BYTES_PER_STEP + 1);
        }
        collation::key(self.collation.as_deref(), value)
    }

    /// Returns the next random number (SplitMix64).
    pub(crate) fn draw(&self) -> u64 {
        let state = self.random_state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random_state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The document, the context and the variables that an expression is evaluated with.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) root: &'a Document,
    pub(crate) context: &'a EvaluationContext,
    /// The names and values of the variables. The value of a missing field is `None`.
    locals: Vec<(Rc<str>, Option<Rc<Bson>>)>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(root: &'a Document, context: &'a EvaluationContext) -> Self {
        Self {
            root,
            context,
            locals: Vec::new(),
        }
    }

    /// Adds a variable, which hides an outer variable of the same name.
    pub(crate) fn bind(&mut self, name: &str, value: Bson) {
        self.bind_optional(name, Some(value));
    }

    /// Adds a variable, whose value can be missing.
    fn bind_optional(&mut self, name: &str, value: Option<Bson>) {
        self.locals.push((Rc::from(name), value.map(Rc::new)));
    }

    /// Adds a variable whose value other scopes have as well.
    pub(crate) fn bind_shared(&mut self, name: &str, value: &Rc<Bson>) {
        self.locals.push((Rc::from(name), Some(Rc::clone(value))));
    }

    /// Removes the latest variables, so that `count` variables are left.
    pub(crate) fn unbind_to(&mut self, count: usize) {
        self.locals.truncate(count);
    }

    /// Returns the number of variables that [`Scope::bind`] added.
    pub(crate) fn bound(&self) -> usize {
        self.locals.len()
    }

    /// Charges the memory of a value, and returns a copy of the value.
    fn copy(&self, value: &Bson) -> Evaluated {
        self.context.budget.charge_copies(value, 1)?;
        Ok(Some(value.clone()))
    }

    /// Returns a copy of the value at a path. The memory of the copy is charged.
    fn field(&self, document: &Document, path: &str) -> Evaluated {
        match path.split_once('.') {
            None => document
                .get(path)
                .map_or(Ok(None), |value| self.copy(value)),
            Some((head, rest)) => match document.get(head) {
                Some(value) => self.field_of(value, rest),
                None => Ok(None),
            },
        }
    }

    /// Returns a copy of the value at a path below `value`. If `value` is an array, the result is
    /// an array of the values that its elements have at the path.
    fn field_of(&self, value: &Bson, path: &str) -> Evaluated {
        match value {
            Bson::Document(inner) => self.field(inner, path),
            Bson::Array(items) => {
                let mut found = Vec::new();
                for item in items {
                    self.context.budget.step(1)?;
                    // A path does not lead into an array within an array.
                    if !matches!(item, Bson::Array(_)) {
                        found.extend(self.field_of(item, path)?);
                    }
                }
                Ok(Some(Bson::Array(found)))
            }
            _ => Ok(None),
        }
    }

    fn variable(&self, name: &str, path: Option<&str>) -> Evaluated {
        let within = |value: &Bson| match path {
            None => self.copy(value),
            Some(path) => self.field_of(value, path),
        };
        self.context.budget.step(self.locals.len() as u64)?;
        if let Some((_, value)) = self.locals.iter().rev().find(|(n, _)| **n == *name) {
            return value.as_deref().map_or(Ok(None), within);
        }
        match name {
            "ROOT" | "CURRENT" => match path {
                Some(path) => self.field(self.root, path),
                None => {
                    let budget = &self.context.budget;
                    budget.hold_document(self.root)?;
                    Ok(Some(Bson::Document(self.root.clone())))
                }
            },
            "NOW" | "CLUSTER_TIME" | "REMOVE" | "KEEP" | "PRUNE" | "DESCEND" if path.is_some() => {
                Ok(None)
            }
            "NOW" => Ok(Some(Bson::DateTime(self.context.now))),
            "CLUSTER_TIME" => Ok(Some(Bson::Timestamp(self.context.timestamp))),
            "REMOVE" => Ok(None),
            "KEEP" | "PRUNE" | "DESCEND" => Ok(Some(Bson::String(name.to_owned()))),
            _ => match self.context.variables.get(name) {
                Some(value) => value.as_ref().map_or(Ok(None), within),
                None => Err(StoreError::new(
                    17276,
                    format!("Use of undefined variable: {name}"),
                )),
            },
        }
    }
}

/// Evaluates an expression. The result is `None` if the value is missing. Only the result stays
/// charged to the budget, not the intermediate values.
pub(crate) fn evaluate(expression: &Bson, scope: &Scope<'_>) -> Evaluated {
    let budget = &scope.context.budget;
    budget.step(1)?;
    let mark = budget.charged();
    let value = value_of(expression, scope)?;
    budget.release_to(mark);
    if let Some(value) = &value {
        budget.hold_value(value)?;
    }
    Ok(value)
}

fn value_of(expression: &Bson, scope: &Scope<'_>) -> Evaluated {
    match expression {
        Bson::String(text) => match (text.strip_prefix("$$"), text.strip_prefix('$')) {
            (Some(name), _) => match name.split_once('.') {
                Some((name, path)) => scope.variable(name, Some(path)),
                None => scope.variable(name, None),
            },
            (None, Some(path)) => scope.field(scope.root, path),
            (None, None) => scope.copy(expression),
        },
        Bson::Array(items) => {
            let items = items
                .iter()
                .map(|item| Ok(evaluate(item, scope)?.unwrap_or(Bson::Null)));
            Ok(Some(Bson::Array(items.collect::<Result<_, StoreError>>()?)))
        }
        Bson::Document(document) => match operator(document) {
            Some((name, operand)) => operators::evaluate(name, operand, scope),
            None => {
                let mut result = Document::new();
                for (name, inner) in document {
                    if let Some(value) = evaluate(inner, scope)? {
                        result.insert(name, value);
                    }
                }
                Ok(Some(Bson::Document(result)))
            }
        },
        other => scope.copy(other),
    }
}

fn operator(document: &Document) -> Option<(&str, &Bson)> {
    let (name, operand) = document.iter().next()?;
    name.starts_with('$').then_some((name.as_str(), operand))
}

/// Returns an evaluated operand if it is a number, and `None` if it is null or missing. Any other
/// type is an error.
fn numeric(name: &str, value: Option<Bson>) -> Evaluated {
    match value {
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(value) if number::is_number(&value) => Ok(Some(value)),
        Some(other) => Err(StoreError::new(
            28765,
            format!(
                "{name} only supports numeric types, not {}",
                super::order::type_name(&other)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    #[test]
    fn arithmetic_and_comparison_evaluate_as_the_server_does() {
        check_table([
            (bson!("$a"), bson!(7)),
            (bson!("$items.n"), bson!([1, 2])),
            (bson!("$$ROOT.b"), bson!(2)),
            (bson!({ "$add": ["$a", "$b", 1] }), bson!(10)),
            (bson!({ "$add": ["$a", "$nothing"] }), Bson::Null),
            (bson!({ "$subtract": ["$a", "$b"] }), bson!(5)),
            (bson!({ "$multiply": ["$a", 2.0] }), bson!(14.0)),
            (bson!({ "$divide": ["$a", "$b"] }), bson!(3.5)),
            (bson!({ "$mod": ["$a", "$b"] }), bson!(1)),
            (bson!({ "$abs": -3 }), bson!(3)),
            (bson!({ "$floor": 2.7 }), bson!(2.0)),
            (bson!({ "$eq": ["$a", 7.0] }), bson!(true)),
            (bson!({ "$cmp": ["$a", "x"] }), bson!(-1)),
            (bson!({ "$and": [true, "$a"] }), bson!(true)),
            (bson!({ "$not": ["$a"] }), bson!(false)),
            (
                bson!({ "$cond": [{ "$gt": ["$a", 5] }, "big", "small"] }),
                bson!("big"),
            ),
            (
                bson!({ "$cond": { "if": false, "then": 1, "else": 2 } }),
                bson!(2),
            ),
            (bson!({ "$ifNull": ["$nothing", "x"] }), bson!("x")),
            (bson!({ "$concat": ["$s", "!"] }), bson!("Onion!")),
        ]);
    }

    #[test]
    fn text_arrays_and_conversions_evaluate_as_the_server_does() {
        check_table([
            (bson!({ "$toUpper": "$s" }), bson!("ONION")),
            (bson!({ "$size": "$list" }), bson!(3)),
            (bson!({ "$sum": "$list" }), bson!(6)),
            (bson!({ "$max": ["$a", "$b"] }), bson!(7)),
            (bson!({ "$arrayElemAt": ["$list", -1] }), bson!(2)),
            (bson!({ "$slice": ["$list", 2] }), bson!([3, 1])),
            (bson!({ "$in": [3, "$list"] }), bson!(true)),
            (
                bson!({ "$concatArrays": ["$list", [9]] }),
                bson!([3, 1, 2, 9]),
            ),
            (
                bson!({ "$filter": { "input": "$list", "cond": { "$gt": ["$$this", 1] } } }),
                bson!([3, 2]),
            ),
            (
                bson!({ "$map": {
                    "input": "$list", "as": "x", "in": { "$multiply": ["$$x", 2] }
                } }),
                bson!([6, 2, 4]),
            ),
            (
                bson!({ "$reduce": {
                    "input": "$list",
                    "initialValue": 0,
                    "in": { "$add": ["$$value", "$$this"] },
                } }),
                bson!(6),
            ),
            (
                bson!({ "$let": { "vars": { "x": 2 }, "in": "$$x" } }),
                bson!(2),
            ),
            (
                bson!({ "$mergeObjects": [{ "x": 1 }, { "y": "$b" }] }),
                bson!({ "x": 1, "y": 2 }),
            ),
            (bson!({ "$type": "$nothing" }), bson!("missing")),
            (bson!({ "$toString": "$a" }), bson!("7")),
            (bson!({ "$toInt": "12" }), bson!(12)),
            (bson!({ "$year": "$d" }), bson!(2023)),
            (bson!({ "$literal": "$a" }), bson!("$a")),
            (bson!({ "x": "$a", "gone": "$nothing" }), bson!({ "x": 7 })),
        ]);
    }

    fn check_table(table: impl IntoIterator<Item = (Bson, Bson)>) {
        let document = doc! {
            "a": 7, "b": 2, "s": "Onion", "list": [3, 1, 2], "items": [{ "n": 1 }, { "n": 2 }],
            "d": DateTime::from_millis(1_700_000_000_000),
        };
        let context = EvaluationContext::default();
        let scope = Scope::new(&document, &context);
        for (expression, expected) in table {
            check(&expression, Release::default()).expect("a good expression");
            let value = evaluate(&expression, &scope).expect("a value");
            assert_eq!(value, Some(expected), "{expression}");
        }
    }

    #[test]
    fn unknown_operators_are_refused() {
        let error = check(&bson!({ "$foo": 1 }), Release::default()).expect_err("unknown");
        assert_eq!(
            (error.code, error.message.as_str()),
            (168, "Unrecognized expression '$foo'")
        );
    }
}
