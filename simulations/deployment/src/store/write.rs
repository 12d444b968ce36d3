//! Inserts, updates, deletes and `findAndModify`.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::change::Change;
use super::collection::Collection;
use super::error::{StoreError, WriteError};
use super::expression::EvaluationContext;
use super::matcher::Matcher;
use super::order::{equal, identical_documents};
use super::parts::Wanted;
use super::projection::Projection;
use super::read::not_on_view;
use super::sort::Sort;
use super::time_series::measurement;
use super::types::{
    DeleteResult, DeleteStatement, Environment, FindAndModify, FindAndModifyResult, InsertResult,
    Modification, Namespace, Shared, StatementResult, UpdateResult, UpdateStatement,
};
use super::update::{Updater, upsert_base};
use super::{Answer, Store, size, stamp};

/// The result of an update statement, with the first matching document before and after the update.
/// After an upsert, `before` is `None`.
#[derive(Debug, Default)]
pub(super) struct Updated {
    counts: StatementResult,
    before: Option<Shared>,
    after: Option<Shared>,
}

impl Store {
    /// Inserts documents. A document without `_id` gets a new one as its first field.
    ///
    /// # Errors
    ///
    /// If the namespace is not valid or is a view. The errors of single documents are in the
    /// result.
    pub fn insert(
        &mut self,
        namespace: &Namespace,
        documents: Vec<Document>,
        ordered: bool,
        environment: &mut Environment<'_>,
    ) -> Answer<InsertResult> {
        self.check_writable(namespace)?;
        super::names::check_name(namespace)?;
        let mut result = InsertResult::default();
        for (index, document) in documents.into_iter().enumerate() {
            match self.insert_one(namespace, document, environment) {
                Ok(_) => result.inserted += 1,
                Err(error) => {
                    result.errors.push(WriteError { index, error });
                    if ordered {
                        break;
                    }
                }
            }
        }
        Ok(result)
    }

    /// Runs the statements of an update command. A statement that fails on a document keeps the
    /// changes of the documents before it.
    ///
    /// # Errors
    ///
    /// If the namespace is a view. The errors of single statements are in the result.
    pub fn update(
        &mut self,
        namespace: &Namespace,
        statements: &[UpdateStatement],
        ordered: bool,
        environment: &mut Environment<'_>,
    ) -> Answer<UpdateResult> {
        self.check_writable(namespace)?;
        self.refuse_time_series(namespace, "update")?;
        let mut result = UpdateResult::default();
        for (index, statement) in statements.iter().enumerate() {
            match self.update_one(namespace, statement, environment) {
                Ok(Updated { counts, .. }) => {
                    result.matched += counts.matched;
                    result.modified += counts.modified;
                    result
                        .upserted
                        .extend(counts.upserted.clone().map(|id| (index, id)));
                    result.statements.push(counts);
                }
                Err(error) => {
                    result.errors.push(WriteError { index, error });
                    result.statements.push(StatementResult::default());
                    if ordered {
                        break;
                    }
                }
            }
        }
        Ok(result)
    }

    /// Runs the statements of a delete command.
    ///
    /// # Errors
    ///
    /// If the namespace is a view. The errors of single statements are in the result.
    pub fn delete(
        &mut self,
        namespace: &Namespace,
        statements: &[DeleteStatement],
        ordered: bool,
        environment: &mut Environment<'_>,
    ) -> Answer<DeleteResult> {
        self.check_writable(namespace)?;
        self.refuse_time_series(namespace, "delete")?;
        let mut result = DeleteResult::default();
        for (index, statement) in statements.iter().enumerate() {
            match self.delete_one(namespace, statement, environment) {
                Ok(deleted) => result.deleted += deleted,
                Err(error) => {
                    result.errors.push(WriteError { index, error });
                    if ordered {
                        break;
                    }
                }
            }
        }
        Ok(result)
    }

