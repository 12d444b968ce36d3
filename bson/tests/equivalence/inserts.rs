//! Documents to insert, against a simple model.

use bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId};
use onionskin_bson::{ErrorKind, document_from_slice, serialize_to_insert};
use proptest::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

fn new_id() -> ObjectId {
    ObjectId::from_bytes([9; 12])
}

/// Returns the document with its `_id` at the front.
fn model(document: &Document) -> (Document, Bson) {
    let mut rest = document.clone();
    let id = rest.remove("_id").unwrap_or(Bson::ObjectId(new_id()));
    let mut expected = doc! { "_id": id.clone() };
    expected.extend(rest);
    (expected, id)
}

fn insert<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<(Vec<u8>, Bson), ErrorKind> {
    let mut buffer = b"before".to_vec();
    match serialize_to_insert(value, &mut buffer, limit, new_id) {
        Ok(id) => Ok((buffer.split_off(6), id)),
        Err(error) => {
            assert_eq!(buffer, b"before", "an error leaves the buffer");
            Err(error.kind().clone())
        }
    }
}

fn check<T: Serialize + ?Sized>(value: &T, document: &Document) {
    let (expected, id) = model(document);
    let expected = expected.to_vec().expect("it can be encoded");
    assert_eq!(insert(value, 1 << 20), Ok((expected.clone(), id)));
    // The limit is exact.
    let size = expected.len();
    assert!(insert(value, size).is_ok());
    for limit in [0, 1, size / 2, size - 1] {
        assert_eq!(insert(value, limit), Err(ErrorKind::Size { limit }));
    }
}

#[derive(Serialize)]
struct Flat {
    a: i32,
    #[serde(flatten)]
    rest: Document,
    z: &'static str,
}

#[derive(Serialize)]
struct Inner {
    x: Vec<Document>,
    _id: i32,
}

#[derive(Serialize)]
enum Variant {
    Struct { a: i32, _id: i32 },
    Tuple(i32, i32),
    Newtype(Inner),
}

#[test]
fn the_id_is_the_first_field_wherever_the_value_has_it() {
    for document in [
        doc! {},
        doc! { "_id": 1 },
        doc! { "a": { "_id": 2 }, "b": [{ "_id": 3 }] },
        doc! { "a": 1, "_id": "text", "b": 2 },
        doc! { "a": 1, "b": { "_id": 7 }, "_id": { "_id": { "c": 1 } } },
        doc! { "_id": ObjectId::from_bytes([3; 12]), "a": null },
    ] {
        check(&document, &document);
        let map: BTreeMap<&str, &Bson> = document.iter().map(|(k, v)| (k.as_str(), v)).collect();
        let sorted = map.iter().map(|(k, v)| ((*k).to_owned(), (*v).clone()));
        check(&map, &sorted.collect());
        check(
            &RawDocumentBuf::try_from(&document).expect("BSON"),
            &document,
        );
        let mut all = doc! { "a": 5 };
        all.extend(document.clone().into_iter().filter(|(key, _)| key != "a"));
        all.insert("z", "end");
        let rest = all
            .clone()
            .into_iter()
            .filter(|(key, _)| key != "a" && key != "z");
        let flat = Flat {
            a: 5,
            rest: rest.collect(),
            z: "end",
        };
        check(&flat, &all);
    }
}

#[test]
fn documents_of_variants_get_an_id() {
    let variant = Variant::Struct { a: 1, _id: 2 };
    check(&variant, &doc! { "Struct": { "a": 1, "_id": 2 } });
    check(&Variant::Tuple(1, 2), &doc! { "Tuple": [1, 2] });
    let inner = || Inner {
        x: vec![doc! { "_id": 5 }],
        _id: 6,
    };
    let expected = doc! { "x": [{ "_id": 5 }], "_id": 6 };
    check(&inner(), &expected);
    check(&Variant::Newtype(inner()), &doc! { "Newtype": expected });
}

#[test]
fn values_that_are_no_documents_are_refused() {
    for result in [
        insert(&1, 1000),
        insert("text", 1000),
        insert(&[1, 2], 1000),
        insert(&Some(()), 1000),
        insert(&new_id(), 1000),
        insert(&doc! { "a\0b": 1 }, 1000),
    ] {
        let error = result.expect_err("it is no document");
        assert!(
            matches!(error, ErrorKind::Serialization { .. }),
            "{error:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::strategies::cases(300)))]

    #[test]
    fn any_document_can_be_inserted(document in crate::strategies::document(), at in 0..4_usize) {
        let document = document_from_slice(document.as_bytes()).expect("BSON");
        let mut items: Vec<(String, Bson)> = document.into_iter().collect();
        let at = at.min(items.len());
        items.insert(at, ("_id".to_owned(), Bson::String("id".to_owned())));
        let document: Document = items.into_iter().collect();
        check(&document, &document);
    }
}
