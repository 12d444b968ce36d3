//! The specifications of text indexes, which the server completes with all options.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::Answer;
use super::error::StoreError;
use super::number;

/// The languages whose texts a server can index, by name and by code.
const LANGUAGES: [&str; 31] = [
    "none",
    "danish",
    "da",
    "dutch",
    "nl",
    "english",
    "en",
    "finnish",
    "fi",
    "french",
    "fr",
    "german",
    "de",
    "hungarian",
    "hu",
    "italian",
    "it",
    "norwegian",
    "nb",
    "portuguese",
    "pt",
    "romanian",
    "ro",
    "russian",
    "ru",
    "spanish",
    "es",
    "swedish",
    "sv",
    "turkish",
    "tr",
];

/// The upper limit of the weight of a field. A weight must be below it.
const MAX_WEIGHT: i32 = 100_000;

/// The field that stands for all fields.
const ALL: &str = "$**";

fn refuse<T>(text: impl Into<String>) -> Answer<T> {
    Err(StoreError::new(67, text))
}

/// Returns the specification of a text index with its fields as weights, and with the defaults of
/// the options that are missing. The index has no entries of its own, because `$text` is refused.
pub(super) fn completed(mut specification: Document) -> Answer<Document> {
    let given = specification
        .get_document("key")
        .cloned()
        .unwrap_or_default();
    let (key, mut weights) = key_and_weights(&given)?;
    check_places(&given)?;
    match specification.get("weights") {
        None => {}
        Some(Bson::Document(given)) => {
            for (field, weight) in given {
                let Some(number) = number::as_double(weight) else {
                    return refuse("weight for text index needs numeric type");
                };
                // A cast to an integer saturates, as in the server.
                weights.insert(field.clone(), number as i32);
            }
        }
        Some(Bson::String(all)) if all == ALL => drop(weights.insert(ALL.to_owned(), 1)),
        Some(_) => return refuse("text index option 'weights' must be an object"),
    }
    if weights.is_empty() {
        return refuse("text index option 'weights' must specify fields or the wildcard");
    }
    for (field, weight) in &weights {
        check_weight(field, *weight)?;
    }
    let language = specification.get_str("default_language");
    let language = language.unwrap_or("english").to_owned();
    let version = version(&specification)?;
    // An index of version 1 takes the texts of other languages as they are.
    if version > 1 && !LANGUAGES.contains(&language.to_ascii_lowercase().as_str()) {
        return refuse("default_language is not valid");
    }
    let override_field = specification.get_str("language_override");
    let override_field = override_field.unwrap_or("language").to_owned();
    if override_field.is_empty() || override_field.starts_with('$') || override_field.contains('.')
    {
        return refuse("language_override is not valid");
    }
    specification.remove("textIndexVersion");
    let weights: Document = weights
        .into_iter()
        .map(|(field, weight)| (field, Bson::Int32(weight)))
        .collect();
    specification.extend(doc! {
        "key": key, "weights": weights, "default_language": language,
        "language_override": override_field, "textIndexVersion": version,
    });
    Ok(specification)
}

/// Returns the key of a text index, in which two fields stand for all texts, and the weights of the
/// texts that the key names.
fn key_and_weights(given: &Document) -> Answer<(Document, BTreeMap<String, i32>)> {
    let (mut key, mut weights) = (Document::new(), BTreeMap::new());
    for (field, direction) in given {
        let number = number::as_double(direction);
        match field.as_str() {
            "_fts" => drop(key.insert("_fts", "text")),
            "_ftsx" if number != Some(1.0) => return refuse("expecting _ftsx:1"),
            "_ftsx" => drop(key.insert("_ftsx", direction.clone())),
            _ if direction.as_str() == Some("text") => {
                if !key.contains_key("_fts") {
                    key.extend(doc! { "_fts": "text", "_ftsx": 1 });
                }
                weights.insert(field.clone(), 1);
            }
            _ if !matches!(number.map(f64::trunc), Some(1.0 | -1.0)) => {
                return refuse("expected value 1 or -1 for non-text key in compound index");
            }
            _ => drop(key.insert(field.clone(), direction.clone())),
        }
    }
    Ok((key, weights))
}

/// Returns an error if there are other fields between the texts of a key, or if a field has a
/// reserved name.
fn check_places(key: &Document) -> Answer<()> {
    let is_text = |(_, direction): &(&String, &Bson)| direction.as_str().is_some();
    let mut rest = key.iter().skip_while(|field| !is_text(field)).peekable();
    let is_complete = rest.peek().is_some_and(|(field, _)| *field == "_fts");
    if is_complete {
        rest.next();
        if rest.next().is_none_or(|(field, _)| field != "_ftsx") {
            return refuse("expected _ftsx after _fts");
        }
    } else {
        while rest.next_if(is_text).is_some() {}
    }
    if rest.any(|field| is_text(&field)) {
        return refuse("'text' fields in index must all be adjacent");
    }
    let reserved = key
        .keys()
        .filter(|f| matches!(f.as_str(), "_fts" | "_ftsx"));
    if reserved.count() > if is_complete { 2 } else { 0 } {
        return refuse("text index with reserved fields _fts/_ftsx not allowed");
    }
    Ok(())
}

fn check_weight(field: &str, weight: i32) -> Answer<()> {
    if !(1..MAX_WEIGHT).contains(&weight) {
        return refuse(format!(
            "text index weight must be in the exclusive interval (0,{MAX_WEIGHT}) but found: \
             {weight}"
        ));
    }
    if field == ALL {
        return Ok(());
    }
    if field.is_empty() {
        return refuse("weight cannot be on an empty field");
    }
    for part in field.split('.') {
        if part.is_empty() {
            return refuse("weight cannot have empty path component");
        }
        if part.starts_with('$') {
            return refuse("weight cannot have path component with $ prefix");
        }
    }
    Ok(())
}

/// Returns the version of the format of a text index.
fn version(specification: &Document) -> Answer<i32> {
    let given = specification.get("textIndexVersion");
    let given = given.and_then(number::as_double);
    match given.map_or(3, |version| version as i32) {
        version @ 1..=3 => Ok(version),
        version => refuse(format!("bad textIndexVersion: {version}")),
    }
}
