//! Which members of a replica set may answer a read.

use crate::{description::Tags, error::Error, error::ErrorKind};
use std::{fmt, time::Duration};

/// The five modes (SEL-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadMode {
    /// Only the primary.
    #[default]
    Primary,
    /// The primary; while there is none, a secondary.
    PrimaryPreferred,
    /// Only secondaries.
    Secondary,
    /// A secondary; while there is none that suits, the primary.
    SecondaryPreferred,
    /// Any of them, by round trip time alone.
    Nearest,
}

impl ReadMode {
    /// All modes.
    pub const ALL: [Self; 5] = [
        Self::Primary,
        Self::PrimaryPreferred,
        Self::Secondary,
        Self::SecondaryPreferred,
        Self::Nearest,
    ];

    /// Its name on the wire and in connection strings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::PrimaryPreferred => "primaryPreferred",
            Self::Secondary => "secondary",
            Self::SecondaryPreferred => "secondaryPreferred",
            Self::Nearest => "nearest",
        }
    }

    /// The mode of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// A mode with the conditions that go with it (SEL-11, STALE-1). The default is the primary,
/// without a limit of staleness (STALE-2).
///
/// ```
/// use onionskin_core::options::{ReadMode, ReadPreference};
///
/// let nearest = ReadPreference::new(ReadMode::Nearest);
/// assert_eq!(nearest.mode(), ReadMode::Nearest);
/// let tagged = nearest.with_tag_sets(vec![[("dc".into(), "ny".into())].into()])?;
/// assert!(ReadPreference::default().with_tag_sets(tagged.tag_sets().to_vec()).is_err());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadPreference {
    mode: ReadMode,
    tag_sets: Vec<Tags>,
    max_staleness: Option<Duration>,
    hedge: Option<bool>,
}

impl ReadPreference {
    /// A mode without further conditions.
    #[must_use]
    pub const fn new(mode: ReadMode) -> Self {
        Self {
            mode,
            tag_sets: Vec::new(),
            max_staleness: None,
            hedge: None,
        }
    }

    /// Limits the choice to members with these tags: the first set that fits some member decides
    /// (SEL-21). A set without tags fits every member. Refused with mode primary, unless all sets
    /// are empty (SEL-14).
    pub fn with_tag_sets(mut self, tag_sets: Vec<Tags>) -> Result<Self, Error> {
        if self.mode == ReadMode::Primary && tag_sets.iter().any(|set| !set.is_empty()) {
            return Err(ErrorKind::InvalidOption {
                option: "readPreferenceTags",
                message: "tags choose among members, and mode primary leaves no choice".to_owned(),
            }
            .into());
        }
        self.tag_sets = tag_sets;
        Ok(self)
    }

    /// Leaves out secondaries that are estimated to be further behind than this. Refused with mode
    /// primary (SEL-15). The smallest useful value is 90 s; it is checked at selection, because it
    /// depends on the deployment (STALE-5).
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Result<Self, Error> {
        if self.mode == ReadMode::Primary {
            return Err(ErrorKind::InvalidOption {
                option: "maxStalenessSeconds",
                message: "the primary is never stale; choose another mode".to_owned(),
            }
            .into());
        }
        self.max_staleness = Some(max_staleness);
        Ok(self)
    }

    /// Asks mongos to send the read to two members and to take the first answer; `false` asks it
    /// not to. Refused with mode primary. Not asked for by default (SEL-17).
    ///
    /// Servers from 8.0 on ignore it (SEL-18).
    #[deprecated = "hedged reads are deprecated in MongoDB 8.0 and will be removed"]
    pub fn with_hedge(mut self, enabled: bool) -> Result<Self, Error> {
        if self.mode == ReadMode::Primary {
            return Err(ErrorKind::InvalidOption {
                option: "hedge",
                message: "the primary is only one; choose another mode".to_owned(),
            }
            .into());
        }
        self.hedge = Some(enabled);
        Ok(self)
    }

    /// The mode.
    #[must_use]
    pub const fn mode(&self) -> ReadMode {
        self.mode
    }

    /// The tag sets, in the order in which they are tried.
    #[must_use]
    pub fn tag_sets(&self) -> &[Tags] {
        &self.tag_sets
    }

    /// The greatest staleness, if limited.
    #[must_use]
    pub const fn max_staleness(&self) -> Option<Duration> {
        self.max_staleness
    }

    /// Whether hedged reads are asked for, or asked not to be used; `None` where nothing was
    /// chosen.
    #[must_use]
    pub const fn hedge(&self) -> Option<bool> {
        self.hedge
    }

    /// True for mode primary, whose other parts are always empty.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.mode == ReadMode::Primary
    }
}

impl fmt::Display for ReadPreference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ mode: {}", self.mode.name())?;
        if !self.tag_sets.is_empty() {
            write!(f, ", tagSets: {:?}", self.tag_sets)?;
        }
        if let Some(max) = self.max_staleness {
            write!(f, ", maxStalenessSeconds: {}", max.as_secs())?;
        }
        if let Some(enabled) = self.hedge {
            write!(f, ", hedge: {{ enabled: {enabled} }}")?;
        }
        f.write_str(" }")
    }
}
