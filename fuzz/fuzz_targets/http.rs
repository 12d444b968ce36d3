//! Fuzzes the bytes of an HTTP service.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::http(input));
