//! Collations: the rules by which a server compares texts.

use super::table::options;
use super::{OptionValue, Place, names::names};
use crate::{bson::DocumentWriter, error::Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

options! { ($)
    /// The rules by which a server compares texts (Collation, *Motivation for Change*).
    ///
    /// ```
    /// use onionskin_core::options::{
    ///     Collation, CollationAlternate, CollationCaseFirst, CollationMaxVariable,
    ///     CollationStrength,
    /// };
    ///
    /// let without_case =
    ///     Collation::builder().locale("en").strength(CollationStrength::Secondary).build();
    /// assert_eq!(without_case.locale.as_deref(), Some("en"));
    /// // "item 9" before "item 10", and upper case first.
    /// let numbered = Collation::builder()
    ///     .locale("en")
    ///     .numeric_ordering(true)
    ///     .case_first(CollationCaseFirst::Upper)
    ///     .build();
    /// // "e-mail" like "email", and accents compared from the end.
    /// let french = Collation::builder()
    ///     .locale("fr_CA")
    ///     .alternate(CollationAlternate::Shifted)
    ///     .max_variable(CollationMaxVariable::Punct)
    ///     .backwards(true)
    ///     .normalization(true)
    ///     .case_level(false)
    ///     .build();
    /// # assert_ne!(numbered, french);
    /// ```
    Collation, built by CollationBuilder => {
        /// The ICU locale, for example `en` or `de@collation=phonebook`. The server needs one;
        /// `simple` compares bytes.
        locale: String => Body "locale" (text),
        /// The differences that count. Default: tertiary.
        strength: CollationStrength => Body "strength",
        /// Whether letter case counts with the strengths primary and secondary.
        case_level: bool => Body "caseLevel",
        /// The order of upper and lower case with the strength tertiary.
        case_first: CollationCaseFirst => Body "caseFirst",
        /// Whether digits are compared as numbers.
        numeric_ordering: bool => Body "numericOrdering",
        /// Whether spaces and punctuation are compared.
        alternate: CollationAlternate => Body "alternate",
        /// The characters that `alternate: shifted` ignores.
        max_variable: CollationMaxVariable => Body "maxVariable",
        /// Whether texts are normalized before the comparison.
        normalization: bool => Body "normalization",
        /// Whether accents are compared from the end of a text, as in Canadian French.
        backwards: bool => Body "backwards",
    }
}

names! {
    /// The order of upper and lower case (`caseFirst`).
    CollationCaseFirst {
        /// Upper case first.
        Upper = "upper",
        /// Lower case first.
        Lower = "lower",
        /// The order of the locale.
        Off = "off",
    }

    /// Whether spaces and punctuation are compared (`alternate`).
    CollationAlternate {
        /// Spaces and punctuation are compared as other characters.
        NonIgnorable = "non-ignorable",
        /// Spaces and punctuation are compared only if the strength is higher than tertiary.
        Shifted = "shifted",
    }

    /// The characters that `alternate: shifted` ignores (`maxVariable`).
    CollationMaxVariable {
        /// Punctuation and spaces.
        Punct = "punct",
        /// Spaces.
        Space = "space",
    }
}

/// The differences between texts that count (`strength`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollationStrength {
    /// Base characters (1).
    Primary,
    /// Base characters and accents (2).
    Secondary,
    /// Base characters, accents and case (3).
    Tertiary,
    /// Also punctuation, or Japanese text (4).
    Quaternary,
    /// All differences (5).
    Identical,
}

impl CollationStrength {
    const ALL: [Self; 5] = [
        Self::Primary,
        Self::Secondary,
        Self::Tertiary,
        Self::Quaternary,
        Self::Identical,
    ];
}

impl From<CollationStrength> for u32 {
    fn from(strength: CollationStrength) -> Self {
        strength as Self + 1
    }
}

impl std::fmt::Display for CollationStrength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", u32::from(*self))
    }
}

/// Fails for numbers other than 1 to 5.
impl TryFrom<u32> for CollationStrength {
    type Error = Error;

    fn try_from(number: u32) -> Result<Self, Error> {
        let mut all = Self::ALL.into_iter();
        all.find(|&strength| u32::from(strength) == number)
            .ok_or_else(|| {
                Error::argument(format!("{number} is no strength of a collation: 1 to 5"))
            })
    }
}

impl Serialize for CollationStrength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (*self as i32 + 1).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CollationStrength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(u32::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl OptionValue for CollationStrength {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        u32::from(*self).write(key, body)
    }
}

impl OptionValue for Collation {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        let mut result = Ok(());
        body.nested(key, |document| result = self.write(Place::Body, document));
        result
    }
}
