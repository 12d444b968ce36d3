//! Transactions that append to lists and read them.
//!
//! No value is appended twice. So a list tells the order of its writers, and the whole history
//! tells whether the transactions were isolated from each other: [`ListHistory::json_lines`] is
//! the form that checkers such as Elle read.

use super::{Application, LATE_LIMIT, Left, SimRuntime, database_of};
use crate::world::{options::index, report::FailureKind};
use bson::{Bson, Document, doc};
use onionskin::{
    ClientSession,
    options::{ReadConcern, TransactionOptions, WriteConcern},
};
use onionskin_core::{
    error::{Error, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    random::Random,
    time::Instant,
};
use std::{collections::BTreeMap, fmt::Write as _, future::IntoFuture as _, time::Duration};

/// The collection of the lists.
pub(super) const COLLECTION: &str = "lists";

/// The number of lists that transactions use at the same time.
const ACTIVE: usize = 4;

/// The number of values after which a list is no longer used.
const LENGTH: usize = 24;

/// The largest number of accesses of a transaction.
const ACCESSES: usize = 4;

/// The code of an error about two transactions that write the same document.
const WRITE_CONFLICT: i32 = 112;

/// Longer than the longest pause before a transaction is repeated.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The number of times that a commit whose outcome is not known is sent.
const COMMITS: usize = 3;

/// An access of a transaction to a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// An appended value.
    Append {
        /// The `_id` of the list.
        list: i64,
        /// The value.
        value: i64,
    },
    /// A read of the whole list.
    Read {
        /// The `_id` of the list.
        list: i64,
        /// The values of the list; `None` before they are known.
        found: Option<Vec<i64>>,
    },
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The transaction was committed.
    Committed,
    /// The transaction was not committed, and never will be.
    Aborted,
    /// The transaction was committed or not.
    Unknown,
}

#[derive(Clone, Debug)]
struct Transaction {
    /// The number of the process, which has no other transaction at the same time.
    process: usize,
    began: Instant,
    accesses: Vec<Access>,
    /// True once a commit can have been sent.
    commits: bool,
    ended: Option<(Instant, Outcome)>,
}

/// The transactions on lists of a run.
#[derive(Clone, Debug, Default)]
pub struct ListHistory {
    transactions: Vec<Transaction>,
    /// The beginnings (true) and the ends of the transactions, in their order.
    order: Vec<(usize, bool)>,
    /// The lists that are in use, with the number of values that were appended to each.
    active: Vec<(i64, usize)>,
    lists: i64,
    values: i64,
    processes: usize,
}

/// The lists in the data: their `_id`s and values.
pub(super) type Lists = BTreeMap<i64, Vec<i64>>;

/// Returns the values of a list.
fn values(document: &Document) -> Vec<i64> {
    let values = document.get_array("values").into_iter().flatten();
    values.filter_map(Bson::as_i64).collect()
}

/// Returns the lists in documents.
pub(super) fn stored(documents: &[Document]) -> Lists {
    let list = |document: &Document| Some((document.get_i64("_id").ok()?, values(document)));
    documents.iter().filter_map(list).collect()
}

impl ListHistory {
    /// Draws the accesses of a transaction.
    fn draw(&mut self, random: &mut Random) -> Vec<Access> {
        let count = 1 + index(random, ACCESSES);
        let accesses = (0..count).map(|_| {
            self.active.retain(|(_, length)| *length < LENGTH);
            while self.active.len() < ACTIVE {
                self.lists += 1;
                self.active.push((self.lists, 0));
            }
            let place = index(random, ACTIVE);
            let (list, length) = &mut self.active[place];
            if random.chance(1, 2) {
                return Access::Read {
                    list: *list,
                    found: None,
                };
            }
            *length += 1;
            self.values += 1;
            Access::Append {
                list: *list,
                value: self.values,
            }
        });
        accesses.collect()
    }

    fn new_process(&mut self) -> usize {
        self.processes += 1;
        self.processes - 1
    }

