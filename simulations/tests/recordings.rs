//! Tests of recordings of live clients on real sockets: what such a client did is what the same
//! core does again with the recorded inputs.

use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_simulations::demo::{self, DemoOptions};
use onionskin_tokio::{
    Client, Error, TokioRuntime,
    bson::{Document, doc},
    error::ErrorKind,
    options::{UpdateManyModel, UpdateOneModel, WriteModel},
    recording::{Recording, RecordingOptions, ReplayedStep, Verdict},
};
use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

const WHOLE: RecordingOptions = RecordingOptions::whole(256 << 20);

/// A text that must not be in a recording.
const DOCUMENT_TEXT: &str = "a text of the application";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn client(uri: &str, options: RecordingOptions) -> Result<Client, Error> {
    Client::builder_from_uri(TokioRuntime::default(), uri)?
        .recording(options)
        .build()
}

fn read(file: &[u8]) -> Recording {
    Recording::read(file).expect("a recording")
}

/// Returns the last step of the replay.
fn last_step(file: &[u8]) -> ReplayedStep {
    let recording = read(file);
    let steps = recording.replay().expect("it has its beginning");
    steps.last().expect("it has steps")
}

fn assert_same(file: &[u8]) {
    let recording = read(file);
    assert!(!recording.is_cut());
    let last = last_step(file);
    assert_eq!(last.verdict, Verdict::Same, "{last:?}");
    assert_eq!(last.number, recording.entries());
}

/// Returns the place of each entry of a recording, without its size.
fn entries(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    fn size(file: &[u8], at: &mut usize) -> usize {
        let (mut size, mut shift) = (0, 0);
        loop {
            let byte = file[*at];
            *at += 1;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return size;
            }
        }
    }
    let mut at = b"onionrec02".len();
    at += size(file, &mut at);
    let mut found = Vec::new();
    while at < file.len() {
        let length = size(file, &mut at);
        found.push(at..at + length);
        at += length;
    }
    found
}

#[test]
fn a_demonstration_on_sockets_replays_to_the_same_actions() {
    let options = DemoOptions {
        tasks: 8,
        duration: Duration::from_secs(3),
        recording: Some(WHOLE),
        ..DemoOptions::default()
    };
    let run = demo::run(TokioRuntime::default, "tokio", &options);
    let report = runtime().block_on(run).expect("it runs");
    let file = report.recording().expect("it was recorded");
    assert!(read(file).entries() > 1000);
    assert_same(file);
    assert_eq!(onionskin_replay(file, "demonstration.rec", &[]), Some(0));
}

#[test]
fn a_demonstration_that_fails_keeps_its_recording() {
    let options = DemoOptions {
        // No server listens there.
        uri: Some("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100".to_owned()),
        recording: Some(WHOLE),
        ..DemoOptions::default()
    };
    let run = demo::run(TokioRuntime::default, "tokio", &options);
    runtime().block_on(run).expect_err("there is no server");
    assert_same(options.failed.get().expect("it was recorded"));
}

/// Gives a recording to `onionskin replay`, as a file with this name, and returns the exit code.
fn onionskin_replay(file: &[u8], name: &str, arguments: &[&str]) -> Option<i32> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, file).expect("it is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_onionskin"));
    let status = command.arg("replay").arg(&path).args(arguments).status();
    status.expect("it runs").code()
}

