//! The trigonometric and the hyperbolic functions of decimals.

use std::cmp::Ordering;

use super::decimal::{Decimal, WORKING_DIGITS};
use super::exact::{Exact, Rounding};
use super::series::{cut, exponential, logarithm, square_root};

/// Half of pi.
const HALF_PI: &str = "1.5707963267948966192313216916397514420985846996875529104874722961539082\
                       0314310449931401741267105853399107404325664115332354692";

/// The largest exponent of a number whose sine is computed.
const LARGEST_EXPONENT: i64 = 34;

/// The largest number whose hyperbolic sine is no infinity, rounded up.
const LARGEST_HYPERBOLIC: f64 = 14_200.0;

/// The exponent of numbers that are so small that a series has three terms.
const SMALL: i64 = -20;

impl Decimal {
    /// Returns the value of a function such as `$sin`. The number is in its domain. Returns `None`
    /// for the sine of a number that is too large to be computed.
    pub(crate) fn angle(&self, function: &str) -> Option<Self> {
        let Self::Finite(finite) = self else {
            return Some(self.limit(function));
        };
        let (x, negative) = (&finite.value, finite.negative);
        if x.is_zero() {
            return Some(of_zero(function, negative));
        }
        let one = Exact::of(false, 1, 0);
        let is_one = x.digits == [1] && x.exponent == 1;
        Some(match function {
            "$sin" | "$cos" | "$tan" if x.exponent > LARGEST_EXPONENT => return None,
            "$sin" => Self::of_series(sine_and_cosine(x).0),
            "$cos" => Self::of_series(sine_and_cosine(x).1),
            "$tan" => {
                let (sine, cosine) = sine_and_cosine(x);
                Self::of_series(sine.divide(&cosine, WORKING_DIGITS))
            }
            "$atan" => Self::of_series(arc_tangent(x)),
            "$asin" if is_one => Self::of_series(signed(half_pi(), negative)),
            "$asin" => {
                let other = square_root(&one.add(&x.multiply(x).negated()));
                Self::of_series(arc_tangent(&x.divide(&other, WORKING_DIGITS)))
            }
            "$acos" if is_one && negative => Self::of_series(twice(&half_pi())),
            "$acos" if is_one => of_zero("$sin", false),
            "$acos" => {
                let (less, more) = (one.add(&x.negated()), one.add(x));
                let tangent = square_root(&less.divide(&more, WORKING_DIGITS));
                Self::of_series(twice(&arc_tangent(&tangent)))
            }
            "$sinh" | "$cosh" | "$tanh" => hyperbolic(function, x),
            "$asinh" if x.exponent < SMALL => Self::of_series(small(x, -6, (3, 40))),
            "$asinh" => {
                let size = signed(x.clone(), false);
                let root = square_root(&x.multiply(x).add(&one));
                Self::of_series(signed(logarithm(&cut(size.add(&root))), negative))
            }
            "$acosh" if is_one => of_zero("$sin", false),
            "$acosh" => {
                let root = square_root(&x.multiply(x).add(&one.negated()));
                Self::of_series(logarithm(&cut(x.add(&root))))
            }
            _ if is_one => Self::Infinite { negative },
            _ if x.exponent < SMALL => Self::of_series(small(x, 3, (1, 5))),
            _ => {
                let (less, more) = (one.add(&x.negated()), one.add(x));
                let quotient = more.divide(&less, WORKING_DIGITS);
                Self::of_series(cut(logarithm(&quotient).multiply(&Exact::parse("0.5"))))
            }
        })
    }

    /// Returns the value of a function for an infinity or for NaN.
    fn limit(&self, function: &str) -> Self {
        let negative = self.is_negative();
        match (self, function) {
            (Self::NotANumber, _) => Self::NotANumber,
            (_, "$atan") => Self::of_series(signed(half_pi(), negative)),
            (_, "$cosh") => Self::Infinite { negative: false },
            (_, "$tanh") => Self::of_integer(if negative { -1 } else { 1 }),
            (_, "$sinh" | "$asinh" | "$acosh") => self.clone(),
            _ => Self::NotANumber,
        }
    }
}

/// Returns the value of a function for zero. The functions differ in the place of the last digit.
fn of_zero(function: &str, negative: bool) -> Decimal {
    let power = match function {
        "$cos" | "$cosh" => return Decimal::of_series(Exact::of(false, 1, 0)),
        "$acos" => return Decimal::of_series(half_pi()),
        "$tan" | "$asin" | "$sinh" => -40,
        "$asinh" | "$atanh" => -6176,
        _ => 0,
    };
    Decimal::finite(Exact::of(false, 0, 0), negative, power)
}

