//! Random documents, which other libraries can represent.

use bson::{
    Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp, cstr,
    oid::ObjectId, spec::BinarySubtype,
};
use onionskin_core::random::{Random, Seed};

/// The maximum depth of a random document.
const MAX_DEPTH: usize = 5;

/// The names of fields, of which each document has a part. JavaScript changes the order of names
/// that are numbers, and PyMongo reads some names that begin with `$` as a DBRef.
const NAMES: [&str; 13] = [
    "a",
    "b",
    "c",
    "name",
    "",
    "x.y",
    "$gt",
    "Ä",
    "日本",
    "with space",
    "quote\"",
    "back\\slash",
    "tab\t",
];

const TEXTS: [&str; 8] = [
    "",
    "text",
    "Äpfel und Öl",
    "日本語",
    "\u{1f600}",
    "with\0zero",
    "line\nbreak\u{7f}\u{1}",
    "\"quoted\" and \\",
];

/// Returns documents with values of all types that are not deprecated. Equal seeds give equal
/// documents.
#[must_use]
pub fn random_documents(seed: u8, count: usize) -> Vec<Document> {
    let mut random = Seed::new([seed; 32]).split("documents").random();
    (0..count).map(|_| document(&mut random, 1)).collect()
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

fn document(random: &mut Random, depth: usize) -> Document {
    let mut document = Document::new();
    // PyMongo writes the `_id` first.
    if random.chance(1, 2) {
        document.insert("_id", value(random, depth));
    }
    for _ in 0..random.below(7) {
        let value = value(random, depth);
        document.insert(pick(random, &NAMES), value);
    }
    document
}

fn bytes<const N: usize>(random: &mut Random) -> [u8; N] {
    let mut bytes = [0; N];
    random.fill(&mut bytes);
    bytes
}

fn value(random: &mut Random, depth: usize) -> Bson {
    let kinds = if depth < MAX_DEPTH { 18 } else { 15 };
    match random.below(kinds) {
        0 => Bson::Double(double(random)),
        1 => Bson::String(pick(random, &TEXTS).to_owned()),
        2 => Bson::Int32(pick(random, &[0, 1, -1, 7, i32::MIN, i32::MAX])),
        3 => Bson::Int64(pick(
            random,
            &[0, 1, -1, 1 << 53, (1 << 53) + 1, i64::MIN, i64::MAX],
        )),
        4 => Bson::Boolean(random.chance(1, 2)),
        5 => Bson::Null,
        6 => Bson::ObjectId(ObjectId::from_bytes(bytes(random))),
        // JavaScript has no dates beyond 8.64e15 milliseconds.
        7 => Bson::DateTime(DateTime::from_millis(pick(
            random,
            &[
                0,
                1,
                999,
                -1,
                1_700_000_000_123,
                253_402_300_799_999,
                -62_135_596_800_000,
            ],
        ))),
        8 => binary(random),
        9 => Bson::Decimal128(decimal(random)),
        10 => Bson::Timestamp(Timestamp {
            time: random.next_u32(),
            increment: random.next_u32(),
        }),
        11 => Bson::RegularExpression(Regex {
            pattern: pick(random, &[cstr!(""), cstr!("a.*b"), cstr!("Ä\"\\/")]).into(),
            options: pick(random, &[cstr!(""), cstr!("i"), cstr!("imsx")]).into(),
        }),
        12 => Bson::JavaScriptCode(pick(random, &TEXTS).to_owned()),
        13 => Bson::MinKey,
        14 => Bson::MaxKey,
        15 => Bson::Document(document(random, depth + 1)),
        16 => Bson::Array(list(random, depth + 1)),
        _ => Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
            code: pick(random, &TEXTS).to_owned(),
            scope: document(random, depth + 1),
        }),
    }
}

fn double(random: &mut Random) -> f64 {
    let special = [
        0.0,
        -0.0,
        1.0,
        0.1,
        -1.5e300,
        5e-324,
        1e16,
        123_456_789.125,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    if random.chance(1, 2) {
        return pick(random, &special);
    }
    let number = f64::from_bits(random.next_u64());
    // Other libraries do not keep the bits of a NaN.
    if number.is_nan() { f64::NAN } else { number }
}

fn binary(random: &mut Random) -> Bson {
    let subtype = pick(random, &[0, 1, 2, 3, 4, 5, 6, 8, 0x80, 0xff]);
    let is_uuid = matches!(subtype, 3 | 4);
    let length = if is_uuid {
        16
    } else {
        random.below(20) as usize
    };
    let mut data = vec![0; length];
    random.fill(&mut data);
    Bson::Binary(Binary {
        subtype: BinarySubtype::from(subtype),
        bytes: data,
    })
}

fn decimal(random: &mut Random) -> Decimal128 {
    let text = pick(
        random,
        &[
            "0",
            "-0",
            "1.50",
            "-1E+3",
            "12345678901234567890.1234567890",
            "9.99E-6143",
            "Infinity",
        ],
    );
    text.parse().expect("it is a Decimal128")
}

fn list(random: &mut Random, depth: usize) -> Vec<Bson> {
    (0..random.below(14))
        .map(|_| value(random, depth))
        .collect()
}
