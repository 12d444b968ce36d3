//! Tests of a client of a replica set: retries, cluster times, and reads from secondaries.
//!
//! The deployment is simulated, because the tests make its primary step down and its servers close
//! connections.

use super::{Bench, DATABASE, SOON, in_turn, report, within};
use bson::{Bson, Document, doc};
use onionskin::{
    Collection, Runtime,
    options::{ReadMode, ReadPreference, WriteConcern},
};
use onionskin_core::address::Address;
use onionskin_serve::Embedded;
use std::{collections::BTreeSet, time::Duration};

/// The number of inserts before and after each step-down.
const INSERTS: i32 = 60;

/// The number of step-downs during the inserts.
const STEP_DOWNS: i32 = 2;

/// The time for which the server delays a reply. The client's time limit is shorter.
const HELD_BACK: Duration = Duration::from_secs(3);

/// The time limit of an operation whose reply is held back.
const LIMIT: Duration = Duration::from_millis(500);

/// A short `heartbeatFrequencyMS`. The error of a fail point makes a server `Unknown` in the
/// client, although the server itself did not change. The next reply to a check can then take as
/// long as this interval.
const CHECK_OFTEN: &str = "&heartbeatFrequencyMS=500";

/// A replica set and a client of it.
#[derive(Debug)]
struct Stage<'a, R: Runtime> {
    deployment: &'a Embedded,
    bench: Bench<R>,
}

/// Runs all tests that need a replica set, and prints their number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, deployment: &Embedded) {
    let stage = Stage {
        deployment,
        bench: Bench::<R>::new(&format!("{}{CHECK_OFTEN}", deployment.uri())),
    };
    let passed = within::<R, _>(async {
        in_turn!(
            &stage,
            [
                cluster_time_goes_along_with_each_command,
                a_write_that_lost_its_connection_is_sent_again_once,
                a_read_that_lost_its_connection_is_sent_again,
                without_retries_a_lost_connection_is_the_callers,
                commands_of_the_application_are_retried_as_it_says,
                a_delayed_reply_is_not_waited_for_beyond_the_deadline,
                secondaries_answer_where_the_preference_says_so,
                writes_survive_step_downs,
            ]
        )
    })
    .await;
    report("crud in a replica set", name, passed);
    within::<R, _>(stage.bench.client.shutdown()).await;
}

impl<R: Runtime + Default> Stage<'_, R> {
    /// Sets a fail point for the next command with this name on the primary.
    async fn fail_next(&self, command: &str, how: Document) {
        let mut data = doc! { "failCommands": [command] };
        data.extend(how);
        let point = doc! {
            "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data,
        };
        let admin = self.bench.client.database("admin");
        admin.run_command(point).await.expect("a fail point");
        self.bench.watch().await.clear();
    }

    fn primary(&self) -> Option<Address> {
        let topology = self.bench.client.topology();
        topology.primary().map(|server| server.address.clone())
    }
}

fn ids(documents: &[Document]) -> BTreeSet<i32> {
    let ids = documents
        .iter()
        .map(|d| d.get_i32("_id").expect("a number"));
    ids.collect()
}

async fn cluster_time_goes_along_with_each_command<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.bench.empty::<Document>("gossip").await;
    s.bench.watch().await.clear();
    for id in 0..10 {
        items.insert_one(doc! { "_id": id }).await.expect("inserts");
        items.find_one(doc! { "_id": id }).await.expect("finds");
    }
    let sent = s.bench.watch().await.all();
    let mut times = Vec::new();
    for attempt in &sent[1..] {
        let time = attempt.cluster_time();
        assert!(attempt.known_time.is_some(), "replies carry a time");
        assert_eq!(
            time, attempt.known_time,
            "the newest goes along: {attempt:?}"
        );
        times.push(time);
    }
    times.dedup();
    assert!(times.len() >= 10, "each write moves the time on: {times:?}");
    for attempt in &sent {
        assert!(attempt.command.contains_key("lsid"), "{attempt:?}");
    }
}