fn half_pi() -> Exact {
    Exact::parse(HALF_PI)
}

fn twice(x: &Exact) -> Exact {
    x.add(x)
}

fn signed(mut x: Exact, negative: bool) -> Exact {
    x.negative = negative;
    x
}

/// Returns `x + x^3 / cube + numerator x^5 / denominator`, which is enough for a small number.
fn small(x: &Exact, cube: i64, (numerator, denominator): (u128, u128)) -> Exact {
    let square = cut(x.multiply(x));
    let third = cut(square.multiply(x));
    let divisor = Exact::of(cube < 0, cube.unsigned_abs().into(), 0);
    let fifth = cut(third.multiply(&square)).multiply(&Exact::of(false, numerator, 0));
    let fifth = fifth.divide(&Exact::of(false, denominator, 0), WORKING_DIGITS);
    cut(x.add(&third.divide(&divisor, WORKING_DIGITS)).add(&fifth))
}

/// Sums a series of the odd or the even powers of a number, whose first term is `first`. Each term
/// is made of the one before by `next`, which gets its place.
fn sum(first: Exact, next: impl Fn(&Exact, u128) -> Exact) -> Exact {
    let least = first.exponent - i64::try_from(WORKING_DIGITS).unwrap_or(0);
    let (mut total, mut term) = (first.clone(), first);
    for place in 1..100 {
        term = cut(next(&term, place));
        if term.is_zero() || term.exponent < least {
            break;
        }
        total = cut(total.add(&term));
    }
    total
}

fn sine_and_cosine(x: &Exact) -> (Exact, Exact) {
    let quarter = half_pi();
    let turns = x.divide(&quarter, WORKING_DIGITS);
    let places = turns.exponent;
    let turns = turns.rounded(places, Rounding::HalfEven);
    let rest = cut(x.add(&turns.multiply(&quarter).negated()));
    let scale = u32::try_from(turns.power().max(0)).unwrap_or(0);
    let count = turns.coefficient() * 10_u128.checked_pow(scale).unwrap_or(0);
    let square = cut(rest.multiply(&rest)).negated();
    let term = |first: u128| {
        let square = square.clone();
        move |term: &Exact, place: u128| {
            let divisor = (2 * place + first - 1) * (2 * place + first);
            let product = term.multiply(&square);
            product.divide(&Exact::of(false, divisor, 0), WORKING_DIGITS)
        }
    };
    let cosine = sum(Exact::of(false, 1, 0), term(0));
    let sine = match rest.is_zero() {
        true => rest,
        false => sum(rest, term(1)),
    };
    match (count % 4, turns.negative) {
        (0, _) => (sine, cosine),
        (1, false) | (3, true) => (cosine, sine.negated()),
        (2, _) => (sine.negated(), cosine.negated()),
        _ => (cosine.negated(), sine),
    }
}

fn arc_tangent(x: &Exact) -> Exact {
    let one = Exact::of(false, 1, 0);
    let size = signed(x.clone(), false);
    let is_large = size.compare(&one) == Ordering::Greater;
    let mut part = match is_large {
        true => one.divide(&size, WORKING_DIGITS),
        false => size,
    };
    // Each of these steps halves the angle.
    for _ in 0..4 {
        let root = square_root(&cut(part.multiply(&part)).add(&one));
        part = cut(part.divide(&one.add(&root), WORKING_DIGITS));
    }
    let square = cut(part.multiply(&part)).negated();
    let angle = sum(part, |term, place| {
        let factor = square.multiply(&Exact::of(false, 2 * place - 1, 0));
        term.multiply(&factor)
            .divide(&Exact::of(false, 2 * place + 1, 0), WORKING_DIGITS)
    });
    let angle = cut(angle.multiply(&Exact::of(false, 16, 0)));
    let angle = match is_large {
        true => half_pi().add(&angle.negated()),
        false => angle,
    };
    signed(angle, x.negative)
}

fn hyperbolic(function: &str, x: &Exact) -> Decimal {
    let is_large = x.to_double().abs() > LARGEST_HYPERBOLIC;
    let power = match is_large {
        true => {
            return Decimal::Infinite {
                negative: x.negative,
            }
            .limit(function);
        }
        false => exponential(x),
    };
    let inverse = Exact::of(false, 1, 0).divide(&power, WORKING_DIGITS);
    let half = Exact::parse("0.5");
    let cosine = cut(power.add(&inverse).multiply(&half));
    let sine = match x.exponent < SMALL {
        true => small(x, 6, (1, 120)),
        false => cut(power.add(&inverse.negated()).multiply(&half)),
    };
    Decimal::of_series(match function {
        "$sinh" => sine,
        "$cosh" => cosine,
        _ => sine.divide(&cosine, WORKING_DIGITS),
    })
}

