//! Prose tests of sessions (`sessions/tests/README.md`). The tests of all calls are in
//! `tests/tests/promises/calls/sessions.rs`, those about forks in `tests/tests/fork.rs`, and the
//! first one in `tests/src/crud/sessions.rs`.

use crate::{
    event_log::heartbeat,
    scene::{
        Scene, Task, Watched, any_topology, balanced, play, replica_set, replica_set_of, sharded,
        sharded_alone, standalone,
    },
    transactions::session,
};
use bson::{Bson, Document, Timestamp, doc};
use onionskin::{
    Error,
    error::ErrorKind,
    options::{ReadMode, ReadPreference, UpdateOneModel},
};
use onionskin_core::event::{CommandEvent, EventKind, SdamEvent};
use onionskin_deployment::deployment::DeploymentOptions;
use std::{future::Future, time::Duration};

/// Returns the commands with this name that were sent, or all if the name is empty.
fn sent(watched: &Watched, name: &str) -> Vec<Document> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. })
            if name.is_empty() || &*facts.name == name =>
        {
            Document::try_from(&**command).ok()
        }
        _ => None,
    })
}

/// Returns the session id of the last command with this name.
fn last_session(watched: &Watched, name: &str) -> Option<Document> {
    let last = sent(watched, name).pop().expect("it was sent");
    last.get_document("lsid").ok().cloned()
}

/// Sessions prose 2: the pool of sessions is a stack.
#[test]
fn the_session_that_ended_last_is_used_first() {
    play(any_topology(), |scene| async move {
        let watched = scene.client("");
        watched.find().await.expect("a reply");
        let (a, b) = (session(&watched).await, session(&watched).await);
        let (id_of_a, id_of_b) = (a.id().clone(), b.id().clone());
        assert_ne!(id_of_a, id_of_b);
        a.end().await.expect("ended");
        b.end().await.expect("ended");
        let first = session(&watched).await;
        let second = session(&watched).await;
        assert_eq!((first.id(), second.id()), (&id_of_b, &id_of_a));
        first.end().await.expect("ended");
        second.end().await.expect("ended");
        watched.end().await;
    });
}

/// Runs a call twice. Asserts that the first command has a cluster time, and that the second one
/// has the cluster time of the first reply.
async fn assert_gossip<T>(watched: &Watched, name: &str, call: impl AsyncFn() -> Result<T, Error>) {
    let mark = watched.events.mark();
    for _ in 0..2 {
        call().await.expect("a reply");
    }
    let time = |document: &Document| document.get_document("$clusterTime").ok().cloned();
    let times = watched.events.notes_since(mark, |event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. }) => {
            assert_eq!(&*facts.name, name);
            Some(time(&Document::try_from(&**command).expect("BSON")))
        }
        EventKind::Command(CommandEvent::Succeeded { reply, .. }) => {
            Some(time(&Document::try_from(&**reply).expect("BSON")))
        }
        _ => None,
    });
    let [first, reply, second, _] = &times[..] else {
        panic!("two commands are sent: {times:?}");
    };
    assert!(first.is_some() && reply.is_some(), "{name}");
    assert_eq!(second, reply, "{name}");
}

/// Sessions prose 3: a command has the cluster time of the reply before it. The first command of a
/// client has none, because the reply to a hello gives the client no cluster time (Sessions prose
/// 20).
#[test]
fn a_command_has_the_cluster_time_of_the_reply_before_it() {
    play([replica_set_of(1), sharded_alone()], |scene| async move {
        let watched = scene.client("");
        let things = watched.things();
        let database = watched.client.database("app");
        watched.find().await.expect("a reply");
        let ping = async || database.run_command(doc! { "ping": 1 }).await;
        assert_gossip(&watched, "ping", ping).await;
        let aggregate = async || things.aggregate([]).await;
        assert_gossip(&watched, "aggregate", aggregate).await;
        assert_gossip(&watched, "find", async || things.find(doc! {}).await).await;
        let insert = async || things.insert_one(doc! { "x": 1 }).await;
        assert_gossip(&watched, "insert", insert).await;
        watched.end().await;
    });
}

