//! Expressions that compute with one number.

use bson::Bson;

use super::math::{DECIMAL, SERIES, charge, decimal, is_positive};
use super::operators::{exactly, is_null, list, null_if_missing};
use super::{Evaluated, Scope, numeric};
use crate::store::decimal::Decimal;
use crate::store::error::StoreError;
use crate::store::exact::Rounding;
use crate::store::order::{display, type_name};
use crate::store::{Answer, number};

pub(super) fn function(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if matches!(name, "$round" | "$trunc") {
        return round(name, operand, scope);
    }
    let [value] = exactly(name, operand, scope)?;
    let Some(value) = numeric(name, value)? else {
        return Ok(Some(Bson::Null));
    };
    let is_series = matches!(name, "$sqrt" | "$exp" | "$ln" | "$log10");
    charge([&value], if is_series { SERIES } else { DECIMAL }, scope)?;
    check_domain(name, &value)?;
    let x = number::as_double(&value).unwrap_or(f64::NAN);
    Ok(Some(match &value {
        Bson::Decimal128(_) => of_decimal(name, &decimal(&value)).to_bson(),
        Bson::Int32(_) | Bson::Int64(_) if name == "$abs" => {
            let sign = Bson::Int32(if x < 0.0 { -1 } else { 1 });
            let overflow = || StoreError::new(28680, "can't take $abs of long long min");
            number::multiply(&value, &sign).ok_or_else(overflow)?
        }
        Bson::Int32(_) | Bson::Int64(_) if matches!(name, "$floor" | "$ceil") => value,
        _ => Bson::Double(match name {
            "$abs" => x.abs(),
            "$floor" => x.floor(),
            "$ceil" => x.ceil(),
            "$sqrt" => x.sqrt(),
            "$log10" => x.log10(),
            "$exp" => x.exp(),
            _ => x.ln(),
        }),
    }))
}

/// Returns an error if a function is not defined for a value.
fn check_domain(name: &str, value: &Bson) -> Answer<()> {
    let (is_valid, code) = match name {
        "$sqrt" => (is_positive(value) || number::is_zero(value), 28714),
        "$ln" => (is_positive(value), 28766),
        "$log10" => (is_positive(value), 28761),
        _ => return Ok(()),
    };
    if is_valid {
        return Ok(());
    }
    let shown = display(value);
    let text = match name {
        "$sqrt" => "$sqrt's argument must be greater than or equal to 0".to_owned(),
        _ => format!("{name}'s argument must be a positive number, but is {shown}"),
    };
    Err(StoreError::new(code, text))
}

fn of_decimal(name: &str, value: &Decimal) -> Decimal {
    match name {
        "$abs" => value.absolute(),
        "$floor" => value.quantized(0, Rounding::Down),
        "$ceil" => value.quantized(0, Rounding::Up),
        "$sqrt" => value.square_root(),
        "$log10" => value.logarithm_10(),
        "$exp" => value.exponential(),
        _ => value.logarithm(),
    }
}

/// Evaluates `$round` and `$trunc`. The second operand is the number of digits behind the point,
/// and negative for digits in front of it.
fn round(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let mut values = list(operand, scope)?.into_iter();
    let value = values.next().flatten();
    if is_null(&value) {
        return Ok(Some(Bson::Null));
    }
    let value = null_if_missing(value);
    if !number::is_number(&value) {
        let kind = type_name(&value);
        let text = format!("{name} only supports numeric types, not {kind}");
        return Err(StoreError::new(51081, text));
    }
    let places = match values.next() {
        None => 0,
        Some(places) if is_null(&places) => return Ok(Some(Bson::Null)),
        Some(places) => precision(name, &null_if_missing(places))?,
    };
    charge([&value], DECIMAL, scope)?;
    let rounding = match name {
        "$round" => Rounding::HalfEven,
        _ => Rounding::TowardZero,
    };
    Ok(Some(match &value {
        Bson::Double(x) => Bson::Double(round_double(*x, places, rounding)),
        Bson::Decimal128(_) => match decimal(&value) {
            infinite @ Decimal::Infinite { .. } => infinite.to_bson(),
            finite => finite.quantized(-i64::from(places), rounding).to_bson(),
        },
        _ => round_integer(name, &value, places, rounding)?,
    }))
}

/// Returns the number of digits that an operand of `$round` or `$trunc` names.
fn precision(name: &str, value: &Bson) -> Answer<i32> {
    if !number::is_number(value) {
        let kind = type_name(value);
        let text = format!("can't convert from BSON type {kind} to long");
        return Err(StoreError::new(16004, text));
    }
    if number::truncated(value).is_none() {
        let shown = display(value);
        let text = format!("Can't coerce out of range value {shown} to long");
        return Err(StoreError::new(31109, text));
    }
    let places = number::as_int32(value).ok_or_else(|| {
        let text = format!("precision argument to  {name} must be a integral value");
        StoreError::new(51082, text)
    })?;
    if !(-20..=100).contains(&places) {
        let text = format!(
            "cannot apply {name} with precision value {places} value must be in [-20, 100]"
        );
        return Err(StoreError::new(51083, text));
    }
    Ok(places)
}

