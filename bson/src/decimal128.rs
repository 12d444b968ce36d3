//! Decimal128 values from strings.

use crate::error::{Error, ErrorKind, Result};
use bson::{
    Decimal128,
    error::{Decimal128ErrorKind, ErrorKind as CrateKind},
};
use std::borrow::Cow;

/// The number of digits of an exponent above which its value does not matter. No coefficient is so
/// long that it could outweigh it.
const MAX_EXPONENT_DIGITS: usize = 20;

/// The number of characters of a string that an error shows.
const MAX_SHOWN_CHARS: usize = 40;

/// Parses a Decimal128 value from a string.
///
/// The string is a number such as `-12.5E+3`, with a digit before or after the point, or one of
/// `NaN`, `Infinity` and `Inf` in any case, with an optional sign. The value keeps its digits:
/// `2.0` and `2.00` differ. Exponents out of range are clamped if this does not change the value.
/// The source is the Decimal128 specification, "From String Representation".
///
/// The `FromStr` of [`Decimal128`] also accepts some strings that are not numbers, such as an empty
/// one.
///
/// # Errors
///
/// Returns an error of the kind [`Value`](ErrorKind::Value) if the string is not a number, if the
/// value is out of range, or if it needs more than 34 digits.
///
/// ```
/// let number = onionskin_bson::parse_decimal128("12.50E+3")?;
/// assert_eq!(number.to_string(), "1.250E+4");
/// assert!(onionskin_bson::parse_decimal128("e100").is_err());
/// assert!("e100".parse::<bson::Decimal128>().is_ok());
/// # Ok::<(), onionskin_bson::Error>(())
/// ```
// DEC-3 and DEC-4. The value is that of the crate, which has 16 bytes and no arithmetic (DEC-6),
// and which prints itself (DEC-10). For conversions from and to numbers of Rust (DEC-5) there is
// the string.
pub fn parse_decimal128(text: &str) -> Result<Decimal128> {
    let Some(checked) = checked(text) else {
        return Err(wrong(text, "is not a decimal number"));
    };
    checked.parse().map_err(|error: bson::error::Error| {
        wrong(
            text,
            match error.kind {
                CrateKind::Decimal128 { kind, .. } => match kind {
                    Decimal128ErrorKind::Overflow { .. }
                    | Decimal128ErrorKind::Underflow { .. } => {
                        "is out of the range of a Decimal128"
                    }
                    Decimal128ErrorKind::InexactRounding { .. } => {
                        "has more digits than a Decimal128 stores"
                    }
                    _ => "cannot be stored as a Decimal128",
                },
                _ => "cannot be stored as a Decimal128",
            },
        )
    })
}

/// Returns an error with the start of the text.
#[cold]
fn wrong(text: &str, what: &str) -> Error {
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    let message = format!("{shown:?} {what}");
    Error::new(ErrorKind::Value { message })
}

