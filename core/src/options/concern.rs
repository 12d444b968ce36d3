//! Read and write concerns.

use crate::error::{Error, ErrorKind};
use bson::{RawDocumentBuf, cstr};
use std::time::Duration;

/// How durable what is read must be: `local`, `majority`, `linearizable`, `available`, `snapshot`,
/// or a level of a later server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadConcern {
    /// `readConcernLevel`.
    pub level: String,
}

impl ReadConcern {
    /// A concern of this level.
    pub fn new(level: impl Into<String>) -> Self {
        Self {
            level: level.into(),
        }
    }

    /// What a command carries as `readConcern`.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("level"), self.level.as_str());
        document
    }
}

/// Who must have a write before it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgment {
    /// This many members; 0 asks for no reply at all.
    Nodes(u32),
    /// `majority`, or a mode of the replica set's configuration.
    Mode(String),
}

/// When a write counts as done. The default leaves the decision to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteConcern {
    /// `w`.
    pub w: Option<Acknowledgment>,
    /// `journal`.
    pub journal: Option<bool>,
    /// `wTimeoutMS`; zero for none.
    pub timeout: Option<Duration>,
}

impl WriteConcern {
    /// `w: "majority"`.
    #[must_use]
    pub fn majority() -> Self {
        Self {
            w: Some(Acknowledgment::Mode("majority".to_owned())),
            ..Self::default()
        }
    }

    /// `w: nodes`.
    #[must_use]
    pub fn nodes(nodes: u32) -> Self {
        Self {
            w: Some(Acknowledgment::Nodes(nodes)),
            ..Self::default()
        }
    }

    /// True if nothing was chosen, so that nothing is sent.
    #[must_use]
    pub fn is_server_default(&self) -> bool {
        *self == Self::default()
    }

    /// False for `w: 0` without `journal: true`: no reply will come.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgment::Nodes(0)) || self.journal == Some(true)
    }

    /// Refuses to wait for the journal of a write that no reply is wanted for (URI-23).
    pub fn check(&self) -> Result<(), Error> {
        if self.w == Some(Acknowledgment::Nodes(0)) && self.journal == Some(true) {
            return Err(ErrorKind::InvalidOption {
                option: "journal",
                message: "w=0 asks for no reply, so the journal cannot be waited for; leave one \
                          of them out"
                    .to_owned(),
            }
            .into());
        }
        Ok(())
    }

    /// What a command carries as `writeConcern`.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        match &self.w {
            Some(Acknowledgment::Nodes(n)) => {
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
