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
            let sum = numbers.iter().fold(Bson::Int32(0), |sum, value| {
                number::add_all_digits(&sum, value).unwrap_or_else(|| {
                    let double = |v: &Bson| number::as_double(v).unwrap_or(0.0);
                    Bson::Double(double(&sum) + double(value))
                })
            });
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
