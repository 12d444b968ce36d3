//! Arbitrary documents, and changed forms of documents.

use bson::RawDocumentBuf;
use proptest::{collection::vec, prelude::*, sample::select};

/// Returns the number of cases, which `PROPTEST_CASES` can raise.
pub(crate) fn cases(default: u32) -> u32 {
    // The default configuration has the number of the environment, or this one.
    const UNCHANGED: u32 = 256;
    match ProptestConfig::default().cases {
        UNCHANGED => default,
        raised => raised,
    }
}

/// Names of fields that mean something in Extended JSON or in the samples.
const KNOWN: [&str; 32] = [
    "$oid",
    "$date",
    "$numberInt",
    "$numberLong",
    "$numberDouble",
    "$numberDecimal",
    "$binary",
    "$uuid",
    "$code",
    "$scope",
    "$symbol",
    "$timestamp",
    "$regularExpression",
    "$dbPointer",
    "$minKey",
    "$maxKey",
    "$undefined",
    "$ref",
    "$id",
    "$db",
    "_id",
    "a",
    "b",
    "c",
    "t",
    "i",
    "base64",
    "subType",
    "pattern",
    "options",
    "kind",
    "content",
];

/// Returns names of fields. Some are those of Extended JSON or of the samples.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(&KNOWN[..]).prop_map(str::to_owned),
        3 => "[a-z]{0,3}",
        1 => "[^\0]{0,12}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .-]{0,12}",
        1 => "\\PC{0,80}",
        1 => "[0-9a-f]{24}",
        1 => Just("with\0zero".to_owned()),
        1 => (0..5_i32).prop_map(|n| n.to_string()),
    ]
}

fn string(text: &str) -> Vec<u8> {
    let length = i32::try_from(text.len() + 1).expect("short");
    [&length.to_le_bytes()[..], text.as_bytes(), &[0]].concat()
}

fn cstring() -> impl Strategy<Value = Vec<u8>> {
    "[a-zäö.*]{0,8}".prop_map(|text| [text.as_bytes(), &[0]].concat())
}

fn binary() -> impl Strategy<Value = Vec<u8>> {
    let subtypes = select(&[0_u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x42, 0x80, 0xff][..]);
    (
        subtypes,
        prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 16)],
    )
        .prop_map(|(subtype, data)| {
            let inner = i32::try_from(data.len()).expect("short");
            if subtype == 2 {
                let outer = (inner + 4).to_le_bytes();
                return [&outer[..], &[2], &inner.to_le_bytes(), &data].concat();
            }
            [&inner.to_le_bytes()[..], &[subtype], &data].concat()
        })
}

/// Returns the type and the bytes of a value without documents inside.
fn simple() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let bytes = |kind: u8, size: usize| vec(any::<u8>(), size).prop_map(move |b| (kind, b));
    let small = (-3..3_i64).prop_map(|n| n.to_le_bytes().to_vec());
    prop_oneof![
        any::<f64>().prop_map(|n| (1, n.to_le_bytes().to_vec())),
        (-4..4_i8).prop_map(|n| (1, f64::from(n).to_le_bytes().to_vec())),
        text().prop_map(|text| (2, string(&text))),
        text().prop_map(|text| (2, string(&text))),
        binary().prop_map(|bytes| (5, bytes)),
        Just((6, Vec::new())),
        bytes(7, 12),
        any::<bool>().prop_map(|b| (8, vec![b.into()])),
        bytes(9, 8),
        small.clone().prop_map(|n| (9, n)),
        Just((0x0a, Vec::new())),
        (cstring(), cstring()).prop_map(|(a, b)| (0x0b, [a, b].concat())),
        (text(), vec(any::<u8>(), 12)).prop_map(|(t, id)| (0x0c, [string(&t), id].concat())),
        text().prop_map(|text| (0x0d, string(&text))),
        text().prop_map(|text| (0x0e, string(&text))),
        bytes(0x10, 4),
        (-3..300_i32).prop_map(|n| (0x10, n.to_le_bytes().to_vec())),
        bytes(0x11, 8),
        bytes(0x12, 8),
        small.prop_map(|n| (0x12, n)),
        bytes(0x13, 16),
        Just((0xff, Vec::new())),
        Just((0x7f, Vec::new())),
    ]
}

fn framed(elements: &[u8]) -> Vec<u8> {
    let length = i32::try_from(elements.len() + 5).expect("short");
    [&length.to_le_bytes()[..], elements, &[0]].concat()
}

fn elements(items: Vec<(String, (u8, Vec<u8>))>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, (kind, value)) in items {
        bytes.push(kind);
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&value);
    }
    framed(&bytes)
}

fn numbered(items: Vec<(u8, Vec<u8>)>) -> Vec<u8> {
    let items = items.into_iter().enumerate();
    elements(items.map(|(n, item)| (n.to_string(), item)).collect())
}

