//! Random pipelines.

use super::expressions::Type;
use super::source::Source;
use bson::{Bson, Document, doc};

use Type::{Number, Pair, Text};

impl Source {
    fn accumulator(&mut self) -> Document {
        let number = self.present(Number, 1);
        let n = 1 + self.below(3);
        match self.below(13) {
            0 => doc! { "$sum": 1 },
            1..=4 => {
                let names = ["$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp"];
                doc! { self.one(&names): number }
            }
            5 => {
                let any = self.any_type();
                doc! { self.one(&["$first", "$last"]): self.present(any, 1) }
            }
            6 | 7 => {
                let any = self.any_type();
                doc! { "$push": self.present(any, 1) }
            }
            8 => doc! { "$count": {} },
            9 => doc! { "$mergeObjects": "$o" },
            10 | 11 => {
                let names = ["$firstN", "$lastN", "$minN", "$maxN"];
                doc! { self.one(&names): { "input": number, "n": n } }
            }
            _ => {
                let sort = doc! { self.one(&["n", "t"]): self.one(&[1, -1]), "_id": 1 };
                let output = self.one(&["$m", "$s", "$l", "$d"]);
                let output = doc! { "output": output, "sortBy": sort, "n": n };
                doc! { self.one(&["$topN", "$bottomN"]): output }
            }
        }
    }

    fn group(&mut self) -> Vec<Document> {
        let key = match self.below(6) {
            0 => Bson::Null,
            1 => doc! { "f": "$f", "s": "$s" }.into(),
            _ => {
                let kind = self.one(&[Number, Text, Type::Flag]);
                self.present(kind, 1)
            }
        };
        let mut group = doc! { "_id": key };
        for name in ["p", "q"] {
            group.insert(name, self.accumulator());
        }
        vec![doc! { "$group": group }, doc! { "$sort": { "_id": 1 } }]
    }

    fn bucket(&mut self) -> Vec<Document> {
        let bucket = doc! {
            "groupBy": self.one(&["$m", "$n"]),
            "boundaries": self.one(&[vec![-0.25, 1.75, 4.9], vec![-5.1, 0.1, 100.1]]),
            "default": "other",
            "output": { "count": { "$sum": 1 }, "p": self.accumulator() },
        };
        // mingo returns empty buckets as well.
        let filled = doc! { "$match": { "count": { "$gt": 0 } } };
        vec![doc! { "$bucket": bucket }, filled]
    }

    /// Returns a new value of the type that the field has. mingo computes the value of a further
    /// field from the new value of the first one.
    fn computed(&mut self) -> Document {
        let all = [
            ("m", Number),
            ("s", Text),
            ("o.x", Number),
            ("o.z", Text),
            ("l", Type::Numbers),
        ];
        let (name, kind) = self.one(&all);
        doc! { name: self.present(kind, 2) }
    }

    fn project(&mut self) -> Document {
        let names = ["m", "s", "o.x", "k.y", "l", "v", "d"];
        if self.once_in(3) {
            return doc! { self.one(&names): 0, "f": 0 };
        }
        let mut fields = doc! { self.one(&names): 1, "f": true };
        if self.once_in(3) {
            fields.insert("_id", 0);
        }
        let any = self.any_type();
        fields.insert("p", self.present(any, 2));
        fields
    }

    fn lookup(&mut self) -> Document {
        let local = self.one(&["m", "s", "o.x"]);
        let foreign = self.one(&["m", "s", "l", "o.x"]);
        match self.below(3) {
            0 => doc! { "$lookup": {
                "from": "other",
                "let": { "z": "$m" },
                "pipeline": [
                    { "$match": { "$expr": { self.one(&["$eq", "$lt"]): ["$m", "$$z"] } } },
                    { "$project": { "m": 1 } },
                ],
                "as": "j",
            } },
            _ => doc! { "$lookup": {
                "from": "other", "localField": local, "foreignField": foreign, "as": "j",
            } },
        }
    }

    fn unwind(&mut self) -> Document {
        let path = self.one(&["$l", "$k", "$o.x"]);
        match self.below(3) {
            0 => doc! { "$unwind": path },
            1 => doc! { "$unwind": { "path": path, "preserveNullAndEmptyArrays": true } },
            _ => doc! { "$unwind": {
                "path": path,
                "includeArrayIndex": "i",
                "preserveNullAndEmptyArrays": self.once_in(2),
            } },
        }
    }

