//! The fields of a command by which it belongs to a transaction.

use crate::{
    replica::SessionKey,
    server::{
        Member,
        connection::Request,
        dispatch::writes_documents,
        document::integer,
        fault::{Fault, fault},
        retry::session_key,
    },
};
use bson::{Bson, Document};

/// The commands that a transaction can have as statements, or that end it.
const PERMITTED: [&str; 16] = [
    "abortTransaction",
    "aggregate",
    "bulkWrite",
    "commitTransaction",
    "coordinateCommitTransaction",
    "create",
    "createIndexes",
    "delete",
    "distinct",
    "find",
    "findAndModify",
    "findandmodify",
    "getMore",
    "insert",
    "killCursors",
    "update",
];

/// The stages of pipelines that a transaction cannot have.
const REFUSED_STAGES: [&str; 11] = [
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$merge",
    "$out",
    "$planCacheStats",
    "$listSearchIndexes",
];

/// The part of a command in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Part {
    pub(in crate::server) session: SessionKey,
    pub(in crate::server) number: i64,
    /// True for the first statement.
    pub(in crate::server) starts: bool,
}

/// True for the commands that commit or abort a transaction.
pub(in crate::server) fn ends(name: &str) -> bool {
    matches!(
        name,
        "commitTransaction" | "abortTransaction" | "coordinateCommitTransaction"
    )
}

impl Member {
    /// Returns the part of a command in a transaction, or `None` if the command does not belong to
    /// one. Fails if the fields contradict each other, or if transactions cannot have the command.
    pub(in crate::server) fn part(&self, request: &Request) -> Result<Option<Part>, Fault> {
        let command = &request.command;
        let starts = command.get_bool("startTransaction").ok();
        let Ok(autocommits) = command.get_bool("autocommit") else {
            if starts.is_some() {
                let text = "'startTransaction' field requires 'autocommit' field to also be \
                            specified";
                return Err(fault(72, text));
            }
            let is_numbered = command.contains_key("txnNumber");
            return match ends(&request.name) || is_numbered && !writes_documents(&request.name) {
                true => Err(self.outside_of_transaction(request)),
                false => Ok(None),
            };
        };
        let Some(number) = command.get("txnNumber").and_then(integer) else {
            let text = "'autocommit' field requires a transaction number to also be specified";
            return Err(fault(72, text));
        };
        let Some(session) = session_key(command) else {
            let text = "Transaction number requires a session ID to also be specified";
            return Err(fault(72, text));
        };
        if !self.is_set() && !self.is_router() {
            return Err(needs_set());
        }
        let refusal = match (number, autocommits, starts) {
            (..0, _, _) => Some("Transaction number cannot be negative"),
            (_, true, _) => Some("Specifying autocommit=true is not allowed."),
            (_, _, Some(false)) => Some("Specifying startTransaction=false is not allowed."),
            _ => None,
        };
        if let Some(text) = refusal {
            return Err(fault(72, text));
        }
        let starts = starts.is_some();
        self.check_command(request, starts)?;
        Ok(Some(Part {
            session,
            number,
            starts,
        }))
    }

    /// Returns the error of a command that ends a transaction but belongs to none.
    fn outside_of_transaction(&self, request: &Request) -> Fault {
        let name = &request.name;
        if !request.command.contains_key("txnNumber") {
            return fault(125, format!("{name} must be run within a transaction"));
        }
        if !self.is_set() && !self.is_router() {
            return needs_set();
        }
        let text = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write \
             commands. autocommit:false was not provided, and {name} is not a retryable write \
             command."
        );
        fault(50768, text)
    }

    /// Returns an error if no transaction can have a command.
    fn check_command(&self, request: &Request, starts: bool) -> Result<(), Fault> {
        let (name, command) = (request.name.as_str(), &request.command);
        let is_new = matches!(name, "create" | "createIndexes");
        if name == "count" {
            let text = "Cannot run 'count' in a multi-document transaction. Please see \
                        http://dochub.mongodb.org/core/transaction-count for a recommended \
                        alternative.";
            return Err(fault(263, text));
        }
        if !PERMITTED.contains(&name) || is_new && self.program.version.release < [4, 4, 0] {
            let text = format!("Cannot run '{name}' in a multi-document transaction.");
            return Err(fault(263, text));
        }
        if starts && (name == "killCursors" || ends(name)) {
            let text = format!(
                "Cannot run {name} as the first operation in a multi-document transaction."
            );
            return Err(fault(263, text));
        }
        if !ends(name) && command.contains_key("writeConcern") {
            let text = "writeConcern is not allowed within a multi-statement transaction";
            return Err(fault(72, text));
        }
        let concern = command.get_document("readConcern");
        if !starts && concern.is_ok_and(|concern| !concern.is_empty()) {
            let text = "Only the first command in a transaction may specify a readConcern";
            return Err(fault(72, text));
        }
        check_databases(request)
    }
}

