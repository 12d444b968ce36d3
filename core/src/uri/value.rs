//! The values of options, read by kind.

use super::warning::Warning;
use crate::{description::Tags, options::Secret};
use std::collections::BTreeMap;

/// An option of a connection string as it was understood, before it became part of the options.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(String),
    /// A text that is not shown.
    Secret(Secret),
    /// Names in the order in which they were given.
    List(Vec<String>),
    /// Tag sets, one for each time that the option was given.
    TagSets(Vec<Tags>),
    /// Properties by name; values may be secret.
    Properties(BTreeMap<String, Secret>),
}

/// Why a value is not used.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The option is left out, with a warning (CS-32).
    Ignore(String),
    /// The whole connection string is refused.
    Fatal(String),
}

impl Refusal {
    pub(super) fn ignore<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self::Ignore(reason.into()))
    }

    pub(super) fn fatal<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self::Fatal(reason.into()))
    }
}

/// Reads a boolean; old spellings count, with a warning (CS-27, CS-28).
pub(super) fn boolean(
    option: &'static str,
    text: &str,
    warnings: &mut Vec<Warning>,
) -> Result<bool, Refusal> {
    let value = match text {
        "true" => return Ok(true),
        "false" => return Ok(false),
        "1" | "yes" | "y" | "t" => true,
        "0" | "-1" | "no" | "n" | "f" => false,
        _ => return Refusal::ignore("it takes true or false"),
    };
    warnings.push(Warning::LegacyBoolean { option, value });
    Ok(value)
}

/// Reads a whole number between `min` and `max` (CS-26).
pub(super) fn integer(text: &str, min: i64, max: i64) -> Result<i64, Refusal> {
    match text.parse::<i64>() {
        Ok(number) if number < min => Refusal::ignore(format!("it takes {min} or more")),
        Ok(number) if number > max => Refusal::ignore(format!("it takes {max} at most")),
        Ok(number) => Ok(number),
        Err(_) => Refusal::ignore("it takes a whole number"),
    }
}

/// Reads `key:value,key:value`; a value may contain colons but no comma, not even an encoded one,
/// because decoding comes first (CS-30, CS-31, CS-44).
pub(super) fn key_values(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    text.split(',')
        .map(|pair| match pair.split_once(':') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Refusal::ignore("it takes key:value pairs with commas between them"),
        })
        .collect()
}
