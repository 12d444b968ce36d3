//! Types that go on after an error get what the crate gives them.

use crate::strategies;
use bson::{Bson, Decimal128, Document, doc, oid::ObjectId};
use onionskin_bson::deserialize_from_slice;
use proptest::prelude::*;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use std::{collections::BTreeMap, fmt, marker::PhantomData};

/// The number of elements above which a list counts as endless.
const ENDLESS: usize = 1000;

#[derive(Clone, Debug, Deserialize, PartialEq)]
enum Unit {
    A,
    B(i32),
}

/// A field whose value is dropped if it cannot be decoded.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "the fields are compared by their text")]
#[serde(bound = "T: Deserialize<'de>")]
struct Optional<T> {
    #[serde(deserialize_with = "ok")]
    e: Option<T>,
    x: i32,
}

fn ok<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(from).ok())
}

/// The elements of an array or the values of a document; `None` for those that cannot be decoded.
#[derive(Debug)]
struct Lenient<T>(Vec<Option<T>>);

/// Reads a number, and if there is none, a text.
#[derive(Debug)]
struct Either(Vec<String>);

struct LenientVisitor<T>(PhantomData<T>);

struct EitherVisitor;

impl<'de, T: Deserialize<'de>> Visitor<'de> for LenientVisitor<T> {
    type Value = Lenient<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or a document")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Lenient<T>, A::Error> {
        let mut all = Vec::new();
        while all.len() < ENDLESS {
            match access.next_element() {
                Ok(Some(value)) => all.push(Some(value)),
                Ok(None) => return Ok(Lenient(all)),
                Err(_) => all.push(None),
            }
        }
        Err(A::Error::custom("the list is endless"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Lenient<T>, A::Error> {
        let mut all = Vec::new();
        while access.next_key::<String>()?.is_some() {
            all.push(access.next_value().ok());
            if all.len() == ENDLESS {
                return Err(A::Error::custom("the document is endless"));
            }
        }
        Ok(Lenient(all))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData))
    }
}

impl<'de> Visitor<'de> for EitherVisitor {
    type Value = Either;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Either, A::Error> {
        let mut all = Vec::new();
        while access.next_key::<String>()?.is_some() {
            all.push(match access.next_value::<i32>() {
                Ok(number) => number.to_string(),
                Err(_) => access.next_value::<String>()?,
            });
        }
        Ok(Either(all))
    }
}

impl<'de> Deserialize<'de> for Either {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EitherVisitor)
    }
}

/// Compares what both deserializers make of a document.
fn compare<'de, T: Deserialize<'de> + fmt::Debug>(bytes: &'de [u8]) -> bool {
    let ours = deserialize_from_slice::<T>(bytes);
    let theirs = bson::deserialize_from_slice::<T>(bytes);
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(format!("{ours:?}"), format!("{theirs:?}")),
        (Err(_), Err(_)) => {}
        _ => panic!("{ours:?}, but {theirs:?}"),
    }
    ours.is_ok()
}

fn compare_optional(bytes: &[u8]) -> [bool; 8] {
    [
        compare::<Optional<Unit>>(bytes),
        compare::<Optional<String>>(bytes),
        compare::<Optional<i32>>(bytes),
        compare::<Optional<bool>>(bytes),
        compare::<Optional<ObjectId>>(bytes),
        compare::<Optional<Vec<i32>>>(bytes),
        compare::<Optional<BTreeMap<String, i32>>>(bytes),
        compare::<Optional<Bson>>(bytes),
    ]
}

fn bytes(document: &Document) -> Vec<u8> {
    document.to_vec().expect("it is BSON")
}

#[test]
fn a_value_that_was_not_decoded_is_read_past() {
    let values = [
        Bson::from(5),
        "C".into(),
        "A".into(),
        1.5.into(),
        Bson::Null,
        ObjectId::from_bytes([1; 12]).into(),
        vec![1, 2].into(),
        doc! { "B": "text" }.into(),
        doc! { "B": 1 }.into(),
    ];
    for value in values {
        let accepted = compare_optional(&bytes(&doc! { "e": value, "x": 1 }));
        assert_eq!(accepted, [true; 8]);
    }
}

