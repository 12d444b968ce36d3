//! The extended JSON of documents in log messages, compared with the official `bson-corpus`.

use bson::{Bson, RawDocumentBuf};
use onionskin_core::log::extended_json;
use onionskin_tests::{report::Suite, specifications};
use serde_json::Value;

#[test]
fn bson_corpus() {
    const PATH: &str = "bson-corpus/tests";
    let Some(files) = specifications::files(PATH) else {
        return;
    };
    let mut suite = Suite::new("bson-corpus, relaxed extended JSON", &[]);
    for file in &files {
        let Ok(content) = &file.content else {
            suite.case(&file.name, "", || Err("cannot be read".to_owned()));
            continue;
        };
        for case in content["valid"].as_array().into_iter().flatten() {
            let name = case["description"].as_str().unwrap_or_default();
            suite.case(&file.name, name, || compare(case));
        }
    }
    suite.finish();
}

fn compare(case: &Value) -> Result<(), String> {
    let text_of = |error: &dyn std::fmt::Display| error.to_string();
    let hex = case["canonical_bson"].as_str().ok_or("no bytes")?;
    let pairs = (0..hex.len()).step_by(2).map(|at| hex.get(at..at + 2));
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(pair?, 16).ok())
        .collect();
    let bytes = bytes.ok_or("the bytes are not in hexadecimal")?;
    let document = RawDocumentBuf::from_bytes(bytes).map_err(|error| text_of(&error))?;
    let parsed = |key: &str| -> Result<Value, String> {
        let text = case[key].as_str().ok_or("no text")?;
        serde_json::from_str(text).map_err(|error| text_of(&error))
    };
    let expected = if case.get("relaxed_extjson").is_some() {
        parsed("relaxed_extjson")?
    } else {
        // Some cases have no relaxed form. Then the `bson` crate converts the canonical form.
        let canonical = parsed("canonical_extjson")?;
        let read = Bson::try_from(canonical).map_err(|error| text_of(&error))?;
        read.into_relaxed_extjson()
    };
    let text = extended_json(&document, usize::MAX);
    let actual: Value = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
    if actual == expected {
        return Ok(());
    }
    Err(format!("{actual} instead of {expected}"))
}
