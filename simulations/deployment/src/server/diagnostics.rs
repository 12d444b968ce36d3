//! The commands that describe data and queries: `explain` and `validate`.

use super::{
    Member, commands,
    connection::Request,
    dispatch::{Answer, namespace},
    document::{count_field, truth},
    fault::{Fault, bad_value, fault},
    reply::Reply,
    uuid::refuse_uuid,
};
use crate::store::{Find, Namespace, Query};
use bson::{Bson, Document, doc};
use onionskin_core::{address::Address, time::Instant};

/// The commands that `explain` takes.
const EXPLAINED: [&str; 8] = [
    "find",
    "aggregate",
    "count",
    "distinct",
    "findAndModify",
    "findandmodify",
    "update",
    "delete",
];

impl Member {
    /// Executes `validate`. The store has no files, so only its indexes can be wrong.
    pub(super) fn validate(&mut self, now: Instant, request: &Request) -> Answer {
        let name = namespace(request)?;
        let store = self.replica.store();
        store.refuse_view(&name)?;
        if !store.contains(&name) {
            let text = format!("Collection '{name}' does not exist to validate.");
            return Err(fault(26, text));
        }
        let asks = |name: &str| truth(request.command.get(name));
        if asks("background") && asks("full") {
            let text = "Running the validate command with both { background: true } and \
                        { full: true } is not supported.";
            return Err(fault(72, text));
        }
        let problem = match self.can_wait_for_jobs() {
            true => self
                .query(now, None, Query::Validate(name.clone()))?
                .problem(),
            false => store.problem_of(&name),
        };
        let store = self.replica.store();
        let number = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        let count = number(store.statistics(&name).count);
        let (mut keys, mut details) = (Document::new(), Document::new());
        for index in store.list_indexes(&name)? {
            let index = index.get_str("name").unwrap_or_default().to_owned();
            keys.insert(index.clone(), count);
            details.insert(index, doc! { "valid": problem.is_none() });
        }
        let none: Vec<Bson> = Vec::new();
        let reply = doc! {
            "ns": name.to_string(), "uuid": store.uuid(&name), "nInvalidDocuments": 0,
            "nNonCompliantDocuments": 0, "nrecords": count,
            "nIndexes": number(keys.len() as u64), "keysPerIndex": keys, "indexDetails": details,
            "valid": problem.is_none(), "repaired": false, "warnings": none.clone(),
            "errors": problem.into_iter().collect::<Vec<_>>(),
            "extraIndexEntries": none.clone(), "missingIndexEntries": none.clone(),
            "corruptRecords": none,
        };
        Ok(Reply::from(reply).into())
    }

    /// Executes `explain`: checks the command, and describes how it would select documents.
    pub(super) fn explain(&mut self, now: Instant, request: &Request) -> Answer {
        let Ok(explained) = request.command.get_document(&request.name) else {
            return Err(fault(40414, "BSON field 'explain.explain' is missing"));
        };
        let mut inner = explained.clone();
        inner.insert("$db", request.database.as_str());
        let name = inner.keys().next().cloned().unwrap_or_default();
        if !EXPLAINED.contains(&name.as_str()) {
            return Err(fault(
                59,
                format!("Explain failed due to unknown command: {name}"),
            ));
        }
        let verbosity = request.command.get_str("verbosity");
        let verbosity = verbosity.unwrap_or("allPlansExecution");
        let inner = Request {
            id: request.id,
            bytes: request.bytes,
            compressor: None,
            legacy: false,
            reply_wanted: true,
            exhaust: false,
            name,
            database: request.database.clone(),
            command: inner,
            progress: None,
            checked: None,
        };
        commands::check(&inner, self.program.version.release)?;
        refuse_uuid(&inner)?;
        self.check_uuid(&inner)?;
        self.plan(now, &inner, verbosity)
    }

