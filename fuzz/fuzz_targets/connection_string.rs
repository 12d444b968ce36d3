//! Fuzzes the parser of connection strings, and their changes and printing.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| onionskin_tests::fuzzing::connection_string(text));
