//! Enums in all representations.

use super::zoo;
use bson::{Binary, Bson, DateTime, doc, oid::ObjectId, spec::BinarySubtype};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
struct A<T> {
    a: T,
}

#[derive(Debug, Deserialize, Serialize)]
enum External {
    Unit,
    Newtype(i32),
    Tuple(i32, String),
    Struct { x: i32, y: Option<DateTime> },
    Nested(Box<Self>),
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Internal {
    Unit,
    Struct { x: i32, id: ObjectId },
    Newtype(Content),
}

#[derive(Debug, Deserialize, Serialize)]
struct Content {
    at: DateTime,
    list: Vec<Bson>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "kind", content = "content")]
enum Adjacent {
    Unit,
    Newtype(String),
    Tuple(i32, i32),
    Struct { id: ObjectId },
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Untagged {
    Number(i32),
    Double(f64),
    Text(String),
    Id(ObjectId),
    Date(DateTime),
    Bytes(Binary),
    Struct { x: i32, y: String },
    List(Vec<Self>),
    Any(Bson),
}

fn id() -> ObjectId {
    ObjectId::from_bytes([1; 12])
}

zoo! {
    external_enums: A<External>, None, [
        doc! { "a": "Unit" },
        doc! { "a": { "Newtype": 1 } },
        doc! { "a": { "Tuple": [1, "x"] } },
        doc! { "a": { "Struct": { "x": 1, "y": DateTime::from_millis(5) } } },
        doc! { "a": { "Nested": { "Nested": "Unit" } } },
        doc! { "a": { "Unit": null } },
        doc! { "a": "Newtype" },
        doc! { "a": {} },
    ];
    outer_external_enums: External, None, [
        doc! { "Newtype": 1 },
        doc! { "Tuple": [1, "x"] },
        doc! { "Struct": { "x": 1, "y": null } },
    ];
    internal_enums: Internal, None, [
        doc! { "kind": "unit" },
        doc! { "x": 1, "kind": "struct", "id": id() },
        doc! { "kind": "newtype", "at": DateTime::from_millis(5), "list": [1, id()] },
    ];
    adjacent_enums: A<Adjacent>, None, [
        doc! { "a": { "kind": "Unit" } },
        doc! { "a": { "kind": "Newtype", "content": "x" } },
        doc! { "a": { "content": [1, 2], "kind": "Tuple" } },
        doc! { "a": { "kind": "Struct", "content": { "id": id() } } },
    ];
    untagged_enums: A<Vec<Untagged>>, None, [doc! { "a": [
        1, 2.5, "x", id(), DateTime::from_millis(5), { "x": 1, "y": "z" }, [1, "x"], null,
        Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: vec![1; 16] }),
        Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![1; 3] }),
        { "x": 1 }, Bson::MaxKey,
    ] }];
}
