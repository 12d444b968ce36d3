//! The deserializer of one value.

use super::{
    Deserializer, NO_VALUE,
    access::{ArrayAccess, DocumentAccess, Name},
    newtype,
    wrapper::{Date, Node, Wrapper},
};
use crate::{
    MAX_DEPTH,
    error::{Error, ErrorKind, Result},
    read::{
        Elements, binary, boolean, code_with_scope, db_pointer, fixed, kind, not_a_type, regex,
        string_bytes, text, timestamp,
    },
};
use serde::{
    Deserializer as SerdeDeserializer,
    de::{Visitor, value::CowStrDeserializer},
    forward_to_deserialize_any,
};
use std::borrow::Cow;

/// The subtype of generic binary data.
const GENERIC: u8 = 0;

/// The subtype of UUIDs.
const UUID: u8 = 4;

/// The form of a value for which a type of the crate `bson` has asked.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// The form that all types understand.
    Plain,
    /// The form of raw types: the bytes of documents and arrays, and numbers instead of texts.
    Raw,
    /// Binary data, if it is binary data, must be a UUID.
    Uuid,
}

impl<'de> Deserializer<'de> {
    // The functions that take a value note that it is read only after its bytes were read. So a
    // type can go on after an error: the value is then read past, or is the same error again.

