//! Exact arithmetic on decimal numbers of any length.

use std::cmp::Ordering;

/// How a number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest number, or to the even one of two: the default of IEEE 754.
    HalfEven,
    TowardZero,
    Up,
    Down,
}

/// An exact decimal: `0.DIGITS * 10^exponent`, without leading or trailing zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) negative: bool,
    pub(super) digits: Vec<u8>,
    pub(super) exponent: i64,
}

impl Exact {
    /// Parses a decimal number such as `-12.5E+3`.
    pub(super) fn parse(text: &str) -> Self {
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

    pub(super) fn compare(&self, other: &Self) -> Ordering {
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

    pub(super) fn add(&self, other: &Self) -> Self {
        let last = |e: &Self| e.exponent - i64::try_from(e.digits.len()).unwrap_or(0);
        // A number that is much smaller does not change the digits of a result.
        let much = 80;
        let (is_zero, other_is_zero) = (self.is_zero(), other.is_zero());
        if is_zero || !other_is_zero && other.exponent - self.exponent > much {
            return other.clone();
        }
        if other_is_zero || self.exponent - other.exponent > much {
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

    pub(super) fn multiply(&self, other: &Self) -> Self {
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

    /// Divides two numbers. If the quotient has more than `wanted` digits, then a further digit
    /// stands for all others, so that the quotient is rounded correctly. The divisor is not zero.
    pub(super) fn divide(&self, other: &Self, wanted: usize) -> Self {
        let divisor: Vec<u8> = std::iter::once(0)
            .chain(other.digits.iter().copied())
            .collect();
        let mut rest = vec![0; divisor.len()];
        let (mut digits, mut significant) = (Vec::new(), 0);
        let mut given = self.digits.iter();
        loop {
            let next = given.next();
            let is_left = rest.iter().any(|digit| *digit != 0);
            if next.is_none() && (!is_left || significant >= wanted || divisor.len() == 1) {
                digits.extend(is_left.then_some(1));
                break;
            }
            rest.rotate_left(1);
            if let Some(last) = rest.last_mut() {
                *last = next.copied().unwrap_or(0);
            }
            let mut digit = 0;
            while rest >= divisor && digit < 9 {
                subtract_digits(&mut rest, &divisor);
                digit += 1;
            }
            digits.push(digit);
            significant += usize::from(significant > 0 || digit > 0);
        }
        let length = i64::try_from(other.digits.len()).unwrap_or(0);
        Self {
            negative: self.negative != other.negative,
            digits,
            exponent: self.exponent - other.exponent + length,
        }
        .trimmed()
    }

    /// Rounds to `places` digits behind the point of `0.DIGITS`.
    pub(super) fn rounded(mut self, places: i64, rounding: Rounding) -> Self {
        let kept = usize::try_from(places).unwrap_or(0);
        if places >= 0 && self.digits.len() <= kept || self.digits.is_empty() {
            return self;
        }
        let rest = self.digits.split_off(kept);
        let half = match places < 0 {
            true => Ordering::Less,
            false => rest[0].cmp(&5).then(rest.len().cmp(&1)),
        };
        let is_odd = self.digits.last().is_some_and(|digit| digit % 2 == 1);
        let is_up = match rounding {
            Rounding::HalfEven => half.is_gt() || half.is_eq() && is_odd,
            Rounding::TowardZero => false,
            Rounding::Up => !self.negative,
            Rounding::Down => self.negative,
        };
        if is_up {
            self.digits.insert(0, 0);
            self.exponent += 1 - places.min(0);
            let mut one = vec![0; self.digits.len()];
            if let Some(last) = one.last_mut() {
                *last = 1;
            }
            add_digits(&mut self.digits, &one);
        }
        self.trimmed()
    }

    /// Returns the number as an integer, or `None` if it has a fraction or is too large.
    pub(super) fn to_integer(&self) -> Option<i64> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let length = usize::try_from(self.exponent).ok()?;
        if length < self.digits.len() || length > 19 {
            return None;
        }
        let digits = self.digits.iter().copied().chain(std::iter::repeat(0));
        let whole = digits
            .take(length)
            .fold(0, |n: i128, digit| n * 10 + i128::from(digit));
        i64::try_from(if self.negative { -whole } else { whole }).ok()
    }

    /// Returns the number as a double, possibly rounded.
    pub(super) fn to_double(&self) -> f64 {
        let digits: String = self.digits.iter().map(|d| char::from(b'0' + d)).collect();
        let sign = if self.negative { "-" } else { "" };
        let text = format!("{sign}0.{digits}0e{}", self.exponent);
        text.parse().unwrap_or(f64::NAN)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn negated(&self) -> Self {
        Self {
            negative: !self.negative && !self.is_zero(),
            ..self.clone()
        }
    }

    /// Returns the power of ten of the last digit.
    pub(super) fn power(&self) -> i64 {
        self.exponent - i64::try_from(self.digits.len()).unwrap_or(0)
    }

    /// Returns the digits as an integer. There are at most 38.
    pub(super) fn coefficient(&self) -> u128 {
        let digits = self.digits.iter();
        digits.fold(0, |n: u128, d| {
            n.wrapping_mul(10).wrapping_add(u128::from(*d))
        })
    }

    /// Returns the integer `coefficient`, times a power of ten.
    pub(super) fn of(negative: bool, coefficient: u128, power: i64) -> Self {
        let digits: Vec<u8> = coefficient.to_string().bytes().map(|b| b - b'0').collect();
        let exponent = power + i64::try_from(digits.len()).unwrap_or(0);
        Self {
            negative,
            digits,
            exponent,
        }
        .trimmed()
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
