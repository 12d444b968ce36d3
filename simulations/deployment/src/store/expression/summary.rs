//! The accumulators of numbers.

use bson::Bson;

use super::EvaluationContext;
use crate::store::decimal::Decimal;
use crate::store::number;

/// Returns the `$sum`, `$avg`, `$min`, `$max` or standard deviation of values. All but `$min` and
/// `$max` ignore values that are not numbers.
pub(crate) fn summary(name: &str, values: &[Bson], context: &EvaluationContext) -> Bson {
    let present = values
        .iter()
        .filter(|v| !matches!(v, Bson::Null | Bson::Undefined));
    match name {
        "$stdDevPop" | "$stdDevSamp" => deviation(name, values),
        "$min" => present
            .min_by(|a, b| context.compare(a, b))
            .cloned()
            .unwrap_or(Bson::Null),
        "$max" => present
            .max_by(|a, b| context.compare(a, b))
            .cloned()
            .unwrap_or(Bson::Null),
        _ => {
            let numbers: Vec<&Bson> = values.iter().filter(|v| number::is_number(v)).collect();
            let mut total = Total::default();
            numbers.iter().for_each(|value| total.add(value));
            let sum = total.value();
            match (name, &sum, numbers.len()) {
                ("$sum", _, _) => sum,
                (_, _, 0) => Bson::Null,
                (_, Bson::Decimal128(total), n) => {
                    let count = Decimal::of_integer(i64::try_from(n).unwrap_or(i64::MAX));
                    Decimal::of_decimal(*total).divide(&count).to_bson()
                }
                (_, _, n) => Bson::Double(number::as_double(&sum).unwrap_or(0.0) / n as f64),
            }
        }
    }
}

/// A sum of numbers. Its type is the widest one of its parts.
#[derive(Default)]
struct Total {
    /// The sum of the int32 and int64, of which there are too few for an overflow.
    integers: i128,
    has_longs: bool,
    doubles: Option<Compensated>,
    /// The sum of the decimal128, if there are any.
    decimals: Option<Bson>,
}

impl Total {
    fn add(&mut self, value: &Bson) {
        match value {
            Bson::Int32(n) => self.integers += i128::from(*n),
            Bson::Int64(n) => {
                self.integers += i128::from(*n);
                self.has_longs = true;
            }
            Bson::Double(n) => self.doubles.get_or_insert_default().add(*n),
            decimal => {
                let sum = self.decimals.as_ref();
                let sum = sum.and_then(|sum| number::add_all_digits(sum, decimal));
                self.decimals = Some(sum.unwrap_or_else(|| decimal.clone()));
            }
        }
    }

    fn value(self) -> Bson {
        let integers = i64::try_from(self.integers);
        let mut doubles = self.doubles.unwrap_or_default();
        if let Some(decimals) = self.decimals {
            let others = doubles.parts().map(Bson::Double);
            let integers = integers.map_or(Bson::Double(self.integers as f64), Bson::Int64);
            return others
                .iter()
                .chain([&integers])
                .fold(decimals, |sum, part| {
                    number::add_all_digits(&sum, part).unwrap_or(sum)
                });
        }
        match integers {
            Ok(sum) if self.doubles.is_none() => match i32::try_from(sum) {
                Ok(sum) if !self.has_longs => Bson::Int32(sum),
                _ => Bson::Int64(sum),
            },
            _ => {
                let rounded = self.integers as f64;
                doubles.add(rounded);
                doubles.add((self.integers - rounded as i128) as f64);
                Bson::Double(doubles.value())
            }
        }
    }
}

/// A sum of doubles with the error of its rounding, as the server adds them.
#[derive(Clone, Copy, Default)]
struct Compensated {
    sum: f64,
    rest: f64,
    /// The plain sum, for infinities and what is not a number.
    plain: f64,
}

impl Compensated {
    fn add(&mut self, value: f64) {
        self.plain += value;
        let (value, error) = two_sum(value, self.rest);
        let (sum, rest) = two_sum(self.sum, value);
        (self.sum, self.rest) = (sum, rest + error);
    }

    /// Returns the rounded sum, and what it lacks.
    fn parts(self) -> [f64; 2] {
        match self.sum.is_finite() {
            true => [self.sum, self.rest],
            false => [self.plain, 0.0],
        }
    }

    fn value(self) -> f64 {
        self.parts()[0]
    }
}

/// Returns the rounded sum of two numbers, and the error of the rounding.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Returns the standard deviation of the values that are numbers, or null if there are too few.
fn deviation(name: &str, values: &[Bson]) -> Bson {
    let numbers = values.iter().filter(|value| number::is_number(value));
    let numbers: Vec<f64> = numbers.filter_map(number::as_double).collect();
    let count = numbers.len() as f64;
    let divisor = if name == "$stdDevPop" {
        count
    } else {
        count - 1.0
    };
    if divisor <= 0.0 {
        return Bson::Null;
    }
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
    Bson::Double((squares / divisor).sqrt())
}
