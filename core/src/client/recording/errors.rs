//! Errors and the assessments of replies in a recording. Texts in which a server or a library can
//! repeat data of the application are left out, unless a decision depends on them.

use super::bytes::{Bytes, Unread, put_bytes, put_number, put_timestamp};
use crate::{
    error::{
        Argument, BsonError, CommandError, DnsFailure, Error, ErrorKind, InsertManyError, IoError,
        Label, Labels, NetworkFault, TlsFault, TopologyVersion, Wait,
    },
    operation::{Assessment, ClusterTime, CommandKind, ReplyTimes, refuses_cluster_time},
    options::AuthMechanism,
    sdam::words_of_state_change,
};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, cstr, rawdoc};
use std::time::Duration;

/// The faults of the network, by their numbers in a recording.
const FAULTS: [NetworkFault; 8] = [
    NetworkFault::Refused,
    NetworkFault::Closed,
    NetworkFault::Reset,
    NetworkFault::Unreachable,
    NetworkFault::NotResolved,
    NetworkFault::OutOfSockets,
    NetworkFault::ProxyAuthentication,
    NetworkFault::Other,
];

/// The steps that can take too long, by their numbers in a recording.
const WAITS: [Wait; 7] = [
    Wait::Selection,
    Wait::CheckOut,
    Wait::Connect,
    Wait::Handshake,
    Wait::Queue,
    Wait::Exchange,
    Wait::Transaction,
];

/// The failures of DNS lookups, by their numbers in a recording.
const DNS_FAILURES: [DnsFailure; 5] = [
    DnsFailure::NoSuchName,
    DnsFailure::NoRecords,
    DnsFailure::Refused,
    DnsFailure::Unreachable,
    DnsFailure::Malformed,
];

/// The faults of TLS, by their numbers in a recording.
const TLS_FAULTS: [TlsFault; 6] = [
    TlsFault::Certificate,
    TlsFault::Revoked,
    TlsFault::HostName,
    TlsFault::Handshake,
    TlsFault::Configuration,
    TlsFault::Broken,
];

/// The largest number of write errors that are kept of one reply.
const MAX_KEPT_WRITE_ERRORS: usize = 16;

/// The text of an error whose own text is left out.
const LEFT_OUT: &str = "(the text was not recorded)";

fn place<T: PartialEq>(all: &[T], wanted: &T) -> u64 {
    all.iter().position(|one| one == wanted).unwrap_or(0) as u64
}

fn at<T: Copy>(all: &[T], input: &mut Bytes<'_>, what: &'static str) -> Result<T, Unread> {
    let place = usize::try_from(input.number(what)?).ok();
    let found = place.and_then(|place| all.get(place));
    found.copied().ok_or(Unread::Damaged(what))
}

/// Returns the labels of an error that have a meaning to the driver. Others can have data of the
/// application, and decide nothing.
pub(super) fn known_labels(error: &Error) -> impl Iterator<Item = &Label> {
    let labels = error.labels().iter();
    labels.filter(|label| !matches!(label, Label::Other(_)))
}

/// Returns the number of an error's kind, for digests and entries.
pub(super) fn kind_number(kind: &ErrorKind) -> u8 {
    match kind {
        ErrorKind::Io(_) => 1,
        ErrorKind::Tls { .. } => 27,
        ErrorKind::Timeout { .. } => 2,
        ErrorKind::InvalidResponse { .. } => 3,
        ErrorKind::ConnectionPoolCleared { .. } => 4,
        ErrorKind::Interrupted { .. } => 5,
        ErrorKind::InvalidArgument { .. } => 6,
        ErrorKind::Bson(_) => 7,
        ErrorKind::Limit { .. } => 8,
        ErrorKind::Shutdown => 9,
        ErrorKind::Runtime { .. } => 10,
        ErrorKind::Abandoned => 11,
        ErrorKind::SessionsNotSupported => 12,
        ErrorKind::PoolClosed { .. } => 13,
        ErrorKind::WaitQueueTimeout { .. } => 14,
        ErrorKind::Command(_) => 15,
        ErrorKind::InsertMany(_) => 16,
        ErrorKind::Write(_) => 17,
        ErrorKind::BulkWrite(_) => 18,
        ErrorKind::ServerSelection { .. } => 19,
        ErrorKind::IncompatibleServer { .. } => 20,
        ErrorKind::Discovery { .. } => 21,
        ErrorKind::Transaction { .. } => 22,
        ErrorKind::GridFs(_) => 23,
        ErrorKind::MissingResumeToken => 24,
        ErrorKind::Custom(_) => 25,
        ErrorKind::DnsResolve { .. } => 26,
        ErrorKind::Authentication { .. } => 28,
    }
}

