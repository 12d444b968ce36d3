//! A server that leaves its replica set, and what becomes of the connections to it.

use super::{
    Host, SLACK, SOON, Stepper, at_rest, client, pause,
    server::{Gate, Request, Server, Step, answer, hello},
    things, until, within,
};
use bson::{Document, doc};
use onionskin_core::error::ErrorKind;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What the two members say of their set.
#[derive(Clone, Default)]
struct Set(Arc<Mutex<Vec<String>>>);

impl Set {
    fn become_of(&self, hosts: &[&Server]) {
        let hosts = hosts.iter().map(|server| server.host());
        *self.0.lock().expect("no panic") = hosts.collect();
    }

    fn hello(&self, request: &Request, is_primary: bool) -> Vec<Step> {
        let hosts = self.0.lock().expect("no panic").clone();
        let mut greeting: Document = hello(request.connection);
        greeting.extend(doc! {
            "setName": "rs", "setVersion": 1, "isWritablePrimary": is_primary,
            "secondary": !is_primary, "hosts": hosts,
        });
        request.reply(&greeting)
    }
}

/// Scenario 39: a server is taken out of its set while its pool has connections of all kinds: in
/// use, idle, waiting for a late reply, being made. Catches those that are left open; the one that
/// is in use may come to its end.
pub async fn a_server_that_is_removed_takes_its_connections_along<H: Host>() {
    let (set, gate, is_slow) = (
        Set::default(),
        Gate::new(),
        Arc::new(AtomicBool::new(false)),
    );
    let told = set.clone();
    let primary = Server::scripted::<H>(move |request| match request.is_hello() {
        true => told.hello(request, true),
        false => answer(request),
    });
    let (told, held, slow) = (set.clone(), gate.clone(), is_slow.clone());
    let secondary = Server::scripted::<H>(move |request| {
        let mut steps = match request.is_hello() {
            true => told.hello(request, false),
            false => answer(request),
        };
        // Monitors have the first connection; hellos of the others are held once it is said so.
        let is_making = request.is_hello() && request.connection > 0;
        let is_held = is_making && slow.load(Ordering::SeqCst);
        if is_held || request.n().is_some_and(|n| n < 0) {
            steps.insert(0, Step::Hold(held.clone()));
        }
        steps
    });
    set.become_of(&[&primary, &secondary]);
    let uri = format!(
        "mongodb://{},{}/?replicaSet=rs&readPreference=secondaryPreferred&retryReads=false\
         &heartbeatFrequencyMS=500&serverMonitoringMode=poll",
        primary.host(),
        secondary.host()
    );
    let client = client::<H>(&uri);
    let things = things(&client);
    within::<H, _>(SOON, "the set", async {
        // Whoever is found first answers; the secondary is found soon.
        while secondary.seen("find").is_empty() {
            things.find_one(doc! { "n": 0 }).await.expect("a reply");
            pause::<H>(Duration::from_millis(5)).await;
        }
    })
    .await;

    // One in use, and one whose operation has left.
    let mut used = Stepper::new(things.find_one(doc! { "n": -1 }));
    assert!(used.step().await.is_none());
    let late = things.find_one(doc! { "n": -2 });
    let late = late.timeout(Duration::from_millis(300)).await;
    late.expect_err("it is held");
    // One that is idle.
    things.find_one(doc! { "n": 3 }).await.expect("a reply");
    // One that is being made, as the idle one is used by somebody else.
    let mut also_used = Stepper::new(things.find_one(doc! { "n": -3 }));
    assert!(also_used.step().await.is_none());
    is_slow.store(true, Ordering::SeqCst);
    let accepted = secondary.accepted();
    let mut waits = Stepper::new(things.find_one(doc! { "n": 4 }));
    assert!(waits.step().await.is_none());
    until::<H>("one more connection", || secondary.accepted() > accepted).await;

    set.become_of(&[&primary]);
    until::<H>("the removal", || client.topology().servers.len() == 1).await;
    waits.woken().await;
    let error = waits
        .step()
        .await
        .expect("an end")
        .expect_err("its pool is closed");
    assert!(
        matches!(error.kind(), ErrorKind::PoolClosed { .. }),
        "{error:?}"
    );
    things
        .find_one(doc! { "n": 5 })
        .await
        .expect("the primary answers");
    gate.open();
    for (n, mut find) in [(-1, used), (-3, also_used)] {
        let end = async {
            loop {
                find.woken().await;
                if let Some(end) = find.step().await {
                    return end;
                }
            }
        };
        let found = within::<H, _>(SOON, "an end", end).await;
        assert_eq!(found, Ok(Some(doc! { "n": n })), "it comes to its end");
    }
    until::<H>("the closing of all its sockets", || secondary.open() == 0).await;
    at_rest::<H>(&client).await;
    within::<H, _>(SLACK, "shutdown", client.shutdown()).await;
    until::<H>("the closing of all sockets", || primary.open() == 0).await;
}
