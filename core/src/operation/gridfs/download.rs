//! The program of a download.

use super::{Bucket, FilesCollectionDocument, StreamLimit, equal, layout::Layout, not_found};
use crate::{
    error::{Error, GridFsErrorKind, GridFsFileIdentifier},
    operation::{
        Abandoned, Command, Cursor, Exchange, Program, Step,
        crud::{self, FindOneOptions, FindOptions, decode_first},
    },
};
use bson::{Bson, Document, doc};
use std::ops::Range;

/// The file that is downloaded.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// The file with this id.
    Id(Bson),
    /// A revision of the files with this name.
    Revision(String, i32),
}

/// The program of a download. The first run reads the files collection document. Each further run
/// fetches chunks until there are bytes to [`read`](Self::read) (`true`), or until the end of the
/// file (`false`).
///
/// Each chunk is checked before its bytes are read: its index and the size of its data, and at the
/// end whether all chunks were there and no more. After an error the download stays failed.
#[derive(Debug)]
pub struct Download {
    bucket: Bucket,
    limit: StreamLimit,
    wanted: Wanted,
    /// The file; `None` until it was found.
    file: Option<FilesCollectionDocument>,
    layout: Layout,
    /// The cursor of the chunks; `None` until it is opened. It stands at the current chunk.
    cursor: Option<Cursor>,
    /// The number of chunks that were checked, of which the last is the current one.
    checked: u64,
    /// The place of the bytes of the current chunk that were not read, in its document.
    unread: Range<usize>,
    stage: Stage,
}

/// The state of the download.
#[derive(Debug)]
enum Stage {
    /// The files collection document is looked for.
    Finding,
    /// The name is known to have no such revision; the question is whether it has another.
    Looking,
    Reading,
    Ended,
    Failed(Error),
}

impl Download {
    /// Returns the download of a file.
    #[must_use]
    pub fn new(bucket: Bucket, wanted: Wanted, limit: StreamLimit) -> Self {
        Self {
            bucket,
            limit,
            wanted,
            file: None,
            layout: Layout::default(),
            cursor: None,
            checked: 0,
            unread: 0..0,
            stage: Stage::Finding,
        }
    }

    /// Returns the files collection document; `None` before it was found.
    #[must_use]
    pub const fn file(&self) -> Option<&FilesCollectionDocument> {
        self.file.as_ref()
    }

    /// Returns the bytes of the current chunk that were not read yet.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let cursor = self.cursor.as_ref();
        let cursor = cursor.filter(|_| matches!(self.stage, Stage::Reading));
        let chunk = cursor.map(Cursor::current_bytes).unwrap_or_default();
        chunk.get(self.unread.clone()).unwrap_or_default()
    }

    /// Copies bytes of the current chunk to `target`, and returns their number. Zero means that the
    /// program has to run, or that the file is at its end.
    pub fn read(&mut self, target: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let count = bytes.len().min(target.len());
        target[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        count
    }

    /// Marks this many bytes of the current chunk as read.
    pub fn consume(&mut self, count: usize) {
        self.unread.start = self.unread.start.saturating_add(count).min(self.unread.end);
    }

    /// Forgets the cursor without closing it, because it belongs to the parent of a forked process.
    /// The download fails with this error.
    pub fn leave(&mut self, error: Error) {
        self.cursor = None;
        self.stage = Stage::Failed(error);
    }

    fn fail(&mut self, error: Error) -> Step<bool> {
        self.stage = Stage::Failed(error.clone());
        Step::Done(Err(error))
    }

    fn run(&mut self, command: Result<Command, Error>) -> Step<bool> {
        match command {
            Ok(mut command) => {
                self.limit.apply(&mut command);
                Step::Run(command)
            }
            Err(error) => self.fail(error),
        }
    }

    /// Returns the command that reads the files collection document.
    fn find_file(&self) -> Result<Command, Error> {
        self.bucket.check()?;
        let (filter, options) = match &self.wanted {
            Wanted::Id(id) => (equal("_id", id), FindOneOptions::default()),
            Wanted::Revision(name, revision) => (doc! { "filename": name }, of(*revision)),
        };
        self.find_one(&filter, &options)
    }

    /// Returns the command that reads whether there is any file with the name.
    fn find_name(&self, name: &str) -> Result<Command, Error> {
        let options = FindOneOptions::builder().projection(doc! { "_id": 1 });
        self.find_one(&doc! { "filename": name }, &options.build())
    }

    fn find_one(&self, filter: &Document, options: &FindOneOptions) -> Result<Command, Error> {
        let (files, defaults) = (&self.bucket.files, &self.bucket.defaults);
        crud::find_one(files, filter, options, defaults)
    }

    fn find_chunks(&self, file: &FilesCollectionDocument) -> Result<Command, Error> {
        let (chunks, defaults) = (&self.bucket.chunks, &self.bucket.defaults);
        let options = FindOptions::builder().sort(doc! { "n": 1 }).build();
        crud::find(chunks, &equal("files_id", &file.id), &options, defaults)
    }

    /// Handles the reply with the files collection document.
    fn on_file(&mut self, exchange: &Exchange) -> Step<bool> {
        let Some(reply) = exchange.reply() else {
            return self.fail(Error::protocol("the find has no reply"));
        };
        let file = match decode_first::<FilesCollectionDocument>(reply) {
            Ok(file) => file,
            Err(error) => return self.fail(error),
        };
        match (file, &self.wanted) {
            (Some(file), _) => match Layout::new(&file) {
                Ok(layout) => {
                    self.layout = layout;
                    self.file = Some(file);
                    self.stage = Stage::Reading;
                    Step::Done(Ok(layout.chunks() > 0))
                }
                Err(error) => self.fail(error),
            },
            (None, Wanted::Id(id)) => {
                let error = not_found(GridFsFileIdentifier::Id(id.clone()));
                self.fail(error)
            }
            // The newest and the oldest file are missing only if there is none at all.
            (None, Wanted::Revision(name, 0 | -1)) => {
                let error = not_found(GridFsFileIdentifier::Filename(name.clone()));
                self.fail(error)
            }
            (None, Wanted::Revision(name, _)) => {
                let command = self.find_name(name);
                self.stage = Stage::Looking;
                self.run(command)
            }
        }
    }

    /// Handles the reply that says whether a name without the wanted revision has another one.
    fn on_name(&mut self, exchange: &Exchange) -> Step<bool> {
        let found = exchange.reply().map(crud::first_document).transpose();
        let error = match (found, &self.wanted) {
            (Err(error), _) => error,
            (Ok(Some(Some(_))), Wanted::Revision(_, revision)) => {
                let revision = *revision;
                Error::gridfs(GridFsErrorKind::RevisionNotFound { revision })
            }
            (_, Wanted::Revision(name, _)) => {
                not_found(GridFsFileIdentifier::Filename(name.clone()))
            }
            (_, Wanted::Id(id)) => not_found(GridFsFileIdentifier::Id(id.clone())),
        };
        self.fail(error)
    }

    /// Moves to the next bytes, or returns the command that fetches them.
    fn advance(&mut self) -> Step<bool> {
        loop {
            if !self.bytes().is_empty() {
                return Step::Done(Ok(true));
            }
            let Some(cursor) = &mut self.cursor else {
                // The chunks of an empty file are not read (*File Download*).
                return match &self.file {
                    Some(file) if self.layout.chunks() > 0 => {
                        let command = self.find_chunks(file);
                        self.run(command)
                    }
                    _ => self.end(),
                };
            };
            if let Some(next) = cursor.advance() {
                let checked = next.and_then(|()| match cursor.current() {
                    Some(chunk) => self.layout.check(self.checked, chunk),
                    None => Err(Error::protocol("a chunk is no document")),
                });
                match checked {
                    Ok(unread) => self.unread = unread,
                    Err(error) => return self.fail(error),
                }
                self.checked += 1;
                continue;
            }
            match cursor.start() {
                Step::Run(command) => return Step::Run(command),
                Step::Done(Err(error)) => return self.fail(error),
                Step::Done(Ok(true)) => {}
                _ => {
                    return match self.layout.check_end(self.checked) {
                        Ok(()) => self.end(),
                        Err(error) => self.fail(error),
                    };
                }
            }
        }
    }

    fn end(&mut self) -> Step<bool> {
        self.stage = Stage::Ended;
        Step::Done(Ok(false))
    }
}