/// Writes an error that an input brings. Fails for a kind that such errors seldom have.
pub(super) fn put_error(out: &mut Vec<u8>, error: &Error) -> Result<(), &'static str> {
    out.push(kind_number(error.kind()));
    match error.kind() {
        ErrorKind::Io(IoError { fault, message, .. }) => {
            put_number(out, place(&FAULTS, fault));
            put_bytes(out, message.as_bytes());
        }
        ErrorKind::Timeout { wait, message } => {
            put_number(out, place(&WAITS, wait));
            put_bytes(out, message.as_bytes());
        }
        ErrorKind::DnsResolve { failure, message } => {
            put_number(out, place(&DNS_FAILURES, failure));
            put_bytes(out, message.as_bytes());
        }
        ErrorKind::Tls { fault, .. } => put_number(out, place(&TLS_FAULTS, fault)),
        ErrorKind::Authentication { cause, .. } => put_code(out, cause.as_deref()),
        // Without a code, or in a refusal of a cluster time, the text can decide.
        ErrorKind::Command(fault) if fault.code != 0 && !refuses_cluster_time(error) => {
            put_code(out, Some(fault));
        }
        ErrorKind::Interrupted { message }
        | ErrorKind::Runtime { message }
        | ErrorKind::PoolClosed { message }
        | ErrorKind::WaitQueueTimeout { message } => put_bytes(out, message.as_bytes()),
        // The text of a cleared pool has that of the error because of which it was cleared.
        ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::InvalidResponse { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::Bson(_)
        | ErrorKind::Limit { .. }
        | ErrorKind::Shutdown
        | ErrorKind::Abandoned
        | ErrorKind::SessionsNotSupported => {}
        _ => return Err("an error of this kind"),
    }
    put_number(out, known_labels(error).count() as u64);
    for label in known_labels(error) {
        put_bytes(out, label.name().as_bytes());
    }
    Ok(())
}

/// Reads an error that [`put_error`] has written.
pub(super) fn error(input: &mut Bytes<'_>) -> Result<Error, Unread> {
    let what = "the kind of an error";
    let number = input.byte(what)?;
    let kind = match number {
        1 => {
            let fault = at(&FAULTS, input, "a fault of the network")?;
            ErrorKind::Io(IoError::new(fault, text(input)?))
        }
        2 => ErrorKind::Timeout {
            wait: at(&WAITS, input, "the step of a timeout")?,
            message: text(input)?,
        },
        4 => ErrorKind::ConnectionPoolCleared {
            message: LEFT_OUT.to_owned(),
        },
        5 => ErrorKind::Interrupted {
            message: text(input)?,
        },
        10 => ErrorKind::Runtime {
            message: text(input)?,
        },
        13 => ErrorKind::PoolClosed {
            message: text(input)?,
        },
        14 => ErrorKind::WaitQueueTimeout {
            message: text(input)?,
        },
        3 => ErrorKind::InvalidResponse {
            message: LEFT_OUT.to_owned(),
        },
        6 => ErrorKind::InvalidArgument {
            argument: Argument::Call,
            message: LEFT_OUT.to_owned(),
        },
        7 => ErrorKind::Bson(BsonError::new(LEFT_OUT, "")),
        8 => ErrorKind::Limit {
            what: LEFT_OUT,
            limit: 0,
            actual: 0,
        },
        9 => ErrorKind::Shutdown,
        11 => ErrorKind::Abandoned,
        12 => ErrorKind::SessionsNotSupported,
        15 => ErrorKind::Command(fault(input)?),
        27 => ErrorKind::Tls {
            fault: at(&TLS_FAULTS, input, "a fault of TLS")?,
            message: LEFT_OUT.to_owned(),
        },
        28 => {
            let cause = Some(fault(input)?).filter(|cause| cause.code != 0);
            ErrorKind::Authentication {
                mechanism: AuthMechanism::ScramSha256.name(),
                message: LEFT_OUT.to_owned(),
                cause: cause.map(Box::new),
            }
        }
        26 => ErrorKind::DnsResolve {
            failure: at(&DNS_FAILURES, input, "the failure of a lookup")?,
            message: text(input)?,
        },
        _ => return Err(Unread::Damaged(what)),
    };
    let mut labels = Labels::default();
    for _ in 0..input.number("the number of labels")? {
        labels.insert(Label::from_name(input.text("a label")?));
    }
    Ok(Error::new(kind).with_labels(&labels))
}

