//! The calls about collections, databases and indexes, and a command.

use super::{COLLECTIONS, Call, Ended, INDEX_NOT_FOUND, Keeper, NAMESPACE_NOT_FOUND, NOTES};
use crate::world::{runtime::applications::Left, workload::DATABASE};
use bson::{Document, doc};
use onionskin::{
    IndexModel,
    options::{IndexOptions, WriteConcern},
};
use onionskin_core::error::Error;
use std::{collections::BTreeSet, future::IntoFuture as _, time::Duration};

/// The index of a caller.
#[derive(Debug)]
pub(super) struct Index {
    /// Has `true` if the index can exist after the acknowledged calls, and `false` if it can be
    /// missing.
    exists: BTreeSet<bool>,
    /// Has `true` if a call with an unknown outcome can still create the index, and `false` if one
    /// can still drop it.
    open: BTreeSet<bool>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            exists: BTreeSet::from([false]),
            open: BTreeSet::new(),
        }
    }
}

impl Index {
    fn note(&mut self, creates: bool, is_acknowledged: bool) {
        if is_acknowledged {
            self.exists = BTreeSet::from([creates]);
        } else {
            self.open.insert(creates);
        }
    }

    fn can_be(&self, exists: bool) -> bool {
        self.exists.contains(&exists) || self.open.contains(&exists)
    }
}

/// True for the error about an index or a collection that does not exist.
fn is_missing(error: &Error) -> bool {
    matches!(error.code(), Some(INDEX_NOT_FOUND | NAMESPACE_NOT_FOUND))
}

impl Keeper {
    fn index_name(&self) -> String {
        format!("by_{}", self.book.owner)
    }

    /// Creates or drops the index of the caller.
    pub(super) async fn change_index(
        &mut self,
        call: Call,
        limit: Duration,
        is_late: bool,
    ) -> Ended<usize> {
        let (notes, name) = (self.collection(NOTES), self.index_name());
        let majority = WriteConcern::majority();
        let creates = call == Call::CreateIndex;
        let ended = if creates {
            let options = IndexOptions::builder().name(name.clone()).build();
            let model = IndexModel::builder().keys(doc! { &name: 1, "n": 1 });
            let create = notes.create_index(model.options(options).build());
            let create = create.timeout(limit).write_concern(majority);
            let ended = self
                .caller
                .attempt("CreateIndex", limit, is_late, create.into_future());
            ended.await.map(drop)
        } else {
            let drop = notes
                .drop_index(&name)
                .timeout(limit)
                .write_concern(majority);
            let ended = self
                .caller
                .attempt("DropIndex", limit, is_late, drop.into_future());
            ended.await
        };
        match &ended {
            Ok(()) => self.index.note(creates, true),
            Err(Left::Failed(error)) if is_missing(error) => {
                if is_late && !self.index.can_be(false) {
                    self.fail("an index is missing", &format!("{error}: {:?}", self.index));
                }
            }
            Err(_) => self.index.note(creates, false),
        }
        ended.map(|_| 0)
    }

    /// Lists names, or runs a command.
    pub(super) async fn look_around(
        &mut self,
        call: Call,
        limit: Duration,
        is_late: bool,
    ) -> Ended<usize> {
        let client = self.caller.client.clone();
        let database = client.database(DATABASE);
        let notes = self.collection(NOTES);
        let is_there = |place| self.book.has_some(place);
        // Members that were primaries can have older names.
        let mut wanted: Vec<String> = Vec::new();
        let mut unwanted: Vec<String> = Vec::new();
        match call {
            Call::ListCollectionNames => {
                let places = COLLECTIONS.iter().enumerate();
                let there = places.filter(|(place, _)| is_there(*place));
                wanted.extend(there.map(|(_, name)| (*name).to_owned()));
            }
            Call::ListDatabaseNames if is_there(NOTES) => wanted.push(DATABASE.to_owned()),
            Call::RunCommand => wanted.push("ok".to_owned()),
            Call::ListIndexNames => match (self.index.can_be(true), self.index.can_be(false)) {
                (true, false) => wanted.push(self.index_name()),
                (false, true) => unwanted.push(self.index_name()),
                _ => {}
            },
            _ => {}
        }
        let part = async {
            match call {
                Call::ListCollectionNames => database.list_collection_names().timeout(limit).await,
                Call::ListDatabaseNames => client.list_database_names().timeout(limit).await,
                Call::ListIndexNames => notes.list_index_names().timeout(limit).await,
                _ => {
                    let ping = database.run_command(doc! { "ping": 1 }).timeout(limit);
                    let reply: Document = ping.await?;
                    Ok(reply.keys().cloned().collect())
                }
            }
        };
        let name = format!("{call:?}");
        let ended = self.caller.attempt(&name, limit, is_late, part).await;
        let names: Vec<String> = ended?;
        let is_right = names.iter().collect::<BTreeSet<_>>().len() == names.len()
            && wanted.iter().all(|name| names.contains(name))
            && !unwanted.iter().any(|name| names.contains(name));
        if is_late && !is_right {
            let details = format!("{call:?}: {names:?}, not {wanted:?} without {unwanted:?}");
            self.fail("wrong names were listed", &details);
        }
        Ok(0)
    }
}
