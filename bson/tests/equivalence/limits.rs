//! Limits: depth, size, and the cost of hostile documents.

use bson::{
    Bson, Document, RawBson, RawDocument, RawDocumentBuf, RawJavaScriptCodeWithScope, doc, rawdoc,
};
use onionskin_bson::{
    DbRef, Error, ErrorKind, MAX_DEPTH, deserialize_from_slice, deserialize_owned,
    extjson::{self, Mode},
    serialize_to_vec,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize, Serialize)]
struct Deep {
    #[serde(default)]
    a: Option<Box<Self>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Tree {
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
    Leaf(Option<i32>),
}

/// Returns a document of this number of levels, of which each has one element of this type.
fn nested(levels: usize, kind: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for level in 0..levels {
        let length = i32::try_from(5 + 8 * (levels - 1 - level)).expect("small");
        bytes.extend_from_slice(&length.to_le_bytes());
        if level + 1 < levels {
            bytes.extend_from_slice(&[kind, b'a', 0]);
        }
    }
    bytes.resize(bytes.len() + levels, 0);
    bytes
}

fn is_too_deep<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| *error.kind() == ErrorKind::Depth)
}

#[test]
fn documents_that_are_nested_too_deeply_are_refused() {
    for kind in [3, 4] {
        let deepest = nested(MAX_DEPTH, kind);
        assert!(deserialize_from_slice::<Bson>(&deepest).is_ok());
        assert!(deserialize_owned::<Document>(&deepest).is_ok());
        for levels in [MAX_DEPTH + 1, 1000, 100_000] {
            let bytes = nested(levels, kind);
            assert!(is_too_deep(deserialize_from_slice::<Bson>(&bytes)));
            assert!(is_too_deep(deserialize_from_slice::<Document>(&bytes)));
            assert!(is_too_deep(deserialize_owned::<Document>(&bytes)));
            assert!(is_too_deep(
                deserialize_from_slice::<BTreeMap<String, Tree>>(&bytes)
            ));
            assert!(is_too_deep(deserialize_from_slice::<serde_json::Value>(
                &bytes
            )));
            // Bytes that are only copied or skipped are not walked.
            assert!(deserialize_from_slice::<IgnoredAny>(&bytes).is_ok());
            assert!(deserialize_owned::<RawDocumentBuf>(&bytes).is_ok());
        }
    }
    assert!(is_too_deep(deserialize_from_slice::<Deep>(&nested(
        1000, 3
    ))));
}

#[test]
fn values_that_are_nested_too_deeply_are_refused() {
    let deep = |levels: usize| {
        let mut deep = Deep { a: None };
        for _ in 1..levels {
            deep = Deep {
                a: Some(deep.into()),
            };
        }
        deep
    };
    let deepest = serialize_to_vec(&deep(MAX_DEPTH)).expect("it is not too deep");
    assert!(deserialize_from_slice::<Deep>(&deepest).is_ok());
    assert!(is_too_deep(serialize_to_vec(&deep(MAX_DEPTH + 1))));
    let mut scope = doc! {};
    for _ in 0..1000 {
        let code = bson::JavaScriptCodeWithScope {
            code: String::new(),
            scope,
        };
        scope = doc! { "c": code };
    }
    assert!(is_too_deep(serialize_to_vec(&scope)));
}

// A scope is the only value besides documents and arrays that contains others.
#[test]
fn references_with_values_that_are_nested_too_deeply_are_refused() {
    let deep = |levels: usize| {
        let bytes = nested(levels, 3);
        RawDocumentBuf::from_bytes(bytes).expect("BSON")
    };
    let in_scope = |scope: RawDocumentBuf| {
        let code = String::new();
        RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope { code, scope })
    };
    for levels in [MAX_DEPTH + 1, 100_000] {
        for id in [RawBson::Document(deep(levels)), in_scope(deep(levels))] {
            let reference = rawdoc! { "$ref": "coll0", "$id": id };
            let raw: &RawDocument = &reference;
            assert!(is_too_deep(DbRef::try_from(raw)));
            // serde keeps only the text of an error.
            let error = deserialize_from_slice::<DbRef>(reference.as_bytes());
            let text = error.expect_err("it is too deep").to_string();
            assert!(text.contains("nested deeper than 200 levels"), "{text}");
        }
    }
}

/// Returns a code with this number of scopes in each other.
fn scopes(count: usize) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for _ in 0..count {
        let (code, scope) = (String::new(), document);
        let value = RawJavaScriptCodeWithScope { code, scope };
        document = rawdoc! { "a": RawBson::JavaScriptCodeWithScope(value) };
    }
    document
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "decoding alone is tested")]
struct Flat {
    #[serde(flatten)]
    all: BTreeMap<String, Bson>,
}