/// Writes the code of an error reply; 0 for none.
fn put_code(out: &mut Vec<u8>, fault: Option<&CommandError>) {
    let code = fault.map_or(0, |fault| fault.code);
    put_number(out, code.cast_unsigned().into());
}

fn fault(input: &mut Bytes<'_>) -> Result<CommandError, Unread> {
    let what = "the code of an error";
    let code = u32::try_from(input.number(what)?).map_err(|_| Unread::Damaged(what))?;
    let reply = rawdoc! { "ok": 0, "code": code.cast_signed(), "errmsg": LEFT_OUT };
    Ok(CommandError::from_reply(&reply))
}

fn text(input: &mut Bytes<'_>) -> Result<String, Unread> {
    Ok(input.text("the text of an error")?.to_owned())
}

/// Writes the assessment of a reply: as a reply that has only what decisions depend on.
pub(super) fn put_assessment(
    out: &mut Vec<u8>,
    assessment: Option<&Assessment>,
) -> Result<(), &'static str> {
    let Some(assessment) = assessment else {
        out.push(0);
        return Ok(());
    };
    if let Err(error) = &assessment.result
        && matches!(error.kind(), ErrorKind::InvalidResponse { .. })
    {
        out.push(2);
        let time = assessment.cluster_time.as_ref();
        put_bytes(out, time.map_or(&[][..], |time| time.document().as_bytes()));
    } else {
        out.push(1);
        put_bytes(out, reduced(assessment)?.as_bytes());
    }
    put_times(out, assessment.times.as_deref());
    Ok(())
}

/// Writes the times of a reply in a session of the application. Of a recovery token, which decides
/// nothing, only its presence is kept.
fn put_times(out: &mut Vec<u8>, times: Option<&ReplyTimes>) {
    out.push(times.is_some().into());
    if let Some(times) = times {
        put_timestamp(out, times.operation);
        put_timestamp(out, times.snapshot);
        out.push(times.recovery_token.is_some().into());
    }
}

fn times(input: &mut Bytes<'_>) -> Result<Option<Box<ReplyTimes>>, Unread> {
    let what = "the times of a reply";
    let is_set = |number: u8| match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Unread::Damaged(what)),
    };
    if !is_set(input.byte(what)?)? {
        return Ok(None);
    }
    let (operation, snapshot) = (input.timestamp()?, input.timestamp()?);
    let has_token = is_set(input.byte(what)?)?;
    Ok(Some(Box::new(ReplyTimes {
        operation,
        snapshot,
        recovery_token: has_token.then(RawDocumentBuf::new),
    })))
}

/// Reads an assessment that [`put_assessment`] has written.
pub(super) fn assessment(
    input: &mut Bytes<'_>,
    kind: CommandKind,
) -> Result<Option<Assessment>, Unread> {
    let what = "the assessment of a reply";
    let mut assessment = match input.byte(what)? {
        0 => return Ok(None),
        1 => {
            let reply = RawDocument::from_bytes(input.bytes(what)?);
            let reply = reply.map_err(|_| Unread::Damaged(what))?;
            // The time was later than that of the command, or it would not have been kept.
            Assessment::new(reply, kind, None)
        }
        2 => {
            let mut malformed = Assessment::malformed(LEFT_OUT);
            let time = input.bytes(what)?;
            if !time.is_empty() {
                let time = RawDocument::from_bytes(time).ok();
                let time = time.and_then(ClusterTime::from_document);
                malformed.cluster_time = Some(time.ok_or(Unread::Damaged(what))?);
            }
            malformed
        }
        _ => return Err(Unread::Damaged(what)),
    };
    assessment.times = times(input)?;
    Ok(Some(assessment))
}

/// Returns a reply with the same assessment that has no other fields.
fn reduced(assessment: &Assessment) -> Result<RawDocumentBuf, &'static str> {
    let mut reply = RawDocumentBuf::new();
    let failure = assessment.result.as_ref().err();
    let error = failure.or(assessment.for_topology.as_ref());
    let mut is_ok = true;
    match error.map(Error::kind) {
        None => {}
        Some(ErrorKind::Command(fault)) => {
            is_ok = false;
            let is_refusal = error.is_some_and(refuses_cluster_time);
            put_command_error(&mut reply, fault, is_refusal);
        }
        Some(ErrorKind::InsertMany(all)) => put_write_errors(&mut reply, all),
        Some(_) => return Err("an error of this kind"),
    }
    reply.append(cstr!("ok"), i32::from(is_ok));
    if let Some(error) = error.filter(|error| known_labels(error).next().is_some()) {
        let names = known_labels(error).map(|label| label.name().to_owned());
        reply.append(cstr!("errorLabels"), names.collect::<RawArrayBuf>());
    }
    if let Some(time) = &assessment.cluster_time {
        reply.append(cstr!("$clusterTime"), time.document().to_owned());
    }
    Ok(reply)
}

