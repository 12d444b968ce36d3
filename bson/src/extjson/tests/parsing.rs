//! Tests of the parser.

use super::*;
use crate::{ErrorKind, MAX_DEPTH, validate};
use bson::{Binary, DateTime, JavaScriptCodeWithScope, doc, spec::BinarySubtype};

/// Parses `{"k": …}` with a value.
fn value(text: &str) -> Result<Bson> {
    let document = parse(format!(r#"{{"k": {text}}}"#))?;
    Ok(document.get("k").expect("it is there").clone())
}

fn legacy(text: &str) -> Result<Bson> {
    ParseOptions::default().legacy(true).parse_value(text)
}

fn canonical_value(value: &Bson) -> String {
    bson_to_string(value, Mode::Canonical).expect("valid")
}

/// Representations, and their canonical form.
const REPRESENTATIONS: &[(&str, &str)] = &[
    (
        r#"{"$oid": "0123456789ABCDEFabcdef01"}"#,
        r#"{"$oid":"0123456789abcdefabcdef01"}"#,
    ),
    (r#"{"$numberInt": "-5"}"#, r#"{"$numberInt":"-5"}"#),
    (r#"{"$numberLong": "5"}"#, r#"{"$numberLong":"5"}"#),
    (
        r#"{"$numberDouble": "1.5E+3"}"#,
        r#"{"$numberDouble":"1500.0"}"#,
    ),
    (
        r#"{"$numberDecimal": "1.50"}"#,
        r#"{"$numberDecimal":"1.50"}"#,
    ),
    ("1", r#"{"$numberInt":"1"}"#),
    ("2147483648", r#"{"$numberLong":"2147483648"}"#),
    ("1e0", r#"{"$numberDouble":"1.0"}"#),
    (
        r#"{"$scope": {"a": 1}, "$code": "f"}"#,
        r#"{"$code":"f","$scope":{"a":{"$numberInt":"1"}}}"#,
    ),
    (
        r#"{"$code": "f", "$scope": {}}"#,
        r#"{"$code":"f","$scope":{}}"#,
    ),
    (r#"{"$code": "f\u0000"}"#, r#"{"$code":"f\u0000"}"#),
    (r#"{"$symbol": ""}"#, r#"{"$symbol":""}"#),
    (
        r#"{"$timestamp": {"i": 1, "t": 4294967295}}"#,
        r#"{"$timestamp":{"t":4294967295,"i":1}}"#,
    ),
    (
        r#"{"$regularExpression": {"options": "xsmi", "pattern": "é"}}"#,
        r#"{"$regularExpression":{"pattern":"é","options":"imsx"}}"#,
    ),
    (
        r#"{"$dbPointer": {"$id": {"$oid": "000000000000000000000000"}, "$ref": "b"}}"#,
        r#"{"$dbPointer":{"$ref":"b","$id":{"$oid":"000000000000000000000000"}}}"#,
    ),
    (
        r#"{"$date": "1970-01-01T00:00:01.5Z"}"#,
        r#"{"$date":{"$numberLong":"1500"}}"#,
    ),
    (
        r#"{"$date": {"$numberLong": "-1"}}"#,
        r#"{"$date":{"$numberLong":"-1"}}"#,
    ),
    (r#"{"$minKey": 1}"#, r#"{"$minKey":1}"#),
    (r#"{"$maxKey": 1}"#, r#"{"$maxKey":1}"#),
    (r#"{"$undefined": true}"#, r#"{"$undefined":true}"#),
    (
        r#"{"$binary": {"subType": "2", "base64": "YQ=="}}"#,
        r#"{"$binary":{"base64":"YQ==","subType":"02"}}"#,
    ),
    (
        r#"{"$binary": {"base64": "", "subType": "fF"}}"#,
        r#"{"$binary":{"base64":"","subType":"ff"}}"#,
    ),
    (
        r#"{"$uuid": "c8edabc3-f738-4ca3-B68D-ab92a91478a3"}"#,
        r#"{"$binary":{"base64":"yO2rw/c4TKO2jauSqRR4ow==","subType":"04"}}"#,
    ),
    (
        r#"{"$uuid": "urn:uuid:c8edabc3f7384ca3b68dab92a91478a3"}"#,
        r#"{"$binary":{"base64":"yO2rw/c4TKO2jauSqRR4ow==","subType":"04"}}"#,
    ),
];

// EJSON-4, EJSON-7 and EJSON-13: both formats, and any order of names.
#[test]
fn representations_of_types_are_read_in_any_order_of_their_names() {
    for &(text, expected) in REPRESENTATIONS {
        for read in [value(text), parse_value(text)] {
            let read = read.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(canonical_value(&read), expected);
        }
        validate(
            parse_raw(format!(r#"{{"k": {text}}}"#))
                .expect("valid")
                .as_bytes(),
        )
        .expect("the parser writes valid bytes");
    }
}

/// Objects with the name of a representation that do not have its form.
const INCOMPLETE: &[&str] = &[
    r#"{"$oid": ""}"#,
    r#"{"$oid": 1}"#,
    r#"{"$oid": "00000000000000000000000"}"#,
    r#"{"$oid": "00000000000000000000000g"}"#,
    r#"{"$oid": "0000000000000000000000000"}"#,
    r#"{"$oid": "000000000000000000000000", "x": 1}"#,
    r#"{"x": 1, "$oid": "000000000000000000000000"}"#,
    r#"{"$oid": "000000000000000000000000", "$oid": "000000000000000000000000"}"#,
    r#"{"$numberInt": 1}"#,
    r#"{"$numberInt": "1.0"}"#,
    r#"{"$numberInt": "2147483648"}"#,
    r#"{"$numberInt": "+1"}"#,
    r#"{"$numberInt": ""}"#,
    r#"{"$numberInt": " 1"}"#,
    r#"{"$numberInt": "1", "x": 1}"#,
    r#"{"$numberInt": {"$numberInt": "1"}}"#,
    r#"{"$numberLong": 1}"#,
    r#"{"$numberLong": "9223372036854775808"}"#,
    r#"{"$numberDouble": 1.5}"#,
    r#"{"$numberDouble": "inf"}"#,
    r#"{"$numberDouble": ""}"#,
    r#"{"$numberDecimal": 1}"#,
    r#"{"$numberDecimal": ""}"#,
    r#"{"$numberDecimal": "E1"}"#,
    r#"{"$binary": "YQ=="}"#,
    r#"{"$binary": {"base64": "YQ=="}}"#,
    r#"{"$binary": {"subType": "00"}}"#,
    r#"{"$binary": {"base64": "YQ", "subType": "00"}}"#,
    r#"{"$binary": {"base64": "YQ==", "subType": "000"}}"#,
    r#"{"$binary": {"base64": "YQ==", "subType": ""}}"#,
    r#"{"$binary": {"base64": "YQ==", "subType": "+1"}}"#,
    r#"{"$binary": {"base64": "YQ==", "subType": "é"}}"#,
    r#"{"$binary": {"base64": "YQ==", "subType": 0}}"#,
    r#"{"$binary": {"base64": 1, "subType": "00"}}"#,
    r#"{"$binary": {"base64": "YQ==", "subType": "00", "x": 1}}"#,
    r#"{"$binary": {"base64": "Y-_=", "subType": "00"}}"#,
    r#"{"$binary": "YQ==", "$type": "00"}"#,
    r#"{"$binary": null}"#,
    r#"{"$code": 1}"#,
    r#"{"$code": "a", "x": 1}"#,
    r#"{"$code": "a", "$scope": null}"#,
    r#"{"$code": "a", "$scope": []}"#,
    r#"{"$code": "a", "$scope": {"$oid": ""}}"#,
    r#"{"$code": 1, "$scope": {}}"#,
    r#"{"$code": {"$symbol": "a"}}"#,
    r#"{"$code": "a", "$scope": {}, "x": 1}"#,
    r#"{"$symbol": 1}"#,
    r#"{"$symbol": null}"#,
    r#"{"$timestamp": 1}"#,
    r#"{"$timestamp": {"t": 1}}"#,
    r#"{"$timestamp": {"i": 1}}"#,
    r#"{"$timestamp": {"t": 1, "i": -1}}"#,
    r#"{"$timestamp": {"t": 4294967296, "i": 1}}"#,
    r#"{"$timestamp": {"t": 1.0, "i": 1}}"#,
    r#"{"$timestamp": {"t": "1", "i": 1}}"#,
    r#"{"$timestamp": {"t": {"$numberInt": "1"}, "i": 1}}"#,
    r#"{"$timestamp": {"t": 1, "i": 1, "x": 1}}"#,
    r#"{"$timestamp": {"t": 1, "t": 1}}"#,
    r#"{"$regularExpression": "a"}"#,
    r#"{"$regularExpression": {"pattern": "a"}}"#,
    r#"{"$regularExpression": {"pattern": 1, "options": ""}}"#,
    r#"{"$regularExpression": {"pattern": "a", "options": 0}}"#,
    r#"{"$regularExpression": {"pattern": "a", "options": "", "x": 1}}"#,
    r#"{"$regularExpression": {"pattern": "a", "options": ""}, "x": 1}"#,
    r#"{"$regularExpression": ["a", ""]}"#,
    r#"{"$dbPointer": {"$ref": "a"}}"#,
    r#"{"$dbPointer": {"$ref": "a", "$id": 1}}"#,
    r#"{"$dbPointer": "a"}"#,
    r#"{"$dbPointer": {"$ref": "b", "$id": {"$oid": "000000000000000000000000"}, "x": 1}}"#,
    r#"{"$dbPointer": {"$ref": 1, "$id": {"$oid": "000000000000000000000000"}}}"#,
    r#"{"$date": 1356351330501}"#,
    r#"{"$date": 1}"#,
    r#"{"$date": "now"}"#,
    r#"{"$date": {"$numberInt": "1"}}"#,
    r#"{"$date": {"$numberDouble": "1"}}"#,
    r#"{"$date": {"$numberLong": "1"}, "x": 1}"#,
    r#"{"$date": null}"#,
    r#"{"$date": {}}"#,
    r#"{"$date": {"$date": "1970-01-01T00:00:00Z"}}"#,
    r#"{"$date": {"$numberLong": "1", "x": 1}}"#,
    r#"{"$date": "2014-01-01T00:00:00.000-0500"}"#,
    r#"{"$minKey": 0}"#,
    r#"{"$minKey": "1"}"#,
    r#"{"$minKey": 1.0}"#,
    r#"{"$maxKey": true}"#,
    r#"{"$maxKey": {"$numberInt": "1"}}"#,
    r#"{"$minKey": 1, "x": 1}"#,
    r#"{"$undefined": false}"#,
    r#"{"$undefined": 1}"#,
    r#"{"$undefined": true, "x": 1}"#,
    r#"{"$uuid": 1}"#,
    r#"{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a"}"#,
    r#"{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a30"}"#,
    r#"{"$uuid": "c8ed-abc3f738-4ca3-b68d-ab92a91478a3"}"#,
    r#"{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92-a91478a3"}"#,
    r#"{"$uuid": "{c8edabc3-f738-4ca3-b68d-ab92a91478a3}"}"#,
    r#"{"$uuid": "é8edabc3-f738-4ca3-b68d-ab92a91478a"}"#,
];

// EJSON-8: exactly the names of the representation. EJSON-9: values of the right types.
#[test]
fn incomplete_representations_are_refused() {
    for &text in INCOMPLETE {
        for error in [value(text), parse_value(text)] {
            let error = error.err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(
                matches!(error.kind(), ErrorKind::ExtendedJson { .. }),
                "{error}"
            );
        }
        assert_eq!(
            value(text).expect_err("refused").path().split('.').next(),
            Some("k")
        );
    }
}

// EJSON-7, EJSON-10 and EJSON-11.
#[test]
fn other_objects_are_documents() {
    let at_the_top = r#"{"$oid":"x","$code":{"$numberInt":"5"},"$scope":null}"#;
    let document = parse(at_the_top).expect("the outermost object is a document");
    assert_eq!(
        document,
        doc! { "$oid": "x", "$code": 5, "$scope": Bson::Null }
    );
    for text in [
        r#"{"$ref":"a"}"#,
        r#"{"$id":null}"#,
        r#"{"$id":"a","$ref":"b"}"#,
        r#"{"$ref":true,"$id":"b","$db":null,"$x":"c"}"#,
        r#"{"$unknown":"a"}"#,
        r#"{"$":"a"}"#,
        r#"{"$scope":"a"}"#,
        r#"{"$scope":{"$scope":{}},"a":"b"}"#,
        r#"{"$options":"a"}"#,
        r#"{"$regex":"a","$options":"i"}"#,
        r#"{"$type":"string"}"#,
        r#"{"$oi":"a"}"#,
        r#"{"$oidx":"a"}"#,
        r#"{"$Oid":"a"}"#,
        r#"{"base64":"a","subType":"00"}"#,
        r#"{"":{}}"#,
        r#"{"$regex":{"$regularExpression":{"pattern":"a*","options":""}},"$options":"ix"}"#,
    ] {
        let read = value(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(canonical_value(&read), text);
    }
    let type_operator = value(r#"{"$type": 2}"#).expect("valid");
    assert_eq!(type_operator, Bson::Document(doc! { "$type": 2 }));
}

// EJSON-5.
#[test]
fn old_forms_are_read_if_they_are_switched_on() {
    let binary = |subtype| {
        Bson::Binary(Binary {
            subtype,
            bytes: b"a".to_vec(),
        })
    };
    for (text, expected) in [
        (r#"{"$date": 5}"#, Bson::DateTime(DateTime::from_millis(5))),
        (
            r#"{"$date": 1356351330501}"#,
            Bson::DateTime(DateTime::from_millis(1_356_351_330_501)),
        ),
        (
            r#"{"$date": "1970-01-01T00:00:00.000-0500"}"#,
            Bson::DateTime(DateTime::from_millis(18_000_000)),
        ),
        (
            r#"{"$binary": "YQ==", "$type": "80"}"#,
            binary(BinarySubtype::UserDefined(0x80)),
        ),
        (
            r#"{"$type": "0", "$binary": "YQ=="}"#,
            binary(BinarySubtype::Generic),
        ),
        (
            r#"{"$binary": {"base64": "YQ==", "subType": "00"}}"#,
            binary(BinarySubtype::Generic),
        ),
        (r#"{"$options": "xi", "$regex": "a"}"#, regex("a", "ix")),
        (
            r#"{"$type": "string"}"#,
            Bson::Document(doc! { "$type": "string" }),
        ),
        (r#"{"$type": 2}"#, Bson::Document(doc! { "$type": 2 })),
        (r#"{"$regex": "a"}"#, Bson::Document(doc! { "$regex": "a" })),
        (
            r#"{"$regex": "a", "$options": "i", "x": 1}"#,
            Bson::Document(doc! { "$regex": "a", "$options": "i", "x": 1 }),
        ),
    ] {
        assert_eq!(legacy(text), Ok(expected), "{text}");
    }
    for operator in [
        r#"{"$regex":{"$regularExpression":{"pattern":"foo*","options":""}},"$options":"ix"}"#,
        r#"{"$regex":{"$regularExpression":{"pattern":"foo*","options":""}}}"#,
    ] {
        let read = legacy(operator).expect("a query operator");
        assert_eq!(canonical_value(&read), operator);
    }
    for text in [
        r#"{"$date": 1.5}"#,
        r#"{"$date": {"$numberInt": "5"}}"#,
        r#"{"$date": null}"#,
        r#"{"$binary": "YQ=="}"#,
        r#"{"$binary": "YQ==", "$type": 0}"#,
        r#"{"$binary": "YQ==", "$type": "000"}"#,
        r#"{"$binary": "YQ==", "x": "00"}"#,
        r#"{"$regex": "a\u0000", "$options": ""}"#,
        r#"{"$regex": "a", "$oid": "b"}"#,
    ] {
        assert!(legacy(text).is_err(), "{text}");
    }
}

#[test]
fn malformed_json_is_refused_with_path_and_offset() {
    for (text, path, offset) in [
        ("", "", 0),
        ("  ", "", 2),
        ("[]", "", 0),
        ("1", "", 0),
        ("{", "", 1),
        ("{}x", "", 2),
        ("{,}", "", 1),
        (r#"{"a"}"#, "a", 4),
        (r#"{"a":}"#, "a", 5),
        (r#"{"a":1,}"#, "", 7),
        (r#"{"a":1 "b":2}"#, "", 7),
        (r#"{"a":[1,]}"#, "a.1", 8),
        (r#"{"a":[1 2]}"#, "a", 8),
        (r#"{"a":[1}"#, "a", 7),
        (r#"{"a":tru}"#, "a", 5),
        (r#"{"a":nul"#, "a", 5),
        (r#"{"a":NaN}"#, "a", 5),
        (r#"{"a":'b'}"#, "a", 5),
        (r#"{a:1}"#, "", 1),
        (r#"{"a":[{"b":01}]}"#, "a.0.b", 11),
        (r#"{"a":"b}"#, "a", 8),
        (r#"{"a":1}}"#, "", 7),
        ("\u{feff}{}", "", 0),
        (r#"{"a":1,"b\u0000":1}"#, "", 9),
        ("{\"a\":\u{a0}1}", "a", 5),
        (r#"{"a":[{},{"$oid":1}]}"#, "a.1", 9),
    ] {
        let error = parse(text)
            .err()
            .unwrap_or_else(|| panic!("{text} is accepted"));
        assert_eq!(
            (error.path().as_str(), error.offset()),
            (path, Some(offset)),
            "{text}"
        );
    }
    let error = parse(b"{\"a\":\"\xff\"}").expect_err("it is not UTF-8");
    assert_eq!(error.offset(), Some(6));
}

#[test]
fn a_name_that_occurs_twice_is_kept_in_bytes() {
    let text = r#"{"a":1,"b":2,"a":3}"#;
    let document = parse_raw(text).expect("valid");
    assert_eq!(relaxed(&document), text);
    assert_eq!(parse(text), Ok(doc! { "a": 3, "b": 2 }));
}

#[test]
fn a_single_value_can_have_any_type() {
    assert_eq!(parse_value(" null "), Ok(Bson::Null));
    assert_eq!(parse_value(r#""a""#), Ok(Bson::String("a".to_owned())));
    assert_eq!(parse_value("[1, [2]]"), Ok(bson::bson!([1, [2]])));
    assert_eq!(parse_value(r#"{"a": 1}"#), Ok(bson::bson!({ "a": 1 })));
    for text in ["", "1 2", "{", "[1", "]", r#"{"$oid": "x"}"#] {
        assert_eq!(
            parse_value(text).expect_err("malformed").path(),
            "",
            "{text}"
        );
    }
    let error = parse_value(r#"[1, {"a": x}]"#).expect_err("malformed");
    assert_eq!((error.path().as_str(), error.offset()), ("1.a", Some(10)));
}

// EJSON-6.
#[test]
fn texts_up_to_the_maximum_depth_are_read() {
    let text = canonical(&nested(MAX_DEPTH));
    assert_eq!(parse_raw(&text), Ok(nested(MAX_DEPTH)));
    assert!(parse(&text).is_ok());
    let arrays = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(parse_value(arrays(MAX_DEPTH)).is_ok());
    for levels in [MAX_DEPTH + 1, 2 * MAX_DEPTH + 1, 1_000_000] {
        let error = parse_value(arrays(levels)).expect_err("it is too deep");
        assert_eq!(error.kind(), &ErrorKind::Depth);
        let text = r#"{"$scope":{"a":"#.repeat(levels);
        assert!(parse_value(&text).is_err());
    }
    assert!(parse_value("[".repeat(1_000_000)).is_err());
}

#[test]
fn scopes_that_are_nested_deeply_come_back() {
    let mut text =
        r#"{"$dbPointer":{"$ref":"b","$id":{"$oid":"000000000000000000000000"}}}"#.to_owned();
    for level in 1..MAX_DEPTH {
        text = if level % 2 == 0 {
            format!(r#"{{"$code":"f","$scope":{{"a":{text}}}}}"#)
        } else {
            format!(r#"{{"$scope":{{"a":{text}}},"$code":"f"}}"#)
        };
    }
    let document = parse_raw(format!(r#"{{"a":{text}}}"#)).expect("it is not too deep");
    validate(document.as_bytes()).expect("valid");
    let written = canonical(&document);
    assert_eq!(parse_raw(&written), Ok(document));
    assert_eq!(written.len(), text.len() + r#"{"a":}"#.len());

    let deeper = format!(r#"{{"a":{{"$code":"f","$scope":{{"a":{text}}}}}}}"#);
    assert_eq!(
        parse_raw(deeper).expect_err("too deep").kind(),
        &ErrorKind::Depth
    );
}

#[test]
fn scopes_become_code_with_scope() {
    let read = value(r#"{"$scope": {"x": {"$numberInt": "1"}}, "$code": "f"}"#);
    let expected = JavaScriptCodeWithScope {
        code: "f".to_owned(),
        scope: doc! { "x": 1 },
    };
    assert_eq!(read, Ok(Bson::JavaScriptCodeWithScope(expected)));
}
