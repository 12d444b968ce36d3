//! A DBRef is the same by all routes.

use crate::strategies;
use bson::{
    Binary, Bson, DateTime, Document, RawDocument, RawDocumentBuf, Timestamp, doc, oid::ObjectId,
    raw::cstr, spec::BinarySubtype,
};
use onionskin_bson::{
    DbRef, deserialize_from_slice, document_from_slice, serialize_to_vec, validate,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// Returns a document with values that have a form of their own in human-readable formats.
fn values() -> Document {
    let decimal: bson::Decimal128 = "1.50".parse().expect("a number");
    doc! {
        "$ref": "coll0",
        "$id": ObjectId::from_bytes([0x5a; 12]),
        "$db": "db0",
        "date": DateTime::from_millis(-7),
        "long": 5_000_000_000_i64,
        "vector": Binary { subtype: BinarySubtype::Vector, bytes: vec![3, 0, 1] },
        "time": Timestamp { time: 1, increment: 2 },
        "decimal": decimal,
        "symbol": Bson::Symbol("s".to_owned()),
        "code": Bson::JavaScriptCode("c".to_owned()),
        "keys": [Bson::MinKey, Bson::MaxKey, Bson::Undefined, Bson::Null],
        "nested": { "$ref": "coll1", "$id": 1 },
    }
}

/// Returns a document whose values resemble Extended JSON.
fn resembling() -> Document {
    doc! { "$ref": "c", "$id": { "$numberInt": "5" }, "x": [{ "$oid": "y" }, { "$date": 1 }] }
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Book {
    author: DbRef,
    editors: Vec<DbRef>,
    publisher: Option<DbRef>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Flat {
    #[serde(flatten)]
    book: Book,
}

fn book() -> (Document, Book) {
    let document = doc! { "author": values(), "editors": [values()], "publisher": null };
    let reference = || DbRef::try_from(values()).expect("it is a DBRef");
    let (author, editors, publisher) = (reference(), vec![reference()], None);
    let book = Book {
        author,
        editors,
        publisher,
    };
    (document, book)
}

#[test]
fn fields_of_structs_can_be_references() {
    let (document, book) = book();
    let bytes = document.to_vec().expect("it can be encoded");
    assert_eq!(serialize_to_vec(&book), Ok(bytes.clone()));
    assert_eq!(deserialize_from_slice::<Book>(&bytes).as_ref(), Ok(&book));
    let flat = deserialize_from_slice::<Flat>(&bytes).expect("it is a book");
    assert_eq!(flat.book, book);
    assert_eq!(serialize_to_vec(&flat), Ok(bytes));
}

#[test]
fn the_functions_of_the_crate_convert_references() {
    let (document, book) = book();
    let bytes = document.to_vec().expect("it can be encoded");
    assert_eq!(bson::serialize_to_vec(&book).expect("BSON"), bytes);
    let encoded = bson::serialize_to_document(&book).expect("BSON");
    assert_eq!(encoded.to_string(), document.to_string());
    let decoded: Book = bson::deserialize_from_slice(&bytes).expect("a book");
    assert_eq!(decoded, book);
    let decoded: Flat = bson::deserialize_from_slice(&bytes).expect("a book");
    assert_eq!(decoded.book, book);
    let decoded: Book = bson::deserialize_from_document(document).expect("a book");
    assert_eq!(decoded, book);
}

// The form of serde_json is close to Extended JSON, and keeps the types.
#[test]
fn references_survive_json() {
    let reference = DbRef::try_from(values()).expect("it is a DBRef");
    let text = serde_json::to_string(&reference).expect("JSON");
    let start = r#"{"$ref":"coll0","$id":{"$oid":"5a5a5a5a5a5a5a5a5a5a5a5a"},"$db":"db0","#;
    assert!(text.starts_with(start), "{text}");
    let read: DbRef = serde_json::from_str(&text).expect("it is a DBRef");
    assert_eq!(read, reference);
    assert!(serde_json::from_str::<DbRef>(r#"{"$ref":"c"}"#).is_err());
    assert!(serde_json::from_str::<DbRef>("[1]").is_err());
}

// DBREF-9.
#[test]
fn extended_json_has_the_form_of_the_document() {
    let reference = DbRef::try_from(values()).expect("it is a DBRef");
    let (ours, theirs) = (Document::from(reference), values());
    let text = |document: &Document| {
        onionskin_bson::extjson::document_to_string(
            document,
            onionskin_bson::extjson::Mode::Canonical,
        )
    };
    assert_eq!(text(&ours), text(&theirs));
}

#[test]
fn values_that_resemble_extended_json_stay_documents_in_bson() {
    let bytes = resembling().to_vec().expect("it can be encoded");
    let ours: DbRef = deserialize_from_slice(&bytes).expect("it is a DBRef");
    assert_eq!(Document::from(ours.clone()), resembling());
    let theirs: DbRef = bson::deserialize_from_slice(&bytes).expect("it is a DBRef");
    assert_eq!(theirs, ours);
    assert_eq!(serialize_to_vec(&ours), Ok(bytes.clone()));
    assert_eq!(bson::serialize_to_vec(&ours).expect("BSON"), bytes);
}

/// Returns documents of which many are DBRefs, with repeated names in any order.
fn documents() -> impl Strategy<Value = RawDocumentBuf> {
    (
        strategies::document(),
        any::<bool>(),
        strategies::document(),
    )
        .prop_map(|(before, is_reference, after)| {
            let mut document = before;
            if is_reference {
                document.append(cstr!("$ref"), "coll0");
                document.append(cstr!("$id"), 1);
                document.append(cstr!("$db"), "db0");
            }
            for element in after.iter() {
                let (name, value) = element.expect("BSON");
                document.append(name, value);
            }
            document
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(strategies::cases(300)))]

    #[test]
    fn all_routes_agree(document in documents()) {
        let raw: &RawDocument = &document;
        let reference = DbRef::try_from(raw);
        let tree = document_from_slice(document.as_bytes()).expect("BSON");
        let is_text = |name| matches!(tree.get(name), Some(Bson::String(_)));
        let has_database = is_text("$db") || !tree.contains_key("$db");
        let is_reference = is_text("$ref") && tree.contains_key("$id") && has_database;
        prop_assert_eq!(reference.is_ok(), is_reference);
        let by_serde = deserialize_from_slice::<DbRef>(document.as_bytes());
        let by_crate = bson::deserialize_from_slice::<DbRef>(document.as_bytes());
        // The values can be NaN, which is not equal to itself.
        let text = |reference: Option<DbRef>| format!("{reference:?}");
        let expected = text(reference.clone().ok());
        prop_assert_eq!(text(DbRef::try_from(&tree).ok()), &expected[..]);
        prop_assert_eq!(text(by_serde.ok()), &expected[..]);
        prop_assert_eq!(text(by_crate.ok()), &expected[..]);

        let Ok(reference) = reference else {
            return Ok(());
        };
        let encoded = Document::from(reference.clone()).to_vec().expect("BSON");
        prop_assert_eq!(serialize_to_vec(&reference), Ok(encoded.clone()));
        let keys = |bytes: &[u8]| -> Vec<String> {
            document_from_slice(bytes).expect("BSON").keys().cloned().collect()
        };
        let parts = |name: &String| ["$ref", "$id", "$db"].iter().position(|part| part == name);
        let mut expected = keys(document.as_bytes());
        expected.sort_by_key(|name| parts(name).unwrap_or(3));
        prop_assert_eq!(keys(&encoded), expected);
        let again = deserialize_from_slice::<DbRef>(&encoded);
        prop_assert_eq!(text(again.ok()), text(Some(reference)));
    }

    #[test]
    fn no_bytes_make_the_conversion_panic(bytes in strategies::hostile()) {
        let by_serde = deserialize_from_slice::<DbRef>(&bytes);
        if let Ok(raw) = RawDocument::from_bytes(&bytes) {
            let reference = DbRef::try_from(raw);
            prop_assert!(reference.is_err() || validate(&bytes).is_ok());
            prop_assert!(reference.is_err() || by_serde.is_ok());
        }
    }
}
