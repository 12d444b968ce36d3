//! The official tests `bson-corpus`: bytes, Extended JSON and the strings of Decimal128.

use crate::{
    report::{Skip, Suite},
    specifications,
};
use bson::{Document, RawDocument, RawDocumentBuf, oid::ObjectId};
use onionskin_bson::{
    deserialize_from_slice, document_from_slice,
    extjson::{self, Mode},
    parse_decimal128, serialize_to_insert, serialize_to_vec, validate,
};
use serde_json::Value;
use std::fmt::Display;

const PATH: &str = "bson-corpus/tests";

/// The type of files whose parse errors are strings of Decimal128.
const DECIMAL128: &str = "0x13";

/// The files of the corpus, without their ending. The report names those that the tree lacks.
const FILES: [&str; 31] = [
    "array",
    "binary",
    "boolean",
    "code",
    "code_w_scope",
    "datetime",
    "dbpointer",
    "dbref",
    "decimal128-1",
    "decimal128-2",
    "decimal128-3",
    "decimal128-4",
    "decimal128-5",
    "decimal128-6",
    "decimal128-7",
    "document",
    "double",
    "int32",
    "int64",
    "maxkey",
    "minkey",
    "multi-type",
    "multi-type-deprecated",
    "null",
    "oid",
    "regex",
    "string",
    "symbol",
    "timestamp",
    "top",
    "undefined",
];

/// The cases that cannot pass.
const SKIPS: &[Skip] = &[];

#[test]
fn valid() {
    run("bson-corpus, valid", "valid", |_, case| valid_case(case));
}

#[test]
fn decode_errors() {
    run("bson-corpus, decode errors", "decodeErrors", |_, case| {
        decode_error(case)
    });
}

#[test]
fn parse_errors() {
    run("bson-corpus, parse errors", "parseErrors", parse_error);
}

/// Runs the cases of one kind in all files.
fn run(name: &'static str, kind: &str, check: fn(&Value, &Value) -> Result<(), String>) {
    let Some(files) = specifications::files(PATH) else {
        return;
    };
    let mut suite = Suite::new(name, SKIPS);
    for file in &files {
        let content = match &file.content {
            Ok(content) => content,
            Err(reason) => {
                suite.unreadable(&file.name, reason);
                continue;
            }
        };
        let cases = content.get(kind).and_then(Value::as_array);
        for case in cases.into_iter().flatten() {
            let description = case["description"].as_str().unwrap_or_default();
            suite.case(&file.name, description, || check(content, case));
        }
    }
    for name in FILES {
        let name = format!("{name}.json");
        if !files.iter().any(|file| file.name == name) {
            suite.not_attempted(format!("{name}, which the tree does not have"));
        }
    }
    suite.finish();
}

/// Checks all conversions of a valid case (BSON-19). For Decimal128, they include the bytes (DEC-1)
/// and the string (DEC-10 to DEC-12).
fn valid_case(case: &Value) -> Result<(), String> {
    const KNOWN: [&str; 9] = [
        "description",
        "canonical_bson",
        "canonical_extjson",
        "relaxed_extjson",
        "degenerate_bson",
        "degenerate_extjson",
        "converted_bson",
        "converted_extjson",
        "lossy",
    ];
    let fields = case.as_object().ok_or("the case is not an object")?;
    if let Some(unknown) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("the field `{unknown}` is unknown"));
    }
    let field = |name: &str| case.get(name).and_then(Value::as_str);
    let bytes = hex(field("canonical_bson").ok_or("there are no bytes")?)?;
    let canonical = field("canonical_extjson").ok_or("there is no text")?;
    let relaxed = field("relaxed_extjson");
    let is_lossy = case["lossy"] == true;

    check_bytes(&bytes, &bytes, canonical, relaxed)?;
    let expected = (!is_lossy).then_some(&bytes[..]);
    check_text(canonical, expected, canonical)?;
    if let Some(degenerate) = field("degenerate_bson") {
        check_bytes(&hex(degenerate)?, &bytes, canonical, relaxed)?;
    }
    if let Some(degenerate) = field("degenerate_extjson") {
        check_text(degenerate, expected, canonical)?;
    }
    if let Some(relaxed) = relaxed {
        let document = extjson::parse_raw(relaxed).map_err(text_of)?;
        let written = extjson::to_string(&document, Mode::Relaxed).map_err(text_of)?;
        same_json("the relaxed text of the relaxed text", &written, relaxed)?;
    }
    // Deprecated types are not converted (BSON-15), so that the form to which other libraries
    // convert them is a case of its own.
    match (field("converted_bson"), field("converted_extjson")) {
        (Some(converted), Some(text)) => {
            let converted = hex(converted)?;
            check_bytes(&converted, &converted, text, None)?;
            check_text(text, Some(&converted), text)
        }
        (None, None) => Ok(()),
        _ => Err("one converted form is missing".to_owned()),
    }
}

/// Checks what is made from bytes: the same bytes, and both formats of Extended JSON.
fn check_bytes(
    bytes: &[u8],
    expected: &[u8],
    canonical: &str,
    relaxed: Option<&str>,
) -> Result<(), String> {
    validate(bytes).map_err(text_of)?;
    let raw = RawDocument::from_bytes(bytes).map_err(text_of)?;
    let document = document_from_slice(bytes).map_err(text_of)?;
    let written = serialize_to_vec(&document).map_err(text_of)?;
    same_bytes("the bytes of the document", &written, expected)?;
    let by_serde: Document = deserialize_from_slice(bytes).map_err(text_of)?;
    let written = serialize_to_vec(&by_serde).map_err(text_of)?;
    same_bytes("the bytes of the document by serde", &written, expected)?;
    for (mode, expected) in [(Mode::Canonical, Some(canonical)), (Mode::Relaxed, relaxed)] {
        let Some(expected) = expected else {
            continue;
        };
        let text = extjson::to_string(raw, mode).map_err(text_of)?;
        same_json("the text of the bytes", &text, expected)?;
        let text = extjson::document_to_string(&document, mode).map_err(text_of)?;
        same_json("the text of the document", &text, expected)?;
        let text = extjson::to_string_lossy(raw, mode, usize::MAX);
        same_json("the lossy text of the bytes", &text, expected)?;
    }
    Ok(())
}

