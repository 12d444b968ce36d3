//! The prose tests of server selection (SEL-P) and max staleness (STALE-P), and related rules about
//! read preferences. SEL-P1 is an example in the docs of `ReadPreference`, SEL-P5 and SEL-P6 are
//! unit tests of the core, and SEL-P7 is the run of the official files in
//! `tests/tests/specifications`.

use crate::{
    event_log::{
        became, heartbeat_failed, heartbeat_started, pool_name, server_of_command, unknown,
    },
    scene::{Scene, Watched, play, replica_set, sharded, sharded_alone, standalone},
};
use bson::{Bson, Document, doc};
use onionskin::options::{CollectionOptions, ReadMode, ReadPreference, SelectionCriteria};
use onionskin_core::{
    address::Address,
    description::ServerType,
    error::ErrorKind,
    event::{CommandEvent, Event, EventKind, SdamEvent},
    uri,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The first sample of the round trip time after a disconnect is the new average (SEL-P2, "RTT"). A
/// negative sample, which the prose test also has, is impossible in the type `Duration`.
#[test]
fn a_failed_check_resets_the_average_round_trip_time() {
    play([standalone()], |scene| async move {
        let watched = scene.client("serverMonitoringMode=poll&heartbeatFrequencyMS=500");
        scene.pause(3_200).await;
        let slow = doc! {
            "failCommands": ["hello", "isMaster"], "blockConnection": true, "blockTimeMS": 400,
        };
        scene.fail(0, doc! { "times": 1 }, slow).await;
        scene.pause(1_000).await;
        let known = round_trip(&watched).expect("it is known");
        let (least, most) = (Duration::from_millis(50), Duration::from_millis(90));
        assert!(
            (least..most).contains(&known),
            "a fifth of 400 ms: {known:?}"
        );
        let broken = doc! { "failCommands": ["hello", "isMaster"], "errorCode": 1 };
        scene.fail(0, doc! { "times": 1 }, broken).await;
        watched
            .wait_for(1, "heartbeat failed", heartbeat_failed)
            .await;
        assert_eq!(round_trip(&watched), None);
        watched
            .wait_for(2, "a standalone", became(ServerType::Standalone))
            .await;
        let sample = watched.events.notes(|event| match &event.kind {
            EventKind::Sdam(SdamEvent::HeartbeatSucceeded { duration, .. }) => Some(*duration),
            _ => None,
        });
        assert_eq!(round_trip(&watched), sample.last().copied());
        watched.end().await;
    });
}

fn round_trip(watched: &Watched) -> Option<Duration> {
    let topology = watched.client.topology();
    topology.servers.values().next()?.round_trip_time
}

/// Returns the `$readPreference` of each `find` command.
fn sent_preferences(watched: &Watched) -> Vec<Option<Document>> {
    preferences_of(watched, "find")
}

/// Returns the `$readPreference` of each command with this name.
fn preferences_of(watched: &Watched, name: &str) -> Vec<Option<Document>> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. })
            if &*facts.name == name =>
        {
            let preference = command.get_document("$readPreference").ok();
            Some(preference.map(|p| Document::try_from(p).expect("a document")))
        }
        _ => None,
    })
}

/// Commands to routers contain every read preference except `primary` (SEL-P3, "Passing read
/// preference to mongos"; SEL-24).
#[test]
fn commands_to_mongos_contain_every_read_preference_except_primary() {
    play([sharded()], |scene| async move {
        let watched = scene.client("");
        let things = watched.things();
        let modes = [
            (ReadMode::Primary, None),
            (ReadMode::PrimaryPreferred, Some("primaryPreferred")),
            (ReadMode::Secondary, Some("secondary")),
            (ReadMode::SecondaryPreferred, Some("secondaryPreferred")),
            (ReadMode::Nearest, Some("nearest")),
        ];
        for (mode, _) in modes {
            let find = things.find_one(doc! {});
            let find = find.read_preference(ReadPreference::new(mode));
            find.await.expect("a reply");
        }
        let expected = modes.map(|(_, name)| name.map(|name| doc! { "mode": name }));
        assert_eq!(sent_preferences(&watched), expected);
        watched.end().await;
    });
}

/// Returns the number of `find` commands that were sent to each server after the mark.
fn finds_by_server(watched: &Watched, from: usize) -> BTreeMap<Address, usize> {
    let mut finds = BTreeMap::new();
    for address in watched
        .events
        .notes_since(from, |event: &Event| match &event.kind {
            EventKind::Command(CommandEvent::Started { facts, .. }) if &*facts.name == "find" => {
                Some(facts.address.clone())
            }
            _ => None,
        })
    {
        *finds.entry(address).or_default() += 1;
    }
    finds
}

