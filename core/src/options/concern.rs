//! Read and write concerns.

use super::table::{OptionValue, millis, options};
use crate::{bson::DocumentWriter, error::Error, time::whole_millis};
use bson::{RawDocumentBuf, cstr};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// The state of the data that a read sees, sent as `readConcern` (Read and Write Concern,
/// *ReadConcern*).
///
/// ```
/// use onionskin_core::options::{ReadConcern, ReadConcernLevel};
///
/// assert_eq!(ReadConcern::majority().level, ReadConcernLevel::Majority);
/// assert_eq!(ReadConcern::custom("majority"), ReadConcern::majority());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadConcern {
    /// The level.
    pub level: ReadConcernLevel,
}

/// The level of a read concern. The driver does not check which levels a server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConcernLevel {
    /// `local`: the newest data of the member, which may be rolled back.
    Local,
    /// `majority`: data that a majority of the members has, so that it is not rolled back.
    Majority,
    /// `linearizable`: data with the effect of all majority writes that ended before the read
    /// began. Only the primary serves such reads.
    Linearizable,
    /// `available`: like `local`, but on a sharded cluster a read can return orphaned documents.
    Available,
    /// `snapshot`: data of a majority as of one point in time.
    Snapshot,
    /// Another level.
    Custom(String),
}

impl ReadConcernLevel {
    /// Returns the level with this name.
    ///
    /// ```
    /// use onionskin_core::options::ReadConcernLevel;
    ///
    /// assert_eq!(ReadConcernLevel::from_name("majority"), ReadConcernLevel::Majority);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "local" => Self::Local,
            "majority" => Self::Majority,
            "linearizable" => Self::Linearizable,
            "available" => Self::Available,
            "snapshot" => Self::Snapshot,
            other => Self::Custom(other.to_owned()),
        }
    }

    /// Returns the name of the level as it is sent.
    ///
    /// ```
    /// use onionskin_core::options::ReadConcernLevel;
    ///
    /// assert_eq!(ReadConcernLevel::Majority.as_str(), "majority");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Majority => "majority",
            Self::Linearizable => "linearizable",
            Self::Available => "available",
            Self::Snapshot => "snapshot",
            Self::Custom(name) => name,
        }
    }
}

impl Serialize for ReadConcernLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ReadConcernLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_name(&String::deserialize(deserializer)?))
    }
}

impl From<ReadConcernLevel> for ReadConcern {
    fn from(level: ReadConcernLevel) -> Self {
        Self { level }
    }
}

impl ReadConcern {
    /// Returns the read concern with the level [`Local`](ReadConcernLevel::Local).
    ///
    /// ```
    /// use onionskin_core::options::{ReadConcern, ReadConcernLevel};
    ///
    /// // The newest data of the member, which may be rolled back.
    /// let concern = ReadConcern::local();
    /// assert_eq!(concern.level, ReadConcernLevel::Local);
    /// ```
    #[must_use]
    pub const fn local() -> Self {
        Self::of(ReadConcernLevel::Local)
    }

    /// Returns the read concern with the level [`Majority`](ReadConcernLevel::Majority).
    ///
    /// ```
    /// use onionskin_core::options::{ReadConcern, ReadConcernLevel};
    ///
    /// // Data that is not rolled back.
    /// let concern = ReadConcern::majority();
    /// assert_eq!(concern.level, ReadConcernLevel::Majority);
    /// ```
    #[must_use]
    pub const fn majority() -> Self {
        Self::of(ReadConcernLevel::Majority)
    }

    /// Returns the read concern with the level [`Linearizable`](ReadConcernLevel::Linearizable).
    ///
    /// ```
    /// use onionskin_core::options::{ReadConcern, ReadConcernLevel};
    ///
    /// // One document of the primary, after all majority writes that ended before.
    /// let concern = ReadConcern::linearizable();
    /// assert_eq!(concern.level, ReadConcernLevel::Linearizable);
    /// ```
    #[must_use]
    pub const fn linearizable() -> Self {
        Self::of(ReadConcernLevel::Linearizable)
    }

