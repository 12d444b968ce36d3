//! Tests of log messages and of the order of events beyond the official files. For example, no
//! message is lost, and none contains a secret or a long document.

use crate::collector::{Collector, keep_callsites_enabled};
use bson::{Document, doc};
use onionskin::{
    MAX_EVENT_DELAY, Resolver, ResolverFuture,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    options::ClientOptions,
};
use onionskin_blocking::Run;
use onionskin_core::{
    event::{Event, EventKind, SdamEvent},
    log::{self, Component, LogOptions, Value},
};
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::{Client, TokioRuntime};
use serde_json::{Map, json};
use std::{
    collections::BTreeSet,
    io::Read,
    net::TcpListener,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tracing::Level;

pub(crate) type Builder = onionskin_tokio::ClientBuilder<TokioRuntime>;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

pub(crate) fn builder(uri: &str) -> Builder {
    keep_callsites_enabled();
    let builder = Client::builder_from_uri(TokioRuntime::default(), uri);
    // The defaults replace the options in environment variables.
    builder
        .expect("a connection string")
        .log_options(LogOptions::default())
}

pub(crate) fn build(builder: Builder) -> Client {
    builder.build().expect("a client")
}

async fn ping(client: &Client) {
    let admin = client.database("admin");
    admin
        .run_command(doc! { "ping": 1 })
        .await
        .expect("a reply");
}

fn fields(record: &log::Record) -> Map<String, serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Text(text) => json!(text),
        Value::Integer(number) => json!(number),
        Value::Double(number) => json!(number),
        Value::Boolean(value) => json!(value),
        other => panic!("{other:?} is new"),
    };
    let named = |(name, of): &(&str, Value)| ((*name).to_owned(), value(of));
    let mut fields: Map<_, _> = record.fields().iter().map(named).collect();
    fields.insert("message".to_owned(), json!(record.message()));
    fields
}

#[test]
fn tracing_gets_every_log_message_with_all_its_fields_in_order() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let collector = Collector::new(Level::TRACE);
    let _guard = collector.install();
    let reported: Arc<Mutex<Vec<log::Record>>> = Arc::default();
    let sink = reported.clone();
    let listener = Arc::new(move |event: &Event| {
        let mut reported = sink.lock().unwrap_or_else(PoisonError::into_inner);
        reported.extend(log::record(event, 200));
    });
    block_on(async {
        let uri = format!("{}?maxPoolSize=3&maxIdleTimeMS=9000", server.uri());
        let mut options = ClientOptions::parse(&uri).run().expect("valid");
        options.tracing_max_document_length_bytes = Some(200);
        let builder = Client::builder(TokioRuntime::default(), options);
        let builder = builder.log_options(LogOptions::default());
        let client = build(builder.event_listener(listener));
        let things = client.database("db").collection::<Document>("things");
        things.insert_one(doc! { "a": 1 }).await.expect("inserted");
        let odd = things.find(doc! { "$or": true }).await;
        assert!(odd.is_err());
        client.shutdown().await;
        // No server listens at this address, so that server selection waits and fails.
        let lost = build(self::builder(
            "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1",
        ));
        let nothing = lost.database("db").run_command(doc! { "ping": 1 }).await;
        assert!(nothing.is_err());
        lost.shutdown().await;
    });
    let reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = collector.lines();
    assert!(reported.len() > 20 && lines.len() > reported.len());
    for (record, line) in reported.iter().zip(&lines) {
        assert_eq!(fields(record), line.fields);
        assert_eq!(record.level().name(), line.level.as_str().to_lowercase());
        let component = record.component().name().to_lowercase();
        assert_eq!(
            format!("onionskin::{component}"),
            line.target.replace('_', "")
        );
    }
    let messages = collector.messages();
    for message in [
        "Server heartbeat failed",
        "Waiting for suitable server to become available",
        "Server selection failed",
        "Command failed",
        "Connection pool created",
    ] {
        assert!(
            messages.iter().any(|messages| messages == message),
            "{message}"
        );
    }
}

#[test]
fn secrets_are_not_logged_and_long_documents_are_truncated() {
    let mut options = ServeOptions::standalone();
    options.users.push(User::new("ada", "hunter2"));
    let server = Embedded::start(options).expect("a server");
    assert!(server.uri().contains("hunter2"));
    let collector = Collector::new(Level::TRACE);
    let _guard = collector.install();
    block_on(async {
        let client = build(builder(server.uri()));
        let database = client.database("db");
        let user = doc! { "createUser": "eve", "pwd": "hunter2", "roles": [] };
        let _ = database.run_command(user).await;
        let things = database.collection::<Document>("things");
        let long = "l".repeat(5000);
        things
            .insert_one(doc! { "text": &long })
            .await
            .expect("inserted");
        let found = things.find_one(doc! {}).await.expect("found");
        assert_eq!(
            found.and_then(|mut one| one.remove("text")),
            Some(long.into())
        );
        client.shutdown().await;
    });
    let lines = collector.lines();
    for line in &lines {
        let text = serde_json::Value::Object(line.fields.clone()).to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for name in ["command", "reply"] {
            let length = line
                .fields
                .get(name)
                .map(|shown| shown.as_str().unwrap_or("").len());
            assert!(
                length.is_none_or(|length| length <= 1000 + "...".len()),
                "{text}"
            );
        }
    }
    let cut = lines.iter().filter(|line| {
        let shown = ["command", "reply"].map(|name| line.fields.get(name));
        shown
            .iter()
            .flatten()
            .any(|shown| shown.as_str().is_some_and(|s| s.ends_with("lll...")))
    });
    assert_eq!(cut.count(), 2, "the insert, and the reply of the find");
}

