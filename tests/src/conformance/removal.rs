//! A test of a server that is removed from its replica set: all connections to it are closed.

use super::{
    Host, Stepper, client, end, pause,
    server::{Gate, Request, Server, Step, answer, hello},
    things, until, wait_until_idle, within,
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

/// The member list that both members report in their replies to `hello`.
#[derive(Clone, Default)]
struct ReportedHosts(Arc<Mutex<Vec<String>>>);

impl ReportedHosts {
    fn report_hosts(&self, hosts: &[&Server]) {
        let hosts = hosts.iter().map(|server| server.host());
        *self.0.lock().expect("no panic") = hosts.collect();
    }

    fn hello(&self, request: &Request, is_primary: bool) -> Vec<Step> {
        let hosts = self.0.lock().expect("no panic").clone();
        let mut hello_reply: Document = hello(request.connection);
        hello_reply.extend(doc! {
            "setName": "rs", "setVersion": 1, "isWritablePrimary": is_primary,
            "secondary": !is_primary, "hosts": hosts,
        });
        request.reply(&hello_reply)
    }
}

/// A primary and a secondary. The secondary holds back replies to finds with a negative `n` until
/// the gate is opened. While `is_slow` is set, the secondary also holds back replies to `hello` on
/// new connections.
struct Members {
    set: ReportedHosts,
    primary: Server,
    secondary: Server,
    gate: Arc<Gate>,
    is_slow: Arc<AtomicBool>,
}

impl Members {
    fn new<H: Host>() -> Self {
        let (set, gate, is_slow) = (
            ReportedHosts::default(),
            Gate::new(),
            Arc::<AtomicBool>::default(),
        );
        let served = set.clone();
        let primary = Server::scripted::<H>(move |request| match request.is_hello() {
            true => served.hello(request, true),
            false => answer(request),
        });
        let (served, server_gate, slow) = (set.clone(), gate.clone(), is_slow.clone());
        let secondary = Server::scripted::<H>(move |request| {
            let mut steps = match request.is_hello() {
                true => served.hello(request, false),
                false => answer(request),
            };
            // The first connection is the monitor's.
            let is_making = request.is_hello() && request.connection > 0;
            let is_delayed = is_making && slow.load(Ordering::SeqCst);
            if is_delayed || request.n().is_some_and(|n| n < 0) {
                steps.insert(0, Step::Hold(server_gate.clone()));
            }
            steps
        });
        set.report_hosts(&[&primary, &secondary]);
        Self {
            set,
            primary,
            secondary,
            gate,
            is_slow,
        }
    }

    fn uri(&self) -> String {
        format!(
            "mongodb://{},{}/?replicaSet=rs&readPreference=secondaryPreferred&retryReads=false\
             &heartbeatFrequencyMS=500&serverMonitoringMode=poll",
            self.primary.host(),
            self.secondary.host()
        )
    }
}

/// Polls an operation until it ends.
async fn drive<H: Host, F: Future>(stepper: &mut Stepper<F>) -> F::Output {
    let end = async {
        loop {
            stepper.woken().await;
            if let Some(end) = stepper.step().await {
                return end;
            }
        }
    };
    within::<H, _>(H::WAIT_LIMIT, "an end", end).await
}

/// A server is removed from its replica set while its pool has connections of three kinds: in use,
/// waiting for a late reply, and being established. None of these connections stays open
/// (scenario 39). Operations that use a connection get their replies. The operation that waits for
/// a connection fails.
pub async fn removing_a_server_closes_all_its_connections<H: Host>() {
    let members = Members::new::<H>();
    let secondary = &members.secondary;
    let client = client::<H>(&members.uri());
    let things = things(&client);
    // Until the client has found the secondary, the primary answers the finds. Then the secondary
    // is preferred.
    let found = async {
        while secondary.seen("find").is_empty() {
            things.find_one(doc! { "n": 0 }).await.expect("a reply");
            pause::<H>(Duration::from_millis(5)).await;
        }
    };
    within::<H, _>(H::WAIT_LIMIT, "the secondary", found).await;

    let mut used = Stepper::new(things.find_one(doc! { "n": -1 }));
    assert!(used.step().await.is_none());
    let late = things.find_one(doc! { "n": -2 });
    let late = late.timeout(Duration::from_millis(300)).await;
    late.expect_err("it is held");
    let find = things.find_one(doc! { "n": 3 }).await;
    find.expect("a connection of its own");
    let mut also_used = Stepper::new(things.find_one(doc! { "n": -3 }));
    assert!(also_used.step().await.is_none());
    members.is_slow.store(true, Ordering::SeqCst);
    let accepted = secondary.accepted();
    let mut waits = Stepper::new(things.find_one(doc! { "n": 4 }));
    assert!(waits.step().await.is_none());
    until::<H>("one more connection", || secondary.accepted() > accepted).await;

    members.set.report_hosts(&[&members.primary]);
    until::<H>("the removal", || client.topology().servers.len() == 1).await;
    let error = drive::<H, _>(&mut waits)
        .await
        .expect_err("its pool is closed");
    let is_reported = matches!(error.kind(), ErrorKind::PoolClosed { .. });
    assert!(is_reported, "{error:?}");
    let find = things.find_one(doc! { "n": 5 }).await;
    find.expect("the primary answers");
    members.gate.open();
    for (n, mut find) in [(-1, used), (-3, also_used)] {
        let found = drive::<H, _>(&mut find).await;
        assert_eq!(found, Ok(Some(doc! { "n": n })), "it comes to its end");
    }
    until::<H>("the closing of its sockets", || secondary.open() == 0).await;
    wait_until_idle::<H>(&client).await;
    end::<H>(client.clone(), &members.primary).await;
}
