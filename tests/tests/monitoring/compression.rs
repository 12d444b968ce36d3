//! Compression of messages: the prose tests of the specification, and compression together with
//! cursors, streams of hellos, late replies, retries and load balancers.
//!
//! The servers count the messages by their compressor, and refuse commands that must not be
//! compressed (COMP-18). Their code for compressed messages is not that of the client.

use crate::scene::{
    Scene, Watched, authenticated, balanced, play, replica_set, sharded, standalone,
};
use bson::{Document, doc};
use onionskin_core::{
    event::{CommandEvent, EventKind},
    options::Compressor,
    uri,
};
use onionskin_deployment::deployment::{CompressedReplies, CompressionCounts, DeploymentOptions};
use std::time::Duration;

fn counts(scene: &Scene) -> CompressionCounts {
    scene
        .operator
        .inspect(|deployment| deployment.compression_counts())
}

fn with_replies(mut options: DeploymentOptions, replies: CompressedReplies) -> DeploymentOptions {
    options.compression.replies = replies;
    options
}

/// Returns each kind of deployment with each kind of replies.
fn deployments() -> Vec<DeploymentOptions> {
    let mut found = Vec::new();
    for options in [standalone(), replica_set(), sharded(), balanced()] {
        for replies in [
            CompressedReplies::AsRequested,
            CompressedReplies::InTurn,
            CompressedReplies::Never,
        ] {
            found.push(with_replies(options.clone(), replies));
        }
    }
    found
}

/// Writes and reads documents of many sizes, with cursors of several batches.
async fn write_and_read(watched: &Watched) {
    let things = watched.things();
    let text = |id: i32| "onion ".repeat(usize::try_from(id * id).expect("a number"));
    let documents = (0..40).map(|id| doc! { "_id": id, "text": text(id) });
    things.insert_many(documents).await.expect("it succeeds");
    let update = things.update_one(doc! { "_id": 3 }, doc! { "$set": { "text": "three" } });
    update.await.expect("it succeeds");
    let mut cursor = things.find(doc! {}).batch_size(7).await.expect("a cursor");
    let mut seen = 0;
    while let Some(document) = cursor.next().await {
        let document = document.expect("a document");
        let id = document.get_i32("_id").expect("a number");
        let found = document.get_str("text").expect("a text");
        let expected = if id == 3 {
            "three".to_owned()
        } else {
            text(id)
        };
        assert_eq!(found, expected);
        seen += 1;
    }
    assert_eq!(seen, 40);
}

/// Prose tests 1, 3 and 4: the first compressor of the client is announced and used for requests
/// and replies (COMP-5), and the ping succeeds.
#[test]
fn a_ping_is_compressed_by_the_first_compressor_of_the_client() {
    for (compressors, used) in [
        ("snappy", Compressor::Snappy),
        ("snappy,zlib", Compressor::Snappy),
        ("zlib,snappy", Compressor::Zlib),
        ("zstd,zlib,snappy", Compressor::Zstd),
    ] {
        play([standalone()], |scene| async move {
            let watched = scene.client(&format!("compressors={compressors}"));
            let admin = watched.client.database("admin");
            let reply = admin.run_command(doc! { "ping": 1 }).await;
            reply.expect("it succeeds");
            drop(admin);
            let counts = counts(&scene);
            let mut expected = [0; 4];
            expected[usize::from(used.id())] = 1;
            assert_eq!(counts.requests, expected, "{compressors}");
            assert_eq!(counts.replies, expected, "{compressors}");
            // The hellos of the monitor and of the connection.
            assert!(counts.plain_requests >= 2, "{counts:?}");
            watched.end().await;
        });
    }
}

/// Prose test 2: an unknown compressor causes a warning, is not announced, and nothing is
/// compressed (COMP-2, COMP-8).
#[test]
fn an_unknown_compressor_is_not_announced() {
    let parsed = uri::parse("mongodb://a/?compressors=snoopy").expect("a connection string");
    let warnings: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("compressors"), "{warnings:?}");
    play([standalone()], |scene| async move {
        let watched = scene.client("compressors=snoopy");
        write_and_read(&watched).await;
        let counts = counts(&scene);
        assert_eq!((counts.requests, counts.replies), ([0; 4], [0; 4]));
        watched.end().await;
    });
}

/// Prose tests 5 and 6: the commands of authentication and hellos are not compressed, and commands
/// of the same client that carry no secrets are (COMP-18, COMP-19).
#[test]
fn secret_commands_are_not_compressed() {
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        play([authenticated(standalone())], |scene| async move {
            let watched = scene.client(&format!("compressors=snappy&authMechanism={mechanism}"));
            let admin = watched.client.database("admin");
            for command in [
                doc! { "hello": 1 },
                doc! { "isMaster": 1 },
                doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-1" },
                doc! { "createUser": "bob", "pwd": "secret", "roles": [] },
                doc! { "updateUser": "bob", "pwd": "secret" },
            ] {
                let before = counts(&scene);
                // The server may refuse the command, which does not matter here.
                let _ = admin.run_command(command.clone()).await;
                let after = counts(&scene);
                assert_eq!(after.requests, before.requests, "{command}");
                assert!(after.plain_requests > before.plain_requests, "{command}");
            }
            let before = counts(&scene).requests_by(Compressor::Snappy);
            admin
                .run_command(doc! { "ping": 1 })
                .await
                .expect("it succeeds");
            drop(admin);
            assert_eq!(counts(&scene).requests_by(Compressor::Snappy), before + 1);
            assert_eq!(counts(&scene).forbidden, 0);
            watched.end().await;
        });
    }
}

