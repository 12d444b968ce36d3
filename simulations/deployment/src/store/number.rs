//! Numbers of the four numeric BSON types: exact comparison between types, and arithmetic with
//! promotion.

use std::cmp::Ordering;

use bson::Bson;

use super::decimal::Decimal;
use super::exact::{Exact, Rounding};

/// The value of a number, for comparison. NaN and the infinities have no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    NotANumber,
    NegativeInfinity,
    Finite(Exact),
    PositiveInfinity,
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
        Bson::Decimal128(n) => match Decimal::of_decimal(*n) {
            Decimal::NotANumber => Value::NotANumber,
            Decimal::Infinite { negative: true } => Value::NegativeInfinity,
            Decimal::Infinite { negative: false } => Value::PositiveInfinity,
            Decimal::Finite(finite) => Value::Finite(finite.value),
        },
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
/// is too large.
pub(crate) fn as_integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Decimal128(n) => match Decimal::of_decimal(*n) {
            Decimal::Finite(finite) => finite.value.to_integer(),
            _ => None,
        },
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
        Bson::Double(n) => as_integer(&Bson::Double(n.trunc())),
        Bson::Decimal128(n) => match Decimal::of_decimal(*n) {
            Decimal::Finite(finite) => {
                let whole = finite.value.exponent;
                finite
                    .value
                    .rounded(whole, Rounding::TowardZero)
                    .to_integer()
            }
            _ => None,
        },
        _ => whole(value),
    }
}

/// True for the zeros of all numeric types.
pub(crate) fn is_zero(value: &Bson) -> bool {
    match value {
        Bson::Double(n) => *n == 0.0,
        Bson::Decimal128(n) => Decimal::of_decimal(*n).is_zero(),
        _ => whole(value) == Some(0),
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
    Decimal::shortest(number).to_bson()
}

/// Adds two numbers. An int32 that overflows becomes an int64. If an int64 overflows, or if an
/// operand is not a number, the result is `None`.
pub(crate) fn add(a: &Bson, b: &Bson) -> Option<Bson> {
    arithmetic(a, b, i64::checked_add, |a, b| a + b, Decimal::add)
}

/// Adds two numbers as [`add`] does, but takes all digits of a double that is added to a
/// decimal128.
pub(crate) fn add_all_digits(a: &Bson, b: &Bson) -> Option<Bson> {
    let exact = |number: &Bson| match number {
        Bson::Double(n) => Some(Decimal::all_digits(*n)),
        other => Decimal::of(other),
    };
    match is_decimal(a) || is_decimal(b) {
        true => Some(exact(a)?.add(&exact(b)?).to_bson()),
        false => add(a, b),
    }
}

/// Multiplies two numbers. An int32 that overflows becomes an int64. If an int64 overflows, or if
/// an operand is not a number, the result is `None`.
pub(crate) fn multiply(a: &Bson, b: &Bson) -> Option<Bson> {
    arithmetic(a, b, i64::checked_mul, |a, b| a * b, Decimal::multiply)
}

/// Subtracts `b` from `a`. An int32 that overflows becomes an int64. If an int64 overflows, or if
/// an operand is not a number, the result is `None`.
pub(crate) fn subtract(a: &Bson, b: &Bson) -> Option<Bson> {
    let decimals = |a: &Decimal, b: &Decimal| a.add(&b.negated());
    arithmetic(a, b, i64::checked_sub, |a, b| a - b, decimals)
}

/// True for a decimal128.
pub(crate) fn is_decimal(value: &Bson) -> bool {
    matches!(value, Bson::Decimal128(_))
}

fn arithmetic(
    a: &Bson,
    b: &Bson,
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(&Decimal, &Decimal) -> Decimal,
) -> Option<Bson> {
    if is_decimal(a) || is_decimal(b) {
        return Some(decimals(&Decimal::of(a)?, &Decimal::of(b)?).to_bson());
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
            (multiply(&dec("1.5"), &Bson::Int32(4)), dec("6.0")),
            (add(&dec("1.50"), &Bson::Int32(1)), dec("2.50")),
            (
                add(&dec("2.5"), &Bson::Double(2.0)),
                dec("4.50000000000000"),
            ),
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
