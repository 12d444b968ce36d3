//! The program of an upload.

use super::{
    Bucket, FilesCollectionDocument, GridFsUploadOptions, StreamLimit,
    buffer::{ChunkBuffer, MAX_CHUNK_BYTES},
    equal,
    indexes::IndexSetup,
};
use crate::{
    error::{Error, ErrorKind, GridFsErrorKind},
    operation::{
        ABANDON_LIMIT, Abandoned, Command, CommandKind, DocumentList, Exchange, Portion, Program,
        Step,
        crud::{self, InsertOneOptions},
    },
    options::WriteConcern,
};
use bson::{Bson, DateTime, RawDocument, doc, oid::ObjectId};
use std::fmt;

/// The program of an upload, which lasts as long as its stream.
///
/// The holder appends bytes with [`write`](Self::write) while the program waits for input. If the
/// upload [is full](Self::is_full), the holder gives the input [`send`](Self::send), and at the end
/// [`finish`](Self::finish) or [`abort`](Self::abort). The program then inserts the chunks with as
/// few commands as the limits of the server allow. So the memory of an upload is bounded by
/// [`MAX_BATCH_BYTES`](super::MAX_BATCH_BYTES). An upload without acknowledgment keeps the ids of
/// all its chunks as well, because it does not know which of them are stored.
///
/// If the program is given up before its end, the chunks that it has sent are deleted in the
/// background. After an error they stay (GridFS Specification, *Operation Failure*).
pub struct Upload {
    bucket: Bucket,
    limit: StreamLimit,
    /// The document of the file. Its length is the number of bytes that were written so far. Its
    /// upload date is set at the end.
    file: FilesCollectionDocument,
    buffer: ChunkBuffer,
    /// The chunk documents that are being sent, and how many bytes of them are stored.
    sending: DocumentList,
    stored_bytes: usize,
    portion: Portion,
    stored: Stored,
    /// The ids of the chunk documents of earlier lists, none of which is known to be stored.
    unconfirmed: Vec<Bson>,
    has_indexes: bool,
    goal: Goal,
    stage: Stage,
}

/// The input that the program follows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    /// All complete chunks are to be stored.
    Send,
    /// All chunks and the files collection document, with this upload date, are to be stored.
    Finish(DateTime),
    /// The chunks that were sent are to be deleted.
    Abort,
    /// No further command is to run, because the stream was dropped.
    Stop,
}

/// The knowledge about the chunks that the server has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// There are none.
    Nothing,
    /// There can be those that were sent, but no command is known to have succeeded. Other chunks
    /// with the id of this file can belong to another file.
    Perhaps,
    /// The server has stored some, so no other file has this id.
    Some,
}

/// The command that runs.
#[derive(Debug)]
enum Stage {
    /// No command runs.
    Waiting,
    Indexes(Box<IndexSetup>),
    Chunks,
    File,
    Deleting,
    /// The upload has ended, or has failed.
    Over,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("id", &self.file.id)
            .field("length", &self.file.length)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl Upload {
    /// Returns the upload of a file. `has_indexes` is true if the indexes of the bucket were
    /// checked before.
    ///
    /// Fails if the chunk size is zero or larger than [`MAX_CHUNK_BYTES`], if a name of the bucket
    /// cannot be used, or if the id or the metadata cannot be encoded.
    pub fn new(
        bucket: Bucket,
        id: Bson,
        filename: String,
        options: GridFsUploadOptions,
        limit: StreamLimit,
        has_indexes: bool,
    ) -> Result<Self, Error> {
        bucket.check()?;
        let chunk_bytes = options.chunk_size_bytes.unwrap_or(bucket.chunk_bytes);
        if chunk_bytes == 0 || chunk_bytes > MAX_CHUNK_BYTES {
            let message = format!("it is {chunk_bytes}, but must be from 1 to {MAX_CHUNK_BYTES}");
            return Err(Error::invalid_option("chunkSizeBytes", message));
        }
        let buffer = ChunkBuffer::new(&id, chunk_bytes)?;
        let file = FilesCollectionDocument {
            id,
            length: 0,
            chunk_size_bytes: chunk_bytes,
            upload_date: DateTime::from_millis(0),
            filename: Some(filename),
            metadata: options.metadata,
        };
        // A document that cannot be encoded is refused before any chunk is stored.
        onionskin_bson::serialize_to_vec(&file)?;
        Ok(Self {
            buffer,
            bucket,
            limit,
            file,
            sending: DocumentList::default(),
            stored_bytes: 0,
            portion: Portion::default(),
            stored: Stored::Nothing,
            unconfirmed: Vec::new(),
            has_indexes,
            goal: Goal::Send,
            stage: Stage::Waiting,
        })
    }

    /// Returns the id of the file.
    #[must_use]
    pub const fn id(&self) -> &Bson {
        &self.file.id
    }

    /// True once the indexes of the bucket were checked.
    #[must_use]
    pub const fn has_indexes(&self) -> bool {
        self.has_indexes
    }

    /// Leaves the check of the indexes out, because another upload has made it.
    pub const fn skip_indexes(&mut self) {
        self.has_indexes = true;
    }

    /// True if no more bytes can be written before the chunks are sent.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.buffer.is_full()
    }

