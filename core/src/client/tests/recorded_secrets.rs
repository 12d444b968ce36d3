//! Tests of recordings of clients with secrets: the recordings do not have the secrets, and are
//! replayed without them.

use super::{
    recordings::{assert_same, has_text},
    *,
};
use crate::{
    client::{Finding, Inquiry},
    operation::{Ask, SessionOptions, Span},
    options::{AuthMechanism, Credential, CredentialProvider, Login, PasswordProvider, Secret},
};
use bson::{Binary, Timestamp, spec::BinarySubtype};

/// Returns an open client that records itself.
fn open(uri: &str) -> silent_peer::SilentPeer {
    let options = uri::parse(uri).expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(RecordingOptions::whole(1 << 20));
    let mut client = Client::new(config.expect("it can be recorded"));
    client.open(Instant::ZERO);
    silent_peer::SilentPeer::new(client)
}

/// Connects a socket, replies as the proxy, and answers the hello of the connection. `pieces` are
/// the replies of the proxy to the greeting and to the login.
fn log_in_to_proxy(
    peer: &mut silent_peer::SilentPeer,
    socket: SocketId,
    password: &str,
    pieces: &[&[u8]],
) {
    peer.connect(socket);
    assert_eq!(peer.sent(socket), [5, 2, 0, 2]);
    let mut sent = Vec::new();
    for piece in pieces {
        peer.receive(socket, piece);
        sent.extend(peer.sent(socket));
    }
    assert!(has_text(&sent, password));
    peer.receive(socket, &[5, 0, 0, 3, 1, b'x', 0, 1]);
    let hello = peer.sent(socket);
    peer.respond(socket, &hello, &primary());
}

/// Returns the recording of a client behind a proxy with this user name and password.
fn behind_proxy(user: &str, password: &str) -> Vec<u8> {
    let mut peer = open(&format!(
        "mongodb://a/?replicaSet=rs&proxyHost=proxy&proxyUsername={user}&proxyPassword={password}"
    ));
    let monitor = peer.dialled_proxy();
    log_in_to_proxy(&mut peer, monitor, password, &[&[5, 2], &[1, 0]]);
    let Progress::Waiting(id) = peer.client.start(peer.now, find()) else {
        panic!("there is no connection yet");
    };
    let socket = peer.dialled_proxy();
    // The proxy answers before it is asked, so that login and request are sent at once.
    log_in_to_proxy(&mut peer, socket, password, &[&[5, 2, 1, 0]]);
    let progress = peer.client.resume(peer.now, id);
    assert!(matches!(progress, Progress::Exchange(_)), "{progress:?}");
    peer.client.recording().expect("the client records itself")
}

#[test]
fn the_login_of_a_proxy_is_replaced_and_leaves_no_trace() {
    let file = behind_proxy("someone", "pencil");
    assert!(!has_text(&file, "someone") && !has_text(&file, "pencil"));
    assert_same(&file);
    // Neither the texts nor their lengths have an effect on the recording, digests included.
    assert_eq!(file, behind_proxy("me", "a-much-longer-password"));
}

