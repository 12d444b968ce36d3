//! Values of options, and the parsers for each kind of value.

use crate::{
    description::Tags,
    options::{Secret, Warning},
};
use std::collections::BTreeMap;

/// The value of one option of a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A boolean, such as the value of `tls`.
    Bool(bool),
    /// An integer, in the unit of the option, such as milliseconds for `connectTimeoutMS`.
    Int(i64),
    /// A string, such as the value of `appName`.
    Text(String),
    /// A string that `Debug` does not print, such as the value of `proxyPassword`.
    Secret(Secret),
    /// The names in `compressors`, in the order of the string.
    List(Vec<String>),
    /// Tag sets, one for each occurrence of the option.
    TagSets(Vec<Tags>),
    /// Mechanism properties by name. `Debug` does not print their values.
    Properties(BTreeMap<String, Secret>),
}

/// The reason why a value is not used, and whether parsing continues.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The option is ignored with a warning (CS-32).
    Ignore(String),
    /// Parsing fails for this reason.
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

/// Parses a boolean (CS-27). Older spellings, such as `yes`, are accepted with a warning (CS-28).
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

/// Parses an integer from `min` to `max` (CS-26).
pub(super) fn integer(text: &str, min: i64, max: i64) -> Result<i64, Refusal> {
    match text.parse::<i64>() {
        Ok(number) if number < min => Refusal::ignore(format!("it takes {min} or more")),
        Ok(number) if number > max => Refusal::ignore(format!("it takes {max} at most")),
        Ok(number) => Ok(number),
        Err(_) => Refusal::ignore("it takes a whole number"),
    }
}

/// Parses `key:value,key:value`, with the key up to the first colon (CS-30). A value may contain
/// colons but no comma, not even an encoded one (CS-31): `text` is decoded already (CS-44).
pub(super) fn key_values(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    text.split(',')
        .map(|pair| match pair.split_once(':') {
            // The keys become names of fields.
            Some((key, _)) if key.contains('\0') => {
                Refusal::ignore("a key contains a NUL character")
            }
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Refusal::ignore("it takes key:value pairs with commas between them"),
        })
        .collect()
}