/// Writes and reads until `stop`, and gives up each third operation at some point.
async fn work(client: Client, task: usize, stop: Arc<AtomicBool>, given_up: Arc<AtomicUsize>) {
    let collection = client.database("db").collection::<Document>("c");
    for number in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let document = doc! { "task": task as i64, "text": DOCUMENT_TEXT };
        let limit = match number % 3 {
            0 => Duration::from_micros((number as u64 * 97) % 2500),
            _ => Duration::from_secs(5),
        };
        let operation = async {
            match number % 4 {
                0 => drop(collection.insert_one(document).await),
                1 => drop(collection.insert_one(doc! { "_id": 1 }).await),
                2 => {
                    let change = doc! { "$set": document };
                    drop(collection.update_many(doc! { "task": 1 }, change).await);
                }
                _ => {
                    if let Ok(mut cursor) = collection.find(doc! {}).batch_size(3).await {
                        for _ in 0..3 {
                            drop(cursor.next().await);
                        }
                    }
                }
            }
        };
        if tokio::time::timeout(limit, operation).await.is_err() {
            given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_storm_of_failures_and_abandoned_operations_replays_to_the_same_actions() {
    let server = Embedded::start(ServeOptions::replica_set("rs", 3)).expect("a server");
    let uri = format!("{}&maxPoolSize=3&heartbeatFrequencyMS=500", server.uri());
    let (stop, given_up) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let file = runtime().block_on(async {
        let client = client(&uri, WHOLE).expect("a client");
        let tasks = (0..8).map(|task| {
            let work = work(client.clone(), task, stop.clone(), given_up.clone());
            tokio::spawn(work)
        });
        let tasks: Vec<_> = tasks.collect();
        let pause = || tokio::time::sleep(Duration::from_millis(700));
        pause().await;
        server.step_down();
        pause().await;
        let primary = server.status().and_then(|status| status.primary);
        server.kill(primary.unwrap_or(0));
        pause().await;
        server.restart(primary.unwrap_or(0));
        pause().await;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("it does not panic");
        }
        let recorded = client.clone();
        client.shutdown().await;
        recorded.recording().expect("it was recorded")
    });
    assert!(given_up.load(Ordering::Relaxed) > 20, "{given_up:?}");
    assert_same(&file);
    let printed = read(&file);
    let printed = printed.print().map(|step| step.input);
    let printed: Vec<String> = printed.collect();
    for expected in ["was given up", "a late reply", "failed", "is cancelled"] {
        let count = printed.iter().filter(|line| line.contains(expected));
        assert!(count.count() > 0, "no step with {expected:?}");
    }
    let text = DOCUMENT_TEXT.as_bytes();
    assert!(!file.windows(text.len()).any(|bytes| bytes == text));
}

/// Returns the recording of a client that has made one ping.
fn small_recording(options: RecordingOptions, pings: usize) -> Vec<u8> {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    runtime().block_on(async {
        let client = client(server.uri(), options).expect("a client");
        let database = client.database("db");
        for _ in 0..pings {
            let ping = database.run_command(doc! { "ping": 1 });
            ping.await.expect("an answer");
        }
        client.recording().expect("it was recorded")
    })
}

#[test]
fn a_changed_step_is_found() {
    let file = small_recording(WHOLE, 3);
    assert_same(&file);
    let entries = entries(&file);
    assert_eq!(entries.len() as u64, read(&file).entries());
    for changed in [0, 3, entries.len() - 1] {
        // The last bytes of an entry are its digest.
        let mut other = file.clone();
        other[entries[changed].end - 1] ^= 1;
        let last = last_step(&other);
        assert_eq!(last.verdict, Verdict::Different, "{last:?}");
        assert_eq!(last.number, changed as u64 + 1);
    }
    let mut other = file.clone();
    other[entries[2].end - 1] ^= 1;
    assert_eq!(onionskin_replay(&other, "changed.rec", &[]), Some(1));
    // Without a replay, nothing differs.
    let print = |file: &[u8]| onionskin_replay(file, "printed.rec", &["--print"]);
    assert_eq!(print(&other), Some(0));
    assert_eq!(print(&other[..other.len() - 1]), Some(2));
}

#[test]
fn a_damaged_recording_is_an_error_and_no_panic() {
    let file = small_recording(WHOLE, 2);
    let entries = entries(&file);
    let first = entries[0].start;
    for (number, entry) in (1..).zip(&entries) {
        for at in entry.end - 4..entry.end {
            let mut other = file.clone();
            other[at] ^= 0x55;
            let last = last_step(&other);
            assert_eq!((last.number, last.verdict), (number, Verdict::Different));
        }
        // No input has the kind 0.
        let mut other = file.clone();
        other[entry.start] = 0;
        let last = last_step(&other);
        assert!(matches!(last.verdict, Verdict::Unknown(_)), "{last:?}");
        assert_eq!(last.number, number);
    }
    for at in (first..file.len()).step_by(3) {
        let mut other = file.clone();
        other[at] ^= 0x55;
        let printed = read(&other).print().last().expect("it has steps");
        for last in [last_step(&other), printed] {
            assert!(last.number <= entries.len() as u64 + 1, "{last:?}");
        }
        if at % 5 == 0 {
            let cut = last_step(&file[..at]);
            assert!(matches!(cut.verdict, Verdict::Unknown(_)), "{cut:?}");
        }
    }
    for length in 0..first - 1 {
        assert!(Recording::read(&file[..length]).is_err());
    }
}

#[test]
fn a_ring_that_has_lost_its_beginning_is_printed_and_not_replayed() {
    let file = small_recording(RecordingOptions::ring(4096), 200);
    let recording = read(&file);
    assert!(recording.lost() > 0 && file.len() < 4096 + 2048);
    let error = recording.replay().expect_err("its beginning is lost");
    assert!(error.to_string().contains("lacks its first"), "{error}");
    let last = recording.print().last().expect("it has steps");
    assert_eq!(last.number, recording.lost() + recording.entries());
    assert_eq!(last.verdict, Verdict::Printed);
    // A ring that has lost nothing is replayed.
    assert_same(&small_recording(RecordingOptions::ring(1 << 20), 2));
}

/// Uses a session once: in a transaction with a cursor, in a bulk write of whose statements the
/// second one can affect several documents, or for a read of a snapshot.
async fn use_session(client: &Client, number: u64) -> Result<(), Error> {
    let collection = client.database("db").collection::<Document>("s");
    let mut session = client.start_session().snapshot(number % 4 == 3).await?;
    match number % 4 {
        0 | 1 => {
            session.start_transaction().await?;
            let insert = collection.insert_one(doc! { "text": DOCUMENT_TEXT });
            insert.session(&mut session).await?;
            let find = collection.find(doc! {}).batch_size(2);
            let mut cursor = find.session(&mut session).await?;
            drop(cursor.next(&mut session).await);
            match number % 8 < 4 {
                true => session.commit_transaction().await?,
                false => session.abort_transaction().await?,
            }
        }
        2 => {
            let change = doc! { "$set": { "text": DOCUMENT_TEXT } };
            let one = UpdateOneModel::builder().filter(doc! { "_id": 1 });
            let many = UpdateManyModel::builder().filter(doc! { "n": 1 });
            let operations: [WriteModel; 2] = [
                one.update(change.clone()).build().into(),
                many.update(change).build().into(),
            ];
            let bulk = collection.bulk_write(operations);
            bulk.session(&mut session).await?;
        }
        _ => {
            let find = collection.find_one(doc! { "_id": 1 });
            find.session(&mut session).await?;
        }
    }
    session.end().await
}

/// Uses sessions until `stop`, and gives up each third use at some point.
async fn use_sessions(client: Client, stop: Arc<AtomicBool>) {
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let limit = match number % 3 {
            0 => Duration::from_micros((number * 97) % 4000),
            _ => Duration::from_secs(5),
        };
        let used = use_session(&client, number);
        drop(tokio::time::timeout(limit, used).await);
    }
}

