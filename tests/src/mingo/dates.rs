//! Random expressions with dates.

use super::expressions::Type::{Date, Number};
use super::source::Source;
use bson::{Bson, Document, doc};

const UNITS: [&str; 9] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
];

const ZONES: [&str; 3] = ["+02:00", "-0500", "+03"];

impl Source {
    fn zoned(&mut self, mut arguments: Document) -> Document {
        if self.once_in(4) {
            arguments.insert("timezone", self.one(&ZONES));
        }
        arguments
    }

    pub(super) fn date_number(&mut self, depth: u32) -> Bson {
        let date = self.expression(Date, depth);
        if self.once_in(5) {
            let end = self.expression(Date, depth);
            // mingo rounds seconds.
            let unit = self.one(&UNITS[..7]);
            let arguments = doc! { "startDate": date, "endDate": end, "unit": unit };
            return doc! { "$dateDiff": self.zoned(arguments) }.into();
        }
        let operators = [
            "$year",
            "$month",
            "$dayOfMonth",
            "$dayOfWeek",
            "$dayOfYear",
            "$hour",
            "$minute",
            "$second",
            "$millisecond",
            "$isoWeek",
            "$isoDayOfWeek",
        ];
        let operator = self.one(&operators);
        match self.once_in(3) {
            true => doc! { operator: self.zoned(doc! { "date": date }) },
            false => doc! { operator: date },
        }
        .into()
    }

    pub(super) fn date_text(&mut self, depth: u32) -> Document {
        let date = self.expression(Date, depth);
        let formats = ["%Y-%m-%dT%H:%M:%S.%LZ", "%j", "%V-%u", "%d/%m/%Y %z"];
        let mut arguments = doc! { "date": date };
        if !self.once_in(3) {
            arguments.insert("format", self.one(&formats));
            arguments = self.zoned(arguments);
        }
        doc! { "$dateToString": arguments }
    }

    pub(super) fn date_expression(&mut self, depth: u32) -> Bson {
        let date = self.expression(Date, depth);
        match self.below(6) {
            0 | 1 => {
                let (unit, amount) = (self.one(&UNITS[3..]), self.below(30) - 10);
                let arguments = doc! { "startDate": date, "unit": unit, "amount": amount };
                let operator = self.one(&["$dateAdd", "$dateSubtract"]);
                doc! { operator: self.zoned(arguments) }
            }
            2 => {
                doc! { "$dateTrunc": { "date": date, "unit": self.one(&UNITS[4..]) } }
            }
            3 => {
                let (year, month) = (2000 + self.below(30), 1 + self.below(12));
                let mut parts = doc! { "year": year, "month": month, "day": 1 + self.below(28) };
                for name in ["hour", "minute"] {
                    if self.once_in(2) {
                        parts.insert(name, self.below(24));
                    }
                }
                doc! { "$dateFromParts": self.zoned(parts) }
            }
            4 => {
                let texts = [
                    "2020-02-29T01:02:03Z",
                    "2019-12-31",
                    "2021-07-01T10:00:00.500Z",
                ];
                doc! { "$dateFromString": { "dateString": self.one(&texts) } }
            }
            _ => doc! { "$add": [date, { "$toInt": { "$mod": [self.expression(Number, 0), 9] } }] },
        }
        .into()
    }
}
