//! The application of a projection to a document.

use bson::{Bson, Document};

use super::tree::{Node, Tree};
use super::{Answer, Field, Mode};
use crate::store::error::StoreError;
use crate::store::expression::{self, Scope, slice};
use crate::store::matcher::Matcher;

/// The inputs of a projection of one document.
pub(super) struct Work<'a> {
    pub(super) mode: Mode,
    /// The document as a whole, for computed fields.
    pub(super) scope: Scope<'a>,
    /// The index of the array element that matched the query.
    pub(super) position: Option<usize>,
}

impl Work<'_> {
    /// Returns what the projection shows of a document. The fields keep their places; computed ones
    /// that `$addFields` does not replace come last.
    pub(super) fn document(&self, document: &Document, tree: &Tree) -> Answer<Document> {
        let steps = document.len().saturating_add(tree.len());
        self.scope.context.budget.step(steps as u64)?;
        let mut result = Document::new();
        for (name, value) in document {
            let shown = match tree.get(name) {
                None if self.mode == Mode::Include => None,
                None => Some(value.clone()),
                Some(Node::Tree(inner)) => self.value(value, inner)?,
                Some(Node::Field(field)) => self.field(value, field)?,
            };
            if let Some(shown) = shown {
                result.insert(name.clone(), shown);
            }
        }
        if !tree.computes() {
            return Ok(result);
        }
        for (name, node) in tree.iter() {
            let has_field = document.contains_key(name);
            let made = match node {
                Node::Field(Field::Computed(expression)) => {
                    if has_field && self.mode == Mode::Add {
                        continue;
                    }
                    expression::evaluate(expression, &self.scope)?
                }
                Node::Tree(inner) if inner.computes() && !result.contains_key(name) => {
                    Some(self.document(&Document::new(), inner)?.into())
                }
                _ => continue,
            };
            if let Some(made) = made {
                result.insert(name, made);
            }
        }
        Ok(result)
    }

    /// Returns what the projection shows of a value within whose fields it has paths.
    fn value(&self, value: &Bson, tree: &Tree) -> Answer<Option<Bson>> {
        match value {
            Bson::Document(inner) => Ok(Some(self.document(inner, tree)?.into())),
            Bson::Array(items) => {
                self.scope.context.budget.step(items.len() as u64)?;
                let items = match tree.is_positional() {
                    true => std::slice::from_ref(self.matched(items)?),
                    false => items.as_slice(),
                };
                let mut shown = Vec::new();
                for item in items {
                    shown.extend(self.value(item, tree)?);
                }
                Ok(Some(Bson::Array(shown)))
            }
            // A computed field below a scalar replaces it by a document.
            _ if tree.computes() => Ok(Some(self.document(&Document::new(), tree)?.into())),
            _ if self.mode == Mode::Include => Ok(None),
            other => Ok(Some(other.clone())),
        }
    }

    fn field(&self, value: &Bson, field: &Field) -> Answer<Option<Bson>> {
        match (field, value) {
            (Field::Drop, _) => Ok(None),
            (Field::Computed(expression), _) if self.mode == Mode::Add => {
                expression::evaluate(expression, &self.scope)
            }
            // An including projection puts its computed fields at the end.
            (Field::Computed(_), _) => Ok(None),
            (Field::Slice(skip, take), Bson::Array(items)) => {
                Ok(Some(Bson::Array(slice(items, *skip, *take))))
            }
            (Field::Positional, Bson::Array(items)) => {
                Ok(Some(Bson::Array(vec![self.matched(items)?.clone()])))
            }
            (Field::ElementMatch(matcher), _) => self.first_match(value, matcher),
            (Field::Keep | Field::Slice(..) | Field::Positional, other) => Ok(Some(other.clone())),
        }
    }

    /// Returns the element that matched the query.
    fn matched<'a>(&self, items: &'a [Bson]) -> Answer<&'a Bson> {
        let position = self.position.ok_or_else(|| {
            let text = "positional operator '.$' couldn't find a matching element in the array";
            StoreError::new(51246, text)
        })?;
        items
            .get(position)
            .ok_or_else(|| StoreError::new(51247, "positional operator '.$' element mismatch"))
    }

    /// Returns an array of the first element that `$elemMatch` finds.
    fn first_match(&self, value: &Bson, matcher: &Matcher) -> Answer<Option<Bson>> {
        for item in value.as_array().into_iter().flatten() {
            let mut wrapped = Document::new();
            wrapped.insert("e", Bson::Array(vec![item.clone()]));
            if matcher.matches(&wrapped, self.scope.context)? {
                return Ok(wrapped.remove("e"));
            }
        }
        Ok(None)
    }
}
