//! Roots, powers and logarithms of decimals, computed by series with more digits than a result has.

use super::decimal::{DIGITS, Decimal, LEAST_POWER, WORKING_DIGITS};
use super::exact::{Exact, Rounding};

/// The natural logarithm of 10.
const LN_10: &str = "2.302585092994045684017991454684364207601101488628772976033327900967572610";

impl Decimal {
    pub(crate) fn square_root(&self) -> Self {
        let a = match self {
            Self::Finite(a) if a.value.is_zero() || !a.negative => a,
            Self::Infinite { negative: false } => return self.clone(),
            _ => return Self::NotANumber,
        };
        let preferred = a.quantum.div_euclid(2);
        let root = square_root(&a.value);
        // A root of at most 34 digits can be exact.
        let short = root.clone().rounded(DIGITS, Rounding::HalfEven);
        let is_exact = short.multiply(&short) == a.value;
        Self::finite(if is_exact { short } else { root }, a.negative, preferred)
    }

    pub(crate) fn exponential(&self) -> Self {
        match self {
            Self::Finite(a) => Self::exponential_of(&a.value),
            Self::Infinite { negative: true } => Self::ZERO,
            other => other.clone(),
        }
    }

    fn exponential_of(value: &Exact) -> Self {
        match value.to_double() {
            0.0 => Self::of_integer(1),
            large if large > 14_200.0 => Self::Infinite { negative: false },
            small if small < -14_300.0 => Self::of_series(Exact::of(false, 0, 0)),
            _ => Self::of_series(exponential(value)),
        }
    }

    /// Returns the result of a series, which has 34 digits because it is never exact.
    pub(super) fn of_series(value: Exact) -> Self {
        let negative = value.negative;
        Self::finite(value, negative, LEAST_POWER)
    }

    /// Returns the natural logarithm of a positive number.
    pub(crate) fn logarithm(&self) -> Self {
        match self {
            Self::Finite(a) if !a.value.is_zero() && !a.negative => {
                let value = logarithm(&a.value);
                let is_one = value.is_zero();
                if is_one {
                    Self::ZERO
                } else {
                    Self::of_series(value)
                }
            }
            Self::Infinite { negative: false } => self.clone(),
            _ => Self::NotANumber,
        }
    }

    /// Returns the logarithm of a positive number to the base 10.
    pub(crate) fn logarithm_10(&self) -> Self {
        match self {
            Self::Finite(a) if a.value.digits == [1] && !a.negative => {
                Self::of_integer(a.value.power())
            }
            Self::Finite(a) if !a.value.is_zero() && !a.negative => {
                let quotient = logarithm(&a.value).divide(&Exact::parse(LN_10), WORKING_DIGITS);
                Self::of_series(quotient)
            }
            other => other.logarithm(),
        }
    }

    /// Returns this number to the power of another.
    pub(crate) fn power(&self, other: &Self) -> Self {
        let one = Self::of_integer(1);
        let (Self::Finite(a), Self::Finite(b)) = (self, other) else {
            let double = |number: &Self| match number {
                Self::NotANumber => f64::NAN,
                Self::Infinite { negative: true } => f64::NEG_INFINITY,
                Self::Infinite { negative: false } => f64::INFINITY,
                Self::Finite(finite) => finite.value.to_double(),
            };
            return Self::shortest(double(self).powf(double(other)));
        };
        if b.value.is_zero() {
            return one;
        }
        if a.value.is_zero() {
            return match other.is_negative() {
                true => Self::Infinite { negative: false },
                false => Self::ZERO,
            };
        }
        let is_whole = b.value.power() >= 0;
        if a.negative && !is_whole {
            return Self::NotANumber;
        }
        let is_odd = b.value.power() == 0 && b.value.digits.last().is_some_and(|d| d % 2 == 1);
        let negative = a.negative && is_odd;
        let mut base = a.value.clone();
        base.negative = false;
        let small = b.value.to_integer().filter(|n| n.abs() <= MAX_REPEATED);
        let Some(small) = small else {
            let exponent = cut(logarithm(&base).multiply(&b.value));
            return Self::exponential_of(&exponent).with_sign(negative);
        };
        let mut result = Exact::of(false, 1, 0);
        let mut left = small.unsigned_abs();
        while left > 0 {
            if left % 2 == 1 {
                result = cut(result.multiply(&base));
            }
            base = cut(base.multiply(&base));
            left /= 2;
        }
        if small < 0 {
            result = Exact::of(false, 1, 0).divide(&result, WORKING_DIGITS);
        }
        Self::finite(result, negative, 0).with_sign(negative)
    }
}

