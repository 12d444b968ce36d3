//! The commands `find`, `getMore`, `killCursors`, `count`, `distinct` and `aggregate`.

use super::{
    Member,
    connection::Request,
    cursor::{Cursor, Tail, make_batch},
    dispatch::{Answer, Outcome, namespace},
    document::{count_field, integer, integer_field, truth},
    fault::{Fault, bad_value, fault},
    reply::Reply,
    retry::session_key,
    write::{documents, set_bypasses},
};
use crate::store::{
    Collection, Find, GIVEN, MAX_DOCUMENT_BYTES, Namespace, Query, Shared, Store, change_stream,
    encoded_bytes,
};
use bson::{Bson, DateTime, Document, doc};
use onionskin_core::time::Instant;
use std::{collections::BTreeSet, slice};

/// The default size of a first batch, in documents.
pub(super) const FIRST_BATCH: usize = 101;

/// True if an aggregate writes its result to a collection.
pub(super) fn pipeline_writes(request: &Request) -> bool {
    let stages = request.command.get_array("pipeline").into_iter().flatten();
    let last = stages.rev().find_map(Bson::as_document);
    last.is_some_and(|last| Store::pipeline_writes(slice::from_ref(last)))
}

impl Member {
    pub(super) fn find(&mut self, now: Instant, request: &Request) -> Answer {
        let collection = namespace(request)?;
        let command = &request.command;
        let find = find_of(command)?;
        let is_view = |found: &Collection| found.view_on().is_some();
        if self
            .replica
            .store()
            .collection(&collection)
            .is_some_and(is_view)
        {
            check_on_view(command)?;
        }
        check_tailable(command)?;
        self.check_hint(&collection, command)?;
        let variables = command.get_document("let").ok();
        let tailable = truth(command.get("tailable"));
        let (limit, known_end) = (find.limit, known_end(&find));
        let tail_find = tailable.then(|| find.clone());
        let query = Query::Find(collection.clone(), find);
        let (found, end) = self.query(now, variables, query)?.with_end();
        let is_missing = !self.replica.store().contains(&collection);
        let is_capped = self.replica.store().statistics(&collection).capped;
        if tailable && !is_missing && !is_capped {
            return Err(bad_value(
                "error processing query: tailable cursor on non capped collection",
            ));
        }
        let ends_early = is_missing || found.len() as u64 >= known_end;
        // A tailable cursor on a collection without documents ends at once, as in the server.
        let tail = end.zip(tail_find).map(|(place, find)| Tail {
            limit: match usize::try_from(limit) {
                Ok(0) | Err(_) => usize::MAX,
                Ok(limit) => limit.saturating_sub(found.len()),
            },
            collection: collection.clone(),
            find,
            variables: variables.cloned(),
            place,
            awaits: truth(command.get("awaitData")),
        });
        let single = truth(command.get("singleBatch"));
        let size = batch_size(command)?.unwrap_or(FIRST_BATCH);
        let cursor = Cursor {
            serial: self.replica.store().serial_of(&collection),
            namespace: collection.to_string(),
            session: session_key(command),
            transaction: None,
            documents: found.into(),
            tail,
            stream: None,
            no_timeout: truth(command.get("noCursorTimeout")),
            ends_early,
            is_limited: is_limited(command),
            bytes: 0,
        };
        Ok(self.first_batch(now, cursor, size, single)?.into())
    }

    pub(super) fn aggregate(&mut self, now: Instant, request: &mut Request) -> Answer {
        if request.progress.is_some() {
            return self.continue_outputs(now, request);
        }
        let command = &request.command;
        let pipeline = match command.get("pipeline") {
            Some(Bson::Array(_)) => documents(command, "pipeline"),
            _ => return Err(fault(40414, "BSON field 'aggregate.pipeline' is missing")),
        };
        let pipeline = self.with_sessions(now, command, pipeline);
        if truth(command.get("explain")) {
            return self.plan(now, request, "queryPlanner");
        }
        let Ok(options) = command.get_document("cursor") else {
            let text =
                "The 'cursor' option is required, except for aggregate with the explain argument";
            return Err(fault(9, text));
        };
        if let Some(operand) = change_stream(&pipeline) {
            return self.open_stream(now, request, operand, &pipeline[1..]);
        }
        let collection = command.get_str(&request.name).ok().map(str::to_owned);
        let database = request.database.as_str();
        let variables = command.get_document("let").ok();
        let (given, hint) = (collation(command), command.get("hint").cloned());
        let size = batch_size(options)?.unwrap_or(FIRST_BATCH);
        let writes = Store::pipeline_writes(&pipeline);
        if writes && self.can_wait_for_jobs() {
            return self.begin_outputs(now, request, &pipeline);
        }
        let documents = if writes {
            self.with_store(now, variables, |store, environment| {
                set_bypasses(environment, command);
                let collection = collection.as_deref();
                let (given, hint) = (given.as_ref(), hint.as_ref());
                store.aggregate(database, collection, &pipeline, given, hint, environment)
            })?
        } else {
            let query = Query::Aggregate(database.to_owned(), collection, pipeline, given, hint);
            self.query(now, variables, query)?.documents()
        };
        let cursor = self.pipeline_cursor(request, documents, writes);
        let reply = self.first_batch(now, cursor, size, false)?;
        Ok(if writes {
            Outcome::Written(reply)
        } else {
            reply.into()
        })
    }