async fn a_write_that_lost_its_connection_is_sent_again_once<R>(s: &Stage<'_, R>)
where
    R: Runtime + Default,
{
    let items = s.bench.empty::<Document>("retried").await;
    s.fail_next("insert", doc! { "closeConnection": true })
        .await;
    items
        .insert_one(doc! { "_id": 1 })
        .await
        .expect("is sent again");
    let sent = s.bench.watch().await.of("insert");
    let [first, second] = &sent[..] else {
        panic!("{} attempts: {sent:?}", sent.len());
    };
    assert_eq!(first.operation, second.operation);
    for field in ["lsid", "txnNumber"] {
        let value = first.command.get(field);
        assert!(value.is_some(), "{first:?}");
        assert_eq!(value, second.command.get(field), "{field}");
    }
    assert_eq!(items.count_documents(doc! {}).await, Ok(1));

    // The write is done, and only its reply has an error. The server recognizes the transaction
    // number of the retry and does not write again.
    let error = doc! { "code": 91, "errmsg": "leaving", "errorLabels": ["RetryableWriteError"] };
    s.fail_next("insert", doc! { "writeConcernError": error })
        .await;
    items.insert_one(doc! { "_id": 2 }).await.expect("is known");
    assert_eq!(s.bench.watch().await.of("insert").len(), 2);
    assert_eq!(items.count_documents(doc! {}).await, Ok(2));
}

async fn a_read_that_lost_its_connection_is_sent_again<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.bench.empty::<Document>("read_again").await;
    items.insert_one(doc! { "_id": 1 }).await.expect("inserts");
    s.fail_next("find", doc! { "closeConnection": true }).await;
    let found = items.find_one(doc! {}).await;
    assert_eq!(found, Ok(Some(doc! { "_id": 1 })));
    assert_eq!(s.bench.watch().await.of("find").len(), 2);
}

async fn without_retries_a_lost_connection_is_the_callers<R: Runtime + Default>(s: &Stage<'_, R>) {
    let uri = format!("{}&retryWrites=false&retryReads=false", s.deployment.uri());
    let bench = Bench::<R>::new(&uri);
    let items = bench.empty::<Document>("once").await;
    for command in ["insert", "find"] {
        s.fail_next(command, doc! { "closeConnection": true }).await;
        bench.watch().await.clear();
        let error = match command {
            "insert" => items.insert_one(doc! { "_id": 1 }).await.err(),
            _ => items.find_one(doc! {}).await.err(),
        };
        let error = error.expect("the connection is lost");
        assert!(error.is_network(), "{error:?}");
        assert!(error.server().is_some(), "{error:?}");
        assert_eq!(bench.watch().await.of(command).len(), 1);
    }
    drop(items);
    bench.client.shutdown().await;
}

