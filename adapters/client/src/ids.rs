//! Generation of ObjectIds.

use crate::Runtime;
use bson::oid::ObjectId;
use onionskin_bson::ObjectIdGenerator;
use onionskin_core::{random::Seed, time::WallTime};
use std::sync::{Mutex, PoisonError};

/// A generator of ObjectIds with random bytes of this client (OID-1). All draws of a client come
/// from its seed, so each client of a process has random bytes of its own (OID-4).
pub(crate) struct ObjectIds(Mutex<Own>);

/// The generator, and the id of the process for which its random bytes were drawn.
struct Own {
    generator: ObjectIdGenerator,
    random: [u8; 5],
    process: Option<u32>,
}

impl ObjectIds {
    pub(crate) fn new(seed: &Seed, process: Option<u32>) -> Self {
        let mut draws = seed.split("object ids").random();
        let mut random = [0; 5];
        draws.fill(&mut random);
        Self(Mutex::new(Own {
            generator: ObjectIdGenerator::new(random, draws.next_u32()),
            random,
            process,
        }))
    }

    /// Returns the next ObjectId. A forked child continues the counter of its parent, so it draws
    /// new random bytes (OID-5).
    pub(crate) fn next<R: Runtime>(&self, runtime: &R, now: WallTime) -> ObjectId {
        let seconds = u32::try_from(now.as_unix_millis() / 1000).unwrap_or(u32::MAX);
        let process = runtime.process_id();
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.process != process {
            let mut random = own.random;
            if runtime.entropy(&mut random).is_err() {
                let number = process.unwrap_or_default().to_be_bytes();
                random.iter_mut().zip(number).for_each(|(b, n)| *b ^= n);
            }
            *own = Own {
                generator: own.generator.with_random(random),
                random,
                process,
            };
        }
        own.generator.next(seconds)
    }
}