    /// Returns the reply with the first batch of generated documents, such as a list of
    /// collections.
    pub(super) fn listing(
        &mut self,
        now: Instant,
        request: &Request,
        namespace: String,
        entries: Vec<Document>,
    ) -> Answer {
        let entries = entries.into_iter().map(Shared::new).collect();
        Ok(self.listed(now, request, namespace, entries)?.into())
    }

    /// Returns the reply with a cursor over these documents.
    pub(super) fn listed(
        &mut self,
        now: Instant,
        request: &Request,
        namespace: String,
        entries: Vec<Shared>,
    ) -> Result<Reply, Fault> {
        let options = request.command.get_document("cursor");
        let size = match options {
            Ok(options) => batch_size(options)?,
            Err(_) => None,
        };
        let cursor = Cursor {
            namespace,
            serial: 0,
            session: session_key(&request.command),
            transaction: None,
            documents: entries.into(),
            tail: None,
            stream: None,
            no_timeout: false,
            ends_early: true,
            is_limited: false,
            bytes: 0,
        };
        self.first_batch(now, cursor, size.unwrap_or(FIRST_BATCH), false)
    }

    pub(super) fn get_more(&mut self, now: Instant, request: &mut Request) -> Answer {
        let progress = request.progress.take();
        let command = &request.command;
        let id = integer_field(command, &request.name).unwrap_or(0);
        let full = full_name(request);
        match self.cursors.get(id) {
            None => return Err(fault(43, format!("cursor id {id} not found"))),
            Some(cursor) if cursor.namespace != full => {
                let text = format!(
                    "Requested getMore on namespace '{full}', but cursor belongs to a different \
                     namespace {}",
                    cursor.namespace
                );
                return Err(fault(13, text));
            }
            Some(cursor) => {
                let number = self.transactions.running_number();
                cursor.check_owner(id, session_key(command), number)?;
            }
        }
        if let Some(fault) = self.collection_end(id) {
            self.cursors.remove(id);
            return Err(fault);
        }
        let awaits = self.cursors.get(id).is_some_and(Cursor::awaits);
        if count_field(command, "maxTimeMS") > 0 && !awaits {
            let text = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
            return Err(bad_value(text));
        }
        let is_limited = self.cursors.get(id).is_some_and(|cursor| cursor.is_limited);
        if progress.is_none()
            && let Some(fault) = self.fail_get_more(is_limited)
        {
            let fault = self.labelled(request, fault);
            // A getMore that fails after it has taken the cursor closes the cursor.
            self.cursors.remove(id);
            return Err(fault);
        }
        let is_empty = self.cursors.get(id).is_some_and(|c| c.documents.is_empty());
        if is_empty && let Some(waiting) = self.look_for_more(now, id, request, progress)? {
            return Ok(waiting);
        }
        self.next_batch(now, request)
    }

    /// Returns an error if the collection of a cursor was dropped or renamed after the cursor was
    /// opened.
    fn collection_end(&self, id: i64) -> Option<Fault> {
        let cursor = self.cursors.get(id)?;
        let store = self.replica.store();
        let (database, collection) = cursor.namespace.split_once('.').unwrap_or_default();
        let name = Namespace::new(database, collection);
        let is_bound = cursor.serial != 0 && cursor.transaction.is_none();
        (is_bound && cursor.serial != store.serial_of(&name))
            .then(|| fault(175, store.end_of(&name, cursor.serial)))
    }

