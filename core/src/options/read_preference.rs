//! Read preferences: which members of a replica set may serve a read.

use crate::{description::Tags, error::Error};
use std::{fmt, time::Duration};

/// The mode of a read preference: which types of members may serve a read ([SEL-12]). A member is
/// eligible if the tag sets and the maximum staleness permit its use.
///
/// [SEL-12]: crate::requirements::server_selection#SEL-12
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadMode {
    /// Only the primary.
    #[default]
    Primary,
    /// The primary if there is one, else an eligible secondary.
    PrimaryPreferred,
    /// Only eligible secondaries.
    Secondary,
    /// An eligible secondary if there is one, else the primary.
    SecondaryPreferred,
    /// Any eligible member, primary or secondary, without preference for either.
    Nearest,
}

impl ReadMode {
    /// All modes, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Primary,
        Self::PrimaryPreferred,
        Self::Secondary,
        Self::SecondaryPreferred,
        Self::Nearest,
    ];

    /// Returns the name of the mode in commands and in connection strings.
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

    /// Returns the mode with this name; letter case counts.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// A read preference: a mode with tag sets, a maximum staleness and a choice about hedged reads
/// ([SEL-11], [STALE-1]). The default is mode primary without a maximum staleness ([STALE-2]).
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
///
/// [SEL-11]: crate::requirements::server_selection#SEL-11
/// [STALE-1]: crate::requirements::server_selection#STALE-1
/// [STALE-2]: crate::requirements::server_selection#STALE-2
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadPreference {
    mode: ReadMode,
    tag_sets: Vec<Tags>,
    max_staleness: Option<Duration>,
    hedge: Option<bool>,
}

impl ReadPreference {
    /// Returns a read preference with this mode and no other condition.
    #[must_use]
    pub const fn new(mode: ReadMode) -> Self {
        Self {
            mode,
            tag_sets: Vec::new(),
            max_staleness: None,
            hedge: None,
        }
    }

    /// Limits the choice to members with certain tags. The tags of the primary count only with mode
    /// nearest. The first tag set that matches a candidate decides, and an empty tag set matches
    /// every member ([SEL-21]).
    ///
    /// Fails with mode primary if a tag set is not empty ([SEL-14]).
    ///
    /// [SEL-21]: crate::requirements::server_selection#SEL-21
    /// [SEL-14]: crate::requirements::server_selection#SEL-14
    pub fn with_tag_sets(mut self, tag_sets: Vec<Tags>) -> Result<Self, Error> {
        if self.mode == ReadMode::Primary && tag_sets.iter().any(|set| !set.is_empty()) {
            return Err(Error::invalid_option(
                "readPreferenceTags",
                "mode primary takes no tag sets; choose another mode or remove them",
            ));
        }
        self.tag_sets = tag_sets;
        Ok(self)
    }

    /// Excludes secondaries whose estimated staleness is greater than this.
    ///
    /// Fails with mode primary ([SEL-15]). The minimum, 90 s or more, depends on the deployment, so
    /// that server selection checks it and this setter does not ([STALE-5]).
    ///
    /// [SEL-15]: crate::requirements::server_selection#SEL-15
    /// [STALE-5]: crate::requirements::server_selection#STALE-5
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Result<Self, Error> {
        if self.mode == ReadMode::Primary {
            return Err(Error::invalid_option(
                "maxStalenessSeconds",
                "mode primary takes no maximum staleness; choose another mode or remove \
                          it",
            ));
        }
        self.max_staleness = Some(max_staleness);
        Ok(self)
    }

    /// Sets whether mongos sends a read to two members and uses the first reply. Default: not set,
    /// and then no `hedge` field is sent ([SEL-17]).
    ///
    /// Fails with mode primary. Hedged reads are deprecated from server 8.0 on ([SEL-18]).
    ///
    /// [SEL-17]: crate::requirements::server_selection#SEL-17
    /// [SEL-18]: crate::requirements::server_selection#SEL-18
    #[deprecated = "hedged reads are deprecated in MongoDB 8.0 and will be removed"]
    pub fn with_hedge(mut self, enabled: bool) -> Result<Self, Error> {
        if self.mode == ReadMode::Primary {
            return Err(Error::invalid_option(
                "hedge",
                "mode primary takes no hedge; choose another mode or remove it",
            ));
        }
        self.hedge = Some(enabled);
        Ok(self)
    }

    /// Returns the mode (`readPreference`). Default: primary.
    #[must_use]
    pub const fn mode(&self) -> ReadMode {
        self.mode
    }

    /// Returns the tag sets (`readPreferenceTags`), in the order in which server selection tries
    /// them. Default: none.
    #[must_use]
    pub fn tag_sets(&self) -> &[Tags] {
        &self.tag_sets
    }

    /// Returns the maximum staleness (`maxStalenessSeconds`). Default: none, no limit.
    #[must_use]
    pub const fn max_staleness(&self) -> Option<Duration> {
        self.max_staleness
    }

    /// Returns whether hedged reads were switched on or off. Default: none.
    #[must_use]
    pub const fn hedge(&self) -> Option<bool> {
        self.hedge
    }

    /// True for mode primary. Tag sets, maximum staleness and hedged reads do not apply to it.
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
