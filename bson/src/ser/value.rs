//! The serializer of one value.

use super::{
    Bytes, Serializer, Text,
    compound::{Compound, Struct},
    wrapper::Wrapper,
};
use crate::{
    error::{Error, Result},
    read::{Elements, kind},
};
use serde::{Serialize, Serializer as SerdeSerializer};
use std::fmt::{Display, Write};

/// Names of newtypes with which types of the crate `bson` tell the meaning of what they contain.
mod newtype {
    pub(super) const RAW_DOCUMENT: &str = "$__private__bson_RawDocument";
    pub(super) const RAW_ARRAY: &str = "$__private__bson_RawArray";
    pub(super) const UUID: &str = "$__bson_private_uuid";
    pub(super) const HUMAN_READABLE: &str = "$__bson_private_human_readable";
}

/// The subtype of generic binary data.
const GENERIC: u8 = 0;

/// The subtype of UUIDs.
const UUID: u8 = 4;

impl Serializer<'_> {
    /// Writes a value of a fixed size.
    #[inline]
    fn put<const N: usize>(&mut self, kind: u8, bytes: [u8; N]) -> Result<()> {
        self.put_type(kind)?;
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }

    fn put_raw(&mut self, kind: u8, bytes: &[u8]) -> Result<()> {
        Elements::of_document(bytes)?;
        self.put_type(kind)?;
        self.check_room(bytes.len())?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }
}

impl<'s, 'a> SerdeSerializer for &'s mut Serializer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'s, 'a>;
    type SerializeTuple = Compound<'s, 'a>;
    type SerializeTupleStruct = Compound<'s, 'a>;
    type SerializeTupleVariant = Compound<'s, 'a>;
    type SerializeMap = Compound<'s, 'a>;
    type SerializeStruct = Struct<'s, 'a>;
    type SerializeStructVariant = Compound<'s, 'a>;

    fn is_human_readable(&self) -> bool {
        self.is_human_readable
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<()> {
        self.put(kind::BOOLEAN, [value.into()])
    }

    #[inline]
    fn serialize_i8(self, value: i8) -> Result<()> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_i16(self, value: i16) -> Result<()> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_i32(self, value: i32) -> Result<()> {
        self.put(kind::INT32, value.to_le_bytes())
    }

    #[inline]
    fn serialize_i64(self, value: i64) -> Result<()> {
        self.put(kind::INT64, value.to_le_bytes())
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Result<()> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_u16(self, value: u16) -> Result<()> {
        self.serialize_i32(value.into())
    }

    #[inline]
    fn serialize_u32(self, value: u32) -> Result<()> {
        self.serialize_i64(value.into())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<()> {
        match i64::try_from(value) {
            Ok(value) => self.serialize_i64(value),
            Err(_) => Err(Error::serialization(format!(
                "the number {value} is larger than the largest int64"
            ))),
        }
    }

    #[inline]
    fn serialize_f32(self, value: f32) -> Result<()> {
        self.serialize_f64(value.into())
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result<()> {
        self.put(kind::DOUBLE, value.to_le_bytes())
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<()> {
        self.put_type(kind::STRING)?;
        self.put_string(value)
    }

    /// Writes the text of a value, without an allocation for it.
    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<()> {
        self.put_type(kind::STRING)?;
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        let mut text = Text::new(self);
        if write!(text, "{value}").is_err() {
            let failed = || Error::serialization("the value cannot be formatted as text");
            return Err(text.error.unwrap_or_else(failed));
        }
        self.buffer.push(0);
        let length = (self.buffer.len() - start - 4) as u32;
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        match std::mem::replace(&mut self.bytes_are, Bytes::Binary) {
            Bytes::Document => self.put_raw(kind::DOCUMENT, bytes),
            Bytes::Array => self.put_raw(kind::ARRAY, bytes),
            other => {
                self.put_type(kind::BINARY)?;
                let subtype = if other == Bytes::Uuid { UUID } else { GENERIC };
                self.put_binary(subtype, bytes)
            }
        }
    }

    #[inline]
    fn serialize_none(self) -> Result<()> {
        self.put_type(kind::NULL)
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.put_type(kind::NULL)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<()> {
        self.put_type(kind::NULL)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<()> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        self.bytes_are = match name {
            newtype::UUID => Bytes::Uuid,
            newtype::RAW_DOCUMENT => Bytes::Document,
            newtype::RAW_ARRAY => Bytes::Array,
            newtype::HUMAN_READABLE => {
                let outer = std::mem::replace(&mut self.is_human_readable, true);
                let result = value.serialize(&mut *self);
                self.is_human_readable = outer;
                return result;
            }
            _ => Bytes::Binary,
        };
        let result = value.serialize(&mut *self);
        self.bytes_are = Bytes::Binary;
        result
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        let mut document = Compound::document(self)?;
        document.put_field(variant, value)?;
        document.close()
    }

    #[inline]
    fn serialize_seq(self, _len: Option<usize>) -> Result<Compound<'s, 'a>> {
        Compound::array(self)
    }

    #[inline]
    fn serialize_tuple(self, _len: usize) -> Result<Compound<'s, 'a>> {
        Compound::array(self)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Compound<'s, 'a>> {
        Compound::array(self)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'s, 'a>> {
        Compound::variant(self, variant, kind::ARRAY)
    }

    #[inline]
    fn serialize_map(self, _len: Option<usize>) -> Result<Compound<'s, 'a>> {
        Compound::document(self)
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Struct<'s, 'a>> {
        if name.starts_with('$')
            && let Some(kind) = Wrapper::kind_of(name)
        {
            return Ok(Struct::Wrapper(Wrapper::new(self, kind)?));
        }
        Ok(Struct::Document(Compound::document(self)?))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'s, 'a>> {
        Compound::variant(self, variant, kind::DOCUMENT)
    }
}
