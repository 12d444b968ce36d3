//! The operations of callers, and how they ended.
//!
//! A caller runs several operations on each document, for example an insert, an increment and two
//! reads. No other caller uses the document. So the checkers find a reply that reached the wrong
//! caller, and a write that took effect twice.

use super::{
    client::{Pace, Work},
    options::{Rates, WorldOptions, index},
};
use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use onionskin_core::{
    error::Error,
    operation::{
        Command,
        crud::{
            self, DatabaseOptions, Defaults, FindOptions, InsertOneOptions, SharedNamespace,
            UpdateOptions,
        },
    },
    options::{ReadPreference, SelectionCriteria, WriteConcern},
    random::{Random, Seed},
    time::Instant,
};
use std::{fmt, time::Duration};

/// The database of all operations.
pub const DATABASE: &str = "world";

/// The database of lists and accounts with an odd `_id` if there are several shards. Of two shards,
/// it is on the other one.
pub const OTHER_DATABASE: &str = "abroad";

/// The collection of all operations.
pub const COLLECTION: &str = "marks";

/// The largest number of operations that a caller runs after the time of grace.
pub(super) const LATE_STEPS: u32 = 8;

/// The time by which an operation may end after its deadline, because callers notice a timeout with
/// a delay.
pub(super) const SLACK: Duration = Duration::from_millis(1);

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationKind {
    /// Inserts the document with majority write concern.
    Insert,
    /// Adds one to the counter of the document with majority write concern.
    Increment,
    /// Reads the document from the primary.
    Find,
    /// Reads the document with a read preference that permits secondaries. The `_id` decides the
    /// mode. The tag sets and the maximum staleness are those of the client's options.
    FindNearby,
    /// Reads the document and up to four earlier documents of the same caller through a cursor,
    /// newest first, with the read preference of the client's options. A run of the core alone has
    /// no cursors, and reads only the document.
    Browse,
}

/// The largest number of documents that [`OperationKind::Browse`] reads.
pub const BROWSED: i64 = 5;

/// The batch size of [`OperationKind::Browse`].
pub const BROWSED_AT_ONCE: u32 = 2;

/// The largest number of batches of [`OperationKind::Browse`]. Each batch has an equal share of the
/// time limit.
pub const BROWSED_PARTS: u32 = 3;

/// The limit below which the absence of a caller is drawn, in milliseconds.
const MAX_ABSENCE_MILLIS: u64 = 60_000;

/// One operation of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of the operation.
    pub kind: OperationKind,
    /// The `_id` of the document.
    pub id: i64,
    /// The time limit of the whole operation.
    pub timeout: Duration,
    /// The times at which the caller polls the operation.
    pub polling: Polling,
}

/// The times at which a caller polls its operation. By default it polls the operation whenever that
/// wakes it, until the operation ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polling {
    /// The time after which the caller abandons the operation, or `None`.
    pub patience: Option<Duration>,
    /// The number of polls after which the caller abandons the operation, or `None`.
    pub polls: Option<u32>,
    /// The time during which the caller does not poll the operation, or `None`.
    pub absence: Option<Absence>,
}

impl Polling {
    /// Draws whether and when a caller leaves or abandons its operation. `absences` is a generator
    /// of its own for absences.
    pub(super) fn drawn(rates: Rates, random: &mut Random, absences: &mut Random) -> Self {
        let mut polling = Self::default();
        if rates.cancel > 0 && random.chance(u64::from(rates.cancel), 1000) {
            match random.below(2) {
                0 => polling.polls = Some(1 + u32::try_from(index(random, 6)).unwrap_or(0)),
                // Three of the four bounds are short, so that the operation is often still in
                // progress.
                _ => {
                    let micros = [2_000, 20_000, 200_000, 5_000_000][index(random, 4)];
                    polling.patience = Some(Duration::from_micros(random.below(micros)));
                }
            }
        }
        if rates.unpolled > 0 && absences.chance(u64::from(rates.unpolled), 1000) {
            let millis = [10, 1_000, MAX_ABSENCE_MILLIS][index(absences, 3)];
            polling.absence = Some(Absence {
                after: 1 + u32::try_from(index(absences, 4)).unwrap_or(0),
                time: Duration::from_millis(absences.below(millis)),
            });
        }
        polling
    }
}

/// A time during which a caller does not poll its operation, as a task that is busy with other
/// work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The number of polls after which the absence begins. In a run of the core alone, the number
    /// of the wake-up that the absence delays, from 1.
    pub after: u32,
    /// The length of the absence. The absence ends at `Disaster::Heal` at the latest.
    pub time: Duration,
}