/// Checks what is made from a text: bytes, unless the text loses a part of the value, and the
/// canonical format.
fn check_text(text: &str, bytes: Option<&[u8]>, canonical: &str) -> Result<(), String> {
    let raw = extjson::parse_raw(text).map_err(text_of)?;
    validate(raw.as_bytes()).map_err(text_of)?;
    let document = extjson::parse(text).map_err(text_of)?;
    if let Some(bytes) = bytes {
        same_bytes("the bytes of the text", raw.as_bytes(), bytes)?;
        let written = serialize_to_vec(&document).map_err(text_of)?;
        same_bytes("the bytes of the document", &written, bytes)?;
    }
    let written = extjson::to_string(&raw, Mode::Canonical).map_err(text_of)?;
    same_json("the canonical text of the text", &written, canonical)
}

/// Checks that malformed bytes are refused (BSON-20).
fn decode_error(case: &Value) -> Result<(), String> {
    let bytes = hex(case["bson"].as_str().ok_or("there are no bytes")?)?;
    if validate(&bytes).is_ok() {
        return Err("the bytes are valid".to_owned());
    }
    if document_from_slice(&bytes).is_ok() {
        return Err("the bytes can be decoded".to_owned());
    }
    if deserialize_from_slice::<Document>(&bytes).is_ok() {
        return Err("the bytes can be decoded by serde".to_owned());
    }
    match RawDocument::from_bytes(&bytes) {
        Ok(raw) if extjson::to_string(raw, Mode::Canonical).is_ok() => {
            Err("the bytes can be written as Extended JSON".to_owned())
        }
        _ => Ok(()),
    }
}

/// Checks that a text that is not Extended JSON, or not a Decimal128 number, is refused (BSON-21).
fn parse_error(file: &Value, case: &Value) -> Result<(), String> {
    let text = case["string"].as_str().ok_or("there is no text")?;
    if file["bson_type"] != DECIMAL128 {
        return match extjson::parse(text) {
            Ok(document) => Err(format!("the text is {document}")),
            Err(_) => Ok(()),
        };
    }
    let wrapped = serde_json::json!({ "d": { "$numberDecimal": text } }).to_string();
    match (parse_decimal128(text), extjson::parse(wrapped)) {
        (Err(_), Err(_)) => Ok(()),
        (number, document) => Err(format!("the text is {number:?}, {document:?}")),
    }
}

fn same_bytes(what: &str, actual: &[u8], expected: &[u8]) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{what}: {actual:02x?} instead of {expected:02x?}"))
}

/// Compares two JSON texts. The order of names and the form of numbers do not matter.
fn same_json(what: &str, actual: &str, expected: &str) -> Result<(), String> {
    let parsed = |text: &str| -> Result<Value, String> {
        let mut value = serde_json::from_str(text).map_err(text_of)?;
        normalize(&mut value);
        Ok(value)
    };
    if parsed(actual)? == parsed(expected)? {
        return Ok(());
    }
    Err(format!("{what}: {actual} instead of {expected}"))
}

/// Gives the text of each `$numberDouble` the same form.
fn normalize(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(normalize),
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("$numberDouble")
                && let Ok(number) = text.parse::<f64>()
            {
                *text = format!("{number:?}");
            }
            fields.values_mut().for_each(normalize);
        }
        _ => {}
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let pairs = (0..text.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
    let bytes: Option<_> = bytes.collect();
    bytes.ok_or_else(|| "the bytes are not in hexadecimal".to_owned())
}

fn text_of(error: impl Display) -> String {
    error.to_string()
}

// BSON-P1, "Prohibit null bytes in null-terminated strings when encoding BSON".
#[test]
fn null_bytes_in_names_and_regular_expressions_are_refused() {
    for document in [
        bson::doc! { "a\0b": "c" },
        bson::doc! { "a": { "b\0c": "d" } },
    ] {
        let error = serialize_to_vec(&document).expect_err("a name has a null byte");
        assert!(error.to_string().contains("null"), "{error}");
        let id = || ObjectId::from_bytes([0; 12]);
        assert!(serialize_to_insert(&document, &mut Vec::new(), 1000, id).is_err());
        assert!(extjson::document_to_string(&document, Mode::Canonical).is_err());
    }
    // The fields of a regular expression have a type without null bytes.
    assert!(bson::raw::CString::try_from("a\0b").is_err());
    for text in [
        r#"{"a\u0000b": 1}"#,
        r#"{"a": {"b\u0000c": 1}}"#,
        r#"{"a": [{"b\u0000": 1}]}"#,
        r#"{"a": {"$regularExpression": {"pattern": "b\u0000", "options": ""}}}"#,
        r#"{"a": {"$regularExpression": {"pattern": "b", "options": "i\u0000"}}}"#,
    ] {
        let error = extjson::parse_raw(text).expect_err("it contains a null character");
        assert!(error.to_string().contains("null character"), "{error}");
    }
    let string: RawDocumentBuf = extjson::parse_raw(r#"{"a": "b\u0000c"}"#).expect("valid");
    assert_eq!(string.get_str("a").expect("a string"), "b\0c");
}