#[cfg(test)]
mod tests {
    use super::super::decimal::tests::decimal;

    fn check(table: impl IntoIterator<Item = (&'static str, &'static str, &'static str)>) {
        for (function, number, expected) in table {
            let angle = decimal(number).angle(function).expect("an angle");
            let expected = decimal(expected).to_bson();
            assert_eq!(angle.to_bson(), expected, "{function} of {number}");
        }
    }

    /// Functions, their arguments and their values.
    const ANGLES: [(&str, &str, &str); 24] = [
        (
            "$sin",
            "9.470803828730424E-19",
            "9.470803828730424000000000000000000E-19",
        ),
        (
            "$sin",
            "-580696.4313605888",
            "0.9645356315505169005396071837091821",
        ),
        (
            "$cos",
            "0.012500243810835504",
            "0.9999218729696615075373769132875210",
        ),
        (
            "$cos",
            "8683079605.041327",
            "-0.8190498588065378153355171345634324",
        ),
        (
            "$tan",
            "-0.013012496599855783",
            "-0.01301323109689283191432590327629166",
        ),
        (
            "$tan",
            "-4.762442183880261E-14",
            "-4.762442183880261000000000003600542E-14",
        ),
        (
            "$asin",
            "-0.9736640168902517",
            "-1.340785895669429628995414892684145",
        ),
        (
            "$asin",
            "6.018175419704566E-13",
            "6.018175419704566000000000363281496E-13",
        ),
        (
            "$acos",
            "4.342960785368606E-7",
            "1.570795892498818082357069371194884",
        ),
        (
            "$acos",
            "0.9999999",
            "0.0004472135992267379856340358796153253",
        ),
        (
            "$atan",
            "2.140376691452995E-16",
            "2.140376691452994999999999999999967E-16",
        ),
        (
            "$atan",
            "-1.292318685701289E-21",
            "-1.292318685701289000000000000000000E-21",
        ),
        (
            "$sinh",
            "-0.3667904699805292",
            "-0.3750703454657367032395064680063808",
        ),
        (
            "$sinh",
            "5.480704169603969E-15",
            "5.480704169603969000000000000027438E-15",
        ),
        (
            "$cosh",
            "-4.381250344027819E-32",
            "1.000000000000000000000000000000000",
        ),
        (
            "$cosh",
            "-9.864416021555491E-19",
            "1.000000000000000000000000000000000",
        ),
        (
            "$tanh",
            "8.221767213350955E-41",
            "8.221767213350955000000000000000000E-41",
        ),
        (
            "$tanh",
            "-4.4922997490491376E-8",
            "-4.492299749049134578066341155635586E-8",
        ),
        (
            "$asinh",
            "-89.73644473698023",
            "-5.190055207264300194339437786687404",
        ),
        (
            "$asinh",
            "-1.1400800100927268E-19",
            "-1.140080010092726800000000000000000E-19",
        ),
        (
            "$acosh",
            "101.35050625958743",
            "5.311707709534456610247073013027485",
        ),
        (
            "$acosh",
            "674959.1599301047",
            "14.11555464477638194697473565635438",
        ),
        (
            "$atanh",
            "0.9999999999",
            "11.85949905522520107479794833415089",
        ),
        (
            "$atanh",
            "0.999999999999",
            "14.16208414824399675881656472633527",
        ),
    ];

    #[test]
    fn angles_have_34_digits() {
        check(ANGLES);
    }

    #[test]
    fn zeros_and_limits_have_values_of_their_own() {
        check([
            ("$sin", "-0", "-0"),
            ("$cos", "-0", "1.000000000000000000000000000000000"),
            ("$tan", "0", "0E-40"),
            ("$acos", "0", "1.570796326794896619231321691639751"),
            ("$acos", "-1", "3.141592653589793238462643383279503"),
            ("$asin", "1", "1.570796326794896619231321691639751"),
            ("$asinh", "-0", "-0E-6176"),
            ("$atanh", "-1", "-Infinity"),
            ("$atan", "Infinity", "1.570796326794896619231321691639751"),
            ("$tanh", "-Infinity", "-1"),
            ("$cosh", "-Infinity", "Infinity"),
            ("$sinh", "-1E+9", "-Infinity"),
            ("$sin", "NaN", "NaN"),
        ]);
    }
}
