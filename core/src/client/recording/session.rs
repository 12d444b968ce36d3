//! The inputs about the sessions that applications start, and about their transactions.
//!
//! Of the options of a transaction, an entry has the write concern and the read preference, which
//! decide whether the transaction starts and its reads run.

use super::{
    bytes::{
        Bytes, Unread, put_bytes, put_duration, put_instant, put_number, put_session, put_timestamp,
    },
    command::{preference, put_preference},
};
use crate::{
    client::{Client, attempts::transactions::TransactionEnd},
    operation::{
        ClusterTime, RunLimit, SessionOptions, TransactionOptions, TransactionRun,
        crud::{DatabaseOptions, Defaults},
    },
    options::{Acknowledgment, SelectionCriteria, WriteConcern},
    session::SessionId,
    time::Instant,
};
use bson::{RawDocument, Timestamp};
use std::{sync::Arc, time::Duration};

/// An input about a session of the application.
#[derive(Debug)]
pub(in crate::client) enum SessionInput {
    /// A session was started.
    Start(Box<SessionOptions>),
    /// The operation time of the session was raised.
    AdvanceOperation(SessionId, Timestamp),
    /// The cluster time of the session was raised.
    AdvanceCluster(SessionId, ClusterTime),
    /// A transaction was started, with these options.
    StartTransaction(SessionId, Box<StartOptions>),
    /// A commit or an abort was asked for, with this time limit.
    EndTransaction(SessionId, TransactionEnd, Option<Duration>),
    /// The time limit of a transaction that is run until it succeeds began.
    BeginRun(SessionId, Option<Duration>),
    /// The time limit of such a transaction ended, and this outer one applies again.
    EndRun(SessionId, Option<RunLimit>),
    /// The random number for a pause was drawn.
    Jitter,
}

/// The options of a transaction that starts.
#[derive(Debug)]
pub(in crate::client) struct StartOptions {
    own: TransactionOptions,
    of_client: TransactionOptions,
}

const START: u8 = 1;
const ADVANCE_OPERATION: u8 = 2;
const ADVANCE_CLUSTER: u8 = 3;
const START_TRANSACTION: u8 = 4;
const END_TRANSACTION: u8 = 5;
const BEGIN_RUN: u8 = 6;
const END_RUN: u8 = 7;
const JITTER: u8 = 8;

/// The ends of a transaction, by their places in a recording.
const ENDS: [TransactionEnd; 3] = [
    TransactionEnd::Commit,
    TransactionEnd::Abort,
    TransactionEnd::AbortAtEnd,
];

/// The text in place of the mode of a write concern, which decides nothing.
const CUSTOM_MODE: &str = "custom";

impl SessionInput {
    /// Returns the input of a transaction that starts.
    pub(in crate::client) fn start_transaction(
        session: SessionId,
        own: &TransactionOptions,
        of_client: &Defaults,
    ) -> Self {
        let own = own.clone();
        let of_client = TransactionOptions {
            selection_criteria: of_client.selection_criteria().cloned(),
            write_concern: of_client.write_concern.clone(),
            ..TransactionOptions::default()
        };
        Self::StartTransaction(session, Box::new(StartOptions { own, of_client }))
    }

