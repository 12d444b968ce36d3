//! Fuzzes the reply of a server to `hello` and its processing by server discovery.

#![no_main]

libfuzzer_sys::fuzz_target!(|fields: &[u8]| onionskin_tests::fuzzing::hello(fields));
