//! GridFS: the commands of uploads and downloads, and files that are not what they should be.

use crate::scene::{
    Scene, Watched, balanced_alone, play, play_with_one_seed, replica_set, standalone,
};
use bson::{Bson, DateTime, Document, Regex, cstr, doc};
use futures_util::{AsyncReadExt, AsyncWrite as _, AsyncWriteExt};
use onionskin::{
    Collection, Error, GridFsBucket,
    error::{ErrorKind, GridFsErrorKind, GridFsFileIdentifier},
    gridfs::GridFsBucketOptions,
};
use onionskin_core::event::{CommandEvent, EventKind};
use onionskin_worlds::world::SimRuntime;
use std::{future::poll_fn, pin::Pin, task::ready, time::Duration};

type Bucket = GridFsBucket<SimRuntime>;

fn bucket(watched: &Watched, chunk_size: u32) -> Bucket {
    let options = GridFsBucketOptions::builder().chunk_size_bytes(chunk_size);
    watched
        .client
        .database("files")
        .gridfs_bucket(options.build())
}

fn stored(watched: &Watched, name: &str) -> Collection<SimRuntime, Document> {
    watched.client.database("files").collection(name)
}

/// Returns the names and the collections of the commands that were sent, in order.
fn sent(watched: &Watched) -> Vec<String> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command }) => {
            let collection = command.get_str(&*facts.name).ok()?;
            Some(format!("{} {collection}", facts.name))
        }
        _ => None,
    })
}

async fn count(watched: &Watched, name: &str) -> u64 {
    let counted = stored(watched, name).count_documents(doc! {}).await;
    counted.expect("a count")
}

fn pattern(length: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..251).collect();
    let mut bytes = period.repeat(length / period.len() + 1);
    bytes.truncate(length);
    bytes
}

/// Returns the kind of the GridFS error that an error of a stream contains.
fn kind(error: std::io::Error) -> GridFsErrorKind {
    gridfs_kind(error.downcast::<Error>().expect("an error of the driver"))
}

fn gridfs_kind(error: Error) -> GridFsErrorKind {
    match error.kind() {
        ErrorKind::GridFs(kind) => kind.clone(),
        other => panic!("{other:?}"),
    }
}

/// *Before write operations*: the first upload creates the indexes, and no later one does.
#[test]
fn the_first_upload_of_an_empty_bucket_creates_the_indexes() {
    play([standalone(), replica_set()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        files
            .upload_from_stream("a", &pattern(9)[..])
            .await
            .expect("stored");
        files
            .clone()
            .upload_from_stream("b", &[][..])
            .await
            .expect("stored");
        let first = [
            "find fs.files",
            "listIndexes fs.files",
            "createIndexes fs.files",
            "listIndexes fs.chunks",
            "createIndexes fs.chunks",
            "insert fs.chunks",
            "insert fs.files",
            "insert fs.files",
        ];
        assert_eq!(sent(&watched), first);
        // Another handle reads once, and finds a file.
        let other = bucket(&watched, 4);
        other
            .upload_from_stream("c", &[1][..])
            .await
            .expect("stored");
        let all = sent(&watched);
        let next = ["find fs.files", "insert fs.chunks", "insert fs.files"];
        assert_eq!(all[first.len()..], next);
        // Indexes that exist are not created again, whatever the type of their numbers.
        other
            .find(doc! {})
            .await
            .expect("files")
            .into_vec()
            .await
            .expect("three");
        stored(&watched, "fs.files")
            .delete_many(doc! {})
            .await
            .expect("deleted");
        let before = sent(&watched).len();
        bucket(&watched, 4)
            .upload_from_stream("d", &[1][..])
            .await
            .expect("stored");
        let again = sent(&watched).split_off(before);
        assert!(
            !again
                .iter()
                .any(|command| command.starts_with("createIndexes"))
        );
        watched.end().await;
    });
}

/// An id that looks like query operators, or is a regular expression, names no other file.
#[test]
fn an_id_with_query_operators_names_no_other_file() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        let stored = pattern(9);
        let upload = files.upload_from_stream("a", &stored[..]);
        let kept = upload.await.expect("stored");
        let pattern_of_all = Regex {
            pattern: cstr!("").into(),
            options: cstr!("").into(),
        };
        let all_ids: [Bson; 3] = [
            doc! { "$ne": null }.into(),
            doc! { "$in": [&kept] }.into(),
            pattern_of_all.into(),
        ];
        for id in all_ids {
            let missing = |error| {
                let GridFsErrorKind::FileNotFound { identifier, .. } = gridfs_kind(error) else {
                    panic!("a file was found");
                };
                assert_eq!(identifier, GridFsFileIdentifier::Id(id.clone()));
            };
            let mut sink = Vec::new();
            missing(
                files
                    .download_to_stream(id.clone(), &mut sink)
                    .await
                    .expect_err("no file"),
            );
            missing(files.rename(id.clone(), "b").await.expect_err("no file"));
            missing(files.delete(id.clone()).await.expect_err("no file"));
            let upload = files.open_upload_stream("b").id(id.clone());
            let mut upload = upload.await.expect("open");
            upload.write_all(&[1; 9]).await.expect("taken");
            upload.abort().await.expect("its chunks are deleted");
        }
        let mut sink = Vec::new();
        files
            .download_to_stream(kept, &mut sink)
            .await
            .expect("the file is whole");
        assert_eq!(sink, stored);
        watched.end().await;
    });
}

