//! Tests of the features that a client announces to servers, and of the options that the client
//! refuses.

use super::*;
use crate::{
    error::{Argument, ErrorKind},
    options::{AuthMechanism, Compressor, Credential, ServerApi, ServerApiVersion},
};

/// Returns options with every setting that could show in a hello.
fn options_with_every_setting(text: &str, api: bool) -> ClientOptions {
    let mut options = uri::parse(text).expect("a connection string").options;
    options.app_name = Some("promises".to_owned());
    options.compressors = Some(Compressor::ALL.to_vec());
    options.enable_overload_retargeting = Some(true);
    options.max_adaptive_retries = Some(3);
    if api {
        let mut declared = ServerApi::new(ServerApiVersion::V1);
        declared.strict = Some(true);
        declared.deprecation_errors = Some(true);
        options.server_api = Some(declared);
    }
    options
}

/// A server with the same reply to every message, except an awaitable hello, which it does not
/// answer.
struct SameReplyServer {
    peer: silent_peer::SilentPeer,
    reply: RawDocumentBuf,
    /// The field names of each kind of hello.
    kinds: BTreeSet<Vec<String>>,
}

impl Peer for SameReplyServer {
    fn parts(&mut self) -> Parts<'_> {
        self.peer.parts()
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        let message = Message::decode(&bytes).expect("a message");
        let fields = message.body.iter().map(|field| field.expect("BSON"));
        let names: Vec<_> = fields.map(|(key, _)| key.as_str().to_owned()).collect();
        let waits = names.iter().any(|name| name == "maxAwaitTimeMS");
        if !names[0].starts_with("sasl") {
            self.kinds.insert(names);
        }
        if !waits {
            let reply = self.reply.clone();
            self.respond(socket, &bytes, &reply);
        }
    }
}

/// Returns the field names of each kind of hello that a client with a waiting operation sends.
fn hellos(options: ClientOptions, reply: RawDocumentBuf) -> BTreeSet<Vec<String>> {
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let mut peer = SameReplyServer {
        peer: silent_peer::SilentPeer::new(Client::new(config)),
        reply,
        kinds: BTreeSet::new(),
    };
    let Parts { client, now, .. } = peer.parts();
    client.open(now);
    let started = client.start(now, ping());
    assert!(matches!(started, Progress::Waiting(_)));
    for _ in 0..2 {
        harness::drain(&mut peer);
        peer.peer.now = peer.peer.now + std::time::Duration::from_secs(10);
        harness::time_out(&mut peer);
    }
    peer.kinds
}

fn listed(kinds: &[&str]) -> BTreeSet<Vec<String>> {
    let fields = |kind: &&str| kind.split(' ').map(str::to_owned).collect();
    kinds.iter().map(fields).collect()
}

#[test]
fn each_hello_has_exactly_the_expected_fields() {
    // A hello has exactly these fields (HELLO-6, HELLO-10 to HELLO-12, HELLO-36). They announce
    // only what the driver supports, which includes no compressor (COMP-2).
    let mut streamed = primary();
    let version = rawdoc! { "processId": ObjectId::from_bytes([1; 12]), "counter": 1_i64 };
    streamed.append(bson::cstr!("topologyVersion"), version);
    let user = "mongodb://user:pencil@a/?replicaSet=rs";
    let found = hellos(options_with_every_setting(user, false), streamed.clone());
    let expected = listed(&[
        "isMaster helloOk client compression backpressure $db",
        "isMaster helloOk client compression backpressure saslSupportedMechs \
         speculativeAuthenticate $db",
        "isMaster helloOk topologyVersion maxAwaitTimeMS $db",
    ]);
    assert_eq!(found, expected);

    let api = "apiVersion apiStrict apiDeprecationErrors $db";
    let found = hellos(options_with_every_setting(user, true), streamed);
    let expected = listed(&[
        &format!("hello client compression backpressure {api}"),
        &format!(
            "hello client compression backpressure saslSupportedMechs speculativeAuthenticate {api}"
        ),
        &format!("hello topologyVersion maxAwaitTimeMS {api}"),
    ]);
    assert_eq!(found, expected);

    let mut service = mongos();
    service.append(bson::cstr!("serviceId"), ObjectId::from_bytes([2; 12]));
    let balanced = "mongodb://user:pencil@a/?loadBalanced=true";
    let found = hellos(options_with_every_setting(balanced, false), service);
    let expected = listed(&[
        "hello client compression backpressure loadBalanced saslSupportedMechs \
         speculativeAuthenticate $db",
    ]);
    assert_eq!(found, expected);
}

