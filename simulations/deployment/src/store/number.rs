//! Numbers of the four numeric BSON types: exact comparison between types, and arithmetic with
//! promotion.

use std::cmp::Ordering;
use std::str::FromStr;

use bson::{Bson, Decimal128};

/// The number of significant digits of a decimal128.
const DECIMAL_DIGITS: usize = 34;

/// An exact decimal: `0.DIGITS * 10^exponent`, without leading or trailing zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exact {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

/// The value of a number, for comparison. NaN and the infinities have no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    NotANumber,
    NegativeInfinity,
    Finite(Exact),
    PositiveInfinity,
}

impl Exact {
    /// Parses a decimal number such as `-12.5E+3`.
    fn parse(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let power: i64 = power.parse().unwrap_or(0);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|b| b - b'0')
            .collect();
        let exponent = power + i64::try_from(whole.len()).unwrap_or(0);
        Self {
            negative,
            digits,
            exponent,
        }
        .trimmed()
    }

    fn trimmed(mut self) -> Self {
        let zeros = self.digits.iter().take_while(|d| **d == 0).count();
        self.digits.drain(..zeros);
        self.exponent -= i64::try_from(zeros).unwrap_or(0);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.exponent = 0;
            self.negative = false;
        }
        self
    }

    fn compare(&self, other: &Self) -> Ordering {
        let sign = |e: &Self| match (e.digits.is_empty(), e.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        sign(self).cmp(&sign(other)).then_with(|| {
            let size = self.exponent.cmp(&other.exponent);
            let size = size.then_with(|| self.digits.cmp(&other.digits));
            if self.negative { size.reverse() } else { size }
        })
    }

    /// Returns the digits, extended with zeros so that the last digit has the weight `10^floor`.
    fn aligned(&self, floor: i64) -> Vec<u8> {
        let wanted = usize::try_from((self.exponent - floor).max(0)).unwrap_or(0);
        let mut digits = self.digits.clone();
        digits.resize(wanted.max(digits.len()), 0);
        digits
    }

    fn add(&self, other: &Self) -> Self {
        let last = |e: &Self| e.exponent - i64::try_from(e.digits.len()).unwrap_or(0);
        if self.digits.is_empty() || other.exponent - self.exponent > 80 {
            return other.clone();
        }
        if other.digits.is_empty() || self.exponent - other.exponent > 80 {
            return self.clone();
        }
        let floor = last(self).min(last(other));
        let (mut a, mut b) = (self.aligned(floor), other.aligned(floor));
        let length = a.len().max(b.len()) + 1;
        for digits in [&mut a, &mut b] {
            let padding = length - digits.len();
            digits.splice(0..0, std::iter::repeat_n(0, padding));
        }
        let exponent = floor + i64::try_from(length).unwrap_or(0);
        if self.negative == other.negative {
            add_digits(&mut a, &b);
            return Self {
                negative: self.negative,
                digits: a,
                exponent,
            }
            .trimmed();
        }
        if a >= b {
            subtract_digits(&mut a, &b);
            Self {
                negative: self.negative,
                digits: a,
                exponent,
            }
            .trimmed()
        } else {
            subtract_digits(&mut b, &a);
            Self {
                negative: other.negative,
                digits: b,
                exponent,
            }
            .trimmed()
        }
    }

    fn multiply(&self, other: &Self) -> Self {
        let mut sums = vec![0u32; self.digits.len() + other.digits.len()];
        for (i, a) in self.digits.iter().enumerate() {
            for (j, b) in other.digits.iter().enumerate() {
                sums[i + j + 1] += u32::from(*a) * u32::from(*b);
            }
        }
        for i in (1..sums.len()).rev() {
            sums[i - 1] += sums[i] / 10;
            sums[i] %= 10;
        }
        Self {
            negative: self.negative != other.negative,
            digits: sums
                .into_iter()
                .map(|d| u8::try_from(d).unwrap_or(9))
                .collect(),
            exponent: self.exponent + other.exponent,
        }
        .trimmed()
    }

    /// Rounds to `places` digits, half to even, which is the default of IEEE 754.
    fn rounded(mut self, places: usize) -> Self {
        if self.digits.len() <= places {
            return self;
        }
        let rest = self.digits.split_off(places);
        let half = rest[0].cmp(&5).then(if rest.len() > 1 {
            Ordering::Greater
        } else {
            Ordering::Equal
        });
        let odd = self.digits.last().is_some_and(|d| d % 2 == 1);
        if half == Ordering::Greater || (half == Ordering::Equal && odd) {
            self.digits.insert(0, 0);
            self.exponent += 1;
            let mut one = vec![0; self.digits.len()];
            if let Some(last) = one.last_mut() {
                *last = 1;
            }
            add_digits(&mut self.digits, &one);
        }
        self.trimmed()
    }

    fn to_decimal(&self) -> Bson {
        let rounded = self.clone().rounded(DECIMAL_DIGITS);
        let mut text = String::new();
        if rounded.negative {
            text.push('-');
        }
        if rounded.digits.is_empty() {
            text.push('0');
        }
        text.extend(rounded.digits.iter().map(|d| char::from(b'0' + d)));
        let power = rounded.exponent - i64::try_from(rounded.digits.len()).unwrap_or(0);
        // Small integers keep their plain form, such as 20 instead of 2E+1.
        if (0..=6).contains(&power) && rounded.exponent <= 34 {
            text.extend(std::iter::repeat_n(
                '0',
                usize::try_from(power).unwrap_or(0),
            ));
        } else if power != 0 {
            text.push_str(&format!("E{power:+}"));
        }
        Decimal128::from_str(&text).map_or(Bson::Null, Bson::Decimal128)
    }
}

