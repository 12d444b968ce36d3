//! The deserializer of one value.

use super::{
    Context, Deserializer,
    access::{ArrayAccess, DocumentAccess, Name},
    newtype,
    wrapper::{Node, Wrapper},
};
use crate::{
    MAX_DEPTH,
    error::{Error, ErrorKind, Result},
    read::{binary, boolean, code_with_scope, db_pointer, fixed, kind, regex, string_bytes, text},
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
    pub(super) fn of_value(kind: u8, bytes: &'de [u8], context: Context) -> Self {
        Self {
            kind,
            bytes,
            context,
        }
    }

    /// Returns the context of the values in this document or array. Fails if it is nested too
    /// deeply.
    #[inline]
    fn inner_context(&self) -> Result<Context> {
        if usize::from(self.context.depth) > MAX_DEPTH {
            return Err(Error::new(ErrorKind::Depth).at(self.bytes));
        }
        Ok(Context {
            depth: self.context.depth + 1,
            ..self.context
        })
    }

    #[inline]
    fn document(self, fields: &'static [&'static str]) -> Result<DocumentAccess<'de>> {
        let context = self.inner_context()?;
        Ok(DocumentAccess::new(self.bytes, fields, context))
    }

    /// Returns a text, in which invalid UTF-8 is an error or is replaced.
    fn text(&self, bytes: &'de [u8]) -> Result<Cow<'de, str>> {
        if self.context.is_lossy {
            return Ok(String::from_utf8_lossy(bytes));
        }
        text(bytes).map(Cow::Borrowed)
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value> {
        let bytes = string_bytes(self.bytes);
        if self.context.is_lossy {
            return visitor.visit_string(String::from_utf8_lossy(bytes).into_owned());
        }
        visitor.visit_borrowed_str(text(bytes)?)
    }

    /// Visits the value as its own type demands.
    fn visit<V: Visitor<'de>>(self, visitor: V, form: Form) -> Result<V::Value> {
        match self.kind {
            kind::STRING => self.visit_text(visitor),
            kind::INT32 => visitor.visit_i32(i32::from_le_bytes(fixed(self.bytes)?)),
            kind::INT64 => visitor.visit_i64(i64::from_le_bytes(fixed(self.bytes)?)),
            kind::DOUBLE => visitor.visit_f64(f64::from_le_bytes(fixed(self.bytes)?)),
            kind::BOOLEAN => visitor.visit_bool(boolean(self.bytes)?),
            kind::NULL => visitor.visit_unit(),
            kind::DOCUMENT if form == Form::Raw => {
                visitor.visit_map(Wrapper::raw_document(self.bytes))
            }
            kind::ARRAY if form == Form::Raw => visitor.visit_map(Wrapper::raw_array(self.bytes)),
            kind::DOCUMENT => visitor.visit_map(self.document(&[])?),
            kind::ARRAY => {
                let context = self.inner_context()?;
                visitor.visit_seq(ArrayAccess::new(self.bytes, context))
            }
            kind::BINARY => {
                let (subtype, data) = binary(self.bytes)?;
                if form == Form::Uuid && subtype != UUID {
                    return Err(not_a_uuid(subtype));
                }
                if subtype == GENERIC {
                    return visitor.visit_borrowed_bytes(data);
                }
                visitor.visit_map(Wrapper::binary(subtype, data, form == Form::Raw))
            }
            _ => visitor.visit_map(self.wrapper(form == Form::Raw)?),
        }
    }

    /// Returns the map of a value that is neither of JSON nor binary data.
    fn wrapper(self, is_raw: bool) -> Result<Wrapper<'de>> {
        let string = string_bytes(self.bytes);
        Ok(match self.kind {
            kind::OBJECT_ID => Wrapper::object_id(fixed(self.bytes)?, is_raw),
            kind::DATE_TIME => Wrapper::date(i64::from_le_bytes(fixed(self.bytes)?), is_raw),
            kind::TIMESTAMP => {
                let [a, b, c, d, rest @ ..] = fixed::<8>(self.bytes)?;
                let (increment, time) = ([a, b, c, d], rest);
                Wrapper::timestamp(u32::from_le_bytes(time), u32::from_le_bytes(increment))
            }
            kind::DECIMAL128 => Wrapper::decimal128(fixed(self.bytes)?),
            kind::REGEX => {
                let (pattern, options) = regex(self.bytes)?;
                Wrapper::regex(self.text(pattern)?, self.text(options)?)
            }
            kind::CODE => Wrapper::one("$code", Node::Text(self.text(string)?)),
            kind::SYMBOL => Wrapper::one("$symbol", Node::Text(self.text(string)?)),
            kind::CODE_WITH_SCOPE => {
                let (code, scope) = code_with_scope(self.bytes)?;
                let code = self.text(string_bytes(code))?;
                let context = self.inner_context()?;
                let scope = Self::of_value(kind::DOCUMENT, scope, context);
                Wrapper::code_with_scope(code, scope, is_raw)
            }
            kind::DB_POINTER => {
                let (namespace, id) = db_pointer(self.bytes)?;
                Wrapper::db_pointer(self.text(namespace)?, id, is_raw)
            }
            kind::UNDEFINED => Wrapper::one("$undefined", Node::True),
            kind::MIN_KEY => Wrapper::one("$minKey", Node::One),
            kind::MAX_KEY => Wrapper::one("$maxKey", Node::One),
            other => {
                let message = format!("0x{other:02x} is not the type of a BSON value");
                return Err(Error::malformed(message));
            }
        })
    }

    /// Visits the value in the form of raw types, if it has the type `kind`.
    fn visit_raw<V: Visitor<'de>>(self, visitor: V, kind: u8, name: &str) -> Result<V::Value> {
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
    ($($method:ident => $kind:ident, $read:expr, $visit:ident;)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
                if self.kind == kind::$kind {
                    let read: fn(&'de [u8]) -> Result<_> = $read;
                    return visitor.$visit(read(self.bytes)?);
                }
                self.visit(visitor, Form::Plain)
            }
        )*
    };
}

