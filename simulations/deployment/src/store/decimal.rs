//! The arithmetic of decimal128: 34 digits, and the number of digits that IEEE 754 prefers.

use bson::{Bson, Decimal128};

use super::exact::{Exact, Rounding};

/// The number of significant digits of a decimal128.
pub(super) const DIGITS: i64 = 34;

/// The least power of ten of the last digit of a decimal128.
pub(super) const LEAST_POWER: i64 = -6176;

/// The largest power of ten of the last digit of a decimal128.
const LARGEST_POWER: i64 = 6111;

/// The largest coefficient of a decimal128, plus one.
const LIMIT: u128 = 10_u128.pow(34);

/// The number of bits of the coefficient in the encoding.
const COEFFICIENT_BITS: u32 = 113;

/// The digits of intermediate results, so that the last of 34 digits is rounded correctly, also in
/// logarithms of numbers near 1.
pub(super) const WORKING_DIGITS: usize = 90;

/// A decimal128.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decimal {
    NotANumber,
    Infinite { negative: bool },
    Finite(Finite),
}

/// A finite decimal128.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finite {
    /// The sign, which a zero has as well.
    pub(super) negative: bool,
    pub(super) value: Exact,
    /// The power of ten of the last digit, which can be a zero: -2 for 1.50.
    pub(super) quantum: i64,
}

impl Decimal {
    pub(super) const ZERO: Self = Self::Finite(Finite {
        negative: false,
        value: Exact {
            negative: false,
            digits: Vec::new(),
            exponent: 0,
        },
        quantum: 0,
    });

    /// Returns a number as a decimal. A double is rounded to 15 digits.
    pub(crate) fn of(number: &Bson) -> Option<Self> {
        Some(match number {
            Bson::Int32(n) => Self::of_integer(i64::from(*n)),
            Bson::Int64(n) => Self::of_integer(*n),
            Bson::Double(n) => Self::of_double(*n),
            Bson::Decimal128(n) => Self::of_decimal(*n),
            _ => return None,
        })
    }

    pub(super) fn of_integer(number: i64) -> Self {
        let value = Exact::of(number < 0, u128::from(number.unsigned_abs()), 0);
        Self::finite(value, number < 0, 0)
    }

    pub(crate) fn of_double(number: f64) -> Self {
        match Self::special(number) {
            Some(special) => special,
            None if number == 0.0 => Self::ZERO,
            None => {
                let text = format!("{number:.14e}");
                let value = Exact::parse(&text);
                let quantum = value.exponent - 15;
                Self::finite(value, number < 0.0, quantum)
            }
        }
    }

    /// Returns a double with the fewest digits that identify it.
    pub(super) fn shortest(number: f64) -> Self {
        Self::special(number).unwrap_or_else(|| {
            let value = Exact::parse(&format!("{number:e}"));
            let quantum = value.power().min(0);
            Self::finite(value, number < 0.0, quantum)
        })
    }

    /// Returns a double with 34 digits, without trailing zeros.
    pub(super) fn all_digits(number: f64) -> Self {
        Self::special(number).unwrap_or_else(|| {
            let value = Exact::parse(&format!("{number:.33e}"));
            let quantum = value.power().min(0);
            Self::finite(value, number < 0.0, quantum)
        })
    }

    fn special(number: f64) -> Option<Self> {
        let negative = number < 0.0;
        match (number.is_nan(), number.is_infinite()) {
            (true, _) => Some(Self::NotANumber),
            (_, true) => Some(Self::Infinite { negative }),
            _ => None,
        }
    }

    pub(super) fn of_decimal(number: Decimal128) -> Self {
        let bits = u128::from_le_bytes(number.bytes());
        let negative = bits >> 127 == 1;
        match bits >> 122 & 0x1f {
            0x1f => return Self::NotANumber,
            0x1e => return Self::Infinite { negative },
            _ => {}
        }
        // A coefficient that is too large stands for zero.
        let is_large = bits >> 125 & 3 == 3;
        let shift = if is_large { 111 } else { COEFFICIENT_BITS };
        let power = i64::try_from(bits >> shift & 0x3fff).unwrap_or(0) + LEAST_POWER;
        let coefficient = bits & ((1 << COEFFICIENT_BITS) - 1);
        let coefficient = match is_large || coefficient >= LIMIT {
            true => 0,
            false => coefficient,
        };
        Self::Finite(Finite {
            negative,
            value: Exact::of(negative, coefficient, power),
            quantum: power,
        })
    }

