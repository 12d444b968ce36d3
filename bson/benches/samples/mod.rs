//! The documents of the benchmarks, and what is done with them.

use bson::{Bson, DateTime, Document, RawDocument, doc, oid::ObjectId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, hint::black_box};

/// A kind of document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Nine fields, with a document and an array; 225 bytes.
    Person,
    /// One hundred fields.
    Wide,
    /// Fifty levels.
    Deep,
    /// Forty strings of 200 characters, of which some are not ASCII.
    Texts,
    /// Sixteen MB in small documents.
    Large,
}

/// A way to decode or encode a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Typed,
    Borrowed,
    Document,
    Raw,
    Encode,
    EncodeDocument,
    CrateTyped,
    CrateBorrowed,
    CrateDocument,
    CrateRaw,
    CrateEncode,
    CrateEncodeDocument,
}

pub(crate) const KINDS: [(&str, Kind); 5] = [
    ("person", Kind::Person),
    ("wide", Kind::Wide),
    ("deep", Kind::Deep),
    ("texts", Kind::Texts),
    ("large", Kind::Large),
];

pub(crate) const WAYS: [(&str, Way); 12] = [
    ("typed", Way::Typed),
    ("borrowed", Way::Borrowed),
    ("document", Way::Document),
    ("raw", Way::Raw),
    ("encode", Way::Encode),
    ("encode-document", Way::EncodeDocument),
    ("crate-typed", Way::CrateTyped),
    ("crate-borrowed", Way::CrateBorrowed),
    ("crate-document", Way::CrateDocument),
    ("crate-raw", Way::CrateRaw),
    ("crate-encode", Way::CrateEncode),
    ("crate-encode-document", Way::CrateEncodeDocument),
];

impl Kind {
    #[allow(dead_code, reason = "the benchmark walks all kinds")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        KINDS
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, kind)| *kind)
    }
}

impl Way {
    #[allow(dead_code, reason = "the benchmark walks all ways")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        WAYS.iter().find(|(n, _)| *n == name).map(|(_, way)| *way)
    }
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Person {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    email: String,
    age: i32,
    balance: f64,
    active: bool,
    created: DateTime,
    address: Address,
    tags: Vec<String>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Address {
    city: String,
    zip: i32,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "fields are read by serde only")]
struct PersonRef<'a> {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: &'a str,
    email: &'a str,
    age: i32,
    balance: f64,
    active: bool,
    created: DateTime,
    #[serde(borrow)]
    address: AddressRef<'a>,
    tags: (&'a str, &'a str, &'a str),
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "fields are read by serde only")]
struct AddressRef<'a> {
    city: &'a str,
    zip: i32,
}

