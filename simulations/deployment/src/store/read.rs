//! Queries, counts, distinct values and aggregations.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document};

use super::collection::Collection;
use super::error::StoreError;
use super::executor::{Execution, in_execution};
use super::expression::EvaluationContext;
use super::hint::Hinted;
use super::matcher::Matcher;
use super::order::equal;
use super::pipeline::{self, Run};
use super::projection::Projection;
use super::sort::Sort;
use super::stages;
use super::types::{CollectionStatistics, Environment, Find, Namespace, Position, Shared};
use super::{Answer, Store};
use super::{operands, output, path, size, sources};

/// The steps of the comparison of a value with the distinct values so far.
const STEPS_OF_VALUE: u64 = 2;

/// The steps of a projection, besides those for the size of its result.
const STEPS_OF_PROJECTION: u64 = 4;

/// The number of bytes of a projected document that count as one step.
const BYTES_PER_STEP: usize = 64;

impl Store {
    /// Runs a query. Without a sort pattern, the documents come in natural order.
    ///
    /// # Errors
    ///
    /// If the filter, the sort pattern or the projection is malformed or fails on a document, or if
    /// the query exceeds a limit of memory or steps.
    pub fn find(
        &self,
        namespace: &Namespace,
        find: &Find,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Shared>> {
        self.planned_find(namespace, find, environment)?
    }

    /// Runs the query of the command `find`, whose errors tell that they are of its execution.
    pub(crate) fn execute_find(
        &self,
        namespace: &Namespace,
        find: &Find,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Shared>> {
        let found = self.planned_find(namespace, find, environment)?;
        let collection = self.collection(namespace);
        let is_view = collection.is_some_and(|found| found.view_on().is_some());
        let command = match is_view {
            true => Execution::Aggregate,
            false => Execution::Find,
        };
        found.map_err(|error| in_execution(error, command, namespace, self.release))
    }

    /// Runs a query. The inner result is that of the execution; the outer one fails if the query
    /// is malformed.
    fn planned_find(
        &self,
        namespace: &Namespace,
        find: &Find,
        environment: &mut Environment<'_>,
    ) -> Answer<Answer<Vec<Shared>>> {
        let context = self.context(namespace, find.collation.as_ref(), environment)?;
        let matcher = Matcher::new(&find.filter, self.release)?;
        let sort = find
            .sort
            .as_ref()
            .filter(|s| !s.is_empty())
            .map(Sort::of_query)
            .transpose()?;
        check_natural(find)?;
        let collection = self.collection(namespace);
        let is_view = collection.is_some_and(|found| found.view_on().is_some());
        let projection = find.projection.as_ref().filter(|p| !p.is_empty());
        // A server runs a query on a view as a pipeline.
        let projection = projection.map(|projection| match is_view {
            true => operands::project(projection, self.release),
            false => Projection::new(projection, true, self.release),
        });
        let projection = projection.transpose()?;
        let bound = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let skip = bound(find.skip);
        let limit = if find.limit == 0 {
            usize::MAX
        } else {
            bound(find.limit)
        };
        let needed = if sort.is_some() || find.hint.is_some() {
            usize::MAX
        } else {
            skip.saturating_add(limit)
        };
        let hinted = collection.map(|collection| Hinted::new(collection, find));
        let hinted = hinted.transpose()?.unwrap_or_default();
        if is_view {
            check_options_of_view(find)?;
        }
        let execute = || -> Answer<Vec<Shared>> {
            let mut found = match collection {
                None => Vec::new(),
                Some(_) if is_view => self.find_in_view(namespace, find, &matcher, &context)?,
                Some(collection) => find_in(collection, find, &hinted, &matcher, needed, &context)?,
            };
            if let Some(sort) = &sort {
                sort.arrange(&mut found, &context, |(_, document)| document)?;
            }
            let page = found.into_iter().skip(skip).take(limit);
            let page = page.map(|(record, document)| hinted.shown(find, record, document));
            let page = projected(page, projection.as_ref(), &matcher, &context)?;
            context.budget.check()?;
            Ok(page)
        };
        Ok(execute())
    }

    /// Returns the place of the newest document of a collection, after which a tailable cursor
    /// continues; `None` if the collection has no document.
    #[must_use]
    pub fn end(&self, namespace: &Namespace) -> Option<Position> {
        let collection = self.collection(namespace)?;
        let (record, document) = collection.records.last_key_value()?;
        Some(Position {
            serial: collection.serial,
            record: *record,
            document: document.clone(),
        })
    }

    /// Returns at most `limit` documents of a query that are after a place in the collection. If it
    /// pauses, the parts of the environment have the place that it has reached.
    ///
    /// # Errors
    ///
    /// If the collection was dropped, if the document at the place was deleted, or as
    /// [`find`](Self::find).
    pub fn find_after(
        &self,
        namespace: &Namespace,
        find: &Find,
        place: &Position,
        limit: usize,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Shared>> {
        let context = self.context(namespace, find.collation.as_ref(), environment)?;
        let collection = self.collection(namespace);
        let Some(collection) = collection.filter(|found| found.serial == place.serial) else {
            return Err(StoreError::new(175, self.end_of(namespace, place.serial)));
        };
        let stored = collection.records.get(&place.record);
        // An update keeps the place of a document. After a rollback another one can be there.
        let is_same = |stored: &Shared| stored.get("_id") == place.document.get("_id");
        if !stored.is_some_and(is_same) {
            let text = format!(
                "CollectionScan died due to position in capped collection being deleted. Last \
                 seen record id: RecordId({})",
                place.record
            );
            return Err(StoreError::new(136, text));
        }
        let matcher = Matcher::new(&find.filter, self.release)?;
        let projection = find.projection.as_ref().filter(|p| !p.is_empty());
        let projection = projection
            .map(|p| Projection::new(p, true, self.release))
            .transpose()?;
        let mut found = Vec::new();
        for (record, document) in collection.records.iter_from(&(place.record + 1)) {
            if found.len() >= limit {
                break;
            }
            context.budget.step(1)?;
            if matcher.matches(document, &context)? {
                found.push(document.clone());
            }
            if environment.parts.must_pause(&context) {
                environment.parts.reached = Some(Position {
                    serial: collection.serial,
                    record: *record,
                    document: document.clone(),
                });
                break;
            }
        }
        projected(found.into_iter(), projection.as_ref(), &matcher, &context)
    }

    fn find_in_view(
        &self,
        namespace: &Namespace,
        find: &Find,
        matcher: &Matcher,
        context: &EvaluationContext,
    ) -> Answer<Vec<(u64, Shared)>> {
        let run = Run {
            store: self,
            database: &namespace.database,
            context,
            depth: 0,
            parses_only: false,
        };
        let mut kept = Vec::new();
        for document in run.hinted_collection(&namespace.collection, &[], find.hint.as_ref())? {
            if matcher.matches(&document, context)? {
                // The documents of a view have no records.
                kept.push((0, document));
            }
        }
        Ok(kept)
    }

    /// Counts the documents that a query returns.
    ///
    /// # Errors
    ///
    /// If the filter is malformed or fails on a document, or if the query exceeds a limit of memory
    /// or steps.
    pub fn count(
        &self,
        namespace: &Namespace,
        find: &Find,
        environment: &mut Environment<'_>,
    ) -> Answer<u64> {
        self.find(namespace, find, environment)
            .map(|found| found.len() as u64)
    }

    /// Returns the distinct values that the documents of a query have in a field, sorted. Each
    /// element of an array is a value.
    ///
    /// # Errors
    ///
    /// If the filter is malformed or fails on a document, or if the query exceeds a limit of memory
    /// or steps.
    pub fn distinct(
        &self,
        namespace: &Namespace,
        key: &str,
        find: &Find,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Bson>> {
        let context = self.context(namespace, find.collation.as_ref(), environment)?;
        if key.contains('\0') {
            let text = "Key field cannot contain an embedded null byte";
            return Err(StoreError::new(31032, text));
        }
        path::check(key)?;
        let found = self.find(namespace, find, environment)?;
        let mut values = BTreeMap::new();
        for document in &found {
            context.budget.step(1)?;
            for value in path::values(document, key) {
                context.budget.step(STEPS_OF_VALUE)?;
                values.entry(context.key(value)).or_insert(value);
            }
        }
        context.budget.check()?;
        Ok(values.into_values().cloned().collect())
    }

    /// True if the last stage of a pipeline is `$out` or `$merge`.
    #[must_use]
    pub fn pipeline_writes(pipeline: &[Document]) -> bool {
        pipeline
            .last()
            .is_some_and(|s| s.contains_key("$out") || s.contains_key("$merge"))
    }

    /// Runs a pipeline on a collection, or on the database if `collection` is `None` (`aggregate:
    /// 1`). The default collation is that of the collection. With a hint, the documents come in the
    /// order of its index.
    ///
    /// # Errors
    ///
    /// If the pipeline or a stage is malformed, if the index of the hint does not exist, if a stage
    /// fails on a document or exceeds a limit of memory or steps, or if `$out` or `$merge` cannot
    /// write.
    pub fn aggregate(
        &mut self,
        database: &str,
        collection: Option<&str>,
        pipeline: &[Document],
        collation: Option<&Document>,
        hint: Option<&Bson>,
        environment: &mut Environment<'_>,
    ) -> Answer<Vec<Shared>> {
        let (stages, last) = match pipeline.split_last() {
            Some((last, stages)) if Self::pipeline_writes(pipeline) => (stages, Some(last)),
            _ => (pipeline, None),
        };
        stages::check(pipeline, self.release)?;
        last.map_or(Ok(()), |last| output::check(last, self.release))?;
        let result = self.run_stages(database, collection, stages, collation, hint, environment)?;
        match last {
            None => Ok(result),
            Some(last) => {
                let source = Namespace::new(database, collection.unwrap_or("$cmd.aggregate"));
                let mut outputs = self.outputs(source, last, result)?;
                while !outputs.is_complete() {
                    self.write_some(&mut outputs, environment)?;
                }
                Ok(Vec::new())
            }
        }
    }

    /// Runs the stages of a pipeline that write nothing.
    pub(super) fn run_stages(
        &self,
        database: &str,
        collection: Option<&str>,
        stages: &[Document],
        collation: Option<&Document>,
        hint: Option<&Bson>,
        environment: &Environment<'_>,
    ) -> Answer<Vec<Shared>> {
        stages::check(stages, self.release)?;
        pipeline::parse(stages, 0, self.release)?;
        let namespace = Namespace::new(database, collection.unwrap_or_default());
        let context = self.context(&namespace, collation, environment)?;
        if let Some(hint) = hint.filter(|_| collection.is_some()) {
            self.check_hint(&namespace, hint)?;
        }
        let run = Run {
            store: self,
            database,
            context: &context,
            depth: 0,
            parses_only: false,
        };
        let own = stages::makes_documents(stages);
        let result = match collection {
            Some(name) if !own => run.hinted_collection(name, stages, hint),
            None if !own => {
                let text = match stages.first().and_then(|stage| stage.keys().next()) {
                    Some(name) => format!("'{name}'"),
                    None => "an empty pipeline".to_owned(),
                };
                let text =
                    format!("{{aggregate: 1}} is not valid for {text}; a collection is required.");
                return Err(StoreError::new(73, text));
            }
            name => {
                sources::check(stages, self.release)?;
                run.stages(Vec::new(), name.unwrap_or_default(), stages)
            }
        };
        let checked = result.and_then(|result| context.budget.check().map(|()| result));
        let shown = Namespace::new(database, collection.unwrap_or("$cmd.aggregate"));
        checked.map_err(|error| in_execution(error, Execution::Aggregate, &shown, self.release))
    }

    /// Returns the statistics of `collStats`. All numbers are 0 if the collection does not exist.
    #[must_use]
    pub fn statistics(&self, namespace: &Namespace) -> CollectionStatistics {
        let Some(collection) = self.collection(namespace) else {
            return CollectionStatistics::default();
        };
        let is_capped = collection.is_capped();
        let bound = |name| collection.bound(name).filter(|_| is_capped).unwrap_or(0);
        CollectionStatistics {
            count: collection.records.len() as u64,
            size_bytes: collection.size_bytes(),
            indexes: u32::try_from(collection.indexes.len() + 1).unwrap_or(u32::MAX),
            capped: is_capped,
            max_count: bound("max"),
            max_size_bytes: bound("size"),
        }
    }

    /// True if the collection or view exists.
    #[must_use]
    pub fn contains(&self, namespace: &Namespace) -> bool {
        self.collection(namespace).is_some()
    }
}

/// Returns an error if a query is sorted by `$natural` and has a hint for another order.
fn check_natural(find: &Find) -> Answer<()> {
    let sort = find.sort.as_ref().and_then(|sort| sort.get("$natural"));
    let text = match (sort, &find.hint) {
        (Some(sort), Some(Bson::Document(hint))) if !hint.is_empty() => {
            match hint.get("$natural") {
                Some(natural) if equal(natural, sort) => return Ok(()),
                Some(_) => "$natural hint must be in the same direction as $natural sort order",
                None => "index hint not allowed with $natural sort order",
            }
        }
        (Some(_), Some(Bson::String(_))) => "index hint not allowed with $natural sort order",
        _ => return Ok(()),
    };
    Err(StoreError::bad_value(text))
}

/// Returns at most `limit` matching records of a collection, in natural order or in that of the
/// hint.
pub(super) fn find_in(
    collection: &Collection,
    find: &Find,
    hinted: &Hinted,
    matcher: &Matcher,
    limit: usize,
    context: &EvaluationContext,
) -> Answer<Vec<(u64, Shared)>> {
    let records = collection.matching(matcher, context, limit)?;
    let stored = |record: u64| Some((record, collection.records.get(&record)?.clone()));
    let mut found: Vec<_> = records.into_iter().filter_map(stored).collect();
    let context = EvaluationContext {
        collation: hinted.collation(collection),
        ..context.clone()
    };
    if find.hint.is_some() {
        context.budget.step(found.len() as u64)?;
    }
    if let Some(index) = hinted.index(collection) {
        found.retain(|(_, document)| !index.omits(document));
    }
    hinted.arrange(find, &mut found, &context);
    Ok(found)
}

/// Returns the documents of a result as the projection shows them.
fn projected(
    documents: impl Iterator<Item = Shared>,
    projection: Option<&Projection>,
    matcher: &Matcher,
    context: &EvaluationContext,
) -> Answer<Vec<Shared>> {
    let Some(projection) = projection else {
        return Ok(documents.collect());
    };
    let budget = &context.budget;
    let mut shown = Vec::new();
    for document in documents {
        let mark = budget.charged();
        let result = projection.apply(&document, Some(matcher), context)?;
        budget.release_to(mark);
        match projection.computes() {
            true => budget.hold_document(&result)?,
            false => {
                let bytes = (size::of(&result) / BYTES_PER_STEP) as u64;
                budget.step(STEPS_OF_PROJECTION + bytes)?;
            }
        }
        shown.push(Arc::new(result));
    }
    Ok(shown)
}

/// Returns an error if a query on a view has an option that an aggregation does not have.
fn check_options_of_view(find: &Find) -> Answer<()> {
    let given = [
        ("min", find.min.is_some()),
        ("max", find.max.is_some()),
        ("returnKey", find.return_key),
        ("showRecordId", find.show_record_id),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None if find
            .sort
            .as_ref()
            .is_some_and(|sort| sort.contains_key("$natural")) =>
        {
            let text = "Sort option $natural not supported in aggregation.";
            Err(StoreError::new(168, text))
        }
        None => Ok(()),
        Some((name, _)) => {
            let text = format!("Option {name} not supported in aggregation.");
            Err(StoreError::new(168, text))
        }
    }
}

/// Returns the error for a command that is not permitted on a view.
pub(super) fn not_on_view(namespace: &Namespace) -> StoreError {
    StoreError::new(
        166,
        format!("Namespace {namespace} is a view, not a collection"),
    )
}