fn int32(bytes: &[u8]) -> Result<i32> {
    Ok(i32::from_le_bytes(fixed(bytes)?))
}

fn int64(bytes: &[u8]) -> Result<i64> {
    Ok(i64::from_le_bytes(fixed(bytes)?))
}

fn double(bytes: &[u8]) -> Result<f64> {
    Ok(f64::from_le_bytes(fixed(bytes)?))
}

impl<'de> SerdeDeserializer<'de> for Deserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.visit(visitor, Form::Plain)
    }

    expected! {
        deserialize_bool => BOOLEAN, boolean, visit_bool;
        deserialize_i8 => INT32, int32, visit_i32;
        deserialize_i16 => INT32, int32, visit_i32;
        deserialize_i32 => INT32, int32, visit_i32;
        deserialize_i64 => INT64, int64, visit_i64;
        deserialize_u8 => INT32, int32, visit_i32;
        deserialize_u16 => INT32, int32, visit_i32;
        deserialize_u32 => INT32, int32, visit_i32;
        deserialize_u64 => INT64, int64, visit_i64;
        deserialize_f32 => DOUBLE, double, visit_f64;
        deserialize_f64 => DOUBLE, double, visit_f64;
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
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::ARRAY {
            let context = self.inner_context()?;
            return visitor.visit_seq(ArrayAccess::new(self.bytes, context));
        }
        self.visit(visitor, Form::Plain)
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
            return visitor.visit_map(self.document(fields)?);
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
            kind::STRING => match self.text(string_bytes(self.bytes))? {
                Cow::Borrowed(variant) => visitor.visit_enum(Name(variant)),
                variant => visitor.visit_enum(CowStrDeserializer::new(variant)),
            },
            kind::DOCUMENT => visitor.visit_enum(self.document(&[])?),
            other => Err(Error::deserialization(format!(
                "expected the name of a variant of {name}, or a document with it, found {}",
                type_name(other)
            ))),
        }
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.kind == kind::OBJECT_ID {
            return visitor.visit_borrowed_bytes(self.bytes);
        }
        self.visit(visitor, Form::Plain)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        match name {
            newtype::UUID => self.visit(visitor, Form::Uuid),
            newtype::RAW_BSON => self.visit(visitor, Form::Raw),
            newtype::RAW_DOCUMENT => self.visit_raw(visitor, kind::DOCUMENT, "a document"),
            newtype::RAW_ARRAY => self.visit_raw(visitor, kind::ARRAY, "an array"),
            newtype::HUMAN_READABLE => {
                self.context.is_human_readable = true;
                visitor.visit_newtype_struct(self)
            }
            newtype::UTF8_LOSSY => {
                self.context.is_lossy = true;
                visitor.visit_newtype_struct(self)
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    /// Visits nothing: the value of a field that the type does not know is not read.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        self.context.is_human_readable
    }

    forward_to_deserialize_any! {
        i128 u128 char byte_buf unit unit_struct tuple tuple_struct identifier
    }
}
