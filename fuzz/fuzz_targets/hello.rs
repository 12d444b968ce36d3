//! A server's reply to `hello`, and what discovery makes of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|fields: &[u8]| onionskin_tests::fuzzing::hello(fields));
