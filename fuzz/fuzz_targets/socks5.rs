//! Fuzzes the bytes of a SOCKS5 proxy.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::socks5(input));
