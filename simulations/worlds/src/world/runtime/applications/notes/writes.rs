//! The calls that write notes.

use super::{
    COLLECTIONS, COPIES, Call, NOTES,
    book::{Fate, Image, Sent, Sum, Told, state_of},
    known::{Answer, Change, State},
    outcome::{self, Misfit},
    plan::Plan,
};
use crate::world::runtime::SimRuntime;
use bson::{Document, doc};
use onionskin::{
    Client, ClientSession, Collection,
    action::Action as _,
    options::{
        DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel, ReturnDocument,
        UpdateManyModel, UpdateModifications, UpdateOneModel, WriteConcern, WriteModel,
    },
};
use onionskin_core::error::Error;
use std::time::Duration;

impl Sent {
    /// True if a bulk write makes the change with an operation that can affect several documents.
    pub(super) const fn is_multi(&self, is_wanted: bool) -> bool {
        let can_be = matches!(
            self.write.change,
            Change::Push { upserts: false } | Change::Delete
        );
        is_wanted && can_be
    }

    fn filter(&self) -> Document {
        doc! { "_id": self.key.1 }
    }

    /// Returns the document that an insert or a replacement stores.
    fn document(&self, owner: i64) -> Document {
        doc! { "_id": self.key.1, "owner": owner, "marks": [self.write.mark], "n": 1 }
    }

    fn update(&self, owner: i64) -> Document {
        doc! {
            "$push": { "marks": self.write.mark },
            "$inc": { "n": 1 },
            "$setOnInsert": { "owner": owner },
        }
    }

    pub(super) const fn upserts(&self) -> bool {
        matches!(
            self.write.change,
            Change::Push { upserts: true } | Change::Replace { upserts: true }
        )
    }
}

/// Returns the filter for all documents of these writes.
fn filter_of_all(sent: &[Sent]) -> Document {
    let ids: Vec<i64> = sent.iter().map(|one| one.key.1).collect();
    doc! { "_id": { "$in": ids } }
}

/// A call that writes.
pub(super) struct Work<'a> {
    pub(super) client: Client<SimRuntime>,
    pub(super) collections: [Collection<SimRuntime, Document>; COLLECTIONS.len()],
    pub(super) owner: i64,
    pub(super) limit: Duration,
    pub(super) plan: &'a Plan,
    pub(super) session: Option<&'a mut ClientSession<SimRuntime>>,
}

/// The outcome of a call without an error.
pub(super) type Outcome = Result<Result<Told, Misfit>, Error>;