    /// Parses a decimal. More than 34 digits are rounded, and a number that is too large or too
    /// small is refused.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if unsigned.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return text.parse().ok().map(Self::of_decimal);
        }
        let (mantissa, power) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = whole.bytes().chain(fraction.bytes());
        if whole.len() + fraction.len() == 0 || !digits.all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        // The limit keeps sums of powers small.
        let power: i32 = power.parse().ok()?;
        let negative = text.starts_with('-');
        let mut value = Exact::parse(unsigned);
        value.negative = negative && !value.is_zero();
        let quantum = i64::from(power) - i64::try_from(fraction.len()).ok()?;
        let was_zero = value.is_zero();
        let parsed = Self::finite(value, negative, quantum);
        let is_lost = parsed.is_zero() && !was_zero;
        (!is_lost && matches!(parsed, Self::Finite(_))).then_some(parsed)
    }

    pub(crate) fn to_bson(&self) -> Bson {
        let sign = |negative: bool| u128::from(negative) << 127;
        let bits = match self {
            Self::NotANumber => 0x1f << 122,
            Self::Infinite { negative } => sign(*negative) | 0x1e << 122,
            Self::Finite(finite) => {
                let zeros = match finite.value.is_zero() {
                    true => 0,
                    false => finite.value.power() - finite.quantum,
                };
                let zeros = u32::try_from(zeros).unwrap_or(0);
                let scale = 10_u128.checked_pow(zeros).unwrap_or(1);
                let coefficient = finite.value.coefficient().wrapping_mul(scale);
                let power = u128::try_from(finite.quantum - LEAST_POWER).unwrap_or(0);
                sign(finite.negative) | power << COEFFICIENT_BITS | coefficient
            }
        };
        Bson::Decimal128(Decimal128::from_bytes(bits.to_le_bytes()))
    }

    /// Returns a value, rounded to 34 digits. An exact value has its last digit as close to the
    /// power `preferred` as possible.
    pub(super) fn finite(value: Exact, negative: bool, preferred: i64) -> Self {
        let places = DIGITS.min(value.exponent - LEAST_POWER);
        let rounded = value.clone().rounded(places, Rounding::HalfEven);
        let least = (rounded.exponent - DIGITS).max(LEAST_POWER);
        let quantum = match (rounded.is_zero(), rounded == value) {
            (true, true) => preferred.clamp(LEAST_POWER, LARGEST_POWER),
            (true, false) => LEAST_POWER,
            (false, true) => preferred.min(rounded.power()).max(least),
            (false, false) => least,
        };
        if !rounded.is_zero() && quantum > LARGEST_POWER && least > LARGEST_POWER {
            return Self::Infinite { negative };
        }
        Self::Finite(Finite {
            negative,
            value: rounded,
            quantum: quantum.min(LARGEST_POWER),
        })
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Finite(finite) if finite.value.is_zero())
    }

    /// True for numbers below zero, and for a zero with a sign.
    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::NotANumber => false,
            Self::Infinite { negative } => *negative,
            Self::Finite(finite) => finite.negative,
        }
    }

    pub(super) fn with_sign(&self, negative: bool) -> Self {
        match self {
            Self::NotANumber => Self::NotANumber,
            Self::Infinite { .. } => Self::Infinite { negative },
            Self::Finite(finite) => {
                let mut value = finite.value.clone();
                value.negative = negative && !value.is_zero();
                Self::Finite(Finite {
                    negative,
                    value,
                    quantum: finite.quantum,
                })
            }
        }
    }

    pub(crate) fn negated(&self) -> Self {
        self.with_sign(!self.is_negative())
    }

    pub(crate) fn absolute(&self) -> Self {
        self.with_sign(false)
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => {
                let negative = a.negative && b.negative;
                let value = a.value.add(&b.value);
                let negative = if value.is_zero() {
                    negative
                } else {
                    value.negative
                };
                Self::finite(value, negative, a.quantum.min(b.quantum))
            }
            (Self::Infinite { negative: a }, Self::Infinite { negative: b }) if a != b => {
                Self::NotANumber
            }
            (Self::NotANumber, _) | (_, Self::NotANumber) => Self::NotANumber,
            (infinite @ Self::Infinite { .. }, _) | (_, infinite) => infinite.clone(),
        }
    }

    pub(crate) fn multiply(&self, other: &Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => {
                let value = a.value.multiply(&b.value);
                Self::finite(value, negative, a.quantum + b.quantum)
            }
            (Self::NotANumber, _) | (_, Self::NotANumber) => Self::NotANumber,
            _ if self.is_zero() || other.is_zero() => Self::NotANumber,
            _ => Self::Infinite { negative },
        }
    }

    pub(crate) fn divide(&self, other: &Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Finite(_), Self::Finite(b)) if b.value.is_zero() => match self.is_zero() {
                true => Self::NotANumber,
                false => Self::Infinite { negative },
            },
            (Self::Finite(a), Self::Finite(b)) => {
                let value = a.value.divide(&b.value, WORKING_DIGITS);
                Self::finite(value, negative, a.quantum - b.quantum)
            }
            (Self::NotANumber, _) | (_, Self::NotANumber) => Self::NotANumber,
            (Self::Infinite { .. }, Self::Infinite { .. }) => Self::NotANumber,
            (Self::Infinite { .. }, _) => Self::Infinite { negative },
            _ => Self::finite(Exact::of(false, 0, 0), negative, LEAST_POWER),
        }
    }

    /// Returns the remainder of a division, which has the sign of the dividend.
    pub(crate) fn remainder(&self, other: &Self) -> Self {
        let (a, b) = match (self, other) {
            (Self::Finite(_), Self::Infinite { .. }) => return self.clone(),
            (Self::Finite(a), Self::Finite(b)) if !b.value.is_zero() => (a, b),
            _ => return Self::NotANumber,
        };
        let quantum = a.quantum.min(b.quantum);
        if self.absolute().is_less(&other.absolute()) {
            return Self::finite(a.value.clone(), a.negative, quantum);
        }
        let (first, second) = (a.value.power(), b.value.power());
        // The divisor is not larger than the dividend, so that it has at most 34 digits.
        let zeros = u32::try_from((second - first).max(0)).unwrap_or(0);
        let scale = 10_u128.checked_pow(zeros).unwrap_or(1);
        let divisor = b.value.coefficient().wrapping_mul(scale).max(1);
        let mut rest = a.value.coefficient() % divisor;
        // Four zeros more fit into the 128 bits of the rest.
        let mut zeros = u32::try_from((first - second).max(0)).unwrap_or(0);
        while zeros > 0 && rest > 0 {
            let step = zeros.min(4);
            rest = rest * 10_u128.pow(step) % divisor;
            zeros -= step;
        }
        let value = Exact::of(a.negative, rest, first.min(second));
        Self::finite(value, a.negative, quantum)
    }

    fn is_less(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.value.compare(&b.value).is_lt(),
            _ => false,
        }
    }

    /// Rounds to a multiple of a power of ten, which becomes the power of the last digit. NaN if
    /// the result has more than 34 digits.
    pub(crate) fn quantized(&self, power: i64, rounding: Rounding) -> Self {
        let Self::Finite(finite) = self else {
            return Self::NotANumber;
        };
        let places = finite.value.exponent - power;
        let value = finite.value.clone().rounded(places, rounding);
        if !value.is_zero() && value.exponent - power > DIGITS {
            return Self::NotANumber;
        }
        Self::Finite(Finite {
            negative: finite.negative,
            value,
            quantum: power,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::store) fn decimal(text: &str) -> Decimal {
        Decimal::of_decimal(text.parse().expect("a decimal"))
    }

    pub(in crate::store) fn check(table: impl IntoIterator<Item = (Decimal, &'static str)>) {
        for (number, expected) in table {
            assert_eq!(
                number.to_bson(),
                decimal(expected).to_bson(),
                "{expected}: {number:?}"
            );
        }
    }

    #[test]
    fn sums_and_products_keep_the_place_of_the_last_digit() {
        let d = decimal;
        check([
            (d("2.50").add(&d("2")), "4.50"),
            (d("2.5").add(&d("-0.5")), "2.0"),
            (d("2.5").multiply(&d("2")), "5.0"),
            (d("-1.10").absolute(), "1.10"),
            (d("9E-2752").add(&d("0")), "9E-2752"),
            (d("Infinity").add(&d("-Infinity")), "NaN"),
            (
                d("1.000000000000000000000000000000001").add(&d("1")),
                "2.000000000000000000000000000000001",
            ),
            (d("9E+6144").add(&d("9E+6144")), "Infinity"),
            (
                d("1E+6144").add(&d("0")),
                "1.000000000000000000000000000000000E+6144",
            ),
            (Decimal::of_double(2.0), "2.00000000000000"),
            (Decimal::of_double(0.1), "0.100000000000000"),
        ]);
    }

    #[test]
    fn quotients_and_remainders_are_rounded_once() {
        let d = decimal;
        check([
            (d("10").divide(&d("4")), "2.5"),
            (d("100").divide(&d("10")), "10"),
            (d("2.50").divide(&d("1.0")), "2.5"),
            (d("-0").divide(&d("5")), "-0"),
            (
                d("1").divide(&d("3")),
                "0.3333333333333333333333333333333333",
            ),
            (
                d("2").divide(&d("3")),
                "0.6666666666666666666666666666666667",
            ),
            (d("1E+6144").divide(&d("1E-10")), "Infinity"),
            (d("1E-6176").divide(&d("10")), "0E-6176"),
            (d("2.5").remainder(&d("1")), "0.5"),
            (d("-10").remainder(&d("3")), "-1"),
            (d("7.5").remainder(&d("2.5")), "0.0"),
            (d("1E+6144").remainder(&d("7")), "1"),
            (d("2").remainder(&d("1E+300")), "2"),
            (d("5.5").remainder(&d("Infinity")), "5.5"),
        ]);
    }

    #[test]
    fn numbers_are_rounded_to_a_power_of_ten() {
        let d = |text: &str, power| decimal(text).quantized(power, Rounding::HalfEven);
        check([
            (d("2.5", 0), "2"),
            (d("3.5", 0), "4"),
            (d("2.5", -2), "2.50"),
            (d("25", 1), "2E+1"),
            (d("9.995", 3), "0E+3"),
            (d("1E+40", 0), "NaN"),
            (decimal("2.5").quantized(0, Rounding::Up), "3"),
            (decimal("-2.5").quantized(0, Rounding::Up), "-2"),
            (decimal("-2.5").quantized(0, Rounding::Down), "-3"),
            (decimal("0.01").quantized(0, Rounding::Up), "1"),
            (decimal("2.567").quantized(-2, Rounding::TowardZero), "2.56"),
        ]);
    }
}