    /// Writes the input.
    pub(in crate::client) fn put(&self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match self {
            Self::Start(options) => {
                out.push(START);
                put_choice(out, options.causal_consistency);
                put_choice(out, options.snapshot);
                put_timestamp(out, options.snapshot_time);
                put_duration(out, options.default_timeout);
                let of_transactions = options.default_transaction_options.as_ref();
                put_options(out, TransactionOptions::or_unset(of_transactions));
            }
            Self::AdvanceOperation(session, time) => {
                put_head(out, ADVANCE_OPERATION, *session);
                put_timestamp(out, Some(*time));
            }
            Self::AdvanceCluster(session, time) => {
                put_head(out, ADVANCE_CLUSTER, *session);
                put_bytes(out, time.document().as_bytes());
            }
            Self::StartTransaction(session, options) => {
                put_head(out, START_TRANSACTION, *session);
                put_options(out, &options.own);
                put_options(out, &options.of_client);
            }
            Self::EndTransaction(session, end, timeout) => {
                put_head(out, END_TRANSACTION, *session);
                let place = ENDS.iter().position(|one| one == end);
                put_number(out, place.unwrap_or_default() as u64);
                put_duration(out, *timeout);
            }
            Self::BeginRun(session, timeout) => {
                put_head(out, BEGIN_RUN, *session);
                put_duration(out, *timeout);
            }
            Self::EndRun(session, outer) => {
                put_head(out, END_RUN, *session);
                put_duration(out, outer.map(|outer| outer.timeout));
                put_instant(out, outer.and_then(|outer| outer.deadline));
            }
            Self::Jitter => out.push(JITTER),
        }
        Ok(())
    }

    /// Reads an input that [`put`](Self::put) has written.
    pub(super) fn read(input: &mut Bytes<'_>) -> Result<Self, Unread> {
        let what = "the kind of an input about a session";
        Ok(match input.byte(what)? {
            START => Self::Start(Box::new(session_options(input)?)),
            ADVANCE_OPERATION => {
                let (session, what) = (required(input)?, "an operation time");
                let time = input.timestamp()?.ok_or(Unread::Damaged(what))?;
                Self::AdvanceOperation(session, time)
            }
            ADVANCE_CLUSTER => {
                let (session, what) = (required(input)?, "a cluster time");
                let time = RawDocument::from_bytes(input.bytes(what)?).ok();
                let time = time.and_then(ClusterTime::from_document);
                Self::AdvanceCluster(session, time.ok_or(Unread::Damaged(what))?)
            }
            START_TRANSACTION => {
                let session = required(input)?;
                let own = transaction_options(input)?;
                let of_client = transaction_options(input)?;
                Self::StartTransaction(session, Box::new(StartOptions { own, of_client }))
            }
            END_TRANSACTION => {
                let (session, what) = (required(input)?, "the end of a transaction");
                let place = usize::try_from(input.number(what)?).ok();
                let end = place.and_then(|place| ENDS.get(place));
                let end = *end.ok_or(Unread::Damaged(what))?;
                Self::EndTransaction(session, end, input.duration()?)
            }
            BEGIN_RUN => Self::BeginRun(required(input)?, input.duration()?),
            END_RUN => {
                let session = required(input)?;
                let (timeout, deadline) = (input.duration()?, input.instant()?);
                let outer = timeout.map(|timeout| RunLimit { timeout, deadline });
                Self::EndRun(session, outer)
            }
            JITTER => Self::Jitter,
            _ => return Err(Unread::Damaged(what)),
        })
    }

    /// Gives the input to a client.
    pub(super) fn apply(self, client: &mut Client, now: Instant) {
        match self {
            Self::Start(options) => {
                let _ = client.start_session(now, &options);
            }
            Self::AdvanceOperation(session, time) => client.advance_operation_time(session, time),
            Self::AdvanceCluster(session, time) => client.advance_cluster_time(session, &time),
            Self::StartTransaction(session, options) => {
                let StartOptions { own, of_client } = *options;
                let of_client = Defaults::from(DatabaseOptions {
                    selection_criteria: of_client.selection_criteria,
                    write_concern: of_client.write_concern,
                    ..DatabaseOptions::default()
                });
                let _ = client.start_transaction(now, session, &own, &of_client);
            }
            // The entries of the commands follow, so those of the replay are not needed.
            Self::EndTransaction(session, end, timeout) => {
                let _ = client.end_transaction(now, session, end, timeout);
            }
            Self::BeginRun(session, timeout) => {
                let _ = client.begin_transaction_run(now, session, timeout);
            }
            Self::EndRun(session, outer) => {
                let run = TransactionRun::new(now, None).within(outer);
                client.end_transaction_run(session, &run);
            }
            Self::Jitter => {
                let _ = client.jitter();
            }
        }
    }

