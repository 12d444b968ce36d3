//! Programs on tokio with a simulated deployment.

use super::{TokioWorld, seeds};
use crate::world::runtime::member_addresses;
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
#[should_panic(expected = "there are 1 members, and no member 1")]
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
    seeds(COMMAND, 0..1, |_| std::future::pending());
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
