//! Aggregation pipelines.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::error::StoreError;
use super::expression::{self, EvaluationContext, Scope};
use super::group::{group, unwind};
use super::hint::Hinted;
use super::matcher::Matcher;
use super::operands;
use super::order::type_name;
use super::projection::Projection;
use super::read::find_in;
use super::release::Release;
use super::sort::Sort;
use super::stages::{GIVEN, check, unrecognized};
use super::types::{Find, Namespace, Shared};
use super::validation::check_allowed;
use super::{Store, size};

pub(super) type Answer<T> = Result<T, StoreError>;

/// The largest depth of nested pipelines and of views on views.
pub(super) const MAX_DEPTH: usize = 20;

/// The operators of queries that the stage `$match` must not have.
const NOT_IN_MATCH: &[&str] = &["$where", "$near", "$nearSphere", "$geoNear"];

/// Applies the pipeline of an update to a document, and returns the result.
pub(crate) fn transform(
    document: &Document,
    stages: &[Document],
    context: &EvaluationContext,
) -> Answer<Document> {
    let store = Store::default();
    let run = Run {
        store: &store,
        database: "",
        context,
        depth: 0,
        parses_only: false,
    };
    let result = run.stages(vec![Arc::new(document.clone())], "", stages)?;
    Ok(result
        .first()
        .map(|d| Document::clone(d))
        .unwrap_or_default())
}

/// Checks all stages and their operands, also where no document reaches them. `$collStats` and
/// `$indexStats` at the start are left out, because they need a collection.
pub(crate) fn parse(stages: &[Document], depth: usize, release: Release) -> Answer<()> {
    let context = EvaluationContext {
        release,
        ..EvaluationContext::default()
    };
    let run = Run {
        store: &Store::default(),
        database: "",
        context: &context,
        depth,
        parses_only: true,
    };
    let first = stages.first().and_then(|stage| stage.keys().next());
    let needs_collection = first.is_some_and(|name| name == "$collStats" || name == "$indexStats");
    let stages = &stages[usize::from(needs_collection)..];
    run.stages(Vec::new(), "", stages).map(|_| ())
}

/// The store, the database and the context with which a pipeline runs, and its depth in other
/// pipelines and views.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a str,
    pub(crate) context: &'a EvaluationContext,
    pub(crate) depth: usize,
    /// True if operands are only checked: no stage makes documents, also not `$facet`.
    pub(crate) parses_only: bool,
}

