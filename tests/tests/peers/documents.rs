//! Compares the conversion of documents with that of PyMongo and of the npm package `bson`.

use bson::Document;
use onionskin_bson::{
    deserialize_from_slice, document_from_slice,
    extjson::{self, Mode},
    serialize_to_vec,
};
use onionskin_tests::{
    documents::random_documents,
    peers::{self, Scratch},
};
use std::{fs, path::Path, process::Command, time::Duration};

/// The number of random documents for each library.
const DOCUMENTS: usize = 2000;

const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// Splits documents that are stored one after the other.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let (one, rest) = bytes.split_at(i32::from_le_bytes(*length) as usize);
        all.push(one);
        bytes = rest;
    }
    all
}

/// Lets a library convert random documents, and compares the results with ours.
fn compare(seed: u8, library: impl FnOnce(&Path, &Path) -> Command) {
    let documents = random_documents(seed, DOCUMENTS);
    let encoded: Vec<Vec<u8>> = documents
        .iter()
        .map(|document| serialize_to_vec(document).expect("it can be encoded"))
        .collect();
    let texts: Vec<String> = documents
        .iter()
        .map(|document| extjson::document_to_string(document, Mode::Canonical).expect("it is BSON"))
        .collect();
    let scratch = Scratch::new().expect("a folder");
    let (input, json) = (
        scratch.path().join("input"),
        scratch.path().join("ours.json"),
    );
    fs::write(&input, encoded.concat()).expect("a file");
    fs::write(&json, texts.join("\n") + "\n").expect("a file");
    let output = peers::run(library(&input, &json), RUN_TIMEOUT).expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.contains(&DOCUMENTS.to_string()), "{output:?}");
    assert!(!output.stdout.contains("no C extension"), "{output:?}");

    let read = |name: &str| fs::read(scratch.path().join(name)).expect("it was written");
    let (theirs, parsed) = (read("input.bson"), read("input.parsed"));
    let (theirs, parsed) = (split(&theirs), split(&parsed));
    assert_eq!((theirs.len(), parsed.len()), (DOCUMENTS, DOCUMENTS));
    let lines = String::from_utf8(read("input.json")).expect("it is text");
    let lines: Vec<&str> = lines.split_terminator('\n').collect();
    for (place, (ours, document)) in encoded.iter().zip(&documents).enumerate() {
        assert_eq!(theirs[place], ours, "{document:?}");
        assert_eq!(parsed[place], ours, "{}", texts[place]);
        let from_text = extjson::parse_raw(lines[place]).expect("it is Extended JSON");
        assert_eq!(from_text.as_bytes(), ours, "{}", lines[place]);
        let by_serde: Document = deserialize_from_slice(theirs[place]).expect("it is BSON");
        let tree = document_from_slice(theirs[place]).expect("it is BSON");
        assert_eq!(serialize_to_vec(&by_serde).as_ref(), Ok(ours));
        assert_eq!(serialize_to_vec(&tree).as_ref(), Ok(ours));
    }
}

#[test]
fn pymongo_converts_documents_alike() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pymongo/documents.py");
    for seed in 1..=3 {
        compare(seed, |input, json| {
            let mut command = Command::new(&interpreter);
            command.arg(script).arg(input).arg(json);
            command
        });
    }
}

#[test]
fn node_converts_documents_alike() {
    let Some(driver) = peers::node_driver_script() else {
        return;
    };
    let script = driver.with_file_name("documents.js");
    for seed in 4..=6 {
        compare(seed, |input, json| {
            let mut command = Command::new("node");
            command.arg(&script).arg(input).arg(json);
            command
        });
    }
}