    pub(super) fn next_batch(&mut self, now: Instant, request: &Request) -> Answer {
        let id = integer_field(&request.command, &request.name).unwrap_or(0);
        let size = batch_size(&request.command)?.filter(|&n| n > 0);
        let Some(mut cursor) = self.cursors.remove(id) else {
            return Err(fault(43, format!("cursor id {id} not found")));
        };
        let (reply, open) = make_batch(
            "nextBatch",
            id,
            &mut cursor,
            size.unwrap_or(usize::MAX),
            None,
        );
        if open {
            self.cursors.insert(now, id, cursor);
        }
        Ok(reply.into())
    }

    pub(super) fn kill_cursors(&mut self, now: Instant, request: &Request) -> Answer {
        let ids = request.command.get_array("cursors");
        let ids = ids.map(Vec::as_slice).unwrap_or_default();
        let (mut killed, mut missing) = (Vec::new(), Vec::new());
        let mut closed = BTreeSet::new();
        for id in ids.iter().filter_map(integer) {
            match self.cursors.remove(id) {
                Some(cursor) => {
                    // A dropped collection can have left its documents to the cursor.
                    let bytes = cursor.bytes.max(64 * cursor.documents.len());
                    self.garbage.add(bytes, cursor.documents);
                    closed.insert(id);
                    killed.push(Bson::Int64(id));
                }
                None => missing.push(Bson::Int64(id)),
            }
        }
        self.interrupt_tails(now, &closed);
        let none: Vec<Bson> = Vec::new();
        let reply = doc! {
            "cursorsKilled": killed, "cursorsNotFound": missing,
            "cursorsAlive": none.clone(), "cursorsUnknown": none,
        };
        Ok(Reply::from(reply).into())
    }

    pub(super) fn count(&mut self, now: Instant, request: &Request) -> Answer {
        let collection = namespace(request)?;
        let command = &request.command;
        self.check_hint(&collection, command)?;
        let find = Find {
            filter: command.get_document("query").cloned().unwrap_or_default(),
            limit: integer_field(command, "limit").unwrap_or(0).unsigned_abs(),
            skip: count_field(command, "skip"),
            hint: command.get("hint").cloned(),
            collation: collation(command),
            ..Find::default()
        };
        let n = self
            .query(now, None, Query::Count(collection, find))?
            .number();
        let n = i32::try_from(n).unwrap_or(i32::MAX);
        Ok(Reply::from(doc! { "n": n }).into())
    }

    pub(super) fn distinct(&mut self, now: Instant, request: &Request) -> Answer {
        let collection = namespace(request)?;
        let command = &request.command;
        let Ok(key) = command.get_str("key") else {
            return Err(fault(40414, "BSON field 'distinct.key' is missing"));
        };
        self.check_hint(&collection, command)?;
        let find = Find {
            filter: command.get_document("query").cloned().unwrap_or_default(),
            hint: command.get("hint").cloned(),
            collation: collation(command),
            ..Find::default()
        };
        let query = Query::Distinct(collection, key.to_owned(), find);
        let values = self.query(now, None, query)?.values();
        let mut reply = doc! { "values": values };
        if encoded_bytes(&reply) > MAX_DOCUMENT_BYTES {
            return Err(fault(17217, "distinct too big, 16mb cap"));
        }
        if let Some(at) = self.view.as_ref().and_then(|view| view.at) {
            reply.insert("atClusterTime", at);
        }
        Ok(Reply::from(reply).into())
    }

    /// Replaces the stage `$listLocalSessions` at the start of a pipeline by its documents. Only
    /// the session of the command is known.
    pub(super) fn with_sessions(
        &self,
        now: Instant,
        command: &Document,
        mut pipeline: Vec<Document>,
    ) -> Vec<Document> {
        if let Some(first) = pipeline.first_mut()
            && first.contains_key("$listLocalSessions")
        {
            let last_use = DateTime::from_millis(self.wall_millis(now).cast_signed());
            let id = command.get_document("lsid").ok();
            let sessions = id.map(|id| doc! { "_id": id.clone(), "lastUse": last_use });
            let sessions: Vec<Document> = sessions.into_iter().collect();
            *first = doc! { GIVEN: { "$literal": sessions } };
        }
        pipeline
    }

    /// Returns an error if the index of a command's `hint` does not exist.
    pub(super) fn check_hint(&self, namespace: &Namespace, of: &Document) -> Result<(), Fault> {
        match of.get("hint") {
            None => Ok(()),
            Some(hint) => Ok(self.replica.store().check_hint(namespace, hint)?),
        }
    }