/// A test has a stack of 2 MiB, like the threads of most programs.
#[test]
fn scopes_count_as_two_levels_so_that_the_stack_suffices() {
    let deepest = scopes(MAX_DEPTH / 2 - 1);
    let bytes = deepest.as_bytes();
    assert!(deserialize_from_slice::<Bson>(bytes).is_ok());
    assert!(deserialize_from_slice::<Document>(bytes).is_ok());
    assert!(deserialize_from_slice::<Flat>(bytes).is_ok());
    assert!(deserialize_from_slice::<BTreeMap<String, Bson>>(bytes).is_ok());
    assert!(deserialize_from_slice::<bson::Utf8Lossy<Bson>>(bytes).is_ok());
    let tree = deserialize_owned::<Document>(bytes).expect("BSON");
    assert_eq!(serialize_to_vec(&tree).as_deref(), Ok(bytes));

    for count in [MAX_DEPTH / 2, MAX_DEPTH - 1, 2000] {
        let deep = scopes(count);
        assert!(is_too_deep(deserialize_from_slice::<Bson>(deep.as_bytes())));
        let flat = deserialize_from_slice::<Flat>(deep.as_bytes());
        assert!(flat.is_err());
    }
    // Trees have a route without serde, which needs less.
    let deepest = scopes(MAX_DEPTH - 1);
    assert!(deserialize_owned::<Document>(deepest.as_bytes()).is_ok());
    assert!(is_too_deep(deserialize_owned::<Document>(
        scopes(MAX_DEPTH).as_bytes()
    )));
}

#[test]
fn trees_that_are_nested_too_deeply_have_no_extended_json() {
    let mut tree = doc! {};
    for _ in 0..1000 {
        tree = doc! { "a": tree };
    }
    for mode in [Mode::Canonical, Mode::Relaxed] {
        assert!(is_too_deep(extjson::document_to_string(&tree, mode)));
        assert!(is_too_deep(extjson::bson_to_string(
            &Bson::Document(tree.clone()),
            mode
        )));
    }
}

#[test]
fn errors_of_booleans_and_missing_fields_have_an_offset() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "it cannot be decoded")]
    struct Boolean {
        a: bool,
    }

    let mut bytes = doc! { "a": true }.to_vec().expect("BSON");
    bytes[7] = 2;
    for error in [
        deserialize_from_slice::<Boolean>(&bytes).expect_err("no boolean"),
        deserialize_from_slice::<BTreeMap<String, Bson>>(&bytes).expect_err("no boolean"),
        deserialize_owned::<Document>(&bytes).expect_err("no boolean"),
    ] {
        assert_eq!((error.path().as_str(), error.offset()), ("a", Some(7)));
    }
    let empty = doc! {}.to_vec().expect("BSON");
    let error = deserialize_from_slice::<Boolean>(&empty).expect_err("no field");
    assert_eq!(
        error.to_string(),
        "missing field `a`; make it an Option or add #[serde(default)], which an Option with \
         `deserialize_with` needs too"
    );
}

#[test]
fn names_of_a_peer_are_escaped_in_messages() {
    let bytes = doc! { "x\n\u{1b}[31m": "text" }.to_vec().expect("BSON");
    let error = deserialize_from_slice::<BTreeMap<String, i32>>(&bytes).expect_err("a text");
    assert!(!error.to_string().contains(['\n', '\u{1b}']));
    assert!(error.to_string().contains(r"x\n\u{1b}[31m"), "{error}");
}

#[test]
fn a_second_value_is_an_error() {
    let bytes = doc! {}.to_vec().expect("BSON");
    let mut deserializer = onionskin_bson::Deserializer::new(&bytes).expect("BSON");
    assert!(Document::deserialize(&mut deserializer).is_ok());
    let error = Document::deserialize(&mut deserializer).expect_err("there is one value");
    assert_eq!(error.to_string(), "there is no further value");
}

#[test]
fn an_error_names_the_field_and_the_offset() {
    let bytes = doc! { "a": { "b": [1, { "c": "text" }] } }
        .to_vec()
        .expect("BSON");
    type B = BTreeMap<String, Vec<Tree2>>;

    #[derive(Debug, Deserialize)]
    struct Tree2 {
        #[allow(dead_code, reason = "it is not read")]
        c: i32,
    }

    let error = deserialize_from_slice::<BTreeMap<String, B>>(&bytes).expect_err("no structs");
    assert_eq!(error.path(), "a.b.0");
    let offset = error.offset().expect("it is known");
    assert_eq!(bytes[offset..offset + 4], 1_i32.to_le_bytes());
    let mut broken = bytes.clone();
    let at = bytes.len() - 9;
    broken[at] = 0xff;
    let error = deserialize_owned::<Document>(&broken).expect_err("not UTF-8");
    assert!(
        matches!(error.kind(), ErrorKind::Malformed { .. }),
        "{error}"
    );
    assert_eq!(
        (error.path().as_str(), error.offset()),
        ("a.b.1.c", Some(at)),
        "{error}"
    );
}

#[test]
fn trailing_and_missing_bytes_are_refused() {
    let bytes = doc! { "a": 1 }.to_vec().expect("BSON");
    let longer = [&bytes[..], &[0]].concat();
    for wrong in [
        &bytes[..bytes.len() - 1],
        &longer,
        &[],
        &[5, 0, 0, 0],
        &[4, 0, 0, 0],
    ] {
        assert!(deserialize_from_slice::<IgnoredAny>(wrong).is_err());
        assert!(deserialize_owned::<Document>(wrong).is_err());
        assert!(deserialize_owned::<RawDocumentBuf>(wrong).is_err());
    }
}
