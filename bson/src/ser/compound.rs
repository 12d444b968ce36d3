//! Serializers of documents and arrays.

use super::{Serializer, key::Key, wrapper::Wrapper};
use crate::{
    error::{Error, Result},
    read::kind,
};
use serde::{
    Serialize,
    ser::{
        SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};

/// A document or array that is being written.
pub(super) struct Compound<'s, 'a> {
    serializer: &'s mut Serializer<'a>,
    start: usize,
    /// The place of the document around it, if it is the content of a variant.
    outer: Option<usize>,
    /// The number of elements, of an array.
    count: usize,
    /// The place of the name that was written last.
    name_at: usize,
}

impl<'s, 'a> Compound<'s, 'a> {
    #[inline]
    pub(super) fn document(serializer: &'s mut Serializer<'a>) -> Result<Self> {
        serializer.put_type(kind::DOCUMENT)?;
        Self::open(serializer, None)
    }

    #[inline]
    pub(super) fn array(serializer: &'s mut Serializer<'a>) -> Result<Self> {
        serializer.put_type(kind::ARRAY)?;
        Self::open(serializer, None)
    }

    /// Starts the content of a variant, in a document that has nothing else.
    pub(super) fn variant(
        serializer: &'s mut Serializer<'a>,
        variant: &str,
        kind: u8,
    ) -> Result<Self> {
        serializer.put_type(kind::DOCUMENT)?;
        let outer = serializer.open()?;
        serializer.begin_id(outer, variant);
        serializer.put_name(variant)?;
        serializer.put_type(kind)?;
        Self::open(serializer, Some(outer))
    }

    #[inline]
    fn open(serializer: &'s mut Serializer<'a>, outer: Option<usize>) -> Result<Self> {
        let start = serializer.open()?;
        Ok(Self {
            serializer,
            start,
            outer,
            count: 0,
            name_at: 0,
        })
    }

    #[inline]
    pub(super) fn close(self) -> Result<()> {
        self.serializer.close(self.start)?;
        match self.outer {
            Some(outer) => self.serializer.close(outer),
            None => Ok(()),
        }
    }

    /// Writes a field of a document.
    #[inline]
    pub(super) fn put_field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        self.serializer.begin_id(self.start, name);
        self.serializer.put_name(name)?;
        let is_id = self.serializer.begins_id(self.start, name);
        match value.serialize(&mut *self.serializer) {
            Ok(()) if is_id => self.serializer.end_id(),
            Ok(()) => {}
            Err(error) => return Err(error.within(name.as_bytes())),
        }
        Ok(())
    }

    /// Writes an element of an array. Its name is its index (BSON-10).
    #[inline]
    fn put_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let mut digits = [0; 20];
        let name = decimal(self.count, &mut digits);
        self.count += 1;
        self.serializer.put_name(name)?;
        match value.serialize(&mut *self.serializer) {
            Ok(()) => Ok(()),
            Err(error) => Err(error.within((self.count - 1).to_string().as_bytes())),
        }
    }
}

/// Returns the decimal digits of a number, which are written into `digits`.
#[inline]
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &str {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[start..]).unwrap_or_default()
}

impl SerializeSeq for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.put_item(value)
    }

    #[inline]
    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeTuple for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.put_item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeTupleStruct for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.put_item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeTupleVariant for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.put_item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeStructVariant for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        self.put_field(name, value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        key.serialize(Key::new(self.serializer, self.start))?;
        self.name_at = self.serializer.type_at.map_or(0, |at| at + 1);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let end = self.serializer.buffer.len();
        let name = &self.serializer.buffer[self.name_at..end - 1];
        let is_id = name == b"_id" && self.serializer.begins_id(self.start, "_id");
        match value.serialize(&mut *self.serializer) {
            Ok(()) if is_id => self.serializer.end_id(),
            Ok(()) => {}
            Err(error) => {
                let name = &self.serializer.buffer[self.name_at..end - 1];
                return Err(error.within(name));
            }
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

/// The serializer of a struct, which is a document or a type of the crate `bson`.
pub(super) enum Struct<'s, 'a> {
    Document(Compound<'s, 'a>),
    Wrapper(Wrapper<'s, 'a>),
}

impl SerializeStruct for Struct<'_, '_> {
    type Ok = ();
    type Error = Error;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        match self {
            Self::Document(document) => document.put_field(name, value),
            Self::Wrapper(wrapper) => wrapper.put_part(name, value),
        }
    }

    #[inline]
    fn end(self) -> Result<()> {
        match self {
            Self::Document(document) => document.close(),
            Self::Wrapper(wrapper) => wrapper.finish(),
        }
    }
}