    fn begin(&mut self, now: Instant, process: usize, accesses: Vec<Access>) -> usize {
        self.transactions.push(Transaction {
            process,
            began: now,
            accesses,
            commits: false,
            ended: None,
        });
        let place = self.transactions.len() - 1;
        self.order.push((place, true));
        place
    }

    fn end(&mut self, now: Instant, place: usize, outcome: Outcome) {
        self.transactions[place].ended = Some((now, outcome));
        self.order.push((place, false));
    }

    /// Returns the number of transactions that were committed.
    #[must_use]
    pub fn committed(&self) -> usize {
        let ended = self.transactions.iter().filter_map(|t| t.ended);
        ended
            .filter(|(_, outcome)| *outcome == Outcome::Committed)
            .count()
    }

    /// Returns the history as lines of JSON, in the form that checkers of list-append histories
    /// such as Elle read: `invoke` for each transaction that began, and `ok`, `fail` or `info` for
    /// each that was committed, aborted, or has an unknown outcome. Times are in nanoseconds.
    #[must_use]
    pub fn json_lines(&self) -> String {
        let mut text = String::new();
        for &(place, is_begin) in &self.order {
            let transaction = &self.transactions[place];
            let (at, kind) = match transaction.ended {
                _ if is_begin => (transaction.began, "invoke"),
                Some((at, Outcome::Committed)) => (at, "ok"),
                Some((at, Outcome::Aborted)) => (at, "fail"),
                Some((at, Outcome::Unknown)) => (at, "info"),
                None => continue,
            };
            let value: Vec<String> = transaction
                .accesses
                .iter()
                .map(|access| access.json(kind == "ok"))
                .collect();
            let (process, time) = (transaction.process, at.since_start().as_nanos());
            let value = value.join(",");
            let _ = writeln!(
                text,
                "{{\"type\":\"{kind}\",\"process\":{process},\"time\":{time},\"value\":[{value}]}}"
            );
        }
        text
    }

    /// Checks that each transaction took effect once and as a whole, or not at all.
    pub(super) fn check(&self, lists: &Lists) -> Result<(), String> {
        let mut places: BTreeMap<(i64, i64), usize> = BTreeMap::new();
        for (list, values) in lists {
            for value in values {
                *places.entry((*list, *value)).or_default() += 1;
            }
        }
        for transaction in &self.transactions {
            let mut counts = transaction
                .accesses
                .iter()
                .filter_map(|access| match access {
                    Access::Append { list, value } => {
                        Some(places.remove(&(*list, *value)).unwrap_or_default())
                    }
                    Access::Read { .. } => None,
                });
            let Some(first) = counts.next() else { continue };
            let is_whole = counts.all(|count| count == first) && first <= 1;
            let is_right = match transaction.ended {
                Some((_, Outcome::Committed)) => first == 1,
                Some((_, Outcome::Aborted)) => first == 0,
                Some((_, Outcome::Unknown)) | None => true,
            };
            if !is_whole || !is_right {
                return Err(format!(
                    "the lists {lists:?} do not have the effect of {transaction:?}"
                ));
            }
        }
        match places.first_key_value() {
            None => Ok(()),
            Some(((list, value), _)) => Err(format!("nobody appended {value} to list {list}")),
        }
    }

    /// Adds a transaction that reads all lists as they are at the end.
    pub(super) fn finish(&mut self, now: Instant, lists: Lists) {
        if lists.is_empty() {
            return;
        }
        let process = self.new_process();
        let reads = lists.into_iter().map(|(list, values)| Access::Read {
            list,
            found: Some(values),
        });
        let place = self.begin(now, process, reads.collect());
        self.end(now, place, Outcome::Committed);
    }

