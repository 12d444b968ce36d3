//! Large values that are freed by a job, so that other clients need not wait for it.

use std::{fmt::Debug, mem};

/// The size from which on values are freed by a job, in bytes. To free less takes at most a few
/// milliseconds.
const LARGE: usize = 256 * 1024;

/// The size of the values that wait for a job, in bytes, from which on further ones are dropped at
/// once.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Values to drop.
pub(crate) type Dropped = Vec<Box<dyn Debug + Send + Sync>>;

/// The values that wait until a job frees them. By default nothing waits.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    is_kept: bool,
    values: Dropped,
    /// The size of the values in bytes.
    bytes: usize,
}

impl Clone for Garbage {
    /// Returns one of which nothing waits. The copy of data for a job is dropped by the job.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Garbage {
    /// Lets the values wait until they are [taken](Self::take).
    pub(crate) const fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Drops a value of this size in bytes: later if values are to wait, or else at once.
    pub(crate) fn add(&mut self, bytes: usize, value: impl Debug + Send + Sync + 'static) {
        if self.is_kept && self.bytes < MAX_BYTES {
            self.bytes = self.bytes.saturating_add(bytes);
            self.values.push(Box::new(value));
        }
    }

    /// Takes the values that wait. Drops them if they are small.
    pub(crate) fn take(&mut self) -> Option<Dropped> {
        let values = mem::take(&mut self.values);
        let bytes = mem::take(&mut self.bytes);
        (bytes >= LARGE).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn only_large_values_wait_and_only_if_they_are_to() {
        let value = Arc::new(());
        let mut garbage = Garbage::default();
        garbage.add(LARGE, Arc::clone(&value));
        assert_eq!(Arc::strong_count(&value), 1, "it is dropped at once");
        garbage.keep();
        garbage.add(LARGE - 1, Arc::clone(&value));
        assert!(garbage.take().is_none());
        assert_eq!(Arc::strong_count(&value), 1, "it is small");
        garbage.add(LARGE - 1, Arc::clone(&value));
        garbage.add(1, Arc::clone(&value));
        assert_eq!(garbage.take().map(|values| values.len()), Some(2));
        garbage.add(MAX_BYTES, Arc::clone(&value));
        garbage.add(1, Arc::clone(&value));
        assert_eq!(Arc::strong_count(&value), 2, "more than this does not wait");
    }
}
