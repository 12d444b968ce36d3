//! The calls that read notes.

use super::{COPIES, Call, Ended, Keeper, NOTES, book::Manner, known::State};
use crate::world::{options::index, runtime::SimRuntime};
use bson::{Bson, Document, doc};
use onionskin::{
    ClientSession, Collection,
    action::Action as _,
    options::{ReadConcern, ReadPreference, SelectionCriteria},
};
use onionskin_core::{error::Error, options::ReadMode};
use std::time::Duration;

/// The largest drawn batch size, which is much smaller than the number of documents.
const MAX_BATCH: usize = 4;

/// A call that reads.
struct Question<'a> {
    collection: Collection<SimRuntime, Document>,
    owner: i64,
    /// The document that `find_one` finds.
    id: i64,
    limit: Duration,
    batch_size: u32,
    /// The number of documents after which the cursor is dropped, or `None`.
    most: Option<usize>,
    concern: ReadConcern,
    criteria: SelectionCriteria,
    session: Option<&'a mut ClientSession<SimRuntime>>,
}

/// The result of a read.
#[derive(Debug)]
enum Found {
    /// The documents with `_id`s up to this one.
    Documents(Vec<Document>, i64),
    One(Option<Document>),
    Count(u64),
    EstimatedCount(u64),
    Values(Vec<Bson>),
    Groups(Vec<Document>),
}

impl Keeper {
    /// Reads notes, and compares the result with the possible states. Returns the number of
    /// documents whose present state was read.
    pub(super) async fn read(
        &mut self,
        call: Call,
        limit: Duration,
        is_late: bool,
    ) -> Ended<usize> {
        let mut tied = self.tied.take();
        let random = &mut self.caller.random;
        let is_tied = tied.is_some() && random.chance(7, 8);
        let is_committed = random.chance(7, 8);
        let is_nearby = call != Call::EstimatedDocumentCount && random.chance(1, 4);
        let place = if random.chance(1, 4) { COPIES } else { NOTES };
        let batch_size = 2 + index(random, MAX_BATCH - 1) as u32;
        let most = random.chance(1, 6).then(|| 1 + index(random, 8));
        let id = self.book.draw_ids(random, 1)[0];
        let since = tied.as_ref().filter(|_| is_tied).and_then(|t| t.since);
        let manner = Manner {
            since,
            is_committed,
            is_fresh: is_late && !is_nearby,
            is_numbered: false,
        };
        let preference = match is_nearby {
            true => ReadPreference::new(ReadMode::SecondaryPreferred),
            false => ReadPreference::default(),
        };
        let question = Question {
            collection: self.collection(place),
            owner: self.book.owner,
            id,
            limit,
            batch_size,
            most,
            concern: match is_committed {
                true => ReadConcern::majority(),
                false => ReadConcern::local(),
            },
            criteria: preference.into(),
            session: tied.as_mut().filter(|_| is_tied).map(|t| &mut t.session),
        };
        let name = format!("{call:?}");
        let ended = self
            .caller
            .attempt(&name, limit, is_late, question.ask(call));
        let ended = ended.await;
        self.tied = tied;
        let found = ended?;
        match self.judge(place, id, &found, manner) {
            Ok(present) => Ok(present),
            Err(what) => {
                self.fail(
                    "a wrong note was read",
                    &format!("{call:?}: {what}: {found:?}"),
                );
                Ok(0)
            }
        }
    }

