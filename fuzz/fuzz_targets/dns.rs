//! Fuzzes the replies of name servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::dns(input));