/// Returns the type and the bytes of a value.
pub(crate) fn value() -> impl Strategy<Value = (u8, Vec<u8>)> {
    simple().prop_recursive(6, 40, 6, |inner| {
        let fields = || vec((key(), inner.clone()), 0..6).prop_map(elements);
        prop_oneof![
            3 => fields().prop_map(|bytes| (3, bytes)),
            2 => vec(inner.clone(), 0..14).prop_map(|items| (4, numbered(items))),
            1 => (text(), fields()).prop_map(|(code, scope)| {
                let code = string(&code);
                let length = i32::try_from(4 + code.len() + scope.len()).expect("short");
                (0x0f, [&length.to_le_bytes()[..], &code, &scope].concat())
            }),
        ]
    })
}

/// Returns documents with values of all types, nested and with equal names.
pub(crate) fn document() -> impl Strategy<Value = RawDocumentBuf> {
    vec((key(), value()), 0..8)
        .prop_map(|items| RawDocumentBuf::from_bytes(elements(items)).expect("the frame is right"))
}

/// A change of the bytes of a document.
#[derive(Clone, Debug)]
enum Change {
    /// One byte gets another value.
    Byte(prop::sample::Index, u8),
    /// The document ends earlier, and its length says so.
    End(prop::sample::Index),
    /// The elements from one to another are removed, repeated or reversed.
    Remove(prop::sample::Index),
    Repeat(prop::sample::Index),
    Reverse,
    /// The value of an element is another one.
    Replace(prop::sample::Index, (u8, Vec<u8>)),
    /// There is one more element.
    Add(String, (u8, Vec<u8>)),
}

fn change() -> impl Strategy<Value = Change> {
    use prop::sample::Index;

    prop_oneof![
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => any::<Index>().prop_map(Change::End),
        2 => any::<Index>().prop_map(Change::Remove),
        2 => any::<Index>().prop_map(Change::Repeat),
        2 => Just(Change::Reverse),
        5 => (any::<Index>(), value()).prop_map(|(at, value)| Change::Replace(at, value)),
        2 => (key(), value()).prop_map(|(key, value)| Change::Add(key, value)),
    ]
}

/// Applies a change to a document, or to one that is nested in it.
fn apply(bytes: &[u8], change: &Change, depth: usize) -> Option<Vec<u8>> {
    match change {
        Change::Byte(at, byte) => {
            let mut bytes = bytes.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = *byte;
            return Some(bytes);
        }
        Change::End(at) => return Some(framed(&bytes[4..4 + at.index(bytes.len() - 4)])),
        _ => {}
    }
    let document = bson::RawDocument::from_bytes(bytes).ok()?;
    let mut items = Vec::new();
    let mut rest = &bytes[4..];
    for element in document.iter_elements() {
        let element = element.ok()?;
        let key = element.key().as_str().to_owned();
        let start = 2 + key.len();
        let end = start + element.size();
        items.push((key, (rest[0], rest[start..end].to_vec())));
        rest = &rest[end..];
    }
    let count = items.len();
    match change {
        Change::Remove(at) if count > 0 => drop(items.remove(at.index(count))),
        Change::Repeat(at) if count > 0 => items.push(items[at.index(count)].clone()),
        Change::Reverse => items.reverse(),
        Change::Replace(at, value) if count > 0 => {
            let (_, old) = &mut items[at.index(count)];
            let is_nested = matches!(old.0, 3 | 4) && depth < 3;
            *old = match is_nested
                .then(|| apply(&old.1, change, depth + 1))
                .flatten()
            {
                Some(inner) if inner != old.1 => (old.0, inner),
                _ => value.clone(),
            };
        }
        Change::Add(key, value) => items.push((key.clone(), value.clone())),
        _ => {}
    }
    Some(elements(items))
}

/// Returns changed forms of the samples, and arbitrary documents.
pub(crate) fn changed(samples: Vec<RawDocumentBuf>) -> impl Strategy<Value = Vec<u8>> {
    let changed = (select(samples), vec(change(), 1..4)).prop_map(|(sample, changes)| {
        let mut bytes = sample.into_bytes();
        for change in changes {
            bytes = apply(&bytes, &change, 0).unwrap_or(bytes);
        }
        bytes
    });
    prop_oneof![9 => changed, 1 => document().prop_map(RawDocumentBuf::into_bytes)]
}

/// Returns bytes that are not BSON, except by chance.
pub(crate) fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let changed = (document(), vec(change(), 1..6)).prop_map(|(document, changes)| {
        let mut bytes = document.into_bytes();
        for change in changes {
            bytes = apply(&bytes, &change, 0).unwrap_or(bytes);
        }
        bytes
    });
    prop_oneof![
        4 => changed,
        1 => vec(any::<u8>(), 0..60).prop_map(|bytes| framed(&bytes)),
        1 => vec(any::<u8>(), 0..60),
    ]
}
