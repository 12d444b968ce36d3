//! Tests of a client behind a load balancer, where each connection leads to one of two services.
//!
//! The services are simulated, because the tests close connections of a service, kill it and
//! restart it. Any load balancer can be in front of them.

use super::{Bench, in_turn, report, within};
use bson::{Document, doc, oid::ObjectId};
use onionskin::{Collection, Cursor, Runtime};
use onionskin_core::event::PoolEvent;
use onionskin_serve::Embedded;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The number of documents of each test.
const DOCUMENTS: i32 = 20;

/// The number of inserts in the test that ends a service. A third of them come before the end of
/// the service.
const INSERTS: i32 = 30;

/// The largest number of cursors that a test opens until a connection leads to another service.
/// Each cursor has a connection of its own.
const MOST_CURSORS: usize = 60;

/// The pause after each new cursor in the test that restarts a service. It gives the balancer time
/// to notice the restarted service.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The time limit of one operation: longer than a balancer needs to notice that a service ended.
const PATIENT: Duration = Duration::from_secs(20);

/// A deployment of two services, and a client that reaches them through a load balancer.
#[derive(Debug)]
struct Stage<'a, R: Runtime> {
    deployment: &'a Embedded,
    bench: Bench<R>,
}

/// Runs all tests with a client that reaches two services by `uri`, and prints their number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, uri: &str, deployment: &Embedded) {
    let stage = Stage {
        deployment,
        bench: Bench::<R>::new(uri),
    };
    let passed = within::<R, _>(async {
        in_turn!(
            &stage,
            [
                connections_lead_to_different_services,
                a_cursor_stays_where_it_is,
                a_service_takes_only_its_own_connections_along,
                writes_survive_the_end_of_a_service,
            ]
        )
    })
    .await;
    report("crud behind a load balancer", name, passed);
    within::<R, _>(stage.bench.client.shutdown()).await;
}

impl<R: Runtime + Default> Stage<'_, R> {
    async fn filled(&self, case: &str) -> Collection<R, Document> {
        let items = self.bench.empty::<Document>(case).await;
        let documents = (0..DOCUMENTS).map(|n| doc! { "_id": n });
        items.insert_many(documents).await.expect("inserts");
        self.bench.watch().await.clear();
        items
    }

    /// Opens at least `least` cursors, and more until both services have one.
    async fn open_many(
        &self,
        items: &Collection<R, Document>,
        least: usize,
    ) -> Vec<Cursor<R, Document>> {
        let mut cursors = Vec::new();
        let mut services = BTreeSet::new();
        while cursors.len() < least || services.len() < 2 {
            assert!(
                cursors.len() < MOST_CURSORS,
                "all connections lead to {services:?}"
            );
            cursors.push(open(items).await);
            services = self.services().await.into_values().collect();
        }
        cursors
    }

    /// Returns the service of each connection that sent a command, from the events in the record.
    async fn services(&self) -> BTreeMap<u64, ObjectId> {
        let mut services = BTreeMap::new();
        for sent in self.bench.watch().await.all() {
            let service = sent.service.expect("each command tells of its service");
            let before = services.insert(sent.connection, service);
            assert!(before.is_none_or(|before| before == service), "{sent:?}");
        }
        services
    }
}

async fn open<R: Runtime>(items: &Collection<R, Document>) -> Cursor<R, Document> {
    let cursor = items.find(doc! {}).batch_size(3).await;
    cursor.expect("a cursor")
}

async fn connections_lead_to_different_services<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.filled("services").await;
    let cursors = s.open_many(&items, 2).await;
    assert_eq!(
        s.services().await.len(),
        cursors.len(),
        "each cursor keeps a connection"
    );
    for cursor in cursors {
        cursor.close().await;
    }
}

