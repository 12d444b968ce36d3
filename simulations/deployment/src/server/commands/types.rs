//! The fields of commands and their types.

use super::{Release, check_missing, is_missing, unknown};
use crate::server::fault::{Fault, fault};
use bson::{Bson, Document, spec::BinarySubtype};

/// The size of a UUID, in bytes.
const UUID_BYTES: usize = 16;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::server) enum Kind {
    /// A value of any type. What the command expects is checked when it is executed.
    Any,
    Bool,
    /// A boolean, or a number that is true unless it is 0.
    Flag,
    /// A number.
    Whole,
    Int,
    Long,
    Text,
    Object,
    Array,
    Binary,
    Uuid,
    /// The name of a collection.
    Collection,
    /// The name of a collection, or its UUID.
    CollectionOrUuid,
    /// The name of a collection, or 1 for the whole database.
    CollectionOrOne,
    TextOrObject,
    TextOrNumber,
    FlagOrObject,
    BoolOrUuid,
    TextOrWhole,
    TextOrArrayOrObject,
    /// An object with these fields, and no others.
    Nested(&'static [Field]),
    /// An object with the fields of the first of these names that it has. One without any of the
    /// names is checked when the command is executed.
    Tagged(&'static [(&'static str, &'static [Field])]),
    /// An array of values of this type.
    ArrayOf(&'static Self),
    /// An array of the stages of a pipeline, which has errors of its own.
    Pipeline,
    /// A text that is one of these.
    OneOf(&'static [&'static str]),
}

/// A field of a command or of an object in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::server) struct Field {
    pub(in crate::server) name: &'static str,
    pub(in crate::server) kind: Kind,
    pub(in crate::server) required: bool,
    /// The smallest value of a number.
    least: Option<i64>,
    since: Release,
    /// The first release without the field.
    until: Release,
    /// True for a field that the simulated server refuses, because its result would be wrong.
    pub(in crate::server) refused: bool,
}

/// Makes an optional field.
pub(super) const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        required: false,
        least: None,
        since: (0, 0),
        until: (u16::MAX, 0),
        refused: false,
    }
}

impl Field {
    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) const fn natural(self) -> Self {
        self.at_least(0)
    }

    pub(super) const fn at_least(mut self, least: i64) -> Self {
        self.least = Some(least);
        self
    }

    /// True if a value is a number below the smallest one.
    pub(super) fn is_too_small(&self, value: &Bson) -> bool {
        self.least.is_some_and(|least| match value {
            Bson::Int32(n) => i64::from(*n) < least,
            Bson::Int64(n) => *n < least,
            Bson::Double(n) => *n < least as f64,
            _ => false,
        })
    }

    pub(super) const fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = (major, minor);
        self
    }

    pub(super) const fn until(mut self, major: u16, minor: u16) -> Self {
        self.until = (major, minor);
        self
    }

    pub(super) const fn refused(mut self) -> Self {
        self.refused = true;
        self
    }

    pub(super) fn exists(&self, release: Release) -> bool {
        self.since <= release && release < self.until
    }

    /// True if a value is one of this field. [`check`](Self::check) has the reason if it is not,
    /// but takes longer.
    pub(super) fn accepts(&self, value: &Bson, release: Release) -> bool {
        let is_wrong = self.refused || self.is_too_small(value);
        is_missing(Some(value)) || !is_wrong && kind_accepts(self.kind, value, release)
    }

    /// True if a value is given for a field that servers have and the simulated server does not.
    pub(super) fn is_refused(&self, value: &Bson) -> bool {
        self.refused && !is_missing(Some(value))
    }

    /// Returns an error if a value is not one of this field.
    pub(super) fn check(&self, path: &str, value: &Bson, release: Release) -> Result<(), Fault> {
        if is_missing(Some(value)) {
            return Ok(());
        }
        if self.is_refused(value) {
            return Err(unknown(path).not_simulated(path));
        }
        check_kind(self.kind, path, value, release)?;
        if self.is_too_small(value) {
            let (name, shown, least) = (self.name, value, self.least.unwrap_or_default());
            let text =
                format!("BSON field '{name}' value must be >= {least}, actual value '{shown}'");
            return Err(fault(if release < (8, 0) { 51024 } else { 2 }, text));
        }
        Ok(())
    }
}

