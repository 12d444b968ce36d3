//! Lengths of time in scenarios.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The units of a [`Span`], the smallest first, in nanoseconds.
const UNITS: [(&str, u128); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

/// A length of time. In a file it is a number with a unit: `ns`, `us`, `ms`, `s` or `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
        let span = number
            .parse()
            .ok()
            .zip(unit)
            .and_then(|(number, (_, unit))| {
                let nanos = u128::checked_mul(number, *unit)?;
                u64::try_from(nanos).ok().map(Duration::from_nanos)
            });
        span.map(Self).ok_or_else(|| {
            format!(
                "`{text}` is no length of time, or is too long: write a number and ns, us, ms, s \
                 or min"
            )
        })
    }
}

impl From<Span> for String {
    fn from(Span(span): Span) -> Self {
        let nanos = span.as_nanos();
        if nanos == 0 {
            return "0s".to_owned();
        }
        let mut units = UNITS.iter().rev();
        let unit = units.find(|(_, unit)| nanos.is_multiple_of(*unit));
        let (name, unit) = unit.copied().unwrap_or(UNITS[0]);
        format!("{}{name}", nanos / unit)
    }
}