    /// Returns the input in words.
    pub(super) fn describe(&self) -> String {
        let of = |session: &SessionId| session.parts().0;
        match self {
            Self::Start(_) => "a session of the application is started".to_owned(),
            Self::AdvanceOperation(session, _) => {
                format!("the operation time of session {} is raised", of(session))
            }
            Self::AdvanceCluster(session, _) => {
                format!("the cluster time of session {} is raised", of(session))
            }
            Self::StartTransaction(session, _) => {
                format!("a transaction is started in session {}", of(session))
            }
            Self::EndTransaction(session, end, _) => {
                let end = match end {
                    TransactionEnd::Commit => "committed",
                    TransactionEnd::Abort => "aborted",
                    TransactionEnd::AbortAtEnd => "aborted if it is active",
                };
                format!("the transaction of session {} is to be {end}", of(session))
            }
            Self::BeginRun(session, _) => {
                format!("a repeated transaction of session {} begins", of(session))
            }
            Self::EndRun(session, _) => {
                format!("a repeated transaction of session {} ends", of(session))
            }
            Self::Jitter => "a random number for a pause is drawn".to_owned(),
        }
    }
}

fn put_head(out: &mut Vec<u8>, kind: u8, session: SessionId) {
    out.push(kind);
    put_session(out, Some(session));
}

fn required(input: &mut Bytes<'_>) -> Result<SessionId, Unread> {
    let what = "the id of a session";
    input.session()?.ok_or(Unread::Damaged(what))
}

/// Writes a choice: 0 for none, 1 for no, 2 for yes.
fn put_choice(out: &mut Vec<u8>, choice: Option<bool>) {
    out.push(choice.map_or(0, |choice| 1 + u8::from(choice)));
}

fn choice(input: &mut Bytes<'_>) -> Result<Option<bool>, Unread> {
    let what = "an option of a session";
    match input.byte(what)? {
        0 => Ok(None),
        1 => Ok(Some(false)),
        2 => Ok(Some(true)),
        _ => Err(Unread::Damaged(what)),
    }
}

fn session_options(input: &mut Bytes<'_>) -> Result<SessionOptions, Unread> {
    Ok(SessionOptions {
        causal_consistency: choice(input)?,
        snapshot: choice(input)?,
        snapshot_time: input.timestamp()?,
        default_timeout: input.duration()?,
        default_transaction_options: Some(transaction_options(input)?),
    })
}

fn put_options(out: &mut Vec<u8>, options: &TransactionOptions) {
    put_concern(out, options.write_concern.as_ref());
    let criteria = options.selection_criteria.as_ref();
    // A function counts as its read preference.
    put_preference(out, criteria.map(SelectionCriteria::read_preference));
}

fn transaction_options(input: &mut Bytes<'_>) -> Result<TransactionOptions, Unread> {
    let write_concern = concern(input)?;
    let preference = preference(input)?.map(Arc::unwrap_or_clone);
    Ok(TransactionOptions {
        write_concern,
        selection_criteria: preference.map(SelectionCriteria::from),
        ..TransactionOptions::default()
    })
}

/// Writes the parts of a write concern that decide whether it is valid and acknowledged.
fn put_concern(out: &mut Vec<u8>, concern: Option<&WriteConcern>) {
    let Some(concern) = concern else {
        out.push(0);
        return;
    };
    match &concern.w {
        None => out.push(1),
        Some(Acknowledgment::Nodes(members)) => {
            out.push(2);
            put_number(out, (*members).into());
        }
        Some(Acknowledgment::Majority) => out.push(3),
        Some(Acknowledgment::Custom(_)) => out.push(4),
    }
    put_choice(out, concern.journal);
}