async fn commands_of_the_application_are_retried_as_it_says<R>(s: &Stage<'_, R>)
where
    R: Runtime + Default,
{
    let items = s.bench.empty::<Document>("own_commands").await;
    let database = s.bench.client.database(DATABASE);
    let close = || doc! { "closeConnection": true };
    let count = || database.run_command(doc! { "count": "own_commands" });
    s.fail_next("count", close()).await;
    count().await.expect_err("it is not retried");
    s.fail_next("count", close()).await;
    let reply = count().retry_as_read().await.expect("it is retried");
    assert_eq!(reply.get_i32("n").ok(), Some(0));
    assert_eq!(s.bench.watch().await.of("count").len(), 2);

    let insert = |id: i32| {
        let body = doc! { "insert": "own_commands", "documents": [{ "_id": id }] };
        database.run_command(body)
    };
    s.fail_next("insert", close()).await;
    insert(1).await.expect_err("it is not retried");
    assert_eq!(s.bench.watch().await.of("insert").len(), 1);
    s.fail_next("insert", close()).await;
    let secondary = ReadPreference::new(ReadMode::Secondary);
    let write = insert(1).read_preference(secondary).retry_as_write();
    let reply = write.await.expect("it is retried");
    assert_eq!(reply.get_i32("n").ok(), Some(1));
    let sent = s.bench.watch().await.of("insert");
    let field = |at: usize, name: &str| sent[at].command.get(name).cloned();
    assert_eq!(sent.len(), 2);
    assert!(matches!(field(0, "txnNumber"), Some(Bson::Int64(_))));
    for name in ["txnNumber", "lsid"] {
        assert_eq!(field(0, name), field(1, name), "{name}");
    }
    // The write took effect and its reply was lost, so the server returns the first result.
    let lost = doc! {
        "errorLabels": ["RetryableWriteError"],
        "writeConcernError": { "code": 91, "errmsg": "the server shuts down" },
    };
    s.fail_next("insert", lost).await;
    let reply = insert(2).retry_as_write().await.expect("it is retried");
    assert_eq!(reply.get_i32("n").ok(), Some(1));
    assert_eq!(s.bench.watch().await.of("insert").len(), 2);
    assert_eq!(items.count_documents(doc! {}).await, Ok(2));
    let twice = insert(2).retry_as_write().await;
    assert!(twice.expect_err("a duplicate key").is_duplicate_key());
    let numbered = doc! { "insert": "own_commands", "txnNumber": 7_i64 };
    let refused = database.run_command(numbered).retry_as_write().await;
    refused.expect_err("the driver adds the number");
}

async fn a_delayed_reply_is_not_waited_for_beyond_the_deadline<R>(s: &Stage<'_, R>)
where
    R: Runtime + Default,
{
    let items = s.bench.empty::<Document>("held_back").await;
    let millis = i64::try_from(HELD_BACK.as_millis()).expect("a short time");
    let block = doc! { "blockConnection": true, "blockTimeMS": millis };
    s.fail_next("find", block).await;
    let runtime = R::default();
    let start = runtime.now();
    let error = items.find_one(doc! {}).timeout(LIMIT).await;
    let error = error.expect_err("the answer is held back");
    assert!(error.is_timeout(), "{error:?}");
    let took = runtime.now().saturating_sub(start);
    // `maxTimeMS` is the limit less the smallest round trip time, so the server can end the command
    // before the deadline (SEL-59). On a busy machine, a round trip can take 70 ms.
    assert!(took >= LIMIT / 2 && took < HELD_BACK, "{took:?}");
    assert_eq!(items.find_one(doc! {}).await, Ok(None));
}

async fn secondaries_answer_where_the_preference_says_so<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.bench.empty::<Document>("secondary").await;
    let everywhere = WriteConcern::nodes(3);
    let insert = items
        .insert_one(doc! { "_id": 1 })
        .write_concern(everywhere);
    insert.await.expect("reaches all members");
    let primary = s.primary().expect("one is known");
    s.bench.watch().await.clear();
    for mode in ReadMode::ALL {
        for _ in 0..8 {
            let find = items
                .find_one(doc! {})
                .read_preference(ReadPreference::new(mode));
            assert!(matches!(find.await, Ok(Some(_))), "{mode:?}");
        }
        let sent = s.bench.watch().await.of("find");
        s.bench.watch().await.clear();
        let at_primary = sent.iter().filter(|s| s.server == primary).count();
        match mode {
            ReadMode::Primary | ReadMode::PrimaryPreferred => assert_eq!(at_primary, 8),
            ReadMode::Secondary | ReadMode::SecondaryPreferred => assert_eq!(at_primary, 0),
            ReadMode::Nearest => {}
        }
        let wanted = sent[0].command.get_document("$readPreference").ok();
        let named = wanted.and_then(|p| p.get_str("mode").ok());
        let expected = (mode != ReadMode::Primary).then(|| mode.name());
        assert_eq!(named.filter(|n| *n != "primary"), expected);
    }
    batches_come_from_one_member(s, &items).await;
}

/// Checks that a cursor on a secondary gets all its batches from the server that opened the cursor.
async fn batches_come_from_one_member<R>(s: &Stage<'_, R>, items: &Collection<R, Document>)
where
    R: Runtime + Default,
{
    let insert = items.insert_many((10..30).map(|id| doc! { "_id": id }));
    let insert = insert.write_concern(WriteConcern::nodes(3));
    insert.await.expect("reaches all members");
    s.bench.watch().await.clear();
    let secondary = ReadPreference::new(ReadMode::Secondary);
    let find = items.find(doc! {}).batch_size(4).read_preference(secondary);
    let found = find
        .await
        .expect("finds")
        .into_vec()
        .await
        .expect("collects");
    assert_eq!(found.len(), 21);
    let opened = s
        .bench
        .watch()
        .await
        .of("find")
        .pop()
        .expect("it was sent")
        .server;
    let fetches = s.bench.watch().await.of("getMore");
    assert!(fetches.len() > 3, "{fetches:?}");
    assert!(fetches.iter().all(|fetch| fetch.server == opened));
}

async fn writes_survive_step_downs<R: Runtime + Default>(s: &Stage<'_, R>) {
    let items = s.bench.empty::<Document>("survivors").await;
    let mut primaries = BTreeSet::from([s.primary().expect("one is known")]);
    s.bench.watch().await.clear();
    let start = R::default().now();
    for id in 0..INSERTS * (STEP_DOWNS + 1) {
        if id > 0 && id % INSERTS == 0 {
            s.bench
                .until("a primary", || s.deployment.step_down())
                .await;
        }
        let document = doc! { "_id": id, "from": DATABASE };
        let insert = items
            .insert_one(document)
            .write_concern(WriteConcern::majority());
        let result = insert.await.unwrap_or_else(|error| {
            let stands = s.deployment.status();
            panic!("{id}: {error:?}; {}; {stands:?}", s.bench.client.topology())
        });
        assert_eq!(result.inserted_id, Bson::from(id));
        primaries.extend(s.primary());
    }
    assert!(R::default().now().saturating_sub(start) < SOON);
    assert!(
        primaries.len() > 1,
        "nobody else was elected: {primaries:?}"
    );
    let stored = items.find(doc! {}).batch_size(50).await.expect("finds");
    let stored = stored.into_vec().await.expect("collects");
    assert_eq!(
        stored.len(),
        ids(&stored).len(),
        "no document is there twice"
    );
    assert_eq!(ids(&stored), (0..INSERTS * (STEP_DOWNS + 1)).collect());
    assert!(s.bench.watch().await.of("insert").len() as i32 >= INSERTS * (STEP_DOWNS + 1));
}
