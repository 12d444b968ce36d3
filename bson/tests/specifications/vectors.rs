//! The official tests `bson-binary-vector`.

use crate::{
    report::{Skip, Suite},
    specifications,
};
use bson::{Binary, RawDocumentBuf, rawdoc};
use onionskin_bson::vector::{VectorRef, from_float32, from_int8, from_packed_bits};
use serde::Deserialize;
use serde_json::Value;

/// The data types (VEC-2).
const INT8: u8 = 0x03;
const FLOAT32: u8 = 0x27;
const PACKED_BIT: u8 = 0x10;

const OUT_OF_RANGE: &str = "the types of the numbers cannot express them (VEC-10)";

const NO_PADDING: &str = "the type of the padding has no negative numbers";

/// The cases that cannot be written with Rust's types.
const SKIPS: &[Skip] = &[
    skip("int8.json", "Overflow Vector INT8", OUT_OF_RANGE),
    skip("int8.json", "Underflow Vector INT8", OUT_OF_RANGE),
    skip("int8.json", "INT8 with float inputs", OUT_OF_RANGE),
    skip(
        "packed_bit.json",
        "Overflow Vector PACKED_BIT",
        OUT_OF_RANGE,
    ),
    skip(
        "packed_bit.json",
        "Underflow Vector PACKED_BIT",
        OUT_OF_RANGE,
    ),
    skip(
        "packed_bit.json",
        "Vector with float values PACKED_BIT",
        OUT_OF_RANGE,
    ),
    skip("packed_bit.json", "Negative padding PACKED_BIT", NO_PADDING),
];

const fn skip(file: &'static str, case: &'static str, reason: &'static str) -> Skip {
    Skip { file, case, reason }
}

// VEC-1, VEC-4 and VEC-5.
#[test]
fn vectors() {
    let Some(files) = specifications::files("bson-binary-vector/tests") else {
        return;
    };
    let mut suite = Suite::new("bson-binary-vector", SKIPS);
    for file in &files {
        let content = match &file.content {
            Ok(content) => content,
            Err(reason) => {
                suite.unreadable(&file.name, reason);
                continue;
            }
        };
        let key = content["test_key"].as_str().unwrap_or_default();
        for case in content["tests"].as_array().into_iter().flatten() {
            let description = case["description"].as_str().unwrap_or_default();
            suite.case(&file.name, description, || check(key, case));
        }
    }
    suite.finish();
}

/// Checks both directions of a valid case. In an invalid case, the numbers cannot be encoded, and
/// the bytes cannot be decoded, as far as the case has them (VEC-7).
fn check(key: &str, case: &Value) -> Result<(), String> {
    let is_valid = case["valid"].as_bool().ok_or("`valid` is missing")?;
    let numbers = case.get("vector").map(|vector| Numbers::read(case, vector));
    let stored = case.get("canonical_bson").map(document).transpose()?;
    if !is_valid {
        return refuse(key, numbers, stored);
    }
    let numbers = numbers.ok_or("the numbers are missing")??;
    let stored = stored.ok_or("the bytes are missing")?;
    let encoded = numbers.encode()?;
    let name = bson::raw::CString::try_from(key.to_owned()).map_err(|e| e.to_string())?;
    let mut document = RawDocumentBuf::new();
    document.append(name, encoded.clone());
    if document != stored {
        return Err(format!("encoded as {document:?}, not as {stored:?}"));
    }
    let binary = stored.get_binary(key).map_err(|error| error.to_string())?;
    let decoded = VectorRef::try_from(binary).map_err(|error| error.to_string())?;
    if Numbers::from(decoded) != numbers {
        return Err(format!("decoded as {decoded:?}, not as {numbers:?}"));
    }
    // The owned type of the crate `bson` agrees.
    let owned = decoded.to_vector().map_err(|error| error.to_string())?;
    if Binary::from(owned) != encoded {
        return Err("the owned vector has other bytes".to_owned());
    }
    Ok(())
}

