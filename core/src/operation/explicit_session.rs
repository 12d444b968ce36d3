//! The sessions that applications start, with the times that they have seen.

use super::{ClusterTime, MAX_RECOVERY_TOKEN_BYTES, Transaction, TransactionOptions};
use crate::{error::Error, options::options, time::Instant};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};
use onionskin_bson::fields;
use std::{sync::Arc, time::Duration};

options! { ($)
    /// The options of a session that an application starts (Driver Sessions Specification,
    /// *SessionOptions*). All are unset by default.
    ///
    /// ```
    /// use bson::Timestamp;
    /// use onionskin_core::operation::{SessionOptions, TransactionOptions};
    /// use onionskin_core::options::WriteConcern;
    /// use std::time::Duration;
    ///
    /// let durable = TransactionOptions::builder().write_concern(WriteConcern::majority()).build();
    /// let options = SessionOptions::builder()
    ///     .default_transaction_options(durable)
    ///     .default_timeout(Duration::from_secs(10))
    ///     .snapshot(true)
    ///     .snapshot_time(Timestamp { time: 1_767_268_800, increment: 0 })
    ///     .build();
    /// assert!(options.check().is_ok());
    /// let both = SessionOptions::builder().snapshot(true).causal_consistency(true).build();
    /// assert!(both.check().is_err());
    /// ```
    SessionOptions, built by SessionOptionsBuilder, listed by session_options => {
        /// Sets whether reads see the effects of earlier operations of the session. Default: true,
        /// unless `snapshot` is true.
        causal_consistency: bool => Kept "causalConsistency",
        /// Sets the time limit of commits, aborts and transactions that are run until they succeed
        /// (Client Side Operations Timeout, *defaultTimeoutMS*). Zero means no limit. Default:
        /// `timeoutMS` of the client.
        default_timeout: Duration => Kept "defaultTimeoutMS" as "crate::options::millis",
        /// Sets the options of transactions that set none themselves. Default: those of the client.
        default_transaction_options: TransactionOptions => Kept "defaultTransactionOptions",
        /// Sets whether all reads see the data of one point in time, which is that of the first
        /// read or `snapshot_time`. Default: false.
        snapshot: bool => Kept "snapshot",
        /// Sets the point in time of a snapshot session, for example the `snapshot_time` of another
        /// session, so that both see the same data. Default: that of its first read.
        snapshot_time: Timestamp => Kept "snapshotTime",
    }
}

impl SessionOptions {
    /// Fails if a snapshot session is to be causally consistent, or if a session without snapshot
    /// has the time of one (Snapshot Reads Specification, *Session Options*).
    ///
    /// ```
    /// use onionskin_core::operation::SessionOptions;
    ///
    /// let both = SessionOptions::builder().snapshot(true).causal_consistency(true).build();
    /// assert!(both.check().is_err());
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        let is_snapshot = self.snapshot == Some(true);
        if is_snapshot && self.causal_consistency == Some(true) {
            let message = "causal consistency and snapshot reads exclude each other; choose one";
            return Err(Error::argument(message));
        }
        if !is_snapshot && self.snapshot_time.is_some() {
            let message = "a snapshot time needs a snapshot session; set `snapshot` to true";
            return Err(Error::argument(message));
        }
        Ok(())
    }
}

/// The state of a session that an application has started.
#[derive(Debug, Default)]
pub(crate) struct ExplicitSession {
    is_causal: bool,
    is_snapshot: bool,
    /// The latest `operationTime` of a reply, or that the application has set.
    operation_time: Option<Timestamp>,
    /// The latest `$clusterTime` of a reply, or that the application has set.
    pub(crate) cluster_time: Option<Arc<ClusterTime>>,
    /// The time of all reads of a snapshot session; `None` before the first.
    snapshot_time: Option<Timestamp>,
    pub(crate) transaction: Transaction,
    /// The options of transactions that set none themselves.
    pub(crate) default_transaction: Option<TransactionOptions>,
    /// The time limit of commits, aborts and repeated transactions.
    pub(crate) default_timeout: Option<Duration>,
    /// The time limit of a transaction that is repeated until it succeeds, while that runs.
    pub(crate) run: Option<RunLimit>,
}

/// The time limit of a transaction that is repeated until it succeeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunLimit {
    /// The limit, which an abort has for itself, because it begins when the time can be over. Zero
    /// means no limit.
    pub(crate) timeout: Duration,
    /// The deadline of all other operations of the session; `None` for no limit.
    pub(crate) deadline: Option<Instant>,
}

impl ExplicitSession {
    pub(crate) fn new(options: &SessionOptions) -> Self {
        let is_snapshot = options.snapshot.unwrap_or(false);
        Self {
            is_causal: options.causal_consistency.unwrap_or(!is_snapshot),
            is_snapshot,
            snapshot_time: options.snapshot_time,
            default_transaction: options
                .default_transaction_options
                .as_ref()
                .map(TransactionOptions::kept),
            default_timeout: options.default_timeout,
            ..Self::default()
        }
    }

    pub(crate) const fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Returns the time limit of a commit or an abort for which none was set.
    pub(crate) fn end_timeout(&self) -> Option<Duration> {
        self.run.map(|run| run.timeout).or(self.default_timeout)
    }

