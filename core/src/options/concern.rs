//! Read and write concerns.

use crate::error::Error;
use bson::{RawDocumentBuf, cstr};
use std::time::Duration;

/// A read concern: which data a read may return. Levels are `local`, `majority`, `linearizable`,
/// `available`, `snapshot`, and those of later servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadConcern {
    /// The level (`readConcernLevel`), sent to the server as it is.
    pub level: String,
}

impl ReadConcern {
    /// Returns a read concern of this level.
    pub fn new(level: impl Into<String>) -> Self {
        Self {
            level: level.into(),
        }
    }

    /// Returns the document that a command carries as `readConcern`.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("level"), self.level.as_str());
        document
    }
}

/// The members of a replica set that must acknowledge a write (`w`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgment {
    /// The number of members. With 0 the server sends no reply to the write.
    Members(u32),
    /// The majority of members (`majority`), or a mode that the configuration of the replica set
    /// defines.
    Mode(String),
}

/// A write concern: what the server must do before it acknowledges a write. With the default,
/// commands carry no write concern, and the server decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteConcern {
    /// The members that must acknowledge the write (`w`). Default: none, the server's choice.
    pub w: Option<Acknowledgment>,
    /// True if the write must be in the journal on disk before the acknowledgment (`journal`).
    /// Default: none, the server's choice.
    pub journal: Option<bool>,
    /// The time limit for the acknowledgment (`wTimeoutMS`). Default: none. `None` and zero mean no
    /// limit.
    pub timeout: Option<Duration>,
}

impl WriteConcern {
    /// Returns the write concern `w: "majority"`.
    #[must_use]
    pub fn majority() -> Self {
        Self {
            w: Some(Acknowledgment::Mode("majority".to_owned())),
            ..Self::default()
        }
    }

    /// Returns the write concern `w: members`.
    #[must_use]
    pub fn members(members: u32) -> Self {
        Self {
            w: Some(Acknowledgment::Members(members)),
            ..Self::default()
        }
    }

    /// True if no field is set. Commands then carry no `writeConcern`.
    #[must_use]
    pub fn is_server_default(&self) -> bool {
        *self == Self::default()
    }

    /// False if the server sends no reply to a write: `w: 0` without `journal: true`.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgment::Members(0)) || self.journal == Some(true)
    }

    /// Checks that `w: 0` and `journal: true` are not combined, because an unacknowledged write
    /// cannot wait for the journal ([URI-23]).
    ///
    /// [URI-23]: crate::requirements::connection_strings#URI-23
    pub fn validate(&self) -> Result<(), Error> {
        if self.w == Some(Acknowledgment::Members(0)) && self.journal == Some(true) {
            return Err(Error::invalid_option(
                "journal",
                "it conflicts with w=0, with which no acknowledgment comes; remove one \
                          of them",
            ));
        }
        Ok(())
    }

    /// Returns the document that a command carries as `writeConcern`.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        match &self.w {
            Some(Acknowledgment::Members(n)) => {
                document.append(cstr!("w"), i32::try_from(*n).unwrap_or(i32::MAX));
            }
            Some(Acknowledgment::Mode(mode)) => document.append(cstr!("w"), mode.as_str()),
            None => {}
        }
        if let Some(journal) = self.journal {
            document.append(cstr!("j"), journal);
        }
        if let Some(timeout) = self.timeout {
            let millis = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            document.append(cstr!("wtimeout"), millis);
        }
        document
    }
}
