//! The collations of the library ICU4X.

use std::cmp::Ordering;

use bson::{Document, doc};
use icu_collator::options::{
    AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, ResolvedCollatorOptions, Strength,
};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use super::{Answer, VERSION};
use crate::store::error::StoreError;
use crate::store::expression::truthy;
use crate::store::number;
use crate::store::order::display_document;

/// The languages with collations in a server.
const LANGUAGES: &str = "af am ar as az be bg bn bo bs ca ceb chr cs cy da de dsb dz ee el en eo \
    es et fa fi fil fo fr ga gl gu ha haw he hi hr hsb hu hy id ig is it ja ka kk kl km kn ko kok \
    ky lb lkt ln lo lt lv mk ml mn mr ms mt my nb ne nl nn om or pa pl ps pt ro ru se si sk sl smn \
    sq sr sv sw ta te th to tr ug uk ur uz vi wae wo yi yo zh zu";

/// The kinds of collations that a locale can name after `@collation=`, and their BCP 47 names.
const KINDS: [(&str, &str); 11] = [
    ("compat", "compat"),
    ("dictionary", "dict"),
    ("eor", "eor"),
    ("phonebook", "phonebk"),
    ("phonetic", "phonetic"),
    ("pinyin", "pinyin"),
    ("standard", "standard"),
    ("stroke", "stroke"),
    ("traditional", "trad"),
    ("unihan", "unihan"),
    ("zhuyin", "zhuyin"),
];

/// The order of the strings of a collation.
pub(super) struct Collator(CollatorBorrowed<'static>);

impl Collator {
    /// Creates the collator of a locale with the fields that were given. Returns it with all fields
    /// of the collation.
    pub(super) fn parse(
        name: &str,
        given: &Document,
        is_backwards: bool,
    ) -> Answer<(Self, Document)> {
        let locale = locale_of(name, given)?;
        let mut preferences = CollatorPreferences::from(&locale);
        preferences.case_first = match given.get_str("caseFirst") {
            Ok("upper") => Some(CollationCaseFirst::Upper),
            Ok("lower") => Some(CollationCaseFirst::Lower),
            Ok(_) => Some(CollationCaseFirst::False),
            Err(_) => None,
        };
        preferences.numeric_ordering = match given.get("numericOrdering").is_some_and(truthy) {
            true => Some(CollationNumericOrdering::True),
            false => None,
        };
        let collator = CollatorBorrowed::try_new(preferences, options_of(given))
            .map_err(|error| StoreError::bad_value(format!("no such collation: {error}")))?;
        let specification = specification(given, collator.resolved_options(), is_backwards);
        Ok((Self(collator), specification))
    }

    pub(super) fn compare(&self, a: &str, b: &str) -> Ordering {
        self.0.compare(a, b)
    }

    /// Appends the sort key of a string.
    pub(super) fn write_sort_key(&self, text: &str, out: &mut Vec<u8>) {
        let Ok(()) = self.0.write_sort_key_to(text, out);
    }
}

fn locale_of(name: &str, given: &Document) -> Answer<Locale> {
    let shown = || display_document(given);
    if name.is_empty() {
        let text = format!("Field 'locale' cannot be the empty string in: {}", shown());
        return Err(StoreError::bad_value(text));
    }
    let invalid = || StoreError::bad_value(format!("Field 'locale' is invalid in: {}", shown()));
    let (place, kind) = match name.split_once("@collation=") {
        Some((place, kind)) => (place, Some(kind)),
        None => (name, None),
    };
    let language = place.split('_').next().unwrap_or_default();
    if !LANGUAGES.split(' ').any(|known| known == language) {
        return Err(invalid());
    }
    let mut tag = place.replace('_', "-");
    if let Some(kind) = kind {
        let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            return Err(invalid().not_simulated(&format!("the collation '{name}'")));
        };
        tag = format!("{tag}-u-co-{kind}");
    }
    Locale::try_from_str(&tag).map_err(|_| invalid())
}

fn options_of(given: &Document) -> CollatorOptions {
    let mut options = CollatorOptions::default();
    options.strength = given
        .get("strength")
        .and_then(number::as_integer)
        .map(|strength| match strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
    options.case_level = given.get("caseLevel").map(|level| match truthy(level) {
        true => CaseLevel::On,
        false => CaseLevel::Off,
    });
    options.alternate_handling = match given.get_str("alternate") {
        Ok("shifted") => Some(AlternateHandling::Shifted),
        Ok(_) => Some(AlternateHandling::NonIgnorable),
        Err(_) => None,
    };
    options.max_variable = match given.get_str("maxVariable") {
        Ok("space") => Some(MaxVariable::Space),
        _ => Some(MaxVariable::Punctuation),
    };
    options
}

/// Returns a collation with all fields. The locale decides the fields that were not given.
fn specification(
    given: &Document,
    resolved: ResolvedCollatorOptions,
    is_backwards: bool,
) -> Document {
    let flag = |name: &str, default| given.get(name).map_or(default, truthy);
    let strength = match resolved.strength {
        Strength::Identical => 5,
        other => other as i32 + 1,
    };
    let alternate = match resolved.alternate_handling {
        AlternateHandling::Shifted => "shifted",
        _ => "non-ignorable",
    };
    let case_first = match resolved.case_first {
        CollationCaseFirst::Upper => "upper",
        CollationCaseFirst::Lower => "lower",
        _ => "off",
    };
    doc! {
        "locale": given.get_str("locale").unwrap_or_default(),
        "caseLevel": resolved.case_level == CaseLevel::On,
        "caseFirst": case_first,
        "strength": strength,
        "numericOrdering": flag("numericOrdering", false),
        "alternate": alternate,
        "maxVariable": given.get_str("maxVariable").unwrap_or("punct"),
        "normalization": flag("normalization", false),
        "backwards": flag("backwards", is_backwards),
        "version": VERSION,
    }
}
