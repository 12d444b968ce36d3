//! Tests of the blocking client against simulated deployments and scripted servers.

mod calls;

use onionskin_blocking::{
    Client, Run,
    bson::{Document, doc},
    error::{Error, ErrorKind},
    event::{CommandEvent, Event, EventKind, EventListener},
};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    compressors::with_compressors,
    conformance::server::{Gate, Server, Step, SystemPort, answer},
};
use std::{
    future::{Future, IntoFuture},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

/// The longest time to wait for a condition.
const PATIENCE: Duration = Duration::from_secs(60);

type Collection = onionskin_blocking::Collection<Document>;

fn people(client: &Client) -> Collection {
    client.database("app").collection("people")
}

fn standalone() -> Embedded {
    Embedded::start(ServeOptions::standalone()).expect("a server")
}

/// Starts a replica set with short times for elections and for the detection of failures.
fn replica_set() -> Embedded {
    let mut options = ServeOptions::replica_set("rs0", 3);
    options.election_timeout = Duration::from_millis(200);
    options.heartbeat_interval = Duration::from_millis(50);
    Embedded::start(options).expect("a replica set")
}

fn connections(deployment: &Embedded) -> usize {
    deployment.status().expect("it runs").connections
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        thread::yield_now();
    }
}

#[test]
fn blocking_calls_insert_find_update_and_delete_documents() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let people = people(&client);
    people.insert_one(doc! { "_id": 0, "name": "Ada" }).run()?;
    let more = (1..10).map(|n| doc! { "_id": n, "name": "Bob" });
    people.insert_many(more).run()?;
    let ada = people.find_one(doc! { "name": "Ada" }).run()?;
    assert_eq!(ada, Some(doc! { "_id": 0, "name": "Ada" }));
    assert_eq!(people.count_documents(doc! {}).run()?, 10);
    let sorted = people.find(doc! {}).sort(doc! { "_id": -1 }).batch_size(3);
    let ids: Vec<i32> = sorted
        .run()?
        .map(|person| {
            person
                .expect("a document")
                .get_i32("_id")
                .expect("a number")
        })
        .collect();
    assert_eq!(ids, (0..10).rev().collect::<Vec<_>>());
    let named = doc! { "$set": { "name": "Eve" } };
    assert_eq!(
        people
            .update_many(doc! { "name": "Bob" }, named)
            .run()?
            .modified_count,
        9
    );
    assert_eq!(
        people
            .delete_many(doc! { "name": "Eve" })
            .run()?
            .deleted_count,
        9
    );
    let pong = client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .run()?;
    assert!(pong.contains_key("ok"));
    client.shutdown().run();
    until("the closing of all sockets", || {
        connections(&deployment) == 0
    });
    Ok(())
}

#[test]
fn dropping_a_client_and_its_open_cursor_closes_all_sockets() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    assert_eq!(connections(&deployment), 0, "nobody asked for anything yet");
    let people = people(&client);
    people
        .insert_many((0..10).map(|n| doc! { "_id": n }))
        .run()?;
    let mut cursor = people.find(doc! {}).batch_size(2).run()?;
    assert_eq!(cursor.next(), Some(Ok(doc! { "_id": 0 })));
    drop(client);
    drop(people);
    assert_eq!(cursor.by_ref().count(), 9, "a cursor keeps its client open");
    drop(cursor);
    until("the closing of all sockets", || {
        connections(&deployment) == 0
    });

    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let mut cursor = self::people(&client).find(doc! {}).batch_size(2).run()?;
    cursor.next().expect("a document")?;
    drop(client);
    drop(cursor);
    until("the closing of all sockets", || {
        connections(&deployment) == 0
    });
    Ok(())
}