    /// Returns the read concern with the level [`Available`](ReadConcernLevel::Available).
    ///
    /// ```
    /// use onionskin_core::options::{ReadConcern, ReadConcernLevel};
    ///
    /// // Orphaned documents of a sharded cluster do no harm here.
    /// let concern = ReadConcern::available();
    /// assert_eq!(concern.level, ReadConcernLevel::Available);
    /// ```
    #[must_use]
    pub const fn available() -> Self {
        Self::of(ReadConcernLevel::Available)
    }

    /// Returns the read concern with the level [`Snapshot`](ReadConcernLevel::Snapshot).
    ///
    /// ```
    /// use onionskin_core::options::{ReadConcern, ReadConcernLevel};
    ///
    /// // All reads of a transaction see the same point in time.
    /// let concern = ReadConcern::snapshot();
    /// assert_eq!(concern.level, ReadConcernLevel::Snapshot);
    /// ```
    #[must_use]
    pub const fn snapshot() -> Self {
        Self::of(ReadConcernLevel::Snapshot)
    }

    /// Returns the read concern with the level of this name.
    ///
    /// ```
    /// use onionskin_core::options::ReadConcern;
    ///
    /// let concern = ReadConcern::custom("local");
    /// assert_eq!(concern, ReadConcern::local());
    /// ```
    pub fn custom(level: impl AsRef<str>) -> Self {
        Self::of(ReadConcernLevel::from_name(level.as_ref()))
    }

    const fn of(level: ReadConcernLevel) -> Self {
        Self { level }
    }
}

/// How many members have to acknowledge a write (`w`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgment {
    /// This number of members, the primary included. Zero means that the client does not wait for a
    /// reply.
    Nodes(u32),
    /// A majority of the members that vote.
    Majority,
    /// A mode of the replica set's configuration.
    Custom(String),
}

impl From<u32> for Acknowledgment {
    fn from(members: u32) -> Self {
        Self::Nodes(members)
    }
}

impl From<&str> for Acknowledgment {
    fn from(mode: &str) -> Self {
        match mode {
            "majority" => Self::Majority,
            other => Self::Custom(other.to_owned()),
        }
    }
}

impl From<String> for Acknowledgment {
    fn from(mode: String) -> Self {
        Self::from(mode.as_str())
    }
}

impl Serialize for Acknowledgment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(members) => i32::try_from(*members)
                .unwrap_or(i32::MAX)
                .serialize(serializer),
            Self::Majority => serializer.serialize_str("majority"),
            Self::Custom(mode) => serializer.serialize_str(mode),
        }
    }
}

impl<'de> Deserialize<'de> for Acknowledgment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Members(u32),
            Mode(String),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Members(members) => Self::Nodes(members),
            Form::Mode(mode) => mode.into(),
        })
    }
}

options! { ($)
    /// The meaning of the acknowledgment of a write, sent as `writeConcern` (Read and Write
    /// Concern, *WriteConcern*).
    ///
    /// ```
    /// use onionskin_core::options::{Acknowledgment, WriteConcern};
    /// use std::time::Duration;
    ///
    /// let two = WriteConcern::builder().w(Acknowledgment::Nodes(2)).build();
    /// assert_eq!(two, WriteConcern::nodes(2));
    /// // The write is in the journal of these members, or the call fails after five seconds.
    /// let durable = WriteConcern::builder()
    ///     .w(Acknowledgment::Majority)
    ///     .journal(true)
    ///     .w_timeout(Duration::from_secs(5))
    ///     .build();
    /// assert!(WriteConcern::default().is_empty() && !durable.is_empty());
    /// ```
    WriteConcern, built by WriteConcernBuilder => {
        /// The members that have to acknowledge a write; `None` for the default of the server.
        w: Acknowledgment => Kept "w",
        /// How long the server waits for the members (`wtimeout`), in whole milliseconds. `None`
        /// or zero for no limit.
        w_timeout: Duration => Kept "wtimeout" as "millis",
        /// Whether a write has to be in the journal of these members before they acknowledge it;
        /// `None` for the default of the server.
        journal: bool => Kept "j",
    }
}

impl Eq for WriteConcern {}

impl From<Acknowledgment> for WriteConcern {
    fn from(w: Acknowledgment) -> Self {
        Self {
            w: Some(w),
            ..Self::default()
        }
    }
}