    /// Reads the bytes of a value of a fixed size.
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.elements.take()?;
        self.kind = NO_VALUE;
        Ok(bytes)
    }

    /// Reads the bytes of the value, which has the type `kind`.
    #[inline]
    fn take_value(&mut self, kind: u8) -> Result<&'de [u8]> {
        let bytes = self.elements.take_value(kind)?;
        self.kind = NO_VALUE;
        Ok(bytes)
    }

    /// Reads the bytes of the text of a string.
    #[inline]
    fn take_text(&mut self) -> Result<&'de [u8]> {
        let bytes = self.elements.take_text()?;
        self.kind = NO_VALUE;
        Ok(bytes)
    }

    /// Reads past the value, if there is one that was not read.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<()> {
        match self.kind {
            NO_VALUE => Ok(()),
            kind => self.take_value(kind).map(|_| ()),
        }
    }

    /// Reads the elements of a document or array, and returns a deserializer of its values. Fails
    /// if it is nested too deeply.
    #[inline]
    fn take_inner(&mut self) -> Result<Self> {
        if usize::from(self.depth) >= MAX_DEPTH {
            return Err(Error::new(ErrorKind::Depth).at(self.elements.rest));
        }
        let elements = self.elements.take_elements()?;
        self.kind = NO_VALUE;
        Ok(Self {
            elements,
            depth: self.depth + 1,
            ..*self
        })
    }

    /// Returns a deserializer of the scope of a code. A scope counts as two levels, because types
    /// need about twice as much of the stack for it as for a document.
    pub(super) fn of_scope(scope: &'de [u8], around: &Self) -> Self {
        Self {
            elements: Elements { rest: scope },
            kind: kind::DOCUMENT,
            depth: around.depth + 1,
            ..*around
        }
    }

    /// Returns a text, in which invalid UTF-8 is an error or is replaced.
    fn text(&self, bytes: &'de [u8]) -> Result<Cow<'de, str>> {
        if self.is_lossy {
            return Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()));
        }
        text(bytes).map(Cow::Borrowed)
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let bytes = self.take_text()?;
        if self.is_lossy {
            return visitor.visit_string(String::from_utf8_lossy(bytes).into_owned());
        }
        visitor.visit_borrowed_str(text(bytes)?)
    }

    #[inline]
    fn visit_document<V: Visitor<'de>>(
        &mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_map(DocumentAccess::new(self.take_inner()?, fields))
    }

    #[inline]
    fn visit_array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        visitor.visit_seq(ArrayAccess::new(self.take_inner()?))
    }

    /// Visits the value as its own type demands.
    fn visit<V: Visitor<'de>>(&mut self, visitor: V, form: Form) -> Result<V::Value> {
        let is_raw = form == Form::Raw;
        match self.kind {
            kind::STRING => self.visit_text(visitor),
            kind::INT32 => visitor.visit_i32(i32::from_le_bytes(self.take()?)),
            kind::INT64 => visitor.visit_i64(i64::from_le_bytes(self.take()?)),
            kind::DOUBLE => visitor.visit_f64(f64::from_le_bytes(self.take()?)),
            kind::BOOLEAN => visitor.visit_bool(boolean(self.take_value(kind::BOOLEAN)?)?),
            kind::NULL => {
                self.kind = NO_VALUE;
                visitor.visit_unit()
            }
            kind::DOCUMENT if !is_raw => self.visit_document(&[], visitor),
            kind::ARRAY if !is_raw => self.visit_array(visitor),
            kind::DATE_TIME if !is_raw => {
                let date = Date::new(i64::from_le_bytes(self.take()?));
                let value = visitor.visit_map(date);
                value.map_err(|error| error.of_value("DateTime"))
            }
            kind::BINARY => {
                let (subtype, data) = binary(self.take_value(kind::BINARY)?)?;
                if form == Form::Uuid && subtype != UUID {
                    return Err(not_a_uuid(subtype));
                }
                if subtype == GENERIC {
                    return visitor.visit_borrowed_bytes(data);
                }
                let value = visitor.visit_map(Wrapper::new(Node::Binary(subtype, data, is_raw)));
                value.map_err(|error| error.of_value("binary data"))
            }
            NO_VALUE => Err(Error::deserialization("there is no further value")),
            kind => {
                let value = visitor.visit_map(Wrapper::new(self.wrapper(kind, is_raw)?));
                value.map_err(|error| error.of_value(name(kind)))
            }
        }
    }

    /// Reads a value that is neither of JSON nor binary data.
    fn wrapper(&mut self, kind: u8, is_raw: bool) -> Result<Node<'de>> {
        let bytes = self.take_value(kind)?;
        let string = string_bytes(bytes);
        Ok(match kind {
            kind::DOCUMENT => Node::RawDocument(bytes),
            kind::ARRAY => Node::RawArray(bytes),
            kind::OBJECT_ID => Node::ObjectId(fixed(bytes)?, is_raw),
            kind::DATE_TIME => Node::RawDate(i64::from_le_bytes(fixed(bytes)?)),
            kind::TIMESTAMP => {
                let stamp = timestamp(bytes)?;
                Node::Timestamp(stamp.time, stamp.increment)
            }
            kind::DECIMAL128 => Node::Decimal128(fixed(bytes)?),
            kind::REGEX => {
                let (pattern, options) = regex(bytes)?;
                Node::Regex(self.text(pattern)?, self.text(options)?)
            }
            kind::CODE => Node::Code(self.text(string)?),
            kind::SYMBOL => Node::Symbol(self.text(string)?),
            kind::CODE_WITH_SCOPE => {
                let (code, scope) = code_with_scope(bytes)?;
                let code = self.text(string_bytes(code))?;
                Node::CodeWithScope(code, Self::of_scope(scope, self), is_raw)
            }
            kind::DB_POINTER => {
                let (namespace, id) = db_pointer(bytes)?;
                Node::DbPointer(self.text(namespace)?, id, is_raw)
            }
            kind::UNDEFINED => Node::Undefined,
            kind::MIN_KEY => Node::MinKey,
            kind::MAX_KEY => Node::MaxKey,
            other => return Err(not_a_type(other)),
        })
    }

    /// Visits the value in the form of raw types, if it has the type `kind`.
    fn visit_raw<V: Visitor<'de>>(&mut self, visitor: V, kind: u8, name: &str) -> Result<V::Value> {
        if self.kind == kind {
            return self.visit(visitor, Form::Raw);
        }
        let message = format!("expected {name}, found {}", type_name(self.kind));
        Err(Error::deserialization(message))
    }
}

#[cold]
fn not_a_uuid(subtype: u8) -> Error {
    Error::deserialization(format!(
        "expected a UUID, which is binary data of subtype 4, found subtype {subtype}"
    ))
}

/// Returns the name of a type, for messages.
fn type_name(kind: u8) -> String {
    bson::spec::ElementType::from(kind).map_or_else(
        || format!("the invalid type 0x{kind:02x}"),
        |kind| format!("{kind:?}"),
    )
}