/// Returns the string with an exponent of bounded length; `None` if the string is not in the
/// grammar (DEC-9).
fn checked(text: &str) -> Option<Cow<'_, str>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_special = |name: &str| unsigned.eq_ignore_ascii_case(name);
    if is_special("infinity") || is_special("inf") || is_special("nan") {
        return Some(Cow::Borrowed(text));
    }
    let (coefficient, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((coefficient, exponent)) => (coefficient, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = coefficient.split_once('.').unwrap_or((coefficient, ""));
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_digit = !whole.is_empty() || !fraction.is_empty();
    if !has_digit || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let Some(exponent) = exponent else {
        return Some(Cow::Borrowed(text));
    };
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits.is_empty() || !are_digits(digits) {
        return None;
    }
    if digits.len() <= MAX_EXPONENT_DIGITS {
        return Some(Cow::Borrowed(text));
    }
    // The exponent of a zero is clamped however large it is (DEC-7), and the `bson` crate reads
    // exponents up to a limit.
    let significant = digits.trim_start_matches('0');
    let shown = &significant[..significant.len().min(MAX_EXPONENT_DIGITS)];
    let head = &text[..text.len() - digits.len()];
    Some(Cow::Owned(format!("{head}0{shown}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The strings of the official parse errors that the `bson` crate accepts (DEC-9).
    const WRONG: [&str; 13] = [
        "", ".", "E01", "e100", "e+1", "E+1", ".e+1", "+.e+1", ".E+1", "+.E+1", "++1", "-+1",
        "-+32.4",
    ];

    #[test]
    fn upstream_decimal128_accepts_strings_that_are_no_numbers() {
        for text in WRONG {
            assert!(parse_decimal128(text).is_err(), "{text}");
            assert!(
                text.parse::<Decimal128>().is_ok(),
                "the crate bson refuses {text:?} now: if it refuses all of {WRONG:?}, the check \
                 of the grammar in front of its FromStr can go",
            );
        }
    }

    #[test]
    fn errors_show_the_text_and_the_reason() {
        let long = "9".repeat(100);
        for (text, expected) in [
            ("1 ", r#""1 " is not a decimal number"#),
            (
                "1E+7000",
                r#""1E+7000" is out of the range of a Decimal128"#,
            ),
            (
                "1E-7000",
                r#""1E-7000" is out of the range of a Decimal128"#,
            ),
            (
                &long,
                &format!(
                    r#""{}..." has more digits than a Decimal128 stores"#,
                    &long[..40]
                ),
            ),
        ] {
            let error = parse_decimal128(text).expect_err("it cannot be stored");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn upstream_decimal128_refuses_long_exponents_of_zeros() {
        let exponent = "9".repeat(100);
        for (text, expected) in [
            (format!("0E+{exponent}"), "0E+6111"),
            (format!("-0.0e-{exponent}"), "-0E-6176"),
            (format!("0E+{}1", "0".repeat(100)), "0E+1"),
            (format!("1E-{}", "0".repeat(100)), "1"),
        ] {
            let number = parse_decimal128(&text).expect("a number");
            assert_eq!(number.to_string(), expected);
        }
        assert!(parse_decimal128(&format!("1E+{exponent}")).is_err());
        assert!(
            format!("0E+{exponent}").parse::<Decimal128>().is_err(),
            "the crate bson accepts long exponents now: the cut of the exponent can go",
        );
    }

    // DEC-9: no other strings.
    #[test]
    fn only_numbers_and_the_special_values_are_accepted() {
        for text in [
            "0",
            "-0",
            "+5",
            "1.",
            ".5",
            "-.5e1",
            "1E5",
            "1e+5",
            "1e-5",
            "NaN",
            "-nan",
            "INF",
            "+Infinity",
            "-iNf",
            "00001",
        ] {
            assert!(parse_decimal128(text).is_ok(), "{text}");
        }
        for text in [
            " 1",
            "1 ",
            "1 2",
            "1e",
            "1e+",
            "1e 5",
            "1.2.3",
            "1..2",
            "..1",
            "1e5.0",
            "1e5e5",
            "--1",
            "+-1",
            "1-",
            "0x5",
            "1_0",
            "Infinit",
            "Infinity1",
            "in",
            "NaNs",
            "a",
            "1a",
            "\u{661}",
            "1E++1",
            "1E+-1",
            "- 1",
            "\0",
            "1\0",
        ] {
            assert!(parse_decimal128(text).is_err(), "{text}");
        }
    }

    // DEC-7 and DEC-8: rounding and clamping must be exact.
    #[test]
    fn a_value_that_cannot_be_stored_exactly_is_refused() {
        for (text, expected) in [
            ("1E+6144", Some("1.000000000000000000000000000000000E+6144")),
            ("1E+6145", None),
            ("1E-6176", Some("1E-6176")),
            ("1E-6177", None),
            ("10E-6177", Some("1E-6176")),
            (
                "1234567890123456789012345678901234",
                Some("1234567890123456789012345678901234"),
            ),
            ("12345678901234567890123456789012345", None),
            (
                "12345678901234567890123456789012340",
                Some("1.234567890123456789012345678901234E+34"),
            ),
        ] {
            let number = parse_decimal128(text).map(|number| number.to_string());
            assert_eq!(number.ok().as_deref(), expected, "{text}");
        }
    }
}
