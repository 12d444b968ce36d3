//! Empty timestamps, which stand for the time of a write.

use bson::{Bson, Document, Timestamp};

use super::types::Environment;

/// Replaces the empty timestamps of a new document by the time of its write, except that of `_id`
/// and those of inner documents. Each gets a time of its own.
pub(super) fn fill(document: &mut Document, environment: &Environment<'_>) {
    const EMPTY: Bson = Bson::Timestamp(Timestamp {
        time: 0,
        increment: 0,
    });
    if environment.keeps_empty_timestamps {
        return;
    }
    let fields = document.iter_mut().filter(|(name, _)| *name != "_id");
    let empty = fields.filter(|(_, value)| **value == EMPTY);
    for ((_, value), number) in empty.zip(0_u32..) {
        let Timestamp { time, increment } = environment.timestamp;
        let increment = increment.saturating_add(number);
        *value = Bson::Timestamp(Timestamp { time, increment });
    }
}
