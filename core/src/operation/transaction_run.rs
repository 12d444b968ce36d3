//! The decisions about a transaction that is run until it succeeds (Convenient API for
//! Transactions).

use super::{RunLimit, backoff::share};
use crate::{
    error::{Error, ErrorKind, Label, MAX_TIME_EXPIRED, Wait},
    time::Instant,
};
use std::time::Duration;

/// The time within which a transaction is repeated, if no time limit is set. Not an option.
pub const TRANSACTION_RUN_LIMIT: Duration = Duration::from_secs(120);

/// Two thirds of the longest pause before the second attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A transaction that is run until it succeeds or its time is over.
///
/// The shell calls [`begin`](Self::begin), pauses, starts the transaction and calls the function of
/// the application. After an error it aborts the transaction if that is active, and asks
/// [`after_failure`](Self::after_failure). After a success it commits, and asks
/// [`after_commit`](Self::after_commit) if that fails.
///
/// ```
/// use onionskin_core::{error::{Error, Label}, operation::{TransactionRun, Repeat}, time::Instant};
///
/// let mut run = TransactionRun::new(Instant::ZERO, None);
/// run.begin(Instant::ZERO, 0).expect("there is time");
/// let conflict = Error::transaction("conflict").with_label(Label::TransientTransactionError);
/// assert_eq!(run.after_failure(Instant::ZERO, conflict), Ok(Repeat::Transaction));
/// assert!(run.after_failure(Instant::ZERO, Error::transaction("other")).is_err());
/// ```
#[derive(Debug)]
pub struct TransactionRun {
    began: Instant,
    /// The time limit that the application has set; zero for none.
    timeout: Option<Duration>,
    attempts: u32,
    last: Option<Error>,
    /// The limit of the run of the same session within which this one runs.
    outer: Option<RunLimit>,
}

/// The part of a run that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The whole transaction.
    Transaction,
    /// The commit.
    Commit,
}

impl TransactionRun {
    /// Returns a run that begins now. `timeout` is the time limit of the session or the client;
    /// zero means no limit, and `None` means 120 s.
    #[must_use]
    pub const fn new(now: Instant, timeout: Option<Duration>) -> Self {
        Self {
            began: now,
            timeout,
            attempts: 0,
            last: None,
            outer: None,
        }
    }

    /// Returns the run with the limit of the run within which it runs.
    pub(crate) const fn within(mut self, outer: Option<RunLimit>) -> Self {
        self.outer = outer;
        self
    }

    pub(crate) const fn outer(&self) -> Option<RunLimit> {
        self.outer
    }

    /// Returns the time limit that the application has set as a deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = self.timeout.filter(|timeout| !timeout.is_zero());
        timeout.map(|timeout| self.began + timeout)
    }

    /// Begins the next attempt. Returns the pause before it, which is zero for the first attempt,
    /// and later random up to a maximum that grows from 7.5 ms to 500 ms. `jitter` is a random
    /// number. Fails if the pause would last until the end of the time.
    pub fn begin(&mut self, now: Instant, jitter: u64) -> Result<Duration, Error> {
        let attempts = self.attempts;
        self.attempts = attempts.saturating_add(1);
        if attempts == 0 {
            return Ok(Duration::ZERO);
        }
        let pause = share(longest_pause(attempts), jitter);
        match self.last.take() {
            Some(last) if self.is_over(now + pause) => Err(self.out_of_time(last)),
            _ => Ok(pause),
        }
    }

    /// Decides what follows an error of the application's function, once the transaction was
    /// aborted.
    pub fn after_failure(&mut self, now: Instant, error: Error) -> Result<Repeat, Error> {
        if !error.has_label(&Label::TransientTransactionError) {
            return Err(error);
        }
        if self.is_over(now) {
            return Err(self.out_of_time(error));
        }
        self.last = Some(error);
        Ok(Repeat::Transaction)
    }

    /// Decides what follows a commit that failed.
    pub fn after_commit(&mut self, now: Instant, error: Error) -> Result<Repeat, Error> {
        let is_unknown = error.has_label(&Label::UnknownTransactionCommitResult);
        if is_unknown && error.code() != Some(MAX_TIME_EXPIRED) {
            return match self.is_over(now) || self.is_too_late(&error) {
                true => Err(self.out_of_time(error)),
                false => Ok(Repeat::Commit),
            };
        }
        if error.has_label(&Label::TransientTransactionError) {
            self.last = Some(error);
            return Ok(Repeat::Transaction);
        }
        Err(error)
    }

    fn is_over(&self, now: Instant) -> bool {
        let limit = self.timeout.unwrap_or(TRANSACTION_RUN_LIMIT);
        !limit.is_zero() && now.saturating_since(self.began) >= limit
    }

    /// True if a commit was not sent, because too little of the time limit remained. Until it has
    /// passed, the next commit to the same server would fail at once as well, again and again
    /// without a pause.
    fn is_too_late(&self, error: &Error) -> bool {
        let wait = match error.kind() {
            ErrorKind::Timeout { wait, .. } => Some(*wait),
            _ => None,
        };
        self.deadline().is_some() && wait == Some(Wait::CheckOut)
    }

    fn out_of_time(&self, last: Error) -> Error {
        if last.is_timeout() {
            return last;
        }
        let limit = self.timeout.unwrap_or(TRANSACTION_RUN_LIMIT).as_millis();
        let message = format!(
            "the transaction did not succeed within {limit} ms; the last of its {} failures was: \
             {last}",
            self.attempts,
        );
        let labels = last.labels().clone();
        Error::timeout(Wait::Transaction, message)
            .with_labels(&labels)
            .with_cause(last)
    }
}

