//! The options of the calls of a GridFS bucket.

use super::{ANY, MINUTE, Sent, is, sends};
use bson::doc;
use futures_util::AsyncWriteExt;
use onionskin_tokio::GridFsBucket;
use std::collections::BTreeSet;

pub(super) async fn calls(sent: &Sent, seen: &mut BTreeSet<String>, bucket: &GridFsBucket) {
    uploads(sent, seen, bucket).await;
    sends!(sent, seen, "find", GridFsFind: bucket.find(doc! {}), {
        allow_disk_use(true) => "allowDiskUse" = is(true);
        batch_size(3) => "batchSize" = is(3);
        limit(4) => "limit" = is(4_i64);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        no_cursor_timeout(true) => "noCursorTimeout" = is(true);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "length": -1 }) => "sort.length" = is(-1);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "find", GridFsFindOne: bucket.find_one(doc! {}), {
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "length": -1 }) => "sort.length" = is(-1);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "find", OpenDownloadStream: bucket.open_download_stream(1), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let by_name = || bucket.open_download_stream_by_name("a");
    sends!(sent, seen, "find", OpenDownloadStreamByName: by_name(), {
        // The oldest file.
        revision(0) => "sort.uploadDate" = is(1);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "delete", GridFsDelete: bucket.delete(1), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "update", GridFsRename: bucket.rename(1, "b"), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(sent, seen, "drop", GridFsDrop: bucket.drop(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

/// An upload sends nothing before bytes are written or the stream is closed.
async fn uploads(sent: &Sent, seen: &mut BTreeSet<String>, bucket: &GridFsBucket) {
    let upload = || bucket.open_upload_stream("a");
    let calls = [
        ("chunk_size_bytes", upload().chunk_size_bytes(5)),
        ("metadata", upload().metadata(doc! { "owner": "Ada" })),
        ("timeout", upload().timeout(MINUTE)),
    ];
    for (option, call) in calls {
        let mut stream = call.await.expect("open");
        stream.write_all(&[1; 9]).await.expect("taken");
        stream.close().await.expect("stored");
        // The last insert is that of the files collection document.
        let (path, expected) = match option {
            "chunk_size_bytes" => ("documents.0.chunkSize", is(5)),
            "metadata" => ("documents.0.metadata.owner", is("Ada")),
            _ => ("maxTimeMS", ANY),
        };
        let found = sent.path("insert", path);
        assert!(found.is_some(), "{option}");
        assert!(
            expected.is_none() || found == expected,
            "{option}: {found:?}"
        );
        seen.insert(format!("OpenUploadStream::{option}"));
    }
}
