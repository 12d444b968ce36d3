//! Generation of ObjectIds.

use crate::Runtime;
use bson::oid::ObjectId;
use onionskin_core::{random::Seed, time::WallTime};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// A generator of ObjectIds: the time in seconds, five random bytes of this client, and a counter
/// (OID-1).
pub(crate) struct ObjectIds {
    own: Mutex<Own>,
    counter: AtomicU32,
}

/// The random bytes, and the id of the process for which they were drawn.
struct Own {
    bytes: [u8; 5],
    process: Option<u32>,
}

impl ObjectIds {
    pub(crate) fn new(seed: &Seed, process: Option<u32>) -> Self {
        let mut random = seed.split("object ids").random();
        let mut bytes = [0; 5];
        random.fill(&mut bytes);
        Self {
            own: Mutex::new(Own { bytes, process }),
            counter: AtomicU32::new(random.next_u32()),
        }
    }

    pub(crate) fn next<R: Runtime>(&self, runtime: &R, now: WallTime) -> ObjectId {
        let seconds = u32::try_from(now.as_unix_millis() / 1000).unwrap_or(u32::MAX);
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&self.own(runtime));
        bytes[9..].copy_from_slice(&counter.to_be_bytes()[1..]);
        ObjectId::from_bytes(bytes)
    }

    /// Returns the random bytes. A forked child continues the counter of its parent, so it draws
    /// new bytes.
    fn own<R: Runtime>(&self, runtime: &R) -> [u8; 5] {
        let process = runtime.process_id();
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.process != process {
            own.process = process;
            let mut bytes = own.bytes;
            if runtime.entropy(&mut bytes).is_err() {
                let number = process.unwrap_or_default().to_be_bytes();
                bytes.iter_mut().zip(number).for_each(|(b, n)| *b ^= n);
            }
            own.bytes = bytes;
        }
        own.bytes
    }
}
