//! Tests of the writer.

use super::*;
use crate::{ErrorKind, MAX_DEPTH};
use bson::{Binary, DateTime, Timestamp, doc, oid::ObjectId, rawdoc, spec::BinarySubtype};

/// The bytes of elements, their canonical form, and their relaxed form if it differs.
const FORMS: &[(&[u8], &str, &str)] = &[
    (
        b"\x01k\0\0\0\0\0\0\0\xf8\x3f",
        r#"{"$numberDouble":"1.5"}"#,
        "1.5",
    ),
    (
        b"\x01k\0\0\0\0\0\0\0\0\x80",
        r#"{"$numberDouble":"-0.0"}"#,
        "-0.0",
    ),
    (
        b"\x01k\0\x01\0\0\0\0\0\0\0",
        r#"{"$numberDouble":"5E-324"}"#,
        "5E-324",
    ),
    (
        b"\x01k\0\0\0\0\0\0\0\xf0\x7f",
        r#"{"$numberDouble":"Infinity"}"#,
        "",
    ),
    (
        b"\x01k\0\0\0\0\0\0\0\xf0\xff",
        r#"{"$numberDouble":"-Infinity"}"#,
        "",
    ),
    (
        b"\x01k\0\0\0\0\0\0\0\xf8\xff",
        r#"{"$numberDouble":"NaN"}"#,
        "",
    ),
    (b"\x02k\0\x02\0\0\0a\0", r#""a""#, ""),
    (b"\x03k\0\x05\0\0\0\0", "{}", ""),
    (b"\x04k\0\x05\0\0\0\0", "[]", ""),
    (
        b"\x05k\0\x01\0\0\0\x07a",
        r#"{"$binary":{"base64":"YQ==","subType":"07"}}"#,
        "",
    ),
    (
        b"\x05k\0\x05\0\0\0\x02\x01\0\0\0a",
        r#"{"$binary":{"base64":"YQ==","subType":"02"}}"#,
        "",
    ),
    (b"\x06k\0", r#"{"$undefined":true}"#, ""),
    (
        b"\x07k\0ABCDEFGHIJK\xff",
        r#"{"$oid":"4142434445464748494a4bff"}"#,
        "",
    ),
    (b"\x08k\0\0", "false", ""),
    (b"\x08k\0\x01", "true", ""),
    (b"\x0ak\0", "null", ""),
    (
        b"\x0bk\0a/\0six\0",
        r#"{"$regularExpression":{"pattern":"a/","options":"isx"}}"#,
        "",
    ),
    (
        b"\x0ck\0\x02\0\0\0b\0ABCDEFGHIJKL",
        r#"{"$dbPointer":{"$ref":"b","$id":{"$oid":"4142434445464748494a4b4c"}}}"#,
        "",
    ),
    (b"\x0dk\0\x02\0\0\0a\0", r#"{"$code":"a"}"#, ""),
    (b"\x0ek\0\x02\0\0\0a\0", r#"{"$symbol":"a"}"#, ""),
    (
        b"\x0fk\0\x12\0\0\0\x02\0\0\0a\0\x08\0\0\0\x0ab\0\0",
        r#"{"$code":"a","$scope":{"b":null}}"#,
        "",
    ),
    (b"\x10k\0\xff\xff\xff\xff", r#"{"$numberInt":"-1"}"#, "-1"),
    (
        b"\x11k\0\x01\0\0\0\xff\xff\xff\xff",
        r#"{"$timestamp":{"t":4294967295,"i":1}}"#,
        "",
    ),
    (
        b"\x12k\0\0\0\0\0\0\0\0\x80",
        r#"{"$numberLong":"-9223372036854775808"}"#,
        "-9223372036854775808",
    ),
    (
        b"\x13k\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\x3e\x30",
        r#"{"$numberDecimal":"0.5"}"#,
        "",
    ),
    (b"\xffk\0", r#"{"$minKey":1}"#, ""),
    (b"\x7fk\0", r#"{"$maxKey":1}"#, ""),
];

// EJSON-1 and EJSON-2: the formats, and the order of the names in them.
#[test]
fn all_types_have_the_forms_of_the_conversion_table() {
    for &(element, canonical_form, relaxed_form) in FORMS {
        let relaxed_form = if relaxed_form.is_empty() {
            canonical_form
        } else {
            relaxed_form
        };
        let document = raw(element);
        assert_eq!(canonical(&document), format!(r#"{{"k":{canonical_form}}}"#));
        assert_eq!(relaxed(&document), format!(r#"{{"k":{relaxed_form}}}"#));
        assert_eq!(
            to_string_lossy(&document, Mode::Relaxed, usize::MAX),
            relaxed(&document)
        );
        let value = document.get("k").expect("valid").expect("it is there");
        assert_eq!(
            value_to_string(value, Mode::Canonical).as_deref(),
            Ok(canonical_form)
        );
    }
}

#[test]
fn dates_outside_of_1970_to_9999_are_numbers_in_both_modes() {
    for millis in [-1, date::LAST_MILLIS + 1, i64::MIN, i64::MAX] {
        let document = rawdoc! { "d": DateTime::from_millis(millis) };
        let expected = format!(r#"{{"d":{{"$date":{{"$numberLong":"{millis}"}}}}}}"#);
        assert_eq!(canonical(&document), expected);
        assert_eq!(relaxed(&document), expected);
    }
    let document = rawdoc! { "d": DateTime::from_millis(500) };
    assert_eq!(
        relaxed(&document),
        r#"{"d":{"$date":"1970-01-01T00:00:00.500Z"}}"#
    );
    assert_eq!(
        canonical(&document),
        r#"{"d":{"$date":{"$numberLong":"500"}}}"#
    );
}

// EJSON-21: names keep their order, also if they occur twice.
#[test]
fn names_have_the_order_of_the_document() {
    let document = raw(b"\x0ab\0\x0aa\0\x0ab\0\x08\0\x01");
    assert_eq!(
        relaxed(&document),
        r#"{"b":null,"a":null,"b":null,"":true}"#
    );
    let document = raw(b"\x04k\0\x0b\0\0\0\x0a5\0\x0ax\0\0");
    assert_eq!(relaxed(&document), r#"{"k":[null,null]}"#);
}

#[test]
fn special_characters_are_escaped() {
    let document = rawdoc! { "\"\\": "\u{0}\u{1}\u{8}\u{c}\n\r\t\u{1f}\u{7f}/é\u{2028}😀" };
    let text = relaxed(&document);
    let expected =
        "{\"\\\"\\\\\":\"\\u0000\\u0001\\u0008\\u000c\\n\\r\\t\\u001f\\u007f/é\u{2028}😀\"}";
    assert_eq!(text, expected);
    assert_eq!(parse_raw(&text), Ok(document));
}

#[test]
fn documents_and_values_that_are_not_raw_are_written() {
    let document = doc! { "a": [1, { "b": Bson::Null }] };
    let text = document_to_string(&document, Mode::Canonical).expect("valid");
    assert_eq!(text, r#"{"a":[{"$numberInt":"1"},{"b":null}]}"#);
    let value = bson_to_string(&Bson::Document(document), Mode::Relaxed).expect("valid");
    assert_eq!(value, r#"{"a":[1,{"b":null}]}"#);
    let text = bson_to_string(&regex("a", "xi"), Mode::Relaxed).expect("valid");
    assert_eq!(
        text,
        r#"{"$regularExpression":{"pattern":"a","options":"ix"}}"#
    );
    let id = Bson::ObjectId(ObjectId::from_bytes([0; 12]));
    let text = bson_to_string(&id, Mode::Relaxed).expect("valid");
    assert_eq!(text, r#"{"$oid":"000000000000000000000000"}"#);
    assert!(document_to_string(&doc! { "a\0": 1 }, Mode::Relaxed).is_err());
}

#[test]
fn large_binary_data_is_written_in_parts() {
    for length in [767, 768, 769, 5000] {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
        let subtype = BinarySubtype::Generic;
        let document = rawdoc! { "b": Binary { subtype, bytes: bytes.clone() } };
        let text = relaxed(&document);
        assert!(text.contains(&base64::Engine::encode(
            &base64::prelude::BASE64_STANDARD,
            bytes
        )));
        assert_eq!(parse_raw(&text), Ok(document));
    }
}

#[test]
fn a_malformed_value_is_an_error_with_path_and_offset() {
    // The array `b` in `a` has a boolean with the value 2 at index 1.
    let array = b"\x0d\0\0\0\x0a0\0\x08\x31\0\x02\0";
    let array = [&[12, 0, 0, 0], &array[4..]].concat();
    let inner = raw(&[b"\x04b\0", &array[..]].concat());
    let document = rawdoc! { "t": Timestamp { time: 1, increment: 1 }, "a": inner };
    for error in [
        to_string(&document, Mode::Relaxed).expect_err("malformed"),
        write(&document, Mode::Canonical, &mut String::new()).expect_err("malformed"),
        crate::validate(document.as_bytes()).expect_err("malformed"),
    ] {
        assert_eq!(error.path(), "a.b.1");
        let offset = error.offset().expect("it is known");
        assert_eq!(document.as_bytes()[offset], 2);
        assert!(matches!(error.kind(), ErrorKind::Malformed { .. }));
    }
    assert_eq!(
        to_string_lossy(&document, Mode::Relaxed, 100),
        r#"{"t":{"$timestamp":{"t":1,"i":1}},"a":{"b":[null,"..."]}}"#,
    );
    let value = document.get("a").expect("valid").expect("it is there");
    let error = value_to_string(value, Mode::Relaxed).expect_err("malformed");
    assert_eq!((error.path().as_str(), error.offset()), ("b.1", Some(17)));
}

// EJSON-17.
#[test]
fn documents_up_to_the_maximum_depth_are_written() {
    let text = canonical(&nested(MAX_DEPTH));
    assert_eq!(text.len(), "{\"0\":}".len() + 2 * (MAX_DEPTH - 1));
    for levels in [MAX_DEPTH + 1, 100_000] {
        let deep = nested(levels);
        let error = to_string(&deep, Mode::Relaxed).expect_err("it is too deep");
        assert_eq!(error.kind(), &ErrorKind::Depth);
        let text = to_string_lossy(&deep, Mode::Relaxed, usize::MAX);
        assert!(
            text.contains("[\"...\"]") && text.len() < 4 * MAX_DEPTH,
            "{text}"
        );
    }
    let deep = nested(MAX_DEPTH);
    let array = deep.get("0").expect("valid").expect("it is there");
    assert_eq!(
        value_to_string(array, Mode::Relaxed).map(|text| text.len()),
        Ok(398)
    );
}

#[test]
fn a_writer_that_fails_is_an_error() {
    let document = rawdoc! { "a": "text" };
    let error = write(&document, Mode::Relaxed, &mut Cut::new(5)).expect_err("it is full");
    assert!(
        matches!(error.kind(), ErrorKind::Serialization { .. }),
        "{error}"
    );
}

#[test]
fn a_long_document_is_cut_between_characters() {
    let document = rawdoc! { "a": "ä\u{1f600}\n", "b": [1, { "c": true }] };
    let text = relaxed(&document);
    for limit in 0..text.len() {
        let cut = to_string_lossy(&document, Mode::Relaxed, limit);
        let kept = cut.strip_suffix(ELLIPSIS).expect("it is marked");
        assert!(
            text.starts_with(kept) && kept.len() <= limit,
            "{limit}: {cut}"
        );
        assert!(limit - kept.len() < 6, "{limit}: {cut}");
    }
    assert_eq!(to_string_lossy(&document, Mode::Relaxed, text.len()), text);
}

#[test]
fn a_large_document_allocates_only_the_part_that_is_shown() {
    let bytes = vec![7; 1 << 20];
    let subtype = BinarySubtype::Generic;
    let documents = [
        rawdoc! { "a": Binary { subtype, bytes }, "b": 1 },
        rawdoc! { "a": "x".repeat(1 << 20), "b": 1 },
    ];
    for document in documents {
        let text = to_string_lossy(&document, Mode::Relaxed, 100);
        assert_eq!(text.len(), 100 + ELLIPSIS.len());
        assert!(text.capacity() < 2000);
    }
}

#[test]
fn unreadable_parts_are_shown_as_dots() {
    for (element, expected) in [
        // The string claims to be longer than its document.
        (
            &b"\x0aa\0\x02b\0\x7f\0\0\0text\0"[..],
            r#"{"a":null,"...":null}"#,
        ),
        (
            b"\x02a\0\x03\0\0\0x\xff\0\x0ab\0",
            r#"{"a":"x...","b":null}"#,
        ),
        (b"\x0a\xff\0", r#"{"...":null}"#),
        (b"\x08a\0\x02\x0ab\0", r#"{"a":"...","b":null}"#),
        (
            b"\x04a\0\x08\0\0\0\x14b\0\0\x0ab\0",
            r#"{"a":["..."],"b":null}"#,
        ),
        (
            b"\x0fa\0\x0e\0\0\0\0\0\0\0\0\0\0\0\0\0\x0ab\0",
            r#"{"a":"...","b":null}"#,
        ),
    ] {
        assert_eq!(to_string_lossy(&raw(element), Mode::Relaxed, 100), expected);
        assert!(to_string(&raw(element), Mode::Relaxed).is_err());
    }
}
