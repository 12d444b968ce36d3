//! Lists, tuples and maps.

use super::zoo;
use bson::{Bson, doc, oid::ObjectId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Deserialize, Serialize)]
struct A<T> {
    a: T,
}

#[derive(Debug, Deserialize, Serialize)]
struct Triple(i32, String, Option<bool>);

#[derive(Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
struct Key(String);

#[derive(Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    A,
    B,
}

zoo! {
    lists: A<Vec<i64>>, None, [
        doc! { "a": [1, 2_i64, 3] },
        doc! { "a": (0..200).collect::<Vec<i32>>() },
        doc! { "a": {} },
    ];
    lists_of_lists: A<Vec<Vec<Option<String>>>>, None,
        [doc! { "a": [["x", null], [], ["y"]] }];
    queues: A<VecDeque<f64>>, None, [doc! { "a": [1.5, 2] }];
    sets: A<BTreeSet<String>>, None, [doc! { "a": ["x", "y", "x"] }];
    tuples: A<(i32, String)>, None,
        [doc! { "a": [1, "x"] }, doc! { "a": [1] }, doc! { "a": [1, "x", 2] }];
    fixed_arrays: A<[i32; 3]>, None, [doc! { "a": [1, 2, 3] }, doc! { "a": [1, 2] }];
    tuple_structs: A<Triple>, None, [doc! { "a": [1, "x", null] }];
    string_maps: BTreeMap<String, i32>, None, [doc! { "a": 1, "b": 2 }];
    nested_maps: BTreeMap<String, BTreeMap<String, String>>, AcceptsMore,
        [doc! { "a": { "b": "c" } }, doc! { "a": ObjectId::from_bytes([1; 12]) }];
    maps_of_values: BTreeMap<String, Bson>, None, [doc! { "a": 1, "b": [2] }];
    maps_with_enum_keys: BTreeMap<Name, i32>, None, [doc! { "a": 1, "b": 2 }, doc! { "c": 1 }];
    maps_with_id_keys: A<BTreeMap<ObjectId, i32>>, None, [
        doc! { "a": { "5a5a5a5a5a5a5a5a5a5a5a5a": 1 } },
        doc! { "a": {} },
    ];
    maps_with_character_keys: BTreeMap<char, i32>, None, [doc! { "a": 1 }];
    maps_with_number_keys: A<BTreeMap<i32, i32>>, None, [doc! { "a": {} }];
    maps_with_newtype_keys: A<BTreeMap<Key, i32>>, AcceptsMore,
        [doc! { "a": {} }, doc! { "a": { "x": 1 } }];
    ignored_values: A<BTreeMap<String, ()>>, None, [doc! { "a": { "b": null } }];
}