impl WriteConcern {
    /// Returns the write concern that a majority of the voting members has to acknowledge.
    ///
    /// ```
    /// use onionskin_core::options::{Acknowledgment, WriteConcern};
    ///
    /// assert_eq!(WriteConcern::majority().w, Some(Acknowledgment::Majority));
    /// ```
    #[must_use]
    pub fn majority() -> Self {
        Acknowledgment::Majority.into()
    }

    /// Returns the write concern that this number of members has to acknowledge.
    ///
    /// ```
    /// use onionskin_core::options::{Acknowledgment, WriteConcern};
    ///
    /// let mut concern = WriteConcern::nodes(2);
    /// concern.journal = Some(true);
    /// assert_eq!(concern.w, Some(Acknowledgment::Nodes(2)));
    /// ```
    #[must_use]
    pub fn nodes(members: u32) -> Self {
        Acknowledgment::Nodes(members).into()
    }

    /// Returns the write concern with a mode of the replica set's configuration.
    ///
    /// ```
    /// use onionskin_core::options::{Acknowledgment, WriteConcern};
    ///
    /// // A mode that the configuration of the replica set defines.
    /// let concern = WriteConcern::custom("two data centers");
    /// assert_eq!(concern.w, Some(Acknowledgment::Custom("two data centers".to_owned())));
    /// ```
    pub fn custom(mode: impl AsRef<str>) -> Self {
        Acknowledgment::from(mode.as_ref()).into()
    }

    /// True if nothing is set. No write concern is sent then, and the default of the server
    /// applies.
    ///
    /// ```
    /// use onionskin_core::options::WriteConcern;
    ///
    /// assert!(WriteConcern::default().is_empty());
    /// assert!(!WriteConcern::nodes(1).is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if a server has to confirm writes. False for `w: 0` without `journal: true`: the client
    /// then sends a write and does not wait for a reply.
    ///
    /// ```
    /// use onionskin_core::options::WriteConcern;
    ///
    /// assert!(WriteConcern::default().is_acknowledged());
    /// assert!(!WriteConcern::nodes(0).is_acknowledged());
    /// ```
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgment::Nodes(0)) || self.journal == Some(true)
    }

    /// Fails if `w: 0` and `journal: true` are combined. Fails as well if `w` is larger than any
    /// replica set could be ([URI-23]).
    ///
    /// ```
    /// use onionskin_core::options::WriteConcern;
    ///
    /// let mut concern = WriteConcern::nodes(0);
    /// assert!(concern.validate().is_ok());
    /// concern.journal = Some(true);
    /// assert!(concern.validate().is_err());
    /// ```
    ///
    /// [URI-23]: crate::requirements::connection_strings#URI-23
    pub fn validate(&self) -> Result<(), Error> {
        match self.w {
            Some(Acknowledgment::Nodes(0)) if self.journal == Some(true) => {
                Err(Error::invalid_option(
                    "journal",
                    "it conflicts with w=0, with which no acknowledgment comes; remove one of them",
                ))
            }
            Some(Acknowledgment::Nodes(members)) if i32::try_from(members).is_err() => {
                Err(Error::invalid_option("w", "it is larger than 2147483647"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the write concern as the document that is sent.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::options::WriteConcern;
    ///
    /// assert_eq!(WriteConcern::majority().to_document(), rawdoc! { "w": "majority" });
    /// ```
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        match &self.w {
            Some(Acknowledgment::Nodes(n)) => {
                document.append(cstr!("w"), i32::try_from(*n).unwrap_or(i32::MAX));
            }
            Some(Acknowledgment::Majority) => document.append(cstr!("w"), "majority"),
            Some(Acknowledgment::Custom(mode)) => document.append(cstr!("w"), mode.as_str()),
            None => {}
        }
        if let Some(journal) = self.journal {
            document.append(cstr!("j"), journal);
        }
        if let Some(timeout) = self.w_timeout {
            document.append(cstr!("wtimeout"), whole_millis(timeout));
        }
        document
    }
}

impl OptionValue for WriteConcern {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.document(key, &self.to_document());
        Ok(())
    }
}