    /// True if there are complete chunks to send.
    #[must_use]
    pub fn has_chunks(&self) -> bool {
        self.buffer.has_complete()
    }

    /// True if the files collection document is being stored.
    #[must_use]
    pub const fn is_finishing(&self) -> bool {
        matches!(self.stage, Stage::File)
    }

    /// Appends bytes until the upload is full, and returns their number. `new_id` makes the ids of
    /// chunk documents. Fails if the file would have too many chunks.
    pub fn write(
        &mut self,
        bytes: &[u8],
        mut new_id: impl FnMut() -> ObjectId,
    ) -> Result<usize, Error> {
        let count = self.buffer.write(bytes, &mut new_id)?;
        self.file.length = self.file.length.saturating_add(count as u64);
        Ok(count)
    }

    /// The input after which the program stores all complete chunks and waits again.
    pub const fn send(&mut self) {
        self.goal = Goal::Send;
    }

    /// The input after which the program stores the rest of the file and ends. `now` is the upload
    /// date.
    pub fn finish(&mut self, now: DateTime) {
        self.buffer.end_chunk();
        self.goal = Goal::Finish(now);
    }

    /// The input after which the program deletes what it has stored and ends.
    pub fn abort(&mut self) {
        self.buffer.clear();
        self.goal = Goal::Abort;
    }

    /// True after the input [`abort`](Self::abort).
    #[must_use]
    pub fn is_aborting(&self) -> bool {
        self.goal == Goal::Abort
    }

    /// Makes the program wait for input after the command that runs, also after its error, unless
    /// it stores the files collection document. The chunks are deleted after the input
    /// [`abort`](Self::abort), or when the program is [given up](Program::abandon).
    pub fn stop(&mut self) {
        self.buffer.clear();
        self.goal = Goal::Stop;
    }

    /// Ends the upload without a command, because it belongs to the parent of a forked process.
    pub fn leave(&mut self) {
        drop(self.end(Ok(())));
    }

    /// Returns the next step of the current goal.
    fn next_step(&mut self) -> Step<()> {
        if let (Goal::Abort, Stage::Indexes(_)) = (self.goal, &self.stage) {
            // Nothing is stored yet. `abandon` closes the cursor that the check can have.
            return Step::Done(Ok(()));
        }
        self.stage = Stage::Waiting;
        let goal = self.goal;
        let command = match goal {
            Goal::Stop => return Step::Wait,
            Goal::Abort if self.stored == Stored::Nothing => return self.end(Ok(())),
            Goal::Abort => {
                self.stage = Stage::Deleting;
                self.delete_chunks()
            }
            Goal::Send | Goal::Finish(_) if !self.has_indexes => {
                let setup = IndexSetup::begin(&self.bucket);
                setup.map(|(setup, command)| {
                    self.stage = Stage::Indexes(Box::new(setup));
                    command
                })
            }
            Goal::Send | Goal::Finish(_) if self.has_more_to_send() => {
                self.stage = Stage::Chunks;
                self.insert_chunks()
            }
            Goal::Send => return Step::Wait,
            Goal::Finish(now) => {
                self.stage = Stage::File;
                self.insert_file(now)
            }
        };
        self.run(command)
    }

    /// Returns the step of a command, which has the time limit of the stream.
    fn run(&mut self, command: Result<Command, Error>) -> Step<()> {
        match command {
            Ok(mut command) => {
                self.limit.apply(&mut command);
                Step::Run(command)
            }
            Err(error) => self.end(Err(error)),
        }
    }

    fn end(&mut self, result: Result<(), Error>) -> Step<()> {
        self.stage = Stage::Over;
        self.buffer.clear();
        self.sending = DocumentList::default();
        Step::Done(result)
    }

    /// Continues after a command of the index check: with its next command, or after its end. A
    /// failed or stopped check keeps its stage, because [`abandon`](Program::abandon) closes the
    /// cursor that it can have.
    fn after_indexes(&mut self, next: Result<Option<Command>, Error>) -> Step<()> {
        match next {
            _ if self.goal == Goal::Stop => Step::Wait,
            Ok(Some(command)) => self.run(Ok(command)),
            Ok(None) => {
                self.has_indexes = true;
                self.next_step()
            }
            Err(error) => Step::Done(Err(error)),
        }
    }

    /// True if there are chunks to store. Takes the next ones out of the buffer.
    fn has_more_to_send(&mut self) -> bool {
        if self.stored_bytes >= self.sending.size_bytes() {
            self.stored_bytes = 0;
            if self.stored == Stored::Perhaps {
                let mut ids = std::mem::take(&mut self.unconfirmed);
                self.add_ids_of_sending(&mut ids);
                self.unconfirmed = ids;
            }
            self.sending = DocumentList::new(self.buffer.take_complete());
        }
        self.stored_bytes < self.sending.size_bytes()
    }

