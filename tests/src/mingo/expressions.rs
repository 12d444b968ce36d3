//! Random expressions that give a number, a text or a boolean.

use super::source::Source;
use bson::{Bson, doc};

/// The type of an expression's value, unless a field is missing or has another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Number,
    Text,
    Flag,
    Date,
    /// An array of numbers.
    Numbers,
    /// An array of documents with a number `x` and a text `y`.
    Pairs,
    /// A document with a number `x` and a text `y`.
    Pair,
}

use Type::{Date, Flag, Number, Numbers, Pair, Pairs, Text};

impl Type {
    pub(super) const ALL: [Self; 7] = [Number, Text, Flag, Date, Numbers, Pairs, Pair];
}

impl Source {
    pub(super) fn any_type(&mut self) -> Type {
        self.one(&Type::ALL)
    }

    pub(super) fn expression(&mut self, kind: Type, depth: u32) -> Bson {
        if depth == 0 || self.once_in(4) {
            return self.operand(kind);
        }
        if self.once_in(10) {
            return self.choice(kind, depth - 1);
        }
        match kind {
            Number => match self.below(4) {
                0 => self.measure(depth - 1),
                1 => self.date_number(depth - 1),
                _ => self.arithmetic(depth - 1),
            },
            Text => self.string(depth - 1),
            Flag => self.condition(depth - 1),
            Date => self.date_expression(depth - 1),
            Numbers => self.numbers(depth - 1),
            Pairs => self.pairs(depth - 1),
            Pair => self.pair_expression(depth - 1),
        }
    }

    /// Returns an expression whose value is neither null nor missing.
    pub(super) fn present(&mut self, kind: Type, depth: u32) -> Bson {
        let default: Bson = match kind {
            Number => 0.into(),
            Text => "".into(),
            Flag => false.into(),
            Date => "$d".into(),
            Numbers | Pairs => Bson::Array(vec![]),
            Pair => "$o".into(),
        };
        doc! { "$ifNull": [self.expression(kind, depth), default] }.into()
    }

    /// Returns a literal or a field.
    fn operand(&mut self, kind: Type) -> Bson {
        let literal = self.once_in(3);
        match kind {
            Number if literal => self.number(),
            Number => self.one(&["$m", "$n", "$o.x"]).into(),
            Text if literal => self.text(),
            Text => self.one(&["$s", "$t", "$o.y"]).into(),
            Flag if literal => self.once_in(2).into(),
            Flag => "$f".into(),
            Date if literal => self.date(),
            Date => "$d".into(),
            Numbers if literal => self.many(0, 3, Self::number).into(),
            Numbers => self.one(&["$l", "$l", "$k.x"]).into(),
            Pairs => "$k".into(),
            Pair if literal => doc! { "x": "$m", "y": "$s" }.into(),
            Pair => "$o".into(),
        }
    }

    /// Returns an expression that chooses between others of the same type.
    fn choice(&mut self, kind: Type, depth: u32) -> Bson {
        let condition = self.expression(Flag, depth);
        let (one, other) = (self.expression(kind, depth), self.expression(kind, depth));
        match self.below(6) {
            0 => doc! { "$cond": [condition, one, other] },
            1 => doc! { "$cond": { "if": condition, "then": one, "else": other } },
            2 | 3 => doc! { "$ifNull": [one, other] },
            4 => {
                let branches = vec![doc! { "case": condition, "then": one }];
                doc! { "$switch": { "branches": branches, "default": other } }
            }
            _ => doc! { "$let": { "vars": { "z": one }, "in": { "$ifNull": ["$$z", other] } } },
        }
        .into()
    }

    fn arithmetic(&mut self, depth: u32) -> Bson {
        let (a, b) = (
            self.expression(Number, depth),
            self.expression(Number, depth),
        );
        match self.below(12) {
            0 | 1 => {
                let operator = self.one(&["$add", "$multiply"]);
                let more = self.many(0, 1, |source| source.expression(Number, depth));
                let mut operands = vec![a, b];
                operands.extend(more);
                doc! { operator: operands }
            }
            2 | 3 => {
                let operator = self.one(&["$subtract", "$divide", "$mod"]);
                doc! { operator: [a, b] }
            }
            4 | 5 => doc! { self.one(&["$abs", "$ceil", "$floor"]): a },
            6 => {
                doc! { "$abs": { "$subtract": [a, b] } }
            }
            7 => doc! { self.one(&["$round", "$trunc"]): [a] },
            8 => {
                let operators = ["$sqrt", "$ln", "$log10"];
                doc! { self.one(&operators): { "$add": [{ "$abs": a }, 1] } }
            }
            9 => {
                let operators = [
                    "$sin",
                    "$cos",
                    "$tan",
                    "$atan",
                    "$asinh",
                    "$sinh",
                    "$cosh",
                    "$tanh",
                    "$degreesToRadians",
                    "$radiansToDegrees",
                    "$exp",
                ];
                doc! { self.one(&operators): { "$mod": [a, 5] } }
            }
            10 => doc! { "$pow": [{ "$mod": [a, 5] }, self.below(4)] },
            _ => {
                let operators = ["$sum", "$avg", "$min", "$max"];
                let operator = self.one(&operators);
                match self.once_in(2) {
                    // mingo keeps missing operands.
                    true => doc! { operator: [{ "$ifNull": [a, 0] }, { "$ifNull": [b, 1] }] },
                    false => doc! { operator: self.expression(Numbers, depth) },
                }
            }
        }
        .into()
    }

