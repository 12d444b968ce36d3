//! Fuzzes a text as Extended JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::extended_json(input));