impl Step {
    /// Returns the operation as a command of the core. `of_client` is the read preference of the
    /// client's options.
    pub fn command(&self, of_client: &ReadPreference) -> Result<Command, Error> {
        let namespace = SharedNamespace::new(DATABASE, COLLECTION)?;
        let filter = doc! { "_id": self.id };
        let criteria = SelectionCriteria::from(of_client.clone());
        let handle = DatabaseOptions::builder().selection_criteria(criteria);
        let defaults = Defaults::from(handle.build());
        let concern = WriteConcern::majority();
        match self.kind {
            OperationKind::Insert => {
                let options = InsertOneOptions::builder()
                    .timeout(self.timeout)
                    .write_concern(concern)
                    .build();
                let bytes = document(self.id).into_bytes();
                crud::insert(&namespace, bytes, &options, &defaults)
            }
            OperationKind::Increment => {
                let options = UpdateOptions::builder()
                    .timeout(self.timeout)
                    .write_concern(concern)
                    .build();
                let change = doc! { "$inc": { "n": 1 } }.into();
                crud::update(&namespace, &filter, &change, false, &options, &defaults)
            }
            OperationKind::Find | OperationKind::FindNearby | OperationKind::Browse => {
                let own = self.preference(of_client).map(SelectionCriteria::from);
                let options = FindOptions::builder()
                    .limit(1)
                    .timeout(self.timeout)
                    .selection_criteria(own)
                    .build();
                crud::find(&namespace, &filter, &options, &defaults)
            }
        }
    }

    /// Returns the operation's own read preference. `None` for a read that has the read preference
    /// of the client's options, `of_client`.
    #[must_use]
    pub fn preference(&self, of_client: &ReadPreference) -> Option<ReadPreference> {
        let conditions = of_client.options().cloned();
        match (self.kind, self.id % 4) {
            (OperationKind::Browse, _) => None,
            (OperationKind::FindNearby, 0) => Some(ReadPreference::secondary(conditions)),
            (OperationKind::FindNearby, 1) => Some(ReadPreference::primary_preferred(conditions)),
            (OperationKind::FindNearby, 2) => Some(ReadPreference::nearest(conditions)),
            (OperationKind::FindNearby, _) => Some(ReadPreference::secondary_preferred(conditions)),
            _ => Some(ReadPreference::default()),
        }
    }
}

/// Returns the document that the workload inserts under this `_id`.
#[must_use]
pub fn document(id: i64) -> RawDocumentBuf {
    rawdoc! { "_id": id, "mark": mark(id), "n": 0 }
}

/// Returns the text that identifies the document with an `_id`.
#[must_use]
pub fn mark(id: i64) -> String {
    format!("mark {id} {:016x}", id.wrapping_mul(0x1e37_79b9_7f4a_7c15))
}

/// The ending of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The write was acknowledged.
    Acknowledged,
    /// The read returned this document, or none.
    Found(Option<Document>),
    /// The operation failed.
    Failed(Error),
    /// The caller abandoned the operation.
    Abandoned,
}

/// An operation and its ending.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The index of the client, from 0.
    pub client: usize,
    /// The operation.
    pub step: Step,
    /// The time at which the operation began.
    pub began: Instant,
    /// The time at which the operation ended, and its ending. `None` before the end.
    pub ended: Option<(Instant, Ending)>,
    /// True if the operation began after healing and the time of grace.
    pub is_late: bool,
}

/// Writes the operation in one line, with its ending.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |at: Instant| at.saturating_since(Instant::ZERO).as_secs_f64();
        let Step {
            kind, id, timeout, ..
        } = &self.step;
        write!(
            f,
            "{kind:?} {id} of client {}, begun at {:.3} s with the limit {timeout:?}",
            self.client,
            seconds(self.began)
        )?;
        match &self.ended {
            None => f.write_str(", has not ended"),
            Some((at, Ending::Failed(error))) => write!(f, ", at {:.3} s: {error}", seconds(*at)),
            Some((at, ending)) => write!(f, ", at {:.3} s: {ending:?}", seconds(*at)),
        }
    }
}

/// All operations of a run, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// Adds an operation, and returns its index.
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

    /// Records the ending of the operation with this index.
    pub fn end(&mut self, place: usize, at: Instant, ending: Ending) {
        self.entries[place].ended = Some((at, ending));
    }

    /// Returns all operations.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The endless list of a caller's operations, drawn from the seed.