/// Returns the recording of a client whose tasks use sessions while connections fail.
async fn recorded_sessions(server: &Embedded) -> Vec<u8> {
    let client = client(server.uri(), WHOLE).expect("a client");
    let collection = client.database("db").collection::<Document>("s");
    for id in 0..10 {
        let insert = collection.insert_one(doc! { "_id": id, "n": 1 });
        insert.await.expect("a reply");
    }
    let stop = Arc::<AtomicBool>::default();
    let tasks = (0..4).map(|_| tokio::spawn(use_sessions(client.clone(), stop.clone())));
    let tasks: Vec<_> = tasks.collect();
    let pause = || tokio::time::sleep(Duration::from_millis(500));
    pause().await;
    server.disconnect(0);
    pause().await;
    server.step_down();
    pause().await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("it does not panic");
    }
    let mut session = client.start_session().await.expect("a session");
    let insert = async |session: &mut _| {
        collection
            .insert_one(doc! { "text": DOCUMENT_TEXT })
            .session(&mut *session)
            .await?;
        Ok(())
    };
    let run = session.start_transaction().and_run2(insert);
    run.await.expect("it succeeds in the end");
    session.end().await.expect("nothing is left to abort");
    let recorded = client.clone();
    client.shutdown().await;
    recorded.recording().expect("it was recorded")
}

