//! The stage `$redact`.

use std::rc::Rc;
use std::sync::Arc;

use bson::{Bson, Document};

use super::error::StoreError;
use super::expression::{self, Scope};
use super::order::display;
use super::pipeline::{Answer, Run};
use super::types::Shared;

impl Run<'_> {
    /// Removes the documents, and the documents within them, for which an expression is
    /// `$$PRUNE`.
    pub(super) fn redact(&self, documents: Vec<Shared>, condition: &Bson) -> Answer<Vec<Shared>> {
        expression::check(condition, self.context.release)?;
        let budget = &self.context.budget;
        let mut kept = Vec::new();
        for document in documents {
            let mark = budget.charged();
            let root = Rc::new(Bson::Document(Document::clone(&document)));
            budget.hold_value(&root)?;
            let redacted = self.redact_one(&document, &root, condition)?;
            budget.release_to(mark);
            if let Some(document) = redacted {
                budget.hold_document(&document)?;
                kept.push(Arc::new(document));
            }
        }
        Ok(kept)
    }

    fn redact_one(
        &self,
        document: &Document,
        root: &Rc<Bson>,
        condition: &Bson,
    ) -> Answer<Option<Document>> {
        let mut scope = Scope::new(document, self.context);
        scope.bind_shared("ROOT", root);
        let value = expression::evaluate(condition, &scope)?;
        match value.as_ref().and_then(Bson::as_str) {
            Some("KEEP") => Ok(Some(document.clone())),
            Some("PRUNE") => Ok(None),
            Some("DESCEND") => {
                let mut result = Document::new();
                for (name, value) in document {
                    if let Some(value) = self.redact_value(value, root, condition)? {
                        result.insert(name, value);
                    }
                }
                Ok(Some(result))
            }
            _ => {
                let shown = value.as_ref().map(display).unwrap_or_default();
                let text = format!(
                    "$redact's expression should not return anything aside from the variables \
                     $$KEEP, $$DESCEND, and $$PRUNE, but returned {shown}"
                );
                Err(StoreError::new(17053, text))
            }
        }
    }

    fn redact_value(
        &self,
        value: &Bson,
        root: &Rc<Bson>,
        condition: &Bson,
    ) -> Answer<Option<Bson>> {
        match value {
            Bson::Document(inner) => {
                Ok(self.redact_one(inner, root, condition)?.map(Bson::Document))
            }
            Bson::Array(items) => {
                let items = items
                    .iter()
                    .map(|item| self.redact_value(item, root, condition));
                let kept: Answer<Vec<Option<Bson>>> = items.collect();
                Ok(Some(kept?.into_iter().flatten().collect()))
            }
            other => Ok(Some(other.clone())),
        }
    }
}