/// Returns the options that find a revision: 0 is the oldest file of a name, and -1 the newest
/// (*File Download by Filename*).
fn of(revision: i32) -> FindOneOptions {
    let (order, skip) = match revision {
        0.. => (1, revision.unsigned_abs()),
        // `-revision - 1`, which cannot overflow this way.
        _ => (-1, (revision + 1).unsigned_abs()),
    };
    let options = FindOneOptions::builder().sort(doc! { "uploadDate": order });
    match skip {
        0 => options.build(),
        skip => options.skip(u64::from(skip)).build(),
    }
}

impl Program for Download {
    /// True if there are bytes to read; false at the end of the file.
    type Output = bool;

    fn start(&mut self) -> Step<bool> {
        match &self.stage {
            Stage::Finding | Stage::Looking => {
                self.stage = Stage::Finding;
                let command = self.find_file();
                self.run(command)
            }
            Stage::Reading => self.advance(),
            Stage::Ended => Step::Done(Ok(false)),
            Stage::Failed(error) => Step::Done(Err(error.clone())),
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<bool> {
        match (&self.stage, &mut self.cursor) {
            (Stage::Finding, _) => self.on_file(exchange),
            (Stage::Looking, _) => self.on_name(exchange),
            (_, Some(cursor)) => match cursor.handle_reply(exchange) {
                Step::Run(command) => Step::Run(command),
                Step::Done(Err(error)) => self.fail(error),
                _ => self.advance(),
            },
            (_, None) => {
                let database = self.bucket.chunks.shared_database().clone();
                match Cursor::from_exchange(exchange, database) {
                    Ok(cursor) => {
                        self.cursor = Some(cursor);
                        self.advance()
                    }
                    Err(error) => self.fail(error),
                }
            }
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<bool> {
        if let Some(cursor) = &mut self.cursor {
            cursor.handle_failure(&error);
        }
        self.fail(error)
    }

    fn abandon(&mut self) -> Abandoned {
        let cursor = self.cursor.as_mut();
        cursor.map_or(Abandoned::Nothing, Cursor::abandon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_count_from_both_ends() {
        for (revision, order, skip) in [
            (0, 1, None),
            (2, 1, Some(2)),
            (i32::MAX, 1, Some(2_147_483_647)),
            (-1, -1, None),
            (-3, -1, Some(2)),
            (i32::MIN, -1, Some(2_147_483_647)),
        ] {
            let options = of(revision);
            assert_eq!(
                options.sort,
                Some(doc! { "uploadDate": order }),
                "{revision}"
            );
            assert_eq!(options.skip, skip, "{revision}");
        }
    }
}