/// Checks an invalid case. Fails if the case has no bytes, and Rust's types cannot express its
/// numbers.
fn refuse(
    key: &str,
    numbers: Option<Result<Numbers, String>>,
    stored: Option<RawDocumentBuf>,
) -> Result<(), String> {
    if let Some(Ok(numbers)) = &numbers
        && let Ok(binary) = numbers.encode()
    {
        return Err(format!("{binary:?} was encoded"));
    }
    if let Some(stored) = stored {
        let binary = stored.get_binary(key).map_err(|error| error.to_string())?;
        return match VectorRef::try_from(binary) {
            Ok(vector) => Err(format!("{vector:?} was decoded")),
            Err(_) => Ok(()),
        };
    }
    match numbers {
        Some(numbers) => numbers.map(|_| ()),
        None => Err("the case has neither numbers nor bytes".to_owned()),
    }
}

/// The numbers of a case.
#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    Int8(Vec<i8>),
    Float32(Vec<f32>),
    PackedBit(Vec<u8>, u8),
}

impl Numbers {
    /// Reads the numbers. Fails if Rust's types or the arguments of the functions cannot express
    /// them: numbers out of range, fractions (VEC-10), and a padding of numbers that are not bits.
    fn read(case: &Value, vector: &Value) -> Result<Self, String> {
        let kind = case["dtype_hex"].as_str().unwrap_or_default();
        let kind = u8::from_str_radix(kind.trim_start_matches("0x"), 16);
        let padding = match case.get("padding") {
            Some(padding) => u8::deserialize(padding).map_err(|error| error.to_string())?,
            None => 0,
        };
        let text = |error: serde_json::Error| error.to_string();
        match kind.map_err(|error| error.to_string())? {
            INT8 | FLOAT32 if padding != 0 => Err(format!("there is no padding {padding}")),
            INT8 => Vec::deserialize(vector).map(Self::Int8).map_err(text),
            FLOAT32 => floats(vector).map(Self::Float32),
            PACKED_BIT => {
                let bytes = Vec::deserialize(vector).map_err(text)?;
                Ok(Self::PackedBit(bytes, padding))
            }
            other => Err(format!("there is no data type 0x{other:02x}")),
        }
    }

    fn encode(&self) -> Result<Binary, String> {
        match self {
            Self::Int8(numbers) => Ok(from_int8(numbers)),
            Self::Float32(numbers) => Ok(from_float32(numbers)),
            Self::PackedBit(bytes, padding) => {
                from_packed_bits(bytes, *padding).map_err(|error| error.to_string())
            }
        }
    }
}

impl From<VectorRef<'_>> for Numbers {
    fn from(vector: VectorRef<'_>) -> Self {
        match vector {
            VectorRef::Int8(numbers) => Self::Int8(numbers.iter().collect()),
            VectorRef::Float32(numbers) => Self::Float32(numbers.iter().collect()),
            VectorRef::PackedBit(bits) => Self::PackedBit(bits.bytes().to_vec(), bits.padding()),
        }
    }
}

fn document(hex: &Value) -> Result<RawDocumentBuf, String> {
    let hex = hex.as_str().ok_or("the bytes are not a string")?;
    let digits = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16);
    let bytes: Result<Vec<u8>, _> = (0..hex.len()).step_by(2).map(digits).collect();
    RawDocumentBuf::from_bytes(bytes.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

/// Reads floating-point numbers, of which those that are not finite are Extended JSON.
fn floats(vector: &Value) -> Result<Vec<f32>, String> {
    let numbers = vector.as_array().ok_or("the vector is not an array")?;
    let number = |value: &Value| {
        let text = value["$numberDouble"].as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| value.to_string());
        text.parse::<f32>()
            .map_err(|error| format!("{text}: {error}"))
    };
    numbers.iter().map(number).collect()
}

#[test]
fn a_vector_in_a_raw_document_is_read_in_place() {
    let document = rawdoc! { "v": from_int8(&[1, 2]) };
    let binary = document.get_binary("v").expect("it is there");
    let vector = VectorRef::try_from(binary).expect("valid");
    assert_eq!((vector.len(), vector.data_type()), (2, INT8));
}
