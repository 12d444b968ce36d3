//! Values whose types JSON lacks, as the maps by which types of the crate `bson` recognize them.
//!
//! The maps resemble Extended JSON. For raw types (`RawBsonRef`, `RawDocumentBuf` and others) they
//! contain numbers and bytes instead of texts.

use super::{Deserializer, newtype};
use crate::error::{Error, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{
    Deserializer as SerdeDeserializer,
    de::{DeserializeSeed, MapAccess, Visitor, value::I64Deserializer},
    forward_to_deserialize_any,
};
use std::{any::type_name, borrow::Cow, fmt};

/// A value in such a map, or a map itself.
#[derive(Clone, Debug)]
pub(super) enum Node<'de> {
    Text(Cow<'de, str>),
    Bytes(&'de [u8]),
    ObjectIdHex([u8; 12]),
    ObjectIdBytes([u8; 12]),
    Decimal128([u8; 16]),
    Base64(&'de [u8]),
    Byte(u8),
    ByteHex(u8),
    Unsigned(u32),
    Millis(i64),
    MillisText(i64),
    True,
    One,
    /// A scope, and whether it is for a raw type.
    Scope(Deserializer<'de>, bool),
    /// A date as `{"$numberLong": text}`.
    DateBody(i64),
    BinaryBody(u8, &'de [u8], bool),
    TimestampBody {
        time: u32,
        increment: u32,
    },
    RegexBody(Cow<'de, str>, Cow<'de, str>),
    DbPointerBody(Cow<'de, str>, [u8; 12], bool),
    ObjectId([u8; 12], bool),
}

type Entry<'de> = (&'static str, Node<'de>);

/// A map with one or two entries.
#[derive(Clone, Debug)]
pub(super) struct Wrapper<'de> {
    first: Option<Entry<'de>>,
    second: Option<Entry<'de>>,
    /// The value of the key that was read last.
    value: Option<Node<'de>>,
}

impl<'de> Wrapper<'de> {
    pub(super) fn one(key: &'static str, node: Node<'de>) -> Self {
        Self {
            first: Some((key, node)),
            second: None,
            value: None,
        }
    }

    fn two(first: Entry<'de>, second: Entry<'de>) -> Self {
        Self {
            first: Some(first),
            second: Some(second),
            value: None,
        }
    }

    pub(super) fn raw_document(bytes: &'de [u8]) -> Self {
        Self::one(newtype::RAW_DOCUMENT, Node::Bytes(bytes))
    }

    pub(super) fn raw_array(bytes: &'de [u8]) -> Self {
        Self::one(newtype::RAW_ARRAY, Node::Bytes(bytes))
    }

    pub(super) fn object_id(id: [u8; 12], is_raw: bool) -> Self {
        let node = if is_raw {
            Node::ObjectIdBytes(id)
        } else {
            Node::ObjectIdHex(id)
        };
        Self::one("$oid", node)
    }

    pub(super) fn date(millis: i64, is_raw: bool) -> Self {
        let node = if is_raw {
            Node::Millis(millis)
        } else {
            Node::DateBody(millis)
        };
        Self::one("$date", node)
    }

    pub(super) fn timestamp(time: u32, increment: u32) -> Self {
        Self::one("$timestamp", Node::TimestampBody { time, increment })
    }

    pub(super) fn decimal128(bytes: [u8; 16]) -> Self {
        Self::one("$numberDecimalBytes", Node::Decimal128(bytes))
    }

    pub(super) fn binary(subtype: u8, data: &'de [u8], is_raw: bool) -> Self {
        Self::one("$binary", Node::BinaryBody(subtype, data, is_raw))
    }

    pub(super) fn regex(pattern: Cow<'de, str>, options: Cow<'de, str>) -> Self {
        Self::one("$regularExpression", Node::RegexBody(pattern, options))
    }

    pub(super) fn code_with_scope(
        code: Cow<'de, str>,
        scope: Deserializer<'de>,
        is_raw: bool,
    ) -> Self {
        Self::two(
            ("$code", Node::Text(code)),
            ("$scope", Node::Scope(scope, is_raw)),
        )
    }

    pub(super) fn db_pointer(namespace: Cow<'de, str>, id: [u8; 12], is_raw: bool) -> Self {
        Self::one("$dbPointer", Node::DbPointerBody(namespace, id, is_raw))
    }
}

impl<'de> MapAccess<'de> for Wrapper<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some((key, node)) = self.first.take().or_else(|| self.second.take()) else {
            return Ok(None);
        };
        self.value = Some(node);
        seed.deserialize(Node::Text(Cow::Borrowed(key))).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        match self.value.take() {
            Some(Node::DateBody(millis)) if type_name::<V::Value>() == DATE_BODY => {
                let millis = I64Deserializer::<NoMessage>::new(millis);
                seed.deserialize(millis)
                    .map_err(|NoMessage| Error::deserialization("expected a date"))
            }
            Some(node) => seed.deserialize(node),
            None => Err(Error::deserialization("a value was read before its name")),
        }
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

impl<'de> Node<'de> {
    /// Returns the map that the node stands for; `None` if it is a single value.
    fn map(&self) -> Option<Wrapper<'de>> {
        Some(match self.clone() {
            Node::DateBody(millis) => Wrapper::one("$numberLong", Node::MillisText(millis)),
            Node::BinaryBody(subtype, data, true) => Wrapper::two(
                ("subType", Node::Byte(subtype)),
                ("bytes", Node::Bytes(data)),
            ),
            Node::BinaryBody(subtype, data, false) => Wrapper::two(
                ("subType", Node::ByteHex(subtype)),
                ("base64", Node::Base64(data)),
            ),
            Node::TimestampBody { time, increment } => Wrapper::two(
                ("t", Node::Unsigned(time)),
                ("i", Node::Unsigned(increment)),
            ),
            Node::RegexBody(pattern, options) => Wrapper::two(
                ("pattern", Node::Text(pattern)),
                ("options", Node::Text(options)),
            ),
            Node::DbPointerBody(namespace, id, is_raw) => Wrapper::two(
                ("$ref", Node::Text(namespace)),
                ("$id", Node::ObjectId(id, is_raw)),
            ),
            Node::ObjectId(id, is_raw) => Wrapper::object_id(id, is_raw),
            _ => return None,
        })
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
            Self::Decimal128(bytes) => visitor.visit_bytes(&bytes),
            Self::Base64(bytes) => visitor.visit_string(STANDARD.encode(bytes)),
            Self::Byte(byte) => visitor.visit_u8(byte),
            Self::ByteHex(byte) => visitor.visit_str(hex(&[byte], &mut [0; 2])),
            Self::Unsigned(number) => visitor.visit_u32(number),
            Self::Millis(millis) => visitor.visit_i64(millis),
            Self::MillisText(millis) => visitor.visit_string(millis.to_string()),
            Self::True => visitor.visit_bool(true),
            Self::One => visitor.visit_i32(1),
            Self::Scope(scope, true) => {
                scope.deserialize_newtype_struct(newtype::RAW_DOCUMENT, visitor)
            }
            Self::Scope(scope, false) => scope.deserialize_map(visitor),
            node => match node.map() {
                Some(map) => visitor.visit_map(map),
                None => Err(Error::deserialization("expected a value")),
            },
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
            Self::Scope(scope, _) => scope.deserialize_newtype_struct(name, visitor),
            // The raw types and `Uuid` of the crate `bson` expect the value itself.
            node if name.starts_with('$') => node.deserialize_any(visitor),
            node => visitor.visit_newtype_struct(node),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        matches!(self, Self::Scope(scope, _) if scope.is_human_readable())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}
