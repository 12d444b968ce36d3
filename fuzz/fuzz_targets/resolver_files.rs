//! Fuzzes the files with the configuration of the resolver: `resolv.conf` and the hosts file.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onionskin_tests::fuzzing::resolver_files(input));
