//! The official tests `bson-binary-vector`.

use crate::{report::Suite, specifications};
use bson::{Binary, RawDocumentBuf, rawdoc, spec::BinarySubtype};
use onionskin_bson::vector::{VectorRef, from_float32, from_int8, from_packed_bits};
use serde_json::Value;

/// The data types (VEC-2).
const INT8: u8 = 0x03;
const FLOAT32: u8 = 0x27;
const PACKED_BIT: u8 = 0x10;

#[test]
fn vectors() {
    let Some(files) = specifications::files("bson-binary-vector/tests") else {
        return;
    };
    let mut suite = Suite::new("bson-binary-vector", &[]);
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
/// the bytes cannot be decoded, as far as the case has them.
fn check(key: &str, case: &Value) -> Result<(), String> {
    let is_valid = case["valid"].as_bool().ok_or("`valid` is missing")?;
    let encoded = case.get("vector").map(|vector| encode(case, vector));
    let stored = case.get("canonical_bson").map(document).transpose()?;
    if encoded.is_none() && stored.is_none() {
        return Err("the case has neither numbers nor bytes".to_owned());
    }
    if !is_valid {
        if let Some(Ok(binary)) = encoded {
            return Err(format!("{binary:?} was encoded"));
        }
        if let Some(stored) = stored
            && let Ok(vector) = decode(key, &stored)
        {
            return Err(format!("{vector} was decoded"));
        }
        return Ok(());
    }
    let encoded = encoded.ok_or("the numbers are missing")??;
    let stored = stored.ok_or("the bytes are missing")?;
    let name = bson::raw::CString::try_from(key.to_owned()).map_err(|e| e.to_string())?;
    let mut document = RawDocumentBuf::new();
    document.append(name, encoded.clone());
    if document != stored {
        return Err(format!("encoded as {document:?}, not as {stored:?}"));
    }
    let decoded = decode(key, &stored)?;
    let expected = VectorRef::try_from(&encoded).map_err(|error| error.to_string())?;
    let padding = case["padding"].as_u64().unwrap_or(0);
    if u64::from(expected.padding()) != padding || decoded != format!("{expected:?}") {
        return Err(format!("decoded as {decoded}, not as {expected:?}"));
    }
    // The owned type of the crate `bson` agrees.
    let owned = expected.to_vector().map_err(|error| error.to_string())?;
    if Binary::from(owned) != encoded {
        return Err("the owned vector has other bytes".to_owned());
    }
    Ok(())
}

fn document(hex: &Value) -> Result<RawDocumentBuf, String> {
    let hex = hex.as_str().ok_or("the bytes are not a string")?;
    let digits = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16);
    let bytes: Result<Vec<u8>, _> = (0..hex.len()).step_by(2).map(digits).collect();
    RawDocumentBuf::from_bytes(bytes.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

/// Decodes the vector of a document, and describes it.
fn decode(key: &str, stored: &RawDocumentBuf) -> Result<String, String> {
    let binary = stored.get_binary(key).map_err(|error| error.to_string())?;
    assert_eq!(binary.subtype, BinarySubtype::Vector);
    let vector = VectorRef::try_from(binary).map_err(|error| error.to_string())?;
    Ok(format!("{vector:?}"))
}

/// Encodes the numbers of a case. Numbers out of range, fractions and a padding of numbers that are
/// not bits have no form in Rust's types and in the functions (VEC-10).
fn encode(case: &Value, vector: &Value) -> Result<Binary, String> {
    let kind = case["dtype_hex"].as_str().unwrap_or_default();
    let kind = u8::from_str_radix(kind.trim_start_matches("0x"), 16).map_err(|e| e.to_string())?;
    let padding = match case.get("padding") {
        Some(padding) => padding.as_i64().ok_or("the padding is not an integer")?,
        None => 0,
    };
    let has_padding = || Err(format!("a padding of {padding} has no form"));
    let text = |error: serde_json::Error| error.to_string();
    match kind {
        INT8 | FLOAT32 if padding != 0 => has_padding(),
        INT8 => serde_json::from_value::<Vec<i8>>(vector.clone())
            .map(|numbers| from_int8(&numbers))
            .map_err(text),
        FLOAT32 => floats(vector).map(|numbers| from_float32(&numbers)),
        PACKED_BIT => {
            let Ok(padding) = u8::try_from(padding) else {
                return has_padding();
            };
            let bytes: Vec<u8> = serde_json::from_value(vector.clone()).map_err(text)?;
            from_packed_bits(&bytes, padding).map_err(|error| error.to_string())
        }
        other => Err(format!("there is no data type 0x{other:02x}")),
    }
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