    pub(super) fn first_batch(
        &mut self,
        now: Instant,
        mut cursor: Cursor,
        size: usize,
        single: bool,
    ) -> Result<Reply, Fault> {
        let id = loop {
            let id = (self.random.next_u64() >> 1).cast_signed();
            if id != 0 && self.cursors.get(id).is_none() {
                break id;
            }
        };
        if single {
            cursor.documents.truncate(size);
            cursor.tail = None;
            cursor.ends_early = true;
        }
        let at = self.view.as_ref().and_then(|view| view.at);
        let (reply, open) = make_batch("firstBatch", id, &mut cursor, size, at);
        if open {
            let measured = self.jobs.take_own_bytes();
            cursor.bytes = measured.unwrap_or_else(|| cursor.own_bytes());
            self.cursors.check_room(&cursor)?;
            cursor.transaction = self.transactions.note_cursor();
            self.cursors.insert(now, id, cursor);
        }
        Ok(reply)
    }
}

/// Returns an error if a `find` on a view has an option that a pipeline does not have.
fn check_on_view(command: &Document) -> Result<(), Fault> {
    let is_set = |name: &&str| truth(command.get(name));
    let mut options = ["noCursorTimeout", "allowPartialResults"].into_iter();
    let is_part = truth(command.get("singleBatch")) && count_field(command, "limit") != 1;
    let text = match options
        .find(is_set)
        .or_else(|| is_part.then_some("singleBatch"))
    {
        _ if is_set(&"tailable") => "Tailable cursors are not supported in aggregation.".to_owned(),
        Some(name) => format!("Option {name} not supported in aggregation."),
        None => return Ok(()),
    };
    Err(fault(168, text))
}

/// Returns an error if the options of a query for a tailable cursor exclude each other.
fn check_tailable(command: &Document) -> Result<(), Fault> {
    let is_set = |name: &str| truth(command.get(name));
    if !is_set("tailable") {
        let text = "Cannot set 'awaitData' without also setting 'tailable'";
        return match is_set("awaitData") {
            true => Err(fault(9, text)),
            false => Ok(()),
        };
    }
    let is_natural =
        |sort: &Document| sort.is_empty() || sort.get("$natural").and_then(integer) == Some(1);
    if command
        .get_document("sort")
        .is_ok_and(|sort| !is_natural(sort))
    {
        let text = "cannot use tailable option with a sort other than {$natural: 1}";
        return Err(bad_value(text));
    }
    if is_set("singleBatch") {
        return Err(bad_value(
            "cannot use tailable option with the 'singleBatch' option",
        ));
    }
    Ok(())
}

fn find_of(command: &Document) -> Result<Find, Fault> {
    let document = |key: &str| command.get_document(key).ok().cloned();
    Ok(Find {
        filter: document("filter").unwrap_or_default(),
        sort: document("sort"),
        projection: document("projection"),
        skip: count_field(command, "skip"),
        limit: count_field(command, "limit"),
        hint: command.get("hint").cloned(),
        min: document("min").filter(|d| !d.is_empty()),
        max: document("max").filter(|d| !d.is_empty()),
        return_key: truth(command.get("returnKey")),
        show_record_id: truth(command.get("showRecordId")),
        collation: collation(command),
    })
}

/// Returns the collation of a command or statement.
pub(super) fn collation(of: &Document) -> Option<Document> {
    of.get_document("collation").ok().cloned()
}

/// Returns the number of documents after which the server knows that a query has ended, without
/// looking for a further one: that of the limit, and any number if all documents were sorted or the
/// query was for one `_id`.
fn known_end(find: &Find) -> u64 {
    let is_sorted = find.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    let mut fields = find.filter.iter();
    let is_one = match (fields.next(), fields.next()) {
        (Some((name, value)), None) => {
            name == "_id" && !matches!(value, Bson::Document(_) | Bson::RegularExpression(_))
        }
        _ => false,
    };
    match find.limit {
        _ if is_sorted || is_one => 0,
        0 => u64::MAX,
        limit => limit,
    }
}

/// True if a command has a time limit, which its cursor shares.
pub(super) fn is_limited(command: &Document) -> bool {
    integer_field(command, "maxTimeMS").is_some_and(|limit| limit > 0)
}

pub(super) fn batch_size(from: &Document) -> Result<Option<usize>, Fault> {
    match integer_field(from, "batchSize") {
        None => Ok(None),
        Some(n) => match usize::try_from(n) {
            Ok(n) => Ok(Some(n)),
            Err(_) => Err(fault(51024, "BSON field 'batchSize' value must be >= 0")),
        },
    }
}

fn full_name(request: &Request) -> String {
    let collection = request.command.get_str("collection").unwrap_or_default();
    format!("{}.{collection}", request.database)
}
