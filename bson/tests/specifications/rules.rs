//! Rules of the specifications of BSON and its types for which there is no official test.

use bson::{
    Binary, Bson, DateTime, Decimal128, Document, RawDocumentBuf, Timestamp, cstr, doc,
    oid::ObjectId, rawdoc, spec::BinarySubtype,
};
use onionskin_bson::{
    DbRef, ObjectIdGenerator, deserialize_from_slice, document_from_slice,
    extjson::{self, Mode},
    fields, serialize_to_insert, serialize_to_vec,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Numbers {
    small: i32,
    large: i64,
    double: f64,
    decimal: Decimal128,
    time: Timestamp,
}

fn numbers() -> Numbers {
    Numbers {
        small: 1,
        large: 1,
        double: 1.0,
        decimal: Decimal128::from_bytes([1; 16]),
        time: Timestamp {
            time: 2,
            increment: 1,
        },
    }
}

// BSON-1.
#[test]
fn numbers_are_little_endian() {
    let bytes = serialize_to_vec(&numbers()).expect("it is BSON");
    let document = RawDocumentBuf::from_bytes(bytes).expect("BSON");
    let values: Vec<&[u8]> = fields(&document)
        .map(|field| field.expect("BSON").value_bytes())
        .collect();
    let expected: [&[u8]; 5] = [
        &[1, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        &[1; 16],
        &[1, 0, 0, 0, 2, 0, 0, 0],
    ];
    assert_eq!(values, expected);
}

// BSON-22.
#[test]
fn the_types_of_numbers_are_kept() {
    let document = doc! { "a": 1_i32, "b": 1_i64, "c": 1.0, "d": [0_i64, 0_i32, -0.0] };
    let bytes = serialize_to_vec(&document).expect("it is BSON");
    let read = document_from_slice(&bytes).expect("BSON");
    assert_eq!(serialize_to_vec(&read).as_ref(), Ok(&bytes));
    let read: Bson = deserialize_from_slice(&bytes).expect("BSON");
    assert_eq!(serialize_to_vec(&read), Ok(bytes));
}

// BSON-7.
#[test]
fn dates_have_the_whole_range_of_64_bits() {
    for millis in [i64::MIN, -1, 0, 1, i64::MAX] {
        let document = doc! { "a": DateTime::from_millis(millis) };
        let bytes = serialize_to_vec(&document).expect("it is BSON");
        assert_eq!(bytes[7..15], millis.to_le_bytes());
        assert_eq!(document_from_slice(&bytes).as_ref(), Ok(&document));
        assert_eq!(
            deserialize_from_slice::<Document>(&bytes).as_ref(),
            Ok(&document)
        );
        for mode in [Mode::Canonical, Mode::Relaxed] {
            let text = extjson::document_to_string(&document, mode).expect("it is BSON");
            assert_eq!(extjson::parse(&text).as_ref(), Ok(&document));
        }
    }
}

// BSON-11 and BSON-13.
#[test]
fn binary_data_keeps_its_subtype_and_has_the_generic_one_by_default() {
    for subtype in 0..=u8::MAX {
        let value = Binary {
            subtype: BinarySubtype::from(subtype),
            bytes: vec![7; 16],
        };
        let bytes = rawdoc! { "a": value.clone() }.into_bytes();
        let read = document_from_slice(&bytes).expect("BSON");
        assert_eq!(read.get("a"), Some(&Bson::Binary(value)));
        assert_eq!(serialize_to_vec(&read), Ok(bytes));
    }
    #[derive(Serialize)]
    struct Data {
        #[serde(with = "serde_bytes")]
        a: Vec<u8>,
    }
    let bytes = serialize_to_vec(&Data { a: vec![1] }).expect("it is BSON");
    assert_eq!(bytes[11], u8::from(BinarySubtype::Generic));
}

// BSON-16. The server compares; the types are all that is needed here.
#[test]
fn the_smallest_and_the_largest_key_are_values() {
    let document = doc! { "a": Bson::MinKey, "b": Bson::MaxKey };
    let bytes = serialize_to_vec(&document).expect("it is BSON");
    assert_eq!((bytes[4], bytes[7]), (0xff, 0x7f));
    assert_eq!(document_from_slice(&bytes), Ok(document));
}

// BSON-17.
#[test]
fn names_can_be_empty_and_can_have_dollar_signs_and_points() {
    let document = doc! { "_id": 1, "": 2, "$a": 3, "a.b": 4, "c": { "": 5, "$a": 6, "a.b": 7 } };
    let mut bytes = Vec::new();
    let no_id = || panic!("it has an `_id`");
    serialize_to_insert(&document, &mut bytes, 1000, no_id).expect("it is BSON");
    assert_eq!(document_from_slice(&bytes), Ok(document));
}

// BSON-18.
#[test]
fn the_order_of_fields_is_kept_and_repeated_names_are_allowed() {
    let mut document = RawDocumentBuf::new();
    for (name, n) in [(cstr!("b"), 1), (cstr!("a"), 2), (cstr!("b"), 3)] {
        document.append(name, n);
    }
    let names: Vec<&[u8]> = fields(&document)
        .map(|field| field.expect("BSON").name_bytes())
        .collect();
    assert_eq!(names, [b"b", b"a", b"b"]);
    // A tree has the place of the first field and the value of the last.
    let tree = document_from_slice(document.as_bytes()).expect("BSON");
    assert_eq!(tree, doc! { "b": 3, "a": 2 });
    assert!(tree.keys().eq(["b", "a"]));
}

// OID-2, OID-3 and OID-8.
#[test]
fn an_object_id_tells_its_time() {
    let id = ObjectId::from_bytes([0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        id.timestamp().timestamp_millis(),
        i64::from(u32::MAX) * 1000
    );
}

// OID-1 and OID-6.
#[test]
fn threads_get_different_ids() {
    let generator = ObjectIdGenerator::new([5; 5], 0xff_fff0);
    let mut all = std::thread::scope(|scope| {
        let draw = || (0..1000).map(|_| generator.next(1)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        let lists = threads.into_iter().map(|thread| thread.join());
        lists
            .flat_map(|list| list.expect("no panic"))
            .collect::<Vec<_>>()
    });
    assert!(
        all.iter()
            .all(|id| id.bytes()[..9] == [0, 0, 0, 1, 5, 5, 5, 5, 5])
    );
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4000);
}

// EJSON-14.
#[test]
fn uuids_are_written_as_binary_data() {
    let document = doc! { "a": bson::Uuid::from_bytes([0; 16]) };
    for mode in [Mode::Canonical, Mode::Relaxed] {
        let text = extjson::document_to_string(&document, mode).expect("it is BSON");
        let expected = r#"{"a":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}}"#;
        assert_eq!(text, expected);
    }
}

// EJSON-15 and EJSON-19.
#[test]
fn relaxed_extended_json_is_the_default() {
    let text = extjson::document_to_string(&doc! { "a": 1 }, Mode::default());
    assert_eq!(text.as_deref(), Ok(r#"{"a":1}"#));
}

// DBREF-2.
#[test]
fn a_db_pointer_is_not_a_reference() {
    let text = r#"{"a":{"$dbPointer":{"$ref":"db.c","$id":{"$oid":"010101010101010101010101"}}}}"#;
    let mut document = extjson::parse(text).expect("it is Extended JSON");
    let pointer = document.remove("a").expect("it is there");
    assert!(matches!(pointer, Bson::DbPointer(_)));
    let bytes = serialize_to_vec(&doc! { "a": pointer }).expect("it is BSON");
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "the field cannot be decoded")]
    struct Outer {
        a: DbRef,
    }
    assert!(deserialize_from_slice::<Outer>(&bytes).is_err());
}

proptest! {
    // DEC-2 and DEC-11.
    #[test]
    fn the_bytes_of_a_decimal_are_kept(bits in any::<[u8; 16]>()) {
        let value = Decimal128::from_bytes(bits);
        let bytes = serialize_to_vec(&doc! { "a": value }).expect("it is BSON");
        prop_assert_eq!(&bytes[7..23], &bits);
        for read in [document_from_slice(&bytes), deserialize_from_slice(&bytes)] {
            prop_assert_eq!(read, Ok(doc! { "a": value }));
        }
        // The five highest bits after the sign tell a NaN.
        if bits[15] & 0x7c == 0x7c {
            prop_assert_eq!(value.to_string(), "NaN");
        }
    }
}