    fn insert_chunks(&mut self) -> Result<Command, Error> {
        let namespace = &self.bucket.chunks;
        let kind = CommandKind::RetryableWrite;
        let mut command = Command::new("insert", namespace.database.clone(), kind);
        command
            .body()
            .str("insert", &namespace.collection)
            .bool("ordered", true);
        let defaults = &self.bucket.defaults;
        defaults.apply_to_statements(&mut command, None)?;
        command.set_batch("documents", self.sending.clone(), self.stored_bytes);
        self.portion = Portion::default();
        if self.stored == Stored::Nothing {
            self.stored = Stored::Perhaps;
        }
        Ok(command)
    }

    fn insert_file(&mut self, now: DateTime) -> Result<Command, Error> {
        self.file.upload_date = now;
        let bytes = onionskin_bson::serialize_to_vec(&self.file)?;
        let (files, options) = (&self.bucket.files, InsertOneOptions::default());
        crud::insert(files, bytes, &options, &self.bucket.defaults)
    }

    fn delete_chunks(&self) -> Result<Command, Error> {
        let mut filter = equal("files_id", &self.file.id);
        if self.stored == Stored::Perhaps {
            let mut ids = self.unconfirmed.clone();
            self.add_ids_of_sending(&mut ids);
            filter.insert("_id", doc! { "$in": ids });
        }
        self.bucket.delete_chunks(&filter)
    }

    /// Adds the ids of the chunk documents that are being sent.
    fn add_ids_of_sending(&self, ids: &mut Vec<Bson>) {
        let mut rest = self.sending.as_bytes();
        while let Some((length, _)) = rest.split_first_chunk()
            && let Ok(length) = usize::try_from(i32::from_le_bytes(*length))
            && let Some((chunk, others)) = rest.split_at_checked(length)
            && let Ok(chunk) = RawDocument::from_bytes(chunk)
        {
            ids.extend(chunk.get_object_id("_id").map(Bson::from));
            rest = others;
        }
    }
}

/// The program waits for input at its start. Its result comes after the input
/// [`finish`](Upload::finish) or [`abort`](Upload::abort), or is the first error.
impl Program for Upload {
    type Output = ();

    fn start(&mut self) -> Step<()> {
        Step::Wait
    }

    fn handle_input(&mut self) -> Step<()> {
        self.next_step()
    }

    fn handle_begun(&mut self, exchange: &mut Exchange) {
        self.portion = exchange.portion().unwrap_or_default();
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<()> {
        match &mut self.stage {
            Stage::Indexes(setup) => {
                let next = setup.handle_reply(&self.bucket, exchange);
                self.after_indexes(next)
            }
            Stage::Chunks => {
                // An unacknowledged insert can have failed.
                let concern = self.bucket.defaults.write_concern.as_ref();
                if concern.is_none_or(WriteConcern::is_acknowledged) {
                    self.stored = Stored::Some;
                }
                self.stored_bytes += self.portion.bytes;
                self.next_step()
            }
            Stage::File | Stage::Deleting => self.end(Ok(())),
            Stage::Waiting | Stage::Over => Step::Wait,
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<()> {
        if let (Stage::Chunks, ErrorKind::InsertMany(all)) = (&self.stage, error.kind()) {
            if all.written > 0 {
                self.stored = Stored::Some;
            } else if !all.errors().is_empty() && self.stored == Stored::Perhaps {
                self.stored = Stored::Nothing;
            }
        }
        let error = error.of_one_write();
        match &mut self.stage {
            Stage::Indexes(setup) => {
                let next = setup.handle_error(&self.bucket, error);
                self.after_indexes(next)
            }
            // The holder then deletes what is stored.
            Stage::Chunks if self.goal == Goal::Stop => Step::Wait,
            Stage::Deleting => self.end(Err(Error::gridfs(GridFsErrorKind::AbortError {
                original_error: None,
                delete_error: error,
            }))),
            _ => self.end(Err(error)),
        }
    }

    fn abandon(&mut self) -> Abandoned {
        match &mut self.stage {
            Stage::Indexes(setup) => setup.abandon(),
            // Without its chunks, a file that is stored after all would be corrupt.
            Stage::File | Stage::Over => Abandoned::Nothing,
            Stage::Waiting | Stage::Chunks | Stage::Deleting => {
                if self.stored == Stored::Nothing {
                    return Abandoned::Nothing;
                }
                match self.delete_chunks() {
                    Ok(mut command) => {
                        command.set_timeout(Some(ABANDON_LIMIT));
                        Abandoned::Run(command)
                    }
                    Err(_) => Abandoned::Nothing,
                }
            }
        }
    }
}
