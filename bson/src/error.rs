//! Errors of this crate.

use std::fmt;

/// The result type of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The number of bytes of a field's name that an error shows. The sender of a document chooses the
/// names.
const MAX_NAME_BYTES: usize = 64;

/// The number of fields that the path of an error shows, counted from the innermost.
const MAX_PATH_FIELDS: usize = 16;

/// The number of bytes of a message about a value. The sender of a document chooses the values that
/// serde puts into messages.
const MAX_MESSAGE_BYTES: usize = 512;

/// An error in the conversion between BSON and values of Rust, or between BSON and Extended JSON.
///
/// The error names the field in which it occurred ([`path`](Self::path)), and where bytes or a
/// text were read, the offset of the value in them ([`offset`](Self::offset)).
///
/// ```
/// use serde::Deserialize;
///
/// #[derive(Debug, Deserialize)]
/// struct Person { name: String, born: Option<Birth> }
/// #[derive(Debug, Deserialize)]
/// struct Birth { year: i32 }
///
/// let bytes = bson::doc! { "name": "Ada", "born": { "year": "1815" } }.to_vec()?;
/// let error = onionskin_bson::deserialize_from_slice::<Person>(&bytes).unwrap_err();
/// assert_eq!(error.path(), "born.year");
/// assert_eq!(
///     error.to_string(),
///     "the field `born.year` (byte 34): invalid type: string \"1815\", expected i32",
/// );
/// # Ok::<(), bson::error::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: ErrorKind,
    /// The names of the fields around the value, the innermost first.
    path: Vec<String>,
    offset: Option<usize>,
    /// The address of the value whose offset is not known yet.
    address: Option<usize>,
}

/// The kind of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not BSON.
    Malformed {
        /// A description of the defect.
        message: String,
    },
    /// The document does not have the form that the type needs.
    Deserialization {
        /// A description of what was expected and found.
        message: String,
    },
    /// The value cannot be represented in BSON.
    Serialization {
        /// A description of the value.
        message: String,
    },
    /// The text is not JSON, or not Extended JSON.
    ExtendedJson {
        /// A description of the defect.
        message: String,
    },
    /// The value violates a rule of its type, such as the padding of a vector.
    Value {
        /// A description of the defect.
        message: String,
    },
    /// A document is nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH) levels.
    Depth,
    /// A document or value is larger than the limit of the encoder.
    Size {
        /// The limit in bytes.
        limit: usize,
    },
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner {
            kind,
            path: Vec::new(),
            offset: None,
            address: None,
        }))
    }

    #[cold]
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed {
            message: message.into(),
        })
    }

    #[cold]
    pub(crate) fn deserialization(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Deserialization {
            message: bounded(message),
        })
    }

    #[cold]
    pub(crate) fn serialization(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Serialization {
            message: bounded(message),
        })
    }

    #[cold]
    pub(crate) fn extended_json(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::ExtendedJson {
            message: bounded(message),
        })
    }

    #[cold]
    pub(crate) fn value(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Value {
            message: bounded(message),
        })
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the path of the field in which the error occurred: the names of the fields from the
    /// outermost to the innermost, with points between them. An element of an array has its index
    /// as name. The path is empty if the error concerns the whole document.
    ///
    /// The path shows at most the 16 innermost fields and 64 bytes of each name.
    #[must_use]
    pub fn path(&self) -> String {
        let names: Vec<&str> = self.0.path.iter().rev().map(String::as_str).collect();
        names.join(".")
    }

    /// Returns the offset of the value in the bytes of the whole document, or in the text of
    /// Extended JSON; `None` if it is not known. An error about a field that is missing has the
    /// offset of the document that lacks it.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// Adds the name of the field around the value.
    #[cold]
    pub(crate) fn within(mut self, name: &[u8]) -> Self {
        if self.0.path.len() < MAX_PATH_FIELDS {
            let shown = &name[..name.len().min(MAX_NAME_BYTES)];
            let mut text = String::from_utf8_lossy(shown).into_owned();
            if shown.len() < name.len() {
                text.push_str("...");
            }
            self.0.path.push(text);
        }
        self
    }

    /// Notes the place of the value. The innermost place is kept.
    #[cold]
    pub(crate) fn at(mut self, value: &[u8]) -> Self {
        self.0.address.get_or_insert(value.as_ptr() as usize);
        self
    }

    /// Calculates the offset of the value that the error concerns in `bytes`.
    #[cold]
    pub(crate) fn in_bytes(mut self, bytes: &[u8]) -> Self {
        let start = bytes.as_ptr() as usize;
        let offset = self.0.address.take().and_then(|at| at.checked_sub(start));
        let offset = offset.filter(|&offset| offset <= bytes.len());
        self.0.offset = self.0.offset.or(offset);
        self
    }

    /// Sets the offset of the value in the text.
    #[cold]
    pub(crate) fn at_offset(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }
}

