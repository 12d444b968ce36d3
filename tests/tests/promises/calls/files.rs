//! The options of the calls of a GridFS bucket.

use super::{ANY, Calls, MINUTE, is, sends};
use bson::{Bson, doc};
use futures_util::AsyncWriteExt;
use onionskin::{
    Error, Runtime,
    gridfs::{GridFsBucket, OpenUploadStream},
};

pub(super) async fn calls<R: Runtime>(calls: &mut Calls<R>) {
    let bucket = calls.database.gridfs_bucket(None);
    let upload = || bucket.open_upload_stream("a");
    // An upload sends nothing before bytes are written or the stream is closed. The last insert is
    // that of the files collection document.
    sends!(calls, "insert", OpenUploadStream: upload(), with finished, {
        chunk_size_bytes(5) => "documents.0.chunkSize" = is(5);
        metadata(doc! { "owner": "Ada" }) => "documents.0.metadata.owner" = is("Ada");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    store(&bucket).await;
    sends!(calls, "find", GridFsFind: bucket.find(doc! {}), {
        allow_disk_use(true) => "allowDiskUse" = is(true);
        batch_size(3) => "batchSize" = is(3);
        limit(4) => "limit" = is(4_i64);
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        no_cursor_timeout(true) => "noCursorTimeout" = is(true);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "length": -1 }) => "sort.length" = is(-1);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "find", GridFsFindOne: bucket.find_one(doc! {}), {
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        skip(2) => "skip" = is(2_i64);
        sort(doc! { "length": -1 }) => "sort.length" = is(-1);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "find", OpenDownloadStream: bucket.open_download_stream(Bson::Int32(1)), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let by_name = || bucket.open_download_stream_by_name("a");
    sends!(calls, "find", OpenDownloadStreamByName: by_name(), {
        // The oldest file.
        revision(0) => "sort.uploadDate" = is(1);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "update", GridFsRename: bucket.rename(Bson::Int32(1), "b"), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "delete", GridFsDelete: bucket.delete(Bson::Int32(1)), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "drop", GridFsDrop: bucket.drop(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

/// Stores the file 1.
async fn store<R: Runtime>(bucket: &GridFsBucket<R>) {
    let upload = bucket.open_upload_stream("a").id(Bson::Int32(1));
    finished(upload).await.expect("stored");
}

async fn finished<R: Runtime>(upload: OpenUploadStream<'_, R>) -> Result<(), Error> {
    let mut stream = upload.await?;
    stream.write_all(&[1; 9]).await.expect("taken");
    Ok(stream.close().await?)
}