    /// Returns the lists whose first access began after this time.
    pub(super) fn begun_after(&self, at: Instant) -> impl Iterator<Item = i64> {
        let mut firsts: BTreeMap<i64, Instant> = BTreeMap::new();
        for transaction in &self.transactions {
            for access in &transaction.accesses {
                firsts.entry(access.list()).or_insert(transaction.began);
            }
        }
        let later = firsts.into_iter().filter(move |(_, began)| *began > at);
        later.map(|(list, _)| list)
    }
}

impl Access {
    const fn list(&self) -> i64 {
        match self {
            Self::Append { list, .. } | Self::Read { list, .. } => *list,
        }
    }

    /// Returns the access as JSON, with or without what was read.
    fn json(&self, shows_found: bool) -> String {
        match self {
            Self::Append { list, value } => format!("[\"append\",{list},{value}]"),
            Self::Read {
                list,
                found: Some(found),
            } if shows_found => format!("[\"r\",{list},{found:?}]"),
            Self::Read { list, .. } => format!("[\"r\",{list},null]"),
        }
    }
}

/// Returns the options of all transactions.
pub(super) fn options() -> TransactionOptions {
    TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .write_concern(WriteConcern::majority())
        .build()
}

/// Runs the accesses in a transaction that has begun.
async fn access(
    session: &mut Session,
    accesses: &mut [Access],
    has_shards: bool,
    limit: Option<Duration>,
) -> Result<(), Error> {
    let client = session.client();
    for access in accesses {
        let database = client.database(database_of(has_shards, access.list()));
        let lists = database.collection::<Document>(COLLECTION);
        match access {
            Access::Append { list, value } => {
                let push = doc! { "$push": { "values": *value } };
                let update = lists.update_one(doc! { "_id": *list }, push).upsert(true);
                let update = match limit {
                    Some(limit) => update.timeout(limit),
                    None => update,
                };
                update.session(session).await?;
            }
            Access::Read { list, found } => {
                let find = lists.find_one(doc! { "_id": *list });
                let find = match limit {
                    Some(limit) => find.timeout(limit),
                    None => find,
                };
                let document = find.session(session).await?;
                *found = Some(document.as_ref().map(values).unwrap_or_default());
            }
        }
    }
    Ok(())
}

type Session = ClientSession<SimRuntime>;

/// The end of a transaction, with what it has read.
type Ended = (Outcome, Vec<Access>);

impl Application {
    pub(super) async fn change_lists(mut self) {
        // The session, and the number of its process: a session sees its own transactions.
        let mut used: Option<(Session, usize)> = None;
        while let Some(is_late) = self.next_step().await {
            let limit = self.limit(is_late);
            let (mut session, process) = match used.take() {
                Some(used) => used,
                None => {
                    let start = self.client.start_session().into_future();
                    let session = match self.attempt("a session", limit, true, start).await {
                        Ok(session) => session,
                        Err(left) if self.goes_on(&left, true) => continue,
                        Err(_) => return,
                    };
                    let mut state = self.runtime.shared.lock();
                    (session, state.applications.lists.new_process())
                }
            };
            // After healing, the client repeats the transaction until it succeeds.
            let repeats = is_late || self.random.chance(1, 2);
            let (place, accesses) = {
                let mut state = self.runtime.shared.lock();
                let now = state.now;
                let lists = &mut state.applications.lists;
                let accesses = lists.draw(&mut self.random);
                (lists.begin(now, process, accesses.clone()), accesses)
            };
            let ended = if repeats {
                // The abort after the limit has the same limit again.
                let longest = limit * 2;
                let run = repeat(self.context(place), &mut session, accesses, limit);
                let ended = self.attempt("a repeated transaction", longest, is_late, run);
                let ended = ended.await;
                self.judge_repeated(&ended, place, limit);
                ended
            } else {
                // Each access, each commit and the abort have a limit of their own.
                let longest = limit * u32::try_from(accesses.len() + COMMITS + 1).unwrap_or(1);
                let run = run_once(self.context(place), &mut session, accesses, limit);
                self.attempt("a transaction", longest, is_late, run).await
            };
            self.note(format_args!(
                "ends transaction {place}: {:?}",
                ended.as_ref().ok()
            ));
            let mut state = self.runtime.shared.lock();
            let now = state.now;
            let lists = &mut state.applications.lists;
            let commits = lists.transactions[place].commits;
            let (outcome, next) = match ended {
                Ok((outcome, accesses)) => {
                    lists.transactions[place].accesses = accesses;
                    (outcome, None)
                }
                Err(left) if commits => (Outcome::Unknown, Some(left)),
                Err(left) => (Outcome::Aborted, Some(left)),
            };
            lists.end(now, place, outcome);
            drop(state);
            if next.is_none() && outcome != Outcome::Unknown && self.random.chance(7, 8) {
                used = Some((session, process));
            }
            if next.is_some_and(|left| !self.goes_on(&left, is_late)) {
                return;
            }
        }
    }