/// Returns the longest pause after this number of attempts: 5 ms times a power of 1.5, and 500 ms
/// at most.
fn longest_pause(attempts: u32) -> Duration {
    let mut longest = FIRST_PAUSE;
    for _ in 0..attempts {
        longest = longest * 3 / 2;
        if longest >= LONGEST_PAUSE {
            return LONGEST_PAUSE;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn transient() -> Error {
        Error::transaction("conflict").with_label(Label::TransientTransactionError)
    }

    fn unknown() -> Error {
        Error::transaction("lost").with_label(Label::UnknownTransactionCommitResult)
    }

    #[test]
    fn pauses_grow_by_half_up_to_500_ms() {
        assert_eq!(longest_pause(1), 7_500 * Duration::from_micros(1));
        assert_eq!(longest_pause(2), 11_250 * Duration::from_micros(1));
        assert!(longest_pause(11) < 500 * MS);
        assert_eq!(longest_pause(12), 500 * MS);
        assert_eq!(longest_pause(u32::MAX), 500 * MS);
    }

    /// Returns the sum of the pauses of 13 retries with this jitter.
    fn pauses_of_13_retries(jitter: u64) -> Duration {
        let mut run = TransactionRun::new(Instant::ZERO, None);
        let mut pauses = Duration::ZERO;
        for _ in 0..13 {
            pauses += run.begin(Instant::ZERO, jitter).expect("there is time");
            assert_eq!(
                run.after_failure(Instant::ZERO, transient()),
                Ok(Repeat::Transaction)
            );
        }
        pauses + run.begin(Instant::ZERO, jitter).expect("there is time")
    }

    /// Convenient transactions prose test *Retry Backoff is Enforced*: the sum of 13 backoffs is
    /// about 2.3 s, within half a second, if the jitter is nearly one, and zero without jitter.
    #[test]
    fn repetitions_of_a_transaction_pause_before_they_begin() {
        let (without, with) = (pauses_of_13_retries(0), pauses_of_13_retries(u64::MAX));
        assert_eq!(without, Duration::ZERO);
        assert!((without + 2_300 * MS).abs_diff(with) < 500 * MS, "{with:?}");
    }

    #[test]
    fn a_run_without_a_time_limit_ends_after_120_seconds_with_the_labels_of_the_last_error() {
        let mut run = TransactionRun::new(Instant::ZERO, None);
        run.begin(Instant::ZERO, 0).expect("there is time");
        let late = Instant::ZERO + TRANSACTION_RUN_LIMIT;
        let before = Instant::ZERO + (TRANSACTION_RUN_LIMIT - MS);
        assert_eq!(run.after_commit(before, unknown()), Ok(Repeat::Commit));
        let over = run
            .after_failure(late, transient())
            .expect_err("it is late");
        assert!(over.is_timeout() && over.has_label(&Label::TransientTransactionError));
        let over = run.after_commit(late, unknown()).expect_err("it is late");
        assert!(over.is_timeout() && over.has_label(&Label::UnknownTransactionCommitResult));
    }

    #[test]
    fn a_time_limit_of_zero_never_ends_a_run() {
        let mut run = TransactionRun::new(Instant::ZERO, Some(Duration::ZERO));
        assert_eq!(run.deadline(), None);
        let late = Instant::ZERO + TRANSACTION_RUN_LIMIT * 1_000;
        assert_eq!(run.after_commit(late, unknown()), Ok(Repeat::Commit));
    }

    #[test]
    fn a_commit_that_was_not_sent_for_want_of_time_is_not_repeated() {
        let early = || {
            Error::timeout(Wait::CheckOut, "shorter than a round trip")
                .with_label(Label::UnknownTransactionCommitResult)
        };
        let mut run = TransactionRun::new(Instant::ZERO, Some(MS));
        assert_eq!(run.after_commit(Instant::ZERO, early()), Err(early()));
        let mut endless = TransactionRun::new(Instant::ZERO, Some(Duration::ZERO));
        let again = endless.after_commit(Instant::ZERO, early());
        assert_eq!(again, Ok(Repeat::Commit));
    }

    #[test]
    fn a_commit_that_exceeded_its_time_on_the_server_is_not_repeated() {
        let reply = bson::rawdoc! { "ok": 0, "code": 50, "errmsg": "late" };
        let fault = crate::error::CommandError::from_reply(&reply);
        let error =
            Error::new(ErrorKind::Command(fault)).with_label(Label::UnknownTransactionCommitResult);
        let mut run = TransactionRun::new(Instant::ZERO, None);
        assert!(run.after_commit(Instant::ZERO, error).is_err());
    }
}
