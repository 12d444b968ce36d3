//! Random updates.

use super::source::Source;
use bson::{Bson, Document, bson, doc};

impl Source {
    fn update_path(&mut self) -> &'static str {
        let paths = ["a", "b", "c", "a.b", "b.c", "c.a.b", "a.0", "b.1", "c.0.a"];
        self.one(&paths)
    }

    /// Returns an update of an array of scalars, which mingo treats as a server does only if the
    /// field exists.
    fn array_update(&mut self) -> Document {
        if self.once_in(3) {
            return doc! { "$addToSet": { "a": { "$each": self.many(0, 3, Self::scalar) } } };
        }
        let mut push = doc! { "$each": self.many(0, 3, Self::scalar) };
        if self.once_in(2) {
            push.insert("$position", self.below(6) - 3);
        }
        if self.once_in(2) {
            push.insert("$slice", self.below(6) - 3);
        }
        if self.once_in(3) {
            push.insert("$sort", self.one(&[1, -1]));
        }
        doc! { "$push": { "a": push } }
    }

    fn operation(&mut self) -> (&'static str, Bson) {
        match self.below(14) {
            0..=2 => ("$set", self.value(1)),
            3 => ("$unset", "".into()),
            4 | 5 => ("$inc", self.number()),
            6 => ("$mul", self.number()),
            7 | 8 => ("$push", self.value(1)),
            9 => ("$addToSet", self.value(1)),
            10 => match self.below(3) {
                0 => ("$pull", self.value(1)),
                1 => ("$pull", self.predicate(0).into()),
                _ => ("$pull", self.filter(0).into()),
            },
            11 => ("$pullAll", self.many(0, 3, |source| source.value(1)).into()),
            12 => ("$pop", self.one(&[1, -1]).into()),
            _ => {
                let name = self.one(&["and", "or", "xor"]);
                ("$bit", doc! { name: self.below(8) }.into())
            }
        }
    }

    fn with_array_filters(&mut self) -> Document {
        let path = self.one(&["a.$[i]", "b.$[i].c", "c.$[].a", "a.$[]", "b.$[i]"]);
        let (operator, value) = self.operation();
        let mut operation = doc! { "update": { operator: { path: value } } };
        if path.contains("[i]") {
            let filter = match self.below(2) {
                0 => doc! { "i": self.predicate(0) },
                _ => doc! { format!("i.{}", self.name()): self.predicate(0) },
            };
            operation.insert("arrayFilters", vec![filter]);
        }
        operation
    }
}

/// Returns an update of the only document. Some updates first set a field of the document.
pub(super) fn update(source: &mut Source, document: &mut Document) -> Document {
    match source.below(10) {
        0 => return source.with_array_filters(),
        1 => {
            let (from, to) = (source.update_path(), source.update_path());
            return doc! { "update": { "$rename": { from: to } } };
        }
        2 => {
            source.is_flat = true;
            let present = source.one(&[bson!([]), bson!([1, "a"]), bson!([true, null, 2.5])]);
            document.insert("a", present);
            return doc! { "update": source.array_update() };
        }
        3 => {
            source.is_flat = true;
            document.insert("a", source.scalar());
            let operator = source.one(&["$min", "$max"]);
            return doc! { "update": { operator: { "a": source.scalar() } } };
        }
        _ => {}
    }
    let mut update = Document::new();
    for _ in 0..=source.below(2) {
        let path = source.update_path();
        let (operator, value) = source.operation();
        if let Ok(fields) = update.get_document_mut(operator) {
            fields.insert(path, value);
        } else {
            update.insert(operator, doc! { path: value });
        }
    }
    doc! { "update": update }
}
