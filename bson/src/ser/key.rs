//! The serializer of the keys of maps.

use super::Serializer;
use crate::error::{Error, Result};
use serde::{Serialize, Serializer as SerdeSerializer, ser::Impossible};

/// A serializer that writes the name of a field. It accepts strings, and enums without content.
pub(super) struct Key<'s, 'a> {
    serializer: &'s mut Serializer<'a>,
    /// The place of the document of the field.
    document: usize,
}

impl<'s, 'a> Key<'s, 'a> {
    pub(super) fn new(serializer: &'s mut Serializer<'a>, document: usize) -> Self {
        Self {
            serializer,
            document,
        }
    }
}

#[cold]
fn not_a_name<T>(found: &str) -> Result<T> {
    Err(Error::serialization(format!(
        "expected a string as the name of a field, found {found}; the keys of a map must be strings"
    )))
}

/// Defines methods that refuse a value, whose type is given.
macro_rules! refused {
    ($($method:ident($type:ty) $name:literal;)*) => {
        $(
            fn $method(self, _: $type) -> Result<()> {
                not_a_name($name)
            }
        )*
    };
}

impl SerdeSerializer for Key<'_, '_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Impossible<(), Error>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    refused! {
        serialize_bool(bool) "a boolean";
        serialize_i8(i8) "a number";
        serialize_i16(i16) "a number";
        serialize_i32(i32) "a number";
        serialize_i64(i64) "a number";
        serialize_i128(i128) "a number";
        serialize_u8(u8) "a number";
        serialize_u16(u16) "a number";
        serialize_u32(u32) "a number";
        serialize_u64(u64) "a number";
        serialize_u128(u128) "a number";
        serialize_f32(f32) "a number";
        serialize_f64(f64) "a number";
        serialize_char(char) "a character";
        serialize_bytes(&[u8]) "bytes";
        serialize_unit_struct(&'static str) "a struct";
    }

    fn serialize_str(self, name: &str) -> Result<()> {
        self.serializer.begin_id(self.document, name);
        self.serializer.put_name(name)
    }

    fn serialize_none(self) -> Result<()> {
        not_a_name("nothing")
    }

    fn serialize_unit(self) -> Result<()> {
        not_a_name("nothing")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<()> {
        not_a_name("a variant with content")
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq> {
        not_a_name("a sequence")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple> {
        not_a_name("a tuple")
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct> {
        not_a_name("a tuple")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        not_a_name("a variant with content")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap> {
        not_a_name("a map")
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Self::SerializeStruct> {
        not_a_name("a struct")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant> {
        not_a_name("a variant with content")
    }
}