    /// Runs a statement of a delete command. Returns the number of deleted documents.
    fn delete_one(
        &mut self,
        namespace: &Namespace,
        statement: &DeleteStatement,
        environment: &mut Environment<'_>,
    ) -> Answer<u64> {
        let context = self.context(namespace, statement.collation.as_ref(), environment)?;
        self.check_hint_of(namespace, statement.hint.as_ref())?;
        let wanted = Wanted(&statement.filter, None, statement.limit != 0);
        let (_, found) = self.targets(namespace, wanted, &context, &mut environment.parts)?;
        let mut deleted = 0;
        let mut found = found.into_iter();
        while let Some((record, document)) = found.next() {
            let collection = self.collection(namespace);
            environment.parts.count_change(collection, &document);
            self.remove(namespace, record, document)?;
            deleted += 1;
            if found.len() > 0 && environment.parts.must_pause(&context) {
                let serial = self.serial_of(namespace);
                environment.parts.pause(serial, found);
                break;
            }
        }
        Ok(deleted)
    }

    /// Finds one document, modifies it, and returns the document before or after the modification.
    ///
    /// # Errors
    ///
    /// If the namespace is a view, if a part of the command is malformed, or if the filter, the
    /// modification or the projection fails on a document. An error leaves the store unchanged.
    pub fn find_and_modify(
        &mut self,
        namespace: &Namespace,
        command: &FindAndModify,
        environment: &mut Environment<'_>,
    ) -> Answer<FindAndModifyResult> {
        self.check_writable(namespace)?;
        self.refuse_time_series(namespace, "findAndModify")?;
        self.atomically(|store| store.modify(namespace, command, environment))
    }

    fn modify(
        &mut self,
        namespace: &Namespace,
        command: &FindAndModify,
        environment: &mut Environment<'_>,
    ) -> Answer<FindAndModifyResult> {
        let context = self.context(namespace, command.collation.as_ref(), environment)?;
        let projection = command.projection.as_ref().filter(|p| !p.is_empty());
        let projection = projection
            .map(|p| Projection::new(p, true, self.release))
            .transpose()?;
        let matcher = Matcher::new(&command.filter, self.release)?;
        let mut result = FindAndModifyResult::default();
        let value = match &command.modification {
            Modification::Remove => {
                let wanted = Wanted(&command.filter, command.sort.as_ref(), true);
                let parts = &mut environment.parts;
                let (_, found) = self.targets(namespace, wanted, &context, parts)?;
                let first = found.into_iter().next();
                if let Some((record, document)) = first.clone() {
                    self.remove(namespace, record, document)?;
                    result.n = 1;
                }
                first.map(|(_, document)| document)
            }
            Modification::Update {
                update,
                upsert,
                array_filters,
                return_new,
            } => {
                let statement = UpdateStatement {
                    filter: command.filter.clone(),
                    update: update.clone(),
                    multi: false,
                    upsert: *upsert,
                    array_filters: array_filters.clone(),
                    sort: command.sort.clone(),
                    hint: None,
                    collation: command.collation.clone(),
                    constants: None,
                };
                let done = self.update_one(namespace, &statement, environment)?;
                result.updated_existing = done.counts.matched > 0;
                result.n = u64::from(done.counts.matched > 0 || done.counts.upserted.is_some());
                result.upserted = done.counts.upserted;
                if *return_new { done.after } else { done.before }
            }
        };
        result.value = match (value, projection) {
            (Some(document), Some(projection)) => {
                Some(projection.apply(&document, Some(&matcher), &context)?)
            }
            (value, _) => value.map(|d| Document::clone(&d)),
        };
        Ok(result)
    }

    fn check_hint_of(&self, namespace: &Namespace, hint: Option<&Bson>) -> Answer<()> {
        hint.map_or(Ok(()), |hint| self.check_hint(namespace, hint))
    }

    pub(super) fn check_writable(&self, namespace: &Namespace) -> Answer<()> {
        match self.collection(namespace) {
            Some(collection) if collection.view().is_some() => Err(not_on_view(namespace)),
            _ => Ok(()),
        }
    }