#[derive(Debug, Deserialize, Serialize)]
struct Deep {
    level: i32,
    inner: Option<Box<Self>>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Items {
    items: Vec<Person>,
}

fn person(number: i32) -> Person {
    let mut id = [0x5a; 12];
    id[8..].copy_from_slice(&number.to_be_bytes());
    Person {
        id: ObjectId::from_bytes(id),
        name: format!("Person number {number:05}"),
        email: format!("person{number:05}@example.net"),
        age: number % 90,
        balance: f64::from(number) * 0.5,
        active: number % 2 == 0,
        created: DateTime::from_millis(1_700_000_000_000 + i64::from(number)),
        address: Address {
            city: "Reykjavik".to_owned(),
            zip: 101,
        },
        tags: ["alpha", "beta", "gamma"].map(str::to_owned).to_vec(),
    }
}

fn document(kind: Kind) -> Document {
    match kind {
        Kind::Person => {
            let bytes = bson::serialize_to_vec(&person(7)).expect("it is a document");
            onionskin_bson::document_from_slice(&bytes).expect("it is BSON")
        }
        Kind::Wide => (0..100)
            .map(|n| (format!("field{n:03}"), Bson::Int64(n)))
            .collect(),
        Kind::Deep => {
            let mut deep = doc! { "level": 50, "inner": null };
            for level in (1..50).rev() {
                deep = doc! { "level": level, "inner": deep };
            }
            deep
        }
        Kind::Texts => (0..40)
            .map(|n| {
                let text = if n % 4 == 0 {
                    "Äpfel und Öl. "
                } else {
                    "plain text... "
                };
                (format!("text{n:02}"), Bson::String(text.repeat(14)))
            })
            .collect(),
        Kind::Large => {
            let one = document(Kind::Person);
            let size = one.to_vec().expect("it can be encoded").len() + 8;
            doc! { "items": vec![one; 16_000_000 / size] }
        }
    }
}

type Run = Box<dyn Fn() -> usize>;

/// Returns a function that does something with a document of this kind; `None` if the kind has no
/// such way.
pub(crate) fn run(kind: Kind, way: Way) -> Option<Run> {
    let tree = document(kind);
    let bytes = tree.to_vec().expect("it can be encoded");
    Some(match way {
        Way::Typed | Way::CrateTyped | Way::Encode | Way::CrateEncode => match kind {
            Kind::Person => typed::<Person>(bytes, way),
            Kind::Wide => typed::<BTreeMap<String, i64>>(bytes, way),
            Kind::Deep => typed::<Deep>(bytes, way),
            Kind::Texts => typed::<BTreeMap<String, String>>(bytes, way),
            Kind::Large => typed::<Items>(bytes, way),
        },
        Way::Borrowed | Way::CrateBorrowed => match kind {
            Kind::Person => Box::new(move || {
                let person: PersonRef<'_> = if way == Way::Borrowed {
                    onionskin_bson::deserialize_from_slice(&bytes).expect("it is one")
                } else {
                    bson::deserialize_from_slice(&bytes).expect("it is one")
                };
                black_box(&person);
                1
            }),
            Kind::Texts => Box::new(move || {
                let texts: BTreeMap<&str, &str> = if way == Way::Borrowed {
                    onionskin_bson::deserialize_from_slice(&bytes).expect("it is one")
                } else {
                    bson::deserialize_from_slice(&bytes).expect("it is one")
                };
                texts.len()
            }),
            _ => return None,
        },
        Way::Document => Box::new(move || {
            let tree: Document = onionskin_bson::deserialize_owned(&bytes).expect("it is BSON");
            tree.len()
        }),
        Way::CrateDocument => Box::new(move || {
            let tree: Document = bson::deserialize_from_slice(&bytes).expect("it is BSON");
            tree.len()
        }),
        Way::Raw | Way::CrateRaw => Box::new(move || {
            let document = RawDocument::from_bytes(&bytes).expect("it is BSON");
            document.iter().filter(|element| element.is_ok()).count()
        }),
        Way::EncodeDocument => Box::new(move || {
            let bytes = onionskin_bson::serialize_to_vec(&tree).expect("it can be encoded");
            bytes.len()
        }),
        Way::CrateEncodeDocument => Box::new(move || {
            let bytes = bson::serialize_to_vec(&tree).expect("it can be encoded");
            bytes.len()
        }),
    })
}

fn typed<T: DeserializeOwned + Serialize + 'static>(bytes: Vec<u8>, way: Way) -> Run {
    let value: T = bson::deserialize_from_slice(&bytes).expect("it is one");
    match way {
        Way::Typed => Box::new(move || {
            let value: T = onionskin_bson::deserialize_owned(&bytes).expect("it is one");
            black_box(&value);
            1
        }),
        Way::CrateTyped => Box::new(move || {
            let value: T = bson::deserialize_from_slice(&bytes).expect("it is one");
            black_box(&value);
            1
        }),
        Way::Encode => Box::new(move || {
            let bytes = onionskin_bson::serialize_to_vec(&value).expect("it can be encoded");
            bytes.len()
        }),
        _ => Box::new(move || {
            let bytes = bson::serialize_to_vec(&value).expect("it can be encoded");
            bytes.len()
        }),
    }
}