#[test]
fn a_proxy_without_credentials_is_replayed() {
    let mut peer = open("mongodb://a/?replicaSet=rs&proxyHost=proxy");
    let monitor = peer.dialled_proxy();
    peer.connect(monitor);
    peer.receive(monitor, &[5, 0]);
    peer.receive(monitor, &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    let file = peer.client.recording().expect("the client records itself");
    assert_same(&file);
}

/// Returns the socket of the next dial.
fn dialled(peer: &mut silent_peer::SilentPeer) -> SocketId {
    loop {
        if let Action::Dial { socket, .. } = harness::next(peer).expect("a dial") {
            return socket;
        }
    }
}

/// Returns a client whose operation waits for a connection, with the socket of the connection and
/// its hello.
fn authenticating(uri: &str) -> (silent_peer::SilentPeer, OperationId, SocketId, Vec<u8>) {
    let mut peer = open(uri);
    let monitor = dialled(&mut peer);
    peer.connect(monitor);
    let hello = peer.sent(monitor);
    peer.respond(monitor, &hello, &primary());
    let Progress::Waiting(id) = peer.client.start(peer.now, find()) else {
        panic!("there is no connection yet");
    };
    let socket = dialled(&mut peer);
    peer.connect(socket);
    let hello = peer.sent(socket);
    (peer, id, socket, hello)
}

fn payload(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

/// Returns a client whose operation waits for a connection, which got the challenge of SCRAM.
fn challenged(uri: &str, salt: &str) -> (silent_peer::SilentPeer, OperationId, SocketId) {
    let (mut peer, id, socket, hello) = authenticating(uri);
    let command = World::decoded(&hello);
    let start = command.get_document("speculativeAuthenticate");
    let start = start.expect("the first command of authentication");
    let first = start.get_binary_generic("payload").expect("a payload");
    let first = String::from_utf8_lossy(first);
    let (_, nonce) = first.split_once(",r=").expect("a nonce");
    let challenge = payload(format!("r={nonce}server,s={salt},i=4096").as_bytes());
    let mut reply = primary();
    reply.append(
        bson::cstr!("speculativeAuthenticate"),
        rawdoc! { "conversationId": 1, "done": false, "payload": challenge },
    );
    peer.respond(socket, &hello, &reply);
    (peer, id, socket)
}

/// Returns the recording of a client whose proof the server refuses.
fn refused(password: &str, salt: &str) -> Vec<u8> {
    let uri = format!(
        "mongodb://user:{password}@a/?replicaSet=rs&retryReads=false&authMechanism=SCRAM-SHA-256"
    );
    let (mut peer, id, socket) = challenged(&uri, salt);
    let (question, derivation) = loop {
        if let Action::Ask {
            id,
            question: Question::DeriveKeys(derivation),
        } = harness::next(&mut peer).expect("a question")
        {
            break (id, derivation);
        }
    };
    let answer = Answer::Keys(derivation.derive());
    peer.client.handle_answer(peer.now, question, answer);
    let proof = peer.sent(socket);
    let text = format!("the proof of {password} is wrong");
    let reply = rawdoc! { "ok": 0, "code": 18, "errmsg": text };
    peer.respond(socket, &proof, &reply);
    let progress = peer.client.resume(peer.now, id);
    assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
    peer.client.recording().expect("the client records itself")
}

#[test]
fn a_refused_proof_is_replayed_and_the_password_leaves_no_trace() {
    let (password, salt) = ("pencil", "c2FsdDA=");
    let file = refused(password, salt);
    for text in [password, salt, "biws", ",r=", "server,s="] {
        assert!(!has_text(&file, text), "{text}");
    }
    assert_same(&file);
    // Neither the password nor what the server sends because of it has an effect on the recording,
    // digests included.
    assert_eq!(file, refused("another-password", "c2FsdDE="));
}

fn accepted() -> RawDocumentBuf {
    rawdoc! { "ok": 1, "conversationId": 1, "done": true, "payload": payload(&[]) }
}

#[test]
fn an_authentication_and_the_next_one_of_the_same_connection_are_replayed() {
    let uri = "mongodb://user:pencil@a/?replicaSet=rs&authMechanism=PLAIN";
    let (mut peer, id, socket, hello) = authenticating(uri);
    peer.respond(socket, &hello, &primary());
    let login = peer.sent(socket);
    assert!(has_text(&login, "pencil"));
    peer.respond(socket, &login, &accepted());
    let Progress::Exchange(mut exchange) = peer.client.resume(peer.now, id) else {
        panic!("the connection is established");
    };
    exchange.begin(peer.now).expect("it fits");
    let again = rawdoc! { "ok": 0, "code": 391, "errmsg": "again" };
    World::answer(&mut exchange, &again);
    let after = peer.client.check_in(peer.now, exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Again(_)), "{after:?}");
    let login = peer.sent(socket);
    // A part of the reply changes nothing.
    let header = Header::decode(&login, 1 << 20).expect("a request");
    let reply = framed(header.request_id, &accepted());
    peer.receive(socket, &reply[..20]);
    peer.receive(socket, &reply[20..]);
    let progress = peer.client.resume(peer.now, id);
    assert!(matches!(progress, Progress::Exchange(_)), "{progress:?}");
    let file = peer.client.recording().expect("the client records itself");
    assert!(!has_text(&file, "pencil"));
    assert_same(&file);
}

#[test]
fn a_session_with_a_cluster_time_is_replayed_on_an_authenticated_connection() {
    let uri = "mongodb://user:pencil@a/?replicaSet=rs&authMechanism=PLAIN";
    let (mut peer, id, socket, hello) = authenticating(uri);
    peer.respond(socket, &hello, &primary());
    let login = peer.sent(socket);
    peer.respond(socket, &login, &accepted());
    let session = peer
        .client
        .start_session(peer.now, &SessionOptions::default());
    let session = session.expect("the client is open").id;
    let at = Timestamp {
        time: 5,
        increment: 3,
    };
    let reply = rawdoc! {
        "ok": 1, "operationTime": at, "$clusterTime": { "clusterTime": at },
    };
    let mut start = peer.client.resume(peer.now, id);
    for has_time in [false, true] {
        let Progress::Exchange(mut exchange) = start else {
            panic!("the connection is idle: {start:?}");
        };
        exchange.begin(peer.now).expect("it fits");
        let request = World::request(&exchange);
        assert_eq!(request.contains_key("$clusterTime"), has_time);
        World::answer(&mut exchange, &reply);
        let after = peer.client.check_in(peer.now, exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        let mut command = find();
        command.use_explicit_session(session);
        start = peer.client.start(peer.now, command);
    }
    let times = peer.client.session_times(session).expect("it is in use");
    assert_eq!(times.operation, Some(at));
    let file = peer.client.recording().expect("the client records itself");
    assert!(!has_text(&file, "pencil"));
    assert_same(&file);
}

#[test]
fn the_keys_of_connections_and_the_answers_of_programs_are_told_apart() {
    let uri = "mongodb://user:pencil@a/?replicaSet=rs&authMechanism=SCRAM-SHA-256";
    let mut peer = challenged(uri, "c2FsdDA=").0;
    let ask = Ask {
        inquiry: Inquiry::Environment(&["A"]),
        timeout: None,
    };
    let progress = peer
        .client
        .ask_in(peer.now, &mut Span::default(), ask, None);
    let Progress::Waiting(id) = progress else {
        panic!("it is not asked: {progress:?}");
    };
    let mut found = Some(Secret::new("a secret"));
    for _ in 0..2 {
        let (question, answer) = loop {
            let next = harness::next(&mut peer).expect("a question");
            if let Action::Ask { id, question } = next {
                break (id, answer_to(question, &mut found));
            }
        };
        peer.client.handle_answer(peer.now, question, answer);
    }
    let progress = peer.client.resume(peer.now, id);
    assert!(
        matches!(progress, Progress::Answered(Ok(_))),
        "{progress:?}"
    );
    let file = peer.client.recording().expect("the client records itself");
    assert!(!has_text(&file, "pencil") && !has_text(&file, "a secret"));
    assert_same(&file);
}

/// Returns the answer to a question: keys, or what was found.
fn answer_to(question: Question, found: &mut Option<Secret>) -> Answer {
    match question {
        Question::DeriveKeys(derivation) => Answer::Keys(derivation.derive()),
        _ => Answer::Found(Ok(Finding::Environment(vec![found.take()]))),
    }
}

#[test]
fn faults_of_the_server_during_authentication_are_replayed() {
    let uri = "mongodb://user:pencil@a/?replicaSet=rs&retryReads=false&authMechanism=PLAIN";
    // Bytes after the last reply, a malformed reply, no message, and a reply to another request.
    for fault in 0..4 {
        let (mut peer, id, socket, hello) = authenticating(uri);
        peer.respond(socket, &hello, &primary());
        let login = peer.sent(socket);
        let header = Header::decode(&login, 1 << 20).expect("a request");
        let bytes = match fault {
            0 => [framed(header.request_id, &accepted()), vec![1, 2, 3]].concat(),
            1 => framed(header.request_id, &rawdoc! { "ok": 1 }),
            2 => vec![0; 40],
            _ => framed(header.request_id + 1, &accepted()),
        };
        peer.receive(socket, &bytes);
        let progress = peer.client.resume(peer.now, id);
        assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
        assert_same(&peer.client.recording().expect("the client records itself"));
    }
}

#[test]
fn a_changed_step_of_authentication_is_found() {
    let mut file = refused("pencil", "c2FsdDA=");
    let name = b"derive\0";
    let mut places = file.windows(name.len());
    let at = places.position(|bytes| bytes == name).expect("the step");
    file[at..at + 6].copy_from_slice(b"failed");
    let recording = Recording::read(&file).expect("a recording");
    let last = recording.replay().expect("it begins").last();
    let last = last.expect("it has steps");
    assert_eq!(last.verdict, Verdict::Different, "{last:?}");
}

#[test]
fn a_credential_of_which_a_part_is_fetched_is_refused_by_name() {
    let mut provided = Credential::with_provider(CredentialProvider::Password(
        PasswordProvider::blocking(|_| Ok(Login::new("", ""))),
    ));
    provided.mechanism = Some(AuthMechanism::Plain);
    let aws = uri::parse("mongodb://a/?authMechanism=MONGODB-AWS").expect("a connection string");
    let aws = aws.options.credential.expect("a credential");
    for (credential, what) in [
        (provided, "a password provider"),
        (aws, "the mechanism MONGODB-AWS"),
    ] {
        let mut options = uri::parse("mongodb://a")
            .expect("a connection string")
            .options;
        options.credential = Some(credential);
        let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
        let refused = config.with_recording(RecordingOptions::whole(1 << 20));
        let error = refused.expect_err("its answers have secrets");
        assert!(error.to_string().contains(what), "{error}");
    }
}
