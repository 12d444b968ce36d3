//! A test of a process that has no file descriptors left. The test starts its own binary as another
//! process, with this test alone, so that no other test lacks descriptors.

use super::{
    Host, SLACK, Stepper, WAIT_LIMIT, builder, find, pause, server::Server, things, until, within,
};
use bson::doc;
use onionskin::Client;
use onionskin_core::{
    error::{Error, ErrorKind, NetworkFault},
    event::{Event, EventKind, PoolEvent, SdamEvent},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    any::type_name,
    env,
    fs::File,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// The environment variable with the server's address. Only the other process has the variable.
const SERVER: &str = "ONIONSKIN_STARVED_AT";

/// The hosts in the connection string of the other process. An address needs no lookup, a host name
/// does.
const HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

/// The limit of the number of open descriptors, which the other process sets for itself.
const DESCRIPTORS: u64 = 200;

/// The size in bytes of the text in an inserted document. It is so large that no socket takes the
/// insert in one write. While the test does not poll the insert, its connection stays in use.
const LARGE: usize = 15_000_000;

/// The number of finds that run while the large insert uses the connection of the pool.
const FINDS: usize = 4;

/// Without descriptors, operations that need new connections fail with an error that names the
/// reason. The server description and the pool do not change, and existing connections work. After
/// descriptors are available again, new connections can be made. The test runs with and without a
/// lookup of the server's name.
pub async fn a_lack_of_file_descriptors_fails_only_operations_on_new_connections<H: Host>() {
    if let Ok(address) = env::var(SERVER) {
        return run_without_descriptors::<H>(&address).await;
    }
    for host in HOSTS {
        run_in_second_process::<H>(host).await;
    }
}

async fn run_in_second_process<H: Host>(host: &str) {
    let server = Server::plain::<H>();
    let address = format!("{host}:{}", server.port());
    // The path of the module that contains the test, which libtest puts before the test's name.
    let host = type_name::<H>().split("::").skip(1);
    let module: Vec<&str> = host.take_while(|part| *part != "This").collect();
    let name = "a_lack_of_file_descriptors_fails_only_operations_on_new_connections";
    let name = format!("{}::{name}", module.join("::"));
    let child = thread::spawn(move || -> std::io::Result<Output> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--exact", &name, "--nocapture"]);
        command.env(SERVER, address).output()
    });
    let end = async {
        while !child.is_finished() {
            pause::<H>(Duration::from_millis(5)).await;
        }
    };
    within::<H, _>(WAIT_LIMIT * 3, "the other process", end).await;
    let output = child.join().expect("no panic").expect("it was started");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// Opens files until no descriptor is left.
fn open_files() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn is_reported(error: &Error) -> bool {
    let fault = NetworkFault::OutOfSockets;
    let is_reported = matches!(error.kind(), ErrorKind::Network { fault: f, .. } if *f == fault);
    is_reported && error.server().is_some()
}

/// Polls an operation until it completes.
async fn drive<H: Host, F: Future>(stepper: &mut Stepper<F>) -> F::Output {
    let end = async {
        loop {
            if let Some(end) = stepper.step().await {
                return end;
            }
            stepper.woken().await;
        }
    };
    within::<H, _>(WAIT_LIMIT, "an end", end).await
}

/// Runs [`FINDS`] finds, one after the other, while a large insert uses the connection of the pool.
/// Returns how many of them fail.
async fn count_failed_finds<H: Host>(client: &Client<H::R>) -> usize {
    let things = things(client);
    let large = doc! { "text": "x".repeat(LARGE) };
    let mut insert = Stepper::new(things.insert_one(&large));
    assert!(insert.step().await.is_none(), "no socket takes so much");
    let mut finds: Vec<_> = (0..FINDS)
        .map(|_| Stepper::new(things.find_one(doc! { "n": 7 })))
        .collect();
    let mut failed = 0;
    for find in &mut finds {
        match drive::<H, _>(find).await {
            Ok(found) => assert_eq!(found, Some(doc! { "n": 7 })),
            Err(error) => {
                assert!(is_reported(&error), "{error:?}");
                failed += 1;
            }
        }
    }
    drive::<H, _>(&mut insert)
        .await
        .expect("nobody disturbed it");
    failed
}

async fn run_without_descriptors<H: Host>(address: &str) {
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = changes.clone();
    let listener = move |event: &Event| {
        let is_change = matches!(
            &event.kind,
            EventKind::Pool(PoolEvent::Cleared { .. })
                | EventKind::Sdam(SdamEvent::ServerDescriptionChanged { .. })
        );
        counted.fetch_add(usize::from(is_change), Ordering::SeqCst);
    };
    let options = "retryReads=false&heartbeatFrequencyMS=60000&maxPoolSize=10";
    let client = builder::<H>(&format!("mongodb://{address}/?{options}"))
        .event_listener(Arc::new(listener))
        .build()
        .expect("a client");
    find(&client, 1).await.expect("a reply");
    client.flush_events().await;
    let known = changes.load(Ordering::SeqCst);
    let limit = getrlimit(Resource::Nofile);
    let lowered = Rlimit {
        current: Some(DESCRIPTORS),
        ..limit
    };
    setrlimit(Resource::Nofile, lowered).expect("less is always allowed");
    let open_files = open_files();
    assert!(!open_files.is_empty(), "there were some left");
    let failed = count_failed_finds::<H>(&client).await;
    assert_eq!(failed, FINDS);
    find(&client, 7)
        .await
        .expect("the connection that is there");
    client.flush_events().await;
    let now = changes.load(Ordering::SeqCst);
    assert_eq!(now, known, "nothing was held against the server");
    drop(open_files);
    assert_eq!(
        count_failed_finds::<H>(&client).await,
        0,
        "there are descriptors again"
    );
    within::<H, _>(SLACK, "shutdown", client.shutdown()).await;
}
