//! Access to the elements of documents and arrays.

use super::{Context, Deserializer};
use crate::{
    error::{Error, Result},
    read::{Element, Elements, text},
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
    elements: Elements<'de>,
    /// The element whose name was read last.
    current: Option<Element<'de>>,
    /// The names that the type expects, or none. A name that is equal to one of these needs no
    /// check of its UTF-8.
    fields: &'static [&'static str],
    /// The index in `fields` of the name that probably comes next.
    expected: usize,
    context: Context,
}

impl<'de> DocumentAccess<'de> {
    #[inline]
    pub(super) fn new(
        document: &'de [u8],
        fields: &'static [&'static str],
        context: Context,
    ) -> Self {
        Self {
            elements: Elements::of_checked(document),
            current: None,
            fields,
            expected: 0,
            context,
        }
    }

    #[inline]
    fn name(&mut self, key: &'de [u8]) -> Result<&'de str> {
        if let Some(&name) = self.fields.get(self.expected) {
            if name.as_bytes() == key {
                self.expected += 1;
                return Ok(name);
            }
            return self.other_name(key);
        }
        text(key)
    }

    fn other_name(&mut self, key: &'de [u8]) -> Result<&'de str> {
        let next = self.expected + 1;
        let end = self.fields.len().min(next + LOOK_AHEAD);
        let candidates = self.fields.get(next..end).unwrap_or_default();
        let place = candidates.iter().position(|name| name.as_bytes() == key);
        match place {
            Some(place) => {
                self.expected = next + place + 1;
                Ok(candidates[place])
            }
            None => text(key),
        }
    }
}

impl<'de> MapAccess<'de> for DocumentAccess<'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.current = self.elements.next()?;
        let Some(element) = self.current else {
            return Ok(None);
        };
        let name = self.name(element.key)?;
        match seed.deserialize(Name(name)) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(error.at(element.key)),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let Some(element) = self.current.take() else {
            return Err(Error::deserialization("a value was read before its name"));
        };
        let value = Deserializer::of_value(element.kind, element.value, self.context);
        match seed.deserialize(value) {
            Ok(value) => Ok(value),
            Err(error) => Err(error.at(element.value).within(element.key)),
        }
    }
}

impl<'de> EnumAccess<'de> for DocumentAccess<'de> {
    type Error = Error;
    type Variant = Variant<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        mut self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant)> {
        let Some(element) = self.elements.next()? else {
            let message = "expected a document with the name of a variant, found an empty one";
            return Err(Error::deserialization(message));
        };
        let variant = seed.deserialize(Name(text(element.key)?));
        let variant = variant.map_err(|error| error.at(element.key))?;
        let value = Deserializer::of_value(element.kind, element.value, self.context);
        Ok((variant, Variant { element, value }))
    }
}

/// The content of the variant of an enum.
pub(super) struct Variant<'de> {
    element: Element<'de>,
    value: Deserializer<'de>,
}

impl Variant<'_> {
    fn locate(error: Error, element: &Element<'_>) -> Error {
        error.at(element.value).within(element.key)
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        let message = "expected a variant without content, which is a string, found a document";
        Err(Self::locate(Error::deserialization(message), &self.element))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.value)
            .map_err(|error| Self::locate(error, &self.element))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value> {
        self.value
            .deserialize_seq(visitor)
            .map_err(|error| Self::locate(error, &self.element))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.value
            .deserialize_struct("", fields, visitor)
            .map_err(|error| Self::locate(error, &self.element))
    }
}

/// The elements of an array. Their names have no meaning (BSON-10).
pub(super) struct ArrayAccess<'de> {
    elements: Elements<'de>,
    index: usize,
    context: Context,
}

impl<'de> ArrayAccess<'de> {
    #[inline]
    pub(super) fn new(array: &'de [u8], context: Context) -> Self {
        Self {
            elements: Elements::of_checked(array),
            index: 0,
            context,
        }
    }
}

impl<'de> SeqAccess<'de> for ArrayAccess<'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(element) = self.elements.next()? else {
            return Ok(None);
        };
        let value = Deserializer::of_value(element.kind, element.value, self.context);
        match seed.deserialize(value) {
            Ok(value) => {
                self.index += 1;
                Ok(Some(value))
            }
            Err(error) => Err(error
                .at(element.value)
                .within(self.index.to_string().as_bytes())),
        }
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
