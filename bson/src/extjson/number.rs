//! Floating-point numbers as text.

use std::fmt;

/// Writes a finite number with a fraction or an exponent, such that reading it gives the same
/// number. The form of exponents is that of the official tests, `1.5E+18`.
pub(super) fn write_double(out: &mut (impl fmt::Write + ?Sized), number: f64) -> fmt::Result {
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        // Debug output has a fraction, so that a reader recognizes a double.
        return write!(out, "{number:?}");
    }
    // The form of large and small numbers is `1.5E18` or `1.5E-18`.
    let mut text = Short::default();
    fmt::Write::write_fmt(&mut text, format_args!("{number:E}"))?;
    let text = text.as_str();
    match text.split_once('E') {
        Some((digits, exponent)) if !exponent.starts_with('-') => {
            write!(out, "{digits}E+{exponent}")
        }
        _ => out.write_str(text),
    }
}

/// Parses the number of `$numberDouble`.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    match text {
        "Infinity" => return Some(f64::INFINITY),
        "-Infinity" => return Some(f64::NEG_INFINITY),
        "NaN" => return Some(f64::NAN),
        // The crate `bson` writes this for a NaN with a sign.
        "-NaN" => return Some(-f64::NAN),
        _ => {}
    }
    // The parser of the standard library also accepts names, and a plus sign in front.
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if text.starts_with('+') || !text.bytes().all(is_number) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses the integer of `$numberInt` or `$numberLong`.
pub(super) fn parse_integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    // The parser of the standard library also accepts a plus sign in front.
    if text.starts_with('+') {
        return None;
    }
    text.parse().ok()
}

/// A text of limited length, which needs no allocation.
#[derive(Default)]
struct Short {
    bytes: [u8; 32],
    length: usize,
}

impl Short {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: f64) -> String {
        let mut text = String::new();
        write_double(&mut text, number).expect("a String accepts all text");
        text
    }

    // EJSON-1: also subnormal numbers and the negative zero.
    #[test]
    fn numbers_have_a_fraction_or_an_exponent() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.0001220703125, "-1.0001220703125"),
            (1.2345678921232E+18, "1.2345678921232E+18"),
            (1e15, "1000000000000000.0"),
            (1e16, "1E+16"),
            (1e-5, "1E-5"),
            (0.0001, "0.0001"),
            (-2.5e-7, "-2.5E-7"),
            (5e-324, "5E-324"),
            (f64::MAX, "1.7976931348623157E+308"),
            (-f64::MIN_POSITIVE, "-2.2250738585072014E-308"),
        ] {
            assert_eq!(written(number), expected);
        }
    }

    // EJSON-9.
    #[test]
    fn other_texts_are_not_doubles() {
        for text in [
            "",
            "+1",
            "inf",
            "infinity",
            "INFINITY",
            "nan",
            "+Infinity",
            "1e400",
            "0x1",
            " 1",
            "1 ",
            "e5",
            ".",
            "-",
            "1e",
            "1_0",
        ] {
            assert_eq!(parse_double(text), None, "{text}");
        }
        assert_eq!(parse_double("-1.5E+3"), Some(-1500.0));
        assert!(parse_double("-NaN").is_some_and(f64::is_nan));
    }

    proptest::proptest! {
        #[test]
        fn written_doubles_are_read(bits in proptest::num::u64::ANY) {
            let number = f64::from_bits(bits);
            if number.is_finite() {
                let text = written(number);
                proptest::prop_assert!(text.contains(['.', 'e', 'E']), "{}", text);
                let read = parse_double(&text).map(f64::to_bits);
                proptest::prop_assert_eq!(read, Some(bits));
            }
        }
    }
}