    /// Returns a number that is computed from values of other types.
    fn measure(&mut self, depth: u32) -> Bson {
        let text = self.expression(Text, depth);
        let list = self.expression(Numbers, depth);
        let start = self.below(3);
        match self.below(12) {
            0 => doc! { self.one(&["$strLenCP", "$strLenBytes"]): text },
            1 => doc! { "$size": list },
            2 => {
                let part = self.expression(Text, depth);
                doc! { "$indexOfBytes": [text, part, start] }
            }
            3 => doc! { "$indexOfArray": [list, self.expression(Number, depth)] },
            4 => {
                let kind = self.one(&[Number, Text, Flag, Date]);
                let other = self.present(kind, depth);
                doc! { "$cmp": [self.present(kind, depth), other] }
            }
            5 => doc! { "$strcasecmp": [text, self.expression(Text, depth)] },
            6 => doc! { "$arrayElemAt": [list, start - 1] },
            7 => doc! { self.one(&["$first", "$last"]): list },
            8 => doc! { "$getField": { "field": "x", "input": self.expression(Pair, depth) } },
            9 => {
                let value = doc! { self.one(&["$add", "$max"]): ["$$value", "$$this"] };
                doc! { "$reduce": { "input": list, "initialValue": start, "in": value } }
            }
            10 => {
                let number = self.expression(Number, depth);
                doc! { self.one(&["$toInt", "$toLong", "$toDouble"]): number }
            }
            _ => {
                let to = self.one(&["int", "double", "long"]);
                let input = self.one(&[
                    "12".into(),
                    "1.5".into(),
                    "a".into(),
                    Bson::Null,
                    true.into(),
                ]);
                let convert = doc! { "input": input, "to": to, "onError": -7, "onNull": -8 };
                doc! { "$convert": convert }
            }
        }
        .into()
    }

    fn string(&mut self, depth: u32) -> Bson {
        let (text, other) = (self.expression(Text, depth), self.expression(Text, depth));
        let (start, length) = (self.below(4), self.below(5) - 1);
        match self.below(12) {
            0 | 1 => doc! { "$concat": [text, other] },
            2 => doc! { self.one(&["$toLower", "$toUpper"]): { "$ifNull": [text, "aB"] } },
            3 => doc! { "$substrCP": [text, start, length.max(0)] },
            4 => {
                doc! { "$substrBytes": [{ "$concat": [text, "abcdefghi"] }, start, length.max(0)] }
            }
            5 => doc! { self.one(&["$trim", "$ltrim", "$rtrim"]): { "input": text } },
            6 => {
                let chars = self.one(&["a", "ab", " "]);
                let trim = doc! { "input": text, "chars": chars };
                doc! { self.one(&["$trim", "$ltrim", "$rtrim"]): trim }
            }
            7 => {
                let find = self.one(&["a", "b", "ab"]);
                let replace = doc! { "input": text, "find": find, "replacement": other };
                doc! { self.one(&["$replaceOne", "$replaceAll"]): replace }
            }
            8 => doc! { "$type": self.one(&["$s", "$d", "$f", "$l", "$o"]) },
            9 => self.date_text(depth),
            10 => {
                let kind = self.one(&[Number, Text, Flag, Date]);
                match self.expression(kind, depth) {
                    // JavaScript shows another number of digits.
                    number if kind == Number => doc! { "$toString": { "$toLong": number } },
                    other => doc! { "$toString": other },
                }
            }
            _ => {
                let parts = doc! { "$split": [text, self.one(&["a", ",", " "])] };
                doc! { "$arrayElemAt": [parts, start - 1] }
            }
        }
        .into()
    }

    fn condition(&mut self, depth: u32) -> Bson {
        let kind = self.one(&[Number, Number, Text, Flag, Date]);
        let (a, b) = (self.present(kind, depth), self.present(kind, depth));
        let (one, other) = (
            self.expression(Numbers, depth),
            self.expression(Numbers, depth),
        );
        match self.below(13) {
            0..=3 => {
                let operators = ["$eq", "$ne", "$lt", "$lte", "$gt", "$gte"];
                doc! { self.one(&operators): [a, b] }
            }
            4 => doc! { self.one(&["$and", "$or"]): [a, b] },
            5 => doc! { "$not": [{ "$eq": [a, b] }] },
            6 => doc! { "$in": [a, one] },
            7 => {
                let any = self.any_type();
                let value = self.expression(any, depth);
                doc! { self.one(&["$isArray", "$isNumber"]): { "$ifNull": [value, "a"] } }
            }
            8 => doc! { self.one(&["$setEquals", "$setIsSubset"]): [one, other] },
            9 => doc! { self.one(&["$allElementsTrue", "$anyElementTrue"]): [one] },
            10 | 11 => {
                let regex = self.one(&["a", "^b", "(a)(b)?", "A"]);
                let input = self.expression(Text, depth);
                let options = self.one(&["", "i"]);
                doc! { "$regexMatch": { "input": input, "regex": regex, "options": options } }
            }
            _ => doc! { "$toBool": a },
        }
        .into()
    }
}
