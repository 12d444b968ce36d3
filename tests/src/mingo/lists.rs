//! Random expressions that give an array or a document.

use super::expressions::Type::{Flag, Number, Numbers, Pair, Pairs, Text};
use super::source::Source;
use bson::{Bson, doc};

impl Source {
    pub(super) fn numbers(&mut self, depth: u32) -> Bson {
        let (one, other) = (
            self.expression(Numbers, depth),
            self.expression(Numbers, depth),
        );
        let (n, positive) = (self.below(7) - 3, 1 + self.below(3));
        match self.below(14) {
            0 => doc! { "$concatArrays": [one, other] },
            1 => doc! { "$slice": [one, n] },
            2 => doc! { "$slice": [one, n, positive] },
            3 => doc! { "$reverseArray": one },
            4 => {
                let condition = doc! { "$gt": ["$$q", self.present(Number, depth)] };
                doc! { "$filter": { "input": one, "as": "q", "cond": condition } }
            }
            5 => {
                let value = self.expression(Number, depth);
                let operator = self.one(&["$add", "$multiply"]);
                let value = doc! { operator: ["$$z", value] };
                doc! { "$map": { "input": one, "as": "z", "in": value } }
            }
            6 | 7 => {
                let operator = self.one(&["$setUnion", "$setIntersection", "$setDifference"]);
                let set = doc! { operator: [one, other] };
                doc! { "$sortArray": { "input": set, "sortBy": 1 } }
            }
            8 => doc! { "$range": [n, self.below(6), self.one(&[1, 2, -1])] },
            9 => doc! { "$sortArray": { "input": one, "sortBy": self.one(&[1, -1]) } },
            10 | 11 => {
                let operator = self.one(&["$firstN", "$lastN", "$maxN", "$minN"]);
                doc! { operator: { "input": one, "n": positive } }
            }
            12 => {
                let value = doc! { "$concatArrays": ["$$value", ["$$this"]] };
                doc! { "$reduce": { "input": one, "initialValue": other, "in": value } }
            }
            _ => {
                // mingo ignores empty arrays.
                let one = doc! { "$concatArrays": [one, [1]] };
                let other = doc! { "$concatArrays": [other, [2, 3]] };
                let longest = self.once_in(2);
                let mut zip = doc! { "inputs": [one, other], "useLongestLength": longest };
                if longest && self.once_in(2) {
                    zip.insert("defaults", vec![-1, -2]);
                }
                let item = doc! { "$arrayElemAt": ["$$this", self.below(2)] };
                doc! { "$map": { "input": { "$zip": zip }, "in": item } }
            }
        }
        .into()
    }

    pub(super) fn pairs(&mut self, depth: u32) -> Bson {
        let list = self.expression(Pairs, depth);
        let text = self.expression(Text, depth);
        match self.below(8) {
            0 => {
                let limit = 1 + self.below(2);
                let condition = doc! { "$gt": ["$$q.x", self.present(Number, depth)] };
                let filter = doc! { "input": list, "as": "q", "cond": condition, "limit": limit };
                doc! { "$filter": filter }
            }
            1 => {
                let sort = doc! { self.one(&["x", "y"]): self.one(&[1, -1]) };
                doc! { "$sortArray": { "input": list, "sortBy": sort } }
            }
            2 => {
                let value = self.present(Number, depth);
                let merged = doc! { "$mergeObjects": ["$$p", { "x": value }] };
                doc! { "$map": { "input": list, "as": "p", "in": merged } }
            }
            3 => doc! { "$objectToArray": self.expression(Pair, depth) },
            4 => {
                let find = doc! { "input": text, "regex": self.one(&["abc", "(a)(b)?c", "cb?"]) };
                doc! { "$regexFindAll": find }
            }
            5 => {
                let parts = doc! { "$split": [text, self.one(&["a", ",", "b"])] };
                doc! { "$map": { "input": parts, "in": { "y": "$$this" } } }
            }
            6 => doc! { "$concatArrays": [list, self.expression(Pairs, depth)] },
            _ => doc! { "$slice": [list, self.below(4) - 2] },
        }
        .into()
    }

    pub(super) fn pair_expression(&mut self, depth: u32) -> Bson {
        let (one, other) = (self.expression(Pair, depth), self.expression(Pair, depth));
        let number = self.present(Number, depth);
        match self.below(9) {
            0 => doc! { "$mergeObjects": [one, other] },
            1 => doc! { "x": number, "y": self.present(Text, depth) },
            2 => {
                let set = doc! { "field": "x", "input": one, "value": number };
                doc! { "$setField": set }
            }
            3 => doc! { "$unsetField": { "field": "y", "input": one } },
            4 => {
                let find = doc! {
                    "input": self.expression(Text, depth),
                    "regex": self.one(&["a", "(a)(b)?", "c"]),
                };
                doc! { "$regexFind": find }
            }
            5 => doc! { "$arrayToObject": { "$objectToArray": one } },
            6 => doc! { "$mergeObjects": { "$concatArrays": ["$k", [one]] } },
            7 => doc! { "$arrayElemAt": [self.expression(Pairs, depth), self.below(3) - 1] },
            _ => {
                let list = self.expression(Pairs, depth);
                let condition = self.expression(Flag, depth);
                let kept = doc! { "$filter": { "input": list, "as": "p", "cond": condition } };
                doc! { "$first": kept }
            }
        }
        .into()
    }
}
