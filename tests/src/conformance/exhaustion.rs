//! A test of a process that has no file descriptors left. The test starts its own binary as another
//! process, with this test alone, so that no other test lacks descriptors.

use super::{
    Host, Stepper, builder, find, pause,
    server::{Gate, Request, Server, Step, answer},
    things, until, within,
};
use bson::doc;
use onionskin::Client;
use onionskin_core::{
    error::{Error, ErrorKind, IoError, NetworkFault},
    event::{Event, EventKind, PoolEvent, SdamEvent},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    any::type_name,
    env,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    process::{Command, Stdio},
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

/// The line that the other process prints when the server may reply to its next insert. Until then,
/// the connection of the insert stays in use.
const RELEASE: &str = "release the insert";

/// The number of inserts of the other process.
const INSERTS: usize = 2;

/// The number of finds that run while an insert uses the connection of the pool.
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
    let gates: Arc<[Arc<Gate>]> = (0..INSERTS).map(|_| Gate::new()).collect();
    let server = Server::scripted::<H>(held_inserts(gates.clone()));
    let address = format!("{host}:{}", server.port());
    // The path of the module that contains the test, which libtest puts before the test's name.
    let host = type_name::<H>().split("::").skip(1);
    let module: Vec<&str> = host.take_while(|part| *part != "This").collect();
    let name = "a_lack_of_file_descriptors_fails_only_operations_on_new_connections";
    let name = format!("{}::{name}", module.join("::"));
    let child = thread::spawn(move || run_child(&name, &address, &gates));
    let end = async {
        while !child.is_finished() {
            pause::<H>(Duration::from_millis(5)).await;
        }
    };
    within::<H, _>(H::WAIT_LIMIT * 3, "the other process", end).await;
    let (is_success, text) = child.join().expect("no panic").expect("it was started");
    assert!(is_success && text.contains("1 passed"), "{text}");
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// Returns a script that holds the reply to each insert until the next gate is open.
fn held_inserts(gates: Arc<[Arc<Gate>]>) -> impl Fn(&Request) -> Vec<Step> + Send + Sync {
    move |request| {
        if request.name != "insert" {
            return answer(request);
        }
        let gate = gates[request.earlier].clone();
        [vec![Step::Hold(gate)], answer(request)].concat()
    }
}

/// Runs a test of this binary in another process, and opens a gate for each line [`RELEASE`] of its
/// output. Returns whether the process succeeded, and its output.
fn run_child(name: &str, address: &str, gates: &[Arc<Gate>]) -> io::Result<(bool, String)> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--exact", name, "--nocapture"]);
    command.env(SERVER, address);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        errors.read_to_end(&mut text).map(|_| text)
    });
    let (mut gates, mut text) = (gates.iter(), String::new());
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line.ends_with(RELEASE)
            && let Some(gate) = gates.next()
        {
            gate.open();
        }
        text += &line;
        text.push('\n');
    }
    let errors = errors.join().expect("no panic")?;
    text += &String::from_utf8_lossy(&errors);
    Ok((child.wait()?.success(), text))
}

/// Opens files until no descriptor is left.
fn open_files() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn is_reported(error: &Error) -> bool {
    let fault = NetworkFault::OutOfSockets;
    let is_reported =
        matches!(error.kind(), ErrorKind::Io(IoError { fault: f, .. }) if *f == fault);
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
    within::<H, _>(H::WAIT_LIMIT, "an end", end).await
}

/// Runs [`FINDS`] finds, one after the other, while an insert uses the connection of the pool.
/// Returns how many of them fail.
async fn count_failed_finds<H: Host>(client: &Client<H::R>) -> usize {
    let things = things(client);
    let document = doc! { "n": 1 };
    let mut insert = Stepper::new(things.insert_one(&document));
    assert!(insert.step().await.is_none(), "the server holds its reply");
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
    println!("{RELEASE}");
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
    within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
}
