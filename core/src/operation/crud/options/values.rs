//! Types of options of the CRUD calls.

use crate::{bson::DocumentWriter, error::Error, options::OptionValue};
use bson::Document;
use serde::{Deserialize, Deserializer, Serialize};

/// The index that a server uses: its keys, or its name.
///
/// ```
/// use bson::doc;
/// use onionskin_core::operation::crud::Hint;
///
/// assert_eq!(Hint::from(doc! { "age": 1 }), Hint::Keys(doc! { "age": 1 }));
/// assert_eq!(Hint::from("age_1"), Hint::Name("age_1".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Hint {
    /// The keys of the index.
    Keys(Document),
    /// The name of the index.
    Name(String),
}

impl From<Document> for Hint {
    fn from(keys: Document) -> Self {
        Self::Keys(keys)
    }
}

impl From<&str> for Hint {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for Hint {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl OptionValue for Hint {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        match self {
            Self::Keys(keys) => keys.write(key, body),
            Self::Name(name) => name.write(key, body),
        }
    }
}

/// When the server closes the cursor of a `find`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CursorType {
    /// After the last document. This is the default.
    NonTailable,
    /// Not after the last document: new documents of a capped collection follow.
    Tailable,
    /// Like `Tailable`, and the server waits for new documents before it answers a `getMore`.
    TailableAwait,
}

/// The state of a document that `find_one_and_update` and `find_one_and_replace` return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ReturnDocument {
    /// The state after the write.
    After,
    /// The state before the write. This is the default.
    Before,
}

/// Takes `after` and `before` in any letter case.
impl<'de> Deserialize<'de> for ReturnDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.to_ascii_lowercase().as_str() {
            "after" => Ok(Self::After),
            "before" => Ok(Self::Before),
            _ => Err(serde::de::Error::custom(format!(
                "{text:?} is not \"after\" or \"before\""
            ))),
        }
    }
}

impl OptionValue for ReturnDocument {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.bool(key, *self == Self::After);
        Ok(())
    }
}

/// The changes of an update: operators such as `$set`, or a pipeline.
///
/// ```
/// use bson::doc;
/// use onionskin_core::operation::crud::UpdateModifications;
///
/// let set = UpdateModifications::from(doc! { "$set": { "a": 1 } });
/// let pipeline = UpdateModifications::from(vec![doc! { "$set": { "b": "$a" } }]);
/// assert_ne!(set, pipeline);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum UpdateModifications {
    /// A document of update operators.
    Document(Document),
    /// A pipeline of the stages that updates permit.
    Pipeline(Vec<Document>),
}

/// A document without operators, which no call accepts. It is the start of a builder.
impl Default for UpdateModifications {
    fn default() -> Self {
        Self::Document(Document::new())
    }
}

impl From<Document> for UpdateModifications {
    fn from(document: Document) -> Self {
        Self::Document(document)
    }
}

impl From<Vec<Document>> for UpdateModifications {
    fn from(pipeline: Vec<Document>) -> Self {
        Self::Pipeline(pipeline)
    }
}

impl OptionValue for UpdateModifications {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        match self {
            Self::Document(document) => document.write(key, body),
            Self::Pipeline(stages) => stages.write(key, body),
        }
    }
}

impl UpdateModifications {
    /// Fails if a document has no fields, or if its first one is not an operator: the server would
    /// take it for a replacement. A pipeline must have a stage. The server checks the other fields
    /// (Bulk Write, *Update vs. replace document validation*).
    pub(crate) fn check(&self) -> Result<(), Error> {
        let message = match self {
            Self::Document(document) if document.is_empty() => {
                "an update needs an operator, such as $set; this one is empty"
            }
            Self::Document(document)
                if document
                    .keys()
                    .next()
                    .is_some_and(|key| key.starts_with('$')) =>
            {
                return Ok(());
            }
            Self::Document(_) => {
                "an update consists of operators such as $set; to replace the stored document, \
                 call the method for replacements"
            }
            Self::Pipeline(stages) if stages.is_empty() => {
                "an update by a pipeline needs a stage, such as $set; this one is empty"
            }
            Self::Pipeline(_) => return Ok(()),
        };
        Err(Error::argument(message))
    }
}
