//! Serializers of the types of the crate `bson`, which serialize as structs with special names.
//!
//! The structs resemble Extended JSON. Their parts are written to their places in the buffer as
//! they come.

use super::Serializer;
use crate::{
    error::{Error, Result},
    read::{OLD_BINARY, kind},
    regex::sorted_options,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bson::Decimal128;
use serde::{
    Serialize, Serializer as SerdeSerializer,
    ser::{Impossible, SerializeStruct},
};

/// A value that is being written.
pub(super) struct Wrapper<'s, 'a> {
    serializer: &'s mut Serializer<'a>,
    kind: u8,
    start: usize,
    /// The name of the part that is being written.
    part: &'static str,
    /// The number of parts that were written.
    written: u8,
}

impl<'s, 'a> Wrapper<'s, 'a> {
    /// Returns the type of the value whose struct has this name.
    pub(super) fn kind_of(name: &str) -> Option<u8> {
        Some(match name {
            "$oid" => kind::OBJECT_ID,
            "$date" => kind::DATE_TIME,
            "$binary" => kind::BINARY,
            "$timestamp" => kind::TIMESTAMP,
            "$minKey" => kind::MIN_KEY,
            "$maxKey" => kind::MAX_KEY,
            "$code" => kind::CODE,
            "$codeWithScope" => kind::CODE_WITH_SCOPE,
            "$symbol" => kind::SYMBOL,
            "$undefined" => kind::UNDEFINED,
            "$regularExpression" => kind::REGEX,
            "$dbPointer" => kind::DB_POINTER,
            "$numberDecimal" => kind::DECIMAL128,
            _ => return None,
        })
    }

    pub(super) fn new(serializer: &'s mut Serializer<'a>, kind: u8) -> Result<Self> {
        serializer.put_type(kind)?;
        let start = serializer.buffer.len();
        Ok(Self {
            serializer,
            kind,
            start,
            part: "",
            written: 0,
        })
    }

    /// Returns the number of parts of the value.
    fn parts(&self) -> u8 {
        match self.kind {
            kind::MIN_KEY | kind::MAX_KEY | kind::UNDEFINED => 0,
            kind::BINARY
            | kind::REGEX
            | kind::TIMESTAMP
            | kind::DB_POINTER
            | kind::CODE_WITH_SCOPE => 2,
            _ => 1,
        }
    }

    /// Writes a part, or parts inside of it.
    pub(super) fn put_part<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        if self.parts() == 0 {
            return Ok(());
        }
        self.part = name;
        if (self.kind, name, self.written) == (kind::CODE_WITH_SCOPE, "$scope", 1) {
            return self.put_scope(value);
        }
        value.serialize(&mut *self)
    }

    pub(super) fn finish(self) -> Result<()> {
        if self.written != self.parts() {
            return Err(self.unexpected("the end"));
        }
        Ok(())
    }

    #[cold]
    fn unexpected(&self, found: &str) -> Error {
        Error::serialization(format!(
            "a type of the crate `bson` has an unknown form: found {found} in `{}`",
            self.part
        ))
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<()> {
        self.serializer.buffer.extend_from_slice(&bytes);
        self.written += 1;
        Ok(())
    }

    fn put_object_id(&mut self, hex: &str) -> Result<()> {
        let mut id = [0; 12];
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if pairs.len() != id.len() || !rest.is_empty() {
            return Err(self.unexpected("a text that is no ObjectId"));
        }
        for (byte, [high, low]) in id.iter_mut().zip(pairs) {
            match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => *byte = (high << 4 | low) as u8,
                _ => return Err(self.unexpected("a text that is no ObjectId")),
            }
        }
        self.put(id)
    }

    fn put_string(&mut self, text: &str) -> Result<()> {
        self.written += 1;
        self.serializer.put_string(text)
    }

    fn put_options(&mut self, options: &str) -> Result<()> {
        self.written += 1;
        // BSON-9.
        self.serializer.put_cstring(&sorted_options(options))
    }

    fn put_data(&mut self, data: &[u8]) -> Result<()> {
        self.written += 1;
        self.serializer.put_binary(0, data)
    }

    fn put_base64(&mut self, text: &str) -> Result<()> {
        self.serializer
            .check_room(text.trim_end_matches('=').len() / 4 * 3 + 5)?;
        self.serializer.buffer.extend_from_slice(&[0; 5]);
        STANDARD
            .decode_vec(text, self.serializer.buffer)
            .map_err(Error::serialization)?;
        let length = (self.serializer.buffer.len() - self.start - 5) as u32;
        self.serializer.buffer[self.start..self.start + 4].copy_from_slice(&length.to_le_bytes());
        self.written += 1;
        Ok(())
    }

    fn put_subtype(&mut self, subtype: u8) -> Result<()> {
        let start = self.start;
        self.serializer.buffer[start + 4] = subtype;
        if subtype == OLD_BINARY {
            // The data has a second length before it (BSON-12).
            self.serializer.check_room(4)?;
            let inner = self.serializer.buffer.len() - start - 5;
            let outer = (inner + 4) as u32;
            let inner = (inner as u32).to_le_bytes();
            self.serializer.buffer.splice(start + 5..start + 5, inner);
            self.serializer.buffer[start..start + 4].copy_from_slice(&outer.to_le_bytes());
        }
        self.written += 1;
        Ok(())
    }

    /// Writes the scope, whose size completes that of the whole value.
    fn put_scope<T: Serialize + ?Sized>(&mut self, scope: &T) -> Result<()> {
        self.serializer.type_at = None;
        scope.serialize(&mut *self.serializer)?;
        self.serializer.put_length(self.start);
        self.written += 1;
        Ok(())
    }
}

