//! The predicates of filters on the value at a path.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::Matcher;
use crate::store::collation::is_independent;
use crate::store::error::StoreError;
use crate::store::expression::EvaluationContext;
use crate::store::index::Bounds;
use crate::store::order::{compare, equal, rank, type_name};
use crate::store::path::{self, Seen};
use crate::store::pattern::Pattern;
use crate::store::{number, size};

/// The number of copied bytes that count as one step.
const BYTES_PER_STEP: u64 = 64;

/// The number of steps in which the index of an element becomes the name of a field.
const STEPS_PER_NAME: u64 = 10;

/// A predicate on the value at a path.
#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    Equal(Bson),
    Less(Bson),
    LessOrEqual(Bson),
    Greater(Bson),
    GreaterOrEqual(Bson),
    /// One of these values, which are sorted, or a match of one of the patterns.
    In(Vec<Bson>, Vec<Pattern>),
    Exists,
    Type(Vec<&'static str>),
    Regex(Pattern, Box<Bson>),
    Mod(i64, i64),
    Size(usize),
    All(Vec<Self>),
    ElementFields(Box<Matcher>),
    ElementValue(Vec<Self>),
    Bits(Bits, Vec<u32>),
    Not(Vec<Self>),
    Never,
}

/// The condition of `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet` or `$bitsAnyClear` on the listed
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bits {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl Predicate {
    /// True if the document satisfies the predicate at the path.
    pub(super) fn matches(
        &self,
        document: &Document,
        path: &str,
        context: &EvaluationContext,
    ) -> Result<bool, StoreError> {
        let budget = &context.budget;
        budget.step(1)?;
        match self {
            Self::Not(inner) => {
                for predicate in inner {
                    if !predicate.matches(document, path, context)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::All(inner) => {
                for predicate in inner {
                    if !predicate.matches(document, path, context)? {
                        return Ok(false);
                    }
                }
                Ok(!inner.is_empty())
            }
            Self::ElementFields(matcher) => {
                let mut answer = Ok(false);
                path::any(document, path, &mut |seen| {
                    let items = seen.value().and_then(Bson::as_array);
                    for item in items.into_iter().flatten() {
                        if let Err(error) = budget.step(1) {
                            answer = Err(error);
                            return true;
                        }
                        let found = fields_match(matcher, item, context);
                        if !matches!(found, Ok(false)) {
                            answer = found;
                            return true;
                        }
                    }
                    false
                });
                answer
            }
            _ => {
                let parts = self.parts();
                let found = path::any(document, path, &mut |seen| {
                    let items = seen.value().and_then(Bson::as_array).map_or(0, Vec::len);
                    budget.count(parts.saturating_mul(items + 1));
                    // If the steps are used up, the check below fails.
                    budget.is_exhausted() || self.test(seen, context)
                });
                budget.check()?;
                Ok(found)
            }
        }
    }

    /// Returns the number of predicates that are tested on each element of an array. The bits of a
    /// mask count as well, 64 of them as one.
    fn parts(&self) -> usize {
        match self {
            Self::Not(inner) | Self::All(inner) | Self::ElementValue(inner) => {
                inner.iter().map(Self::parts).sum()
            }
            Self::Bits(_, places) => 1 + places.len() / 64,
            _ => 1,
        }
    }

    /// True if what a document has at a path satisfies the predicate.
    pub(super) fn test(&self, seen: Seen<'_>, context: &EvaluationContext) -> bool {
        match seen {
            Seen::Missing => self.test_value(None, context),
            Seen::Field(value) => self.test_value(Some(value), context),
            Seen::Element(item) => self.test_element(item, context),
        }
    }

    /// True if the value of a field satisfies the predicate. An array satisfies a comparison if the
    /// array itself or one of its elements does.
    pub(crate) fn test_value(&self, value: Option<&Bson>, context: &EvaluationContext) -> bool {
        match (self, value) {
            (Self::Not(inner), _) => !inner.iter().all(|p| p.test_value(value, context)),
            (Self::All(inner), _) => inner.iter().all(|p| p.test_value(value, context)),
            (Self::Exists, _) => value.is_some(),
            (Self::Size(_) | Self::ElementValue(_) | Self::ElementFields(_), value) => {
                value.is_some_and(|value| self.test_element(value, context))
            }
            (_, Some(Bson::Array(items))) => {
                self.test_one(value, context)
                    || items.iter().any(|item| self.test_one(Some(item), context))
            }
            _ => self.test_one(value, context),
        }
    }

    /// True if an element of an array satisfies the predicate. If it is an array as well, its own
    /// elements do not count.
    pub(super) fn test_element(&self, item: &Bson, context: &EvaluationContext) -> bool {
        match (self, item) {
            (Self::Not(inner), _) => !inner.iter().all(|p| p.test_element(item, context)),
            (Self::All(inner), _) => {
                !inner.is_empty() && inner.iter().all(|p| p.test_element(item, context))
            }
            (Self::Exists, _) => true,
            (Self::Size(size), Bson::Array(items)) => items.len() == *size,
            (Self::ElementValue(_) | Self::ElementFields(_), Bson::Array(items)) => {
                items.iter().any(|item| self.holds_for_item(item, context))
            }
            (Self::Size(_) | Self::ElementValue(_) | Self::ElementFields(_), _) => false,
            _ => self.test_one(Some(item), context),
        }
    }

    /// True if an element of the array at a path satisfies the predicate, so that the predicate has
    /// a position. Of `All`, only the last predicate is tested. A negation has no position.
    pub(super) fn holds_for_item(&self, item: &Bson, context: &EvaluationContext) -> bool {
        match self {
            Self::ElementValue(inner) => inner.iter().all(|p| p.test_element(item, context)),
            Self::ElementFields(matcher) => fields_match(matcher, item, context).unwrap_or(false),
            Self::All(inner) => inner
                .last()
                .is_some_and(|p| p.holds_for_item(item, context)),
            Self::Not(_) => false,
            _ => self.test_one(Some(item), context),
        }
    }

    /// True if the predicate is a negation.
    pub(super) const fn is_negation(&self) -> bool {
        matches!(self, Self::Not(_))
    }

    fn test_one(&self, value: Option<&Bson>, context: &EvaluationContext) -> bool {
        let null = Bson::Null;
        match self {
            Self::Equal(wanted) => context.equal(value.unwrap_or(&null), wanted),
            Self::Less(wanted) => ordered(value, wanted, context, Ordering::is_lt),
            Self::LessOrEqual(wanted) => ordered(value, wanted, context, Ordering::is_le),
            Self::Greater(wanted) => ordered(value, wanted, context, Ordering::is_gt),
            Self::GreaterOrEqual(wanted) => ordered(value, wanted, context, Ordering::is_ge),
            Self::In(wanted, patterns) => {
                let value = value.unwrap_or(&null);
                is_one_of(wanted, value, context)
                    || patterns.iter().any(|p| fits(p, value, context))
            }
            Self::Type(names) => value.is_some_and(|v| names.contains(&type_name(v))),
            Self::Regex(pattern, source) => {
                value.is_some_and(|v| fits(pattern, v, context) || equal(v, source))
            }
            Self::Mod(divisor, remainder) => value
                .and_then(number::truncated)
                .is_some_and(|n| n.wrapping_rem(*divisor) == *remainder),
            Self::Bits(bits, places) => value.is_some_and(|v| bits.test(v, places)),
            _ => false,
        }
    }

    /// Returns the values with each of which the predicate demands equality.
    pub(super) fn demanded(&self) -> Vec<&Bson> {
        match self {
            Self::Equal(value) => vec![value],
            Self::In(values, patterns) if values.len() == 1 && patterns.is_empty() => {
                values.iter().collect()
            }
            Self::All(inner) => inner.iter().flat_map(Self::demanded).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the values with which the predicate demands equality. Returns `None` for other
    /// predicates, and for null, undefined and arrays, which an index cannot find.
    pub(super) fn equalities(&self) -> Option<Vec<&Bson>> {
        let plain = |v: &Bson| !matches!(v, Bson::Null | Bson::Array(_) | Bson::Undefined);
        match self {
            Self::Equal(value) if plain(value) => Some(vec![value]),
            Self::In(values, patterns) if patterns.is_empty() && values.iter().all(plain) => {
                Some(values.iter().collect())
            }
            _ => None,
        }
    }

    /// Returns the bounds that the predicate demands. A bound that documents without a value, or
    /// with an array as their value, can meet is left out.
    pub(super) fn bounds(&self) -> Bounds<'_> {
        let is_plain = |value: &&Bson| match value {
            Bson::Double(number) => !number.is_nan(),
            Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::String(_)
            | Bson::ObjectId(_)
            | Bson::Boolean(_)
            | Bson::DateTime(_)
            | Bson::Timestamp(_) => true,
            _ => false,
        };
        let (lower, upper) = match self {
            Self::Less(value) | Self::LessOrEqual(value) => (None, Some(value)),
            Self::Greater(value) | Self::GreaterOrEqual(value) => (Some(value), None),
            _ => (None, None),
        };
        Bounds {
            lower: lower.filter(is_plain),
            upper: upper.filter(is_plain),
        }
    }
}

/// True if a value is equal to one of the sorted values.
fn is_one_of(wanted: &[Bson], value: &Bson, context: &EvaluationContext) -> bool {
    if context.collation.is_none() || is_independent(value) {
        return wanted.binary_search_by(|w| compare(w, value)).is_ok();
    }
    // The values are in the order of their bytes, not in that of the collation.
    context.budget.count(wanted.len());
    !context.budget.is_exhausted() && wanted.iter().any(|w| context.equal(w, value))
}

fn ordered(
    value: Option<&Bson>,
    wanted: &Bson,
    context: &EvaluationContext,
    accept: fn(Ordering) -> bool,
) -> bool {
    let null = Bson::Null;
    let value = value.unwrap_or(&null);
    let extreme = matches!(wanted, Bson::MinKey | Bson::MaxKey);
    if !extreme && rank(value) != rank(wanted) {
        return false;
    }
    let nan = |v: &Bson| number::is_number(v) && number::as_double(v).is_some_and(f64::is_nan);
    if !extreme && nan(value) != nan(wanted) {
        return false;
    }
    accept(context.compare(value, wanted))
}

/// True if a value is a text that the pattern matches. After an error, the steps of the query are
/// used up, so that the query fails at its next step.
pub(super) fn fits(pattern: &Pattern, value: &Bson, context: &EvaluationContext) -> bool {
    let (Bson::String(text) | Bson::Symbol(text)) = value else {
        return false;
    };
    let found = pattern.is_match(text, &context.budget);
    found.unwrap_or_else(|_| {
        context.budget.exhaust();
        false
    })
}

/// True if the fields of an element satisfy a filter. The fields of an array are its indexes.
fn fields_match(
    matcher: &Matcher,
    item: &Bson,
    context: &EvaluationContext,
) -> Result<bool, StoreError> {
    match item {
        Bson::Document(inner) => matcher.matches(inner, context),
        Bson::Array(inner) => {
            let fields = numbered(inner, matcher, context)?;
            matcher.matches(&fields, context)
        }
        _ => Ok(false),
    }
}

/// Returns an array as a document whose field names are the indexes. Only the elements that the
/// filter asks for are copied, if it says which.
fn numbered(
    items: &[Bson],
    matcher: &Matcher,
    context: &EvaluationContext,
) -> Result<Document, StoreError> {
    let budget = &context.budget;
    let copy = |name: String, item: &Bson| {
        budget.step(STEPS_PER_NAME + size::memory(item) as u64 / BYTES_PER_STEP)?;
        Ok((name, item.clone()))
    };
    match matcher.first_names() {
        Some(names) => {
            let asked = names.into_iter().filter_map(|name| {
                let item = items.get(path::index(name)?)?;
                Some(copy(name.to_owned(), item))
            });
            asked.collect()
        }
        None => {
            let all = items.iter().enumerate();
            all.map(|(place, item)| copy(place.to_string(), item))
                .collect()
        }
    }
}

impl Bits {
    fn test(self, value: &Bson, places: &[u32]) -> bool {
        let is_set = |place: u32| match value {
            Bson::Binary(binary) => {
                let byte = binary.bytes.get(place as usize / 8).copied().unwrap_or(0);
                Some(byte >> (place % 8) & 1 == 1)
            }
            _ => {
                // Beyond its 64 bits, a number continues with its sign bit.
                let number = number::as_integer(value)?;
                Some(number >> place.min(63) & 1 == 1)
            }
        };
        let Some(set) = places
            .iter()
            .map(|p| is_set(*p))
            .collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        if places.is_empty() && is_set(0).is_none() {
            return false;
        }
        match self {
            Self::AllSet => set.iter().all(|s| *s),
            Self::AllClear => set.iter().all(|s| !*s),
            Self::AnySet => set.iter().any(|s| *s),
            Self::AnyClear => set.iter().any(|s| !*s),
        }
    }
}