fn kind_accepts(kind: Kind, value: &Bson, release: Release) -> bool {
    let expected = expected(kind);
    if !expected.is_empty() && !expected.contains(&type_name(value)) {
        return false;
    }
    match (kind, value) {
        (Kind::Nested(fields), Bson::Document(document)) => accept(fields, document, release),
        (Kind::Tagged(variants), Bson::Document(document)) => {
            variant(variants, document).is_none_or(|fields| accept(fields, document, release))
        }
        (Kind::ArrayOf(kind), Bson::Array(items)) => {
            items.iter().all(|item| kind_accepts(*kind, item, release))
        }
        (Kind::TextOrArrayOrObject, Bson::Array(items)) => {
            items.iter().all(|item| matches!(item, Bson::String(_)))
        }
        (Kind::Pipeline, value) => check_pipeline(value).is_ok(),
        (Kind::OneOf(words), Bson::String(word)) => words.contains(&word.as_str()),
        (Kind::Uuid, Bson::Binary(binary)) => {
            binary.subtype == BinarySubtype::Uuid && binary.bytes.len() == UUID_BYTES
        }
        _ => true,
    }
}

/// Returns the fields of the first name that an object has.
fn variant(
    variants: &'static [(&'static str, &'static [Field])],
    document: &Document,
) -> Option<&'static [Field]> {
    let named = |key: &String| variants.iter().find(|(name, _)| name == key);
    document.keys().find_map(named).map(|(_, fields)| *fields)
}

/// True if an object has these fields and no others.
fn accept(fields: &[Field], document: &Document, release: Release) -> bool {
    let is_known = |(name, value): (&String, &Bson)| {
        let mut known = fields.iter().filter(|field| field.name == name);
        known.any(|field| field.exists(release) && field.accepts(value, release))
    };
    document.iter().all(is_known) && has_required(fields, document, release)
}

/// True if no required field is missing.
pub(super) fn has_required(fields: &[Field], document: &Document, release: Release) -> bool {
    let mut required = fields.iter().filter(|f| f.required && f.exists(release));
    required.all(|field| !is_missing(document.get(field.name)))
}

fn check_kind(kind: Kind, path: &str, value: &Bson, release: Release) -> Result<(), Fault> {
    let expected = expected(kind);
    if !expected.is_empty() && !expected.contains(&type_name(value)) {
        let actual = type_name(value);
        let expected = match expected {
            // The server does not name the arrays of texts beside other types.
            ["string", "array", "object"] => &["string", "object"],
            expected => expected,
        };
        let expected = match expected {
            [one] => format!("expected type '{one}'"),
            // Before 8.0, the quotation mark precedes the bracket.
            several if release < (8, 0) => format!("expected types '[{}']", several.join(", ")),
            several => format!("expected types '[{}]'", several.join(", ")),
        };
        let text = format!("BSON field '{path}' is the wrong type '{actual}', {expected}");
        return Err(fault(14, text));
    }
    match (kind, value) {
        (Kind::Nested(fields), Bson::Document(document)) => {
            check_object(path, fields, document, release)
        }
        (Kind::Tagged(variants), Bson::Document(document)) => match variant(variants, document) {
            Some(fields) => check_object(path, fields, document, release),
            None => Ok(()),
        },
        (Kind::ArrayOf(kind), Bson::Array(items)) => {
            items
                .iter()
                .enumerate()
                .try_for_each(|(at, item)| match kind {
                    // The server names the elements of a list of objects by the list alone.
                    Kind::Nested(_) | Kind::Tagged(_) if matches!(item, Bson::Document(_)) => {
                        check_kind(*kind, path, item, release)
                    }
                    _ if kind_accepts(*kind, item, release) => Ok(()),
                    _ => check_kind(*kind, &format!("{path}.{at}"), item, release),
                })
        }
        (Kind::TextOrArrayOrObject, Bson::Array(_)) => {
            check_kind(Kind::ArrayOf(&Kind::Text), path, value, release)
        }
        (Kind::Pipeline, value) => check_pipeline(value),
        (Kind::OneOf(words), Bson::String(word)) if !words.contains(&word.as_str()) => {
            let text =
                format!("Enumeration value '{word}' for field '{path}' is not a valid value.");
            Err(fault(2, text))
        }
        (Kind::Uuid, Bson::Binary(binary)) if binary.subtype != BinarySubtype::Uuid => {
            let actual = match binary.subtype {
                BinarySubtype::Generic => "general",
                BinarySubtype::Function => "function",
                BinarySubtype::UuidOld => "UUID(deprecated)",
                BinarySubtype::Md5 => "MD5",
                BinarySubtype::Encrypted => "encrypt",
                BinarySubtype::Column => "Column",
                _ => "Custom",
            };
            let text = format!(
                "BSON field '{path}' is the wrong binData type '{actual}', expected type 'UUID'"
            );
            Err(fault(14, text))
        }
        (Kind::Uuid, Bson::Binary(binary)) if binary.bytes.len() != UUID_BYTES => {
            let text = "uuid must be a 16-byte binary field with UUID (4) subtype";
            Err(fault(207, text))
        }
        _ => Ok(()),
    }
}

