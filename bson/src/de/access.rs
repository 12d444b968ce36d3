//! Access to the elements of documents and arrays.

use super::{Deserializer, NO_VALUE};
use crate::{
    error::{Error, Result},
    read::{not_a_type, text, unterminated, zero},
};
use serde::{
    Deserializer as SerdeDeserializer,
    de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor},
    forward_to_deserialize_any,
};

/// The number of fields after the expected one that are compared with a name. Fields that the
/// document lacks are skipped so.
const LOOK_AHEAD: usize = 8;

/// The fields of a document.
pub(super) struct DocumentAccess<'de> {
    values: Deserializer<'de>,
    /// The name of the field whose value is read.
    name: &'de [u8],
    /// The names that the type expects, or none. A name that is equal to one of these needs no
    /// check of its UTF-8.
    fields: &'static [&'static str],
    /// The index in `fields` of the name that probably comes next.
    expected: usize,
}

impl<'de> DocumentAccess<'de> {
    #[inline]
    pub(super) fn new(values: Deserializer<'de>, fields: &'static [&'static str]) -> Self {
        Self {
            values,
            name: &[],
            fields,
            expected: 0,
        }
    }

    /// Reads the type and the name of the next element, and returns the name; `None` at the end of
    /// the document.
    #[inline(always)]
    fn next_name(&mut self) -> Result<Option<&'de str>> {
        let values = &mut self.values;
        if values.kind != NO_VALUE
            && let Err(error) = values.skip()
        {
            return Err(values.end(error.within(self.name)));
        }
        let [kind, rest @ ..] = values.elements.rest else {
            return Ok(None);
        };
        if *kind == NO_VALUE {
            return Err(values.not_an_element());
        }
        values.kind = *kind;
        if let Some(&name) = self.fields.get(self.expected)
            && let Some((found, [0, rest @ ..])) = rest.split_at_checked(name.len())
            && equal(found, name.as_bytes())
        {
            self.expected += 1;
            self.name = found;
            values.elements.rest = rest;
            return Ok(Some(name));
        }
        self.other_name(rest).map(Some)
    }

    /// Reads a name that is not the expected one.
    #[inline(never)]
    fn other_name(&mut self, rest: &'de [u8]) -> Result<&'de str> {
        let Some(length) = zero(rest) else {
            return Err(self.values.end(unterminated(rest)));
        };
        let name = &rest[..length];
        self.values.elements.rest = &rest[length + 1..];
        self.name = name;
        let next = self.expected + 1;
        let end = self.fields.len().min(next + LOOK_AHEAD);
        let candidates = self.fields.get(next..end).unwrap_or_default();
        match candidates.iter().position(|field| field.as_bytes() == name) {
            Some(place) => {
                self.expected = next + place + 1;
                Ok(candidates[place])
            }
            None => text(name),
        }
    }
}

/// True if two names of the same length are equal. Names are short, so that the call of a function
/// would cost more than the comparison.
#[inline]
fn equal(a: &[u8], b: &[u8]) -> bool {
    fn ends<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
        Some((bytes.first_chunk()?, bytes.last_chunk()?))
    }
    match a.len() {
        0..4 => a.iter().eq(b),
        4..=8 => ends::<4>(a) == ends::<4>(b),
        9..=16 => ends::<8>(a) == ends::<8>(b),
        _ => a == b,
    }
}

impl Deserializer<'_> {
    /// Ends the document or array after an error in its structure, so that a type which goes on
    /// after errors comes to an end.
    #[cold]
    fn end(&mut self, error: Error) -> Error {
        self.elements.rest = &[];
        self.kind = NO_VALUE;
        error
    }

    #[cold]
    fn not_an_element(&mut self) -> Error {
        let error = not_a_type(NO_VALUE).at(self.elements.rest);
        self.end(error)
    }
}

impl<'de> MapAccess<'de> for DocumentAccess<'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(name) = self.next_name()? else {
            return Ok(None);
        };
        match seed.deserialize(Name(name)) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(error.at(self.name)),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let (kind, place) = (self.values.kind, self.values.elements.rest);
        match seed.deserialize(&mut self.values) {
            Ok(value) => Ok(value),
            Err(error) => {
                // The value can be read again, as another type.
                self.values.kind = kind;
                self.values.elements.rest = place;
                Err(error.at(place).within(self.name))
            }
        }
    }
}

