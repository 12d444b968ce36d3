//! Fuzzes the bytes of an OCSP responder.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::ocsp(input));
