//! References to documents.

use crate::{
    de::{bson_from_raw, document_from_slice},
    error::{Error, ErrorKind, Result},
};
use bson::{Bson, Document, RawBson, RawDocument};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use std::fmt;

/// The names of the fields that have a meaning (DBREF-1).
const REF: &str = "$ref";
const ID: &str = "$id";
const DB: &str = "$db";

/// A reference to a document of a collection: a DBRef.
///
/// A DBRef is stored as a document with the fields `$ref` (the collection), `$id` (the `_id` of the
/// document, of any type), `$db` (the database, optional) and further fields of the application, in
/// this order. The source is the DBRef specification, "Specification".
///
/// Documents are converted only on request, with `TryFrom` or with serde: a [`Document`] that looks
/// like a DBRef stays a document. In Extended JSON, a DBRef has the form of its document. A DBRef
/// is not related to the BSON type DBPointer.
///
/// ```
/// use bson::{Document, doc};
/// use onionskin_bson::DbRef;
///
/// let author = DbRef::new("people", 7).with_database("library");
/// assert_eq!(
///     Document::from(author.clone()),
///     doc! { "$ref": "people", "$id": 7, "$db": "library" },
/// );
///
/// let stored = doc! { "$id": 7, "$ref": "people", "$db": "library" };
/// assert_eq!(DbRef::try_from(stored)?, author);
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DbRef {
    collection: String,
    id: Bson,
    database: Option<String>,
    extra: Document,
}

impl DbRef {
    /// Returns a reference to the document with this `_id` in a collection of the database in which
    /// the reference is stored. Neither value is checked.
    #[must_use]
    pub fn new(collection: impl Into<String>, id: impl Into<Bson>) -> Self {
        Self {
            collection: collection.into(),
            id: id.into(),
            database: None,
            extra: Document::new(),
        }
    }

    /// Sets the database of the collection, the field `$db`.
    #[must_use]
    pub fn with_database(mut self, database: impl Into<String>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// Sets the further fields, which follow the others in this order.
    ///
    /// # Errors
    ///
    /// Fails if one of the fields is named `$ref`, `$id` or `$db`.
    pub fn with_extra(mut self, extra: Document) -> Result<Self> {
        for name in [REF, ID, DB] {
            if extra.contains_key(name) {
                return Err(invalid(format!(
                    "a further field of a DBRef is named {name}"
                )));
            }
        }
        self.extra = extra;
        Ok(self)
    }

    /// Returns the name of the collection, the field `$ref`.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the `_id` of the document, the field `$id`.
    #[must_use]
    pub fn id(&self) -> &Bson {
        &self.id
    }

    /// Returns the name of the database, the field `$db`; `None` if the reference has none.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns the further fields.
    #[must_use]
    pub fn extra(&self) -> &Document {
        &self.extra
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Value {
        message: message.into(),
    })
}

/// The parts of a DBRef that were found so far. The order of fields has no meaning (DBREF-4).
#[derive(Default)]
struct Parts {
    collection: Option<String>,
    id: Option<Bson>,
    database: Option<String>,
    extra: Document,
}

impl Parts {
    fn add(&mut self, name: String, value: Bson) -> Result<()> {
        match (name.as_str(), value) {
            (REF, Bson::String(collection)) => self.collection = Some(collection),
            (DB, Bson::String(database)) => self.database = Some(database),
            (REF | DB, _) => {
                let message = format!("the field {name} of a DBRef is not a string");
                return Err(invalid(message));
            }
            // A null is a value, not a missing one.
            (ID, id) => self.id = Some(id),
            (_, value) => {
                self.extra.insert(name, value);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<DbRef> {
        let missing = |name: &str| invalid(format!("a DBRef has no field {name}"));
        Ok(DbRef {
            collection: self.collection.ok_or_else(|| missing(REF))?,
            id: self.id.ok_or_else(|| missing(ID))?,
            database: self.database,
            extra: self.extra,
        })
    }
}

/// Fails if `$ref` or `$id` is missing, or if `$ref` or `$db` is not a string (DBREF-5).
impl TryFrom<Document> for DbRef {
    type Error = Error;

    fn try_from(document: Document) -> Result<Self> {
        let mut parts = Parts::default();
        for (name, value) in document {
            parts.add(name, value)?;
        }
        parts.finish()
    }
}

/// Fails as for a [`Document`], and if the bytes are malformed.
impl TryFrom<&RawDocument> for DbRef {
    type Error = Error;

    fn try_from(document: &RawDocument) -> Result<Self> {
        document_from_slice(document.as_bytes())?.try_into()
    }
}

impl From<DbRef> for Document {
    fn from(reference: DbRef) -> Self {
        let mut document = Self::new();
        document.insert(REF, reference.collection);
        document.insert(ID, reference.id);
        if let Some(database) = reference.database {
            document.insert(DB, database);
        }
        document.extend(reference.extra);
        document
    }
}

impl From<DbRef> for Bson {
    fn from(reference: DbRef) -> Self {
        Self::Document(reference.into())
    }
}

impl Serialize for DbRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(REF, &self.collection)?;
        map.serialize_entry(ID, &self.id)?;
        if let Some(database) = &self.database {
            map.serialize_entry(DB, database)?;
        }
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for DbRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_human_readable = deserializer.is_human_readable();
        deserializer.deserialize_map(Fields { is_human_readable })
    }
}

/// Reads the fields of a DBRef.
struct Fields {
    is_human_readable: bool,
}

impl<'de> Visitor<'de> for Fields {
    type Value = DbRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DBRef")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DbRef, A::Error> {
        use serde::de::Error as _;

