//! Programs on tokio with a simulated deployment.

use super::{Disaster, Rates, TokioWorld, seeds};
use crate::world::{CommandFault, Span, runtime::member_addresses};
use bson::{Document, doc};
use onionskin::options::{CollectionOptions, WriteConcern};
use onionskin_deployment::deployment::{DeploymentOptions, User};
use onionskin_tokio::{Client, Collection, TokioRuntime, machine};
use std::{
    collections::BTreeSet,
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant as RealInstant},
};
use tokio::time::{Instant, sleep};

const COMMAND: &str = "cargo test -p onionskin-worlds --features tokio on_tokio";

async fn client(world: &TokioWorld) -> Client {
    Client::with_uri_str(world.uri()).await.expect("a client")
}

fn orders(client: &Client) -> Collection<Document> {
    let options = CollectionOptions::builder().write_concern(WriteConcern::majority());
    let shop = client.database("shop");
    shop.collection_with_options("orders", options.build())
}

/// Inserts while disasters happen, and returns the digest of the run.
async fn failover(seed: u64) -> [u8; 32] {
    let world = TokioWorld::replica_set(seed, 3);
    let client = client(&world).await;
    let writer = tokio::spawn({
        let orders = orders(&client);
        async move {
            let mut acknowledged = BTreeSet::new();
            for number in 0..60 {
                if orders.insert_one(doc! { "_id": number }).await.is_ok() {
                    acknowledged.insert(number);
                }
                sleep(Duration::from_millis(250)).await;
            }
            acknowledged
        }
    });
    sleep(Duration::from_secs(2)).await;
    world.step_down();
    sleep(Duration::from_secs(4)).await;
    let primary = world.primary().expect("a primary");
    world.kill(primary);
    sleep(Duration::from_secs(8)).await;
    world.heal();
    let acknowledged = writer.await.expect("it ends");
    assert!(acknowledged.len() > 50, "{acknowledged:?}");
    for number in acknowledged {
        let found = orders(&client).find_one(doc! { "_id": number }).await;
        assert!(found.expect("a reply").is_some(), "{number} is lost");
    }
    client.shutdown().await;
    world.digest()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let digests = || {
        let all = Mutex::new(Vec::new());
        seeds(COMMAND, 1..4, |seed| {
            let all = &all;
            async move {
                let digest = failover(seed).await;
                all.lock().expect("no panic").push(digest);
            }
        });
        all.into_inner().expect("no panic")
    };
    let first = digests();
    assert_eq!(first, digests());
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn time_limits_pass_in_virtual_time() {
    let (real, start) = (RealInstant::now(), Instant::now());
    let world = TokioWorld::replica_set(1, 3);
    let client = client(&world).await;
    orders(&client)
        .insert_one(doc! {})
        .await
        .expect("a primary");
    for member in 0..3 {
        world.cut(member);
    }
    sleep(Duration::from_secs(3600)).await;
    let before = Instant::now();
    let failed = orders(&client)
        .find_one(doc! {})
        .await
        .expect_err("no server");
    assert!(failed.is_server_selection(), "{failed:?}");
    let waited = before.elapsed();
    assert!((30.0..31.0).contains(&waited.as_secs_f64()), "{waited:?}");
    world.heal();
    orders(&client)
        .insert_one(doc! {})
        .await
        .expect("a primary");
    assert!(start.elapsed() > Duration::from_secs(3630));
    assert!(
        real.elapsed() < Duration::from_secs(60),
        "{:?}",
        real.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn clients_of_the_thread_run_on_the_world_while_it_lives() {
    assert!(machine::current().is_none());
    let world = TokioWorld::sharded(3, 2);
    let sharded = client(&world).await;
    {
        let inner = TokioWorld::standalone(4);
        let client = client(&inner).await;
        orders(&client).insert_one(doc! {}).await.expect("a server");
    }
    orders(&sharded)
        .insert_one(doc! {})
        .await
        .expect("a router");
    drop(world);
    let failed = orders(&sharded).insert_one(doc! {}).await;
    failed.expect_err("all servers ended");
    assert!(machine::current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_of_another_thread_takes_the_machine() {
    let world = TokioWorld::standalone(8);
    let (machine, uri) = (world.machine(), world.uri().to_owned());
    let handle = tokio::runtime::Handle::current();
    let created = std::thread::spawn(move || {
        assert!(machine::current().is_none());
        let _entered = handle.enter();
        Client::builder_from_uri(TokioRuntime::on(machine), &uri)?.build()
    });
    let client = created.join().expect("no panic").expect("a client");
    orders(&client).insert_one(doc! {}).await.expect("a server");
}

#[tokio::test(start_paused = true)]
async fn users_authenticate() {
    let mut options = DeploymentOptions::standalone(member_addresses(1).remove(0));
    options.users = vec![User::new("ada", "sesame")];
    let world = TokioWorld::new(5, options);
    let uri = world.uri().replacen("://", "://ada:sesame@", 1);
    let client = Client::with_uri_str(&uri).await.expect("a client");
    orders(&client)
        .insert_one(doc! {})
        .await
        .expect("it is let in");
    let uri = world.uri().replacen("://", "://ada:wrong@", 1);
    let stranger = Client::with_uri_str(&uri).await.expect("a client");
    orders(&stranger)
        .insert_one(doc! {})
        .await
        .expect_err("it is not");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "there is one member, and no member 1")]
async fn a_member_that_does_not_exist_cannot_be_killed() {
    TokioWorld::replica_set(6, 1).kill(1);
}

#[test]
fn a_failing_seed_ends_the_test() {
    let last = AtomicU64::new(0);
    let result = catch_unwind(|| {
        seeds(COMMAND, 7..20, |seed| {
            last.store(seed, Ordering::Relaxed);
            async move { assert!(seed < 9, "too large") }
        });
    });
    assert!(result.is_err());
    assert_eq!(last.into_inner(), 9);
}

#[test]
#[should_panic(expected = "the run has not ended")]
fn a_run_that_never_ends_fails() {
    seeds(COMMAND, 0..1, |_| std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "the test returned an error: \"no stock\"")]
fn a_run_that_returns_an_error_fails() {
    seeds(COMMAND, 0..1, |_| async { Err("no stock") });
}

#[test]
fn a_world_that_is_dropped_by_the_limit_of_its_run_knows_the_failure() {
    struct Witness<'a>(&'a AtomicU64);

    impl Drop for Witness<'_> {
        fn drop(&mut self) {
            self.0
                .store(u64::from(std::thread::panicking()), Ordering::Relaxed);
        }
    }

    let has_seen = AtomicU64::new(0);
    let result = catch_unwind(|| {
        seeds(COMMAND, 0..1, |_| async {
            let _witness = Witness(&has_seen);
            std::future::pending::<()>().await;
        });
    });
    assert!(result.is_err());
    assert_eq!(has_seen.into_inner(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_replica_set_has_a_primary_that_steps_down() {
    for (world, primary, steps_down) in [
        (TokioWorld::standalone(8), Some(0), false),
        (TokioWorld::sharded(8, 2), None, false),
        (TokioWorld::load_balanced(8, 2), None, false),
        (TokioWorld::replica_set(8, 3), Some(0), true),
    ] {
        assert_eq!(world.primary(), primary, "{}", world.uri());
        assert_eq!(world.step_down(), steps_down, "{}", world.uri());
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_shuts_down_runs_again_after_healing() {
    let world = TokioWorld::replica_set(9, 1);
    let client = client(&world).await;
    orders(&client).insert_one(doc! {}).await.expect("it runs");
    world.shut_down(0);
    sleep(Duration::from_secs(2)).await;
    world.heal();
    // The process that was shutting down would have ended by now.
    sleep(Duration::from_secs(20)).await;
    orders(&client).insert_one(doc! {}).await.expect("it runs");
}

#[tokio::test(start_paused = true)]
async fn latencies_rates_and_cuts_in_one_direction_concern_the_clients() {
    let world = TokioWorld::standalone(10);
    world.set_latency(Duration::from_millis(300), Duration::from_millis(300));
    let client = client(&world).await;
    let orders = orders(&client);
    let insert = |number: i32| orders.insert_one(doc! { "_id": number });
    insert(0).await.expect("it is reached");
    let start = world.elapsed();
    insert(1).await.expect("it is reached");
    let took = world.elapsed() - start;
    assert!((0.6..0.7).contains(&took.as_secs_f64()), "{took:?}");

    // The request of the lost reply takes effect.
    world.strike(&Disaster::CutClient {
        client: 0,
        member: 0,
        up: false,
        down: true,
    });
    let limited = insert(2).timeout(Duration::from_secs(2));
    limited.await.expect_err("the reply is lost");
    world.heal();
    let found = orders.find_one(doc! { "_id": 2 }).await;
    assert!(found.expect("a reply").is_some());

    world.set_rates(Rates {
        reset: 1000,
        ..Rates::default()
    });
    insert(3).await.expect_err("each connection breaks");
    world.heal();
    insert(4).await.expect("all faults have ended");
}

#[tokio::test(start_paused = true)]
async fn commands_fail_as_often_and_as_long_as_the_world_says() {
    let world = TokioWorld::replica_set(15, 3);
    let client = client(&world).await;
    let orders = orders(&client);
    let insert = |number: i32| orders.insert_one(doc! { "_id": number });
    insert(0).await.expect("nothing fails");
    let primary = world.primary().expect("one was elected");
    let fail = |fault: CommandFault| world.strike(&Disaster::FailCommands(fault));
    let of_inserts = CommandFault {
        commands: vec!["insert".to_owned()],
        ..CommandFault::default()
    };
    fail(CommandFault {
        member: Some(primary),
        code: Some(8000),
        labels: Some(vec!["OwnLabel".to_owned()]),
        times: Some(2),
        ..of_inserts.clone()
    });
    for number in [1, 2] {
        let error = insert(number).await.expect_err("it fails");
        assert_eq!(error.code(), Some(8000));
        assert!(error.contains_label("OwnLabel"), "{error}");
    }
    insert(3).await.expect("the third one succeeds");

    fail(CommandFault {
        block: Some(Span(Duration::from_secs(5))),
        ..of_inserts.clone()
    });
    let start = world.elapsed();
    insert(4).await.expect("it is only late");
    assert!(world.elapsed() - start >= Duration::from_secs(5));
    world.strike(&Disaster::EndFailures);
    let start = world.elapsed();
    insert(5).await.expect("nothing fails any more");
    assert!(world.elapsed() - start < Duration::from_secs(1));

    fail(CommandFault {
        close: true,
        ..of_inserts
    });
    let error = insert(6)
        .await
        .expect_err("both attempts lose their connections");
    assert!(error.is_network(), "{error}");
    world.heal();
    insert(6).await.expect("all faults have ended");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "needs `commands`")]
async fn a_fault_of_no_command_is_refused() {
    TokioWorld::standalone(16).strike(&Disaster::FailCommands(CommandFault::default()));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "abandon its operations")]
async fn a_world_cannot_abandon_the_operations_of_the_program() {
    TokioWorld::standalone(13).set_rates(Rates {
        cancel: 1,
        ..Rates::default()
    });
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "is longer than")]
async fn the_shortest_latency_is_not_longer_than_the_longest() {
    let second = Duration::from_secs(1);
    TokioWorld::standalone(14).set_latency(2 * second, second);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "those of `member_addresses`")]
async fn other_addresses_are_refused() {
    let elsewhere = onionskin_core::address::Address::tcp("elsewhere", 1);
    drop(TokioWorld::new(
        11,
        DeploymentOptions::standalone(elsewhere),
    ));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "only the program")]
async fn a_world_cannot_close_the_clients_of_the_program() {
    TokioWorld::standalone(12).strike(&Disaster::CloseClient(0));
}

/// Runs one insert during a step-down. Returns the digest, and the page if there is a picture.
async fn one_order(seed: u64, has_picture: bool) -> ([u8; 32], Option<String>) {
    let world = TokioWorld::replica_set(seed, 3);
    if has_picture {
        world.keep_picture();
    }
    let client = client(&world).await;
    let order = tokio::spawn(async move { orders(&client).insert_one(doc! { "_id": 1 }).await });
    world.step_down();
    order.await.expect("no panic").expect("it is stored");
    (world.digest(), world.page())
}

#[test]
fn a_picture_shows_the_clients_and_does_not_change_the_run() {
    let results = Mutex::new(Vec::new());
    for has_picture in [false, true] {
        let results = &results;
        seeds(COMMAND, 3..4, |seed| async move {
            let found = one_order(seed, has_picture).await;
            results.lock().expect("not poisoned").push(found);
        });
    }
    let results = results.into_inner().expect("not poisoned");
    let [(plain, none), (digest, Some(page))] = &results[..] else {
        panic!("{} runs", results.len());
    };
    assert_eq!(plain, digest);
    // With the variable, all worlds keep a picture.
    assert_eq!(none.is_some(), std::env::var_os(super::REPORT).is_some());
    for text in [
        "seed 3",
        "server member1:27017",
        "insert on member",
        "is primary in term",
        "the primary steps down",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn each_world_writes_its_page_to_the_file_of_the_variable() {
    let file = format!("onionskin-{}.html", std::process::id());
    let path = std::env::temp_dir().join(file);
    let test = "on_tokio::tests::a_picture_shows_the_clients_and_does_not_change_the_run";
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    let output = command
        .args(["--exact", "--nocapture", test])
        .env(super::REPORT, &path);
    let output = output.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains(&format!("report: {}", path.display())),
        "{text}"
    );
    let page = std::fs::read_to_string(&path).expect("a page");
    assert!(page.contains("server member1:27017"));
    std::fs::remove_file(path).expect("it is there");
}

#[tokio::test(start_paused = true)]
async fn documents_are_on_all_members_until_a_reset() {
    let shapes: [fn() -> TokioWorld; 4] = [
        || TokioWorld::standalone(17),
        || TokioWorld::replica_set(17, 3),
        || TokioWorld::sharded(17, 2),
        || TokioWorld::load_balanced(17, 2),
    ];
    for shape in shapes {
        let world = shape();
        let orders = orders(&client(&world).await);
        let count = || orders.count_documents(doc! {});
        let documents = || (0..3_i32).map(|id| doc! { "_id": id }).collect();
        let inserted = world.insert("shop", "orders", documents()).await;
        assert_eq!(inserted, Ok(()), "{}", world.uri());
        let checked = world.operate(|deployment| deployment.check_members());
        assert_eq!(checked, Ok(()), "{}", world.uri());
        assert_eq!(count().await.expect("a reply"), 3, "{}", world.uri());
        let twice = world.insert("shop", "orders", documents()).await;
        assert!(twice.is_err_and(|reason| reason.contains("document 0")));
        world.set_rates(Rates {
            refuse: 1000,
            ..Rates::default()
        });
        world.kill(0);
        assert_eq!(world.reset().await, Ok(()), "{}", world.uri());
        assert_eq!(count().await.expect("a reply"), 0, "{}", world.uri());
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_waits_for_a_primary_and_not_for_ever() {
    let world = TokioWorld::replica_set(18, 3);
    let insert = |id: i32| world.insert("shop", "orders", vec![doc! { "_id": id }]);
    world.kill(0);
    assert_eq!(insert(1).await, Ok(()), "another member is elected");
    world.kill(1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.primary(), None, "one member is no majority");
    let start = world.elapsed();
    assert_eq!(insert(2).await, Err("no member can write".to_owned()));
    assert!(world.elapsed() - start > Duration::from_secs(60));
    assert_eq!(world.reset().await, Ok(()), "all members run again");
}