fn add_digits(a: &mut [u8], b: &[u8]) {
    let mut carry = 0;
    for (a, b) in a.iter_mut().zip(b).rev() {
        let sum = *a + b + carry;
        *a = sum % 10;
        carry = sum / 10;
    }
}

/// Subtracts `b` from `a`. Both have the same length, and `b` is not larger.
fn subtract_digits(a: &mut [u8], b: &[u8]) {
    let mut borrow = 0;
    for (a, b) in a.iter_mut().zip(b).rev() {
        let (top, bottom) = (*a + 10, b + borrow);
        *a = (top - bottom) % 10;
        borrow = u8::from(top - bottom < 10);
    }
}

fn value(number: &Bson) -> Option<Value> {
    Some(match number {
        Bson::Int32(n) => Value::Finite(Exact::parse(&n.to_string())),
        Bson::Int64(n) => Value::Finite(Exact::parse(&n.to_string())),
        Bson::Double(n) if n.is_nan() => Value::NotANumber,
        Bson::Double(n) if n.is_infinite() && *n > 0.0 => Value::PositiveInfinity,
        Bson::Double(n) if n.is_infinite() => Value::NegativeInfinity,
        // A double has at most 767 significant digits, so that this text is exact.
        Bson::Double(n) => Value::Finite(Exact::parse(&format!("{n:.766e}"))),
        Bson::Decimal128(n) => {
            let text = n.to_string();
            match text.as_str() {
                "Infinity" | "inf" => Value::PositiveInfinity,
                "-Infinity" | "-inf" => Value::NegativeInfinity,
                _ if text
                    .trim_start_matches('-')
                    .starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    Value::Finite(Exact::parse(&text))
                }
                _ => Value::NotANumber,
            }
        }
        _ => return None,
    })
}

/// True for the four numeric types.
pub(crate) fn is_number(value: &Bson) -> bool {
    matches!(
        value,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)
    )
}

