//! Tests of connections that cannot be established: which errors may mean overload, and what they
//! do to the server and its pool.

use super::*;
use crate::{
    description::ServerType,
    error::{ErrorKind, Label, TlsFault, Wait},
    event::{PoolEvent, SdamEvent},
};
use std::time::Duration;

/// A failure of a new connection.
enum ConnectionFailure {
    /// The adapter reports this error.
    Failure(Error),
    /// The server sends these bytes.
    Bytes(Vec<u8>),
    /// The server replies to the last request with this document.
    Reply(RawDocumentBuf),
    /// The server closes the connection.
    End,
    /// Nothing happens for this time.
    Silence(Duration),
}

use ConnectionFailure::{Bytes, End, Failure, Reply, Silence};

fn fault(fault: NetworkFault) -> ConnectionFailure {
    Failure(Error::network(fault, "it did not work"))
}

fn tls(fault: TlsFault) -> ConnectionFailure {
    let message = "it did not work".to_owned();
    Failure(ErrorKind::Tls { fault, message }.into())
}

/// The consequences for an operation that waited for the connection, and for the server.
#[derive(Debug, PartialEq)]
struct Consequences {
    error: ErrorKind,
    /// True if the error has the labels `SystemOverloadedError` and `RetryableError`.
    is_labelled: bool,
    /// The number of pool cleared events.
    cleared: usize,
    /// True if the server became `Unknown`.
    is_unknown: bool,
}

/// Runs the first connection for an operation until the connection sends `command`, and lets the
/// connection fail there. If `command` is empty, the connection fails in its dial.
fn attempt(options: &str, command: &str, connection_failure: ConnectionFailure) -> Consequences {
    let uri = format!("mongodb://user:pencil@a/?replicaSet=rs&retryReads=false{options}");
    let mut world = World::with_subscriptions(&uri, primary(), Subscriptions::all());
    while world.client.poll_event().is_some() {}
    let Progress::Waiting(id) = world.client.start(world.now, find()) else {
        panic!("there is no connection yet");
    };
    let (socket, request) = run_until_command(&mut world, command);
    match connection_failure {
        Failure(error) => drop(world.client.handle_failed(world.now, socket, error)),
        Bytes(bytes) => drop(world.client.handle_received(world.now, socket, &bytes)),
        Reply(reply) => {
            let bytes = framed(request, &reply);
            world.client.handle_received(world.now, socket, &bytes);
        }
        End => drop(world.client.handle_received(world.now, socket, &[])),
        Silence(time) => {
            world.now = world.now + time;
            world.time_out();
        }
    }
    let error = match world.client.resume(world.now, id) {
        Progress::Failed(error) => error,
        other => panic!("it goes on: {other:?}"),
    };
    let labels = [Label::SystemOverloadedError, Label::RetryableError];
    let labelled = labels.iter().filter(|label| error.has_label(label)).count();
    assert!(labelled != 1, "both or none: {error:?}");
    let (mut cleared, mut is_unknown) = (0, false);
    while let Some(event) = world.client.poll_event() {
        match event.kind {
            EventKind::Pool(PoolEvent::Cleared { .. }) => cleared += 1,
            EventKind::Sdam(SdamEvent::ServerDescriptionChanged { new, .. }) => {
                is_unknown |= new.server_type == ServerType::Unknown;
            }
            _ => {}
        }
    }
    let error = error.kind().clone();
    Consequences {
        error,
        is_labelled: labelled == 2,
        cleared,
        is_unknown,
    }
}

/// A server that replies until `command` arrives. If `command` is empty, the first dialled socket
/// is not connected.
struct ServerUntilCommand<'a> {
    world: &'a mut World,
    command: &'a str,
    /// The socket on which `command` arrived, and the request id; 0 for a socket that is not
    /// connected.
    stopped_at: Option<(SocketId, i32)>,
}

impl Peer for ServerUntilCommand<'_> {
    fn parts(&mut self) -> Parts<'_> {
        self.world.parts()
    }

    fn dialled(&mut self, socket: SocketId, _: Address) {
        if self.stopped_at.is_some() {
            return;
        }
        if self.command.is_empty() {
            self.stopped_at = Some((socket, 0));
        } else {
            self.connect(socket);
        }
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        if self.stopped_at.is_some() {
            return;
        }
        let header = Header::decode(&bytes, 1 << 20).expect("a request");
        let message = Message::decode(&bytes).expect("a message");
        let (name, _) = message.body.iter().next().expect("a field").expect("BSON");
        if name.as_str() == self.command {
            self.stopped_at = Some((socket, header.request_id));
        } else {
            let hello = self.world.hello.clone();
            self.respond(socket, &bytes, &hello);
        }
    }
}

/// Runs the new connection of the pool until the connection sends `command`. If `command` is empty,
/// the socket is dialled and not connected. Returns the socket and the request id of `command`; the
/// id is 0 without a command.
fn run_until_command(world: &mut World, command: &str) -> (SocketId, i32) {
    let stopped_at = None;
    let mut peer = ServerUntilCommand {
        world,
        command,
        stopped_at,
    };
    harness::drain(&mut peer);
    let stopped_at = peer.stopped_at;
    stopped_at.unwrap_or_else(|| panic!("it does not come to {command:?}"))
}

/// The stage in which a socket connects, before any command.
const DIAL: &str = "";
const HELLO: &str = "isMaster";
const SASL_START: &str = "saslStart";

