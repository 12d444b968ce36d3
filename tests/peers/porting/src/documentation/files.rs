//! Files in a bucket of GridFS.

use super::*;
use crate::driver::{
    error::{GridFsErrorKind, GridFsFileIdentifier},
    gridfs::{FilesCollectionDocument, GridFsBucket, GridFsDownloadStream, GridFsUploadStream},
    options::GridFsBucketOptions,
};
use futures::io::{AsyncReadExt, AsyncWriteExt};

async fn text_of(mut download: GridFsDownloadStream) -> Result<String> {
    let mut text = String::new();
    download.read_to_string(&mut text).await?;
    Ok(text)
}

fn describe_file(file: &FilesCollectionDocument) -> String {
    format!(
        "{:?} {} {} {:?}",
        file.filename, file.length, file.chunk_size_bytes, file.metadata
    )
}

pub(super) async fn files(db: &Database) -> Result<()> {
    let options = GridFsBucketOptions::builder()
        .bucket_name("texts".to_string())
        .chunk_size_bytes(4)
        .write_concern(WriteConcern::majority())
        .build();
    let bucket = db.gridfs_bucket(options);
    println!("{:?}", bucket.write_concern());
    let mut upload: GridFsUploadStream = bucket
        .open_upload_stream("sun.txt")
        .metadata(doc! { "language": "en" })
        .await?;
    upload.write_all(b"it shines").await?;
    upload.close().await?;
    let id: Bson = upload.id().clone();
    println!("{}", id.as_object_id().is_some());
    let mut upload = bucket
        .open_upload_stream("moon.txt")
        .id(Bson::String("moon".to_string()))
        .chunk_size_bytes(16)
        .await?;
    upload.write_all(b"it shines ").await?;
    upload.write_all(b"too").await?;
    upload.close().await?;
    drop(upload);

    let moon = Bson::String("moon".to_string());
    println!(
        "{}",
        text_of(bucket.open_download_stream(id.clone()).await?).await?
    );
    println!(
        "{}",
        text_of(bucket.open_download_stream(moon.clone()).await?).await?
    );
    let newest = bucket.open_download_stream_by_name("sun.txt").revision(-1);
    println!("{}", text_of(newest.await?).await?);
    list_files(&bucket).await?;
    bucket.rename(moon.clone(), "satellite.txt").await?;
    let renamed = bucket.find_one(doc! { "_id": moon.clone() }).await?;
    println!("{:?}", renamed.and_then(|file| file.filename));
    bucket.delete(id.clone()).await?;
    print_missing(bucket.delete(id).await);
    print_missing(bucket.rename(Bson::Int32(5), "five.txt").await);
    let unknown = bucket.open_download_stream_by_name("unknown.txt").await;
    print_missing(unknown.map(drop));

    let mut upload = bucket.open_upload_stream("aborted.txt").await?;
    upload.write_all(b"never stored").await?;
    upload.abort().await?;
    drop(upload);
    list_files(&bucket).await?;
    bucket.drop().await
}

async fn list_files(bucket: &GridFsBucket) -> Result<()> {
    let mut files = bucket.find(doc! {}).sort(doc! { "filename": 1 }).await?;
    while let Some(file) = files.try_next().await? {
        println!("{}", describe_file(&file));
    }
    Ok(())
}

fn print_missing(result: Result<()>) {
    match result.map_err(|error| *error.kind) {
        Ok(()) => println!("no error"),
        Err(ErrorKind::GridFs(GridFsErrorKind::FileNotFound { identifier, .. })) => {
            match identifier {
                GridFsFileIdentifier::Id(Bson::ObjectId(_)) => println!("no file with this id"),
                GridFsFileIdentifier::Id(id) => println!("no file {id}"),
                GridFsFileIdentifier::Filename(name) => println!("no file of the name {name}"),
                _ => println!("no file"),
            }
        }
        Err(other) => println!("{other:?}"),
    }
}