impl Run<'_> {
    /// Passes documents through the stages. The caller carries out `$out` and `$merge`.
    pub(crate) fn stages(
        &self,
        mut documents: Vec<Shared>,
        collection: &str,
        stages: &[Document],
    ) -> Answer<Vec<Shared>> {
        self.check_depth()?;
        let mark = self.context.budget.charged();
        let mut rest = stages;
        while !rest.is_empty() {
            // The bytes that earlier stages charged do not count for this stage.
            self.context.budget.release_to(mark);
            let (count, needed) = limited(rest).unwrap_or((0, 0));
            let (first, others) = rest.split_at(count.max(1));
            documents = match count {
                0 => self.one_after_another(documents, collection, first)?,
                _ => self.until(needed, documents, collection, first)?,
            };
            rest = others;
        }
        Ok(documents)
    }

    /// Passes documents through stages, of which each handles all documents before the next.
    fn one_after_another(
        &self,
        mut documents: Vec<Shared>,
        collection: &str,
        stages: &[Document],
    ) -> Answer<Vec<Shared>> {
        let budget = &self.context.budget;
        let mark = budget.charged();
        for stage in stages {
            let Some((name, operand)) = stage.iter().next() else {
                continue;
            };
            // The bytes that earlier stages charged do not count for this stage.
            budget.release_to(mark);
            budget.step(documents.len() as u64)?;
            documents = self.stage(documents, collection, name, operand)?;
        }
        Ok(documents)
    }

    /// Passes documents through stages that handle each document alone, until there are as many
    /// results as a later `$limit` takes. A server does not read more, so that further documents
    /// cause no errors.
    fn until(
        &self,
        needed: usize,
        documents: Vec<Shared>,
        collection: &str,
        stages: &[Document],
    ) -> Answer<Vec<Shared>> {
        let mut results = Vec::new();
        let mut rest = &documents[..];
        let mut most = needed;
        loop {
            let (part, others) = rest.split_at(most.min(rest.len()));
            let before = self.context.budget.charged();
            match self.one_after_another(part.to_vec(), collection, stages) {
                Ok(more) => results.extend(more),
                Err(error) if part.len() < 2 => return Err(error),
                Err(_) => {
                    self.context.budget.release_to(before);
                    for document in part {
                        if results.len() >= needed {
                            break;
                        }
                        let alone = vec![document.clone()];
                        results.extend(self.one_after_another(alone, collection, stages)?);
                    }
                }
            }
            if results.len() >= needed || others.is_empty() {
                return Ok(results);
            }
            rest = others;
            most = most.saturating_mul(2);
        }
    }

    fn check_depth(&self) -> Answer<()> {
        if self.depth > MAX_DEPTH {
            let text = format!("Sub-pipeline exceeds the maximum depth of {MAX_DEPTH}");
            return Err(StoreError::new(57, text));
        }
        Ok(())
    }

    pub(super) fn stage(
        &self,
        mut documents: Vec<Shared>,
        collection: &str,
        name: &str,
        operand: &Bson,
    ) -> Answer<Vec<Shared>> {
        let release = self.context.release;
        match name {
            "$match" => {
                let filter = object(15959, name, operand)?;
                check_allowed(filter, NOT_IN_MATCH, release)?;
                let matcher = Matcher::new(filter, release)?;
                let mut kept = Vec::new();
                for document in documents {
                    if matcher.matches(&document, self.context)? {
                        kept.push(document);
                    }
                }
                Ok(kept)
            }
            "$project" | "$unset" => {
                let projection = match name {
                    "$project" => operands::project(object(15969, name, operand)?, release)?,
                    _ => operands::unset(operand)?,
                };
                self.each(documents, |d| projection.apply(d, None, self.context))
            }
            "$addFields" | "$set" => {
                let added = Projection::adding(name, object(40272, name, operand)?, release)?;
                self.each(documents, |d| added.apply(d, None, self.context))
            }
            "$sort" => {
                let sort = Sort::of_stage(object(15973, name, operand)?)?;
                sort.arrange(&mut documents, self.context, |document| document)?;
                Ok(documents)
            }
            "$group" => group(&documents, object(15947, name, operand)?, self.context),
            "$sortByCount" => {
                operands::check_sort_by_count(operand)?;
                let spec = doc! { "_id": operand.clone(), "count": { "$sum": 1 } };
                let mut groups = group(&documents, &spec, self.context)?;
                let sort = Sort::new(&doc! { "count": -1 })?;
                sort.arrange(&mut groups, self.context, |document| document)?;
                Ok(groups)
            }
            "$bucket" | "$bucketAuto" => self.bucket(documents, name, operand),
            "$redact" => self.redact(documents, operand),
            "$unwind" => unwind(&documents, operand, &self.context.budget),
            "$limit" | "$skip" | "$count" | "$sample" => self.amount(documents, name, operand),
            "$replaceRoot" | "$replaceWith" => self.replace_root(documents, name, operand),
            "$facet" | "$unionWith" => self.combine(documents, collection, name, operand),
            "$lookup" => self.lookup(documents, object(40319, name, operand)?),
            "$documents" | "$collStats" | "$indexStats" | GIVEN => {
                let made = self.source(collection, name, operand)?;
                Ok(if self.parses_only { Vec::new() } else { made })
            }
            _ => Ok(documents),
        }
    }

    /// Runs `$limit`, `$skip`, `$count` or `$sample`.
    fn amount(
        &self,
        mut documents: Vec<Shared>,
        name: &str,
        operand: &Bson,
    ) -> Answer<Vec<Shared>> {
        match name {
            "$limit" => {
                documents.truncate(operands::limit(operand)?);
                Ok(documents)
            }
            "$skip" => {
                let count = operands::skip(operand)?;
                documents.drain(..count.min(documents.len()));
                Ok(documents)
            }
            "$count" => {
                let field = operands::count(operand)?;
                if documents.is_empty() {
                    return Ok(documents);
                }
                let count = count_value(documents.len());
                let mut result = Document::new();
                result.insert(field, count);
                Ok(vec![Arc::new(result)])
            }
            _ => {
                let size = operands::sample(operand)?;
                let mut taken = Vec::new();
                while taken.len() < size && !documents.is_empty() {
                    let draw = self.context.draw() % documents.len() as u64;
                    taken.push(documents.swap_remove(usize::try_from(draw).unwrap_or(0)));
                }
                Ok(taken)
            }
        }
    }

    fn replace_root(
        &self,
        documents: Vec<Shared>,
        name: &str,
        operand: &Bson,
    ) -> Answer<Vec<Shared>> {
        let root = match name {
            "$replaceRoot" => operands::new_root(operand)?,
            _ => operand,
        };
        expression::check(root, self.context.release)?;
        self.each(documents, |d| {
            match expression::evaluate(root, &Scope::new(d, self.context))? {
                Some(Bson::Document(new)) => Ok(new),
                other => Err(StoreError::new(
                    40228,
                    format!(
                        "'newRoot' expression must evaluate to an object, but resulting \
                             value was of type: {}",
                        other.as_ref().map_or("missing", type_name)
                    ),
                )),
            }
        })
    }

    /// Runs `$facet` or `$unionWith`.
    fn combine(
        &self,
        mut documents: Vec<Shared>,
        collection: &str,
        name: &str,
        operand: &Bson,
    ) -> Answer<Vec<Shared>> {
        match name {
            "$facet" => {
                let budget = &self.context.budget;
                let mut result = Document::new();
                for (facet, stages) in operands::facets(operand, self.context.release)? {
                    let mark = budget.charged();
                    let inner = self
                        .deeper()
                        .stages(documents.clone(), collection, &stages)?;
                    budget.release_to(mark);
                    result.insert(facet, self.array(&inner)?);
                }
                if self.parses_only {
                    return Ok(Vec::new());
                }
                budget.hold_document(&result)?;
                Ok(vec![Arc::new(result)])
            }
            _ => {
                let (from, stages) = operands::union(operand, self.context.release)?;
                let more = self.collection(from, &stages)?;
                let budget = &self.context.budget;
                budget.charge((documents.len() + more.len()) * size_of::<Shared>())?;
                documents.extend(more);
                Ok(documents)
            }
        }
    }

    fn deeper(&self) -> Self {
        Self {
            depth: self.depth + 1,
            ..*self
        }
    }

    /// Replaces each document by the result of `change`. Only the results stay charged to the
    /// budget.
    pub(super) fn each(
        &self,
        documents: Vec<Shared>,
        mut change: impl FnMut(&Document) -> Answer<Document>,
    ) -> Answer<Vec<Shared>> {
        let budget = &self.context.budget;
        let mut changed = Vec::with_capacity(documents.len());
        for document in documents {
            let mark = budget.charged();
            let result = change(&document)?;
            budget.release_to(mark);
            budget.hold_document(&result)?;
            changed.push(Arc::new(result));
        }
        Ok(changed)
    }

    /// Returns documents as an array. The memory of the array is charged before the array is built.
    pub(super) fn array(&self, documents: &[Shared]) -> Answer<Bson> {
        let budget = &self.context.budget;
        let mut encoded = 0_usize;
        for document in documents {
            encoded = encoded.saturating_add(size::of(document));
            size::check_intermediate(encoded)?;
            budget.hold_document(document)?;
        }
        let copies = documents.iter().map(|d| Document::clone(d).into());
        Ok(Bson::Array(copies.collect()))
    }

    /// Returns the documents of a collection or view after some stages.
    pub(crate) fn collection(&self, name: &str, stages: &[Document]) -> Answer<Vec<Shared>> {
        self.hinted_collection(name, stages, None)
    }

    /// Does the same as [`collection`](Self::collection) in the order of the index of a hint.
    pub(super) fn hinted_collection(
        &self,
        name: &str,
        stages: &[Document],
        hint: Option<&Bson>,
    ) -> Answer<Vec<Shared>> {
        // A chain of views can be too long if each was made before the one that it is on.
        self.check_depth()?;
        let namespace = Namespace::new(self.database, name);
        let Some(collection) = self.store.collection(&namespace) else {
            return self.deeper().stages(Vec::new(), name, stages);
        };
        if let Some((on, mut view)) = collection.view() {
            view.extend(stages.iter().cloned());
            return self.deeper().hinted_collection(on, &view, hint);
        }
        // A `$match` at the start can use an index.
        let filter = stages.first().and_then(|s| s.get_document("$match").ok());
        let rest = &stages[usize::from(filter.is_some())..];
        let documents = match (filter, hint) {
            (None, None) => collection.documents().cloned().collect(),
            (filter, hint) => {
                let find = Find {
                    filter: filter.cloned().unwrap_or_default(),
                    hint: hint.cloned(),
                    ..Find::default()
                };
                if let Some(hint) = hint {
                    self.store.check_hint(&namespace, hint)?;
                }
                let needed = match limited(rest) {
                    Some((0, needed)) if hint.is_none() => needed,
                    _ => usize::MAX,
                };
                let matcher = Matcher::new(&find.filter, self.context.release)?;
                let hinted = Hinted::new(collection, &find)?;
                let found = find_in(collection, &find, &hinted, &matcher, needed, self.context)?;
                found.into_iter().map(|(_, document)| document).collect()
            }
        };
        self.deeper().stages(documents, name, rest)
    }
}