    fn judge(
        &mut self,
        place: usize,
        id: i64,
        found: &Found,
        manner: Manner,
    ) -> Result<usize, String> {
        let book = &mut self.book;
        let exists = |state: &State| i64::from(state.is_some());
        match found {
            Found::Documents(documents, last) => {
                let ids = documents.iter().map(|d| d.get_i64("_id").unwrap_or(0));
                if !ids.is_sorted_by(|a, b| a < b) {
                    return Err("not in order".to_owned());
                }
                book.see(place, documents, |id| id <= *last, manner)
            }
            Found::One(document) => {
                book.see(place, document.as_slice(), |other| other == id, manner)
            }
            Found::Count(count) => {
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                book.check_sum(place, count, manner, exists).map(|()| 0)
            }
            // The count of the metadata can be wrong, but no servers here lose or gain documents.
            Found::EstimatedCount(count) => {
                let begun = self.caller.runtime.shared.lock().applications.notes.begun;
                match *count <= begun {
                    true => Ok(0),
                    false => Err(format!("more than {begun} documents")),
                }
            }
            Found::Values(values) => book.check_marks(place, values, manner).map(|()| 0),
            Found::Groups(groups) => {
                let group = groups.first().cloned().unwrap_or_default();
                let number = |key| group.get(key).and_then(number).unwrap_or(0);
                let marks = |state: &State| state.as_ref().map_or(0, |m| m.len() as i64);
                book.check_sum(place, number("documents"), manner, exists)?;
                book.check_sum(place, number("marks"), manner, marks)?;
                Ok(0)
            }
        }
    }
}

fn number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

impl Question<'_> {
    async fn ask(self, call: Call) -> Result<Found, Error> {
        match call {
            Call::Find => self.find().await,
            Call::FindOne => {
                let find = self.collection.find_one(doc! { "_id": self.id });
                let find = find.read_concern(self.concern).timeout(self.limit);
                let find = find.selection_criteria(self.criteria);
                let find = find.optional(self.session, |find, session| find.session(session));
                Ok(Found::One(find.await?))
            }
            Call::CountDocuments => {
                let count = self
                    .collection
                    .count_documents(doc! { "owner": self.owner });
                let count = count.read_concern(self.concern).timeout(self.limit);
                let count = count.selection_criteria(self.criteria);
                let count = count.optional(self.session, |call, session| call.session(session));
                Ok(Found::Count(count.await?))
            }
            Call::EstimatedDocumentCount => {
                let count = self.collection.estimated_document_count();
                let count = count.read_concern(self.concern).timeout(self.limit);
                let count = count.optional(self.session, |call, session| call.session(session));
                Ok(Found::EstimatedCount(count.await?))
            }
            Call::Distinct => {
                let filter = doc! { "owner": self.owner };
                let distinct = self.collection.distinct("marks", filter);
                let distinct = distinct.read_concern(self.concern).timeout(self.limit);
                let call = distinct.selection_criteria(self.criteria);
                let call = call.optional(self.session, |call, session| call.session(session));
                Ok(Found::Values(call.await?))
            }
            _ => self.group().await,
        }
    }

    async fn find(self) -> Result<Found, Error> {
        let find = self.collection.find(doc! { "owner": self.owner });
        let find = find.sort(doc! { "_id": 1 }).batch_size(self.batch_size);
        let find = find.read_concern(self.concern).timeout(self.limit);
        let find = find.selection_criteria(self.criteria);
        let most = self.most.unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut is_whole = false;
        match self.session {
            None => {
                let mut cursor = find.await?;
                while found.len() < most && !is_whole {
                    match cursor.next().await.transpose()? {
                        Some(document) => found.push(document),
                        None => is_whole = true,
                    }
                }
            }
            Some(session) => {
                let mut cursor = find.session(session).await?;
                while found.len() < most && !is_whole {
                    match cursor.next(session).await.transpose()? {
                        Some(document) => found.push(document),
                        None => is_whole = true,
                    }
                }
            }
        }
        let last = found
            .last()
            .and_then(|document| document.get_i64("_id").ok());
        let last = last.filter(|_| !is_whole).unwrap_or(i64::MAX);
        Ok(Found::Documents(found, last))
    }

    async fn group(self) -> Result<Found, Error> {
        let pipeline = [
            doc! { "$match": { "owner": self.owner } },
            doc! { "$group": {
                "_id": null, "documents": { "$sum": 1 }, "marks": { "$sum": "$n" },
            } },
        ];
        let group = self
            .collection
            .aggregate(pipeline)
            .read_concern(self.concern);
        let group = group.selection_criteria(self.criteria).timeout(self.limit);
        Ok(Found::Groups(match self.session {
            None => group.await?.into_vec().await?,
            Some(session) => {
                let mut cursor = group.session(session).await?;
                let mut groups = Vec::new();
                while let Some(group) = cursor.next(session).await {
                    groups.push(group?);
                }
                groups
            }
        }))
    }
}
