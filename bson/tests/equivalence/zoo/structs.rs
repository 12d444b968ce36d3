//! Structs with attributes of serde.

use super::zoo;
use bson::{
    Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc,
    oid::ObjectId,
    serde_helpers::{datetime, object_id, timestamp, u32 as number32, u64 as number64},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{collections::BTreeMap, fmt};

#[derive(Debug, Deserialize, Serialize)]
struct Plain {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    born: Option<DateTime>,
    inner: Inner,
    list: Vec<Inner>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Inner {
    a: i32,
    b: Option<String>,
}

fn plain() -> Document {
    doc! {
        "_id": ObjectId::from_bytes([1; 12]), "name": "x", "born": DateTime::from_millis(5),
        "inner": { "a": 1, "b": "y" }, "list": [{ "a": 2, "b": null }, { "b": "z", "a": 3 }],
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Strict {
    first_field: i32,
    #[serde(alias = "old", alias = "older")]
    second_field: i32,
    #[serde(default)]
    third_field: i32,
    #[serde(skip)]
    #[allow(dead_code, reason = "it is only shown")]
    fourth_field: i32,
}

#[derive(Debug, Deserialize, Serialize)]
struct FlatDocument {
    a: i32,
    #[serde(flatten)]
    rest: Document,
}

#[derive(Debug, Deserialize, Serialize)]
struct FlatMap {
    a: i32,
    #[serde(flatten)]
    rest: BTreeMap<String, Bson>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FlatStruct {
    c: i64,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    more: Option<Ids>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Ids {
    id: ObjectId,
    at: DateTime,
}

#[derive(Debug, Deserialize, Serialize)]
struct Newtype(Inner);

#[derive(Debug, Deserialize, Serialize)]
struct Newtypes {
    a: Number,
    b: Outer,
}

#[derive(Debug, Deserialize, Serialize)]
struct Number(i32);

#[derive(Debug, Deserialize, Serialize)]
struct Outer(Number);

#[derive(Debug, Deserialize, Serialize)]
struct Unit;

#[derive(Debug, Deserialize, Serialize)]
struct Units {
    a: Unit,
}

#[derive(Debug, Deserialize, Serialize)]
struct Helpers {
    #[serde(with = "object_id::AsHexString")]
    as_hex: ObjectId,
    #[serde(with = "object_id::FromHexString")]
    from_hex: String,
    #[serde(with = "datetime::AsRfc3339String")]
    as_text: DateTime,
    #[serde(with = "datetime::FromI64")]
    from_number: i64,
    #[serde(with = "timestamp::AsU32")]
    as_number: Timestamp,
    #[serde(with = "number32::AsF64")]
    as_double: u32,
    #[serde(with = "number64::AsF64")]
    as_double_too: u64,
}

/// A struct whose hand-written deserialization knows its fields by text only.
#[derive(Debug, Serialize)]
struct ByText {
    a: i32,
}

impl<'de> Deserialize<'de> for ByText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl<'de> Deserialize<'de> for Name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl de::Visitor<'_> for Text {
                    type Value = Name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("the name `a`")
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                        match text {
                            "a" => Ok(Name),
                            other => Err(E::unknown_field(other, &["a"])),
                        }
                    }
                }
                deserializer.deserialize_identifier(Text)
            }
        }

        struct Fields;

        impl<'de> de::Visitor<'de> for Fields {
            type Value = ByText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a struct")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<ByText, A::Error> {
                let mut a = 0;
                while map.next_key::<Name>()?.is_some() {
                    a = map.next_value()?;
                }
                Ok(ByText { a })
            }
        }
        deserializer.deserialize_struct("ByText", &["a"], Fields)
    }
}

zoo! {
    plain_structs: Plain, None, [plain()];
    strict_structs: Strict, None, [
        doc! { "firstField": 1, "secondField": 2 },
        doc! { "older": 1, "firstField": 2, "thirdField": 3 },
    ];
    flattened_documents: FlatDocument, None,
        [doc! { "a": 1, "b": "x", "c": { "d": ObjectId::from_bytes([1; 12]) } }];
    flattened_maps: FlatMap, None, [doc! { "a": 1, "b": DateTime::from_millis(5), "c": [1, 2] }];
    flattened_structs: FlatStruct, None, [
        doc! { "a": 1, "b": "x", "c": 5_i64 },
        doc! {
            "a": 1, "c": 5_i64, "id": ObjectId::from_bytes([1; 12]),
            "at": DateTime::from_millis(5),
        },
    ];
    newtypes_of_structs: Newtype, None, [doc! { "a": 1, "b": "x" }];
    newtypes_of_numbers: Newtypes, None, [doc! { "a": 1, "b": 2 }];
    unit_structs: Units, None, [doc! { "a": null }];
    helper_modules: Helpers, None, [doc! {
        "as_hex": "5a5a5a5a5a5a5a5a5a5a5a5a", "from_hex": ObjectId::from_bytes([1; 12]),
        "as_text": "2020-01-01T00:00:00Z", "from_number": DateTime::from_millis(5),
        "as_number": 7, "as_double": 8.0, "as_double_too": 9.0,
    }];
    fields_known_by_text: ByText, None, [doc! { "a": 1 }, doc! { "a": 1, "b": 2 }];
    raw_structs: RawDocumentBuf, None, [plain()];
}