/// A file of more than one batch in both directions.
#[test]
fn a_large_file_is_sent_and_fetched_in_batches() {
    play_with_one_seed([replica_set(), balanced_alone()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 255 * 1024);
        let bytes = pattern(40_000_000);
        let mut upload = files
            .open_upload_stream("large")
            .id(Bson::Int32(7))
            .await
            .expect("open");
        for piece in bytes.chunks(1_000_003) {
            upload.write_all(piece).await.expect("taken");
        }
        upload.close().await.expect("stored");
        assert_eq!(upload.id(), &Bson::Int32(7));
        let closed = upload.write(&[1]).await.expect_err("closed");
        assert_eq!(kind(closed), GridFsErrorKind::UploadStreamClosed);
        let inserts = |name: &str| sent(&watched).iter().filter(|c| *c == name).count();
        assert_eq!(inserts("insert fs.chunks"), 3);

        let mut download = files
            .open_download_stream(Bson::Int32(7))
            .await
            .expect("found");
        assert_eq!(download.file().length, bytes.len() as u64);
        let mut read = Vec::new();
        download.read_to_end(&mut read).await.expect("read");
        assert!(read == bytes, "{} bytes", read.len());
        // A download that is dropped early closes its cursor.
        let mut download = files
            .open_download_stream(Bson::Int32(7))
            .await
            .expect("found");
        let read = download.read(&mut [0; 10]).await.expect("it is read");
        assert!(read > 0);
        drop(download);
        watched.end().await;
    });
}

#[test]
fn aborted_and_dropped_uploads_leave_nothing() {
    play([standalone(), replica_set()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        let mut aborted = files.open_upload_stream("aborted").await.expect("open");
        aborted.write_all(&pattern(10)).await.expect("taken");
        aborted.flush().await.expect("sent");
        assert_eq!(count(&watched, "fs.chunks").await, 2);
        aborted.abort().await.expect("aborted");
        assert_eq!(count(&watched, "fs.chunks").await, 0);
        let again = aborted.abort().await.expect_err("it has ended");
        assert_eq!(gridfs_kind(again), GridFsErrorKind::UploadStreamClosed);
        assert!(aborted.close().await.is_err(), "nothing is stored");

        let mut dropped = files.open_upload_stream("dropped").await.expect("open");
        dropped.write_all(&pattern(10)).await.expect("taken");
        dropped.flush().await.expect("sent");
        drop(dropped);
        scene.pause(1_000).await;
        assert_eq!(count(&watched, "fs.chunks").await, 0);
        watched.end().await;
    });
}

/// The stream is dropped at every point of time while it sends chunks.
#[test]
fn an_upload_that_is_dropped_while_it_sends_leaves_nothing() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        files
            .upload_from_stream("other", &[][..])
            .await
            .expect("stored");
        for micros in (0..8_000).step_by(400) {
            let mut upload = files.open_upload_stream("dropped").await.expect("open");
            upload.write_all(&pattern(10)).await.expect("taken");
            let wait = Duration::from_micros(micros);
            scene.drop_after(wait, upload.flush()).await;
            drop(upload);
            scene.pause(1_000).await;
            assert_eq!(count(&watched, "fs.chunks").await, 0, "{micros}");
        }
        watched.end().await;
    });
}

async fn replace(watched: &Watched, id: i32, change: Document) {
    let files = stored(watched, "fs.files");
    let changed = files.update_one(doc! { "_id": id }, change).await;
    assert_eq!(changed.expect("changed").matched_count, 1);
}