/// Returns an error if a statement concerns a database of the server itself.
fn check_databases(request: &Request) -> Result<(), Fault> {
    let infos = match request.name.as_str() {
        name if ends(name) => return Ok(()),
        "bulkWrite" => request.command.get_array("nsInfo"),
        // The cursor with the results of a `bulkWrite` belongs to `admin`.
        "getMore" | "killCursors" if names_bulk_write(request) => return Ok(()),
        _ => {
            let name = [request.database.as_str()];
            return check_names(name.into_iter());
        }
    };
    let infos = infos.map(Vec::as_slice).unwrap_or_default().iter();
    let names = infos.filter_map(|info| info.as_document()?.get_str("ns").ok());
    check_names(names.filter_map(|name| name.split('.').next()))
}

/// True for a command on the cursor of a `bulkWrite`.
fn names_bulk_write(request: &Request) -> bool {
    let field = match request.name.as_str() {
        "getMore" => "collection",
        name => name,
    };
    request.database == "admin" && request.command.get_str(field).ok() == Some("$cmd.bulkWrite")
}

fn check_names<'a>(mut databases: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
    let is_own = |name: &&str| matches!(*name, "admin" | "config" | "local");
    match databases.find(is_own) {
        None => Ok(()),
        Some(name) => {
            let text =
                format!("Cannot run command against the '{name}' database in a transaction.");
            Err(fault(263, text))
        }
    }
}

/// Returns the error of a standalone.
pub(in crate::server) fn needs_set() -> Fault {
    let text = "Transaction numbers are only allowed on a replica set member or mongos";
    fault(20, text)
}

/// Returns an error if a transaction cannot have a pipeline, with the pipelines inside of it.
pub(super) fn check_stages(pipeline: &[Bson]) -> Result<(), Fault> {
    let stages = pipeline.iter().filter_map(Bson::as_document);
    for (name, operand) in stages.filter_map(|stage| stage.iter().next()) {
        if REFUSED_STAGES.contains(&name.as_str()) {
            let text =
                format!("Stage not supported inside of a multi-document transaction: {name}");
            return Err(fault(263, text));
        }
        let Bson::Document(operand) = operand else {
            continue;
        };
        match name.as_str() {
            "$facet" => operand.values().try_for_each(check_inner)?,
            "$lookup" | "$unionWith" => operand.get("pipeline").map_or(Ok(()), check_inner)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_inner(pipeline: &Bson) -> Result<(), Fault> {
    pipeline.as_array().map_or(Ok(()), |p| check_stages(p))
}

/// Returns the names of the collections in `nsInfo` or in the first field of a statement.
pub(super) fn full_names(command: &Document, name: &str, database: &str) -> Vec<String> {
    if name == "bulkWrite" {
        let infos = command.get_array("nsInfo").map(Vec::as_slice);
        let infos = infos.unwrap_or_default().iter();
        let names = infos.filter_map(|info| info.as_document()?.get_str("ns").ok());
        return names.map(str::to_owned).collect();
    }
    let collection = command.get_str(name).ok();
    let names = collection.map(|collection| format!("{database}.{collection}"));
    names.into_iter().collect()
}