    /// Creates the collection if it does not exist. Returns true if it was created.
    pub(super) fn ensure(&mut self, namespace: &Namespace) -> Answer<bool> {
        self.check_writable(namespace)?;
        if self.contains(namespace) {
            return Ok(false);
        }
        self.create_collection(namespace, Document::new())?;
        Ok(true)
    }

    pub(super) fn insert_one(
        &mut self,
        namespace: &Namespace,
        document: Document,
        environment: &mut Environment<'_>,
    ) -> Answer<Shared> {
        let series = self.collection(namespace).and_then(Collection::time_series);
        let mut document = match series {
            Some(series) => measurement(series, &document)?,
            None => with_id_first(document, environment),
        };
        stamp::fill(&mut document, environment);
        check_id(document.get("_id"))?;
        size::check(&document)?;
        self.ensure(namespace)?;
        let Some(collection) = self.collection(namespace) else {
            return Err(StoreError::new(
                26,
                format!("ns does not exist: {namespace}"),
            ));
        };
        collection.validate(&document, None, environment)?;
        let most = collection.bound("size").filter(|_| collection.is_capped());
        if most.is_some_and(|most| size::of(&document) as u64 > most) {
            let text = "object to insert exceeds cappedMaxSize";
            return Err(StoreError::bad_value(text));
        }
        collection.check(namespace, &document, None, self.room())?;
        environment.parts.count_change(Some(collection), &document);
        let (record, document) = (collection.next_record(), Arc::new(document));
        let change = Change::Insert {
            namespace: namespace.clone(),
            record,
            document: document.clone(),
            origin: collection.origin(),
        };
        self.commit(change)?;
        let overflow = self
            .collection(namespace)
            .map(|c| c.overflow())
            .unwrap_or_default();
        for record in overflow {
            let old = self
                .collection(namespace)
                .and_then(|c| c.records.get(&record).cloned());
            if let Some(old) = old {
                self.remove(namespace, record, old)?;
            }
        }
        Ok(document)
    }

    pub(super) fn remove(
        &mut self,
        namespace: &Namespace,
        record: u64,
        document: Shared,
    ) -> Answer<()> {
        let origin = self.collection(namespace).map(Collection::origin);
        let change = Change::Delete {
            namespace: namespace.clone(),
            record,
            document,
            origin: origin.unwrap_or_default(),
        };
        self.commit(change)
    }

    /// Returns the matcher of a filter, and at most `limit` matching records, in the order of
    /// `sort` or in natural order.
    pub(super) fn select(
        &self,
        namespace: &Namespace,
        filter: &Document,
        sort: Option<&Document>,
        limit: usize,
        context: &EvaluationContext,
    ) -> Answer<(Matcher, Vec<(u64, Shared)>)> {
        let matcher = Matcher::new(filter, context.release)?;
        let sort = sort.filter(|s| !s.is_empty()).map(Sort::of_query);
        let sort = sort.transpose()?;
        let Some(collection) = self.collection(namespace) else {
            return Ok((matcher, vec![]));
        };
        let needed = if sort.is_some() { usize::MAX } else { limit };
        let records = collection.matching(&matcher, context, needed)?;
        let found = records
            .iter()
            .filter_map(|r| Some((*r, collection.records.get(r)?.clone())));
        let mut found: Vec<_> = found.collect();
        if let Some(sort) = sort {
            sort.arrange(&mut found, context, |(_, document)| document)?;
            found.truncate(limit);
        }
        Ok((matcher, found))
    }

