//! The files collection documents.

use bson::{Bson, DateTime, Document};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, marker::PhantomData};

/// The document of a file in the files collection (GridFS Specification, *Files collection
/// document*). Other fields of a document are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FilesCollectionDocument {
    /// The id of the file.
    #[serde(rename = "_id")]
    pub id: Bson,
    /// The number of bytes of the file.
    #[serde(deserialize_with = "whole", serialize_with = "int64")]
    pub length: u64,
    /// The size of all chunks but the last, in bytes.
    #[serde(
        rename = "chunkSize",
        deserialize_with = "whole",
        serialize_with = "int32"
    )]
    pub chunk_size_bytes: u32,
    /// The time at which the upload of the file has ended.
    #[serde(rename = "uploadDate")]
    pub upload_date: DateTime,
    /// The name of the file; `None` for some files of old drivers. Several files can have the same
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The data of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Document>,
}

fn int64<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(i64::try_from(*number).unwrap_or(i64::MAX))
}

/// Writes a size as an int32, or as an int64 if it does not fit.
fn int32<S: Serializer>(number: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    match i32::try_from(*number) {
        Ok(number) => serializer.serialize_i32(number),
        Err(_) => serializer.serialize_i64((*number).into()),
    }
}

/// Reads a number that is not negative, and that a driver has stored in any numeric type.
fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Whole(PhantomData))
}

struct Whole<T>(PhantomData<T>);

impl<T: TryFrom<u64>> de::Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = 8 * size_of::<T>();
        write!(f, "a whole number of at most {bits} bits, not negative")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        let unexpected = de::Unexpected::Unsigned(number);
        T::try_from(number).map_err(|_| E::invalid_value(unexpected, &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        // The largest doubles are not exact, and no file is as long.
        if number.fract() == 0.0 && (0.0..9e15).contains(&number) {
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_value(de::Unexpected::Float(number), &self))
    }
}
