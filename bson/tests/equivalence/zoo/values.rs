//! Structs with one field, for each type of a value.

use super::zoo;
use bson::{
    Binary, Bson, DateTime, DbPointer, Decimal128, Document, JavaScriptCodeWithScope, RawArrayBuf,
    RawBson, RawDocumentBuf, RawJavaScriptCodeWithScope, Regex, Timestamp, Utf8Lossy, Uuid,
    binary::Vector, cstr, doc, oid::ObjectId, serde_helpers::HumanReadable, spec::BinarySubtype,
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, num::NonZeroU8, time::Duration};

/// A struct with a field `a`.
#[derive(Debug, Deserialize, Serialize)]
struct A<T> {
    a: T,
}

fn binary(subtype: BinarySubtype, bytes: &[u8]) -> Bson {
    let bytes = bytes.to_vec();
    Bson::Binary(Binary { subtype, bytes })
}

fn id() -> ObjectId {
    ObjectId::from_bytes([0x5a; 12])
}

fn code() -> Bson {
    Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
        code: "f()".to_owned(),
        scope: doc! { "x": 1, "y": { "z": id() } },
    })
}

fn regex() -> Bson {
    Bson::RegularExpression(Regex {
        pattern: cstr!("a.*").into(),
        options: cstr!("xi").into(),
    })
}

fn uuid() -> Bson {
    binary(BinarySubtype::Uuid, &[7; 16])
}

fn numbers() -> [Document; 4] {
    [
        doc! { "a": 5 },
        doc! { "a": 300_i64 },
        doc! { "a": 2.5 },
        doc! { "a": -1 },
    ]
}

macro_rules! numeric {
    ($($test:ident: $type:ty;)*) => {
        $(
            #[test]
            fn $test() {
                crate::compare_type::<A<$type>>(numbers().to_vec(), crate::Difference::None);
            }
        )*
    };
}

numeric! {
    i8s: i8; i16s: i16; i32s: i32; i64s: i64;
    u8s: u8; u16s: u16; u32s: u32; u64s: u64;
    f32s: f32; f64s: f64; non_zero_numbers: NonZeroU8; optional_numbers: Option<i64>;
}