    pub(super) fn update_one(
        &mut self,
        namespace: &Namespace,
        statement: &UpdateStatement,
        environment: &mut Environment<'_>,
    ) -> Answer<Updated> {
        let context = self.context(namespace, statement.collation.as_ref(), environment)?;
        let updater = Updater::new(&statement.update, &statement.array_filters, self.release)?;
        if statement.multi && updater.is_replacement() {
            let text = "multi update is not supported for replacement-style update";
            return Err(StoreError::failed_to_parse(text));
        }
        self.check_hint_of(namespace, statement.hint.as_ref())?;
        let has_found = environment.parts.has_found();
        let wanted = Wanted(&statement.filter, statement.sort.as_ref(), !statement.multi);
        let parts = &mut environment.parts;
        let (matcher, found) = self.targets(namespace, wanted, &context, parts)?;
        let origin = self.collection(namespace).map(Collection::origin);
        let (origin, style) = (origin.unwrap_or_default(), updater.style());
        let mut done = Updated::default();
        if found.is_empty() && statement.upsert && !has_found {
            let base = upsert_base(&matcher, updater.is_replacement(), &context.budget)?;
            let document = updater.apply(&base, None, true, &context)?;
            let keeps = environment.keeps_empty_timestamps;
            environment.keeps_empty_timestamps = keeps || !updater.is_replacement();
            let inserted = self.insert_one(namespace, document, environment);
            environment.keeps_empty_timestamps = keeps;
            let document = inserted?;
            done.counts.upserted = document.get("_id").cloned();
            done.after = Some(document);
            return Ok(done);
        }
        let mut found = found.into_iter();
        while let Some((record, before)) = found.next() {
            let position = matcher.position(&before, &context);
            let mut after = updater.apply(&before, position, false, &context)?;
            if updater.is_replacement() {
                stamp::fill(&mut after, environment);
            }
            done.counts.matched += 1;
            let changed = !identical_documents(&before, &after);
            let after = match changed {
                true => Arc::new(after),
                false => before.clone(),
            };
            if changed {
                size::check(&after)?;
                if let Some(collection) = self.collection(namespace) {
                    collection.validate(&after, Some(&before), environment)?;
                    collection.check_resized(&before, &after, self.release)?;
                    let room = self.room().saturating_add(size::of(&before));
                    collection.check(namespace, &after, Some(record), room)?;
                    environment.parts.count_change(Some(collection), &after);
                }
                done.counts.modified += 1;
                let change = Change::Replace {
                    namespace: namespace.clone(),
                    record,
                    before: before.clone(),
                    after: after.clone(),
                    origin,
                    style: style.clone(),
                };
                self.commit(change)?;
            }
            done.before.get_or_insert(before);
            done.after.get_or_insert(after);
            if found.len() > 0 && environment.parts.must_pause(&context) {
                let serial = self.serial_of(namespace);
                environment.parts.pause(serial, found);
                break;
            }
        }
        Ok(done)
    }
}

/// Returns the document with `_id` as its first field. A document without `_id` gets a new one.
pub(super) fn with_id_first(mut document: Document, environment: &mut Environment<'_>) -> Document {
    if document.keys().next().is_some_and(|first| first == "_id") {
        return document;
    }
    let id = document
        .remove("_id")
        .unwrap_or_else(|| Bson::ObjectId((environment.ids)()));
    let mut result = doc! { "_id": id };
    result.extend(document);
    result
}

fn check_id(id: Option<&Bson>) -> Answer<()> {
    let kind = match id {
        Some(Bson::Array(_)) => "array",
        Some(Bson::RegularExpression(_)) => "regex",
        Some(value) if equal(value, &Bson::Undefined) => "undefined",
        Some(Bson::Document(inner)) => {
            return match inner.keys().find(|name| name.starts_with('$')) {
                Some(name) if !matches!(name.as_str(), "$ref" | "$id" | "$db") => {
                    let text = format!(
                        "_id fields may not contain '$'-prefixed fields: {name} is \
                                        not valid for storage."
                    );
                    Err(StoreError::new(52, text))
                }
                _ => Ok(()),
            };
        }
        _ => return Ok(()),
    };
    Err(StoreError::new(
        53,
        format!("The '_id' value cannot be of type {kind}"),
    ))
}
