//! References to documents.

use crate::{
    de::{bson_from_raw, document_from_slice},
    error::{Error, Result},
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
/// With serde, values keep their types if the format is BSON bytes. Human-readable formats, such as
/// those of `serde_json` and of [`bson::deserialize_from_document`], use Extended JSON for some
/// types, so that an `$id` like `{"$numberInt": "5"}` is read as a number there. Types for which
/// serde collects the fields first (`flatten`, `untagged`, `tag`) do this for BSON bytes, too. The
/// conversions from and to a [`Document`] never do it.
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

    /// Sets the database of the collection, the field `$db`. An empty name is encoded, too.
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
                return Err(Error::value(format!(
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

/// Removes a field that must be a string if it is there.
fn take_string(document: &mut Document, name: &str) -> Result<Option<String>> {
    match document.remove(name) {
        None => Ok(None),
        Some(Bson::String(text)) => Ok(Some(text)),
        Some(_) => {
            let message = format!("the field {name} of a DBRef is not a string");
            Err(Error::value(message))
        }
    }
}

/// Fails if `$ref` or `$id` is missing, or if `$ref` or `$db` is not a string. The order of the
/// fields has no meaning.
// DBREF-4 and DBREF-5. Nothing is converted implicitly (DBREF-6).
impl TryFrom<Document> for DbRef {
    type Error = Error;

    fn try_from(mut document: Document) -> Result<Self> {
        let missing = |name: &str| Error::value(format!("a DBRef has no field {name}"));
        let collection = take_string(&mut document, REF)?;
        Ok(Self {
            collection: collection.ok_or_else(|| missing(REF))?,
            // A null is a value, not a missing one.
            id: document.remove(ID).ok_or_else(|| missing(ID))?,
            database: take_string(&mut document, DB)?,
            extra: document,
        })
    }
}

/// Fails as for a [`Document`] that is not borrowed.
impl TryFrom<&Document> for DbRef {
    type Error = Error;

    fn try_from(document: &Document) -> Result<Self> {
        document.clone().try_into()
    }
}

/// Fails as for a [`Document`], and if the bytes are malformed or nested deeper than
/// [`MAX_DEPTH`](crate::MAX_DEPTH).
impl TryFrom<&RawDocument> for DbRef {
    type Error = Error;

    fn try_from(document: &RawDocument) -> Result<Self> {
        document_from_slice(document.as_bytes())?.try_into()
    }
}

// DBREF-7 and DBREF-8.
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

        let mut document = Document::new();
        while let Some(name) = map.next_key::<String>()? {
            // Values of BSON are copied as bytes, because the deserialization of `Bson` takes a
            // document that resembles Extended JSON for another type.
            let value = if self.is_human_readable {
                map.next_value()?
            } else {
                let raw: RawBson = map.next_value()?;
                bson_from_raw(raw.as_raw_bson_ref()).map_err(A::Error::custom)?
            };
            document.insert(name, value);
        }
        document.try_into().map_err(A::Error::custom)
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
        let decoded = DbRef::try_from(document.clone());
        assert_eq!(DbRef::try_from(document), decoded);
        let bytes = document.to_vec().expect("it can be encoded");
        let raw = RawDocument::from_bytes(&bytes).expect("BSON");
        assert_eq!(DbRef::try_from(raw), decoded);
        let by_serde = deserialize_from_slice::<DbRef>(&bytes);
        match &decoded {
            Ok(reference) => assert_eq!(by_serde.as_ref(), Ok(reference)),
            Err(error) => {
                let by_serde = by_serde.expect_err("it is no DBRef").to_string();
                assert!(by_serde.contains(&error.to_string()), "{by_serde}");
            }
        }
        decoded
    }

    /// Encodes a reference in all ways, which must agree. The text shows the order of the fields,
    /// which the comparison of documents ignores.
    fn encode(reference: &DbRef) -> String {
        let document = Document::from(reference.clone());
        assert_eq!(Bson::from(reference), Bson::from(document.clone()));
        let bytes = document.to_vec().expect("it can be encoded");
        assert_eq!(serialize_to_vec(reference), Ok(bytes));
        document.to_string()
    }

    fn check_decoding(document: &Document, extra: &Document) {
        let reference = decode(document).expect("it is a DBRef");
        assert_eq!(reference.collection(), "coll0");
        assert_eq!(Some(reference.id()), document.get("$id"));
        assert_eq!(reference.database(), document.get_str("$db").ok());
        assert_eq!(reference.extra().to_string(), extra.to_string());
    }

    // DBREF-P1.
    #[test]
    fn decoding_1_valid_documents() {
        for document in plain() {
            check_decoding(&document, &doc! {});
        }
    }

    // DBREF-P2.
    #[test]
    fn decoding_2_valid_documents_with_extra_fields() {
        let extra = [
            doc! { "foo": "bar" },
            doc! { "foo": true, "bar": false },
            doc! { "meta": { "foo": 1, "bar": 2 } },
            doc! { "$foo": "bar" },
            doc! { "foo.bar": 0 },
        ];
        for (document, extra) in with_extra().iter().zip(&extra) {
            check_decoding(document, extra);
        }
    }

    // DBREF-P3.
    #[test]
    fn decoding_3_documents_with_out_of_order_fields() {
        let foo = doc! { "foo": 1 };
        let extra = [
            doc! {},
            doc! {},
            foo.clone(),
            foo,
            doc! { "foo": 1, "bar": 1 },
        ];
        for (document, extra) in reordered().iter().zip(&extra) {
            check_decoding(document, extra);
        }
    }

    // DBREF-P4.
    #[test]
    fn decoding_4_documents_missing_required_fields() {
        for (document, missing) in [
            (doc! { "$ref": "coll0" }, "$id"),
            (doc! { "$id": id() }, "$ref"),
            (doc! { "$db": "db0" }, "$ref"),
        ] {
            let error = decode(&document).expect_err("it is no DBRef");
            assert_eq!(
                error,
                Error::value(format!("a DBRef has no field {missing}"))
            );
        }
    }

    // DBREF-P5.
    #[test]
    fn decoding_5_documents_with_invalid_types() {
        for (document, wrong) in [
            (doc! { "$ref": true, "$id": 1 }, "$ref"),
            (doc! { "$ref": null, "$id": 1 }, "$ref"),
            (doc! { "$ref": "coll0", "$id": 1, "$db": 1 }, "$db"),
            (doc! { "$ref": "coll0", "$id": 1, "$db": null }, "$db"),
        ] {
            let error = decode(&document).expect_err("it is no DBRef");
            let message = format!("the field {wrong} of a DBRef is not a string");
            assert_eq!(error, Error::value(message));
        }
    }

    // DBREF-P6.
    #[test]
    fn encoding_1_basic_fields() {
        let built = [
            DbRef::new("coll0", id()),
            DbRef::new("coll0", 1),
            DbRef::new("coll0", Bson::Null),
            DbRef::new("coll0", 1).with_database("db0"),
        ];
        for (reference, expected) in built.iter().zip(plain()) {
            assert_eq!(encode(reference), expected.to_string());
        }
    }

    // DBREF-P7.
    #[test]
    fn encoding_2_extra_fields() {
        for document in with_extra() {
            let decoded = decode(&document).expect("it is a DBRef");
            assert_eq!(encode(&decoded), document.to_string());
            let mut built = DbRef::new("coll0", 1);
            if let Ok(database) = document.get_str("$db") {
                built = built.with_database(database);
            }
            let built = built.with_extra(decoded.extra().clone());
            assert_eq!(built, Ok(decoded));
        }
    }

    // DBREF-P8.
    #[test]
    fn encoding_3_reorders_fields_that_were_out_of_order() {
        let expected = [
            doc! { "$ref": "coll0", "$id": 1 },
            doc! { "$ref": "coll0", "$id": 1, "$db": "db0" },
            doc! { "$ref": "coll0", "$id": 1, "foo": 1 },
            doc! { "$ref": "coll0", "$id": 1, "$db": "db0", "foo": 1 },
            doc! { "$ref": "coll0", "$id": 1, "$db": "db0", "foo": 1, "bar": 1 },
        ];
        for (document, expected) in reordered().iter().zip(&expected) {
            let reference = decode(document).expect("it is a DBRef");
            assert_eq!(encode(&reference), expected.to_string());
        }
    }

    // DBREF-3.
    #[test]
    fn extra_fields_cannot_replace_the_parts() {
        for name in ["$ref", "$id", "$db"] {
            assert!(
                DbRef::new("coll0", 1)
                    .with_extra(doc! { name: "a" })
                    .is_err()
            );
        }
        let extra = doc! { "$idx": 2, "a.b": 1, "": 3 };
        assert!(DbRef::new("coll0", 1).with_extra(extra).is_ok());
    }

    // DBREF-3 and DBREF-9. Names are not checked, so that an empty one is a name. Extended JSON has
    // the form of the document.
    #[test]
    fn an_empty_database_is_kept() {
        let reference = DbRef::new("", 1).with_database("");
        let document = doc! { "$ref": "", "$id": 1, "$db": "" };
        assert_eq!(encode(&reference), document.to_string());
        assert_eq!(decode(&document), Ok(reference));
    }
}
