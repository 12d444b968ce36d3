//! Strategies for errors of operations and of new connections.

use super::{addresses, reply::topology_versions};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use onionskin_core::{
    address::Address,
    error::{
        Argument, CommandError, Error, ErrorKind, InsertManyError, Label, Labels, NetworkFault,
        TlsFault, TopologyVersion, Wait,
    },
    unstable::sdam::Phase,
};
use proptest::prelude::*;

/// An error, and the phase of its connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The phase in which the error happened.
    pub phase: Phase,
    /// The cause of the error, such as a timeout or a reply.
    pub cause: Cause,
    /// True if the pool added the label `SystemOverloadedError` (SDAM-105). A server can add the
    /// same label to its reply.
    pub overloaded: bool,
}

/// The cause of an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The connection broke, or could not be made.
    Network(NetworkFault),
    /// There was no reply within the time limit.
    Timeout,
    /// TLS failed, for example because of the server's certificate.
    Tls(TlsFault),
    /// The server sent something that is not a valid message.
    Nonsense,
    /// A reply with an error, with `ok: 0` or `ok: 1`.
    Reply(RawDocumentBuf),
    /// A reply with `ok: 0` to a step of authentication.
    Refused(RawDocumentBuf),
    /// An error that the client raised itself.
    Client(ClientCause),
}

/// Errors that the client raises itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCause {
    /// The pool was cleared while the operation waited for a connection.
    PoolCleared,
    /// No connection became available in time.
    WaitQueueTimeout,
    /// The operation requested a connection from a closed pool.
    PoolClosed,
    /// An argument of the caller is not valid.
    Argument,
}

impl Failure {
    /// Returns the reply, if the error came with one.
    #[must_use]
    pub fn reply(&self) -> Option<&RawDocument> {
        match &self.cause {
            Cause::Reply(reply) | Cause::Refused(reply) => Some(reply),
            _ => None,
        }
    }

    /// True if the pool or the server added the label `SystemOverloadedError`.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        let label = |reply: &RawDocument| {
            let labels = reply.get_array("errorLabels").ok();
            let mut names = labels.into_iter().flatten().flatten();
            names.any(|name| name.as_str() == Some("SystemOverloadedError"))
        };
        self.overloaded || self.reply().is_some_and(label)
    }

    /// Returns the error that the driver raises for this cause, or `None` if the driver raises none
    /// for the reply.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        let mut error = match &self.cause {
            Cause::Network(fault) => Error::network(*fault, "the connection broke"),
            Cause::Timeout => Error::timeout(self.wait(), "no answer in time"),
            Cause::Tls(fault) => Error::new(ErrorKind::Tls {
                fault: *fault,
                message: "no trust".to_owned(),
            }),
            Cause::Nonsense => Error::protocol("not a message"),
            Cause::Reply(reply) => Error::new(if is_ok(reply) {
                ErrorKind::InsertMany(InsertManyError::from_reply(reply).ok()??)
            } else {
                ErrorKind::Command(CommandError::from_reply(reply))
            })
            .with_labels(&Labels::from_reply(reply)),
            Cause::Refused(reply) => Error::new(ErrorKind::Authentication {
                mechanism: "SCRAM-SHA-256",
                message: "refused".to_owned(),
                cause: Some(Box::new(CommandError::from_reply(reply))),
            })
            .with_labels(&Labels::from_reply(reply)),
            Cause::Client(cause) => Error::new(cause.kind()),
        };
        if self.overloaded {
            error = error.with_label(Label::SystemOverloadedError);
        }
        Some(error)
    }

    fn wait(&self) -> Wait {
        match self.phase {
            Phase::Proxy | Phase::Hello => Wait::Connect,
            Phase::Authentication => Wait::Handshake,
            Phase::Operation => Wait::Exchange,
        }
    }
}