/// Replies are accepted with each announced compressor, uncompressed, and with the number 0,
/// whatever the request had (COMP-6, COMP-7, COMP-15). So are the replies to hellos and streams of
/// hellos (COMP-20, COMP-25).
#[test]
fn replies_of_any_announced_compressor_are_accepted() {
    play(deployments(), |scene| async move {
        for compressors in ["zstd,zlib,snappy", "zlib"] {
            let options = format!("compressors={compressors}&heartbeatFrequencyMS=500");
            let watched = scene.client(&options);
            write_and_read(&watched).await;
            // Time for some checks, whose replies come as a stream.
            scene.pause(3000).await;
            watched
                .things()
                .delete_many(doc! {})
                .await
                .expect("it succeeds");
            let counts = counts(&scene);
            assert_eq!(counts.forbidden, 0);
            let requests: u64 = counts.requests.iter().sum();
            let replies: u64 = counts.replies.iter().sum();
            match scene.options.compression.replies {
                CompressedReplies::AsRequested => {
                    assert_eq!(requests, replies, "{counts:?}");
                }
                CompressedReplies::InTurn => {
                    assert!(replies > requests, "hellos, too: {counts:?}");
                    assert!(counts.replies[0] > 0, "{counts:?}");
                }
                _ => assert!(replies == 0 && requests >= 9, "{counts:?}"),
            }
            assert_eq!(watched.events.count(crate::event_log::pool_cleared), 0);
            assert_eq!(watched.events.count(crate::event_log::heartbeat_failed), 0);
            watched.end().await;
        }
    });
}

/// A server may compress only its larger replies (COMP-7).
#[test]
fn replies_below_a_threshold_may_be_uncompressed() {
    let mut options = replica_set();
    options.compression.threshold = 500;
    play([options], |scene| async move {
        let watched = scene.client("compressors=zlib");
        write_and_read(&watched).await;
        let counts = counts(&scene);
        let requests = counts.requests_by(Compressor::Zlib);
        let replies = counts.replies_by(Compressor::Zlib);
        assert!(0 < replies && replies < requests, "{counts:?}");
        watched.end().await;
    });
}

/// A server without a common compressor gets no compressed message (COMP-4, COMP-21), and is no
/// error.
#[test]
fn nothing_is_compressed_without_a_common_compressor() {
    let mut options = replica_set();
    options.compression.compressors = vec![Compressor::Zlib];
    play([options], |scene| async move {
        let watched = scene.client("compressors=zstd,snappy");
        write_and_read(&watched).await;
        let counts = counts(&scene);
        assert_eq!((counts.requests, counts.replies), ([0; 4], [0; 4]));
        watched.end().await;
    });
}

/// Command events have the commands and the replies as they were before compression.
#[test]
fn command_events_show_uncompressed_messages() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("compressors=zstd");
        write_and_read(&watched).await;
        let inserted = watched.events.notes(|event| match &event.kind {
            EventKind::Command(CommandEvent::Started { facts, command, .. })
                if &*facts.name == "insert" =>
            {
                let command = Document::try_from(&**command).expect("BSON");
                Some(command.get_array("documents").expect("documents").len())
            }
            _ => None,
        });
        assert_eq!(inserted, [40]);
        let batches = watched.events.count(|event| match &event.kind {
            EventKind::Command(CommandEvent::Succeeded { facts, reply, .. }) => {
                &*facts.name == "getMore" && reply.get_document("cursor").is_ok()
            }
            _ => false,
        });
        assert!(batches >= 5, "{batches}");
        watched.end().await;
    });
}

/// A compressed reply that arrives late is dropped, and its connection is used again.
#[test]
fn a_compressed_late_reply_is_drained() {
    let stages =
        [standalone(), balanced()].map(|options| with_replies(options, CompressedReplies::InTurn));
    play(stages, |scene| async move {
        let watched = scene.client("compressors=snappy,zlib&maxPoolSize=1&retryReads=false");
        write_and_read(&watched).await;
        let created = watched.events.count(crate::event_log::connection_created);
        let mut late = 0;
        for id in 0..20 {
            // The connection leads to one of the members.
            for member in 0..scene.options.addresses.len() {
                let block =
                    doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 50 };
                scene.fail(member, doc! { "times": 1 }, block).await;
            }
            let things = watched.things();
            let limit = Duration::from_millis(20);
            let find = things.find_one(doc! { "_id": id });
            if id % 2 == 0 {
                late += usize::from(find.timeout(limit).await.is_err());
            } else {
                late += usize::from(scene.drop_after(limit, find).await.is_none());
            }
            let found = things.find_one(doc! { "_id": 5 }).await;
            let found = found.expect("a reply").expect("a document");
            assert_eq!(found.get_i32("_id").ok(), Some(5));
        }
        assert_eq!(late, 20);
        // A connection is closed if the operation leaves while the request is being written.
        let more = watched.events.count(crate::event_log::connection_created) - created;
        assert!(more < 5, "most connections were used again: {more}");
        watched.end().await;
    });
}