/// Runs this many tasks, each of which runs this many `find` operations one after another.
async fn find_a_lot(scene: &Scene, watched: &Watched, tasks: usize, finds: usize) {
    let tasks = (0..tasks).map(|_| {
        let things = watched.things();
        scene.spawn(async move {
            for _ in 0..finds {
                things.find_one(doc! {}).await.expect("a reply");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.join().await;
    }
}

/// A router that is slow gets less than a quarter of the operations. When both routers are fast,
/// each gets about half of them (SEL-P4, "operationCount-based selection within the latency
/// window").
#[test]
fn a_slow_mongos_in_the_latency_window_gets_fewer_operations() {
    const TASKS: usize = 10;
    play([sharded()], |scene| async move {
        let options = "appname=loadBalancingTest&localThresholdMS=30000&maxPoolSize=10";
        let watched = scene.client(&format!("{options}&minPoolSize=10"));
        watched.find().await.expect("a reply");
        let is_ready = |event: &Event| pool_name(event) == Some("connection ready");
        watched.wait_for(20, "connections", is_ready).await;
        let slow = doc! {
            "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 500,
            "appName": "loadBalancingTest",
        };
        scene.fail(0, doc! { "times": 10_000 }, slow).await;
        let mark = watched.events.mark();
        find_a_lot(&scene, &watched, TASKS, 10).await;
        let finds = finds_by_server(&watched, mark);
        let total: usize = finds.values().sum();
        let to_slow = finds[&Address::tcp("member0", 27017)];
        assert_eq!(total, TASKS * 10);
        assert!(
            to_slow * 4 < total,
            "{to_slow} of {total} went to the slow one"
        );

        scene.clear_fail_point(0).await;
        let mark = watched.events.mark();
        find_a_lot(&scene, &watched, TASKS, 100).await;
        let finds = finds_by_server(&watched, mark);
        let total: usize = finds.values().sum();
        assert_eq!(total, TASKS * 100);
        for (server, count) in finds {
            let is_fair = count * 10 >= total * 4 && count * 10 <= total * 6;
            assert!(is_fair, "{count} of {total} went to {server}");
        }
        watched.end().await;
    });
}

/// `maxStalenessSeconds` in a connection string gives a limit (STALE-P1) or, with -1, none
/// (STALE-P3). A limit with mode `primary` is an error (STALE-P2, STALE-4).
#[test]
fn max_staleness_seconds_is_parsed_from_the_connection_string() {
    let preference = |options: &str| {
        let parsed = uri::parse(&format!("mongodb://a/?{options}"))?;
        let max = parsed.options.read_preference().max_staleness();
        Ok::<_, onionskin::Error>(max.map(|max| max.as_secs()))
    };
    let secondary = preference("readPreference=secondary&maxStalenessSeconds=120");
    assert_eq!(secondary, Ok(Some(120)));
    for options in [
        "maxStalenessSeconds=120",
        "readPreference=primary&maxStalenessSeconds=120",
    ] {
        assert!(preference(options).is_err(), "{options}");
    }
    for options in [
        "readPreference=secondary&maxStalenessSeconds=-1",
        "readPreference=primary&maxStalenessSeconds=-1",
        "maxStalenessSeconds=-1",
    ] {
        assert_eq!(preference(options), Ok(None), "{options}");
    }
    // Values below -1 and values that are no integer are ignored with a warning (STALE-3), so they
    // are also valid with mode `primary`.
    for value in ["-2", "-120", "soon", "1.5", ""] {
        for mode in ["secondary", "primary"] {
            let options = format!("readPreference={mode}&maxStalenessSeconds={value}");
            assert_eq!(preference(&options), Ok(None), "{options}");
            let parsed = uri::parse(&format!("mongodb://a/?{options}"));
            let warnings = parsed.expect("it is only warned about").warnings;
            let text = warnings.iter().map(ToString::to_string).collect::<String>();
            assert!(text.contains("maxStalenessSeconds"), "{options}: {text}");
        }
    }
}

/// A read uses its own read preference (SEL-32), or that of the client if it has none (SEL-19).
#[test]
fn the_read_preference_of_an_operation_overrides_that_of_the_client() {
    play([sharded_alone()], |scene| async move {
        let watched = scene.client("readPreference=secondary");
        let things = watched.things();
        let nearest = || ReadPreference::new(ReadMode::Nearest);
        things.find_one(doc! {}).await.expect("a reply");
        drop(things.find(doc! {}).await.expect("a reply"));
        let one = things.find_one(doc! {}).read_preference(nearest());
        one.await.expect("a reply");
        let many = things.find(doc! {}).read_preference(nearest());
        drop(many.await.expect("a reply"));
        let modes = ["secondary", "secondary", "nearest", "nearest"];
        let expected = modes.map(|mode| Some(doc! { "mode": mode }));
        assert_eq!(sent_preferences(&watched), expected);
        things.count_documents(doc! {}).await.expect("a reply");
        let count = things.count_documents(doc! {});
        count.read_preference(nearest()).await.expect("a reply");
        let pipeline = || [doc! { "$match": {} }];
        drop(things.aggregate(pipeline()).await.expect("a reply"));
        let aggregate = things.aggregate(pipeline());
        let aggregate = aggregate.read_preference(nearest());
        drop(aggregate.await.expect("a reply"));
        let modes = ["secondary", "nearest", "secondary", "nearest"];
        let expected = modes.map(|mode| Some(doc! { "mode": mode }));
        assert_eq!(preferences_of(&watched, "aggregate"), expected);
        watched.end().await;
    });
}

/// Commands of the primary do not inherit a read preference (SEL-30, SEL-31). Those of any member
/// do (SEL-32). On a direct connection, lists come from any member.
#[test]
fn a_helper_inherits_the_read_preference_if_any_member_can_run_its_command() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("readPreference=secondary");
        let database = watched.client.database("app");
        let things = watched.things();
        database.create_collection("things").await.expect("created");
        database.list_collection_names().await.expect("a reply");
        watched.client.list_databases().await.expect("a reply");
        things.list_index_names().await.expect("a reply");
        things.rename("others").await.expect("renamed");
        let primary = Address::tcp(&format!("member{}", scene.primary()), 27_017);
        let servers = watched.events.notes(server_of_command);
        assert_eq!(servers, vec![primary.to_string(); 5]);
        let mark = watched.events.mark();
        things.distinct("a", doc! {}).await.expect("a reply");
        things.estimated_document_count().await.expect("a reply");
        drop(database.aggregate([doc! { "$documents": [{}] }]).await);
        let servers = watched.events.notes_since(mark, server_of_command);
        assert!(!servers.contains(&primary.to_string()), "{servers:?}");
        assert_eq!(servers.len(), 3);
        watched.end().await;
        let other = (scene.primary() + 1) % 3;
        let watched = scene.client_of(&format!("member{other}"), "directConnection=true");
        let database = watched.client.database("app");
        database.list_collection_names().await.expect("a reply");
        drop(database);
        watched.end().await;
    });
}

/// A function selects the server of one call, or of all calls of a handle. Routers get the read
/// preference `primaryPreferred`. A transaction refuses the function.
#[test]
fn a_function_selects_the_server_of_a_read() {
    play([sharded()], |scene| async move {
        let watched = scene.client("");
        let at = |host: &'static str| {
            SelectionCriteria::Predicate(Arc::new(move |server| server.address.host() == host))
        };
        let things = watched.things();
        let mark = watched.events.mark();
        for host in ["member1", "member0", "member1", "member1"] {
            let find = things.find_one(doc! {}).selection_criteria(at(host));
            find.await.expect("a reply");
        }
        let mut options = CollectionOptions::default();
        options.selection_criteria = Some(at("member1"));
        let database = watched.client.database("db");
        let there = database.collection_with_options::<Document>("things", options);
        for _ in 0..5 {
            there.find_one(doc! {}).await.expect("a reply");
        }
        let primary = there
            .find_one(doc! {})
            .read_preference(ReadPreference::Primary);
        primary.await.expect("a reply");
        let preferences = preferences_of(&watched, "find");
        let preferred = Some(doc! { "mode": "primaryPreferred" });
        assert!(
            preferences[..9].iter().all(|sent| *sent == preferred),
            "{preferences:?}"
        );
        assert_eq!(preferences[9], None);
        let finds = finds_by_server(&watched, mark);
        let to_second = finds[&Address::tcp("member1", 27017)];
        assert!((8..=9).contains(&to_second), "{finds:?}");
        let nowhere = things.find_one(doc! {}).selection_criteria(at("elsewhere"));
        let error = nowhere
            .timeout(Duration::from_secs(1))
            .await
            .expect_err("no server");
        assert!(error.is_timeout(), "{error}");
        let mut session = watched.client.start_session().await.expect("a session");
        session.start_transaction().await.expect("it starts");
        let find = things.find_one(doc! {}).selection_criteria(at("member0"));
        let error = find
            .session(&mut session)
            .await
            .expect_err("not in a transaction");
        assert!(error.to_string().contains("must be primary"), "{error}");
        drop(session);
        watched.end().await;
    });
}

