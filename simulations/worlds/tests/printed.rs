//! The checked-in code of drawn values is that which is printed now.
//!
//! This target does not compile the code, so that it can print code anew that does not compile.

#![cfg(feature = "strategies")]

#[path = "pasted/drawn.rs"]
mod drawn;

use std::{env, fs};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pasted/values.in");

/// With `ONIONSKIN_WRITE=1`, writes the file before comparing it.
#[test]
fn the_file_has_the_code_that_is_printed() {
    let code = drawn::values().code();
    if env::var_os("ONIONSKIN_WRITE").is_some() {
        fs::write(FILE, &code).expect("the file can be written");
    }
    let written = fs::read_to_string(FILE).expect("there is a file");
    let advice = "write it anew: ONIONSKIN_WRITE=1 cargo test -p onionskin-worlds \
                  --features strategies --test printed";
    for (number, (written, line)) in (1..).zip(written.lines().zip(code.lines())) {
        assert_eq!(written, line, "{FILE}:{number}: {advice}");
    }
    assert_eq!(written.len(), code.len(), "{advice}");
}
