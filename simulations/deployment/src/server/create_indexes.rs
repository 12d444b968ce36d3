//! The command `createIndexes`.

use super::{
    Member,
    catalog::check_index_names,
    connection::Request,
    dispatch::{Answer, Outcome, namespace},
    document::{integer, truth},
    fault::{Fault, bad_value, fault},
    job::STEPS,
    parts::Progress,
    write::documents,
};
use crate::store::{BuiltIndexes, Query, without_unknown_options};
use bson::{Bson, doc};

/// The largest number of members of a replica set.
const MAX_MEMBERS: i64 = 50;

/// The largest number of jobs that build the indexes of one command.
const MAX_BUILDS: u32 = 2;

impl Member {
    /// Creates indexes. If there are many documents, the indexes are built by a job. They are built
    /// again if the collection has changed meanwhile, also after an error, and the last time
    /// without a job.
    pub(super) fn create_indexes(&mut self, request: &mut Request) -> Answer {
        let name = namespace(request)?;
        let mut indexes = documents(&request.command, "indexes");
        if truth(request.command.get("ignoreUnknownIndexOptions")) {
            for index in &mut indexes {
                without_unknown_options(index, self.release());
            }
        }
        check_index_names(&indexes)?;
        let quorum = self.commit_quorum(request)?;
        let jobs = match request.progress.take().map(|progress| *progress) {
            Some(Progress::Indexes(jobs)) => jobs,
            _ => 0,
        };
        let built = self.jobs.take_indexes().transpose()?;
        let store = self.replica.store();
        let mut built = built.filter(|built| built.fit(store, &name));
        if let Some(error) = built.as_mut().and_then(BuiltIndexes::take_error) {
            return Err(error.into());
        }
        let is_long = store.steps_of_build(&name, indexes.len()) > STEPS;
        if built.is_none() && is_long && jobs < MAX_BUILDS && self.can_wait_for_jobs() {
            request.progress = Some(Box::new(Progress::Indexes(jobs + 1)));
            let copies = self.replica.data_members();
            return self.search_apart(Query::Indexes(name, indexes, copies), None);
        }
        let built = built.unwrap_or_default();
        let store = self.replica.store_mut();
        let done = store.create_built(&name, &indexes, built)?;
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let mut reply = doc! {
            "numIndexesBefore": number(done.before),
            "numIndexesAfter": number(done.after),
            "createdCollectionAutomatically": done.created_collection,
        };
        let built = usize::try_from(done.after - done.before).unwrap_or(usize::MAX);
        if let Some(quorum) = quorum.filter(|_| built > 0 && !done.created_collection) {
            reply.insert("commitQuorum", quorum);
        }
        if built < indexes.len() {
            let text = match built {
                0 => "all indexes already exist",
                _ => "index already exists",
            };
            reply.insert("note", text);
        }
        Ok(Outcome::Written(reply.into()))
    }

    /// Returns the members that must be ready before the indexes of a command are, as its reply
    /// shows them. Returns `None` if the index is built by this member alone.
    fn commit_quorum(&self, request: &Request) -> Result<Option<Bson>, Fault> {
        let given = request.command.get("commitQuorum");
        let given = given.filter(|given| !matches!(given, Bson::Null | Bson::Undefined));
        let Some(given) = given else {
            let is_alone = !self.is_set()
                || self.shard.is_some()
                || self.transactions.is_running()
                || request.database == "local"
                || self.program.version.release < [4, 4, 0];
            return Ok((!is_alone).then(|| "votingMembers".into()));
        };
        if !self.is_set() && self.shard.is_none() {
            return Err(bad_value("Standalones can't specify commitQuorum"));
        }
        match given {
            Bson::String(mode) if mode.is_empty() => {
                Err(fault(9, "commitQuorum can't be an empty string"))
            }
            Bson::String(mode) if matches!(mode.as_str(), "majority" | "votingMembers") => {
                Ok(Some(given.clone()))
            }
            Bson::String(mode) => {
                let text = format!(
                    "No write concern mode named '{mode}' found in replica set configuration"
                );
                Err(fault(79, text))
            }
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => {
                let members = integer(given).filter(|n| (0..=MAX_MEMBERS).contains(n));
                let Some(members) = members else {
                    let text = format!(
                        "commitQuorum has to be a non-negative number and not greater than \
                         {MAX_MEMBERS}"
                    );
                    return Err(fault(9, text));
                };
                let config = self.replica.config();
                let holders = config.members.iter().filter(|m| m.votes && !m.arbiter);
                let holders = i64::try_from(holders.count()).unwrap_or(i64::MAX);
                if self.is_set() && members > holders {
                    let text = "Commit quorum cannot be satisfied with the current replica set \
                                configuration";
                    return Err(fault(278, text));
                }
                Ok(Some(i32::try_from(members).unwrap_or(i32::MAX).into()))
            }
            _ => Err(fault(9, "commitQuorum has to be a number or a string")),
        }
    }
}
