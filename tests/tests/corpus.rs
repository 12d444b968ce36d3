//! Runs the fuzz targets on the inputs in `fuzz/corpus`, among them inputs with which fuzzing once
//! found an error.

use onionskin_tests::fuzzing;
use std::{fs, path::Path};

fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let folder = folder.join(target);
    let entries = fs::read_dir(&folder).expect("the corpus is there");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "a corpus of {} files", files.len());
    for file in files {
        check(&fs::read(&file).expect("a file"));
    }
}

#[test]
fn hello() {
    run("hello", fuzzing::hello);
}

#[test]
fn message() {
    run("message", fuzzing::message);
}

#[test]
fn compressed() {
    run("compressed", fuzzing::compressed);
}

#[test]
fn bson() {
    run("bson", fuzzing::bson);
}

#[test]
fn extended_json() {
    run("extended_json", fuzzing::extended_json);
}

#[test]
fn socks5() {
    run("socks5", fuzzing::socks5);
}

#[test]
fn http() {
    run("http", fuzzing::http);
}

#[test]
fn ocsp() {
    run("ocsp", fuzzing::ocsp);
}

#[test]
fn dns() {
    run("dns", fuzzing::dns);
}

#[test]
fn resolver_files() {
    run("resolver_files", fuzzing::resolver_files);
}

#[test]
fn connection_string() {
    run("connection_string", fuzzing::connection_string);
}
