//! The stage `$lookup`.

use bson::{Bson, Document, doc};

use super::error::StoreError;
use super::expression::{self, Scope};
use super::matcher::Matcher;
use super::pipeline::{Answer, Run, pipeline};
use super::projection::assign_within;
use super::types::Shared;
use super::{path, size};

impl Run<'_> {
    /// Adds to each document an array with the matching documents of another collection.
    pub(super) fn lookup(&self, documents: Vec<Shared>, spec: &Document) -> Answer<Vec<Shared>> {
        let text = |name: &str| spec.get_str(name).ok();
        let Some(into) = text("as") else {
            return Err(StoreError::failed_to_parse(
                "must specify 'as' field for a $lookup",
            ));
        };
        path::check(into)?;
        let fields = ["localField", "foreignField"].into_iter().filter_map(text);
        fields.into_iter().try_for_each(path::check)?;
        let stages = spec.get("pipeline").map_or(Ok(vec![]), pipeline)?;
        let foreign = self.collection(text("from").unwrap_or_default(), &[])?;
        let budget = &self.context.budget;
        self.each(documents, |document| {
            budget.step(foreign.len() as u64)?;
            budget.charge(size::memory_of_document(&self.context.variables)?)?;
            let mut context = self.context.clone();
            let scope = Scope::new(document, self.context);
            for (name, value) in spec.get_document("let").ok().into_iter().flatten() {
                let value = expression::evaluate(value, &scope)?.unwrap_or(Bson::Null);
                context.variables.insert(name, value);
            }
            let mut joined = foreign.clone();
            if let (Some(local), Some(field)) = (text("localField"), text("foreignField")) {
                let mut wanted: Vec<Bson> =
                    path::values(document, local).into_iter().cloned().collect();
                if wanted.is_empty() {
                    wanted.push(Bson::Null);
                }
                let matcher = Matcher::new(&doc! { field: { "$in": wanted } })?;
                let mut kept = Vec::new();
                for other in joined {
                    if matcher.matches(&other, &context)? {
                        kept.push(other);
                    }
                }
                joined = kept;
            }
            let inner = Run {
                context: &context,
                depth: self.depth + 1,
                ..*self
            };
            let joined = inner.stages(joined, "", &stages)?;
            let mut result = document.clone();
            assign_within(&mut result, into, self.array(&joined)?, budget)?;
            Ok(result)
        })
    }
}