impl ClientCause {
    fn kind(self) -> ErrorKind {
        let message = "the client's own doing".to_owned();
        match self {
            Self::PoolCleared => ErrorKind::ConnectionPoolCleared { message },
            Self::WaitQueueTimeout => ErrorKind::WaitQueueTimeout { message },
            Self::PoolClosed => ErrorKind::PoolClosed { message },
            Self::Argument => ErrorKind::InvalidArgument {
                argument: Argument::Call,
                message,
            },
        }
    }
}

fn is_ok(reply: &RawDocument) -> bool {
    matches!(reply.get_i32("ok"), Ok(1))
}

/// An error at a server, with the age of its connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// The address of the server.
    pub server: Address,
    /// The number of generations by which the connection is older than its pool.
    pub age: u64,
    /// The error, with the phase in which it happened.
    pub failure: Failure,
}

/// Returns a strategy for sequences of errors at a few servers. Most errors are on connections of
/// the pool's current generation.
pub fn incident_histories() -> impl Strategy<Value = Vec<Incident>> {
    let age = prop_oneof![4 => Just(0), 1 => 1_u64..3];
    let incident = (addresses(), age, failures()).prop_map(|(server, age, failure)| Incident {
        server,
        age,
        failure,
    });
    prop::collection::vec(incident, 1..30)
}

/// Returns a strategy for errors of every phase, for example network errors, timeouts, TLS errors,
/// and replies with and without the codes of state change errors.
pub fn failures() -> impl Strategy<Value = Failure> {
    prop_oneof![
        4 => (phases(), network(), any::<bool>()).prop_map(|(phase, cause, overloaded)| {
            // The pool adds its label only to errors of connecting and of hello (SDAM-105).
            let overloaded = overloaded && phase == Phase::Hello;
            Failure { phase, cause, overloaded }
        }),
        1 => (young_phases(), tls_faults()).prop_map(|(phase, fault)| Failure {
            phase,
            cause: Cause::Tls(fault),
            overloaded: false,
        }),
        1 => phases().prop_map(|phase| Failure {
            phase,
            cause: Cause::Tls(TlsFault::Broken),
            overloaded: false,
        }),
        1 => young_phases().prop_map(|phase| Failure {
            phase,
            cause: Cause::Nonsense,
            overloaded: false,
        }),
        6 => replies().prop_map(|reply| Failure {
            phase: Phase::Operation,
            cause: Cause::Reply(reply),
            overloaded: false,
        }),
        2 => (young_phases(), refusals()).prop_map(|(phase, reply)| Failure {
            phase,
            cause: Cause::Reply(reply),
            overloaded: false,
        }),
        1 => refusals().prop_map(|reply| Failure {
            phase: Phase::Authentication,
            cause: Cause::Refused(reply),
            overloaded: false,
        }),
        1 => (phases(), client_causes()).prop_map(|(phase, cause)| Failure {
            phase,
            cause: Cause::Client(cause),
            overloaded: false,
        }),
    ]
}

fn phases() -> impl Strategy<Value = Phase> {
    let often = [Phase::Operation; 3];
    let young = [Phase::Authentication, Phase::Hello, Phase::Proxy];
    prop::sample::select([often, young].concat())
}

fn young_phases() -> impl Strategy<Value = Phase> {
    prop::sample::select(vec![Phase::Proxy, Phase::Hello, Phase::Authentication])
}

fn network() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::Network(NetworkFault::Reset)),
        Just(Cause::Network(NetworkFault::Refused)),
        Just(Cause::Network(NetworkFault::NotResolved)),
        Just(Cause::Timeout),
    ]
}

fn tls_faults() -> impl Strategy<Value = TlsFault> {
    prop_oneof![
        Just(TlsFault::Certificate),
        Just(TlsFault::Revoked),
        Just(TlsFault::HostName),
        Just(TlsFault::Handshake),
    ]
}

fn client_causes() -> impl Strategy<Value = ClientCause> {
    prop_oneof![
        Just(ClientCause::PoolCleared),
        Just(ClientCause::WaitQueueTimeout),
        Just(ClientCause::PoolClosed),
        Just(ClientCause::Argument),
    ]
}

/// The code and the text of an error. Each may be missing.
#[derive(Clone, Debug)]
struct Words {
    code: Option<Number>,
    text: Option<&'static str>,
}