#[test]
fn errors_before_the_hello_reply_get_overload_labels_and_clear_no_pool() {
    // A network error or timeout before the reply to hello gets the labels of overload (CMAP-44),
    // an I/O error of the TLS handshake included (CMAP-47). The server and its pool do not change.
    for (stage, connection_failure) in [
        (DIAL, fault(NetworkFault::Refused)),
        (DIAL, fault(NetworkFault::Closed)),
        (DIAL, fault(NetworkFault::Reset)),
        (DIAL, fault(NetworkFault::Unreachable)),
        (DIAL, fault(NetworkFault::Other)),
        (DIAL, Silence(Duration::from_secs(1))),
        (HELLO, fault(NetworkFault::Reset)),
        (HELLO, fault(NetworkFault::Other)),
        (HELLO, End),
        (HELLO, Silence(Duration::from_secs(1))),
    ] {
        let after = attempt("&connectTimeoutMS=1000", stage, connection_failure);
        assert!(after.is_labelled, "{after:?}");
        assert_eq!((after.cleared, after.is_unknown), (0, false), "{after:?}");
    }
}

#[test]
fn errors_unrelated_to_overload_get_no_labels_and_clear_the_pool() {
    // Errors that are not related to overload get no labels (CMAP-46). The server becomes
    // `Unknown`, and its pool is cleared (CMAP-148).
    let refused = || Reply(rawdoc! { "ok": 0, "code": 1234, "errmsg": "no" });
    for (stage, connection_failure) in [
        (DIAL, fault(NetworkFault::NotResolved)),
        (DIAL, tls(TlsFault::Certificate)),
        (DIAL, tls(TlsFault::HostName)),
        (DIAL, tls(TlsFault::Handshake)),
        (DIAL, tls(TlsFault::Configuration)),
        (HELLO, Bytes(vec![0xff; 64])),
        (HELLO, refused()),
    ] {
        let after = attempt("", stage, connection_failure);
        assert!(!after.is_labelled, "{after:?}");
        assert_eq!((after.cleared, after.is_unknown), (1, true), "{after:?}");
    }
}

#[test]
fn a_shortage_of_file_descriptors_does_not_change_the_server() {
    // The error is not related to overload (CMAP-46). Like a pool cleared error (SDAM-116), an
    // error that the client itself caused does not change the server.
    let after = attempt("", DIAL, fault(NetworkFault::OutOfSockets));
    assert!(!after.is_labelled, "{after:?}");
    assert_eq!((after.cleared, after.is_unknown), (0, false), "{after:?}");
}

#[test]
fn authentication_errors_get_no_overload_labels_and_clear_the_pool() {
    // Errors of authentication after the hello get no labels (CMAP-45). The server becomes
    // `Unknown`, and its pool is cleared (CMAP-148).
    let refused = || Reply(rawdoc! { "ok": 0, "code": 18, "errmsg": "no" });
    for connection_failure in [
        fault(NetworkFault::Reset),
        fault(NetworkFault::Other),
        End,
        Silence(Duration::from_secs(1)),
        Bytes(vec![0xff; 64]),
        refused(),
    ] {
        let after = attempt("&connectTimeoutMS=1000", SASL_START, connection_failure);
        assert!(!after.is_labelled, "{after:?}");
        assert_eq!((after.cleared, after.is_unknown), (1, true), "{after:?}");
    }
}

#[test]
fn a_timeout_of_a_hello_with_speculative_authentication_gets_overload_labels() {
    // Without a reply to the hello, the connection has not begun to authenticate, so the error gets
    // the labels of overload (CMAP-44).
    let options = "&authMechanism=SCRAM-SHA-256&connectTimeoutMS=1000";
    let after = attempt(options, HELLO, Silence(Duration::from_secs(1)));
    let expected = Wait::Handshake;
    assert!(matches!(after.error, ErrorKind::Timeout { wait, .. } if wait == expected));
    assert!(after.is_labelled && after.cleared == 0, "{after:?}");
}

#[test]
fn an_overload_label_from_the_server_prevents_a_pool_clear() {
    // An error with the label `SystemOverloadedError` changes neither the server nor its pool, also
    // if the server set the label (CMAP-148).
    let labels = bson::RawArrayBuf::from_iter(["SystemOverloadedError", "RetryableError"]);
    let busy = rawdoc! { "ok": 0, "code": 462, "errmsg": "busy", "errorLabels": labels };
    for stage in [HELLO, SASL_START] {
        let after = attempt("", stage, Reply(busy.clone()));
        assert_eq!((after.cleared, after.is_unknown), (0, false), "{after:?}");
    }
}

#[test]
fn a_connection_is_not_checked_out_before_its_authentication_succeeds() {
    // A connection is handed out only after its authentication has succeeded (CMAP-22).
    let uri = "mongodb://user:pencil@a/?replicaSet=rs";
    let mut world = World::new(uri, primary());
    let Progress::Waiting(id) = world.client.start(world.now, find()) else {
        panic!("there is no connection yet");
    };
    for stage in [DIAL, HELLO, SASL_START] {
        let (socket, request) = run_until_command(&mut world, stage);
        let resumed = world.client.resume(world.now, id);
        assert!(
            matches!(resumed, Progress::Waiting(_)),
            "{stage}: {resumed:?}"
        );
        if stage.is_empty() {
            world.client.handle_connected(world.now, socket);
        } else {
            let reply = framed(request, &world.hello);
            world.client.handle_received(world.now, socket, &reply);
        }
    }
}
