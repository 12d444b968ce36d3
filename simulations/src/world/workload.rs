//! What callers do, and what became of it.
//!
//! Each operation concerns a document of its own, so that a reply that went to the wrong operation
//! shows, and a write that took effect twice as well.

use super::options::{Rates, WorldOptions, index};
use bson::{Bson, Document, RawDocumentBuf, rawdoc};
use onionskin_core::{
    error::Error,
    operation::{
        Command,
        crud::{self, FindOptions, Namespace, UpdateOptions, WriteOptions},
    },
    options::{ReadMode, ReadPreference, WriteConcern},
    random::{Random, Seed},
    time::Instant,
};
use std::{sync::Arc, time::Duration};

/// The database of all operations.
pub const DATABASE: &str = "world";

/// The collection of all operations.
pub const COLLECTION: &str = "marks";

/// Operations of each caller after healing.
pub(super) const LATE_STEPS: u32 = 8;

/// How much later than its deadline an operation may end: as long as callers take to notice.
pub(super) const SLACK: Duration = Duration::from_millis(1);

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Inserts the document, with a majority's acknowledgement.
    Insert,
    /// Adds one to its counter, with a majority's acknowledgement.
    Increment,
    /// Reads it from the primary.
    Find,
    /// Reads it from a secondary, where there is one.
    FindNearby,
    /// Reads it and its caller's last ones before it from the primary, newest first, through a
    /// cursor; without the async client, which has cursors, it alone.
    Browse,
}

/// How many documents are browsed at most.
pub const BROWSED: i64 = 5;

/// How many of them come at once.
pub const BROWSED_AT_ONCE: u32 = 2;

/// In how many parts they come, each with its share of the operation's time.
pub const BROWSED_PARTS: u32 = 3;

/// How long a caller leaves its operation unpolled at most.
const MAX_ABSENCE_MILLIS: u64 = 60_000;

/// One operation of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What.
    pub deed: Deed,
    /// The document's `_id`.
    pub id: i64,
    /// The bound of the whole operation.
    pub timeout: Duration,
    /// Its caller leaves after this long.
    pub patience: Option<Duration>,
    /// Its caller leaves once it has been polled this often.
    pub polls: Option<u32>,
    /// When its caller does not poll it for a while.
    pub absence: Option<Absence>,
}

/// A time during which a caller does not poll its operation, as a task that is busy with something
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// It begins once the operation has been polled, or woken, this often.
    pub after: u32,
    /// It lasts this long, or until the world is healed.
    pub time: Duration,
}

impl Step {
    /// The core's command for it.
    pub fn command(&self) -> Result<Command, Error> {
        let namespace = Namespace::new(DATABASE, COLLECTION)?;
        let filter = rawdoc! { "_id": self.id };
        let mut write = WriteOptions::default();
        write.write_concern = Some(WriteConcern::majority());
        write.timeout = Some(self.timeout);
        match self.deed {
            Deed::Insert => {
                let bytes = document(self.id).into_bytes();
                Ok(crud::insert(&namespace, bytes, &write))
            }
            Deed::Increment => {
                let mut options = UpdateOptions::default();
                options.write = write;
                let change = rawdoc! { "$inc": { "n": 1 } };
                crud::update(&namespace, &filter, &change, false, &options)
            }
            Deed::Find | Deed::FindNearby | Deed::Browse => {
                let mut options = FindOptions::default();
                options.limit = Some(1);
                options.timeout = Some(self.timeout);
                options.read_preference = Some(Arc::new(self.preference()));
                Ok(crud::find(&namespace, &filter, &options))
            }
        }
    }

    /// Where it reads.
    #[must_use]
    pub fn preference(&self) -> ReadPreference {
        match self.deed {
            Deed::FindNearby => ReadPreference::new(ReadMode::SecondaryPreferred),
            _ => ReadPreference::default(),
        }
    }
}

/// The document of an `_id`, as it is inserted.
#[must_use]
pub fn document(id: i64) -> RawDocumentBuf {
    rawdoc! { "_id": id, "mark": mark(id), "n": 0 }
}

/// What the document of an `_id` is recognised by.
#[must_use]
pub fn mark(id: i64) -> String {
    format!("mark {id} {:016x}", id.wrapping_mul(0x1e37_79b9_7f4a_7c15))
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The write is done.
    Acknowledged,
    /// This was read.
    Found(Option<Document>),
    /// It failed.
    Failed(Error),
    /// Its caller left.
    Left,
}

