//! New ObjectIds.

use bson::oid::ObjectId;
use onionskin_core::{random::Seed, time::WallTime};
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes ObjectIds: seconds, five bytes of this client's own, and a counter (OID rules of the BSON
/// specification).
pub(crate) struct ObjectIds {
    own: [u8; 5],
    counter: AtomicU32,
}

impl ObjectIds {
    pub(crate) fn new(seed: &Seed) -> Self {
        let mut random = seed.split("object ids").random();
        let mut own = [0; 5];
        random.fill(&mut own);
        Self { own, counter: AtomicU32::new(random.next_u32()) }
    }

    pub(crate) fn next(&self, now: WallTime) -> ObjectId {
        let seconds = u32::try_from(now.as_unix_millis() / 1000).unwrap_or(u32::MAX);
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&self.own);
        bytes[9..].copy_from_slice(&counter.to_be_bytes()[1..]);
        ObjectId::from_bytes(bytes)
    }
}