impl Work<'_> {
    pub(super) async fn run(self, call: Call) -> Outcome {
        match call {
            Call::InsertOne | Call::InsertMany => self.insert(call).await,
            Call::ReplaceOne | Call::UpdateOne | Call::DeleteOne => self.change(call).await,
            Call::UpdateMany | Call::DeleteMany => self.change_many(call).await,
            Call::CollectionBulkWrite => self.bulk_write_collection().await,
            Call::ClientBulkWrite => self.bulk_write().await,
            Call::Merge => self.merge().await,
            _ => self.find_and_modify(call).await,
        }
    }

    async fn insert(self, call: Call) -> Outcome {
        let (notes, sent, majority) = (
            &self.collections[NOTES],
            &self.plan.sent,
            WriteConcern::majority(),
        );
        let documents: Vec<Document> = sent.iter().map(|s| s.document(self.owner)).collect();
        let ids = if call == Call::InsertOne {
            let insert = notes.insert_one(&documents[0]).timeout(self.limit);
            let insert = insert.write_concern(majority);
            let insert = insert.optional(self.session, |call, session| call.session(session));
            [(0, insert.await?.inserted_id)].into()
        } else {
            let insert = notes.insert_many(&documents).timeout(self.limit);
            let insert = insert.write_concern(majority).ordered(self.plan.is_ordered);
            let insert = insert.optional(self.session, |call, session| call.session(session));
            insert.await?.inserted_ids
        };
        let is_whole = ids.len() == sent.len();
        Ok(match outcome::check_ids(sent, &ids) {
            Ok(()) if is_whole => Ok(outcome::answered(sent.iter().map(|_| Answer::Added))),
            _ => Err(format!("{ids:?} of {sent:?}")),
        })
    }

    async fn change(self, call: Call) -> Outcome {
        let (notes, one) = (&self.collections[NOTES], &self.plan.sent[0]);
        let (majority, limit) = (WriteConcern::majority(), self.limit);
        let answer = match call {
            Call::ReplaceOne => {
                let replace = notes.replace_one(one.filter(), one.document(self.owner));
                let replace = replace.upsert(one.upserts()).timeout(limit);
                let replace = replace.write_concern(majority);
                let call = replace.optional(self.session, |call, session| call.session(session));
                outcome::updated(one, &call.await?)
            }
            Call::UpdateOne => {
                let update = notes.update_one(one.filter(), one.update(self.owner));
                let update = update.upsert(one.upserts()).timeout(limit);
                let update = update.write_concern(majority);
                let call = update.optional(self.session, |call, session| call.session(session));
                outcome::updated(one, &call.await?)
            }
            _ => {
                let delete = notes.delete_one(one.filter()).timeout(limit);
                let delete = delete.write_concern(majority);
                let call = delete.optional(self.session, |call, session| call.session(session));
                outcome::deleted(call.await?.deleted_count)
            }
        };
        Ok(answer.map(|answer| outcome::answered([answer])))
    }

    async fn change_many(self, call: Call) -> Outcome {
        let (notes, sent) = (&self.collections[NOTES], &self.plan.sent);
        let filter = filter_of_all(sent);
        let (majority, limit) = (WriteConcern::majority(), self.limit);
        let count = if call == Call::UpdateMany {
            let mark = sent[0].write.mark;
            let update: UpdateModifications = match self.plan.is_other {
                false => sent[0].update(self.owner).into(),
                true => vec![doc! { "$set": {
                    "marks": { "$concatArrays": ["$marks", [mark]] },
                    "n": { "$add": ["$n", 1] },
                } }]
                .into(),
            };
            let update = notes.update_many(filter, update).timeout(limit);
            let update = update.write_concern(majority);
            let call = update.optional(self.session, |call, session| call.session(session));
            let result = call.await?;
            if result.matched_count != result.modified_count || result.upserted_id.is_some() {
                return Ok(Err(format!("{result:?} of {sent:?}")));
            }
            result.matched_count
        } else {
            let delete = notes.delete_many(filter).timeout(limit);
            let delete = delete.write_concern(majority);
            let call = delete.optional(self.session, |call, session| call.session(session));
            call.await?.deleted_count
        };
        Ok(Ok(Told::of_many(sent.len(), count)))
    }

    async fn find_and_modify(self, call: Call) -> Outcome {
        let (notes, one) = (&self.collections[NOTES], &self.plan.sent[0]);
        let (majority, limit) = (WriteConcern::majority(), self.limit);
        let which = match self.plan.is_other {
            true => ReturnDocument::After,
            false => ReturnDocument::Before,
        };
        let found = match call {
            Call::FindOneAndUpdate => {
                let update = one.update(self.owner);
                let modify = notes.find_one_and_update(one.filter(), update);
                let modify = modify.upsert(one.upserts()).return_document(which);
                let modify = modify.timeout(limit).write_concern(majority);
                let call = modify.optional(self.session, |call, session| call.session(session));
                call.await?
            }
            Call::FindOneAndReplace => {
                let document = one.document(self.owner);
                let modify = notes.find_one_and_replace(one.filter(), document);
                let modify = modify.upsert(one.upserts()).return_document(which);
                let modify = modify.timeout(limit).write_concern(majority);
                let call = modify.optional(self.session, |call, session| call.session(session));
                call.await?
            }
            _ => {
                let modify = notes.find_one_and_delete(one.filter()).timeout(limit);
                let modify = modify.write_concern(majority);
                let call = modify.optional(self.session, |call, session| call.session(session));
                call.await?
            }
        };
        let image = match found.as_ref().map(|found| state_of(self.owner, found)) {
            None => None,
            Some(Ok((id, state))) if id == one.key.1 => state,
            Some(other) => return Ok(Err(format!("{other:?} was returned for {one:?}"))),
        };
        let is_after = self.plan.is_other && call != Call::FindOneAndDelete;
        Ok(Ok(Told::of_image(one, image, is_after)))
    }

    fn models(&self) -> Vec<WriteModel> {
        let models = self.plan.sent.iter().map(|one| {
            let namespace = self.collections[one.key.0].namespace();
            let (filter, update) = (one.filter(), one.update(self.owner));
            let is_multi = one.is_multi(self.plan.is_multi);
            match one.write.change {
                Change::Insert => {
                    let model = InsertOneModel::builder().namespace(namespace);
                    model.document(one.document(self.owner)).build().into()
                }
                Change::Push { .. } if is_multi => {
                    let model = UpdateManyModel::builder().namespace(namespace);
                    model.filter(filter).update(update).build().into()
                }
                Change::Push { upserts } => {
                    let model = UpdateOneModel::builder().namespace(namespace);
                    let model = model.filter(filter).update(update);
                    model.upsert(upserts).build().into()
                }
                Change::Replace { upserts } => {
                    let model = ReplaceOneModel::builder().namespace(namespace);
                    let model = model.filter(filter).replacement(one.document(self.owner));
                    model.upsert(upserts).build().into()
                }
                Change::Delete if is_multi => {
                    let model = DeleteManyModel::builder().namespace(namespace);
                    model.filter(filter).build().into()
                }
                Change::Delete => {
                    let model = DeleteOneModel::builder().namespace(namespace);
                    model.filter(filter).build().into()
                }
            }
        });
        models.collect()
    }

    async fn bulk_write_collection(self) -> Outcome {
        let write = self.collections[NOTES].bulk_write(self.models());
        let write = write.ordered(self.plan.is_ordered).timeout(self.limit);
        let write = write.write_concern(WriteConcern::majority());
        let call = write.optional(self.session, |call, session| call.session(session));
        Ok(outcome::of_collection(&self.plan.sent, &call.await?))
    }

    async fn bulk_write(self) -> Outcome {
        let write = self.client.bulk_write(self.models());
        let write = write.ordered(self.plan.is_ordered).timeout(self.limit);
        let write = write.write_concern(WriteConcern::majority());
        let write = write.optional(self.session, |call, session| call.session(session));
        let sent = &self.plan.sent;
        Ok(match self.plan.is_other {
            true => outcome::verbose(sent, &write.verbose_results().await?),
            false => outcome::summed(sent, &write.await?),
        })
    }

    /// Merges notes into their copies, which get a mark by that.
    async fn merge(self) -> Outcome {
        let sent = &self.plan.sent;
        let mark = sent[0].write.mark;
        let pipeline = [
            doc! { "$match": filter_of_all(sent) },
            doc! { "$project": { "owner": 1, "marks": [mark], "n": { "$literal": 1 } } },
            doc! { "$merge": {
                "into": COLLECTIONS[COPIES],
                "whenMatched": [{ "$set": {
                    "marks": { "$concatArrays": ["$marks", "$$new.marks"] },
                    "n": { "$add": ["$n", 1] },
                } }],
            } },
        ];
        let merge = self.collections[NOTES].aggregate(pipeline);
        let merge = merge
            .timeout(self.limit)
            .write_concern(WriteConcern::majority());
        let is_empty = match self.session {
            None => merge.await?.into_vec().await?.is_empty(),
            Some(session) => {
                let mut cursor = merge.session(session).await?;
                cursor.next(session).await.transpose()?.is_none()
            }
        };
        let fates = vec![Fate::Executed(None); sent.len()];
        Ok(match is_empty {
            true => Ok(Told {
                fates,
                ..Told::default()
            }),
            false => Err("a merge returned documents".to_owned()),
        })
    }
}

impl Told {
    /// Returns the outcome of a call that changed or deleted this number of its documents.
    fn of_many(writes: usize, count: u64) -> Self {
        let sum = Sum {
            places: (0..writes).collect(),
            answer: Answer::Matched,
            count,
        };
        Self {
            fates: vec![Fate::Executed(None); writes],
            sums: vec![sum],
            image: None,
        }
    }

    /// Returns the outcome of a call that returned the document before or after its write.
    fn of_image(one: &Sent, image: State, is_after: bool) -> Self {
        let answer = match (&image, is_after) {
            (None, false) if one.upserts() => Some(Answer::Added),
            (None, _) => Some(Answer::Missed),
            (Some(_), true) if one.upserts() => None,
            (Some(_), _) => Some(Answer::Matched),
        };
        let image = match is_after {
            true => Image::After(image),
            false => Image::Before(image),
        };
        Self {
            fates: vec![Fate::Executed(answer)],
            sums: Vec::new(),
            image: Some(image),
        }
    }
}