fn concern(input: &mut Bytes<'_>) -> Result<Option<WriteConcern>, Unread> {
    let what = "a write concern";
    let w = match input.byte(what)? {
        0 => return Ok(None),
        1 => None,
        2 => {
            let members = u32::try_from(input.number(what)?);
            Some(Acknowledgment::Nodes(
                members.map_err(|_| Unread::Damaged(what))?,
            ))
        }
        3 => Some(Acknowledgment::Majority),
        4 => Some(Acknowledgment::Custom(CUSTOM_MODE.to_owned())),
        _ => return Err(Unread::Damaged(what)),
    };
    let journal = choice(input)?;
    Ok(Some(WriteConcern {
        w,
        journal,
        ..WriteConcern::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ReadPreference;
    use bson::rawdoc;

    fn session() -> SessionId {
        SessionId::from_parts(300, 2)
    }

    /// Returns inputs of each kind.
    fn inputs() -> Vec<SessionInput> {
        let time = Timestamp {
            time: 7,
            increment: 200,
        };
        let limit = Some(Duration::from_millis(1500));
        let options = TransactionOptions::builder()
            .write_concern(WriteConcern::nodes(70_000))
            .selection_criteria(SelectionCriteria::from(ReadPreference::nearest(None)))
            .build();
        let of_session = SessionOptions::builder()
            .snapshot(true)
            .causal_consistency(false)
            .snapshot_time(time)
            .default_timeout(Duration::from_nanos(5))
            .default_transaction_options(options.clone())
            .build();
        let of_client = Defaults::from(DatabaseOptions {
            write_concern: Some(WriteConcern::majority()),
            ..DatabaseOptions::default()
        });
        let cluster = ClusterTime::from_document(&rawdoc! { "clusterTime": time });
        let outer = RunLimit {
            timeout: Duration::from_secs(1),
            deadline: Some(Instant::from_nanos(9)),
        };
        let mut inputs = vec![
            SessionInput::Start(Box::default()),
            SessionInput::Start(Box::new(of_session)),
            SessionInput::AdvanceOperation(session(), time),
            SessionInput::AdvanceCluster(session(), cluster.expect("a time")),
            SessionInput::start_transaction(session(), &options, &of_client),
            SessionInput::BeginRun(session(), limit),
            SessionInput::EndRun(session(), Some(outer)),
            SessionInput::EndRun(session(), None),
            SessionInput::Jitter,
        ];
        let ends = ENDS.map(|end| SessionInput::EndTransaction(session(), end, limit));
        inputs.extend(ends);
        inputs
    }

    fn written(input: &SessionInput) -> Vec<u8> {
        let mut bytes = Vec::new();
        input.put(&mut bytes).expect("it is kept");
        bytes
    }

    #[test]
    fn each_input_is_read_as_it_was_written() {
        for input in inputs() {
            let bytes = written(&input);
            let mut rest = Bytes(&bytes);
            let read = SessionInput::read(&mut rest).expect("it is whole");
            assert!(rest.0.is_empty(), "{input:?}");
            assert_eq!(written(&read), bytes);
            match (&input, &read) {
                (SessionInput::Start(input), SessionInput::Start(read)) => {
                    assert_eq!(input.snapshot_time, read.snapshot_time);
                    assert_eq!(input.default_timeout, read.default_timeout);
                }
                _ => assert_eq!(input.describe(), read.describe()),
            }
        }
    }

    #[test]
    fn an_input_that_is_cut_off_is_refused_by_name() {
        for input in inputs() {
            let bytes = written(&input);
            for length in 0..bytes.len() {
                let read = SessionInput::read(&mut Bytes(&bytes[..length]));
                assert!(
                    matches!(read, Err(Unread::Damaged(_))),
                    "{input:?} {length}"
                );
            }
        }
    }

    #[test]
    fn unknown_kinds_and_ids_are_refused() {
        for bytes in [
            &[0][..],
            &[9],
            &[BEGIN_RUN, 0, 0],
            &[END_TRANSACTION, 1, 0, 3, 0],
        ] {
            let read = SessionInput::read(&mut Bytes(bytes));
            assert!(matches!(read, Err(Unread::Damaged(_))), "{bytes:?}");
        }
        let mut other = written(&SessionInput::Start(Box::default()));
        other[1] = 3;
        assert!(SessionInput::read(&mut Bytes(&other)).is_err());
    }
}
