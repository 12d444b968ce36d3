//! A process that forks while it has a client. The driver in the child notices the fork (CMAP-105),
//! clears its pools and closes its connections (CMAP-37, CMAP-103), as the documentation says
//! (CMAP-104). The child uses sessions and ObjectIds of its own, and the parent is not affected.
//!
//! The test has its own `main`, because the usual harness has threads, which a child would not
//! have. For the same reason the server runs in another process: the program starts itself as the
//! process that forks.

use fork::{Fork, fork, waitpid};
use onionskin_blocking::{
    Client, Run,
    bson::{Document, doc, oid::ObjectId},
    event::{Event, EventKind, PoolEvent},
    system::run_on_thread,
};
use onionskin_serve::{Embedded, ServeOptions};
use std::{
    env,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    time::{Duration, Instant},
};

/// The environment variable with the server's URI. Only the process that forks has the variable.
const URI: &str = "ONIONSKIN_FORK_URI";

const PATIENCE: Duration = Duration::from_secs(60);

type Collection = onionskin_blocking::Collection<Document>;
type Session = onionskin_blocking::ClientSession;

fn main() {
    match env::var(URI) {
        Ok(uri) => fork_with_client(&uri),
        Err(_) => [false, true].into_iter().for_each(serve_who_forks),
    }
}

fn serve_who_forks(tls: bool) {
    let mut options = ServeOptions::standalone();
    options.tls = tls;
    let deployment = Embedded::start(options).expect("a server");
    let program = env::current_exe().expect("this program");
    let status = Command::new(program).env(URI, deployment.uri()).status();
    assert!(status.expect("a process").success(), "TLS {tls}");
    let start = Instant::now();
    while deployment.status().expect("it runs").connections > 0 {
        assert!(start.elapsed() < PATIENCE, "connections are left");
        std::thread::yield_now();
    }
}

fn fork_with_client(uri: &str) {
    let lost = Arc::new(AtomicUsize::new(0));
    let counted = lost.clone();
    let listener = Arc::new(move |event: &Event| {
        if let EventKind::Pool(PoolEvent::ConnectionClosed { .. } | PoolEvent::Cleared { .. }) =
            event.kind
        {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let options = onionskin_blocking::options::parse(uri).expect("a URI");
    let builder = Client::builder(options.options).event_listener(listener);
    let client: Client = builder.build().expect("a client").into();
    let things: Collection = client.database("app").collection("things");
    let made_here = new_id(&things);
    runs_on_thread();
    let more = (1..10).map(|n| doc! { "_id": n });
    things.insert_many(more).run().expect("a reply");
    let mut cursor = things.find(doc! {}).batch_size(3).run().expect("a reply");
    assert!(cursor.next().is_some());

    // The first child runs operations.
    if let Forked::Child = forked() {
        runs_on_thread();
        assert_ne!(own_bytes(new_id(&things)), own_bytes(made_here));
        assert!(
            lost.load(Ordering::SeqCst) > 0,
            "it let go of all connections"
        );
        assert_eq!(cursor.by_ref().take_while(Result::is_ok).count(), 2);
        assert!(cursor.next().is_none(), "the rest is its parent's");
        assert!(things.find_one(doc! { "_id": 1 }).run().is_ok());
        drop(cursor);
        drop(things);
        client.shutdown().run();
        return;
    }
    // The second child connects to the server. When the child drops everything, it must not end its
    // parent's cursor and sessions.
    if let Forked::Child = forked() {
        assert!(things.find_one(doc! { "_id": 1 }).run().is_ok());
        drop(cursor);
        drop(things);
        drop(client);
        return;
    }
    // The third child drops everything without an operation.
    if let Forked::Child = forked() {
        drop(cursor);
        drop(things);
        drop(client);
        return;
    }

    let rest: Result<Vec<Document>, _> = cursor.collect();
    assert_eq!(rest.expect("replies").len(), 9, "nobody ended the cursor");
    assert_eq!(own_bytes(new_id(&things)), own_bytes(made_here));
    assert_eq!(lost.load(Ordering::SeqCst), 0, "nothing happened here");
    drop(things);
    if fork_with_sessions(&client).is_parent() {
        client.shutdown().run();
    }
}

/// Fails unless blocking work runs. The parent of a fork leaves a thread for it, which its children
/// do not have.
fn runs_on_thread() {
    let (done, is_done) = channel();
    run_on_thread(move || done.send(()).expect("the receiver waits"));
    is_done.recv_timeout(PATIENCE).expect("the work runs");
}

/// Sessions prose 12 and 13: the parent of a fork uses its sessions again, and the child does not,
/// whether the session ended before the fork or afterwards.
fn fork_with_sessions(client: &Client) -> Forked {
    let start = || -> Session { client.start_session().run().expect("a session") };
    for ends_before_fork in [true, false] {
        let session = start();
        let id = session.id().clone();
        let mut left = Some(session);
        if ends_before_fork {
            left = None;
        }
        let forked = forked();
        drop(left);
        let next = start();
        assert_eq!(*next.id() == id, forked.is_parent(), "{ends_before_fork}");
        if let Forked::Child = forked {
            return forked;
        }
    }
    Forked::Parent
}

enum Forked {
    Child,
    /// The parent process, after its child has exited with success.
    Parent,
}

fn forked() -> Forked {
    match fork().expect("a child") {
        Fork::Child => Forked::Child,
        Fork::Parent(child) => {
            let status = waitpid(child).expect("a child");
            assert_eq!(status, 0, "the child failed");
            Forked::Parent
        }
    }
}

impl Forked {
    const fn is_parent(&self) -> bool {
        matches!(self, Self::Parent)
    }
}

/// Returns the id that the driver gives to a document without `_id`.
fn new_id(things: &Collection) -> ObjectId {
    let inserted = things.insert_one(doc! { "id": "none" }).run();
    let id = inserted.expect("a reply").inserted_id;
    id.as_object_id().expect("an id of the driver's")
}

/// Returns the random bytes of an id, which are different in each process.
fn own_bytes(id: ObjectId) -> Vec<u8> {
    id.bytes()[4..9].to_vec()
}