        let mut parts = Parts::default();
        while let Some(name) = map.next_key::<String>()? {
            // From BSON, values are copied as bytes: the deserialization of `Bson` would take a
            // document that resembles Extended JSON for another type.
            let value = if self.is_human_readable {
                map.next_value()?
            } else {
                let raw: RawBson = map.next_value()?;
                bson_from_raw(raw.as_raw_bson_ref()).map_err(A::Error::custom)?
            };
            parts.add(name, value).map_err(A::Error::custom)?;
        }
        parts.finish().map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{deserialize_from_slice, serialize_to_vec};
    use bson::{doc, oid::ObjectId};

    fn id() -> ObjectId {
        ObjectId::from_bytes([0x5a; 12])
    }

    /// Returns valid documents in the order of the specification, without further fields.
    fn plain() -> [Document; 4] {
        [
            doc! { "$ref": "coll0", "$id": id() },
            doc! { "$ref": "coll0", "$id": 1 },
            doc! { "$ref": "coll0", "$id": null },
            doc! { "$ref": "coll0", "$id": 1, "$db": "db0" },
        ]
    }

    /// Returns valid documents in the order of the specification, with further fields.
    fn with_extra() -> [Document; 5] {
        [
            doc! { "$ref": "coll0", "$id": 1, "$db": "db0", "foo": "bar" },
            doc! { "$ref": "coll0", "$id": 1, "foo": true, "bar": false },
            doc! { "$ref": "coll0", "$id": 1, "meta": { "foo": 1, "bar": 2 } },
            doc! { "$ref": "coll0", "$id": 1, "$foo": "bar" },
            doc! { "$ref": "coll0", "$id": 1, "foo.bar": 0 },
        ]
    }

    /// Returns valid documents in other orders.
    fn reordered() -> [Document; 5] {
        [
            doc! { "$id": 1, "$ref": "coll0" },
            doc! { "$db": "db0", "$ref": "coll0", "$id": 1 },
            doc! { "foo": 1, "$id": 1, "$ref": "coll0" },
            doc! { "foo": 1, "$ref": "coll0", "$id": 1, "$db": "db0" },
            doc! { "foo": 1, "$ref": "coll0", "$id": 1, "$db": "db0", "bar": 1 },
        ]
    }