    /// Checks that a transaction was repeated until its limit, if its last error allowed that.
    fn judge_repeated(&self, ended: &Result<Ended, Left>, place: usize, limit: Duration) {
        let Err(Left::Failed(error)) = ended else {
            return;
        };
        let is_repeatable = error.contains_label(TRANSIENT_TRANSACTION_ERROR)
            || error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT)
            || error.is_network()
            || error.is_server_selection()
            || error.is_pool_cleared()
            || error.code() == Some(WRITE_CONFLICT);
        let mut state = self.runtime.shared.lock();
        let began = state.applications.lists.transactions[place].began;
        // A commit is not repeated after `MaxTimeMSExpired`, or without time for a round trip.
        let is_over = error.is_timeout() && !error.is_server_selection();
        if is_repeatable && !is_over && state.now + LONGEST_PAUSE < began + limit {
            let number = self.number;
            let message = format!("a transaction was not repeated: client {number}: {error:?}");
            state.fail(FailureKind::Correctness, message);
        }
    }

    fn context(&self, place: usize) -> Context {
        Context {
            runtime: self.runtime.clone(),
            place,
            has_shards: self.has_shards,
        }
    }
}

/// The place of a transaction in the history.
struct Context {
    runtime: SimRuntime,
    place: usize,
    /// True if there are several shards.
    has_shards: bool,
}

impl Context {
    /// Records that a commit can be sent from now on.
    fn commits(&self) {
        let mut state = self.runtime.shared.lock();
        state.applications.lists.transactions[self.place].commits = true;
    }
}

/// Runs a transaction once. Each of its calls has this time limit.
async fn run_once(
    context: Context,
    session: &mut Session,
    mut accesses: Vec<Access>,
    limit: Duration,
) -> Result<Ended, Error> {
    session.start_transaction().with_options(options()).await?;
    if let Err(error) = access(session, &mut accesses, context.has_shards, Some(limit)).await {
        // A failed abort is no failure: the server ends the transaction by itself.
        let _ = session.abort_transaction().timeout(limit).await;
        return Err(error);
    }
    context.commits();
    for _ in 0..COMMITS {
        match session.commit_transaction().timeout(limit).await {
            Ok(()) => return Ok((Outcome::Committed, accesses)),
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {}
            Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => {
                return Ok((Outcome::Aborted, accesses));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((Outcome::Unknown, accesses))
}

/// Runs a transaction until it succeeds or the time limit passes.
async fn repeat(
    context: Context,
    session: &mut Session,
    accesses: Vec<Access>,
    limit: Duration,
) -> Result<Ended, Error> {
    context.commits();
    let has_shards = context.has_shards;
    let transaction = session.start_transaction().with_options(options());
    let run = transaction
        .timeout(limit.min(LATE_LIMIT))
        .and_run(accesses, |session, accesses| {
            Box::pin(async move {
                access(session, accesses, has_shards, None).await?;
                Ok(accesses.clone())
            })
        });
    let accesses = run.await?;
    Ok((Outcome::Committed, accesses))
}
