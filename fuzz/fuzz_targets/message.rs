//! Fuzzes a message of a server, as the reply to `hello` and to operations.

#![no_main]

libfuzzer_sys::fuzz_target!(|rest: &[u8]| onionskin_tests::fuzzing::message(rest));
