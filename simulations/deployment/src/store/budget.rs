//! The limits of one query, one pipeline or one write statement: the bytes of its intermediate
//! values, and its steps.
//!
//! A short pipeline can request very large documents and very long work. A value is charged before
//! it is built or as soon as it is evaluated, so that memory stays bounded. Steps are counted
//! instead of time, because the store has no clock.

use std::cell::Cell;
use std::rc::Rc;

use bson::{Bson, Document};

use super::error::StoreError;
use super::size::{self, MAX_DOCUMENT_BYTES};
use super::slices::Slices;

/// The largest number of bytes that may be charged at one time: 100 MiB.
pub(crate) const MAX_STAGE_BYTES: usize = 100 * 1024 * 1024;

/// The largest encoding of a value or document that an expression or a pipeline stage makes, in
/// bytes: 16 MiB and 16 KiB.
pub(crate) const MAX_INTERMEDIATE_BYTES: usize = MAX_DOCUMENT_BYTES + 16 * 1024;

/// The most steps of one query, pipeline or write statement.
const MAX_STEPS: u64 = 50_000_000;

/// The number of charged bytes that count as one step.
const BYTES_PER_STEP: usize = 64;

/// Counts the memory and the steps of one query, pipeline or write statement. All clones share the
/// counters.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Rc<Counters>);

#[derive(Debug)]
struct Counters {
    charged: Cell<usize>,
    steps: Cell<u64>,
    max_steps: u64,
    /// The steps of the budgets of a command that are no longer in use.
    meter: Option<Rc<Cell<u64>>>,
    /// The slices of a query that runs beside others.
    slices: Option<Slices>,
}

impl Drop for Counters {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.set(meter.get().saturating_add(self.steps.get()));
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MAX_STEPS)
    }
}

impl Budget {
    /// Returns a budget of at most this number of steps, and at most [`MAX_STEPS`].
    pub(crate) fn new(max_steps: u64) -> Self {
        Self::with_meter(max_steps, None, None)
    }

    /// Returns a budget whose steps are added to `meter` at its end, and are counted by `slices`.
    pub(crate) fn metered(
        max_steps: Option<u64>,
        meter: Rc<Cell<u64>>,
        slices: Option<Slices>,
    ) -> Self {
        Self::with_meter(max_steps.unwrap_or(MAX_STEPS), Some(meter), slices)
    }

    fn with_meter(max_steps: u64, meter: Option<Rc<Cell<u64>>>, slices: Option<Slices>) -> Self {
        Self(Rc::new(Counters {
            charged: Cell::new(0),
            steps: Cell::new(0),
            max_steps: max_steps.min(MAX_STEPS),
            meter,
            slices,
        }))
    }

    /// Returns the number of steps that were counted so far.
    pub(crate) fn taken(&self) -> u64 {
        self.0.steps.get()
    }

    /// Returns the number of bytes that are charged now. [`Budget::release_to`] takes this number.
    pub(crate) fn charged(&self) -> usize {
        self.0.charged.get()
    }

    /// Releases the bytes that were charged since [`Budget::charged`] returned `mark`.
    pub(crate) fn release_to(&self, mark: usize) {
        self.0.charged.set(mark);
    }

    /// Charges bytes, and counts a step for every [`BYTES_PER_STEP`] of them. Returns an error if
    /// the charged bytes exceed [`MAX_STAGE_BYTES`] or the steps exceed [`MAX_STEPS`].
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), StoreError> {
        let charged = self.charged().saturating_add(bytes);
        if charged > MAX_STAGE_BYTES {
            return Err(StoreError::new(
                292,
                format!(
                    "Exceeded memory limit of {MAX_STAGE_BYTES} bytes for one stage of an \
                     aggregation; use stages that leave fewer or smaller documents"
                ),
            ));
        }
        self.0.charged.set(charged);
        self.step((bytes / BYTES_PER_STEP) as u64)
    }

    /// Charges the memory of `count` copies of a value that are about to be made.
    pub(crate) fn charge_copies(&self, value: &Bson, count: usize) -> Result<(), StoreError> {
        if count == 0 {
            return Ok(());
        }
        self.charge(size::memory(value).saturating_mul(count))
    }

    /// Charges a value that was built. A value that is too large or too deeply nested is an error.
    pub(crate) fn hold_value(&self, value: &Bson) -> Result<(), StoreError> {
        let bytes = size::memory_of_intermediate(value)?;
        self.charge(bytes)
    }

    /// Charges a document that was built. A document that is too large or too deeply nested is an
    /// error.
    pub(crate) fn hold_document(&self, document: &Document) -> Result<(), StoreError> {
        let bytes = size::memory_of_document(document)?;
        self.charge(bytes)
    }

    /// Counts steps where no error can be returned. If there are too many, the next call of
    /// [`Budget::step`] returns the error.
    pub(crate) fn count(&self, steps: usize) {
        self.take(steps as u64);
    }

    /// Takes steps. Returns their number so far.
    fn take(&self, steps: u64) -> u64 {
        let taken = self.0.steps.get().saturating_add(steps);
        self.0.steps.set(taken);
        match &self.0.slices {
            Some(slices) if !slices.count(steps) => self.exhaust(),
            _ => {}
        }
        self.taken()
    }

    /// True if the next call of [`Budget::step`] returns an error.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.0.steps.get() > self.0.max_steps
    }

    /// Uses up all steps, so that the next step is an error.
    pub(crate) fn exhaust(&self) {
        self.0.steps.set(u64::MAX);
    }

    /// Returns an error if the steps that were counted by [`Budget::count`] are too many. A query
    /// calls this at its end, because its last predicates could not return the error.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.step(0)
    }

    /// Counts steps. More steps than those of the budget in total are an error.
    pub(crate) fn step(&self, steps: u64) -> Result<(), StoreError> {
        let most = self.0.max_steps;
        if self.take(steps) > most {
            return Err(StoreError::new(
                50,
                format!("operation exceeded the limit of {most} steps of evaluation"),
            ));
        }
        Ok(())
    }
}

/// Returns the error for a document or value that is too large for a pipeline.
pub(crate) fn too_large(size: usize) -> StoreError {
    StoreError::new(
        10334,
        format!(
            "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and \
             {MAX_INTERMEDIATE_BYTES}(16MB)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::super::expression::{EvaluationContext, Scope, evaluate};
    use super::*;

    #[test]
    fn nested_loops_fail_when_the_step_budget_is_used_up() {
        let mut body = bson!(1);
        for _ in 0..6 {
            let input = bson!({ "$range": [0, 1000] });
            body = bson!({ "$size": { "$map": { "input": input, "in": body } } });
        }
        let (document, context) = (doc! {}, EvaluationContext::default());
        let used = MAX_STEPS - 100_000;
        context.budget.step(used).expect("some are left");
        let scope = Scope::new(&document, &context);
        let error = evaluate(&body, &scope).expect_err("steps without end");
        assert_eq!((error.code, &*error.code_name), (50, "MaxTimeMSExpired"));
    }

    #[test]
    fn the_memory_of_intermediate_values_is_returned_to_the_budget() {
        let document = doc! { "s": "x".repeat(1_000_000) };
        let context = EvaluationContext::default();
        let scope = Scope::new(&document, &context);
        let length = bson!({ "$strLenBytes": { "$concat": vec!["$s"; 10] } });
        for _ in 0..20 {
            let value = evaluate(&length, &scope).expect("a value");
            assert_eq!(value, Some(bson!(10_000_000)));
        }
        assert_eq!(context.budget.charged(), 20 * size_of::<Bson>());
    }
}