#[test]
fn sasl_supported_mechs_has_the_source_and_the_user_of_the_credential() {
    // `saslSupportedMechs` (AUTH-24) names the source of the credential: `authSource`, else the
    // database of the connection string, else `admin` (AUTH-134).
    for (text, expected) in [
        ("mongodb://u:p@a/db?authSource=app", "app.u"),
        ("mongodb://u:p@a/db", "db.u"),
        ("mongodb://u:p@a/", "admin.u"),
    ] {
        let asked = first_of(text, |hello| {
            let user = hello.get_str("saslSupportedMechs").ok()?;
            Some(user.to_owned())
        });
        assert_eq!(asked.as_deref(), Some(expected));
    }
}

/// A mongos that replies until `look` finds something in a request.
struct SearchingServer<T, F> {
    peer: silent_peer::SilentPeer,
    look: F,
    found: Option<T>,
}

impl<T, F: Fn(&RawDocument) -> Option<T>> Peer for SearchingServer<T, F> {
    fn parts(&mut self) -> Parts<'_> {
        self.peer.parts()
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        if self.found.is_some() {
            return;
        }
        let message = Message::decode(&bytes).expect("a message");
        self.found = (self.look)(message.body);
        if self.found.is_none() {
            self.respond(socket, &bytes, &mongos());
        }
    }
}

/// Returns what `look` finds first in the hellos of a client that has a waiting operation.
fn first_of<T>(text: &str, look: impl Fn(&RawDocument) -> Option<T>) -> Option<T> {
    let options = uri::parse(text).expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32]));
    let mut peer = SearchingServer {
        peer: silent_peer::SilentPeer::new(Client::new(config.expect("options"))),
        look,
        found: None,
    };
    let Parts { client, now, .. } = peer.parts();
    client.open(now);
    let _ = client.start(now, ping());
    harness::drain(&mut peer);
    peer.found
}

#[test]
fn every_handshake_announces_backpressure_as_a_string() {
    // Every handshake announces backpressure (HELLO-6, BP-14) by a string, not by a boolean or a
    // number (prose test 9 of the handshake).
    for text in [
        "mongodb://a/",
        "mongodb://u:p@a/",
        "mongodb://a/?loadBalanced=true",
    ] {
        let announced = first_of(text, |hello| {
            let value = hello.get("backpressure").ok()??;
            Some(value.as_str().map(str::to_owned))
        });
        assert_eq!(announced.flatten().as_deref(), Some("2"), "{text}");
    }
}

#[test]
fn the_handshake_lists_the_compressors_of_the_options() {
    // The list is empty without compressors (COMP-1 to COMP-3). Names that are not known are left
    // out (COMP-8).
    for (text, names) in [
        ("mongodb://a/", &[][..]),
        ("mongodb://a/?compressors=snoopy", &[]),
        (
            "mongodb://a/?compressors=zstd,snoopy,snappy",
            &["zstd", "snappy"],
        ),
        ("mongodb://a/?compressors=zlib", &["zlib"]),
    ] {
        let list = first_of(text, |hello| {
            let list = hello.get_array("compression").ok()?;
            let names = list
                .into_iter()
                .map(|name| Some(name.ok()?.as_str()?.to_owned()));
            names.collect::<Option<Vec<_>>>()
        });
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        assert_eq!(list, Some(names), "{text}");
    }
}

#[test]
fn gssapi_without_a_kerberos_library_is_refused_when_the_client_is_created() {
    // `ClientConfig::new` refuses a credential (AUTH-1) whose mechanism needs a library that the
    // client does not have. Otherwise only the first operation would fail.
    for mechanism in AuthMechanism::ALL {
        let mut credential = Credential::builder().source("$external".to_owned()).build();
        credential.mechanism = Some(mechanism);
        match mechanism {
            AuthMechanism::MongoDbAws => {}
            AuthMechanism::MongoDbOidc => {
                let environment = ("ENVIRONMENT".to_owned(), crate::options::Secret::new("k8s"));
                credential.mechanism_properties.extend([environment]);
            }
            _ => credential.username = Some("user".to_owned()),
        }
        if matches!(
            mechanism,
            AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256 | AuthMechanism::Plain
        ) {
            credential.password = Some(crate::options::Secret::new("pencil"));
        }
        let mut options = ClientOptions::default();
        options.credential = Some(credential);
        let made = ClientConfig::new(options.clone(), Seed::new([5; 32]));
        if mechanism.is_available() {
            assert!(made.is_ok(), "{mechanism}");
            continue;
        }
        let error = made.expect_err(mechanism.name());
        let ErrorKind::InvalidArgument {
            argument: Argument::Option(option),
            message,
        } = error.kind()
        else {
            panic!("{error:?}");
        };
        assert_eq!(*option, "authMechanism");
        let says_what_to_do = message.contains("Cargo feature gssapi");
        assert!(
            message.contains(mechanism.name()) && says_what_to_do,
            "{message}"
        );
        options.set_kerberos(Some(Arc::new(kerberos::Library)));
        assert!(ClientConfig::new(options, Seed::new([5; 32])).is_ok());
    }
}
