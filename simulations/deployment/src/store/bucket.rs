//! The stages `$bucket` and `$bucketAuto`.

use bson::{Bson, Document, doc};

use super::error::StoreError;
use super::expression::{self, Scope};
use super::group::group;
use super::number;
use super::order::{display, rank, type_name};
use super::pipeline::{Answer, Run, object};
use super::release::Release;
use super::size;
use super::sort::Sort;
use super::types::Shared;

impl Run<'_> {
    /// Runs `$bucket` or `$bucketAuto`.
    pub(super) fn bucket(
        &self,
        documents: Vec<Shared>,
        name: &str,
        operand: &Bson,
    ) -> Answer<Vec<Shared>> {
        let code = if name == "$bucket" { 40201 } else { 40240 };
        let given = object(code, name, operand)?;
        let known: &[&str] = match name {
            "$bucket" => &["groupBy", "boundaries", "default", "output"],
            _ => &["groupBy", "buckets", "output"],
        };
        if let Some(other) = given.keys().find(|key| !known.contains(&key.as_str())) {
            let code = if name == "$bucket" { 40197 } else { 40245 };
            let text = format!("Unrecognized option to {name}: {other}.");
            let error = StoreError::new(code, text);
            return Err(match (name, other.as_str()) {
                ("$bucketAuto", "granularity") => error.not_simulated("granularity"),
                _ => error,
            });
        }
        match name {
            "$bucket" => self.bucket_by(&documents, given),
            _ => self.bucket_evenly(documents, given),
        }
    }

    /// Groups documents by boundaries, with the expression `$switch`, as the server does.
    fn bucket_by(&self, documents: &[Shared], given: &Document) -> Answer<Vec<Shared>> {
        let (Some(by), Some(boundaries)) = (given.get("groupBy"), given.get("boundaries")) else {
            let text = "$bucket requires 'groupBy' and 'boundaries' to be specified.";
            return Err(StoreError::new(40198, text));
        };
        check_key("$bucket", 40202, by, self.context.release)?;
        let boundaries = self.boundaries(boundaries)?;
        let literal = |value: &Bson| doc! { "$literal": value.clone() };
        let branches = boundaries.windows(2).map(|pair| {
            let above = doc! { "$gte": ["$$by", literal(&pair[0])] };
            let below = doc! { "$lt": ["$$by", literal(&pair[1])] };
            doc! { "case": { "$and": [above, below] }, "then": literal(&pair[0]) }
        });
        let mut choice = doc! { "branches": branches.collect::<Vec<_>>() };
        if let Some(default) = given.get("default") {
            let value = self.constant(default)?;
            let (first, last) = (&boundaries[0], &boundaries[boundaries.len() - 1]);
            let compare = |bound: &Bson| self.context.compare(&value, bound);
            if compare(first).is_ge() && compare(last).is_lt() {
                let text = "The $bucket 'default' field must be less than the lowest boundary or \
                            greater than or equal to the highest boundary.";
                return Err(StoreError::new(40199, text));
            }
            choice.insert("default", literal(&value));
        }
        let bound = doc! { "vars": { "by": by.clone() }, "in": { "$switch": choice } };
        let spec = fields_of(doc! { "_id": { "$let": bound } }, given)?;
        let mut groups = group(documents, &spec, self.context)?;
        let sort = Sort::new(&doc! { "_id": 1 })?;
        groups.sort_by_cached_key(|d| sort.key(d, self.context));
        Ok(groups)
    }

    fn boundaries(&self, given: &Bson) -> Answer<Vec<Bson>> {
        let Bson::Array(items) = given else {
            let text = format!(
                "The $bucket 'boundaries' field must be an array, but found type: {}.",
                type_name(given)
            );
            return Err(StoreError::new(40200, text));
        };
        let values: Vec<Bson> = items
            .iter()
            .map(|v| self.constant(v))
            .collect::<Answer<_>>()?;
        if values.len() < 2 {
            let text = format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} \
                 value(s).",
                values.len()
            );
            return Err(StoreError::new(40192, text));
        }
        for (at, pair) in values.windows(2).enumerate() {
            if rank(&pair[0]) != rank(&pair[1]) {
                let text = "All values in the the 'boundaries' option to $bucket must have the \
                            same type.";
                return Err(StoreError::new(40193, text));
            }
            if self.context.compare(&pair[0], &pair[1]).is_ge() {
                let text = format!(
                    "The 'boundaries' option to $bucket must be sorted, but elements {at} and {} \
                     are not in ascending order ({} is not less than {}).",
                    at + 1,
                    display(&pair[0]),
                    display(&pair[1])
                );
                return Err(StoreError::new(40194, text));
            }
        }
        Ok(values)
    }

    /// Returns the value of an expression without a document.
    fn constant(&self, expression: &Bson) -> Answer<Bson> {
        expression::check(expression, self.context.release)?;
        let nothing = Document::new();
        let value = expression::evaluate(expression, &Scope::new(&nothing, self.context))?;
        value.ok_or_else(|| {
            let shown = display(expression);
            let text =
                format!("The $bucket 'boundaries' field must be constants, but found: {shown}");
            StoreError::new(40191, text)
        })
    }

    /// Groups documents into a number of buckets of about the same size.
    fn bucket_evenly(&self, documents: Vec<Shared>, given: &Document) -> Answer<Vec<Shared>> {
        let (Some(by), Some(buckets)) = (given.get("groupBy"), given.get("buckets")) else {
            let text = "$bucketAuto requires 'groupBy' and 'buckets' to be specified.";
            return Err(StoreError::new(40246, text));
        };
        check_key("$bucketAuto", 40239, by, self.context.release)?;
        if !number::is_number(buckets) {
            let kind = type_name(buckets);
            let text = format!(
                "The $bucketAuto 'buckets' field must be a numeric value, but found type: {kind}."
            );
            return Err(StoreError::new(40241, text));
        }
        let Some(count) = number::as_integer(buckets) else {
            let shown = display(buckets);
            let text = format!(
                "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but \
                 found {shown}."
            );
            return Err(StoreError::new(40242, text));
        };
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            let text = format!(
                "The $bucketAuto 'buckets' field must be greater than 0, but found: {count}."
            );
            return Err(StoreError::new(40243, text));
        };
        let mut keyed = Vec::with_capacity(documents.len());
        for document in documents {
            let key = expression::evaluate(by, &Scope::new(&document, self.context))?;
            keyed.push((key.unwrap_or(Bson::Null), document));
        }
        keyed.sort_by_cached_key(|(key, _)| self.context.key(key));
        let size = ((keyed.len() as f64 / count as f64).round() as usize).max(1);
        let (mut rest, mut result, mut made) = (keyed.as_slice(), Vec::new(), 0);
        while !rest.is_empty() {
            made += 1;
            let mut end = if made == count {
                rest.len()
            } else {
                size.min(rest.len())
            };
            // Equal values are in one bucket.
            while end < rest.len() && self.context.equal(&rest[end].0, &rest[end - 1].0) {
                end += 1;
            }
            let (bucket, others) = rest.split_at(end);
            let max = others.first().unwrap_or(&bucket[end - 1]).0.clone();
            // Each bucket copies the specification.
            let bytes = size::memory_of_document(given)?;
            self.context.budget.step(1 + bytes as u64 / 64)?;
            let id = doc! { "min": bucket[0].0.clone(), "max": max };
            let spec = fields_of(doc! { "_id": { "$literal": id } }, given)?;
            let members: Vec<Shared> = bucket.iter().map(|(_, d)| d.clone()).collect();
            result.extend(group(&members, &spec, self.context)?);
            rest = others;
        }
        Ok(result)
    }
}

/// Returns an error if `groupBy` is not a field path or an expression.
fn check_key(name: &str, code: i32, by: &Bson, release: Release) -> Answer<()> {
    let is_path = by.as_str().is_some_and(|text| text.starts_with('$'));
    if !is_path && !matches!(by, Bson::Document(_)) {
        let text = format!(
            "The {name} 'groupBy' field must be defined as a $-prefixed path or an expression, \
             but found: {}.",
            display(by)
        );
        return Err(StoreError::new(code, text));
    }
    expression::check(by, release)
}

/// Adds the fields of `output` to the specification of a group, by default the count.
fn fields_of(mut spec: Document, given: &Document) -> Answer<Document> {
    match given.get("output") {
        None => {
            spec.insert("count", doc! { "$sum": 1 });
        }
        Some(Bson::Document(output)) => spec.extend(output.clone()),
        Some(other) => {
            let kind = type_name(other);
            let text = format!("The 'output' field must be an object, but found type: {kind}.");
            return Err(StoreError::new(40196, text));
        }
    }
    Ok(spec)
}