#[test]
fn a_subscriber_installed_after_the_client_gets_messages_only_with_always_ready() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    keep_callsites_enabled();
    let ready = LogOptions::default().with_always_ready(true);
    for (options, expected) in [(LogOptions::default(), false), (ready, true)] {
        // The collector gets only the messages of its own thread. The blocking runtime runs on the
        // calling thread, so all messages come from this thread.
        let runtime = onionskin_blocking::BlockingRuntime::default();
        let builder = onionskin::Client::builder_from_uri(runtime, server.uri());
        let built = builder.and_then(|builder| builder.log_options(options).build());
        let client = onionskin_blocking::Client::from(built.expect("a client"));
        let ping = || {
            client
                .database("admin")
                .run_command(doc! { "ping": 1 })
                .run()
        };
        ping().expect("a reply");
        let collector = Collector::new(Level::TRACE);
        let guard = collector.install();
        ping().expect("a reply");
        drop(guard);
        assert_eq!(!collector.lines().is_empty(), expected);
        client.shutdown().run();
    }
}

#[test]
fn the_log_level_can_be_set_for_each_component() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let collector = Collector::new(Level::TRACE);
    let _guard = collector.install();
    block_on(async {
        let options = LogOptions::default()
            .with_level(Component::Topology, None)
            .with_level(Component::Connection, log::Level::Info);
        let client = build(builder(server.uri()).log_options(options));
        ping(&client).await;
        client.shutdown().await;
    });
    let lines = collector.lines();
    let has = |target: &str| lines.iter().any(|line| line.target == target);
    assert!(has("onionskin::command") && has("onionskin::server_selection"));
    assert!(!has("onionskin::topology") && !has("onionskin::connection"));
}

#[test]
fn log_level_info_contains_only_selection_waits_and_warnings() {
    // At level info a subscriber gets the waiting message of server selection (SEL-61), the warning
    // about a topology without servers (SDAM-65) and the warnings about the connection string.
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let collector = Collector::new(Level::INFO);
    let _guard = collector.install();
    block_on(async {
        let quiet = build(builder(server.uri()));
        ping(&quiet).await;
        quiet.shutdown().await;
        assert_eq!(
            collector.messages(),
            ["Waiting for suitable server to become available"]
        );
        let uri = server.uri().trim_end_matches('/');
        let uri = format!("{uri}/?replicaSet=other&serverSelectionTimeoutMS=1500&what=secret");
        let lost = build(builder(&uri));
        let nothing = lost.database("db").run_command(doc! { "ping": 1 }).await;
        assert!(nothing.is_err());
        lost.shutdown().await;
    });
    let messages: Vec<String> = collector
        .lines()
        .iter()
        .skip(1)
        .map(|line| format!("{} {}: {}", line.target, line.level, line.message()))
        .collect();
    assert_eq!(
        messages,
        [
            "onionskin::client WARN: Connection string warning",
            "onionskin::server_selection INFO: Waiting for suitable server to become available",
            "onionskin::topology WARN: No servers left",
        ]
    );
    let warning = &collector.lines()[1].fields["warning"];
    assert_eq!(warning, "option \"what\" is not known and was ignored");
}

/// A resolver of one host, with a TXT record that has an unusable value.
struct OddTxtRecord;

impl Resolver for OddTxtRecord {
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
        let record = match query.kind {
            RecordKind::Txt => DnsData::Text("loadBalanced=maybe".to_owned()),
            _ => DnsData::Service {
                host: "a.db.test".to_owned(),
                port: 27017,
            },
        };
        let records = vec![record];
        Box::pin(async { Ok(DnsAnswer { records, ttl: None }) })
    }
}

#[test]
fn warnings_about_a_txt_record_are_logged_whenever_it_is_looked_up() {
    let collector = Collector::new(Level::WARN);
    let _guard = collector.install();
    let uri = "mongodb+srv://c.db.test/?tls=false";
    block_on(async {
        let resolved = builder(uri).resolver(OddTxtRecord).resolve().await;
        let client = build(resolved.expect("records"));
        client.shutdown().await;
    });
    let ignored = "option loadBalanced is ignored: it takes true or false";
    let lines = collector.lines();
    let line = lines
        .iter()
        .find(|line| line.message() == "Connection string warning");
    assert_eq!(line.expect("a warning").fields["warning"], ignored);

    let collector = Collector::new(Level::WARN);
    let _guard = collector.install();
    block_on(async {
        let client = build(builder(uri).resolver(OddTxtRecord));
        while client.warnings().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        client.shutdown().await;
    });
    let lines = collector.lines();
    let line = lines
        .iter()
        .find(|line| line.message() == "TXT record ignored");
    assert_eq!(line.expect("a warning").fields["reason"], ignored);
}

