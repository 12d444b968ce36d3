//! Assertions about the conversion of documents, for all bytes and texts.

use bson::{Bson, Document, RawBson, RawDocumentBuf};
use onionskin_bson::{
    deserialize_from_slice, document_from_slice,
    extjson::{self, Mode},
    serialize_to_vec, validate,
    vector::VectorRef,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, fmt::Debug, panic::catch_unwind};

/// A type with a field of each common type. Its fields have the names that the corpus uses.
#[derive(Debug, Deserialize, Serialize)]
struct Typed {
    a: Option<i64>,
    b: Option<String>,
    c: Option<Box<Self>>,
    d: Option<Vec<f64>>,
    e: Option<bson::DateTime>,
    f: Option<bson::oid::ObjectId>,
    g: Option<Choice>,
    #[serde(flatten)]
    rest: BTreeMap<String, Bson>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Choice {
    Number(i32),
    Text(String),
    Binary(bson::Binary),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

/// Decodes a document with the elements `fields`, and compares the results with those of the crate
/// `bson`.
pub fn bson(fields: &[u8]) {
    let Ok(length) = i32::try_from(fields.len() + 5) else {
        return;
    };
    let bytes = [&length.to_le_bytes()[..], fields, &[0]].concat();
    let tree = document_from_slice(&bytes);
    assert_eq!(tree.is_ok(), validate(&bytes).is_ok(), "{tree:?}");
    compare::<Bson>(&bytes, tree.is_ok());
    compare::<RawBson>(&bytes, tree.is_ok());
    compare::<Typed>(&bytes, tree.is_ok());
    compare::<BTreeMap<String, Choice>>(&bytes, tree.is_ok());
    compare::<BTreeMap<String, bson::Utf8Lossy<RawBson>>>(&bytes, tree.is_ok());
    // A log shows bytes that are not BSON, too.
    let raw = RawDocumentBuf::from_bytes(bytes.clone()).expect("its frame is right");
    let shown = extjson::to_string_lossy(&raw, Mode::Relaxed, 100);
    assert!(shown.len() <= 103, "{shown}");
    let text = extjson::to_string(&raw, Mode::Canonical);
    let Ok(tree) = tree else {
        return;
    };
    let encoded = serialize_to_vec(&tree).expect("it was decoded");
    assert_eq!(
        document_from_slice(&encoded).map(shown_document),
        Ok(shown_document(tree))
    );
    let text = text.expect("it is BSON");
    // A document with names of Extended JSON can be taken for another value, or for none.
    if !bytes.contains(&b'$') {
        let parsed = extjson::parse_raw(&text).expect("it was written");
        let again = extjson::to_string(&parsed, Mode::Canonical);
        assert_eq!(again.as_ref(), Ok(&text));
    }
    for value in raw.iter().flatten() {
        if let Some(binary) = value.1.as_binary() {
            let ours = VectorRef::try_from(binary).is_ok();
            let theirs = bson::binary::Vector::from_bytes(binary.bytes).is_ok();
            let is_vector = u8::from(binary.subtype) == 9;
            assert_eq!(ours, is_vector && theirs);
        }
    }
}

fn shown_document(document: Document) -> String {
    format!("{document:?}")
}

/// Compares the deserializers. For bytes that are not BSON, only one may succeed.
fn compare<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8], is_bson: bool) {
    let ours = deserialize_from_slice::<T>(bytes);
    let Ok(theirs) = catch_unwind(|| bson::deserialize_from_slice::<T>(bytes)) else {
        assert!(!is_bson, "the crate panics only for malformed bytes");
        return;
    };
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            if let Ok(bytes) = bson::serialize_to_vec(&theirs) {
                assert_eq!(serialize_to_vec(&ours), Ok(bytes));
            }
        }
        (Err(error), Ok(theirs)) => assert!(!is_bson, "{error}, but {theirs:?}"),
        (Ok(ours), Err(error)) => assert!(!is_bson, "{ours:?}, but {error}"),
        (Err(error), Err(_)) => assert!(!error.to_string().is_empty()),
    }
}

/// Parses a text as Extended JSON. What was parsed is written and parsed again.
pub fn extended_json(text: &[u8]) {
    let _ = extjson::ParseOptions::default()
        .legacy(true)
        .parse_raw(text);
    let _ = extjson::parse_value(text);
    let Ok(parsed) = extjson::parse_raw(text) else {
        return;
    };
    validate(parsed.as_bytes()).expect("the parser writes BSON");
    let written = extjson::to_string(&parsed, Mode::Canonical).expect("it is BSON");
    let again = extjson::parse_raw(&written).expect("it was written");
    assert_eq!(extjson::to_string(&again, Mode::Canonical), Ok(written));
    let relaxed = extjson::to_string(&parsed, Mode::Relaxed).expect("it is BSON");
    extjson::parse_raw(relaxed).expect("it was written");
}
