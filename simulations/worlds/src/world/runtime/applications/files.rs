//! Files in GridFS.

use super::{Application, Left, SimRuntime};
use crate::world::{report::FailureKind, workload::DATABASE};
use bson::{Bson, Document};
use onionskin::{
    gridfs::{GridFsBucket, GridFsBucketOptions},
    options::WriteConcern,
};
use onionskin_core::error::{Error, ErrorKind, GridFsErrorKind};
use std::{collections::BTreeMap, future::IntoFuture as _, time::Duration};

/// The size of the chunks, in bytes. Long files have more chunks than the first batch of a cursor.
const CHUNK: u32 = 16;

/// The bound of the size of a file, in bytes.
const SIZE: u64 = 3_000;

/// The number of times that an upload after healing is tried. A broken idle connection is noticed
/// only when it is used, and the write of a chunk is retried once.
const TRIES: u32 = 4;

/// The files that were stored.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The sizes of all files whose upload has begun.
    begun: BTreeMap<i64, usize>,
    /// The files whose upload has succeeded: their `_id`s and sizes.
    stored: BTreeMap<i64, usize>,
}

/// Returns the bytes of a file.
fn bytes(id: i64, size: usize) -> Vec<u8> {
    let byte = |at: usize| (id as usize).wrapping_mul(31).wrapping_add(at * 7) as u8;
    (0..size).map(byte).collect()
}

impl Files {
    /// Returns the number of stored files.
    pub(super) fn stored(&self) -> usize {
        self.stored.len()
    }

    /// Checks that the files are in the data as a whole.
    pub(super) fn check(&self, documents: impl Fn(&str) -> Vec<Document>) -> Result<(), String> {
        let files = documents("fs.files");
        let mut chunks: BTreeMap<(i64, i32), Vec<u8>> = BTreeMap::new();
        for chunk in documents("fs.chunks") {
            if let (Ok(file), Ok(n), Ok(data)) = (
                chunk.get_i64("files_id"),
                chunk.get_i32("n"),
                chunk.get_binary_generic("data"),
            ) {
                let first = chunks.insert((file, n), data.clone());
                if first.is_some() {
                    return Err(format!("the chunk {n} of the file {file} was stored twice"));
                }
            }
        }
        let known = files.iter().map(|file| file.get_i64("_id").unwrap_or(-1));
        for id in known.chain(self.stored.keys().copied()) {
            let file = files
                .iter()
                .find(|file| file.get_i64("_id").ok() == Some(id));
            let length = file.and_then(|file| file.get_i64("length").ok());
            let of_it = chunks.range((id, 0)..(id + 1, 0));
            let found: Vec<u8> = of_it.flat_map(|(_, data)| data.clone()).collect();
            let size = self.begun.get(&id).copied().unwrap_or_default();
            if length != Some(size as i64) || found != bytes(id, size) {
                return Err(format!(
                    "the file {id} of {size} bytes was stored as {file:?} with {} bytes",
                    found.len()
                ));
            }
        }
        Ok(())
    }
}

impl Application {
    pub(super) async fn keep_files(mut self) {
        let options = GridFsBucketOptions::builder()
            .chunk_size_bytes(CHUNK)
            .write_concern(WriteConcern::majority())
            .build();
        let bucket = self.client.database(DATABASE).gridfs_bucket(options);
        while let Some(is_late) = self.next_step().await {
            let limit = self.limit(is_late);
            let draw = self.random.below(1 << 32);
            let stored = {
                let state = self.runtime.shared.lock();
                let stored = &state.applications.files.stored;
                let place = draw as usize / 2 % stored.len().max(1);
                stored.iter().nth(place).map(|(id, size)| (*id, *size))
            };
            let goes_on = match stored {
                Some((id, size)) if draw.is_multiple_of(2) => {
                    self.download(&bucket, id, size, limit, is_late).await
                }
                _ => self.upload(&bucket, limit, is_late).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Stores a new file. Returns false if the client was closed.
    async fn upload(
        &mut self,
        bucket: &GridFsBucket<SimRuntime>,
        limit: Duration,
        is_late: bool,
    ) -> bool {
        let size = self.random.below(SIZE) as usize;
        for left in (0..if is_late { TRIES } else { 1 }).rev() {
            let id = {
                let mut state = self.runtime.shared.lock();
                let begun = &mut state.applications.files.begun;
                let id = begun.len() as i64;
                begun.insert(id, size);
                id
            };
            let content = bytes(id, size);
            let upload = async {
                let upload = bucket.upload_from_stream(format!("file {id}"), content.as_slice());
                upload.id(Bson::Int64(id)).timeout(limit).await.map(drop)
            };
            match self.attempt("an upload", limit, is_late, upload).await {
                Ok(()) => {
                    let mut state = self.runtime.shared.lock();
                    state.applications.files.stored.insert(id, size);
                    return true;
                }
                Err(Left::Failed(error)) if is_late && left > 0 && error.is_network() => {}
                Err(left) => return self.goes_on(&left, is_late),
            }
        }
        true
    }

    /// Reads a stored file. Returns false if the client was closed.
    async fn download(
        &mut self,
        bucket: &GridFsBucket<SimRuntime>,
        id: i64,
        size: usize,
        limit: Duration,
        is_late: bool,
    ) -> bool {
        let mut found = Vec::new();
        let download = bucket.download_to_stream(Bson::Int64(id), &mut found);
        let download = download.timeout(limit).into_future();
        match self.attempt("a download", limit, is_late, download).await {
            Ok(_) if found == bytes(id, size) => true,
            Ok(_) => {
                let details = format!("the file {id} of {size} bytes as {}", found.len());
                self.fail(
                    FailureKind::Correctness,
                    "a file was read wrongly",
                    &details,
                );
                true
            }
            Err(Left::Failed(error)) if !is_late && is_missing(&error) => true,
            Err(Left::Failed(error)) if matches!(error.kind(), ErrorKind::GridFs(_)) => {
                let details = format!("the file {id}: {error}");
                self.fail(
                    FailureKind::Correctness,
                    "a stored file was not read",
                    &details,
                );
                true
            }
            Err(left) => self.goes_on(&left, is_late),
        }
    }
}

/// True if there is no such file: a member that was the primary can lack it.
fn is_missing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. })
    )
}
