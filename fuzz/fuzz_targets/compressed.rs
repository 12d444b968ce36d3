//! Fuzzes a compressed message of a server.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::compressed(input));