/// Compares numbers by value. NaN is less than every other number and equal to itself.
pub(crate) fn compare(a: &Bson, b: &Bson) -> Ordering {
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return a.cmp(&b);
    }
    match (a, b) {
        (Bson::Double(a), Bson::Double(b)) => a
            .partial_cmp(b)
            .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan())),
        (Bson::Double(double), _) if whole(b).is_some() => {
            compare_mixed(*double, whole(b).unwrap_or(0))
        }
        (_, Bson::Double(double)) if whole(a).is_some() => {
            compare_mixed(*double, whole(a).unwrap_or(0)).reverse()
        }
        _ => compare_values(&value(a), &value(b)),
    }
}

fn compare_values(a: &Option<Value>, b: &Option<Value>) -> Ordering {
    let rank = |v: &Option<Value>| match v {
        None => 0,
        Some(Value::NotANumber) => 1,
        Some(Value::NegativeInfinity) => 2,
        Some(Value::Finite(_)) => 3,
        Some(Value::PositiveInfinity) => 4,
    };
    match (a, b) {
        (Some(Value::Finite(a)), Some(Value::Finite(b))) => a.compare(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares a double with an integer, without rounding the integer to a double.
fn compare_mixed(double: f64, integer: i64) -> Ordering {
    if double.is_nan() {
        return Ordering::Less;
    }
    // 2^63 is exact as a double, so that these limits are exact.
    if double >= 9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    if double < -9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    let floor = double.floor();
    (floor as i64).cmp(&integer).then(if double > floor {
        Ordering::Greater
    } else {
        Ordering::Equal
    })
}

/// Returns the value of an int32 or int64, and `None` for other types.
fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        _ => None,
    }
}

/// Returns a number as an integer. Returns `None` if the value is not a number, has a fraction or
/// is too large. A decimal128 is converted through a double, so that its low digits can be lost.
pub(crate) fn as_integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Decimal128(n) => {
            let n: f64 = n.to_string().parse().ok()?;
            as_integer(&Bson::Double(n))
        }
        Bson::Double(n) => {
            (n.fract() == 0.0 && n.abs() < 9_223_372_036_854_775_808.0).then_some(*n as i64)
        }
        _ => whole(value),
    }
}

/// Returns a number as an integer of 32 bits. Returns `None` if the value is not a number, has a
/// fraction or is too large.
pub(crate) fn as_int32(value: &Bson) -> Option<i32> {
    as_integer(value).and_then(|whole| i32::try_from(whole).ok())
}

/// Returns a number as an integer, without its fraction. Returns `None` if the value is not a
/// number or is too large.
pub(crate) fn truncated(value: &Bson) -> Option<i64> {
    match value {
        Bson::Double(_) | Bson::Decimal128(_) => {
            as_integer(&Bson::Double(as_double(value)?.trunc()))
        }
        _ => whole(value),
    }
}

/// Returns a number as a double, possibly rounded. Returns `None` if the value is not a number.
pub(crate) fn as_double(value: &Bson) -> Option<f64> {
    match value {
        Bson::Double(n) => Some(*n),
        Bson::Decimal128(n) => n.to_string().parse().ok(),
        _ => whole(value).map(|n| n as f64),
    }
}

/// Converts a double to the decimal128 with the fewest digits that identify the double.
pub(crate) fn decimal(number: f64) -> Bson {
    let text = match number {
        n if n.is_nan() => "NaN".to_owned(),
        n if n.is_infinite() => if n > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        n => return Exact::parse(&format!("{n:e}")).to_decimal(),
    };
    Decimal128::from_str(&text).map_or(Bson::Null, Bson::Decimal128)
}

/// Adds two numbers. An int32 that overflows becomes an int64. If an int64 overflows, or if an
/// operand is not a number, the result is `None`.
pub(crate) fn add(a: &Bson, b: &Bson) -> Option<Bson> {
    arithmetic(a, b, i64::checked_add, |a, b| a + b, Exact::add)
}

/// Multiplies two numbers. An int32 that overflows becomes an int64. If an int64 overflows, or if
/// an operand is not a number, the result is `None`.
pub(crate) fn multiply(a: &Bson, b: &Bson) -> Option<Bson> {
    arithmetic(a, b, i64::checked_mul, |a, b| a * b, Exact::multiply)
}

