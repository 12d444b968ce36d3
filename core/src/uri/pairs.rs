//! The options of a connection string as pairs of key and value, before they are interpreted.

use super::{
    Result, invalid,
    split::decode,
    table::{self, OptionSpec},
};
use crate::{error::UriPart, options::Secret};

/// One option of a connection string: a key and a value, both decoded.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) key: String,
    /// The value; as it was written if `is_malformed`.
    pub(super) value: Secret,
    /// True if the value cannot be decoded. Interpretation ignores such a value with a warning.
    pub(super) is_malformed: bool,
}

impl Pair {
    /// Returns the pair of a key and a value that need no decoding.
    pub(super) fn new(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: Secret::new(value),
            is_malformed: false,
        }
    }

    /// Returns the definition of the option; `None` for an unknown option.
    pub(super) fn spec(&self) -> Option<&'static OptionSpec> {
        table::find(&self.key)
    }

    /// True if the key is `name`, without regard to the case of ASCII letters (CS-22).
    pub(super) fn is(&self, name: &str) -> bool {
        self.key.eq_ignore_ascii_case(name)
    }
}

/// True if these options and the database before them can be the end of a password in which `?` or
/// `/` was not encoded: an `@` follows, as after a password.
pub(super) fn may_end_a_password(options: &[Pair]) -> bool {
    options
        .iter()
        .any(|pair| pair.key.contains('@') || pair.value.expose().contains('@'))
}

/// Returns the pairs of key and value between ampersands (CS-19, CS-20). An empty piece is skipped;
/// another piece without an equals sign or without a key is an error. The message gives only the
/// position of the piece, because the piece may be the end of a password.
pub(super) fn pairs(options: &str) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for (index, piece) in options.split('&').enumerate() {
        if piece.is_empty() {
            continue;
        }
        match piece.split_once('=') {
            Some((key, value)) if !key.is_empty() => pairs.push(pair(key, value)),
            _ => {
                // A key without `=` is an error (CS-21), and so is an empty key.
                let message = format!(
                    "option {} is not of the form key=value; if it belongs to the value before \
                     it, write & as %26",
                    index + 1
                );
                return Err(invalid(UriPart::Options, message));
            }
        }
    }
    Ok(pairs)
}

/// Decodes a key and a value. A key that cannot be decoded stays as it is, and is unknown.
fn pair(key: &str, value: &str) -> Pair {
    let decoded = decode(value);
    Pair {
        key: decode(key).unwrap_or_else(|| key.to_owned()),
        is_malformed: decoded.is_none(),
        value: Secret::new(decoded.unwrap_or_else(|| value.to_owned())),
    }
}