/// Official test file `aggregate-write-readPreference`, "Aggregate with $out includes read
/// preference for 5.0+ server", and the same for `$merge` (SEL-34).
#[test]
fn an_aggregate_with_out_or_merge_sends_its_read_preference_to_mongos() {
    play([sharded_alone()], |scene| async move {
        let watched = scene.client("readPreference=secondaryPreferred&maxStalenessSeconds=600");
        let things = watched.things();
        let documents = [[1, 11], [2, 22], [3, 33]].map(|[id, x]| doc! { "_id": id, "x": x });
        things.insert_many(documents).await.expect("a reply");
        for stage in [
            doc! { "$out": "out" },
            doc! { "$merge": { "into": "merged" } },
        ] {
            let matching = doc! { "$match": { "_id": { "$gt": 1 } } };
            let pipeline = [matching, doc! { "$sort": { "x": 1 } }, stage];
            let mut cursor = things.aggregate(pipeline).await.expect("a reply");
            assert!(cursor.next().await.is_none());
            drop(cursor);
        }
        let preference = doc! { "mode": "secondaryPreferred", "maxStalenessSeconds": 600 };
        let sent = preferences_of(&watched, "aggregate");
        assert_eq!(sent.len(), 2);
        for sent in sent {
            let sent = sent.expect("a read preference");
            assert_eq!(sent.get_str("mode").ok(), preference.get_str("mode").ok());
            let staleness = sent.get("maxStalenessSeconds").and_then(number);
            assert_eq!(staleness, Some(600));
        }
        for name in ["out", "merged"] {
            let written = watched.client.database("app").collection::<Document>(name);
            let count = written.count_documents(doc! {}).await;
            assert_eq!(count, Ok(2), "{name}");
        }
        watched.end().await;
    });
}