/// Subtracts `b` from `a`. An int32 that overflows becomes an int64. If an int64 overflows, or if
/// an operand is not a number, the result is `None`.
pub(crate) fn subtract(a: &Bson, b: &Bson) -> Option<Bson> {
    arithmetic(
        a,
        b,
        i64::checked_sub,
        |a, b| a - b,
        |a, b| {
            a.add(&Exact {
                negative: !b.negative,
                ..b.clone()
            })
        },
    )
}

fn arithmetic(
    a: &Bson,
    b: &Bson,
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(&Exact, &Exact) -> Exact,
) -> Option<Bson> {
    if matches!(a, Bson::Decimal128(_)) || matches!(b, Bson::Decimal128(_)) {
        return match (value(a)?, value(b)?) {
            (Value::Finite(a), Value::Finite(b)) => Some(decimals(&a, &b).to_decimal()),
            _ => Some(decimal(doubles(as_double(a)?, as_double(b)?))),
        };
    }
    let (Some(x), Some(y)) = (whole(a), whole(b)) else {
        return Some(Bson::Double(doubles(as_double(a)?, as_double(b)?)));
    };
    let result = integers(x, y)?;
    match (a, b, i32::try_from(result)) {
        (Bson::Int32(_), Bson::Int32(_), Ok(small)) => Some(Bson::Int32(small)),
        _ => Some(Bson::Int64(result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Bson {
        Bson::Decimal128(text.parse().expect("a decimal"))
    }

    #[test]
    fn numbers_compare_by_value_across_types() {
        let ascending = [
            Bson::Double(f64::NAN),
            Bson::Double(f64::NEG_INFINITY),
            Bson::Int64(i64::MIN),
            dec("-1.5"),
            Bson::Int32(-1),
            Bson::Double(0.0),
            dec("0.1"),
            Bson::Double(0.1),
            Bson::Int32(1),
            dec("9007199254740992"),
            Bson::Int64(9_007_199_254_740_993),
            Bson::Int64(i64::MAX),
            Bson::Double(9_223_372_036_854_775_808.0),
            dec("1E+400"),
            Bson::Double(f64::INFINITY),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a:?} and {b:?}");
            }
        }
        assert_eq!(
            compare(&dec("NaN"), &Bson::Double(f64::NAN)),
            Ordering::Equal
        );
        assert_eq!(compare(&dec("1.0"), &Bson::Int32(1)), Ordering::Equal);
        assert_eq!(
            compare(&Bson::Double(-0.0), &Bson::Int32(0)),
            Ordering::Equal
        );
    }

    #[test]
    fn arithmetic_promotes_numeric_types() {
        let table = [
            (add(&Bson::Int32(1), &Bson::Int32(2)), Bson::Int32(3)),
            (
                add(&Bson::Int32(i32::MAX), &Bson::Int32(1)),
                Bson::Int64(2_147_483_648),
            ),
            (add(&Bson::Int64(1), &Bson::Int32(2)), Bson::Int64(3)),
            (add(&Bson::Int32(1), &Bson::Double(0.5)), Bson::Double(1.5)),
            (add(&dec("0.1"), &dec("0.2")), dec("0.3")),
            (add(&dec("-5"), &Bson::Int32(3)), dec("-2")),
            (subtract(&dec("1"), &dec("0.9")), dec("0.1")),
            (multiply(&dec("1.5"), &Bson::Int32(4)), dec("6")),
            (
                multiply(&Bson::Int32(65536), &Bson::Int32(65536)),
                Bson::Int64(4_294_967_296),
            ),
        ];
        for (got, expected) in table {
            assert_eq!(got, Some(expected));
        }
        assert_eq!(add(&Bson::Int64(i64::MAX), &Bson::Int32(1)), None);
    }
}
