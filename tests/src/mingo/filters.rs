//! Random filters, projections and sort patterns.

use super::source::{NAMES, Source};
use bson::{Bson, DateTime, Document, Regex, cstr, doc};

const PATHS: [&str; 7] = ["a", "b", "c", "a.b", "b.c", "c.a", "b.1.a"];

const PATTERNS: [&str; 6] = ["a", "^a", "b$", "^.b", "A|B", "^$"];

impl Source {
    pub(super) fn path(&mut self) -> &'static str {
        match self.is_regular {
            true => self.one(&PATHS),
            false => self.name(),
        }
    }

    /// Returns an operand of an order, which is neither null nor an array.
    fn ordered(&mut self) -> Bson {
        match self.below(4) {
            0 | 1 => self.number(),
            2 => self.text(),
            _ => match self.below(3) {
                0 => DateTime::from_millis(1_000).into(),
                place => Bson::Boolean(place == 1),
            },
        }
    }

    pub(super) fn predicate(&mut self, depth: u32) -> Document {
        match self.below(if depth == 0 { 12 } else { 15 }) {
            0 => doc! { "$eq": self.value(1) },
            1 => doc! { "$ne": self.value(1) },
            2 => doc! { self.one(&["$eq", "$ne"]): self.scalar() },
            3..=6 => {
                let operator = self.one(&["$lt", "$lte", "$gt", "$gte"]);
                doc! { operator: self.ordered() }
            }
            7 | 8 => doc! { self.one(&["$in", "$nin"]): self.many(0, 3, Self::scalar) },
            9 => doc! { "$not": { "$in": self.many(1, 3, Self::scalar) } },
            10 => doc! { "$exists": self.once_in(2) },
            11 if self.is_regular => doc! { "$exists": true },
            11 => doc! { "$size": self.below(4) },
            12 if !self.is_regular => doc! { "$elemMatch": self.predicate(depth - 1) },
            _ => doc! { "$not": self.predicate(depth - 1) },
        }
    }

    fn pattern(&mut self) -> Bson {
        let pattern = self.one(&PATTERNS);
        let options = self.one(&[cstr!(""), cstr!("i")]);
        let pattern = pattern.to_owned().try_into().expect("no zero");
        Bson::RegularExpression(Regex {
            pattern,
            options: options.into(),
        })
    }

    pub(super) fn filter(&mut self, depth: u32) -> Document {
        let path = self.path();
        match self.below(if depth == 0 { 8 } else { 12 }) {
            0 | 1 => doc! { path: self.value(1) },
            2 if self.is_regular => doc! { path: self.pattern() },
            2..=7 => {
                let mut filter = doc! { path: self.predicate(depth) };
                if self.once_in(3) {
                    let path = self.path();
                    filter.insert(path, self.predicate(0));
                }
                filter
            }
            11 if self.is_regular => {
                doc! { self.name(): { "$elemMatch": self.filter(depth - 1) } }
            }
            8 | 9 => {
                let operator = self.one(&["$and", "$or", "$nor"]);
                doc! { operator: self.many(1, 3, |source| source.filter(depth - 1)) }
            }
            _ => {
                let mut predicate = self.predicate(0);
                predicate.extend(self.predicate(0));
                doc! { path: predicate }
            }
        }
    }

    fn sort_pattern(&mut self) -> Document {
        let mut pattern = Document::new();
        for _ in 0..=self.below(2) {
            let path = self.one(&["a", "b", "c.a", "c.b"]);
            pattern.insert(path, self.one(&[1, -1]));
        }
        pattern.insert("_id", 1);
        pattern
    }

    fn projection(&mut self) -> Document {
        let included = self.once_in(2);
        let mut projection = Document::new();
        if self.once_in(3) {
            projection.insert("_id", 0);
        }
        let mut names = NAMES.to_vec();
        for _ in 0..=self.below(2) {
            let name = names.swap_remove(self.below(names.len() as u64) as usize);
            let path = match self.below(3) {
                0 => format!("{name}.{}", self.name()),
                _ => name.to_owned(),
            };
            projection.insert(path, Bson::Int32(included.into()));
        }
        projection
    }
}

pub(super) fn query(source: &mut Source) -> Document {
    doc! { "filter": source.filter(2) }
}

pub(super) fn find(source: &mut Source) -> Document {
    let mut find = doc! { "filter": {} };
    if source.is_flat {
        find.insert("sort", source.sort_pattern());
    }
    if !source.is_flat || source.once_in(2) {
        find.insert("projection", source.projection());
    }
    if source.once_in(3) {
        find.insert("skip", source.below(3));
        find.insert("limit", 1 + source.below(3));
    }
    find
}