async fn a_cursor_stays_where_it_is<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.filled("cursors").await;
    let mut cursors = [open(&items).await, open(&items).await, open(&items).await];
    for round in 0..DOCUMENTS {
        for cursor in &mut cursors {
            cursor.next().await.expect("more").expect("a document");
        }
        // Operations between the batches use other connections.
        let found = items.find_one(doc! { "_id": round }).await;
        assert!(found.expect("a reply").is_some());
    }
    for cursor in &mut cursors {
        assert!(cursor.next().await.is_none());
    }
    let cursor_of = |reply: &Document| {
        let cursor = reply.get_document("cursor").ok()?;
        cursor.get_i64("id").ok().filter(|id| *id != 0)
    };
    let mut homes = BTreeMap::new();
    for sent in s.bench.watch().await.of("find") {
        let reply = sent.reply.as_ref().expect("a reply");
        homes.extend(cursor_of(reply).map(|id| (id, sent.connection)));
    }
    assert_eq!(homes.len(), 3);
    let fetches = s.bench.watch().await.of("getMore");
    assert!(fetches.len() >= 3 * 5, "{}", fetches.len());
    for fetch in fetches {
        let id = fetch.command.get_i64("getMore").expect("an id");
        assert_eq!(homes.get(&id), Some(&fetch.connection), "{fetch:?}");
    }
}

async fn a_service_takes_only_its_own_connections_along<R>(s: &Stage<'_, R>)
where
    R: Runtime + Default,
{
    let items = s.filled("lost").await;
    let cursors = s.open_many(&items, 4).await;
    let services = s.services().await;
    s.deployment.disconnect(0);
    // Only the cursors of the other service can continue.
    let mut lost = BTreeSet::new();
    for cursor in cursors {
        if let Err(error) = cursor.into_vec().await {
            assert!(error.is_network(), "{error:?}");
            let failed = s
                .bench
                .watch()
                .await
                .of("getMore")
                .pop()
                .expect("it was asked");
            lost.insert(failed.service.expect("a service"));
        }
    }
    assert_eq!(lost.len(), 1, "one service, and not the other: {lost:?}");
    for id in 0..DOCUMENTS {
        let found = items.find_one(doc! { "_id": id }).await;
        assert!(found.expect("a reply").is_some());
    }
    let closed = || {
        let events = s.bench.watch.pool().into_iter();
        let closed = events.filter_map(|event| match event {
            PoolEvent::ConnectionClosed { connection, .. } => Some(connection),
            _ => None,
        });
        closed.collect::<BTreeSet<u64>>()
    };
    s.bench.until("two closed", || closed().len() >= 2).await;
    for connection in closed() {
        let service = services.get(&connection).expect("one of the cursors'");
        assert!(lost.contains(service), "{connection} is of {service}");
    }
    let cleared = s
        .bench
        .watch()
        .await
        .pool()
        .into_iter()
        .filter_map(|event| match event {
            PoolEvent::Cleared { service, .. } => Some(service.expect("a service")),
            _ => None,
        });
    assert_eq!(cleared.collect::<BTreeSet<_>>(), lost);
}

async fn writes_survive_the_end_of_a_service<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.filled("ends").await;
    drop(s.open_many(&items, 2).await);
    let known: BTreeSet<_> = s.services().await.into_values().collect();
    for id in DOCUMENTS..DOCUMENTS + INSERTS {
        if id == DOCUMENTS + INSERTS / 3 {
            s.deployment.kill(0);
        }
        let insert = items.insert_one(doc! { "_id": id }).timeout(PATIENT);
        insert.await.expect("inserts");
    }
    let found = items.count_documents(doc! {}).await;
    let expected = u64::try_from(DOCUMENTS + INSERTS).expect("positive");
    assert_eq!(found, Ok(expected), "each once");
    // The restarted process is a new service, to which the balancer leads after a while.
    s.deployment.restart(0);
    let mut kept = Vec::new();
    while s
        .services()
        .await
        .values()
        .all(|service| known.contains(service))
    {
        assert!(kept.len() < MOST_CURSORS, "the service is not found again");
        kept.push(open(&items).await);
        R::default().sleep(LOOK_AGAIN).await;
    }
}