    /// Forgets the cluster time, which a server has refused.
    pub(crate) fn forget_cluster_time(&mut self) {
        self.cluster_time = None;
    }

    /// Returns the part of the read concern that a command of the session sends.
    pub(crate) const fn read_concern(&self) -> SessionReadConcern {
        match (self.is_snapshot, self.is_causal) {
            (true, _) => SessionReadConcern::Snapshot(self.snapshot_time),
            (false, true) => match self.operation_time {
                Some(time) => SessionReadConcern::After(time),
                None => SessionReadConcern::Nothing,
            },
            (false, false) => SessionReadConcern::Nothing,
        }
    }

    /// Keeps the times of a reply, if they are later.
    pub(crate) fn note(&mut self, times: &ReplyTimes, cluster_time: Option<&ClusterTime>) {
        if let Some(time) = times.operation {
            self.advance_operation_time(time);
        }
        if let Some(time) = cluster_time {
            self.advance_cluster_time(time);
        }
        if self.is_snapshot && self.snapshot_time.is_none() {
            self.snapshot_time = times.snapshot;
        }
    }

    /// Keeps a time, if it is later.
    pub(crate) fn advance_operation_time(&mut self, time: Timestamp) {
        self.operation_time = self.operation_time.max(Some(time));
    }

    /// Keeps a time, if it is later.
    pub(crate) fn advance_cluster_time(&mut self, time: &ClusterTime) {
        if time.is_after(self.cluster_time.as_deref()) {
            self.cluster_time = Some(Arc::new(time.clone()));
        }
    }
}

/// The times that a session has seen.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionTimes {
    /// The latest operation time; `None` before the first reply that has one.
    pub operation: Option<Timestamp>,
    /// The latest cluster time; `None` before the first reply that has one.
    pub cluster: Option<Arc<ClusterTime>>,
    /// The time of the reads of a snapshot session; `None` before the first read.
    pub snapshot: Option<Timestamp>,
}

impl ExplicitSession {
    pub(crate) fn times(&self) -> SessionTimes {
        SessionTimes {
            operation: self.operation_time,
            cluster: self.cluster_time.clone(),
            snapshot: self.snapshot_time,
        }
    }
}

/// The part of the read concern of a command that its session decides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum SessionReadConcern {
    /// No part.
    #[default]
    Nothing,
    /// `afterClusterTime` of a causally consistent session.
    After(Timestamp),
    /// The level `snapshot`, and `atClusterTime` if the session has its time.
    Snapshot(Option<Timestamp>),
}

/// The part of a reply that a session of the application keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReplyTimes {
    pub(crate) operation: Option<Timestamp>,
    /// The `atClusterTime` of the reply or of its cursor.
    pub(crate) snapshot: Option<Timestamp>,
    /// The `recoveryToken` of a transaction.
    pub(crate) recovery_token: Option<RawDocumentBuf>,
}

impl ReplyTimes {
    pub(crate) fn read(reply: &RawDocument) -> Self {
        let mut times = Self::default();
        for field in fields(reply).filter_map(Result::ok) {
            match (field.name_bytes(), field.value()) {
                (b"operationTime", Ok(RawBsonRef::Timestamp(time))) => times.operation = Some(time),
                (b"atClusterTime", Ok(RawBsonRef::Timestamp(time))) => times.snapshot = Some(time),
                (b"recoveryToken", Ok(RawBsonRef::Document(token)))
                    if token.as_bytes().len() <= MAX_RECOVERY_TOKEN_BYTES =>
                {
                    times.recovery_token = Some(token.to_owned());
                }
                (b"cursor", Ok(RawBsonRef::Document(cursor))) => {
                    let at = cursor.get_timestamp("atClusterTime").ok();
                    times.snapshot = times.snapshot.or(at);
                }
                _ => {}
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn at(time: u32) -> Timestamp {
        Timestamp { time, increment: 0 }
    }

    #[test]
    fn a_causal_session_reads_after_its_latest_operation_time() {
        let mut session = ExplicitSession::new(&SessionOptions::default());
        assert_eq!(session.read_concern(), SessionReadConcern::Nothing);
        for time in [5, 7, 6] {
            let times = ReplyTimes::read(&rawdoc! { "operationTime": at(time), "ok": 1 });
            session.note(&times, None);
        }
        assert_eq!(session.read_concern(), SessionReadConcern::After(at(7)));
    }

    #[test]
    fn a_snapshot_session_keeps_the_time_of_its_first_read() {
        let options = SessionOptions::builder().snapshot(true).build();
        let mut session = ExplicitSession::new(&options);
        assert_eq!(session.read_concern(), SessionReadConcern::Snapshot(None));
        for reply in [
            rawdoc! { "cursor": { "atClusterTime": at(5) }, "operationTime": at(9), "ok": 1 },
            rawdoc! { "values": [], "atClusterTime": at(6), "ok": 1 },
        ] {
            session.note(&ReplyTimes::read(&reply), None);
        }
        let expected = SessionReadConcern::Snapshot(Some(at(5)));
        assert_eq!(session.read_concern(), expected);
    }
}