#[test]
fn the_bytes_of_a_value_are_not_read_as_fields() {
    // The value looks like an integer with the name "x", and like a decimal number with the rest.
    let mut hidden = [0; 16];
    hidden[..9].copy_from_slice(&[0x10, b'x', 0, 42, 0, 0, 0, 0x10, b'z']);
    let document = doc! { "e": Decimal128::from_bytes(hidden) };
    assert_eq!(compare_optional(&bytes(&document)), [false; 8]);

    let mut malformed = bytes(&doc! { "e": "x", "x": 1 });
    // A string whose length is wrong.
    malformed[7..11].copy_from_slice(&[0x10, b'x', 0, 42]);
    compare_optional(&malformed);
    assert!(deserialize_from_slice::<Optional<String>>(&malformed).is_err());
}

#[test]
fn an_element_that_was_not_decoded_is_read_past() {
    let bytes = bytes(&doc! { "a": ["A", 5, "A", { "B": 7 }, [1], "C"] });
    assert!(compare::<BTreeMap<String, Lenient<Unit>>>(&bytes));
    let read: BTreeMap<String, Lenient<Unit>> = deserialize_from_slice(&bytes).expect("BSON");
    let (a, b) = (Some(Unit::A), Some(Unit::B(7)));
    assert_eq!(read["a"].0, [a.clone(), None, a, b, None, None]);
}

#[test]
fn a_value_can_be_read_again_as_another_type() {
    let read: Either =
        deserialize_from_slice(&bytes(&doc! { "a": 1, "b": "x", "c": 7 })).expect("BSON");
    assert_eq!(read.0, ["1", "x", "7"]);
    compare::<Either>(&bytes(&doc! { "a": 1, "b": 2.5 }));
}

#[test]
fn an_error_tells_the_index_after_other_errors() {
    #[derive(Debug)]
    struct Second;

    impl<'de> Deserialize<'de> for Second {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Elements;

            impl<'de> Visitor<'de> for Elements {
                type Value = Second;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an array")
                }

                fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Second, A::Error> {
                    assert!(access.next_element::<i32>().is_err());
                    access.next_element::<i32>().map(|_| Second)
                }
            }

            deserializer.deserialize_seq(Elements)
        }
    }

    let bytes = bytes(&doc! { "a": ["x", "y"] });
    let error = deserialize_from_slice::<BTreeMap<String, Second>>(&bytes);
    assert_eq!(error.expect_err("texts are no numbers").path(), "a.1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(strategies::cases(300)))]

    #[test]
    fn arbitrary_documents_are_read_alike_after_errors(document in strategies::document()) {
        let value = bson::RawBson::Document(document.clone());
        let around = bson::rawdoc! { "e": value, "x": 1 };
        compare_optional(around.as_bytes());
        compare::<Either>(document.as_bytes());
        // With the crate, the map of a value that is not of JSON may not end after an error.
        for bytes in [document.as_bytes(), around.as_bytes()] {
            let read = deserialize_from_slice::<Lenient<Lenient<i32>>>(bytes);
            prop_assert!(read.is_ok(), "{:?}", read);
        }
    }

    /// A type that goes on after errors of malformed documents comes to an end.
    #[test]
    fn lists_of_malformed_arrays_end(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes(&doc! { "a": [1, "x", 2.5, { "b": 1 }, [true], null] });
        let inside = 12..bytes.len() - 2;
        for (place, byte) in places {
            bytes[inside.start + place.index(inside.len())] = byte;
        }
        for error in [
            deserialize_from_slice::<BTreeMap<String, Lenient<i32>>>(&bytes).err(),
            deserialize_from_slice::<BTreeMap<String, Lenient<Unit>>>(&bytes).err(),
            deserialize_from_slice::<BTreeMap<String, Lenient<String>>>(&bytes).err(),
        ] {
            prop_assert!(!error.is_some_and(|error| error.to_string().contains("endless")));
        }
    }
}