/// Rounds the 34 first digits of a double. A double without so many places stays as it is.
fn round_double(x: f64, places: i32, rounding: Rounding) -> f64 {
    match (places, rounding) {
        (0, Rounding::HalfEven) => return x.round_ties_even(),
        (0, _) => return x.trunc(),
        _ if !x.is_finite() => return x,
        _ => {}
    }
    match Decimal::all_digits(x).quantized(-i64::from(places), rounding) {
        // The sign of a zero is kept.
        zero if zero.is_zero() => 0.0_f64.copysign(x),
        Decimal::Finite(finite) => finite.value.to_double(),
        _ => x,
    }
}

fn round_integer(name: &str, value: &Bson, places: i32, rounding: Rounding) -> Answer<Bson> {
    let whole = i128::from(number::as_integer(value).unwrap_or(0));
    if places >= 0 {
        return Ok(value.clone());
    }
    let unit = 10_i128.pow(places.unsigned_abs());
    let (quotient, rest) = (whole / unit, (whole % unit).abs());
    let half = (rest * 2).cmp(&unit);
    let is_away =
        rounding == Rounding::HalfEven && (half.is_gt() || half.is_eq() && quotient % 2 != 0);
    let step = if is_away { whole.signum() } else { 0 };
    let result = i64::try_from((quotient + step) * unit).map_err(|_| {
        let text = format!(
            "invalid conversion from Decimal128 result in {name} resulting from arguments: \
             [{whole}, {places}]"
        );
        StoreError::new(51080, text)
    })?;
    Ok(match (value, i32::try_from(result)) {
        (Bson::Int32(_), Ok(small)) => Bson::Int32(small),
        _ => Bson::Int64(result),
    })
}

/// The number of radians of one degree, and of degrees of one radian.
const RADIANS: &str = "0.01745329251994329576923690768488613";
const DEGREES: &str = "57.29577951308232087679815481410517";

pub(super) fn trigonometry(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let [value] = exactly(name, operand, scope)?;
    let Some(value) = numeric(name, value)? else {
        return Ok(Some(Bson::Null));
    };
    let is_decimal = charge([&value], SERIES, scope)?;
    let factor = match name {
        "$degreesToRadians" => RADIANS.parse(),
        _ => DEGREES.parse(),
    };
    if let (true, "$degreesToRadians" | "$radiansToDegrees", Ok(factor)) =
        (is_decimal, name, factor)
    {
        let product = decimal(&value).multiply(&Decimal::of_decimal(factor));
        return Ok(Some(product.to_bson()));
    }
    check_angle(name, &value)?;
    if is_decimal && let Some(angle) = decimal(&value).angle(name) {
        return Ok(Some(angle.to_bson()));
    }
    let x = number::as_double(&value).unwrap_or(f64::NAN);
    let result = match name {
        "$sin" => x.sin(),
        "$cos" => x.cos(),
        "$tan" => x.tan(),
        "$asin" => x.asin(),
        "$acos" => x.acos(),
        "$atan" => x.atan(),
        "$sinh" => x.sinh(),
        "$cosh" => x.cosh(),
        "$tanh" => x.tanh(),
        "$asinh" => x.asinh(),
        "$acosh" => x.acosh(),
        "$atanh" => x.atanh(),
        "$degreesToRadians" => x.to_radians(),
        _ => x.to_degrees(),
    };
    Ok(Some(match is_decimal {
        true => number::decimal(result),
        false => Bson::Double(result),
    }))
}

/// Returns an error if a trigonometric function is not defined for a value. NaN is allowed.
fn check_angle(name: &str, value: &Bson) -> Answer<()> {
    let x = number::as_double(value).unwrap_or(f64::NAN);
    let at_least = |least: i32| number::compare(value, &Bson::Int32(least)).is_ge();
    let at_most_one = || number::compare(value, &Bson::Int32(1)).is_le();
    let (is_valid, range) = match name {
        _ if x.is_nan() => return Ok(()),
        "$sin" | "$cos" | "$tan" => {
            let is_infinite = match value {
                Bson::Decimal128(_) => matches!(decimal(value), Decimal::Infinite { .. }),
                _ => x.is_infinite(),
            };
            (!is_infinite, "(-inf,inf)")
        }
        "$asin" | "$acos" | "$atanh" => (at_least(-1) && at_most_one(), "[-1,1]"),
        "$acosh" => (at_least(1), "[1,inf]"),
        _ => return Ok(()),
    };
    if is_valid {
        return Ok(());
    }
    let shown = display(value);
    let text = format!("cannot apply {name} to {shown}, value must be in {range}");
    Err(StoreError::new(50989, text))
}
