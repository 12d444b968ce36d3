//! The source of random values and documents.

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use onionskin_core::random::{Random, Seed};

/// The names of the fields of random documents.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

// Servers change the case of ASCII letters only, so the other letters have no case.
const TEXTS: [&str; 10] = [
    "",
    "a",
    "ab",
    "abc",
    "B",
    "ba b",
    "a,b,a",
    " 12 ",
    "ab😀b",
    "日\u{a0}",
];

/// Milliseconds since 1970.
const DATES: [i64; 6] = [
    0,
    1_000,
    951_782_399_999,
    1_078_012_800_000,
    1_704_067_199_000,
    -86_400_001,
];

/// A seeded generator of documents and operations.
pub(super) struct Source {
    random: Random,
    /// True if each array is a list of documents, and if no value is null. mingo follows a path
    /// through an array only then as a server does: otherwise it takes the values at the path as an
    /// array, which may be empty.
    pub(super) is_regular: bool,
    /// True if documents have no arrays, and if only the field `c` can be a document. mingo sorts
    /// arrays and documents in another order than a server.
    pub(super) is_flat: bool,
}

impl Source {
    pub(super) fn new(kind: &str, seed: u64) -> Self {
        Self {
            random: Seed::new([7; 32]).split(&format!("{kind} {seed}")).random(),
            is_regular: false,
            is_flat: false,
        }
    }

    pub(super) fn below(&mut self, bound: u64) -> i32 {
        i32::try_from(self.random.below(bound)).expect("small numbers")
    }

    /// Returns true once in `n` times.
    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.random.chance(1, n)
    }

    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize].clone()
    }

    pub(super) fn many<T>(
        &mut self,
        least: u64,
        most: u64,
        mut next: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let count = least + self.random.below(most - least + 1);
        (0..count).map(|_| next(self)).collect()
    }

    pub(super) fn name(&mut self) -> &'static str {
        self.one(&NAMES)
    }

    pub(super) fn number(&mut self) -> Bson {
        match self.below(12) {
            0..=5 => (self.below(8) - 2).into(),
            6 => i64::from(self.below(4)).into(),
            7 => Bson::Int64(self.one(&[1 << 31, -(1 << 31), 1 << 40])),
            8 => i32::MAX.into(),
            _ => Bson::Double(self.one(&[0.5, 1.0, 2.0, -1.5, 2.5, 3.75, 1e10, -0.0])),
        }
    }

    pub(super) fn text(&mut self) -> Bson {
        self.one(&TEXTS).into()
    }

    pub(super) fn date(&mut self) -> Bson {
        DateTime::from_millis(self.one(&DATES)).into()
    }

    /// Returns a value that is neither an array nor a document.
    pub(super) fn scalar(&mut self) -> Bson {
        match self.below(16) {
            0..=6 => self.number(),
            7..=9 => self.text(),
            10 | 11 if self.is_regular => self.number(),
            10 | 11 => Bson::Null,
            12 | 13 => Bson::Boolean(self.once_in(2)),
            14 => self.date(),
            _ if self.is_flat => self.text(),
            _ => ObjectId::from_bytes([u8::try_from(self.below(3)).expect("small"); 12]).into(),
        }
    }

    pub(super) fn value(&mut self, depth: u32) -> Bson {
        match self.below(if depth == 0 { 5 } else { 10 }) {
            0..=4 => self.scalar(),
            5..=8 if self.is_regular => self.many(1, 3, |source| source.fields(depth - 1)).into(),
            5 | 6 => self.many(0, 3, Self::scalar).into(),
            7 => self.many(0, 3, |source| source.fields(depth - 1)).into(),
            8 => self.many(0, 3, |source| source.value(depth - 1)).into(),
            _ => self.fields(depth - 1).into(),
        }
    }

    /// Returns a document whose fields are in the order of their names, because mingo compares
    /// documents without regard to the order of their fields.
    pub(super) fn fields(&mut self, depth: u32) -> Document {
        let mut document = Document::new();
        for name in NAMES {
            if !self.once_in(3) {
                document.insert(name, self.value(depth));
            }
        }
        document
    }

    /// Returns a document with fields of all types and few names.
    pub(super) fn document(&mut self, id: i32) -> Document {
        let mut document = doc! { "_id": id };
        if self.is_flat {
            for name in ["a", "b"] {
                if !self.once_in(4) {
                    document.insert(name, self.scalar());
                }
            }
            let nested = doc! { "a": self.scalar(), "b": self.scalar() };
            document.insert("c", nested);
        } else {
            document.extend(self.fields(2));
        }
        document
    }

    /// Returns a document in which each name has a type, so that few expressions fail: numbers `m`
    /// and `n`, texts `s` and `t`, a date `d`, a boolean `f`, an array of numbers `l`, an array of
    /// documents `k`, a document `o`, and any value `v`. Only `n` and `t` can be null.
    pub(super) fn typed_document(&mut self, id: i32) -> Document {
        let mut document = doc! { "_id": id };
        for name in ["m", "n", "s", "t", "d", "f", "l", "k", "o", "v"] {
            let is_null = matches!(name, "n" | "t") && self.once_in(12);
            let value = match is_null {
                true => Bson::Null,
                false => self.typed_value(name),
            };
            document.insert(name, value);
        }
        document
    }

    fn typed_value(&mut self, name: &str) -> Bson {
        match name {
            "m" | "n" => self.number(),
            "s" | "t" => self.text(),
            "d" => self.date(),
            "f" => Bson::Boolean(self.once_in(2)),
            "l" => self.many(0, 4, Self::number).into(),
            "k" => self.many(0, 3, Self::pair).into(),
            "o" => self.pair().into(),
            _ => self.value(1),
        }
    }

    fn pair(&mut self) -> Document {
        doc! { "x": self.number(), "y": self.text() }
    }
}
