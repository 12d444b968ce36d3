//! A process that has no descriptors left. It is a process of its own, so that nobody else suffers:
//! the test's binary is started once more, with this check alone.

use super::{
    Host, SLACK, SOON, Stepper, builder, find, pause, server::Server, things, until, within,
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

/// Tells the second process which server to use, and that it is the second.
const SERVER: &str = "ONIONSKIN_STARVED_AT";

/// How the second process names that server; a literal address needs no lookup, a host name does.
const HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

/// The most descriptors that the second process may have.
const DESCRIPTORS: u64 = 200;

/// Bytes of an insert that keeps its connection busy until somebody goes on with it.
const LARGE: usize = 15_000_000;

/// Operations that find no connection.
const FINDS: usize = 4;

/// Operations that need new connections fail, and say why, whether the server's name had to be
/// looked up or not. Nothing of that is held against the server: what is there goes on, and once
/// there are descriptors again so does everything else.
pub async fn descriptors_that_run_out_are_told_and_missed_no_longer<H: Host>() {
    if let Ok(address) = env::var(SERVER) {
        return starve::<H>(&address).await;
    }
    for host in HOSTS {
        starve_elsewhere::<H>(host).await;
    }
}

async fn starve_elsewhere<H: Host>(host: &str) {
    let server = Server::plain::<H>();
    let address = format!("{host}:{}", server.port());
    // The host's module, as tests are named after it.
    let host = type_name::<H>().split("::").skip(1);
    let module: Vec<&str> = host.take_while(|part| *part != "This").collect();
    let name = "descriptors_that_run_out_are_told_and_missed_no_longer";
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
    within::<H, _>(SOON * 3, "the other process", end).await;
    let output = child.join().expect("no panic").expect("it was started");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    until::<H>("the closing of all sockets", || server.open() == 0).await;
}

/// Takes all descriptors that are left.
fn hoard() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn is_told(error: &Error) -> bool {
    let fault = NetworkFault::OutOfSockets;
    let is_told = matches!(error.kind(), ErrorKind::Network { fault: f, .. } if *f == fault);
    is_told && error.server().is_some()
}

/// Drives an operation to its end.
async fn drive<H: Host, F: Future>(stepper: &mut Stepper<F>) -> F::Output {
    let end = async {
        loop {
            if let Some(end) = stepper.step().await {
                return end;
            }
            stepper.woken().await;
        }
    };
    within::<H, _>(SOON, "an end", end).await
}

/// How many of some finds fail while the connection that there is belongs to a large insert.
async fn crowd<H: Host>(client: &Client<H::R>) -> usize {
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
                assert!(is_told(&error), "{error:?}");
                failed += 1;
            }
        }
    }
    drive::<H, _>(&mut insert)
        .await
        .expect("nobody disturbed it");
    failed
}

async fn starve<H: Host>(address: &str) {
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
    let hoard = hoard();
    assert!(!hoard.is_empty(), "there were some left");
    let failed = crowd::<H>(&client).await;
    assert_eq!(failed, FINDS);
    find(&client, 7)
        .await
        .expect("the connection that is there");
    client.flush_events().await;
    let now = changes.load(Ordering::SeqCst);
    assert_eq!(now, known, "nothing was held against the server");
    drop(hoard);
    assert_eq!(crowd::<H>(&client).await, 0, "there are descriptors again");
    within::<H, _>(SLACK, "shutdown", client.shutdown()).await;
}
