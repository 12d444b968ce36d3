//! The operations of buckets.

use super::{Answer, Arguments, Done, Failure, answer, unknown};
use bson::{Binary, Bson, spec::BinarySubtype};
use onionskin::{
    GridFsBucket, Runtime,
    gridfs::{
        GridFsDownloadByNameOptions, GridFsDownloadOptions, GridFsFindOptions, GridFsUploadOptions,
        GridFsWriteOptions,
    },
};

pub(super) async fn operate<R: Runtime>(
    bucket: &GridFsBucket<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "upload" | "uploadWithId" => upload(bucket, arguments).await,
        "download" | "downloadByName" => download(bucket, name, arguments).await,
        "find" => {
            let filter = arguments.document("filter")?;
            let options = arguments.options::<GridFsFindOptions>()?;
            let found = bucket.find(filter).with_options(options).await?;
            answer(&found.into_vec().await?)
        }
        _ => write(bucket, name, arguments).await,
    }
}

async fn upload<R: Runtime>(bucket: &GridFsBucket<R>, mut arguments: Arguments<'_, R>) -> Done<R> {
    let (name, id) = (arguments.text("filename")?, arguments.take("id"));
    let source = arguments.document("source")?;
    let source = source.get_str("$$hexBytes");
    let source = bytes(source.map_err(|error| error.to_string())?)?;
    // The driver makes no MD5 sums, so that the option changes nothing.
    arguments.take("disableMD5");
    let options = arguments.options::<GridFsUploadOptions>()?;
    let mut upload = bucket.upload_from_stream(name, &*source);
    if let Some(id) = id {
        upload = upload.id(id);
    }
    if let Some(size) = options.chunk_size_bytes {
        upload = upload.chunk_size_bytes(size);
    }
    if let Some(metadata) = options.metadata {
        upload = upload.metadata(metadata);
    }
    if let Some(timeout) = options.timeout {
        upload = upload.timeout(timeout);
    }
    Ok(Answer::Value(upload.await?))
}

async fn download<R: Runtime>(
    bucket: &GridFsBucket<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let mut bytes = Vec::new();
    if name == "download" {
        let id = id(&mut arguments)?;
        let options = arguments.options::<GridFsDownloadOptions>()?;
        let mut download = bucket.download_to_stream(id, &mut bytes);
        if let Some(timeout) = options.timeout {
            download = download.timeout(timeout);
        }
        download.await?;
    } else {
        let filename = arguments.text("filename")?;
        let options = arguments.options::<GridFsDownloadByNameOptions>()?;
        let mut download = bucket.download_to_stream_by_name(filename, &mut bytes);
        if let Some(revision) = options.revision {
            download = download.revision(revision);
        }
        if let Some(timeout) = options.timeout {
            download = download.timeout(timeout);
        }
        download.await?;
    }
    let subtype = BinarySubtype::Generic;
    Ok(Answer::Value(Binary { subtype, bytes }.into()))
}

async fn write<R: Runtime>(
    bucket: &GridFsBucket<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "delete" => {
            let id = id(&mut arguments)?;
            let options = arguments.options::<GridFsWriteOptions>()?;
            bucket.delete(id).with_options(options).await?;
        }
        "deleteByName" => {
            let filename = arguments.text("filename")?;
            let options = arguments.options::<GridFsWriteOptions>()?;
            bucket
                .delete_by_name(filename)
                .with_options(options)
                .await?;
        }
        "rename" => {
            let (id, new_name) = (id(&mut arguments)?, arguments.text("newFilename")?);
            let options = arguments.options::<GridFsWriteOptions>()?;
            bucket.rename(id, new_name).with_options(options).await?;
        }
        "renameByName" => {
            let filename = arguments.text("filename")?;
            let new_name = arguments.text("newFilename")?;
            let options = arguments.options::<GridFsWriteOptions>()?;
            let rename = bucket.rename_by_name(filename, new_name);
            rename.with_options(options).await?;
        }
        "drop" => {
            let options = arguments.options::<GridFsWriteOptions>()?;
            bucket.drop().with_options(options).await?;
        }
        _ => return unknown("a bucket", name),
    }
    Ok(Answer::Nothing)
}

fn id<R: Runtime>(arguments: &mut Arguments<'_, R>) -> Result<Bson, Failure> {
    let id = arguments.take("id");
    Ok(id.ok_or_else(|| "there is no id".to_owned())?)
}

/// Returns the bytes that a text writes as hexadecimal digits.
fn bytes(hex: &str) -> Result<Vec<u8>, Failure> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok();
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    Ok(bytes.ok_or_else(|| format!("{hex} is not hexadecimal"))?)
}