/// Defines methods that refuse a value, whose type is given.
macro_rules! refused {
    ($($method:ident($type:ty);)*) => {
        $(
            fn $method(self, _: $type) -> Result<()> {
                Err(self.unexpected(stringify!($type)))
            }
        )*
    };
}

impl<'s, 'a> SerdeSerializer for &mut Wrapper<'s, 'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Impossible<(), Error>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<(), Error>;

    refused! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_unit_struct(&'static str);
    }

    fn serialize_str(self, text: &str) -> Result<()> {
        match (self.kind, self.part, self.written) {
            (kind::OBJECT_ID, "$oid", 0) => self.put_object_id(text),
            (kind::DATE_TIME, "$numberLong", 0) => {
                let millis: i64 = text.parse().map_err(Error::serialization)?;
                self.put(millis.to_le_bytes())
            }
            (kind::SYMBOL, "$symbol", 0) | (kind::CODE, "$code", 0) => self.put_string(text),
            (kind::CODE_WITH_SCOPE, "$code", 0) => {
                self.serializer.buffer.extend_from_slice(&[0; 4]);
                self.put_string(text)
            }
            (kind::REGEX, "pattern", 0) => {
                self.written += 1;
                self.serializer.put_cstring(text)
            }
            (kind::REGEX, "options", 1) => self.put_options(text),
            (kind::DB_POINTER, "$ref", 0) => self.put_string(text),
            (kind::DB_POINTER, "$oid" | "$id", 1) => self.put_object_id(text),
            (kind::BINARY, "base64", 0) => self.put_base64(text),
            (kind::BINARY, "subType", 1) => {
                let subtype = u8::from_str_radix(text, 16).map_err(Error::serialization)?;
                self.put_subtype(subtype)
            }
            (kind::DECIMAL128, "$numberDecimal", 0) => {
                let number: Decimal128 = text.parse().map_err(Error::serialization)?;
                self.put(number.bytes())
            }
            _ => Err(self.unexpected("a string")),
        }
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        match (self.kind, self.part, self.written) {
            (kind::DECIMAL128, "$numberDecimalBytes", 0) => {
                let bytes: [u8; 16] = bytes.try_into().map_err(Error::serialization)?;
                self.put(bytes)
            }
            (kind::BINARY, "bytes", 0) => self.put_data(bytes),
            _ => Err(self.unexpected("bytes")),
        }
    }

    fn serialize_i64(self, number: i64) -> Result<()> {
        let number = match u32::try_from(number) {
            Ok(number) if self.kind == kind::TIMESTAMP => number.to_le_bytes(),
            _ => return Err(self.unexpected("a number")),
        };
        match (self.part, self.written) {
            // The increment comes before the time (BSON-8).
            ("t", 0) => {
                self.serializer.buffer.extend_from_slice(&[0; 4]);
                self.put(number)
            }
            ("i", 1) => {
                let start = self.start;
                self.serializer.buffer[start..start + 4].copy_from_slice(&number);
                self.written += 1;
                Ok(())
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    fn serialize_u8(self, subtype: u8) -> Result<()> {
        match (self.kind, self.part, self.written) {
            (kind::BINARY, "subType", 1) => self.put_subtype(subtype),
            _ => Err(self.unexpected("u8")),
        }
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Self> {
        Ok(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<()> {
        Err(self.unexpected("nothing"))
    }

    fn serialize_unit(self) -> Result<()> {
        Err(self.unexpected("nothing"))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _value: &T) -> Result<()> {
        Err(self.unexpected("an option"))
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
    ) -> Result<()> {
        Err(self.unexpected("a variant"))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<()> {
        Err(self.unexpected("a variant"))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq> {
        Err(self.unexpected("a sequence"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple> {
        Err(self.unexpected("a tuple"))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct> {
        Err(self.unexpected("a tuple"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        Err(self.unexpected("a variant"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap> {
        Err(self.unexpected("a map"))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant> {
        Err(self.unexpected("a variant"))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

impl SerializeStruct for &mut Wrapper<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        self.put_part(name, value)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}
