//! Collations, by which a language orders strings and decides which strings are equal.

#[cfg(feature = "collation")]
mod icu;
#[cfg(not(feature = "collation"))]
mod none;

use std::cmp::Ordering;
use std::sync::Arc;

use bson::{Bson, Document};

use super::error::StoreError;
use super::number;
use super::order::{Key, display, display_document, type_name};

#[cfg(feature = "collation")]
use icu::Collator;
#[cfg(not(feature = "collation"))]
use none::Collator;

type Answer<T> = Result<T, StoreError>;

/// The length of the longest string that a collation compares, in bytes. Longer strings come after
/// all others, in the order of their bytes. The sort key of a string can be many times as long as
/// the string, and the work for a run of combining marks grows with the square of its length.
const MAX_COLLATED_BYTES: usize = 16 * 1024;

/// The version of ICU that a server names.
const VERSION: &str = "57.1";

/// The fields of a collation.
const FIELDS: [&str; 10] = [
    "locale",
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "backwards",
    "version",
];

/// A collation other than the simple binary comparison.
pub(crate) struct Collation {
    /// The collation with all fields, as the server lists it.
    specification: Document,
    collator: Collator,
}

impl std::fmt::Debug for Collation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collation({})", self.specification)
    }
}

impl PartialEq for Collation {
    fn eq(&self, other: &Self) -> bool {
        self.specification == other.specification
    }
}

impl Collation {
    /// Parses a collation. Returns `None` for the locale `simple`, which compares bytes.
    pub(crate) fn parse(given: &Document) -> Answer<Option<Arc<Self>>> {
        check_fields(given)?;
        let name = given.get_str("locale").unwrap_or_default();
        if name == "simple" {
            if given.len() > 1 {
                let shown = display_document(given);
                let text =
                    format!("If locale=simple, no other fields should be present in: {shown}");
                return Err(StoreError::failed_to_parse(text));
            }
            return Ok(None);
        }
        let is_backwards = name.starts_with("fr_CA");
        let (collator, specification) = Collator::parse(name, given, is_backwards)?;
        check_combination(&specification)?;
        if specification.get_bool("backwards").ok() != Some(is_backwards) {
            let text = "this simulated server implements 'backwards' only for the locale fr_CA, \
                        which has it";
            return Err(StoreError::new(238, text));
        }
        Ok(Some(Arc::new(Self {
            specification,
            collator,
        })))
    }

    /// Returns the collation with all fields.
    pub(crate) const fn specification(&self) -> &Document {
        &self.specification
    }

    pub(crate) fn compare(&self, a: &str, b: &str) -> Ordering {
        match (a.len() > MAX_COLLATED_BYTES, b.len() > MAX_COLLATED_BYTES) {
            (false, false) => self.collator.compare(a, b),
            (true, true) => a.cmp(b),
            (a_is_long, b_is_long) => a_is_long.cmp(&b_is_long),
        }
    }

    /// Returns a value with a sort key in the place of each string. The sort keys are strings whose
    /// characters are bytes, so that they have the order of the bytes.
    fn fold(&self, value: &Bson) -> Bson {
        match value {
            Bson::String(text) => Bson::String(self.sort_key(text)),
            Bson::Symbol(text) => Bson::Symbol(self.sort_key(text)),
            Bson::Array(items) => items.iter().map(|item| self.fold(item)).collect(),
            Bson::Document(document) => {
                let fields = document.iter();
                let folded = fields.map(|(name, value)| (name.clone(), self.fold(value)));
                Bson::Document(folded.collect())
            }
            other => other.clone(),
        }
    }

    fn sort_key(&self, text: &str) -> String {
        if text.len() > MAX_COLLATED_BYTES {
            // No byte is as large as this character.
            return format!("\u{100}{text}");
        }
        let mut key = Vec::with_capacity(text.len());
        self.collator.write_sort_key(text, &mut key);
        key.into_iter().map(char::from).collect()
    }
}

/// Returns the key of a value under a collation. The keys of values that the collation takes for
/// equal are equal.
pub(crate) fn key(collation: Option<&Collation>, value: &Bson) -> Key {
    Key(collation.map_or_else(|| value.clone(), |collation| collation.fold(value)))
}

/// True if the key of a value is the same under all collations.
pub(crate) const fn is_independent(value: &Bson) -> bool {
    !matches!(
        value,
        Bson::String(_) | Bson::Symbol(_) | Bson::Array(_) | Bson::Document(_)
    )
}

/// The number of bytes of a sort key that a message shows.
const MAX_SHOWN_BYTES: usize = 1024;

/// Returns the start of a sort key of [`key`] as the server's messages print it.
pub(crate) fn display_key(key: &str) -> String {
    let hex: String = key
        .chars()
        .take(MAX_SHOWN_BYTES)
        .map(|c| format!("{:02x}", u32::from(c)))
        .collect();
    format!("CollationKey(0x{hex})")
}

fn check_fields(given: &Document) -> Answer<()> {
    let wrong_type = |name: &str, value: &Bson, expected: &str| {
        let actual = type_name(value);
        let text = format!(
            "BSON field 'collation.{name}' is the wrong type '{actual}', expected {expected}"
        );
        StoreError::type_mismatch(text)
    };
    for (name, value) in given {
        if !FIELDS.contains(&name.as_str()) {
            let text = format!("BSON field 'collation.{name}' is an unknown field.");
            return Err(StoreError::new(40415, text));
        }
        let words: &[&str] = match name.as_str() {
            "caseFirst" => &["upper", "lower", "off"],
            "alternate" => &["non-ignorable", "shifted"],
            "maxVariable" => &["punct", "space"],
            "locale" | "version" => &[],
            "strength" => match number::as_integer(value) {
                _ if !number::is_number(value) => {
                    return Err(wrong_type(name, value, "type 'int'"));
                }
                Some(1..=5) => continue,
                _ => return Err(not_valid(name, &display(value))),
            },
            _ if matches!(value, Bson::Boolean(_)) || number::is_number(value) => continue,
            _ => {
                let expected = "types '[bool, int, long, decimal, double]'";
                return Err(wrong_type(name, value, expected));
            }
        };
        let Bson::String(word) = value else {
            return Err(wrong_type(name, value, "type 'string'"));
        };
        if !words.is_empty() && !words.contains(&word.as_str()) {
            return Err(not_valid(name, word));
        }
    }
    match given.get_str("version") {
        _ if !given.contains_key("locale") => Err(StoreError::new(
            40414,
            "BSON field 'collation.locale' is missing but a required field",
        )),
        Ok(version) if version != VERSION => {
            let text = format!(
                "Requested collation version {version} but the only available collator version \
                 was {VERSION}. Requested collation spec: {}",
                display_document(given)
            );
            Err(StoreError::new(161, text))
        }
        _ => Ok(()),
    }
}

fn not_valid(name: &str, word: &str) -> StoreError {
    StoreError::bad_value(format!(
        "Enumeration value '{word}' for field 'collation.{name}' is not a valid value."
    ))
}

fn check_combination(specification: &Document) -> Answer<()> {
    let strength = specification.get_i32("strength").unwrap_or(3);
    let has = |name: &str| specification.get_bool(name).unwrap_or(false);
    if has("backwards") && strength == 1 {
        let text = "'backwards' is invalid with 'strength' of 1";
        return Err(StoreError::bad_value(text));
    }
    if specification.get_str("caseFirst").ok() != Some("off") && !has("caseLevel") && strength < 3 {
        let text =
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2";
        return Err(StoreError::bad_value(text));
    }
    Ok(())
}