#[test]
fn hostile_documents_are_errors() {
    play([standalone()], |scene: Scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        let chunks = stored(&watched, "fs.chunks");
        for change in [
            doc! { "length": -1_i64 },
            doc! { "length": i64::MAX },
            doc! { "length": 1e300 },
            doc! { "length": 11 },
            doc! { "chunkSize": 0 },
            doc! { "chunkSize": -4 },
            doc! { "chunkSize": i32::MAX },
            doc! { "uploadDate": "today" },
        ] {
            let bytes = pattern(10);
            let upload = files.upload_from_stream("f", &bytes[..]).id(Bson::Int32(1));
            upload.await.expect("stored");
            replace(&watched, 1, doc! { "$set": change.clone() }).await;
            let result = files.download_to_stream(Bson::Int32(1), Vec::new()).await;
            assert!(result.is_err(), "{change}");
            files.delete(Bson::Int32(1)).await.expect("deleted");
        }
        for (n, change) in [
            (2, doc! { "n": 3 }),
            (2, doc! { "n": -1 }),
            (0, doc! { "data": 1 }),
        ] {
            let bytes = pattern(10);
            let upload = files.upload_from_stream("f", &bytes[..]).id(Bson::Int32(1));
            upload.await.expect("stored");
            let changed = chunks
                .update_one(doc! { "n": n }, doc! { "$set": change })
                .await;
            assert_eq!(changed.expect("changed").matched_count, 1);
            let error = files
                .download_to_stream(Bson::Int32(1), Vec::new())
                .await
                .expect_err("it fails");
            let kind = gridfs_kind(error);
            assert!(
                matches!(
                    (n, &kind),
                    (2, GridFsErrorKind::MissingChunk { n: 2, .. })
                        | (2, GridFsErrorKind::ExtraChunk { n: -1, .. })
                        | (0, GridFsErrorKind::InvalidChunk { n: 0, .. })
                ),
                "{kind:?}"
            );
            files.delete(Bson::Int32(1)).await.expect("deleted");
        }
        // A chunk beyond the end is noticed behind the last byte.
        files
            .upload_from_stream("f", &pattern(8)[..])
            .id(Bson::Int32(1))
            .await
            .expect("stored");
        let extra = doc! { "files_id": 1, "n": 2, "data": "x".repeat(1_000_000) };
        chunks.insert_one(extra).await.expect("stored");
        let mut download = files
            .open_download_stream(Bson::Int32(1))
            .await
            .expect("found");
        let mut bytes = [0; 8];
        download.read_exact(&mut bytes).await.expect("all bytes");
        let error = download.read(&mut bytes).await.expect_err("one too many");
        assert!(matches!(
            kind(error),
            GridFsErrorKind::ExtraChunk { n: 2, .. }
        ));
        watched.end().await;
    });
}

#[test]
fn files_are_found_by_every_type_of_id_and_by_revision() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        let ids = [
            Bson::Int32(1),
            Bson::from("text"),
            Bson::Document(doc! { "a": [1, 2] }),
            Bson::DateTime(DateTime::from_millis(5)),
        ];
        for (place, id) in (0_u8..).zip(&ids) {
            let source = [place; 6];
            let upload = files.upload_from_stream("f", &source[..]).id(id.clone());
            assert_eq!(&upload.await.expect("stored"), id);
            let mut bytes = Vec::new();
            let count = files.download_to_stream(id.clone(), &mut bytes).await;
            assert_eq!((count.expect("read"), &*bytes), (6, &source[..]));
            scene.pause(10).await;
        }
        let missing = files.open_download_stream_by_name("f").revision(4).await;
        let kind = gridfs_kind(missing.expect_err("there are four"));
        assert!(matches!(
            kind,
            GridFsErrorKind::RevisionNotFound { revision: 4, .. }
        ));
        let missing = files.open_download_stream_by_name("g").revision(4).await;
        let kind = gridfs_kind(missing.expect_err("there is none"));
        assert!(matches!(kind, GridFsErrorKind::FileNotFound { .. }));
        files.rename_by_name("f", "g").await.expect("renamed");
        files.delete_by_name("g").await.expect("deleted");
        assert_eq!(count(&watched, "fs.chunks").await, 0);
        files.drop().await.expect("dropped");
        files.drop().await.expect("dropped before");
        watched.end().await;
    });
}

/// The time limit of a stream begins when it is opened.
#[test]
fn the_time_limit_of_a_stream_also_counts_while_nothing_is_written() {
    play([replica_set()], |scene| async move {
        let watched = scene.client("timeoutMS=60000");
        let files = bucket(&watched, 4);
        files
            .upload_from_stream("f", &pattern(9)[..])
            .id(Bson::Int32(1))
            .await
            .expect("stored");
        let limit = Duration::from_secs(1);
        let mut upload = files
            .open_upload_stream("g")
            .timeout(limit)
            .await
            .expect("open");
        upload.write_all(&pattern(9)).await.expect("taken");
        let open = files
            .open_download_stream(Bson::Int32(1))
            .timeout(limit)
            .await;
        let mut download = open.expect("found");
        scene.pause(1_500).await;
        let error = upload.close().await.expect_err("too late");
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        let error = download.read(&mut [0; 9]).await.expect_err("too late");
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        watched.end().await;
    });
}

/// A sink flushes its stream before each poll that closes it.
#[test]
fn a_flush_while_an_upload_closes_continues_the_close() {
    play([standalone()], |scene| async move {
        let watched = scene.client("");
        let files = bucket(&watched, 4);
        let mut upload = files.open_upload_stream("a").await.expect("a stream");
        upload.write_all(&pattern(9)).await.expect("taken");
        poll_fn(|context| {
            ready!(Pin::new(&mut upload).poll_flush(context))?;
            Pin::new(&mut upload).poll_close(context)
        })
        .await
        .expect("closed");
        assert_eq!(count(&watched, "fs.files").await, 1);
        assert_eq!(count(&watched, "fs.chunks").await, 3);
        drop((files, upload));
        watched.end().await;
    });
}