#[test]
fn sessions_transactions_and_bulk_writes_replay_to_the_same_actions() {
    for options in [
        ServeOptions::replica_set("rs", 3),
        ServeOptions::sharded(2),
        ServeOptions::load_balanced(2),
    ] {
        let server = Embedded::start(options).expect("a server");
        let file = runtime().block_on(recorded_sessions(&server));
        assert_same(&file);
        let printed = read(&file);
        let printed: Vec<String> = printed.print().map(|step| step.input).collect();
        for expected in [
            "a transaction is started",
            "is to be committed",
            "is to be aborted",
            "a repeated transaction",
            "was given up",
        ] {
            let has_it = printed.iter().any(|line| line.contains(expected));
            assert!(has_it, "no step with {expected:?}");
        }
        let text = DOCUMENT_TEXT.as_bytes();
        assert!(!file.windows(text.len()).any(|bytes| bytes == text));
    }
}

#[test]
fn a_client_with_a_credential_is_replayed_with_and_without_tls() {
    const USER: &str = "ada-lovelace";
    const PASSWORD: &str = "analytical-engine";
    for has_tls in [false, true] {
        let mut options = ServeOptions::replica_set("rs", 3);
        options.users = vec![User::new(USER, PASSWORD)];
        options.tls = has_tls;
        let server = Embedded::start(options).expect("a server");
        let uri = format!("{}&heartbeatFrequencyMS=500", server.uri());
        assert!(uri.contains(PASSWORD));
        let (stop, given_up) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let file = runtime().block_on(async {
            let client = client(&uri, WHOLE).expect("a client");
            let tasks = (0..4).map(|task| {
                let work = work(client.clone(), task, stop.clone(), given_up.clone());
                tokio::spawn(work)
            });
            let tasks: Vec<_> = tasks.collect();
            let pause = || tokio::time::sleep(Duration::from_millis(700));
            pause().await;
            server.require_reauthentication();
            pause().await;
            server.step_down();
            pause().await;
            stop.store(true, Ordering::Relaxed);
            for task in tasks {
                task.await.expect("it does not panic");
            }
            let recorded = client.clone();
            client.shutdown().await;
            recorded.recording().expect("it was recorded")
        });
        assert!(read(&file).entries() > 100);
        assert_same(&file);
        for text in [USER, PASSWORD, DOCUMENT_TEXT] {
            let mut places = file.windows(text.len());
            assert!(!places.any(|bytes| bytes == text.as_bytes()), "{text}");
        }
    }
}

#[test]
fn a_client_whose_credential_is_fetched_is_not_recorded() {
    let uri = "mongodb://id:key@localhost/?authMechanism=MONGODB-AWS";
    let error = runtime().block_on(async { client(uri, WHOLE).expect_err("it has secrets") });
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }));
    assert!(error.to_string().contains("MONGODB-AWS"), "{error}");
}

#[test]
fn a_failed_operation_writes_the_recording() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failure.rec");
    let _ = std::fs::remove_file(&path);
    runtime().block_on(async {
        // No server listens there.
        let uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100";
        let builder = Client::builder_from_uri(TokioRuntime::default(), uri).expect("options");
        let builder = builder.recording(RecordingOptions::ring(1 << 20));
        let client = builder.failure_recording(&path).build().expect("a client");
        let database = client.database("db");
        let ping = database.run_command(doc! { "ping": 1 });
        ping.await.expect_err("there is no server");
        for _ in 0..500 {
            if path.exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_same(&std::fs::read(&path).expect("it was written"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let facts = std::fs::metadata(&path).expect("it was written");
        assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    }
    let lonely = Client::builder_from_uri(TokioRuntime::default(), "mongodb://localhost");
    let lonely = lonely.expect("options").failure_recording(&path).build();
    assert!(lonely.is_err(), "there is no recording to write");
}