/// Sessions prose 8: a cursor whose first batch is its last one gives its session back before its
/// documents were read.
#[test]
fn a_cursor_that_is_exhausted_by_its_first_batch_gives_its_session_back() {
    play(any_topology(), |scene| async move {
        let watched = scene.client("");
        watched.insert_many([1, 2]).await.expect("they are new");
        let mut cursor = watched.things().find(doc! {}).await.expect("a cursor");
        cursor.next().await.expect("one").expect("a document");
        watched.insert(3).await.expect("it is new");
        let used = last_session(&watched, "find");
        assert!(used.is_some());
        assert_eq!(last_session(&watched, "insert"), used);
        cursor.next().await.expect("one").expect("a document");
        watched.end().await;
    });
}

/// Sessions prose 9: a cursor gives its session back when the last batch has arrived, before the
/// documents of this batch were read.
#[test]
fn a_cursor_that_is_exhausted_by_a_get_more_gives_its_session_back() {
    play(any_topology(), |scene| async move {
        let watched = scene.client("");
        let five = (0..5).map(|id| doc! { "_id": id });
        let things = watched.things();
        things.insert_many(five).await.expect("they are new");
        let find = things.find(doc! {}).batch_size(3);
        let mut cursor = find.await.expect("a cursor");
        let used = last_session(&watched, "find");
        watched.insert(5).await.expect("it is new");
        assert_ne!(last_session(&watched, "insert"), used, "the cursor has it");
        for _ in 0..4 {
            cursor.next().await.expect("one").expect("a document");
        }
        assert_eq!(sent(&watched, "getMore").len(), 1);
        watched.insert(6).await.expect("it is new");
        assert_eq!(last_session(&watched, "insert"), used);
        watched.end().await;
    });
}

/// Sessions prose 10: no session stays in use, in whatever way an operation, a cursor, a change
/// stream or a session of the application ends. So operations that run one after the other share
/// one session.
#[test]
fn no_session_stays_in_use() {
    play([replica_set_of(1), sharded_alone()], |scene| async move {
        let watched = scene.client("");
        let things = watched.things();
        watched.insert_many([1, 2]).await.expect("they are new");
        watched.insert(2).await.expect_err("there is one");
        let find = async || things.find(doc! {}).batch_size(1).await.expect("a cursor");
        let found = find().await.into_vec().await;
        assert_eq!(found.expect("documents").len(), 2);
        find().await.close().await;
        drop(find().await);
        // Dropped cursors, streams and sessions end in the background.
        scene.pause(1_000).await;
        let watch = async || things.watch().await.expect("a stream");
        watch().await.close().await;
        drop(watch().await);
        scene.pause(1_000).await;
        for is_dropped in [false, true] {
            let mut own = session(&watched).await;
            own.start_transaction().await.expect("it starts");
            let insert = things.insert_one(doc! { "_id": 3 });
            insert.session(&mut own).await.expect("it is new");
            match is_dropped {
                true => drop(own),
                false => own.end().await.expect("ended"),
            }
            scene.pause(1_000).await;
        }
        assert!(watched.find().await.expect("a reply").is_some());
        let all = sent(&watched, "");
        let id = |command: &Document| command.get_document("lsid").ok().cloned();
        let first = id(&all[0]);
        assert!(first.is_some());
        assert!(all.iter().all(|command| id(command) == first), "{all:?}");
        for name in ["getMore", "killCursors", "abortTransaction"] {
            assert!(!sent(&watched, name).is_empty(), "{name}");
        }
        watched.end().await;
    });
}

/// Sessions prose 11: `find` and `getMore` send the same session id, for each topology and read
/// preference.
#[test]
fn find_and_get_more_send_the_same_session_id() {
    let modes = [
        ReadMode::Primary,
        ReadMode::PrimaryPreferred,
        ReadMode::Secondary,
        ReadMode::SecondaryPreferred,
        ReadMode::Nearest,
    ];
    play(
        [standalone(), replica_set(), sharded(), balanced()],
        |scene| async move {
            let watched = scene.client("");
            let things = watched.things();
            let three = (0..3).map(|id| doc! { "_id": id });
            things.insert_many(three).await.expect("they are new");
            // After a second all members have the documents.
            scene.pause(1_000).await;
            for mode in modes {
                let find = things.find(doc! {}).batch_size(2);
                let find = find.read_preference(ReadPreference::new(mode));
                let found = find.await.expect("a cursor").into_vec().await;
                assert_eq!(found.expect("documents").len(), 3);
                let id = last_session(&watched, "find").expect("a session");
                let Some(Bson::Binary(bytes)) = id.get("id") else {
                    panic!("{id}");
                };
                assert!(bytes.bytes.iter().any(|byte| *byte != 0));
                assert_eq!(last_session(&watched, "getMore"), Some(id), "{mode:?}");
            }
            assert_eq!(sent(&watched, "getMore").len(), modes.len());
            watched.end().await;
        },
    );
}

