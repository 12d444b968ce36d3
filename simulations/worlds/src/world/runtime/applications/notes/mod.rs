//! Notes: documents that one caller writes and reads with all operations that are no transactions.
//!
//! Each write leaves a mark of its own in its document, or takes the marks of others away. So the
//! documents tell which writes took effect, how often and in which order. The caller compares that,
//! and each result, with the states that are possible ([`known::Known`]).

mod book;
mod known;
mod outcome;
mod plan;
mod reads;
mod schema;
mod writes;

use super::{Application, Left, SimRuntime};
use crate::world::{options::index, report::FailureKind, workload::DATABASE};
use book::Book;
use bson::Document;
use onionskin::{ClientSession, Collection};
use onionskin_core::error::{Error, ErrorKind};
use std::future::IntoFuture as _;

/// The index of the collection of the notes in [`COLLECTIONS`].
const NOTES: usize = 0;

/// The index of the collection into which notes are merged.
const COPIES: usize = 1;

/// The names of the collections.
const COLLECTIONS: [&str; 2] = ["notes", "copies"];

/// The number of failures after healing that a caller may see of calls that are not retried. A
/// broken idle connection is noticed only when it is used.
const LATE_FAILURES: u32 = 8;

/// The largest number of calls without a pause between them.
const MOST_CALLS: u64 = 3;

/// The code of an error about a collection that does not exist.
const NAMESPACE_NOT_FOUND: i32 = 26;

/// The code of an error about an index that does not exist.
const INDEX_NOT_FOUND: i32 = 27;

/// A call of a client, a database or a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    InsertOne,
    InsertMany,
    ReplaceOne,
    UpdateOne,
    UpdateMany,
    DeleteOne,
    DeleteMany,
    FindOneAndUpdate,
    FindOneAndReplace,
    FindOneAndDelete,
    CollectionBulkWrite,
    ClientBulkWrite,
    Merge,
    Find,
    FindOne,
    Group,
    CountDocuments,
    EstimatedDocumentCount,
    Distinct,
    ListCollectionNames,
    ListDatabaseNames,
    CreateIndex,
    ListIndexNames,
    DropIndex,
    RunCommand,
}

impl Call {
    const ALL: [Self; CALLS] = [
        Self::InsertOne,
        Self::InsertMany,
        Self::ReplaceOne,
        Self::UpdateOne,
        Self::UpdateMany,
        Self::DeleteOne,
        Self::DeleteMany,
        Self::FindOneAndUpdate,
        Self::FindOneAndReplace,
        Self::FindOneAndDelete,
        Self::CollectionBulkWrite,
        Self::ClientBulkWrite,
        Self::Merge,
        Self::Find,
        Self::FindOne,
        Self::Group,
        Self::CountDocuments,
        Self::EstimatedDocumentCount,
        Self::Distinct,
        Self::ListCollectionNames,
        Self::ListDatabaseNames,
        Self::CreateIndex,
        Self::ListIndexNames,
        Self::DropIndex,
        Self::RunCommand,
    ];

    /// True if each command of the call is retried after a network error. A `getMore` is not.
    const fn is_retried(self) -> bool {
        !matches!(
            self,
            Self::UpdateMany
                | Self::DeleteMany
                | Self::CollectionBulkWrite
                | Self::ClientBulkWrite
                | Self::Merge
                | Self::Find
                | Self::CreateIndex
                | Self::DropIndex
                | Self::RunCommand
        )
    }

    /// True if the call writes documents.
    const fn writes(self) -> bool {
        (self as usize) <= (Self::Merge as usize)
    }
}

/// The number of different calls.
pub const CALLS: usize = 25;

/// The notes of a run.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The notes of the callers that have ended.
    books: Vec<Book>,
    /// The number of documents that all callers have begun.
    begun: u64,
    /// How often each call of [`Call::ALL`] succeeded.
    pub(super) calls: [usize; CALLS],
    /// The number of documents whose present state was read.
    pub(super) seen: usize,
}

impl Notes {
    /// Checks the data at the end.
    pub(super) fn check(
        &mut self,
        documents: impl Fn(&str) -> Vec<Document>,
    ) -> Result<(), String> {
        for (place, name) in COLLECTIONS.iter().enumerate() {
            let mut rest = documents(name);
            for book in &mut self.books {
                let is_own = |document: &Document| {
                    document
                        .get_i64("owner")
                        .is_ok_and(|owner| owner == book.owner)
                };
                let (own, others) = rest.into_iter().partition(is_own);
                rest = others;
                let own: Vec<Document> = own;
                book.check_end(place, &own)?;
            }
            if let Some(document) = rest.first() {
                return Err(format!("a document was not written: {document}"));
            }
        }
        Ok(())
    }
}