impl<'de> EnumAccess<'de> for DocumentAccess<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(mut self, seed: V) -> Result<(V::Value, Self)> {
        let Some(name) = self.next_name()? else {
            let message = "expected a document with the name of a variant, found an empty one";
            return Err(Error::deserialization(message));
        };
        match seed.deserialize(Name(name)) {
            Ok(variant) => Ok((variant, self)),
            Err(error) => Err(error.at(self.name)),
        }
    }
}

impl<'de> VariantAccess<'de> for DocumentAccess<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        let message = "expected a variant without content, which is a string, found a document";
        let error = Error::deserialization(message);
        Err(error.at(self.values.elements.rest).within(self.name))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value> {
        self.next_value_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, _len: usize, visitor: V) -> Result<V::Value> {
        let place = self.values.elements.rest;
        self.values
            .deserialize_seq(visitor)
            .map_err(|error| error.at(place).within(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let place = self.values.elements.rest;
        self.values
            .deserialize_struct("", fields, visitor)
            .map_err(|error| error.at(place).within(self.name))
    }
}

/// The elements of an array. Their names have no meaning (BSON-10).
pub(super) struct ArrayAccess<'de> {
    values: Deserializer<'de>,
    index: usize,
}

impl<'de> ArrayAccess<'de> {
    #[inline]
    pub(super) fn new(values: Deserializer<'de>) -> Self {
        Self { values, index: 0 }
    }

    /// Notes the place and the index of the element that was read last.
    #[cold]
    fn locate(&self, error: Error, place: &[u8]) -> Error {
        let index = self.index - 1;
        error.at(place).within(index.to_string().as_bytes())
    }
}

impl<'de> SeqAccess<'de> for ArrayAccess<'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let values = &mut self.values;
        if values.kind != NO_VALUE
            && let Err(error) = values.skip()
        {
            return Err(values.end(error));
        }
        let [kind, rest @ ..] = values.elements.rest else {
            return Ok(None);
        };
        if *kind == NO_VALUE {
            return Err(values.not_an_element());
        }
        // The names of the first ten elements have one digit.
        values.elements.rest = match rest {
            [digit, 0, rest @ ..] if *digit != 0 => rest,
            _ => match zero(rest) {
                Some(length) => &rest[length + 1..],
                None => return Err(values.end(unterminated(rest))),
            },
        };
        values.kind = *kind;
        let place = values.elements.rest;
        let result = seed.deserialize(&mut *values);
        self.index += 1;
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                // The next call reads past the element.
                values.kind = *kind;
                values.elements.rest = place;
                Err(self.locate(error, place))
            }
        }
    }

    /// Estimates the number of elements from the size of the first one, so that a list need not
    /// grow often. A list that grows from nothing has room for four elements at once, so the
    /// estimate is never smaller.
    fn size_hint(&self) -> Option<usize> {
        let all = self.values.elements.rest;
        let mut elements = self.values.elements.clone();
        elements.next().ok()??;
        let size = all.len() - elements.rest.len();
        let count = all.len() / size;
        Some((count + count / 8 + 1).max(4))
    }
}

/// The deserializer of the name of a field or of a variant.
#[derive(Clone, Copy)]
pub(super) struct Name<'de>(pub(super) &'de str);

impl<'de> SerdeDeserializer<'de> for Name<'de> {
    type Error = Error;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        // The raw types and `Uuid` of the crate `bson` expect the text itself.
        if name.starts_with('$') {
            return visitor.visit_borrowed_str(self.0);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Name<'de> {
    type Error = Error;
    type Variant = UnitOnly;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, UnitOnly)> {
        Ok((seed.deserialize(self)?, UnitOnly))
    }
}

/// The content of a variant that is only a name.
pub(super) struct UnitOnly;

impl UnitOnly {
    fn has_no_content<T>() -> Result<T> {
        let message = "expected a document with the name and the content of a variant, found only \
                       a name";
        Err(Error::deserialization(message))
    }
}

impl<'de> VariantAccess<'de> for UnitOnly {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value> {
        Self::has_no_content()
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _visitor: V) -> Result<V::Value> {
        Self::has_no_content()
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value> {
        Self::has_no_content()
    }
}
