//! Deviations of the Extended JSON of the `bson` crate, which are the reasons for the own writer
//! and parser. Each test fails when its deviation is gone.

use super::*;
use bson::{DateTime, doc};
use serde_json::{Value, json};

const HINT: &str = "the crate bson follows the specification here now: when no test of this file \
                    passes, its Extended JSON can replace the writer and the parser of this crate";

/// Reads a value with the `bson` crate.
fn read(text: Value) -> std::result::Result<Bson, String> {
    Bson::try_from(text).map_err(|error| error.to_string())
}

#[test]
fn upstream_subnormal_doubles_are_numbers_in_the_canonical_format() {
    let written = Bson::Double(5e-324).into_canonical_extjson();
    assert!(written.get("$numberDouble").is_none(), "{HINT}");
}

#[test]
fn upstream_nan_has_a_sign() {
    let written = Bson::Double(-f64::NAN).into_canonical_extjson();
    assert_eq!(written, json!({ "$numberDouble": "-NaN" }), "{HINT}");
}

#[test]
fn upstream_milliseconds_have_less_than_three_decimals() {
    let written = Bson::DateTime(DateTime::from_millis(500)).into_relaxed_extjson();
    assert_eq!(
        written,
        json!({ "$date": "1970-01-01T00:00:00.5Z" }),
        "{HINT}"
    );
}

#[test]
fn upstream_binary_subtypes_need_two_digits() {
    let text = json!({ "$binary": { "base64": "", "subType": "0" } });
    assert!(read(text).is_err(), "{HINT}");
}

#[test]
fn upstream_null_is_a_scope() {
    let text = json!({ "$code": "", "$scope": null });
    assert!(read(text).is_ok(), "{HINT}");
}

#[test]
fn upstream_numbers_are_dates() {
    assert!(read(json!({ "$date": 5 })).is_ok(), "{HINT}");
}

#[test]
fn upstream_numbers_are_the_parts_of_decimals_without_digits() {
    assert!(read(json!({ "$numberDecimal": "e1" })).is_ok(), "{HINT}");
}

#[test]
fn upstream_nesting_is_limited_to_128_levels() {
    let text = canonical(&nested(crate::MAX_DEPTH));
    assert!(
        serde_json::from_str::<Value>(&text).is_err(),
        "serde_json reads {} levels now: {HINT}",
        crate::MAX_DEPTH,
    );
}

#[test]
fn upstream_options_of_regular_expressions_are_not_sorted() {
    let bytes = doc! { "r": regex("a", "xi") }
        .to_vec()
        .expect("it can be encoded");
    assert!(
        bytes.windows(3).any(|part| part == b"xi\0"),
        "the crate bson sorts options when it encodes now: the writer need not sort them",
    );
}
