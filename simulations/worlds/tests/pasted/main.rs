//! The code of drawn values, pasted into a test.

#![cfg(feature = "strategies")]

mod drawn;

use drawn::{Values, values};
use onionskin_worlds::strategies::*;

/// Compiles `values.in`, which the test in `printed.rs` compares with what is printed.
#[test]
fn pasted_code_is_the_value_that_printed_it() {
    let pasted: Values = include!("values.in");
    let drawn = values();
    let [pasted_lines, drawn_lines] = [&pasted, &drawn].map(|values| format!("{values:#?}"));
    for (number, (pasted, drawn)) in pasted_lines.lines().zip(drawn_lines.lines()).enumerate() {
        assert_eq!(pasted, drawn, "line {number}");
    }
    assert_eq!(pasted_lines.len(), drawn_lines.len());
    assert_eq!(pasted.code(), drawn.code());
}