/// Appends the error of a command. `is_refusal` is true if the server refused the `$clusterTime`.
fn put_command_error(reply: &mut RawDocumentBuf, fault: &CommandError, is_refusal: bool) {
    reply.append(cstr!("code"), fault.code);
    reply.append(cstr!("codeName"), fault.code_name.as_str());
    if is_refusal {
        // The text says whether the command began.
        reply.append(cstr!("errmsg"), fault.message.as_str());
    } else if fault.code == 0 {
        put_state_change(reply, &fault.message);
    }
    put_facts(reply, fault.topology_version, fault.base_backoff);
}

/// Appends the words of an error without a code that report a state change. The rest of its text
/// can have data of the application.
fn put_state_change(reply: &mut RawDocumentBuf, message: &str) {
    if let Some(words) = words_of_state_change(message) {
        reply.append(cstr!("errmsg"), words);
    }
}

fn put_write_errors(reply: &mut RawDocumentBuf, all: &InsertManyError) {
    reply.append(cstr!("n"), all.written);
    if !all.errors().is_empty() {
        let kept = all.errors().iter().take(MAX_KEPT_WRITE_ERRORS);
        let kept = kept.map(|error| {
            let mut entry = rawdoc! { "code": error.code };
            if let Ok(index) = i32::try_from(error.index) {
                entry.append(cstr!("index"), index);
            }
            entry
        });
        reply.append(cstr!("writeErrors"), kept.collect::<RawArrayBuf>());
    }
    if let Some(concern) = &all.write_concern_error {
        let mut entry = rawdoc! { "code": concern.code, "codeName": concern.code_name.as_str() };
        if concern.code == 0 {
            put_state_change(&mut entry, &concern.message);
        }
        reply.append(cstr!("writeConcernError"), entry);
    }
    put_facts(reply, all.topology_version, all.base_backoff);
}

fn put_facts(
    reply: &mut RawDocumentBuf,
    version: Option<TopologyVersion>,
    backoff: Option<Duration>,
) {
    if let Some(TopologyVersion {
        process_id,
        counter,
    }) = version
    {
        let version = rawdoc! { "processId": process_id, "counter": counter };
        reply.append(cstr!("topologyVersion"), version);
    }
    if let Some(backoff) = backoff {
        let millis = i64::try_from(backoff.as_millis()).unwrap_or(i64::MAX);
        reply.append(cstr!("baseBackoffMS"), millis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::Timestamp;

    #[test]
    fn the_text_of_a_server_in_that_of_a_cleared_pool_is_left_out() {
        let message = "the pool was cleared because of: a secret".to_owned();
        let cleared = Error::new(ErrorKind::ConnectionPoolCleared { message });
        let mut bytes = Vec::new();
        put_error(&mut bytes, &cleared).expect("it is kept");
        let read = error(&mut Bytes(&bytes)).expect("it is whole");
        assert!(!read.to_string().contains("a secret"), "{read}");
        assert!(matches!(
            read.kind(),
            ErrorKind::ConnectionPoolCleared { .. }
        ));
    }

    #[test]
    fn a_malformed_reply_keeps_its_cluster_time() {
        let time = Timestamp {
            time: 1,
            increment: 2,
        };
        let time = ClusterTime::from_document(&rawdoc! { "clusterTime": time });
        assert!(time.is_some());
        for time in [time, None] {
            let mut malformed = Assessment::malformed("a field is malformed");
            malformed.cluster_time = time;
            let mut bytes = Vec::new();
            put_assessment(&mut bytes, Some(&malformed)).expect("it is kept");
            let read = assessment(&mut Bytes(&bytes), CommandKind::Write);
            let read = read.expect("it is whole").expect("there is one");
            let error = read.result.expect_err("the reply is malformed");
            assert!(matches!(error.kind(), ErrorKind::InvalidResponse { .. }));
            assert_eq!(read.cluster_time, malformed.cluster_time);
        }
    }
}