/// Defines methods that visit a value of the expected type directly, and any other value as its own
/// type demands. The direct way is short enough to become a part of the code of the caller.
macro_rules! expected {
    ($($method:ident => $kind:ident, $number:ident, $visit:ident;)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
                if self.kind == kind::$kind {
                    return visitor.$visit($number::from_le_bytes(self.take()?));
                }
                self.visit(visitor, Form::Plain)
            }
        )*
    };
}

impl<'de> SerdeDeserializer<'de> for &mut Deserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.visit(visitor, Form::Plain)
    }

    expected! {
        deserialize_i8 => INT32, i32, visit_i32;
        deserialize_i16 => INT32, i32, visit_i32;
        deserialize_i32 => INT32, i32, visit_i32;
        deserialize_i64 => INT64, i64, visit_i64;
        deserialize_u8 => INT32, i32, visit_i32;
        deserialize_u16 => INT32, i32, visit_i32;
        deserialize_u32 => INT32, i32, visit_i32;
        deserialize_u64 => INT64, i64, visit_i64;
        deserialize_f32 => DOUBLE, f64, visit_f64;
        deserialize_f64 => DOUBLE, f64, visit_f64;
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::BOOLEAN {
            return visitor.visit_bool(boolean(self.take_value(kind::BOOLEAN)?)?);
        }
        self.visit(visitor, Form::Plain)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::STRING {
            return self.visit_text(visitor);
        }
        self.visit(visitor, Form::Plain)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::NULL {
            self.kind = NO_VALUE;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::ARRAY {
            return self.visit_array(visitor);
        }
        self.visit(visitor, Form::Plain)
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_struct("", &[], visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if self.kind == kind::DOCUMENT {
            return self.visit_document(fields, visitor);
        }
        self.visit(visitor, Form::Plain)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.kind {
            kind::STRING => {
                let variant = self.take_text()?;
                match self.text(variant)? {
                    Cow::Borrowed(variant) => visitor.visit_enum(Name(variant)),
                    variant => visitor.visit_enum(CowStrDeserializer::new(variant)),
                }
            }
            kind::DOCUMENT => visitor.visit_enum(DocumentAccess::new(self.take_inner()?, &[])),
            other => Err(Error::deserialization(format!(
                "expected the name of a variant of {name}, or a document with it, found {}",
                type_name(other)
            ))),
        }
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::OBJECT_ID {
            return visitor.visit_borrowed_bytes(self.take_value(kind::OBJECT_ID)?);
        }
        self.visit(visitor, Form::Plain)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        match name {
            newtype::UUID => self.visit(visitor, Form::Uuid),
            newtype::RAW_BSON => self.visit(visitor, Form::Raw),
            newtype::RAW_DOCUMENT => self.visit_raw(visitor, kind::DOCUMENT, "a document"),
            newtype::RAW_ARRAY => self.visit_raw(visitor, kind::ARRAY, "an array"),
            newtype::HUMAN_READABLE => {
                let outer = std::mem::replace(&mut self.is_human_readable, true);
                let result = visitor.visit_newtype_struct(&mut *self);
                self.is_human_readable = outer;
                result
            }
            newtype::UTF8_LOSSY => {
                let outer = std::mem::replace(&mut self.is_lossy, true);
                let result = visitor.visit_newtype_struct(&mut *self);
                self.is_lossy = outer;
                result
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    /// Visits nothing: the value of a field that the type does not know is not read.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        self.is_human_readable
    }

    forward_to_deserialize_any! {
        i128 u128 char byte_buf unit unit_struct tuple_struct identifier
    }
}

/// Returns the name of a type that serde sees as a map.
#[cold]
const fn name(kind: u8) -> &'static str {
    match kind {
        kind::OBJECT_ID => "ObjectId",
        kind::DECIMAL128 => "Decimal128",
        kind::TIMESTAMP => "Timestamp",
        kind::REGEX => "regular expression",
        kind::DOCUMENT => "document",
        kind::ARRAY => "array",
        kind::CODE | kind::CODE_WITH_SCOPE => "code",
        kind::SYMBOL => "symbol",
        kind::DB_POINTER => "DBPointer",
        kind::UNDEFINED => "undefined",
        kind::MIN_KEY => "MinKey",
        kind::MAX_KEY => "MaxKey",
        _ => "value of another type",
    }
}