/// Starts eight operations at the same time.
fn start_eight(scene: &Scene, watched: &Watched) -> [Task<Result<(), Error>>; 8] {
    macro_rules! start {
        ($things:ident => $call:expr) => {{
            let $things = watched.things();
            scene.spawn(async move { $call.await.map(drop) })
        }};
    }
    let set = || doc! { "$set": { "a": 1 } };
    let update = move || {
        let model = UpdateOneModel::builder().filter(doc! {});
        model.update(set()).build()
    };
    [
        start!(things => things.insert_one(doc! {})),
        start!(things => things.delete_one(doc! {})),
        start!(things => things.update_one(doc! {}, set())),
        start!(things => things.bulk_write([update()])),
        start!(things => things.find_one_and_delete(doc! {})),
        start!(things => things.find_one_and_update(doc! {}, set())),
        start!(things => things.find_one_and_replace(doc! {}, doc! { "a": 1 })),
        start!(things => async move {
            things.find(doc! {}).await?.into_vec().await
        }),
    ]
}

/// Sessions prose 14: an operation takes an implicit session after it has checked out a connection,
/// so that operations that share one connection share one session as well.
#[test]
fn implicit_sessions_are_taken_after_the_check_out() {
    play(any_topology(), |scene| async move {
        let watched = scene.client("maxPoolSize=1&retryWrites=true");
        for round in 0..5 {
            for task in start_eight(&scene, &watched) {
                let result = scene.ended("the operation", task).await;
                result.expect("a reply");
            }
            let all = sent(&watched, "");
            assert!(all.len() >= 8 * (round + 1));
            let id = |command: &Document| command.get_document("lsid").ok().cloned();
            let first = id(&all[0]);
            assert!(first.is_some());
            assert!(all.iter().all(|command| id(command) == first));
        }
        watched.end().await;
    });
}

/// Returns a server whose hello replies have no `logicalSessionTimeoutMinutes`.
fn without_sessions() -> DeploymentOptions {
    let mut options = standalone();
    options.limits.session_timeout_minutes = None;
    options
}

async fn assert_no_sessions(watched: &Watched) {
    let admin = watched.client.database("admin");
    let hello = admin.run_command(doc! { "hello": 1 }).await;
    let hello = hello.expect("a reply");
    assert!(!hello.contains_key("logicalSessionTimeoutMinutes"));
}

/// Sessions prose 18: operations without a session of the application send no session id to a
/// server that does not support sessions.
#[test]
fn a_server_without_sessions_gets_no_implicit_session() {
    play([without_sessions()], |scene| async move {
        let watched = scene.client("");
        assert_no_sessions(&watched).await;
        watched.find().await.expect("a reply");
        watched.insert(1).await.expect("a reply");
        watched.find().await.expect("a reply");
        for name in ["find", "insert"] {
            for command in sent(&watched, name) {
                assert!(!command.contains_key("lsid"), "{command}");
                assert!(!command.contains_key("txnNumber"), "{command}");
            }
        }
        watched.end().await;
    });
}

/// Sessions prose 19: an operation in a session of the application fails before it is sent to a
/// server that does not support sessions.
#[test]
fn a_server_without_sessions_refuses_the_sessions_of_the_application() {
    async fn assert_refused<T>(call: impl Future<Output = Result<T, Error>>) {
        let Err(error) = call.await else {
            panic!("the server has no sessions");
        };
        assert_eq!(error, ErrorKind::SessionsNotSupported);
        assert!(
            error.to_string().contains("does not support sessions"),
            "{error}"
        );
        assert!(error.server().is_some());
    }

    play([without_sessions()], |scene| async move {
        let watched = scene.client("");
        assert_no_sessions(&watched).await;
        let mut session = session(&watched).await;
        let mark = watched.events.mark();
        let things = watched.things();
        let insert = things.insert_one(doc! { "_id": 1 });
        assert_refused(things.find_one(doc! {}).session(&mut session).into_future()).await;
        assert_refused(insert.session(&mut session).into_future()).await;
        let commands = watched
            .events
            .notes_since(mark, crate::event_log::command_name);
        assert!(commands.is_empty(), "{commands:?}");
        session.end().await.expect("ended");
        assert_eq!(watched.find().await, Ok(None));
        watched.end().await;
    });
}