    /// Decodes a document in all ways, which must agree.
    fn decode(document: &Document) -> Result<DbRef> {
        let bytes = document.to_vec().expect("it can be encoded");
        let decoded = DbRef::try_from(document.clone());
        let raw = RawDocument::from_bytes(&bytes).expect("BSON");
        assert_eq!(DbRef::try_from(raw), decoded);
        let by_serde = deserialize_from_slice::<DbRef>(&bytes);
        assert_eq!(by_serde.is_ok(), decoded.is_ok());
        if let Ok(reference) = &decoded {
            assert_eq!(by_serde.as_ref(), Ok(reference));
            let readable = bson::deserialize_from_document::<DbRef>(document.clone());
            assert_eq!(&readable.expect("it is a DBRef"), reference);
            let encoded = serialize_to_vec(reference).expect("it can be encoded");
            let as_document = Document::from(reference.clone());
            assert_eq!(encoded, as_document.to_vec().expect("it can be encoded"));
        }
        decoded
    }

    // DBREF-P1.
    #[test]
    fn documents_with_the_required_fields_are_decoded() {
        for document in plain() {
            let reference = decode(&document).expect("it is a DBRef");
            assert_eq!(reference.collection(), "coll0");
            assert_eq!(Some(reference.id()), document.get("$id"));
            assert_eq!(reference.database(), document.get_str("$db").ok());
            assert!(reference.extra().is_empty());
        }
    }

    // DBREF-P2.
    #[test]
    fn further_fields_are_kept() {
        for document in with_extra() {
            let reference = decode(&document).expect("it is a DBRef");
            let mut extra = document.clone();
            for name in ["$ref", "$id", "$db"] {
                extra.remove(name);
            }
            assert!(!extra.is_empty());
            assert_eq!(reference.extra(), &extra);
        }
    }

    // DBREF-P3.
    #[test]
    fn fields_can_have_any_order() {
        for document in reordered() {
            let reference = decode(&document).expect("it is a DBRef");
            assert_eq!(
                (reference.collection(), reference.id()),
                ("coll0", &Bson::Int32(1))
            );
        }
    }

    // DBREF-P4 and DBREF-P5.
    #[test]
    fn documents_without_required_fields_or_with_wrong_types_are_refused() {
        for (document, message) in [
            (doc! { "$ref": "coll0" }, "a DBRef has no field $id"),
            (doc! { "$id": 1 }, "a DBRef has no field $ref"),
            (doc! {}, "a DBRef has no field $ref"),
            (
                doc! { "$ref": true, "$id": 1 },
                "the field $ref of a DBRef is not a string",
            ),
            (
                doc! { "$ref": "coll0", "$id": 1, "$db": 1 },
                "the field $db of a DBRef is not a string",
            ),
        ] {
            let error = decode(&document).expect_err("it is no DBRef");
            assert_eq!(error.to_string(), message);
        }
    }

    // DBREF-P6 to DBREF-P8.
    #[test]
    fn fields_are_encoded_in_the_order_of_the_specification() {
        for document in plain().into_iter().chain(with_extra()) {
            let reference = decode(&document).expect("it is a DBRef");
            assert_eq!(Document::from(reference).to_string(), document.to_string());
        }
        for document in reordered() {
            let reference = decode(&document).expect("it is a DBRef");
            let encoded = Document::from(reference);
            let mut names: Vec<&String> = encoded.keys().collect();
            let rank = |name: &&String| ["$ref", "$id", "$db"].iter().position(|n| n == name);
            let mut sorted = names.clone();
            sorted.sort_by_key(|name| rank(name).unwrap_or(3));
            assert_eq!(names, sorted);
            names.sort();
            let mut all: Vec<&String> = document.keys().collect();
            all.sort();
            assert_eq!(names, all);
        }
    }

    // DBREF-3.
    #[test]
    fn further_fields_cannot_replace_the_parts() {
        let reference = DbRef::new("coll0", 1);
        assert!(reference.clone().with_extra(doc! { "$id": 2 }).is_err());
        assert!(reference.with_extra(doc! { "$idx": 2, "a.b": 1 }).is_ok());
    }

    #[test]
    fn values_that_resemble_extended_json_stay_documents() {
        let document = doc! { "$ref": "c", "$id": { "$numberInt": "5" }, "x": [{ "$oid": "y" }] };
        let bytes = document.to_vec().expect("it can be encoded");
        let reference: DbRef = deserialize_from_slice(&bytes).expect("it is a DBRef");
        assert_eq!(Document::from(reference), document);
    }
}