#[derive(Debug)]
pub struct Script {
    random: Random,
    /// The generator for absences.
    absences: Random,
    rates: Rates,
    work: Work,
    pace: Pace,
    /// The number of operations that were returned.
    done: u64,
    next: i64,
    /// The `_id` of the current document, and the number of operations that were returned for it.
    /// `None` before each new document.
    round: Option<(i64, u64)>,
}

impl Script {
    /// Creates the script of a caller.
    #[must_use]
    pub fn new(options: &WorldOptions, seed: &Seed, client: usize, task: usize) -> Self {
        let caller = client * options.most_tasks() + task;
        let own = options.client(client);
        Self {
            work: own.work.unwrap_or_default(),
            pace: own.pace.unwrap_or_default(),
            done: 0,
            random: seed.split(&format!("caller {caller}")).random(),
            absences: seed.split(&format!("absences {caller}")).random(),
            rates: options.rates,
            next: i64::try_from(caller).unwrap_or(0) * 1_000_000,
            round: None,
        }
    }

    /// Returns the pause of the caller before its next operation. `is_late` is true after the time
    /// of grace.
    pub fn pause(&mut self, is_late: bool) -> Duration {
        let random = &mut self.random;
        let pace = if is_late { Pace::Mixed } else { self.pace };
        let given = pace.pause(self.done, &mut |bound| random.below(bound));
        given.unwrap_or_else(|| pause(&mut self.random))
    }

    /// Returns the next operation. Late operations have long time limits and are not abandoned,
    /// because they must succeed.
    pub fn step(&mut self, is_late: bool) -> Step {
        let (id, done) = self.round.unwrap_or_else(|| {
            self.next += 1;
            (self.next, 0)
        });
        self.done += 1;
        let (kind, last) = match (self.work, done) {
            (_, 0) => (OperationKind::Insert, false),
            (Work::All | Work::Writes, 1) => (OperationKind::Increment, self.work == Work::Writes),
            (Work::All, 2) if id % 3 == 0 => (OperationKind::Browse, false),
            (Work::MostlyReads, 1 | 4) => (OperationKind::Browse, false),
            (Work::All, 2) | (Work::MostlyReads, 2 | 5) => (OperationKind::Find, false),
            (_, done) => (
                OperationKind::FindNearby,
                self.work == Work::All || done == 6,
            ),
        };
        self.round = (!last).then_some((id, done + 1));
        let timeout = Duration::from_millis(match self.random.below(4) {
            _ if is_late => 30_000,
            0 => 20 + self.random.below(500),
            _ => 1_000 + self.random.below(20_000),
        });
        let polling = match is_late {
            true => Polling::default(),
            false => Polling::drawn(self.rates, &mut self.random, &mut self.absences),
        };
        Step {
            kind,
            id,
            timeout,
            polling,
        }
    }
}

/// Draws the pause of a caller before an operation.
pub(super) fn pause(random: &mut Random) -> Duration {
    match random.below(8) {
        0 => Duration::from_millis(random.below(5_000)),
        1..4 => Duration::ZERO,
        _ => Duration::from_millis(random.below(300)),
    }
}

/// Decodes the document that a read returned, if there is one.
pub fn found(document: Option<&bson::RawDocument>) -> Result<Option<Document>, Error> {
    document
        .map(onionskin_core::bson::decode_document)
        .transpose()
}

/// Returns the counter of a document, or `None` if the document has none.
#[must_use]
pub fn counter(document: &Document) -> Option<i64> {
    match document.get("n") {
        Some(Bson::Int32(n)) => Some(i64::from(*n)),
        Some(Bson::Int64(n)) => Some(*n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::{description::Tags, options::ReadMode};

    #[test]
    fn reads_have_the_conditions_of_the_client() {
        let east = Tags::from([("dc".to_owned(), "east".to_owned())]);
        let of_client = ReadPreference::secondary_preferred(None).with_tag_sets(vec![east.clone()]);
        let of_client = of_client.expect("not the primary");
        let own = |kind, id| {
            let step = Step {
                kind,
                id,
                timeout: Duration::from_secs(1),
                polling: Polling::default(),
            };
            step.preference(&of_client)
        };
        assert_eq!(own(OperationKind::Browse, 0), None);
        assert_eq!(own(OperationKind::Find, 0), Some(ReadPreference::Primary));
        for (id, mode) in (0..).zip([
            ReadMode::Secondary,
            ReadMode::PrimaryPreferred,
            ReadMode::Nearest,
            ReadMode::SecondaryPreferred,
        ]) {
            let nearby = own(OperationKind::FindNearby, id).expect("a mode of its own");
            assert_eq!(
                (nearby.mode(), nearby.tag_sets()),
                (mode, &[east.clone()][..])
            );
        }
    }
}