/// An explicit session, and the step in which it has last had a write with an effect.
struct Tied {
    session: ClientSession<SimRuntime>,
    since: Option<u64>,
}

/// A caller that keeps notes.
struct Keeper {
    caller: Application,
    book: Book,
    tied: Option<Tied>,
    index: schema::Index,
    /// The number of failures after healing of calls that are not retried.
    failures: u32,
}

impl Application {
    /// Keeps notes, as the caller with this number among those of its client.
    pub(super) async fn keep_notes(self, task: usize) {
        let owner = i64::try_from(self.number * 1_000 + task + 1).unwrap_or(0);
        let runtime = self.runtime.clone();
        let mut keeper = Keeper {
            book: Book::new(owner),
            tied: None,
            index: schema::Index::default(),
            failures: 0,
            caller: self,
        };
        keeper.run().await;
        let notes = &mut runtime.shared.lock().applications.notes;
        notes.books.push(keeper.book);
    }
}

impl Keeper {
    async fn run(&mut self) {
        while let Some(is_late) = self.caller.next_step().await {
            if !self.renew_session(is_late).await {
                return;
            }
            for _ in 0..=self.caller.random.below(MOST_CALLS) {
                let call = match Call::ALL[index(&mut self.caller.random, CALLS)] {
                    Call::ClientBulkWrite if !self.caller.has_bulk_write => {
                        Call::CollectionBulkWrite
                    }
                    call => call,
                };
                if !self.step(call, is_late).await {
                    return;
                }
            }
        }
    }

    /// Runs a call. Returns false if the client was closed.
    async fn step(&mut self, call: Call, is_late: bool) -> bool {
        self.book.step += 1;
        let limit = self.caller.limit(is_late);
        let (before, book) = (self.book.begun, &mut self.book);
        book.active();
        let begun = u64::try_from(book.begun - before).unwrap_or(0);
        self.caller.runtime.shared.lock().applications.notes.begun += begun;
        let ended = match call {
            _ if call.writes() => self.write(call, limit, is_late).await,
            Call::CreateIndex | Call::DropIndex => self.change_index(call, limit, is_late).await,
            Call::ListCollectionNames
            | Call::ListDatabaseNames
            | Call::ListIndexNames
            | Call::RunCommand => self.look_around(call, limit, is_late).await,
            _ => self.read(call, limit, is_late).await,
        };
        self.caller
            .note(format_args!("ends {call:?}: {:?}", ended.as_ref().err()));
        match ended {
            Ok(present) => {
                let mut state = self.caller.runtime.shared.lock();
                let notes = &mut state.applications.notes;
                notes.calls[call as usize] += 1;
                notes.seen += present;
                true
            }
            Err(left) => self.goes_on(call, &left, is_late),
        }
    }

    /// Judges a call without a result. Returns false if the client was closed.
    fn goes_on(&mut self, call: Call, left: &Left, is_late: bool) -> bool {
        let Left::Failed(error) = left else {
            return !matches!(left, Left::Closed);
        };
        if matches!(error.kind(), ErrorKind::InvalidArgument { .. }) {
            self.fail("a valid call was refused", &format!("{error:?}"));
        }
        if is_late && !call.is_retried() && (error.is_network() || error.is_pool_cleared()) {
            self.failures += 1;
            return self.failures <= LATE_FAILURES || self.caller.goes_on(left, is_late);
        }
        is_refusal(error) || self.caller.goes_on(left, is_late)
    }

    /// Starts a session, or ends the one that the caller has, now and then. Returns false if the
    /// client was closed.
    async fn renew_session(&mut self, is_late: bool) -> bool {
        match self.caller.random.below(16) {
            0 => self.tied = None,
            1..12 if self.tied.is_none() => {
                let limit = self.caller.limit(is_late);
                let start = self.caller.client.start_session().into_future();
                match self.caller.attempt("a session", limit, true, start).await {
                    Ok(session) => {
                        let since = None;
                        self.tied = Some(Tied { session, since });
                    }
                    Err(left) => return self.caller.goes_on(&left, true),
                }
            }
            _ => {}
        }
        true
    }

    fn collection(&self, place: usize) -> Collection<SimRuntime, Document> {
        let database = self.caller.client.database(DATABASE);
        database.collection(COLLECTIONS[place])
    }

    fn fail(&self, what: &str, details: &str) {
        self.caller.fail(FailureKind::Correctness, what, details);
    }
}

/// True for an error that tells that a call has no effect, and that the caller provokes.
fn is_refusal(error: &Error) -> bool {
    error.is_duplicate_key() || matches!(error.code(), Some(NAMESPACE_NOT_FOUND | INDEX_NOT_FOUND))
}

/// The end of a call.
type Ended<T> = Result<T, Left>;