fn number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

/// A client can be created with a `maxStalenessSeconds` that is too small. The reads of this client
/// fail at once (STALE-P4).
#[test]
fn a_max_staleness_that_is_too_small_fails_reads_but_not_client_creation() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("readPreference=secondary&maxStalenessSeconds=1");
        watched
            .wait_for(1, "a primary", became(ServerType::RsPrimary))
            .await;
        let start = scene.now();
        let error = watched.find().await.expect_err("it is too small");
        let is_argument = matches!(
            error.kind(),
            ErrorKind::InvalidArgument { .. } | ErrorKind::ServerSelection { .. }
        );
        assert!(is_argument, "{error:?}");
        assert_eq!(scene.now(), start, "{error:?}");
        watched.end().await;
    });
}

/// Servers are checked every `heartbeatFrequencyMS` (STALE-P5, STALE-15, MON-32).
#[test]
fn heartbeat_frequency_ms_sets_the_time_between_checks() {
    play([standalone()], |scene| async move {
        for mode in ["poll", "stream"] {
            let options = format!("heartbeatFrequencyMS=500&serverMonitoringMode={mode}");
            let watched = scene.client(&options);
            scene.pause(10_000).await;
            let checks = watched.events.count(heartbeat_started);
            assert!((20..=22).contains(&checks), "{mode}: {checks} checks");
            watched.assert_count(0, "unknown", unknown);
            watched.end().await;
        }
    });
}

/// The `lastWriteDate` of a server description follows the writes (STALE-P6).
#[test]
fn last_write_date_advances_with_writes() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("heartbeatFrequencyMS=500&w=majority");
        let date = || {
            let topology = watched.client.topology();
            let primary = topology.primary().expect("a primary").clone();
            primary.last_write_date.expect("a date")
        };
        watched.insert(1).await.expect("a reply");
        scene.pause(1_000).await;
        let first = date();
        assert!(first.as_unix_millis() > 0);
        scene.pause(1_000).await;
        watched.insert(2).await.expect("a reply");
        scene.pause(1_000).await;
        let between = date().as_unix_millis().checked_sub(first.as_unix_millis());
        let between = between.expect("it is later");
        assert!((1..10_000).contains(&between), "{between} ms");
        watched.end().await;
    });
}

/// Commands to routers contain `maxStalenessSeconds` as an integer, if the option is set
/// (STALE-P7).
#[test]
fn commands_to_mongos_contain_max_staleness_seconds_if_it_is_set() {
    play([sharded_alone()], |scene| async move {
        let expected = |staleness: Option<Bson>| {
            let mut preference = doc! { "mode": "secondary" };
            if let Some(staleness) = staleness {
                preference.insert("maxStalenessSeconds", staleness);
            }
            vec![Some(preference)]
        };
        let watched = scene.client("readPreference=secondary&maxStalenessSeconds=120");
        watched.find().await.expect("a reply");
        let sent = sent_preferences(&watched);
        let (short, long) = (Bson::Int32(120), Bson::Int64(120));
        assert!(
            sent == expected(Some(short)) || sent == expected(Some(long)),
            "{sent:?}"
        );
        watched.end().await;
        let watched = scene.client("readPreference=secondary");
        watched.find().await.expect("a reply");
        assert_eq!(sent_preferences(&watched), expected(None));
        watched.end().await;
    });
}
