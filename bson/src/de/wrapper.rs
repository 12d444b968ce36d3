//! Values whose types JSON lacks, as the maps by which types of the crate `bson` recognize them.
//!
//! The maps resemble Extended JSON. For raw types (`RawBsonRef`, `RawDocumentBuf` and others) they
//! contain numbers and bytes instead of texts.

use super::{Deserializer, access::Name, newtype};
use crate::error::{Error, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{
    Deserializer as SerdeDeserializer,
    de::{DeserializeSeed, MapAccess, Visitor, value::I64Deserializer},
    forward_to_deserialize_any,
};
use std::{any::type_name, borrow::Cow, fmt};

/// A value in such a map, or a value that is shown as a map.
///
/// A flag tells whether the value is for a raw type.
#[derive(Clone, Debug)]
pub(super) enum Node<'de> {
    // Values in maps.
    Text(Cow<'de, str>),
    Bytes(&'de [u8]),
    ObjectIdHex([u8; 12]),
    ObjectIdBytes([u8; 12]),
    DecimalBytes([u8; 16]),
    Base64(&'de [u8]),
    Byte(u8),
    ByteHex(u8),
    Unsigned(u32),
    Millis(i64),
    MillisText(i64),
    True,
    One,
    Scope(Deserializer<'de>, bool),
    // Values of BSON.
    ObjectId([u8; 12], bool),
    RawDate(i64),
    Binary(u8, &'de [u8], bool),
    Timestamp(u32, u32),
    Decimal128([u8; 16]),
    Regex(Cow<'de, str>, Cow<'de, str>),
    Code(Cow<'de, str>),
    Symbol(Cow<'de, str>),
    CodeWithScope(Cow<'de, str>, Deserializer<'de>, bool),
    DbPointer(Cow<'de, str>, [u8; 12], bool),
    Undefined,
    MinKey,
    MaxKey,
    RawDocument(&'de [u8]),
    RawArray(&'de [u8]),
    // Maps in maps.
    DateBody(i64),
    BinaryBody(u8, &'de [u8], bool),
    TimestampBody(u32, u32),
    RegexBody(Cow<'de, str>, Cow<'de, str>),
    DbPointerBody(Cow<'de, str>, [u8; 12], bool),
}

impl<'de> Node<'de> {
    /// Returns the key of the map that the value is shown as, by its index; `None` after the last.
    fn key(&self, index: u8) -> Option<&'static str> {
        Some(match (self, index) {
            (Self::ObjectId(..), 0) => "$oid",
            (Self::RawDate(_), 0) => "$date",
            (Self::DateBody(_), 0) => "$numberLong",
            (Self::Binary(..), 0) => "$binary",
            (Self::BinaryBody(..), 0) => "subType",
            (Self::BinaryBody(_, _, true), 1) => "bytes",
            (Self::BinaryBody(_, _, false), 1) => "base64",
            (Self::Timestamp(..), 0) => "$timestamp",
            (Self::TimestampBody(..), 0) => "t",
            (Self::TimestampBody(..), 1) => "i",
            (Self::Decimal128(_), 0) => "$numberDecimalBytes",
            (Self::Regex(..), 0) => "$regularExpression",
            (Self::RegexBody(..), 0) => "pattern",
            (Self::RegexBody(..), 1) => "options",
            (Self::Code(_) | Self::CodeWithScope(..), 0) => "$code",
            (Self::CodeWithScope(..), 1) => "$scope",
            (Self::Symbol(_), 0) => "$symbol",
            (Self::DbPointer(..), 0) => "$dbPointer",
            (Self::DbPointerBody(..), 0) => "$ref",
            (Self::DbPointerBody(..), 1) => "$id",
            (Self::Undefined, 0) => "$undefined",
            (Self::MinKey, 0) => "$minKey",
            (Self::MaxKey, 0) => "$maxKey",
            (Self::RawDocument(_), 0) => newtype::RAW_DOCUMENT,
            (Self::RawArray(_), 0) => newtype::RAW_ARRAY,
            _ => return None,
        })
    }

    /// Returns the value of the key with this index; `None` if there is no such key.
    fn value(&self, index: u8) -> Option<Self> {
        Some(match (self, index) {
            (Self::ObjectId(id, true), 0) => Self::ObjectIdBytes(*id),
            (Self::ObjectId(id, false), 0) => Self::ObjectIdHex(*id),
            (Self::RawDate(millis), 0) => Self::Millis(*millis),
            (Self::DateBody(millis), 0) => Self::MillisText(*millis),
            (Self::Binary(subtype, data, raw), 0) => Self::BinaryBody(*subtype, data, *raw),
            (Self::BinaryBody(subtype, _, true), 0) => Self::Byte(*subtype),
            (Self::BinaryBody(_, data, true), 1) => Self::Bytes(data),
            (Self::BinaryBody(subtype, _, false), 0) => Self::ByteHex(*subtype),
            (Self::BinaryBody(_, data, false), 1) => Self::Base64(data),
            (Self::Timestamp(time, increment), 0) => Self::TimestampBody(*time, *increment),
            (Self::TimestampBody(number, _), 0) | (Self::TimestampBody(_, number), 1) => {
                Self::Unsigned(*number)
            }
            (Self::Decimal128(bytes), 0) => Self::DecimalBytes(*bytes),
            (Self::Regex(pattern, options), 0) => Self::RegexBody(pattern.clone(), options.clone()),
            (Self::RegexBody(text, _), 0)
            | (Self::RegexBody(_, text), 1)
            | (Self::Code(text), 0)
            | (Self::Symbol(text), 0)
            | (Self::CodeWithScope(text, ..), 0)
            | (Self::DbPointerBody(text, ..), 0) => Self::Text(text.clone()),
            (Self::CodeWithScope(_, scope, raw), 1) => Self::Scope(scope.clone(), *raw),
            (Self::DbPointer(namespace, id, raw), 0) => {
                Self::DbPointerBody(namespace.clone(), *id, *raw)
            }
            (Self::DbPointerBody(_, id, raw), 1) => Self::ObjectId(*id, *raw),
            (Self::Undefined, 0) => Self::True,
            (Self::MinKey | Self::MaxKey, 0) => Self::One,
            (Self::RawDocument(bytes) | Self::RawArray(bytes), 0) => Self::Bytes(bytes),
            _ => return None,
        })
    }
}

/// The map that a value is shown as.
#[derive(Clone, Debug)]
pub(super) struct Wrapper<'de> {
    node: Node<'de>,
    /// The number of keys that were read.
    keys: u8,
}

impl<'de> Wrapper<'de> {
    pub(super) fn new(node: Node<'de>) -> Self {
        Self { node, keys: 0 }
    }
}

impl<'de> MapAccess<'de> for Wrapper<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(key) = self.node.key(self.keys) else {
            return Ok(None);
        };
        self.keys += 1;
        seed.deserialize(Name(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        match self
            .keys
            .checked_sub(1)
            .and_then(|key| self.node.value(key))
        {
            Some(node) => seed.deserialize(node),
            None => Err(Error::deserialization("a value was read before its name")),
        }
    }
}

/// The map that a date is shown as, except to raw types. Dates are frequent.
#[derive(Clone, Debug)]
pub(super) struct Date {
    millis: i64,
    is_read: bool,
}

impl Date {
    pub(super) fn new(millis: i64) -> Self {
        let is_read = false;
        Self { millis, is_read }
    }
}

impl<'de> MapAccess<'de> for Date {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(None);
        }
        seed.deserialize(Name("$date")).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        if type_name::<V::Value>() == DATE_BODY {
            let millis = I64Deserializer::<NoMessage>::new(self.millis);
            return seed
                .deserialize(millis)
                .map_err(|NoMessage| Error::deserialization("expected a date"));
        }
        seed.deserialize(Node::DateBody(self.millis))
    }
}

/// The type by which the crate `bson` reads the content of `$date`.
///
/// This type tries several forms, of which a number is one. A number needs no allocation, and a
/// text needs three. If a later version of the crate names the type otherwise, dates are read as
/// texts, as by all other types.
pub(super) const DATE_BODY: &str = "bson::extjson::models::DateTimeBody";

/// The error of an attempt whose message nobody reads.
#[derive(Debug)]
struct NoMessage;

impl fmt::Display for NoMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no message")
    }
}

impl std::error::Error for NoMessage {}

impl serde::de::Error for NoMessage {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Returns the hexadecimal digits of bytes, as text in `digits`.
fn hex<'a>(bytes: &[u8], digits: &'a mut [u8]) -> &'a str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    std::str::from_utf8(digits).unwrap_or_default()
}

impl<'de> SerdeDeserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Self::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Self::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Self::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Self::ObjectIdHex(id) => visitor.visit_str(hex(&id, &mut [0; 24])),
            Self::ObjectIdBytes(id) => visitor.visit_bytes(&id),
            Self::DecimalBytes(bytes) => visitor.visit_bytes(&bytes),
            Self::Base64(bytes) => visitor.visit_string(STANDARD.encode(bytes)),
            Self::Byte(byte) => visitor.visit_u8(byte),
            Self::ByteHex(byte) => visitor.visit_str(hex(&[byte], &mut [0; 2])),
            Self::Unsigned(number) => visitor.visit_u32(number),
            Self::Millis(millis) => visitor.visit_i64(millis),
            Self::MillisText(millis) => visitor.visit_string(millis.to_string()),
            Self::True => visitor.visit_bool(true),
            Self::One => visitor.visit_i32(1),
            Self::Scope(mut scope, true) => {
                scope.deserialize_newtype_struct(newtype::RAW_DOCUMENT, visitor)
            }
            Self::Scope(mut scope, false) => scope.deserialize_map(visitor),
            node => visitor.visit_map(Wrapper::new(node)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        match self {
            Self::Scope(mut scope, _) => scope.deserialize_newtype_struct(name, visitor),
            // The raw types and `Uuid` of the crate `bson` expect the value itself.
            node if name.starts_with('$') => node.deserialize_any(visitor),
            node => visitor.visit_newtype_struct(node),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        matches!(self, Self::Scope(scope, _) if scope.is_human_readable)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}