zoo! {
    booleans: A<bool>, None, [doc! { "a": true }, doc! { "a": 1 }];
    characters: A<char>, None, [doc! { "a": "x" }, doc! { "a": "xy" }];
    strings: A<String>, None, [doc! { "a": "text" }, doc! { "a": 1 }];
    boxed_strings: A<Box<str>>, None, [doc! { "a": "text" }];
    cows: A<Cow<'static, str>>, None, [doc! { "a": "text" }];
    units: A<()>, None, [doc! { "a": null }, doc! { "a": {} }];
    options: A<Option<String>>, None, [doc! { "a": null }, doc! { "a": "x" }, doc! {}];
    nested_options: A<Option<Option<i32>>>, None, [doc! { "a": null }, doc! { "a": 1 }];
    byte_lists: A<Vec<u8>>, None, [doc! { "a": [1, 2] }, doc! { "a": binary(0.into(), b"ab") }];
    byte_buffers: A<serde_bytes::ByteBuf>, None,
        [doc! { "a": binary(0.into(), b"ab") }, doc! { "a": id() }, doc! { "a": [1, 2] }];
    durations: A<Duration>, None, [doc! { "a": { "secs": 5_i64, "nanos": 7 } }];
    addresses: A<std::net::IpAddr>, None,
        [doc! { "a": { "V4": [127, 0, 0, 1] } }, doc! { "a": "127.0.0.1" }];
    readable_addresses: A<HumanReadable<std::net::IpAddr>>, None, [doc! { "a": "127.0.0.1" }];
    object_ids: A<ObjectId>, None,
        [doc! { "a": id() }, doc! { "a": id().to_hex() }, doc! { "a": { "$oid": id().to_hex() } }];
    readable_object_ids: A<HumanReadable<ObjectId>>, None, [doc! { "a": id() }];
    dates: A<DateTime>, None, [
        doc! { "a": DateTime::from_millis(-5) },
        doc! { "a": { "$date": { "$numberLong": "7" } } },
        doc! { "a": { "$date": "2020-01-01T00:00:00Z" } },
    ];
    timestamps: A<Timestamp>, None, [doc! { "a": Timestamp { time: 1, increment: 2 } }];
    decimals: A<Decimal128>, None, [doc! { "a": Decimal128::from_bytes([3; 16]) }];
    regexes: A<Regex>, None, [doc! { "a": regex() }];
    binaries: A<Binary>, None, [
        doc! { "a": binary(BinarySubtype::Generic, b"abc") },
        doc! { "a": binary(BinarySubtype::BinaryOld, b"abc") },
        doc! { "a": binary(BinarySubtype::UserDefined(0x80), b"") },
    ];
    uuids: A<Uuid>, None, [
        doc! { "a": uuid() },
        doc! { "a": binary(BinarySubtype::UuidOld, &[7; 16]) },
        doc! { "a": "00112233-4455-6677-8899-aabbccddeeff" },
    ];
    readable_uuids: A<HumanReadable<Uuid>>, None, [doc! { "a": uuid() }];
    vectors: A<Vector>, None, [doc! { "a": binary(BinarySubtype::Vector, &[3, 0, 1, 2]) }];
    codes: A<JavaScriptCodeWithScope>, None, [doc! { "a": code() }];
    pointers: A<Option<DbPointer>>, None, [doc! { "a": null }];
    documents: A<Document>, None, [
        doc! { "a": { "b": [1, id(), { "c": regex() }], "d": code(), "e": uuid() } },
        doc! { "a": { "$numberInt": "5" } },
    ];
    values: A<Bson>, None, [
        doc! { "a": [null, 1.5, Bson::MinKey, Bson::MaxKey, Bson::Undefined, code(), uuid()] },
        doc! { "a": Bson::Symbol("s".to_owned()) },
        doc! { "a": { "$numberLong": "5" } },
    ];
    raw_documents: A<RawDocumentBuf>, None, [doc! { "a": { "b": 1 } }, doc! { "a": [1] }];
    raw_arrays: A<RawArrayBuf>, None, [doc! { "a": [1, id()] }, doc! { "a": {} }];
    raw_values: A<RawBson>, None,
        [doc! { "a": code() }, doc! { "a": uuid() }, doc! { "a": { "b": [regex()] } }];
    raw_codes: A<RawJavaScriptCodeWithScope>, None, [doc! { "a": code() }];
    lossy_strings: A<Utf8Lossy<String>>, None, [doc! { "a": "text" }];
    lossy_values: A<Utf8Lossy<Bson>>, None, [doc! { "a": [regex(), "text", uuid()] }];
    json_values: A<serde_json::Value>, None,
        [doc! { "a": [1, "x", id(), regex(), uuid(), DateTime::from_millis(1)] }];
}

/// Types that borrow from the document.
#[derive(Debug, Deserialize, Serialize)]
struct Borrowed<'a> {
    text: &'a str,
    #[serde(borrow)]
    cow: Cow<'a, str>,
    #[serde(with = "serde_bytes")]
    bytes: &'a [u8],
    #[serde(borrow)]
    value: bson::RawBsonRef<'a>,
    #[serde(borrow)]
    document: &'a bson::RawDocument,
    #[serde(borrow)]
    array: &'a bson::RawArray,
}

#[test]
fn borrowed_values() {
    let sample = doc! {
        "text": "a", "cow": "b", "bytes": binary(BinarySubtype::Generic, b"c"), "value": uuid(),
        "document": { "d": 1 }, "array": [1, 2],
    };
    let sample = RawDocumentBuf::try_from(&sample).expect("BSON");
    let compare = |bytes: &[u8]| crate::compare::<Borrowed<'_>>(bytes, crate::Difference::None);
    assert!(compare(sample.as_bytes()).is_ok_and(|is_decoded| is_decoded));
    let changed = crate::strategies::changed(vec![sample]);
    let config = proptest::test_runner::Config::with_cases(crate::strategies::cases(200));
    proptest::test_runner::TestRunner::new(config)
        .run(&changed, |bytes| compare(&bytes).map(|_| ()))
        .unwrap_or_else(|error| panic!("{error}"));
}
