//! A process that forks with a client in its hands (CMAP-37, CMAP-103, CMAP-104, CMAP-105): the
//! child gets connections, sessions and ids of its own, and the parent does not notice.
//!
//! Not run by the usual harness, whose threads a child would not have. The server is in another
//! process for the same reason: this program starts itself once more.

use fork::{Fork, fork, waitpid};
use onionskin_blocking::{
    Client, Run,
    bson::{Document, doc, oid::ObjectId},
    event::{Event, EventKind, PoolEvent},
};
use onionskin_simulations::serve::{Embedded, ServeOptions};
use std::{
    env,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Tells the second process where the server is.
const URI: &str = "ONIONSKIN_FORK_URI";

const PATIENCE: Duration = Duration::from_secs(20);

type Collection = onionskin_blocking::Collection<Document>;

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
    let more = (1..10).map(|n| doc! { "_id": n });
    things.insert_many(more).run().expect("a reply");
    let mut cursor = things.find(doc! {}).batch_size(3).run().expect("a reply");
    assert!(cursor.next().is_some());

    // This one goes to the server.
    if let Forked::Child = forked() {
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
        client.shutdown();
        return;
    }
    // This one ends nothing of its parent's, although it could.
    if let Forked::Child = forked() {
        assert!(things.find_one(doc! { "_id": 1 }).run().is_ok());
        drop(cursor);
        drop(things);
        drop(client);
        return;
    }
    // This one says nothing to anybody.
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
    client.shutdown();
}

enum Forked {
    Child,
    /// Its child has come to a good end.
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

/// The id that the driver gives to a document without one.
fn new_id(things: &Collection) -> ObjectId {
    let inserted = things.insert_one(doc! { "id": "none" }).run();
    let id = inserted.expect("a reply").inserted_id;
    id.as_object_id().expect("an id of the driver's")
}

/// What tells the ids of one process from those of another.
fn own_bytes(id: ObjectId) -> Vec<u8> {
    id.bytes()[4..9].to_vec()
}
