//! The client for programs that block, against the embedded deployment.

use onionskin_blocking::{
    Client, ErrorKind, EventListener, Run,
    bson::{Document, doc},
    core::{
        error::Error,
        event::{Event, EventKind},
    },
};
use onionskin_simulations::serve::{Embedded, ServeOptions};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

/// How long something may take to come true.
const PATIENCE: Duration = Duration::from_secs(20);

type Collection = onionskin_blocking::Collection<Document>;

fn people(client: &Client) -> Collection {
    client.database("app").collection("people")
}

fn standalone() -> Embedded {
    Embedded::start(ServeOptions::standalone()).expect("a server")
}

/// A set that finds a new primary within a second.
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
fn calls_do_what_they_say() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(deployment.uri())?;
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
    client.shutdown();
    until("the closing of all sockets", || {
        connections(&deployment) == 0
    });
    Ok(())
}

#[test]
fn nothing_is_left_of_a_client_that_is_dropped_in_the_middle() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(deployment.uri())?;
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

    let client = Client::with_uri_str(deployment.uri())?;
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
fn a_failover_is_waited_for() -> Result<(), Error> {
    let deployment = replica_set();
    let uri = format!("{}&serverSelectionTryOnce=false", deployment.uri());
    let client = Client::with_uri_str(uri)?;
    let people = people(&client);
    for n in 0..40 {
        if n == 10 {
            assert!(deployment.step_down());
        }
        if n == 20 {
            // Right after an election there is none to kill.
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
    client.shutdown();
    Ok(())
}

#[test]
fn by_default_one_scan_decides() {
    // The port is free: nothing listens there any more.
    let deployment = standalone();
    let uri = deployment.uri().to_owned();
    drop(deployment);
    let client = Client::with_uri_str(uri).expect("a client");
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
        start.elapsed() < Duration::from_secs(5),
        "the timeout is 30 s"
    );
}

#[test]
fn threads_have_their_turns() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(deployment.uri())?;
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
    client.shutdown();
    Ok(())
}

#[test]
fn a_call_within_a_call_is_refused_instead_of_waiting_for_itself() -> Result<(), Error> {
    let deployment = standalone();
    let slot: Arc<OnceLock<Client>> = Arc::default();
    let panics: Arc<Mutex<Vec<String>>> = Arc::default();
    let (asked, told) = (slot.clone(), panics.clone());
    let listener: EventListener = Arc::new(move |event: &Event| {
        if let (EventKind::Command(_), Some(client)) = (&event.kind, asked.get()) {
            let call = || people(client).find_one(doc! {}).run();
            let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("it waits for itself");
            let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
            told.lock().expect("no panic").push(text.to_owned());
        }
    });
    let options = onionskin_blocking::core::uri::parse(deployment.uri())?.options;
    let client = Client::from(Client::builder(options).event_listener(listener).build()?);
    let _ = slot.set(client.clone());
    people(&client).insert_one(doc! { "_id": 1 }).run()?;
    let panics = panics.lock().expect("no panic");
    assert_eq!(panics.len(), 2, "one as it starts, one as it ends");
    assert!(panics[0].contains("from within another one"), "{panics:?}");
    assert_eq!(client.counts().leased, 0);
    Ok(())
}

/// LB-30, LB-36: a cursor keeps its connection here as well, where nothing runs in the background.
#[test]
fn cursors_keep_their_connections_behind_a_load_balancer() -> Result<(), Error> {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("services");
    let client = Client::with_uri_str(deployment.uri())?;
    let people = people(&client);
    people
        .insert_many((0..50).map(|n| doc! { "_id": n }))
        .run()?;
    let browse = || people.find(doc! {}).batch_size(3).run();
    let mut cursors = [browse()?, browse()?, browse()?];
    for n in 0..20 {
        for cursor in &mut cursors {
            cursor.next().expect("more")?;
        }
        // Services know their own cursors only, so each must be asked where it is.
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
    client.shutdown();
    until("no connections", || connections(&deployment) == 0);
    Ok(())
}
