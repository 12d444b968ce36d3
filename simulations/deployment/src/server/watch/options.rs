//! The options of a change stream, as its command gives them.

use super::super::{
    Member, commands,
    connection::Request,
    document::truth,
    fault::{Fault, fault},
};
use crate::store::{BeforeChange, Focus, FullDocument, Namespace, Scope, Token};
use bson::{Bson, Document, Timestamp};

/// The place at which a change stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Now,
    At(Timestamp),
    After(Token),
}

impl Member {
    /// Returns the options of the change stream that a command opens.
    pub(super) fn stream_options(
        &self,
        request: &Request,
        operand: &Bson,
    ) -> Result<(Focus, Start), Fault> {
        if !self.is_set() {
            let text = "The $changeStream stage is only supported on replica sets";
            return Err(fault(40573, text));
        }
        if request.command.contains_key("autocommit") {
            let text = "Operation not permitted in transaction :: caused by :: Aggregation stage \
                        $changeStream cannot run within a multi-document transaction";
            return Err(fault(263, text));
        }
        let release = self.program.version.release;
        commands::check_change_stream(operand, release)?;
        let Bson::Document(options) = operand else {
            let text = "the $changeStream stage must be an object";
            return Err(fault(50808, text));
        };
        check_read_concern(&request.command)?;
        let scope = self.stream_scope(request, options)?;
        let focus = Focus {
            scope,
            full_document: match options.get_str("fullDocument") {
                Ok("updateLookup") => FullDocument::UpdateLookup,
                Ok("whenAvailable") => FullDocument::WhenAvailable,
                Ok("required") => FullDocument::Required,
                _ => FullDocument::Default,
            },
            before_change: match options.get_str("fullDocumentBeforeChange") {
                Ok("whenAvailable") => BeforeChange::WhenAvailable,
                Ok("required") => BeforeChange::Required,
                _ => BeforeChange::Off,
            },
            is_expanded: truth(options.get("showExpandedEvents")),
            shows_system: truth(options.get("showSystemEvents")),
            release,
        };
        Ok((focus, start(options)?))
    }

    fn stream_scope(&self, request: &Request, options: &Document) -> Result<Scope, Fault> {
        let database = request.database.as_str();
        let collection = request.command.get_str(&request.name).ok();
        if truth(options.get("allChangesForCluster")) {
            if database == "admin" && collection.is_none() {
                return Ok(Scope::Deployment);
            }
            let text = format!(
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the \
                 'admin' database, and with no collection name; found {database}.{}",
                collection.unwrap_or("$cmd.aggregate")
            );
            return Err(fault(72, text));
        }
        if matches!(database, "admin" | "config" | "local") {
            let text =
                format!("$changeStream may not be opened on the internal {database} database");
            return Err(fault(73, text));
        }
        let Some(collection) = collection else {
            return Ok(Scope::Database(database.to_owned()));
        };
        let name = Namespace::new(database, collection);
        if collection.starts_with("system.") {
            let text = format!("$changeStream may not be opened on the internal {name} collection");
            return Err(fault(73, text));
        }
        let found = self.replica.store().collection(&name);
        let kind = match found {
            Some(found) if found.view().is_some() => "view",
            Some(found) if found.time_series().is_some() => "timeseries collection",
            _ => return Ok(Scope::Collection(name)),
        };
        let text = format!("Namespace {name} is a {kind}, not a collection");
        Err(fault(166, text))
    }
}

/// Returns an error unless the read concern is `majority`, which is the default of change streams.
fn check_read_concern(command: &Document) -> Result<(), Fault> {
    let concern = command.get_document("readConcern");
    let level = concern
        .ok()
        .and_then(|concern| concern.get_str("level").ok());
    match level {
        None | Some("majority") => Ok(()),
        Some(level) => {
            let text = format!(
                "$changeStream cannot run with a readConcern other than 'majority'. Current \
                 readConcern: {level}"
            );
            Err(fault(72, text))
        }
    }
}

fn start(options: &Document) -> Result<Start, Fault> {
    let resume = options.get_document("resumeAfter").ok();
    let after = options.get_document("startAfter").ok();
    let at = options
        .get("startAtOperationTime")
        .filter(|at| **at != Bson::Null);
    if resume.is_some() && after.is_some() {
        let text = "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage";
        return Err(fault(50865, text));
    }
    if at.is_some() && (resume.is_some() || after.is_some()) {
        let text = "Only one type of resume option is allowed, but multiple were found.";
        return Err(fault(40674, text));
    }
    if let Some(at) = at {
        return match at {
            Bson::Timestamp(at) => Ok(Start::At(*at)),
            _ => {
                let text = "BSON field '$changeStream.startAtOperationTime' is the wrong type, \
                            expected type 'timestamp'";
                Err(fault(14, text))
            }
        };
    }
    if let Some(after) = after {
        return Ok(Start::After(Token::parse(after)?));
    }
    let Some(resume) = resume else {
        return Ok(Start::Now);
    };
    let token = Token::parse(resume)?;
    if token.invalidates() {
        let text = "Attempting to resume a change stream using 'resumeAfter' is not allowed from \
                    an invalidate notification";
        return Err(fault(260, text));
    }
    Ok(Start::After(token))
}