/// Returns a text, cut to [`MAX_MESSAGE_BYTES`] bytes.
fn bounded(message: impl fmt::Display) -> String {
    use fmt::Write;

    struct Bounded(String);

    impl Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let mut end = text.len().min(MAX_MESSAGE_BYTES - self.0.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            self.0.push_str(&text[..end]);
            if end < text.len() {
                return Err(fmt::Error);
            }
            Ok(())
        }
    }

    let mut text = Bounded(String::new());
    if write!(text, "{message}").is_err() {
        text.0.push_str("...");
    }
    text.0
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A peer chooses the names, and terminals act on control characters.
        let path = self.path();
        let path = path.escape_debug();
        match (self.0.path.is_empty(), self.offset()) {
            // The first byte belongs to the whole document, so its place says nothing.
            (true, None | Some(0)) => {}
            (true, Some(offset)) => write!(f, "byte {offset}: ")?,
            (false, None) => write!(f, "the field `{path}`: ")?,
            (false, Some(offset)) => write!(f, "the field `{path}` (byte {offset}): ")?,
        }
        write!(f, "{}", self.0.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { message } => write!(f, "malformed BSON: {message}"),
            Self::Deserialization { message }
            | Self::Serialization { message }
            | Self::Value { message } => f.write_str(message),
            Self::ExtendedJson { message } => write!(f, "invalid Extended JSON: {message}"),
            Self::Depth => write!(
                f,
                "the document is nested deeper than {} levels",
                crate::MAX_DEPTH
            ),
            Self::Size { limit } => {
                write!(f, "the document is larger than {limit} bytes")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("path", &self.path())
            .field("offset", &self.0.offset)
            .finish()
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::deserialization(message)
    }

    /// Says how a field may be missing. The attributes `deserialize_with` and `with` keep serde
    /// from asking the type of the field.
    #[cold]
    fn missing_field(name: &'static str) -> Self {
        Self::custom(format_args!(
            "missing field `{name}`; make it an Option or add #[serde(default)], which an Option \
             with `deserialize_with` needs too"
        ))
    }

    /// Calls a null by its name.
    #[cold]
    fn invalid_type(found: serde::de::Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        // The crate `bson` begins the descriptions of its types with this word.
        let expected = expected.to_string();
        let expected = expected.strip_prefix("expecting ").unwrap_or(&expected);
        match found {
            serde::de::Unexpected::Unit => {
                Self::custom(format_args!("invalid type: null, expected {expected}"))
            }
            found => Self::custom(format_args!("invalid type: {found}, expected {expected}")),
        }
    }
}

impl Error {
    /// Calls a value by its name if a visitor refused the map in which serde sees it.
    #[cold]
    pub(crate) fn of_value(mut self, name: &str) -> Self {
        if let ErrorKind::Deserialization { message } = &mut self.0.kind
            && let Some(rest) = message.strip_prefix("invalid type: map,")
        {
            *message = format!("invalid type: {name},{rest}");
        }
        self
    }
}

impl serde::ser::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::serialization(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_only_a_part_of_long_names_and_values() {
        let long = "x".repeat(10_000);
        let mut error = Error::deserialization(&long);
        for _ in 0..1000 {
            error = error.within(long.as_bytes());
        }
        assert!(error.to_string().len() < 2000, "{error}");
    }
}