/// Starts a server that notes each connection and its first byte, and then closes the connection.
/// Returns its port.
fn listen(events: Arc<Mutex<Vec<&'static str>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let note = |word| {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            events.push(word);
        };
        for mut stream in listener.incoming().map_while(Result::ok) {
            note("client connected");
            let mut byte = [0];
            if stream.read(&mut byte).is_ok_and(|count| count > 0) {
                note("client hello received");
            }
        }
    });
    port
}

/// Opens a client, and returns the words of the listener and of the server in their order, and true
/// if the listener was called while a new socket still waits for it.
fn words_of_a_failed_heartbeat() -> (Vec<&'static str>, bool) {
    let events: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let port = listen(events.clone());
    let notes = events.clone();
    let start = Arc::new(OnceLock::new());
    let in_time = Arc::new(AtomicBool::new(false));
    let (began, is_in_time) = (start.clone(), in_time.clone());
    let listener = Arc::new(move |event: &Event| {
        let word = match &event.kind {
            EventKind::Sdam(SdamEvent::HeartbeatStarted { .. }) => "heartbeat started",
            EventKind::Sdam(SdamEvent::HeartbeatFailed { .. }) => "heartbeat failed",
            _ => return,
        };
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.is_empty() || notes[..] == ["client connected"] {
            let waited = began.get().map(Instant::elapsed);
            let in_time = waited.is_some_and(|waited| waited < MAX_EVENT_DELAY);
            is_in_time.store(in_time, Ordering::Relaxed);
        }
        notes.push(word);
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let uri = format!("mongodb://127.0.0.1:{port}/");
        let builder = builder(&uri).event_listener(listener);
        start.get_or_init(Instant::now);
        let client = build(builder);
        let count = || events.lock().unwrap_or_else(PoisonError::into_inner).len();
        tokio::time::timeout(Duration::from_secs(30), async {
            while count() < 4 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("a failed heartbeat");
        tokio::time::timeout(Duration::from_secs(5), client.shutdown())
            .await
            .expect("the end");
    });
    let words = events
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    (words, in_time.load(Ordering::Relaxed))
}

#[test]
fn the_heartbeat_started_event_is_emitted_before_the_socket_is_created() {
    // The heartbeat started event comes before the socket is created (EVT-18; B.3, heartbeat 1). A
    // socket does not wait longer than `MAX_EVENT_DELAY` for a listener, whose thread can start
    // later than that on a busy machine. Such rounds show nothing.
    let mut rounds = 0;
    let end = Instant::now() + Duration::from_secs(60);
    while rounds < 20 {
        assert!(
            Instant::now() < end,
            "only {rounds} listeners were called in time"
        );
        let (words, in_time) = words_of_a_failed_heartbeat();
        if !in_time {
            continue;
        }
        rounds += 1;
        let expected = [
            "heartbeat started",
            "client connected",
            "client hello received",
            "heartbeat failed",
        ];
        assert_eq!(words.get(..4), Some(&expected[..]), "{words:?}");
    }
}

#[test]
fn a_topology_id_is_unique_and_never_changes() {
    // A topology id is unique and never changes (EVT-8).
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let mut ids = BTreeSet::new();
    for _ in 0..2 {
        let collector = Collector::new(Level::DEBUG);
        let _guard = collector.install();
        block_on(async {
            let client = build(builder(server.uri()));
            ping(&client).await;
            client.shutdown().await;
        });
        let lines = collector.lines();
        let reported = lines
            .iter()
            .filter_map(|line| line.fields.get("topologyId"));
        let reported: BTreeSet<String> = reported.map(ToString::to_string).collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        ids.extend(reported);
    }
    assert_eq!(ids.len(), 2);
}

#[test]
fn a_listener_is_never_called_concurrently() {
    // Events of one topology do not come concurrently (EVT-4), and so keep their order (EVT-3).
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let is_reported = Arc::new(AtomicBool::new(false));
    let broken = Arc::new(AtomicBool::new(false));
    let (reported, breaks) = (is_reported.clone(), broken.clone());
    let listener = Arc::new(move |_: &Event| {
        if reported.swap(true, Ordering::SeqCst) {
            breaks.store(true, Ordering::SeqCst);
        }
        thread::yield_now();
        reported.store(false, Ordering::SeqCst);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = build(builder(server.uri()).event_listener(listener));
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { ping(&client).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("a reply");
        }
        client.shutdown().await;
    });
    assert!(!broken.load(Ordering::SeqCst));
}
