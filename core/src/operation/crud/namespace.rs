//! The names of a database and of one of its collections.

use super::SharedNamespace;
use crate::error::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use std::{fmt, str::FromStr};

/// The names of a database and of one of its collections.
///
/// The serde form is the text `db.coll`. A call with names that no server accepts fails.
///
/// ```
/// use onionskin_core::operation::crud::Namespace;
///
/// let people = Namespace::new("app", "people");
/// assert_eq!(people.to_string(), "app.people");
/// let nested: Namespace = "app.people.old".parse()?;
/// assert_eq!((nested.db.as_str(), nested.coll.as_str()), ("app", "people.old"));
/// assert!("app.".parse::<Namespace>().is_err());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// The name of the database.
    pub db: String,
    /// The name of the collection, without that of its database.
    pub coll: String,
}

impl Namespace {
    /// Returns the namespace of a database and a collection.
    ///
    /// ```
    /// use onionskin_core::operation::crud::Namespace;
    ///
    /// let people = Namespace::new("app", "people");
    /// assert_eq!(people.coll, "people");
    /// ```
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        let (db, coll) = (db.into(), coll.into());
        Self { db, coll }
    }
}

impl From<&SharedNamespace> for Namespace {
    fn from(names: &SharedNamespace) -> Self {
        Self {
            db: names.database().to_owned(),
            coll: names.collection().to_owned(),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

impl FromStr for Namespace {
    type Err = Error;

    /// Parses the name of the database, a point, and the name of the collection, which can contain
    /// further points. Fails if a name is empty or contains a zero byte, which no server accepts.
    fn from_str(text: &str) -> Result<Self, Error> {
        let missing = || Error::argument("a namespace is `database.collection`");
        let (db, coll) = text.split_once('.').ok_or_else(missing)?;
        super::check_database_name(db)?;
        super::check_collection_name(coll)?;
        Ok(Self::new(db, coll))
    }
}

impl Serialize for Namespace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let checked = super::check_database_name(&self.db);
        checked
            .and_then(|()| super::check_collection_name(&self.coll))
            .map_err(S::Error::custom)?;
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_can_be_stored_as_a_text() {
        let nested = Namespace::new("app", "people.old");
        let json = serde_json::to_string(&nested).expect("a text");
        assert_eq!(json, "\"app.people.old\"");
        assert_eq!(serde_json::from_str::<Namespace>(&json).ok(), Some(nested));
        for wrong in ["\"app\"", "\"app.\"", "7"] {
            assert!(serde_json::from_str::<Namespace>(wrong).is_err(), "{wrong}");
        }
        // It would be read as a collection of another database.
        serde_json::to_string(&Namespace::new("a.b", "c")).expect_err("a dot");
    }
}