/// Returns the cluster times of the commands or replies with this name, the last one last.
fn times(watched: &Watched, is_reply: bool) -> Vec<Option<Document>> {
    watched.events.notes(|event| {
        let document = match &event.kind {
            EventKind::Command(CommandEvent::Started { command, .. }) if !is_reply => command,
            EventKind::Command(CommandEvent::Succeeded { reply, .. }) if is_reply => reply,
            _ => return None,
        };
        let document = Document::try_from(&**document).expect("BSON");
        Some(document.get_document("$clusterTime").ok().cloned())
    })
}

/// Sessions prose 20: the cluster time in the reply to a check of the server is not kept. The test
/// `checks_neither_send_nor_keep_cluster_times` of the core reads the commands of the checks.
#[test]
fn a_check_does_not_advance_the_cluster_time() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let address = scene.options.addresses[scene.primary()].to_string();
        let one = scene.client_of(&address, "directConnection=true&heartbeatFrequencyMS=500");
        let other = scene.client("");
        let admin = one.client.database("admin");
        let ping = async || admin.run_command(doc! { "ping": 1 }).await;
        ping().await.expect("a reply");
        let time = times(&one, true).pop().flatten().expect("a time");
        other.insert(1).await.expect("it is new");
        let mark = one.events.mark();
        scene.pause_for(Duration::from_secs(2)).await;
        let checks = one.events.notes_since(mark, heartbeat);
        let pair = [("started", true), ("succeeded", true)];
        assert!(checks.windows(2).any(|two| two == pair), "{checks:?}");
        let replies = one.events.notes_since(mark, |event| match &event.kind {
            EventKind::Sdam(SdamEvent::HeartbeatSucceeded { reply, .. }) => {
                Document::try_from(&***reply).ok()
            }
            _ => None,
        });
        let newer = replies
            .last()
            .and_then(|hello| hello.get_document("$clusterTime").ok());
        assert!(newer.is_some_and(|newer| *newer != time), "{replies:?}");
        ping().await.expect("a reply");
        assert_eq!(times(&one, false).pop().flatten(), Some(time));
        drop(admin);
        one.client.shutdown().await;
        other.end().await;
    });
}

/// Sessions prose 21: the time of a snapshot without a snapshot is an error.
#[test]
fn a_snapshot_time_without_a_snapshot_is_refused() {
    play([replica_set(), sharded()], |scene| async move {
        let watched = scene.client("");
        let (time, increment) = (0, 1);
        let start = watched.client.start_session().snapshot(false);
        let start = start.snapshot_time(Timestamp { time, increment });
        let error = start.await.expect_err("it has no effect");
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
            "{error:?}"
        );
        watched.end().await;
    });
}

/// Sessions prose 22 and 23: the snapshot time of a session without a snapshot is unset, and no
/// method changes the one that a session has. The specification of snapshot reads permits an unset
/// value in place of an error.
#[test]
fn the_snapshot_time_is_unset_without_a_snapshot_and_read_only() {
    play([replica_set(), sharded()], |scene| async move {
        let watched = scene.client("");
        let things = watched.things();
        watched.insert(1).await.expect("it is new");
        // After a second all members have the document.
        scene.pause(1_000).await;
        for is_snapshot in [false, true] {
            let start = watched.client.start_session().snapshot(is_snapshot);
            let mut session = start.await.expect("a session");
            assert_eq!(session.snapshot_time(), None);
            let find = things.find_one(doc! {}).session(&mut session);
            assert!(find.await.expect("a reply").is_some());
            let time = session.snapshot_time();
            assert_eq!(time.is_some(), is_snapshot);
            let late = Timestamp {
                time: u32::MAX,
                increment: 1,
            };
            session.advance_operation_time(late);
            if let Some(cluster_time) = session.cluster_time() {
                session.advance_cluster_time(cluster_time);
            }
            assert_eq!(session.snapshot_time(), time);
            session.end().await.expect("ended");
        }
        watched.end().await;
    });
}