    /// Returns the reply to the explanation of a command.
    pub(super) fn plan(&mut self, now: Instant, request: &Request, verbosity: &str) -> Answer {
        let command = &request.command;
        let collection = command.get_str(&request.name).unwrap_or("$cmd.aggregate");
        let name = Namespace::new(request.database.clone(), collection);
        self.check_hint(&name, command)?;
        let (filter, limit) = selection(request)?;
        let with_execution = match verbosity {
            "queryPlanner" => false,
            "executionStats" | "allPlansExecution" => true,
            other => {
                return Err(bad_value(format!(
                    "verbosity string must be one of \
                {{'queryPlanner', 'executionStats', 'allPlansExecution'}}, not '{other}'"
                )));
            }
        };
        let find = Find {
            filter: filter.clone(),
            sort: command.get_document("sort").ok().cloned(),
            hint: command.get("hint").cloned(),
            limit,
            skip: count_field(command, "skip"),
            collation: super::read::collation(command),
            ..Find::default()
        };
        let winning = self.winning_plan(&name, &find);
        let variables = command.get_document("let").ok();
        let query = Query::Count(name.clone(), find);
        let found = self.query(now, variables, query)?.number();
        // With an index, only the documents that the filter selects count.
        let (keys, examined) = match winning.get_str("stage") {
            Ok("FETCH" | "IDHACK") => (found, found),
            _ => (0, self.replica.store().statistics(&name).count),
        };
        let number = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        let mut explained = command.clone();
        explained.insert("$db", request.database.as_str());
        let mut reply = doc! {
            "explainVersion": "1",
            "queryPlanner": {
                "namespace": name.to_string(), "parsedQuery": filter,
                "indexFilterSet": false, "winningPlan": winning.clone(),
                "rejectedPlans": Vec::<Bson>::new(),
            },
        };
        if with_execution {
            let mut statistics = doc! {
                "executionSuccess": true, "nReturned": number(found), "executionTimeMillis": 0,
                "totalKeysExamined": number(keys), "totalDocsExamined": number(examined),
                "executionStages": winning,
            };
            if verbosity == "allPlansExecution" {
                statistics.insert("allPlansExecution", Vec::<Bson>::new());
            }
            reply.insert("executionStats", statistics);
        }
        reply.insert("command", explained);
        let version = self.program.version.to_string();
        let port = match &self.options.addresses.get(self.index) {
            Some(Address::Tcp { port, .. }) => i32::from(*port),
            _ => 27017,
        };
        let server = doc! { "host": "localhost", "port": port, "version": version };
        reply.insert("serverInfo", server);
        Ok(Reply::from(reply).into())
    }
}

impl Member {
    /// Returns the stages by which a query finds its documents.
    fn winning_plan(&self, name: &Namespace, find: &Find) -> Document {
        let (store, filter) = (self.replica.store(), &find.filter);
        let id = filter.get("_id").filter(|_| filter.len() == 1);
        let selects_by_id = id.is_some_and(|id| !matches!(id, Bson::Document(_)));
        let index = match selects_by_id {
            true => None,
            false => store.planned_index(name, find),
        };
        match (store.contains(name), index) {
            (false, _) => doc! { "stage": "EOF" },
            (true, None) => {
                let stage = if selects_by_id { "IDHACK" } else { "COLLSCAN" };
                doc! { "stage": stage, "filter": filter.clone(), "direction": "forward" }
            }
            (true, Some((index, is_multikey))) => {
                let scan = index_scan(&index, is_multikey);
                doc! { "stage": "FETCH", "filter": filter.clone(), "inputStage": scan }
            }
        }
    }
}

/// Returns the stage of a plan that reads an index.
fn index_scan(index: &Document, is_multikey: bool) -> Document {
    let flag = |name: &str| truth(index.get(name));
    doc! {
        "stage": "IXSCAN", "keyPattern": index.get("key").cloned(),
        "indexName": index.get("name").cloned(), "isMultiKey": is_multikey,
        "isUnique": flag("unique"), "isSparse": flag("sparse"),
        "isPartial": index.contains_key("partialFilterExpression"),
        "indexVersion": 2, "direction": "forward",
    }
}

/// Returns the filter of a command, and the largest number of documents that it selects, where 0
/// means all.
fn selection(request: &Request) -> Result<(Document, u64), Fault> {
    let command = &request.command;
    let first = |list: &str| {
        let items = command.get_array(list).ok();
        items.and_then(|items| items.first()?.as_document().cloned())
    };
    let document = |from: &Document, key: &str| from.get_document(key).cloned().unwrap_or_default();
    Ok(match request.name.as_str() {
        "find" => {
            let limit = count_field(command, "limit");
            (document(command, "filter"), limit)
        }
        "aggregate" => {
            let stage = first("pipeline").unwrap_or_default();
            (document(&stage, "$match"), 0)
        }
        "findAndModify" | "findandmodify" => (document(command, "query"), 1),
        "update" => (document(&first("updates").unwrap_or_default(), "q"), 0),
        "delete" => (document(&first("deletes").unwrap_or_default(), "q"), 0),
        _ => (document(command, "query"), 0),
    })
}
