//! Projections of `find`, of `findAndModify` and of the stages `$project`, `$unset`, `$addFields`
//! and `$set`.

mod apply;
mod parse;
mod tree;

use bson::{Bson, Document};

use super::budget::Budget;
use super::error::StoreError;
use super::expression::{EvaluationContext, Scope};
use super::matcher::Matcher;
use super::release::Release;
use apply::Work;
use tree::Tree;

type Answer<T> = Result<T, StoreError>;

/// A parsed projection.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    mode: Mode,
    tree: Tree,
}

/// The fate of the fields that a projection does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Other fields are left out.
    Include,
    /// Other fields are kept, and named ones are left out.
    Exclude,
    /// Other fields are kept, and named ones are set.
    Add,
}

/// The fate of a field that a projection names.
#[derive(Clone, Debug)]
enum Field {
    Keep,
    Drop,
    Slice(Option<i64>, i64),
    ElementMatch(Box<Matcher>),
    Positional,
    Computed(Bson),
}

impl Projection {
    /// Parses a projection. With `of_find`, the projection can contain `.$`, `$elemMatch`, and
    /// `$slice` with one or two numbers, as in `find` and `findAndModify`.
    pub(crate) fn new(specification: &Document, of_find: bool, release: Release) -> Answer<Self> {
        let (mode, mut tree) = parse::projection(specification, of_find, release)?;
        tree.settle();
        Ok(Self { mode, tree })
    }

    /// Parses the fields that `$addFields` or `$set` adds.
    pub(crate) fn adding(stage: &str, specification: &Document, release: Release) -> Answer<Self> {
        let mut tree = parse::added(stage, specification, release)?;
        tree.settle();
        Ok(Self {
            mode: Mode::Add,
            tree,
        })
    }

    /// Parses the names that `$unset` removes.
    pub(crate) fn without(names: &[&str]) -> Answer<Self> {
        let specification: Document = names
            .iter()
            .map(|name| ((*name).to_owned(), Bson::Int32(0)))
            .collect();
        if specification.len() < names.len() {
            let text = "Path collision: a field is named twice";
            return Err(StoreError::new(31250, text));
        }
        Self::new(&specification, false, Release::default())
    }

    /// True if the projection computes fields, so that its results can be larger than the
    /// documents.
    pub(crate) fn computes(&self) -> bool {
        self.tree.computes()
    }

    /// Applies the projection to a document. The matcher of the query gives the position for `.$`.
    pub(crate) fn apply(
        &self,
        document: &Document,
        matcher: Option<&Matcher>,
        context: &EvaluationContext,
    ) -> Answer<Document> {
        let position = || matcher.and_then(|matcher| matcher.position(document, context));
        let work = Work {
            mode: self.mode,
            scope: Scope::new(document, context),
            position: self.tree.is_positional().then(position).flatten(),
        };
        work.document(document, &self.tree)
    }
}

/// Returns a copy of a document without the value at a path. In an array on the way, the value is
/// left out of each element.
pub(crate) fn exclude(document: &Document, path: &str) -> Document {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    let mut result = Document::new();
    for (name, value) in document {
        match rest {
            _ if name != head => result.insert(name, value.clone()),
            Some(rest) => result.insert(name, exclude_below(value, rest)),
            None => None,
        };
    }
    result
}

fn exclude_below(value: &Bson, path: &str) -> Bson {
    match value {
        Bson::Document(inner) => Bson::Document(exclude(inner, path)),
        Bson::Array(items) => {
            let items = items.iter().map(|item| exclude_below(item, path));
            Bson::Array(items.collect())
        }
        other => other.clone(),
    }
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