    fn typed_filter(&mut self) -> Document {
        match self.below(5) {
            0 => doc! { "$expr": self.present(Type::Flag, 1) },
            1 => doc! { self.one(&["s", "t", "k.y"]): self.text() },
            2 => doc! { self.one(&["d", "f"]): { "$ne": self.date() } },
            _ => {
                let operator = self.one(&["$lt", "$lte", "$gt", "$gte"]);
                doc! { self.one(&["m", "n", "l", "o.x", "k.x"]): { operator: self.number() } }
            }
        }
    }

    /// Returns stages after which fields have the same types as before.
    fn first_stages(&mut self) -> Vec<Document> {
        let stage = match self.below(7) {
            0..=2 => doc! { "$match": self.typed_filter() },
            3 | 4 => doc! { self.one(&["$addFields", "$set"]): self.computed() },
            5 => self.lookup(),
            _ => {
                let name = self.one(&["m", "s", "o.x", "d"]);
                let sort = doc! { name: self.one(&[1, -1]), "_id": 1 };
                let skip = doc! { "$skip": self.below(2) };
                let limit = doc! { "$limit": 1 + self.below(3) };
                return vec![doc! { "$sort": sort }, skip, limit];
            }
        };
        vec![stage]
    }

    fn last_stages(&mut self, depth: u32) -> Vec<Document> {
        let stage = match self.below(15) {
            12 => {
                let set = self.one(&["$s", "$f", "$o.x"]);
                let group = doc! { "_id": self.one(&["$f", "$t"]), "p": { "$addToSet": set } };
                let sorted = doc! { "$sortArray": { "input": "$p", "sortBy": 1 } };
                let sort = doc! { "$sort": { "_id": 1 } };
                return vec![
                    doc! { "$group": group },
                    doc! { "$set": { "p": sorted } },
                    sort,
                ];
            }
            13 => {
                let pipeline = [
                    doc! { "$match": self.typed_filter() },
                    doc! { "$project": { "m": 1, "k.y": 1 } },
                ];
                doc! { "$unionWith": { "coll": "other", "pipeline": pipeline.to_vec() } }
            }
            14 => {
                let fields = doc! { "x": 1, "z": self.present(Number, 1) };
                let text = self.present(Text, 1);
                doc! { "$project": { "o": fields, "k": { "y": 1 }, "q.r": text } }
            }
            0 | 1 => doc! { "$project": self.project() },
            2..=4 => return self.group(),
            5 => return self.bucket(),
            6 => {
                let path = self.one(&["$f", "$m", "$s"]);
                let sort = doc! { "$sort": { "count": 1, "_id": 1 } };
                return vec![doc! { "$sortByCount": path }, sort];
            }
            7 => self.unwind(),
            8 => {
                let root = doc! { "$mergeObjects": [{ "x": 0 }, self.present(Pair, 1)] };
                match self.once_in(2) {
                    true => doc! { "$replaceRoot": { "newRoot": root } },
                    false => doc! { "$replaceWith": root },
                }
            }
            9 if depth > 0 => {
                let (mut one, other) = (self.first_stages(), self.last_stages(0));
                one.extend(self.last_stages(0));
                doc! { "$facet": { "p": one, "q": other } }
            }
            10 => {
                // mingo counts no documents as well.
                let counted = doc! { "$match": { "n": { "$gt": 0 } } };
                return vec![doc! { "$count": "n" }, counted];
            }
            _ => doc! { "$unset": self.one(&["m", "s", "o.x", "k.x"]) },
        };
        vec![stage]
    }
}

pub(super) fn expression(source: &mut Source) -> Document {
    let any = source.any_type();
    let value = source.expression(any, 3);
    doc! { "pipeline": [{ "$project": { "_id": 0, "r": [value] } }] }
}

pub(super) fn pipeline(source: &mut Source) -> Document {
    let mut stages = Vec::new();
    for _ in 0..source.below(3) {
        stages.extend(source.first_stages());
    }
    stages.extend(source.last_stages(1));
    let mut pipeline = doc! { "pipeline": stages };
    if pipeline.to_string().contains("other") {
        let mut id = 0;
        let other = source.many(1, 3, |source| {
            id += 1;
            source.typed_document(id)
        });
        pipeline.insert("other", other);
    }
    pipeline
}