/// The number types in which a server may send a code.
#[derive(Clone, Copy, Debug)]
enum Number {
    Small(i32),
    Large(i32),
    Floating(i32),
}

impl Words {
    fn into_document(self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        self.append_to(&mut document);
        document
    }

    fn append_to(&self, document: &mut RawDocumentBuf) {
        match self.code {
            Some(Number::Small(code)) => document.append(bson::cstr!("code"), code),
            Some(Number::Large(code)) => document.append(bson::cstr!("code"), i64::from(code)),
            Some(Number::Floating(code)) => document.append(bson::cstr!("code"), f64::from(code)),
            None => {}
        }
        if let Some(text) = self.text {
            document.append(bson::cstr!("errmsg"), text);
        }
    }
}

fn codes() -> impl Strategy<Value = Number> {
    let code = prop_oneof![
        // State change errors: node is recovering (SDAM-89), not writable primary (SDAM-90), and
        // node is shutting down (SDAM-91).
        8 => prop::sample::select(vec![11600, 91, 11602, 13436, 189, 10107, 13435, 10058]),
        // Transient errors that do not change a server description (SDAM-110), and other codes.
        4 => prop::sample::select(vec![0, 1, 6, 7, 18, 89, 9001, 64]),
    ];
    (code, 0..8).prop_map(|(code, form)| match form {
        0 => Number::Large(code),
        1 => Number::Floating(code),
        _ => Number::Small(code),
    })
}

fn words() -> impl Strategy<Value = Words> {
    let text = prop::sample::select(vec![
        "not master",
        "not master or secondary",
        "node is recovering",
        "(not master) while doing so",
        "Not Master",
        "bad luck",
    ]);
    let text = prop::option::weighted(0.7, text);
    (prop::option::weighted(0.7, codes()), text).prop_map(|(code, text)| Words { code, text })
}

/// Returns a strategy for replies with an error of a command, a write concern or single writes.
fn replies() -> impl Strategy<Value = RawDocumentBuf> {
    prop_oneof![4 => refusals(), 2 => write_concern_errors(), 1 => write_errors()]
}

fn refusals() -> impl Strategy<Value = RawDocumentBuf> {
    let labels = prop::option::weighted(
        0.15,
        prop::sample::select(vec!["SystemOverloadedError", "RetryableWriteError"]),
    );
    (words(), versions(), labels).prop_map(|(words, version, label)| {
        let mut reply = rawdoc! { "ok": 0 };
        words.append_to(&mut reply);
        append_version(&mut reply, version);
        if let Some(label) = label {
            let mut labels = RawArrayBuf::new();
            labels.push(label);
            reply.append(bson::cstr!("errorLabels"), labels);
        }
        reply
    })
}

fn write_concern_errors() -> impl Strategy<Value = RawDocumentBuf> {
    (words(), versions()).prop_map(|(words, version)| {
        let mut reply = rawdoc! { "ok": 1, "n": 1 };
        reply.append(bson::cstr!("writeConcernError"), words.into_document());
        append_version(&mut reply, version);
        reply
    })
}

fn write_errors() -> impl Strategy<Value = RawDocumentBuf> {
    (words(), versions()).prop_map(|(words, version)| {
        let mut error = rawdoc! { "index": 0 };
        words.append_to(&mut error);
        let mut errors = RawArrayBuf::new();
        errors.push(error);
        let mut reply = rawdoc! { "ok": 1, "n": 0 };
        reply.append(bson::cstr!("writeErrors"), errors);
        append_version(&mut reply, version);
        reply
    })
}

fn versions() -> impl Strategy<Value = Option<TopologyVersion>> {
    prop::option::weighted(0.6, topology_versions())
}

fn append_version(reply: &mut RawDocumentBuf, version: Option<TopologyVersion>) {
    if let Some(version) = version {
        reply.append(
            bson::cstr!("topologyVersion"),
            rawdoc! { "processId": version.process_id, "counter": version.counter },
        );
    }
}
