//! Fuzzes the elements of a document, and compares with the crate `bson`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::bson(input));
