//! The command `findAndModify`.

use super::{
    Member,
    connection::Request,
    dispatch::{Answer, Outcome, namespace},
    document::truth,
    fault::{Fault, fault},
    field_names::check_updated,
    read::collation,
    write::{Tally, documents, no_removal, set_bypasses},
};
use crate::{
    replica::Effect,
    store::{FindAndModify, Modification, Query, Update},
};
use bson::{Document, doc};
use onionskin_core::time::Instant;

impl Member {
    pub(super) fn find_and_modify(&mut self, now: Instant, request: &Request) -> Answer {
        let namespace = namespace(request)?;
        let retryable = self.retryable_write(request, 1)?;
        if let Some(retryable) = &retryable
            && let Some((id, mut reply)) = retryable.modified(&self.replica, &request.command)?
        {
            reply.insert("retriedStmtId", id);
            return Ok(Outcome::Written(reply.into()));
        }
        self.check_hint(&namespace, &request.command)?;
        let command = find_and_modify_command(&request.command)?;
        let removes = command.modification == Modification::Remove;
        let variables = request.command.get_document("let").ok();
        let (is_retryable, refuses_dollars) = (retryable.is_some(), self.refuses_dollars());
        let keeps_documents = removes && self.refuses_removal(&namespace);
        let searched = self.searched(is_retryable);
        let result = self.run_searched(now, variables, searched, |store, environment| {
            if keeps_documents {
                return Err(no_removal(&namespace));
            }
            set_bypasses(environment, &request.command);
            let start = store.pending_changes();
            let result = store.execute_find_and_modify(&namespace, &command, environment)?;
            if let (true, Modification::Update { update, .. }) =
                (refuses_dollars, &command.modification)
            {
                check_updated(store, start, update)?;
            }
            Ok(result)
        })?;
        let Some((result, _)) = result else {
            let query = Query::Targets(namespace, command.target());
            return self.search_apart(query, variables);
        };
        let n = i32::try_from(result.n).unwrap_or(i32::MAX);
        let mut last = doc! { "n": n };
        if !removes {
            last.insert("updatedExisting", result.updated_existing);
            if let Some(id) = result.upserted {
                last.insert("upserted", id);
            }
        }
        let reply = doc! { "lastErrorObject": last, "value": result.value };
        let mut tally = Tally::default();
        let effect = Effect::Modify {
            answer: reply.clone(),
            is_after: truth(request.command.get("new")),
        };
        tally.effects.push((0, effect));
        self.record(now, &mut tally, retryable.as_ref());
        Ok(Outcome::Written(reply.into()))
    }
}

fn find_and_modify_command(command: &Document) -> Result<FindAndModify, Fault> {
    let document = |key: &str| command.get_document(key).ok().cloned();
    let modification = if truth(command.get("remove")) {
        if command.contains_key("update") {
            return Err(fault(9, "Cannot specify both an update and remove=true"));
        }
        if truth(command.get("upsert")) {
            return Err(fault(9, "Cannot specify both upsert=true and remove=true"));
        }
        if truth(command.get("new")) {
            let text = "Cannot specify both new=true and remove=true; 'remove' always returns the \
                        deleted document";
            return Err(fault(9, text));
        }
        if command.contains_key("arrayFilters") {
            return Err(fault(9, "Cannot specify arrayFilters and remove=true"));
        }
        Modification::Remove
    } else {
        let Some(update) = command.get("update") else {
            return Err(fault(
                9,
                "Either an update or remove=true must be specified",
            ));
        };
        Modification::Update {
            update: Update::from_bson(update.clone())?,
            upsert: truth(command.get("upsert")),
            array_filters: documents(command, "arrayFilters"),
            return_new: truth(command.get("new")),
        }
    };
    Ok(FindAndModify {
        filter: document("query").unwrap_or_default(),
        sort: document("sort"),
        projection: document("fields"),
        modification,
        collation: collation(command),
    })
}