/// The largest exponent for which a power is computed by multiplications.
const MAX_REPEATED: i64 = 1000;

pub(super) fn cut(value: Exact) -> Exact {
    value.rounded(
        i64::try_from(WORKING_DIGITS).unwrap_or(DIGITS),
        Rounding::HalfEven,
    )
}

/// Returns the square root by Newton's method. The root of a double has 16 of its digits.
pub(super) fn square_root(value: &Exact) -> Exact {
    if value.is_zero() {
        return value.clone();
    }
    let half = value.exponent.div_euclid(2);
    let mut scaled = value.clone();
    scaled.exponent = value.exponent - 2 * half;
    let mut root = Exact::parse(&format!("{:e}", scaled.to_double().sqrt()));
    for _ in 0..3 {
        let quotient = scaled.divide(&root, WORKING_DIGITS);
        root = cut(root.add(&quotient).multiply(&Exact::parse("0.5")));
    }
    root.exponent += half;
    root
}

/// Returns e to the power of a number whose result is not too large.
pub(super) fn exponential(value: &Exact) -> Exact {
    let tens = (value.to_double() / std::f64::consts::LN_10).round() as i64;
    let shift = Exact::parse(LN_10).multiply(&Exact::of(tens < 0, tens.unsigned_abs().into(), 0));
    // A part of 256 has few terms. The result is squared eight times.
    let part = value
        .add(&shift.negated())
        .multiply(&Exact::parse("0.00390625"));
    let part = cut(part);
    let (mut term, mut sum) = (Exact::of(false, 1, 0), Exact::of(false, 1, 0));
    let least = -i64::try_from(WORKING_DIGITS).unwrap_or(DIGITS);
    for n in 1..60 {
        term = term
            .multiply(&part)
            .divide(&Exact::of(false, n, 0), WORKING_DIGITS);
        term = cut(term);
        if term.is_zero() || term.exponent < least {
            break;
        }
        sum = cut(sum.add(&term));
    }
    for _ in 0..8 {
        sum = cut(sum.multiply(&sum));
    }
    sum.exponent += tens;
    sum
}

/// Returns the natural logarithm of a positive number. The logarithm of a double is corrected
/// twice, and each time has three times as many digits.
pub(super) fn logarithm(value: &Exact) -> Exact {
    let mut near = value.clone();
    near.exponent = 0;
    if near.to_double() < 0.316 {
        near.exponent = 1;
    }
    let tens = value.exponent - near.exponent;
    let mut logarithm = Exact::parse(&format!("{:e}", near.to_double().ln()));
    for _ in 0..2 {
        let power = exponential(&logarithm);
        let (difference, sum) = (near.add(&power.negated()), near.add(&power));
        let quotient = difference.divide(&sum, WORKING_DIGITS);
        let correction = cut(quotient.multiply(&Exact::of(false, 2, 0)));
        logarithm = cut(logarithm.add(&correction));
    }
    let shift = Exact::parse(LN_10).multiply(&Exact::of(tens < 0, tens.unsigned_abs().into(), 0));
    cut(logarithm.add(&shift))
}

#[cfg(test)]
mod tests {
    use super::super::decimal::tests::{check, decimal};

    #[test]
    fn roots_powers_and_logarithms_have_34_digits() {
        let d = decimal;
        check([
            (d("4").square_root(), "2"),
            (d("2").square_root(), "1.414213562373095048801688724209698"),
            (d("0.0625").square_root(), "0.25"),
            (d("-0").square_root(), "-0"),
            (d("1").exponential(), "2.718281828459045235360287471352662"),
            (d("0").exponential(), "1"),
            (d("2.5").logarithm(), "0.9162907318741550651835272117680111"),
            (d("1").logarithm(), "0"),
            (
                d("1.000000000000000078").logarithm(),
                "7.799999999999999695800000000000016E-17",
            ),
            (
                d("1.00000000000000000000000000044").logarithm(),
                "4.399999999999999999999999999032000E-28",
            ),
            (
                d("29.39812734491141").power(&d("3.447740114002169")),
                "115447.5219837662505044381009913057",
            ),
            (
                d("2").logarithm_10(),
                "0.3010299956639811952137388947244930",
            ),
            (d("1E+400").logarithm_10(), "400"),
            (d("0.001").logarithm_10(), "-3"),
            (d("2").power(&d("3")), "8"),
            (d("2").power(&d("-1")), "0.5"),
            (d("-2").power(&d("3")), "-8"),
            (
                d("2").power(&d("0.5")),
                "1.414213562373095048801688724209698",
            ),
            (d("-2").power(&d("0.5")), "NaN"),
            (d("10").power(&d("9000")), "Infinity"),
        ]);
    }
}