fn check_pipeline(value: &Bson) -> Result<(), Fault> {
    let Bson::Array(stages) = value else {
        return Err(fault(14, "'pipeline' option must be specified as an array"));
    };
    match stages.iter().all(|stage| stage.as_document().is_some()) {
        true => Ok(()),
        false => {
            let text = "Each element of the 'pipeline' array must be an object";
            Err(fault(14, text))
        }
    }
}

fn check_object(
    path: &str,
    fields: &[Field],
    document: &Document,
    release: Release,
) -> Result<(), Fault> {
    for (name, value) in document {
        let path = format!("{path}.{name}");
        let mut known = fields.iter().filter(|field| field.exists(release));
        match known.find(|field| field.name == name) {
            Some(field) => field.check(&path, value, release)?,
            None => return Err(unknown(&path)),
        }
    }
    check_missing(path, fields, document, release)
}

/// Returns the names of the types that a kind accepts, in the order of the server's messages. An
/// empty list stands for all types.
fn expected(kind: Kind) -> &'static [&'static str] {
    match kind {
        // The names of collections have errors of their own.
        Kind::Collection | Kind::CollectionOrUuid | Kind::CollectionOrOne => &[],
        Kind::Any | Kind::Pipeline => &[],
        Kind::Bool => &["bool"],
        Kind::Flag => &["bool", "long", "int", "decimal", "double"],
        Kind::Whole => &["long", "int", "decimal", "double"],
        Kind::Int => &["int"],
        Kind::Long => &["long"],
        Kind::Text | Kind::OneOf(_) => &["string"],
        Kind::Object | Kind::Nested(_) | Kind::Tagged(_) => &["object"],
        Kind::Array | Kind::ArrayOf(_) => &["array"],
        Kind::Binary | Kind::Uuid => &["binData"],
        Kind::TextOrObject => &["string", "object"],
        Kind::TextOrNumber => &["string", "int", "long", "double", "decimal"],
        Kind::FlagOrObject => &["bool", "long", "int", "decimal", "double", "object"],
        Kind::BoolOrUuid => &["bool", "binData"],
        Kind::TextOrWhole => &["string", "long", "int", "decimal", "double"],
        Kind::TextOrArrayOrObject => &["string", "array", "object"],
    }
}

/// Returns the server's name of the type of a value.
pub(in crate::server) const fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::Undefined => "undefined",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::DbPointer(_) => "dbPointer",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::Symbol(_) => "symbol",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::Int32(_) => "int",
        Bson::Timestamp(_) => "timestamp",
        Bson::Int64(_) => "long",
        Bson::Decimal128(_) => "decimal",
        Bson::MinKey => "minKey",
        Bson::MaxKey => "maxKey",
    }
}
