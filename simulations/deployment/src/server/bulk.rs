//! The command `bulkWrite`: inserts, updates and deletes in several collections.

use super::{
    Member,
    connection::Request,
    dispatch::{Answer, Outcome},
    document::{integer, truth},
    fault::{Fault, Reasons, bad_value, fault},
    insert::too_large,
    parts::{Ended, Part, Progress, Statement, Sums},
    reply::{Body, Reply},
    write::{Tally, delete_statement, is_too_large, update_statement},
};
use crate::{
    replica::{Effect, Op},
    store::{
        DeleteStatement, Environment, Namespace, Query, Release, Shared, Store, StoreError, Target,
        UpdateStatement,
    },
};
use bson::{Bson, Document, RawDocument, doc};
use onionskin_core::{bson::decode_document, time::Instant};

/// An operation of the command, and its collection.
pub(super) type BulkStatement = (Namespace, Operation);

/// An operation of the command.
#[derive(Debug)]
pub(super) enum Operation {
    Insert(Document),
    Update(Box<UpdateStatement>),
    Delete(Box<DeleteStatement>),
}

impl Operation {
    const fn is_multi(&self) -> bool {
        match self {
            Self::Insert(_) => false,
            Self::Update(statement) => statement.multi,
            Self::Delete(statement) => statement.limit != 1,
        }
    }

    const fn op(&self) -> Op {
        match self {
            Self::Insert(_) => Op::Insert,
            Self::Update(_) => Op::Update,
            Self::Delete(_) => Op::Delete,
        }
    }

    /// Returns the search of an update or a delete. An insert has none.
    fn query(&self, namespace: &Namespace) -> Query {
        let target = match self {
            Self::Insert(_) => Target::default(),
            Self::Update(statement) => statement.target(),
            Self::Delete(statement) => statement.target(),
        };
        Query::Targets(namespace.clone(), target)
    }

    fn run(
        &self,
        store: &mut Store,
        namespace: &Namespace,
        environment: &mut Environment<'_>,
    ) -> Result<Effect, StoreError> {
        let (matched, modified, upserted, mut errors) = match self {
            Self::Insert(document) => {
                let documents = vec![document.clone()];
                let outcome = store.insert(namespace, documents, true, environment)?;
                (1, 0, None, outcome.errors)
            }
            Self::Update(statement) => {
                let statements = std::slice::from_ref(&**statement);
                statement.define_constants(environment, store.release())?;
                let outcome = store.update(namespace, statements, true, environment)?;
                let upserted = outcome.upserted.into_iter().next().map(|(_, id)| id);
                (outcome.matched, outcome.modified, upserted, outcome.errors)
            }
            Self::Delete(statement) => {
                let statements = std::slice::from_ref(&**statement);
                let outcome = store.delete(namespace, statements, true, environment)?;
                (outcome.deleted, 0, None, outcome.errors)
            }
        };
        match errors.is_empty() {
            true => Ok(Effect::Write {
                op: self.op(),
                matched,
                modified,
                upserted,
            }),
            false => Err(errors.remove(0).error),
        }
    }
}

/// The sums of a command, and the documents of its cursor.
#[derive(Clone, Debug, Default)]
struct Results {
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
    errors: u64,
    entries: Vec<Shared>,
    reasons: Reasons,
}