/// Returns how many stages at the start handle each document alone, and how many of their results a
/// `$limit` behind them takes. `None` if no `$limit` follows.
fn limited(stages: &[Document]) -> Option<(usize, usize)> {
    let mut named = stages
        .iter()
        .map(|stage| stage.iter().next())
        .enumerate()
        .skip_while(|(_, stage)| stage.is_some_and(|(name, _)| handles_each_alone(name)));
    let (count, (mut name, mut operand)) = named.next().and_then(|(n, s)| Some((n, s?)))?;
    let mut skipped = 0;
    if name == "$skip" {
        skipped = operands::skip(operand).ok()?;
        (name, operand) = named.next()?.1?;
    }
    let taken = operands::limit(operand).ok().filter(|_| name == "$limit")?;
    Some((count, taken.saturating_add(skipped)))
}

fn handles_each_alone(stage: &str) -> bool {
    matches!(
        stage,
        "$match"
            | "$project"
            | "$unset"
            | "$addFields"
            | "$set"
            | "$replaceRoot"
            | "$replaceWith"
            | "$redact"
            | "$unwind"
    )
}

pub(super) fn count_value(count: usize) -> Bson {
    i32::try_from(count).map_or(Bson::Int64(i64::MAX), Bson::Int32)
}

pub(super) fn object<'a>(code: i32, name: &str, operand: &'a Bson) -> Answer<&'a Document> {
    operand
        .as_document()
        .ok_or_else(|| StoreError::new(code, format!("the {name} specification must be an object")))
}

pub(super) fn pipeline(value: &Bson, release: Release) -> Answer<Vec<Document>> {
    let items = value
        .as_array()
        .ok_or_else(|| StoreError::type_mismatch("pipeline must be an array"))?;
    let stages = items.iter().map(|item| item.as_document().cloned());
    let stages: Option<Vec<Document>> = stages.collect();
    let stages = stages.ok_or_else(|| {
        StoreError::type_mismatch("Each element of the 'pipeline' array must be an object")
    })?;
    check(&stages, release)?;
    match stages.iter().any(|stage| stage.contains_key(GIVEN)) {
        true => Err(unrecognized(GIVEN)),
        false => Ok(stages),
    }
}