/// One operation and what became of it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whose client.
    pub client: usize,
    /// What it did.
    pub step: Step,
    /// When it began.
    pub began: Instant,
    /// When and how it ended.
    pub ended: Option<(Instant, Ending)>,
    /// It began after everything was healed and had come to rest.
    pub is_late: bool,
}

/// All operations of a run, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// An operation begins; gives its place.
    pub fn begin(&mut self, client: usize, step: Step, began: Instant, is_late: bool) -> usize {
        self.entries.push(Entry {
            client,
            step,
            began,
            ended: None,
            is_late,
        });
        self.entries.len() - 1
    }

    /// An operation ended.
    pub fn end(&mut self, place: usize, at: Instant, ending: Ending) {
        self.entries[place].ended = Some((at, ending));
    }

    /// All of them.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// What one caller does: an endless list of steps, drawn from the seed.
#[derive(Debug)]
pub struct Script {
    random: Random,
    /// Draws when operations are not polled.
    absences: Random,
    rates: Rates,
    next: i64,
    /// The document of this round, and what was done with it.
    round: Option<(i64, u64)>,
}

impl Script {
    /// The script of a caller.
    #[must_use]
    pub fn new(options: &WorldOptions, seed: &Seed, client: usize, task: usize) -> Self {
        let caller = client * options.tasks + task;
        Self {
            random: seed.split(&format!("caller {caller}")).random(),
            absences: seed.split(&format!("absences {caller}")).random(),
            rates: options.rates,
            next: i64::try_from(caller).unwrap_or(0) * 1_000_000,
            round: None,
        }
    }

    /// How long the caller thinks before its next step.
    pub fn pause(&mut self) -> Duration {
        match self.random.below(8) {
            0 => Duration::from_millis(self.random.below(5_000)),
            1..4 => Duration::ZERO,
            _ => Duration::from_millis(self.random.below(300)),
        }
    }

    /// The next step. Late ones are patient: they must succeed.
    pub fn step(&mut self, is_late: bool) -> Step {
        let (id, done) = self.round.unwrap_or_else(|| {
            self.next += 1;
            (self.next, 0)
        });
        let deed = match done {
            0 => Deed::Insert,
            1 => Deed::Increment,
            2 if id % 3 == 0 => Deed::Browse,
            2 => Deed::Find,
            _ => Deed::FindNearby,
        };
        self.round = (done < 3).then_some((id, done + 1));
        let timeout = Duration::from_millis(match self.random.below(4) {
            _ if is_late => 30_000,
            0 => 20 + self.random.below(500),
            _ => 1_000 + self.random.below(20_000),
        });
        let leaves = !is_late
            && self.rates.cancel > 0
            && self.random.chance(u64::from(self.rates.cancel), 1000);
        let (mut patience, mut polls) = (None, None);
        if leaves {
            match self.random.below(2) {
                0 => polls = Some(1 + u32::try_from(index(&mut self.random, 6)).unwrap_or(0)),
                // Mostly about as long as a round trip, so that it is in the midst of something.
                _ => {
                    let micros = [2_000, 20_000, 200_000, 5_000_000][index(&mut self.random, 4)];
                    patience = Some(Duration::from_micros(self.random.below(micros)));
                }
            }
        }
        Step {
            deed,
            id,
            timeout,
            patience,
            polls,
            absence: self.absence(is_late),
        }
    }

    fn absence(&mut self, is_late: bool) -> Option<Absence> {
        let rate = u64::from(self.rates.unpolled);
        if is_late || rate == 0 || !self.absences.chance(rate, 1000) {
            return None;
        }
        let millis = [10, 1_000, MAX_ABSENCE_MILLIS][index(&mut self.absences, 3)];
        Some(Absence {
            after: 1 + u32::try_from(index(&mut self.absences, 4)).unwrap_or(0),
            time: Duration::from_millis(self.absences.below(millis)),
        })
    }
}

/// The document in a reply to [`Deed::Find`].
pub fn found(document: Option<&bson::RawDocument>) -> Result<Option<Document>, Error> {
    document
        .map(onionskin_core::bson::decode_document)
        .transpose()
}

/// The counter of a document.
#[must_use]
pub fn counter(document: &Document) -> Option<i64> {
    match document.get("n") {
        Some(Bson::Int32(n)) => Some(i64::from(*n)),
        Some(Bson::Int64(n)) => Some(*n),
        _ => None,
    }
}