fn number(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

impl Results {
    fn succeed(&mut self, index: usize, operation: &Operation, effect: &Effect, is_listed: bool) {
        let (matched, modified, upserted) = match effect {
            Effect::Write {
                matched,
                modified,
                upserted,
                ..
            } => (*matched, *modified, upserted.as_ref()),
            // The statement was executed as a findAndModify of one document.
            Effect::Modify { .. } => (1, 1, None),
        };
        let n = matched + u64::from(upserted.is_some());
        let mut entry = doc! { "ok": 1.0, "idx": number(index as u64), "n": number(n) };
        match operation {
            Operation::Insert(_) => self.inserted += n,
            Operation::Delete(_) => self.deleted += n,
            Operation::Update(_) => {
                self.matched += matched;
                self.modified += modified;
                entry.insert("nModified", number(modified));
                if let Some(id) = upserted {
                    self.upserted += 1;
                    entry.insert("upserted", doc! { "_id": id.clone() });
                }
            }
        }
        if is_listed {
            self.entries.push(Shared::new(entry));
        }
    }

    fn fail(&mut self, index: usize, mut error: StoreError) {
        self.errors += 1;
        self.reasons.count(&mut error);
        let mut entry = doc! {
            "ok": 0.0, "idx": number(index as u64), "code": error.code,
            "errmsg": error.message.as_str(), "n": 0,
        };
        entry.extend(Document::clone(&error.details));
        self.entries.push(Shared::new(entry));
    }

    fn counts(&self) -> Document {
        doc! {
            "nErrors": number(self.errors), "nInserted": number(self.inserted),
            "nMatched": number(self.matched), "nModified": number(self.modified),
            "nUpserted": number(self.upserted), "nDeleted": number(self.deleted),
        }
    }
}

/// The sums of a command so far.
#[derive(Clone, Debug)]
pub(super) struct Bulk {
    tally: Tally,
    results: Results,
    /// True if the cursor also has the operations that succeeded.
    lists_all: bool,
}

impl Sums<BulkStatement> for Bulk {
    fn repeat(&mut self, id: i32, index: usize, (_, operation): &BulkStatement, effect: &Effect) {
        self.tally.retried.push(id);
        self.results
            .succeed(index, operation, effect, self.lists_all);
    }

    fn succeed(&mut self, index: usize, (_, operation): &BulkStatement, effect: Effect) {
        self.results
            .succeed(index, operation, &effect, self.lists_all);
        self.tally.effects.push((index, effect));
    }

    fn fail(&mut self, index: usize, error: StoreError) {
        self.results.fail(index, error);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

impl Statement for BulkStatement {
    fn op(&self) -> Op {
        self.1.op()
    }
}

impl Member {
    pub(super) fn bulk_write(&mut self, now: Instant, request: &mut Request) -> Answer {
        let part = match request.progress.take().map(|progress| *progress) {
            Some(Progress::Bulk(part)) => part,
            _ => self.parse_operations(request)?,
        };
        let retryable = self.retryable_write(request, part.statements.len())?;
        if retryable.is_some() && part.statements.iter().any(|(_, o)| o.is_multi()) {
            return Err(fault(72, "Cannot use retryable writes with multi=true"));
        }
        let release = self.release();
        if let Some(retryable) = retryable.as_ref().filter(|_| part.is_new()) {
            for (index, statement) in part.statements.iter().enumerate() {
                if statement.op() == Op::Update {
                    retryable.check_update(&self.replica, index, release)?;
                }
            }
        }
        let limit = self.options.limits.max_document_bytes;
        let ended = self.each(
            now,
            &*request,
            retryable.as_ref(),
            part,
            |(namespace, operation)| operation.query(namespace),
            |store, (namespace, operation), environment| match operation {
                Operation::Insert(document) if is_too_large(document, limit) => {
                    Err(too_large(document, limit).error)
                }
                _ => operation.run(store, namespace, environment),
            },
        );
        let Bulk {
            mut tally, results, ..
        } = match ended {
            Ended::Complete(bulk) => bulk,
            Ended::Later(later) => {
                let (part, answer) = *later;
                request.progress = Some(Box::new(Progress::Bulk(part)));
                return answer;
            }
        };
        let retried = std::mem::take(&mut tally.retried);
        let mut fields = results.counts();
        if !retried.is_empty() {
            fields.insert("retriedStmtIds", retried);
        }
        let listed = self.listed(now, request, "admin.$cmd.bulkWrite".into(), results.entries)?;
        Ok(Outcome::Written(with_fields(listed, fields)?))
    }

    fn parse_operations(&self, request: &mut Request) -> Result<Part<BulkStatement, Bulk>, Fault> {
        let namespaces = namespaces(&request.command)?;
        let statements = self.statements(request, "ops")?.into_iter();
        let release = self.release();
        let operations = statements.map(|s| operation(s, &namespaces, release));
        let operations = operations.collect::<Result<_, _>>()?;
        let sums = Bulk {
            tally: Tally::default(),
            results: Results::default(),
            lists_all: !truth(request.command.get("errorsOnly")),
        };
        Ok(Part::new(operations, sums))
    }
}

/// Adds fields to a reply that has a cursor.
fn with_fields(reply: Reply, fields: Document) -> Result<Reply, Fault> {
    let mut document = match reply.body {
        Body::Tree(document) => document,
        body @ Body::Batch(_) => {
            let bytes = body.to_bytes();
            let raw = RawDocument::from_bytes(&bytes);
            let raw = raw.map_err(|error| bad_value(error.to_string()))?;
            decode_document(raw).map_err(|error| bad_value(error.to_string()))?
        }
    };
    document.extend(fields);
    Ok(Reply {
        body: Body::Tree(document),
        ..reply
    })
}

/// Returns the collections of the field `nsInfo`.
fn namespaces(command: &Document) -> Result<Vec<Namespace>, Fault> {
    let infos = command.get_array("nsInfo");
    let infos = infos.map(Vec::as_slice).unwrap_or_default();
    let names = infos.iter().map(|info| {
        let info = info.as_document().and_then(|info| info.get_str("ns").ok());
        let missing = || fault(40414, "BSON field 'bulkWrite.nsInfo.ns' is missing");
        Member::full_name(info.ok_or_else(missing)?)
    });
    names.collect()
}

/// Parses an operation, and returns it with its collection.
fn operation(
    mut from: Document,
    namespaces: &[Namespace],
    release: Release,
) -> Result<BulkStatement, Fault> {
    let kinds = ["insert", "update", "delete"];
    let kind = kinds.into_iter().find(|kind| from.contains_key(kind));
    let Some(kind) = kind else {
        return Err(fault(9, "Unrecognized bulk operation"));
    };
    let index = from.get(kind).and_then(integer);
    let index = index.and_then(|index| usize::try_from(index).ok());
    let Some(namespace) = index.and_then(|index| namespaces.get(index)) else {
        let text = format!("BulkWrite ops entry {kind} has an invalid nsInfo index.");
        return Err(bad_value(text));
    };
    let multi = truth(from.get("multi"));
    let filter = from.remove("filter");
    let operation = match kind {
        "insert" => match from.remove("document") {
            Some(Bson::Document(document)) => Operation::Insert(document),
            _ => {
                let text = "BSON field 'bulkWrite.ops.document' is missing or no object";
                return Err(fault(40414, text));
            }
        },
        "update" => {
            let mut statement = from;
            statement.insert("q", filter);
            let changes = statement.remove("updateMods");
            statement.insert("u", changes);
            let constants = statement.remove("constants");
            statement.insert("c", constants);
            let statement = update_statement(statement)?;
            statement.update.check_pipeline(release)?;
            Operation::Update(Box::new(statement))
        }
        _ => {
            let mut statement = from;
            statement.insert("q", filter);
            statement.insert("limit", i32::from(!multi));
            Operation::Delete(Box::new(delete_statement(statement)?))
        }
    };
    Ok((namespace.clone(), operation))
}
