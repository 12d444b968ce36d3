//! Write statements in parts: the search for documents apart from the changes, and the changes of
//! some documents after the others.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use bson::Document;

use super::collection::Collection;
use super::error::StoreError;
use super::expression::EvaluationContext;
use super::matcher::Matcher;
use super::queue::Queue;
use super::slices::Slices;
use super::types::{
    DeleteStatement, Environment, FindAndModify, Namespace, Position, Shared, UpdateStatement,
};
use super::{Answer, Store, size};

/// The code of the error for a document that was found and no longer matches. It never reaches a
/// client: the caller searches again.
pub(crate) const SEARCH_AGAIN: i32 = -1;

/// The largest number of documents that a part of a statement changes.
const MAX_DOCUMENTS: usize = 200;

/// The steps of a change besides those of its expressions, and those for each index.
const STEPS_OF_CHANGE: usize = 40;
const STEPS_OF_INDEX: usize = 30;

/// How a write statement is executed in parts. The default is to execute it as a whole.
#[derive(Debug, Default)]
pub struct Parts {
    /// The records that an earlier search or part has found, in their order. The statement changes
    /// no others, and none that has changed since and no longer matches.
    pub(crate) found: Option<Records>,
    /// The number of steps after which a statement pauses before its next document.
    pub(crate) pause_after: Option<u64>,
    /// The records that are left after a pause.
    pub(crate) rest: Option<Records>,
    /// The last document that the search of a tailable cursor has looked at before a pause.
    pub(crate) reached: Option<Position>,
    /// The number of steps so far, without those of the budgets in use.
    pub(crate) meter: Rc<Cell<u64>>,
    /// The slices of a query that runs beside others.
    pub(crate) slices: Option<Slices>,
}

/// The records that a search has found, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// The serial number of their collection.
    serial: u64,
    /// Their numbers, and the documents that they had, which this does not keep alive.
    numbers: Queue<(u64, Weak<Document>)>,
}

/// The documents that a write statement searches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) collation: Option<Document>,
    /// True for one document, and false for all that match.
    pub(crate) is_single: bool,
}

/// The search of a write statement: its filter, its order, and whether it takes one document.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a>(
    pub(super) &'a Document,
    pub(super) Option<&'a Document>,
    pub(super) bool,
);

impl UpdateStatement {
    pub(crate) fn target(&self) -> Target {
        Target {
            filter: self.filter.clone(),
            sort: self.sort.clone(),
            collation: self.collation.clone(),
            is_single: !self.multi,
        }
    }
}

impl DeleteStatement {
    pub(crate) fn target(&self) -> Target {
        Target {
            filter: self.filter.clone(),
            sort: None,
            collation: self.collation.clone(),
            is_single: self.limit != 0,
        }
    }
}

impl FindAndModify {
    pub(crate) fn target(&self) -> Target {
        Target {
            filter: self.filter.clone(),
            sort: self.sort.clone(),
            collation: self.collation.clone(),
            is_single: true,
        }
    }
}

impl Parts {
    /// True for a later part of a statement, or after a search, that has found documents. Such a
    /// part inserts none.
    pub(super) fn has_found(&self) -> bool {
        self.found
            .as_ref()
            .is_some_and(|found| !found.numbers.is_empty())
    }

    /// Counts the steps of a change of a document.
    pub(super) fn count_change(&self, collection: Option<&Collection>, document: &Document) {
        self.count(collection, size::of(document));
    }

    /// Counts the steps of a change of this size in bytes.
    pub(super) fn count(&self, collection: Option<&Collection>, bytes: usize) {
        let indexes = collection.map_or(0, |collection| collection.indexes.len());
        let steps = STEPS_OF_CHANGE + STEPS_OF_INDEX * indexes + bytes / 64;
        self.meter
            .set(self.meter.get().saturating_add(steps as u64));
    }

    /// Counts the steps that each document of `$out` and `$merge` takes besides its change, and
    /// those that each change takes in the search of a change stream.
    pub(super) fn count_document(&self) {
        let steps = self.meter.get().saturating_add(STEPS_OF_CHANGE as u64);
        self.meter.set(steps);
    }