#[test]
fn inserts_wait_for_a_new_primary_after_a_failover() -> Result<(), Error> {
    let deployment = replica_set();
    let uri = format!("{}&serverSelectionTryOnce=false", deployment.uri());
    let client = Client::with_uri_str(with_compressors(&uri))?;
    let people = people(&client);
    for n in 0..40 {
        if n == 10 {
            assert!(deployment.step_down());
        }
        if n == 20 {
            until("a primary", || {
                deployment.status().is_some_and(|s| s.primary.is_some())
            });
            let primary = deployment.status().and_then(|s| s.primary);
            deployment.kill(primary.expect("a primary"));
        }
        people.insert_one(doc! { "_id": n }).run()?;
    }
    let mut ids: Vec<i32> = people
        .find(doc! {})
        .run()?
        .map(|person| {
            person
                .expect("a document")
                .get_i32("_id")
                .expect("a number")
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    client.shutdown().run();
    Ok(())
}

#[test]
fn by_default_server_selection_fails_after_one_scan() {
    let port = SystemPort::closed();
    let uri = format!("mongodb://{}/", port.address());
    let client = Client::with_uri_str(with_compressors(&uri)).expect("a client");
    let start = Instant::now();
    let error = people(&client)
        .find_one(doc! {})
        .run()
        .expect_err("nobody is there");
    assert!(
        matches!(error.kind(), ErrorKind::ServerSelection { .. }),
        "{error}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "the timeout is 30 s"
    );
}

#[test]
fn several_threads_share_one_blocking_client() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let people = people(&client);
            thread::spawn(move || {
                for n in 0..50 {
                    people
                        .insert_one(doc! { "_id": number * 50 + n })
                        .run()
                        .expect("a place");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(people(&client).count_documents(doc! {}).run()?, 200);
    client.shutdown().run();
    Ok(())
}

/// Starts a server that replies to a find with a negative `n` only after the gate was opened. The
/// server replies to other requests at once.
fn holding(gate: &Arc<Gate>) -> Server {
    let gate = gate.clone();
    Server::unix(move |request| {
        if request.n().is_none_or(|n| n >= 0) {
            return answer(request);
        }
        [vec![Step::Hold(gate.clone())], answer(request)].concat()
    })
}

#[test]
fn a_thread_that_waits_for_a_reply_delays_no_other_thread() -> Result<(), Error> {
    let gate = Gate::new();
    let server = holding(&gate);
    let client = Client::with_uri_str(with_compressors(&server.uri("")))?;
    people(&client).find_one(doc! { "n": 1 }).run()?;
    let first = people(&client);
    let first = thread::spawn(move || first.find_one(doc! { "n": -1 }).run());
    until("the first thread", || server.seen("find").len() == 2);
    // The other thread uses the only connection of the pool, so this thread opens another
    // connection.
    let found = people(&client).find_one(doc! { "n": 2 }).run()?;
    assert_eq!(found, Some(doc! { "n": 2 }));
    assert!(!first.is_finished(), "the call waited for the other thread");
    let limit = Duration::from_millis(500);
    let people_here = people(&client);
    let late = people_here.find_one(doc! { "n": -2 }).timeout(limit);
    let error = late.run().expect_err("it is late");
    assert!(error.is_timeout(), "{error}");
    assert!(
        !first.is_finished(),
        "the time limit waited for the other thread"
    );
    // When the thread that drives the runtime gets its reply, another waiting thread drives the
    // runtime.
    let other = people(&client);
    let other = thread::spawn(move || other.find_one(doc! { "n": -3 }).run());
    until("the other thread", || server.seen("find").len() == 5);
    gate.open();
    for thread in [first, other] {
        assert!(thread.join().expect("no panic")?.is_some());
    }
    assert_eq!(client.counts().in_use, 0);
    client.shutdown().run();
    until("the closing of all sockets", || server.open() == 0);
    Ok(())
}

#[test]
fn each_call_ends_by_its_own_time_limit_whichever_thread_drives_the_runtime() -> Result<(), Error> {
    let gate = Gate::new();
    let server = holding(&gate);
    let client = Client::with_uri_str(with_compressors(&server.uri("")))?;
    let calls: Vec<_> = [60, 20, 40, 80]
        .into_iter()
        .map(|millis| {
            let people = people(&client);
            let limit = Duration::from_millis(millis);
            thread::spawn(move || people.find_one(doc! { "n": -1 }).timeout(limit).run())
        })
        .collect();
    // Each call ends by its own time limit, whichever thread drives the runtime at that time.
    for call in calls {
        let error = call.join().expect("no panic").expect_err("it is late");
        assert!(error.is_timeout(), "{error}");
    }
    gate.open();
    client.shutdown().run();
    Ok(())
}

/// Returns a client with a listener.
fn listening(uri: &str, listener: impl Fn(&Event) + Send + Sync + 'static) -> Client {
    let options = onionskin_blocking::options::parse(uri).expect("a connection string");
    let builder = Client::builder(options.options).event_listener(Arc::new(listener));
    builder.build().expect("a client").into()
}

#[test]
fn a_listener_that_blocks_one_call_delays_no_other_call() -> Result<(), Error> {
    let gate = Gate::new();
    let server = holding(&gate);
    let listened = Arc::new(Mutex::new(()));
    let blocks = listened.lock().expect("no panic");
    let is_blocked = Arc::new(AtomicBool::new(false));
    let (blocked, released) = (is_blocked.clone(), listened.clone());
    let client = listening(&with_compressors(&server.uri("")), move |event| {
        if let EventKind::Command(CommandEvent::Started { facts, .. }) = &event.kind
            && &*facts.name == "ping"
        {
            blocked.store(true, Ordering::SeqCst);
            drop(released.lock());
        }
    });
    // The listener blocks the thread of the first or of the second call: both can run it.
    let people_there = people(&client);
    let first = thread::spawn(move || people_there.find_one(doc! { "n": -1 }).run().map(drop));
    until("the first call", || server.seen("find").len() == 1);
    let admin = client.database("admin");
    let second = thread::spawn(move || admin.run_command(doc! { "ping": 1 }).run().map(drop));
    until("the listener", || is_blocked.load(Ordering::SeqCst));
    let people_there = people(&client);
    let third = thread::spawn(move || people_there.find_one(doc! { "n": -2 }).run().map(drop));
    until("the third call", || server.seen("find").len() == 2);
    gate.open();
    let calls = [first, second, third];
    let ended = || calls.iter().filter(|call| call.is_finished()).count();
    until("the other calls", || ended() == 2);
    assert!(calls[2].is_finished(), "nothing blocks the third call");
    drop(blocks);
    for call in calls {
        call.join().expect("no panic")?;
    }
    client.shutdown().run();
    Ok(())
}

#[test]
fn a_call_ends_although_listeners_cause_events_without_end() -> Result<(), Error> {
    let deployment = standalone();
    let slot: Arc<OnceLock<Client>> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let (own, ends) = (slot.clone(), is_over.clone());
    // Each event causes more events: the listener starts a command and drops it.
    let client = listening(&with_compressors(deployment.uri()), move |_| {
        if let Some(client) = own.get().filter(|_| !ends.load(Ordering::SeqCst)) {
            let admin = client.database("admin");
            let ping = admin.run_command(doc! { "ping": 1 });
            let mut ping = pin!(ping.into_future());
            let _ = ping.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
    });
    assert!(slot.set(client.clone()).is_ok());
    let people = people(&client);
    let call = thread::spawn(move || people.insert_one(doc! { "_id": 1 }).run());
    until("the call", || call.is_finished());
    call.join().expect("no panic")?;
    is_over.store(true, Ordering::SeqCst);
    client.shutdown().run();
    Ok(())
}

#[test]
fn a_blocking_call_inside_another_blocking_call_panics() -> Result<(), Error> {
    let deployment = standalone();
    let slot: Arc<OnceLock<Client>> = Arc::default();
    let panics: Arc<Mutex<Vec<String>>> = Arc::default();
    let (asked, reported) = (slot.clone(), panics.clone());
    let listener: EventListener = Arc::new(move |event: &Event| {
        if let (EventKind::Command(_), Some(client)) = (&event.kind, asked.get()) {
            let call = || people(client).find_one(doc! {}).run();
            let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("it waits for itself");
            let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
            reported.lock().expect("no panic").push(text.to_owned());
        }
    });
    let options = onionskin_blocking::options::parse(deployment.uri())?.options;
    let client = Client::from(Client::builder(options).event_listener(listener).build()?);
    let _ = slot.set(client.clone());
    people(&client).insert_one(doc! { "_id": 1 }).run()?;
    let panics = panics.lock().expect("no panic");
    assert_eq!(panics.len(), 2, "one as it starts, one as it ends");
    assert!(
        panics[0].contains("within another blocking call"),
        "{panics:?}"
    );
    assert_eq!(client.counts().in_use, 0);
    Ok(())
}

#[test]
fn a_cursor_pins_the_only_connection_until_it_is_exhausted_or_dropped() -> Result<(), Error> {
    // A cursor checks out one connection for all its commands (LB-31), and its close checks the
    // connection in (LB-35). The error of a timeout in the wait queue counts the connections in use
    // by cursors (LB-46).
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("services");
    let uri = format!("{}&maxPoolSize=1&waitQueueTimeoutMS=1000", deployment.uri());
    let client = Client::with_uri_str(with_compressors(&uri))?;
    let people = people(&client);
    people
        .insert_many((0..10).map(|n| doc! { "_id": n }))
        .run()?;
    let open = || people.find(doc! {}).batch_size(3).run();
    let mut cursor = open()?;
    assert!(cursor.next().is_some_and(|found| found.is_ok()));
    let refused = people
        .count_documents(doc! {})
        .run()
        .expect_err("it is taken");
    assert!(
        refused.to_string().contains("in use by cursors: 1"),
        "{refused}"
    );
    let rest: Result<Vec<Document>, Error> = cursor.by_ref().collect();
    assert_eq!(rest?.len(), 9);
    assert_eq!(people.count_documents(doc! {}).run()?, 10);
    drop(open()?);
    assert_eq!(people.count_documents(doc! {}).run()?, 10, "it was ended");
    let left = open()?;
    client.shutdown().run();
    until("all connections are closed", || {
        connections(&deployment) == 0
    });
    drop(left);
    Ok(())
}

/// Cursors pin their connections (LB-30), in a client without background work. After a network
/// error the connection stays pinned until the cursor is closed (LB-36).
#[test]
fn cursors_pin_their_connections_behind_a_load_balancer() -> Result<(), Error> {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("services");
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let people = people(&client);
    people
        .insert_many((0..50).map(|n| doc! { "_id": n }))
        .run()?;
    let browse = || people.find(doc! {}).batch_size(3).run();
    let mut cursors = [browse()?, browse()?, browse()?];
    for n in 0..20 {
        // Each service knows only its own cursors, so a `getMore` has to use the cursor's
        // connection.
        for cursor in &mut cursors {
            cursor.next().expect("more")?;
        }
        people.find_one(doc! { "_id": n }).run()?.expect("a person");
    }
    assert_eq!(connections(&deployment), 4);
    let [dropped, lost, read] = cursors;
    drop(dropped);
    assert_eq!(read.count(), 30);
    deployment.disconnect(0);
    deployment.disconnect(1);
    let mut rest = lost.skip_while(Result::is_ok);
    let error = rest.next().expect("an answer").expect_err("no connection");
    assert!(error.is_network(), "{error}");
    drop(rest);
    for n in 0..10 {
        people.find_one(doc! { "_id": n }).run()?.expect("a person");
    }
    client.shutdown().run();
    until("no connections", || connections(&deployment) == 0);
    Ok(())
}

#[test]
fn a_call_with_the_last_client_handle_closes_all_sockets_when_it_ends() -> Result<(), Error> {
    let deployment = standalone();
    for _ in 0..5 {
        let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
        let people = people(&client);
        let call = people.find_one(doc! { "_id": 1 }).into_future();
        drop((people, client));
        call.run()?;
    }
    until("the closing of all sockets", || {
        connections(&deployment) == 0
    });
    Ok(())
}