    /// True if a part has ended whose budgets are no longer in use.
    pub(super) fn is_over(&self) -> bool {
        self.pause_after
            .is_some_and(|most| self.meter.get() >= most)
    }

    /// True if half of the steps of a part are taken. The other half is for the changes of the
    /// documents that were found, so that they need not be looked at again.
    fn has_looked_enough(&self, context: &EvaluationContext) -> bool {
        let taken = self.meter.get().saturating_add(context.budget.taken());
        self.pause_after.is_some_and(|most| taken >= most / 2)
    }

    /// True if a statement has to pause before its next document.
    pub(super) fn must_pause(&self, context: &EvaluationContext) -> bool {
        let taken = self.meter.get().saturating_add(context.budget.taken());
        self.pause_after.is_some_and(|most| taken >= most)
    }

    /// Pauses a statement: these records of the collection are left, before those that the part did
    /// not look at.
    pub(super) fn pause(&mut self, serial: u64, left: impl Iterator<Item = (u64, Shared)>) {
        let rest = self.rest.get_or_insert_default();
        rest.serial = serial;
        let left = left.map(|(record, document)| (record, Arc::downgrade(&document)));
        rest.numbers.put_back(left.collect());
    }
}

impl Store {
    /// Returns the records that a write statement would change.
    pub(crate) fn search(
        &self,
        namespace: &Namespace,
        target: &Target,
        environment: &Environment<'_>,
    ) -> Answer<Records> {
        let context = self.context(namespace, target.collation.as_ref(), environment)?;
        let limit = if target.is_single { 1 } else { usize::MAX };
        let sort = target.sort.as_ref();
        let (_, found) = self.select(namespace, &target.filter, sort, limit, &context)?;
        let numbers = found.iter();
        let numbers = numbers.map(|(record, document)| (*record, Arc::downgrade(document)));
        Ok(Records {
            serial: self.serial_of(namespace),
            numbers: numbers.collect::<Vec<_>>().into(),
        })
    }

    /// Returns the matcher of a write statement and its documents: of those that were found before,
    /// the ones that have not changed since, or still match.
    pub(super) fn targets(
        &self,
        namespace: &Namespace,
        Wanted(filter, sort, is_single): Wanted<'_>,
        context: &EvaluationContext,
        parts: &mut Parts,
    ) -> Answer<(Matcher, Vec<(u64, Shared)>)> {
        let Some(mut records) = parts.found.take() else {
            let limit = if is_single { 1 } else { usize::MAX };
            return self.select(namespace, filter, sort, limit, context);
        };
        let collection = self.collection(namespace);
        if collection.map_or(0, |collection| collection.serial) != records.serial {
            let text = "the collection was dropped or renamed while the write had paused";
            let code = if is_single { SEARCH_AGAIN } else { 175 };
            return Err(StoreError::new(code, text));
        }
        let most = parts.pause_after.map_or(usize::MAX, |_| MAX_DOCUMENTS);
        let matcher = Matcher::new(filter, context.release)?;
        let mut found = Vec::new();
        let mut has_looked = false;
        while found.len() < most
            && !(has_looked && parts.has_looked_enough(context))
            && let Some((record, known)) = records.numbers.take()
        {
            has_looked = true;
            context.budget.step(1)?;
            let document = collection.and_then(|collection| collection.records.get(&record));
            // A filter with a random number can have another result the second time.
            let is_same = |document: &Shared| std::ptr::eq(Arc::as_ptr(document), known.as_ptr());
            match document {
                Some(document) if is_same(document) || matcher.matches(document, context)? => {
                    found.push((record, document.clone()));
                }
                _ if is_single => {
                    let text = "the document that was found has changed";
                    return Err(StoreError::new(SEARCH_AGAIN, text));
                }
                _ => {}
            }
        }
        if !records.numbers.is_empty() {
            parts.rest = Some(records);
        }
        Ok((matcher, found))
    }
}
