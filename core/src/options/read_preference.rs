//! Read preferences: which members of a replica set may serve a read.

use super::{
    HedgedReadOptions, ReadMode,
    table::{options, seconds},
};
use crate::{description::Tags, error::Error, time::whole_seconds};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{
    fmt::{self, Write as _},
    time::Duration,
};

/// A read preference: a mode with tag sets, a maximum staleness and a choice about hedged reads.
/// The default is mode primary without a maximum staleness ([SEL-11], [STALE-1], [STALE-2]).
///
/// ```
/// use onionskin_core::options::{ReadMode, ReadPreference, ReadPreferenceOptions};
/// use std::time::Duration;
///
/// let options = ReadPreferenceOptions::builder().max_staleness(Duration::from_secs(120)).build();
/// let fresh = ReadPreference::Secondary { options: Some(options) };
/// assert_eq!(fresh.mode(), ReadMode::Secondary);
/// let tagged = ReadPreference::new(ReadMode::Nearest)
///     .with_tag_sets(vec![[("dc".into(), "ny".into())].into()])?;
/// assert!(ReadPreference::Primary.with_tag_sets(tagged.tag_sets().to_vec()).is_err());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
///
/// [SEL-11]: crate::requirements::server_selection#SEL-11
/// [STALE-1]: crate::requirements::server_selection#STALE-1
/// [STALE-2]: crate::requirements::server_selection#STALE-2
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReadPreference {
    /// [`ReadMode::Primary`]. This mode takes no options ([SEL-14]).
    ///
    /// [SEL-14]: crate::requirements::server_selection#SEL-14
    #[default]
    Primary,
    /// [`ReadMode::Secondary`].
    Secondary {
        /// The other conditions; `None` for none.
        options: Option<ReadPreferenceOptions>,
    },
    /// [`ReadMode::PrimaryPreferred`].
    PrimaryPreferred {
        /// The other conditions, for secondaries; `None` for none.
        options: Option<ReadPreferenceOptions>,
    },
    /// [`ReadMode::SecondaryPreferred`].
    SecondaryPreferred {
        /// The other conditions, for secondaries; `None` for none.
        options: Option<ReadPreferenceOptions>,
    },
    /// [`ReadMode::Nearest`].
    Nearest {
        /// The other conditions; `None` for none.
        options: Option<ReadPreferenceOptions>,
    },
}

options! { ($)
    /// The conditions of a read preference beside its mode.
    ///
    /// ```
    /// use onionskin_core::options::{HedgedReadOptions, ReadPreference, ReadPreferenceOptions};
    /// use std::time::Duration;
    ///
    /// // A member in New York, or else any member.
    /// let in_new_york = [("dc".into(), "ny".into())].into();
    /// let options = ReadPreferenceOptions::builder()
    ///     .tag_sets(vec![in_new_york, [].into()])
    ///     .max_staleness(Duration::from_secs(120))
    ///     .hedge(HedgedReadOptions::with_enabled(false))
    ///     .build();
    /// let preference = ReadPreference::nearest(options);
    /// assert_eq!(preference.tag_sets().len(), 2);
    /// ```
    ReadPreferenceOptions, built by ReadPreferenceOptionsBuilder => {
        /// The sets of tags, of which the first that matches an eligible member decides. An empty
        /// set matches every member.
        tag_sets: Vec<Tags> => Kept "tags",
        /// The largest estimated staleness of a secondary, in whole seconds. The minimum, 90 s or
        /// more, depends on the deployment and is checked by server selection.
        max_staleness: Duration => Kept "maxStalenessSeconds" as "seconds",
        /// Whether mongos sends a read to two members and uses the first reply. Deprecated from
        /// server 8.0 on.
        hedge: HedgedReadOptions => Kept "hedge",
    }
}

impl Eq for ReadPreferenceOptions {}

impl PartialOrd for ReadPreferenceOptions {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReadPreferenceOptions {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |o: &Self| (o.tag_sets.clone(), o.max_staleness, o.hedge);
        key(self).cmp(&key(other))
    }
}

impl ReadPreference {
    /// Returns a read preference with this mode and no other condition.
    ///
    /// ```
    /// use onionskin_core::options::{ReadMode, ReadPreference};
    ///
    /// let preference = ReadPreference::new(ReadMode::Nearest);
    /// assert_eq!(preference, ReadPreference::nearest(None));
    /// ```
    #[must_use]
    pub const fn new(mode: ReadMode) -> Self {
        Self::with_mode(mode, None)
    }

    const fn with_mode(mode: ReadMode, options: Option<ReadPreferenceOptions>) -> Self {
        match mode {
            ReadMode::Primary => {
                // Without this, the drop of a value would be evaluated in a constant.
                std::mem::forget(options);
                Self::Primary
            }
            ReadMode::PrimaryPreferred => Self::PrimaryPreferred { options },
            ReadMode::Secondary => Self::Secondary { options },
            ReadMode::SecondaryPreferred => Self::SecondaryPreferred { options },
            ReadMode::Nearest => Self::Nearest { options },
        }
    }

    /// Returns the read preference for the primary.
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    ///
    /// assert_eq!(ReadPreference::primary(), ReadPreference::default());
    /// ```
    #[must_use]
    pub const fn primary() -> Self {
        Self::Primary
    }

    /// Returns a read preference for secondaries.
    ///
    /// ```
    /// use onionskin_core::options::{ReadMode, ReadPreference};
    ///
    /// assert_eq!(ReadPreference::secondary(None).mode(), ReadMode::Secondary);
    /// ```
    pub fn secondary(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::Secondary {
            options: options.into(),
        }
    }

    /// Returns a read preference for the primary, or else a secondary.
    ///
    /// ```
    /// use onionskin_core::options::{ReadMode, ReadPreference};
    ///
    /// // Reads go on while there is no primary.
    /// let preference = ReadPreference::primary_preferred(None);
    /// assert_eq!(preference.mode(), ReadMode::PrimaryPreferred);
    /// ```
    pub fn primary_preferred(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::PrimaryPreferred {
            options: options.into(),
        }
    }

    /// Returns a read preference for secondaries, or else the primary.
    ///
    /// ```
    /// use onionskin_core::options::{ReadPreference, ReadPreferenceOptions};
    /// use std::time::Duration;
    ///
    /// let any = ReadPreference::secondary_preferred(None);
    /// let fresh = ReadPreferenceOptions::builder().max_staleness(Duration::from_secs(90)).build();
    /// let fresh = ReadPreference::secondary_preferred(fresh);
    /// # assert_ne!(any, fresh);
    /// ```
    pub fn secondary_preferred(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::SecondaryPreferred {
            options: options.into(),
        }
    }

    /// Returns a read preference for all members.
    ///
    /// ```
    /// use onionskin_core::options::{ReadMode, ReadPreference};
    ///
    /// assert_eq!(ReadPreference::nearest(None).mode(), ReadMode::Nearest);
    /// ```
    pub fn nearest(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::Nearest {
            options: options.into(),
        }
    }

    /// Fails if the name of a tag contains a NUL character, which a name in BSON cannot.
    pub(crate) fn check_tags(&self) -> Result<(), Error> {
        let mut names = self.tag_sets().iter().flat_map(|set| set.keys());
        match names.find(|name| name.contains('\0')) {
            None => Ok(()),
            Some(name) => Err(Error::invalid_option(
                "readPreferenceTags",
                format!("the tag name {name:?} contains a NUL character"),
            )),
        }
    }

    /// Limits the choice to members with certain tags. The tags of the primary count only with mode
    /// nearest. The first tag set that matches a candidate decides, and an empty tag set matches
    /// every member ([SEL-21]).
    ///
    /// Fails if a tag name contains a NUL character, and with mode primary if a tag set is not
    /// empty. For tag sets of [`ReadPreferenceOptions`], the operation fails instead ([SEL-14]).
    ///
    /// ```
    /// use onionskin_core::options::{ReadMode, ReadPreference};
    ///
    /// let in_new_york = [("dc".into(), "ny".into())].into();
    /// let tagged = ReadPreference::new(ReadMode::Nearest).with_tag_sets(vec![in_new_york])?;
    /// assert_eq!(tagged.tag_sets().len(), 1);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    ///
    /// [SEL-21]: crate::requirements::server_selection#SEL-21
    /// [SEL-14]: crate::requirements::server_selection#SEL-14
    pub fn with_tag_sets(mut self, tag_sets: Vec<Tags>) -> Result<Self, Error> {
        match self.options_mut() {
            Some(options) => options.tag_sets = Some(tag_sets),
            None if tag_sets.iter().any(|set| !set.is_empty()) => {
                return Err(Error::invalid_option(
                    "readPreferenceTags",
                    "mode primary takes no tag sets; choose another mode or remove them",
                ));
            }
            None => {}
        }
        self.check_tags()?;
        Ok(self)
    }

    /// Excludes secondaries whose estimated staleness is greater than this.
    ///
    /// Fails with mode primary. The minimum, 90 s or more, depends on the deployment, so that
    /// server selection checks it and this setter does not ([SEL-15], [STALE-5]).
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    /// use std::time::Duration;
    ///
    /// let two_minutes = Duration::from_secs(120);
    /// let fresh = ReadPreference::secondary(None).with_max_staleness(two_minutes)?;
    /// assert_eq!(fresh.max_staleness(), Some(two_minutes));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    ///
    /// [SEL-15]: crate::requirements::server_selection#SEL-15
    /// [STALE-5]: crate::requirements::server_selection#STALE-5
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Result<Self, Error> {
        let Some(options) = self.options_mut() else {
            return Err(Error::invalid_option(
                "maxStalenessSeconds",
                "readPreference primary, the default, takes none; choose another mode or remove it",
            ));
        };
        options.max_staleness = Some(max_staleness);
        Ok(self)
    }

    /// Sets whether mongos sends a read to two members and uses the first reply. Default: not set,
    /// and then no `hedge` field is sent ([SEL-17]).
    ///
    /// Fails with mode primary. Hedged reads are deprecated from server 8.0 on ([SEL-18]).
    ///
    /// ```
    /// # #![allow(deprecated)]
    /// use onionskin_core::options::ReadPreference;
    ///
    /// let hedged = ReadPreference::nearest(None).with_hedge(true)?;
    /// assert_eq!(hedged.hedge(), Some(true));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    ///
    /// [SEL-17]: crate::requirements::server_selection#SEL-17
    /// [SEL-18]: crate::requirements::server_selection#SEL-18
    #[deprecated = "hedged reads are deprecated in MongoDB 8.0 and will be removed"]
    pub fn with_hedge(mut self, enabled: bool) -> Result<Self, Error> {
        let Some(options) = self.options_mut() else {
            return Err(Error::invalid_option(
                "hedge",
                "mode primary takes no hedge; choose another mode or remove it",
            ));
        };
        options.hedge = Some(HedgedReadOptions { enabled });
        Ok(self)
    }

    /// Returns the mode (`readPreference`). Default: primary.
    ///
    /// ```
    /// use onionskin_core::options::{ReadMode, ReadPreference};
    ///
    /// assert_eq!(ReadPreference::default().mode(), ReadMode::Primary);
    /// ```
    #[must_use]
    pub const fn mode(&self) -> ReadMode {
        match self {
            Self::Primary => ReadMode::Primary,
            Self::PrimaryPreferred { .. } => ReadMode::PrimaryPreferred,
            Self::Secondary { .. } => ReadMode::Secondary,
            Self::SecondaryPreferred { .. } => ReadMode::SecondaryPreferred,
            Self::Nearest { .. } => ReadMode::Nearest,
        }
    }

    /// Returns the conditions beside the mode; `None` if there are none.
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    ///
    /// assert_eq!(ReadPreference::secondary(None).options(), None);
    /// ```
    #[must_use]
    pub const fn options(&self) -> Option<&ReadPreferenceOptions> {
        match self {
            Self::Primary => None,
            Self::PrimaryPreferred { options }
            | Self::Secondary { options }
            | Self::SecondaryPreferred { options }
            | Self::Nearest { options } => options.as_ref(),
        }
    }

    /// Returns the options to change them; `None` with mode primary.
    fn options_mut(&mut self) -> Option<&mut ReadPreferenceOptions> {
        match self {
            Self::Primary => None,
            Self::PrimaryPreferred { options }
            | Self::Secondary { options }
            | Self::SecondaryPreferred { options }
            | Self::Nearest { options } => Some(options.get_or_insert_default()),
        }
    }

    /// Returns the tag sets (`readPreferenceTags`), in the order in which server selection tries
    /// them. Default: none.
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    ///
    /// assert!(ReadPreference::secondary(None).tag_sets().is_empty());
    /// ```
    #[must_use]
    pub fn tag_sets(&self) -> &[Tags] {
        let sets = self.options().and_then(|o| o.tag_sets.as_deref());
        sets.unwrap_or_default()
    }

    /// Returns the maximum staleness (`maxStalenessSeconds`). Default: none, no limit.
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    ///
    /// assert_eq!(ReadPreference::secondary(None).max_staleness(), None);
    /// ```
    #[must_use]
    pub fn max_staleness(&self) -> Option<Duration> {
        self.options()?.max_staleness
    }

    /// Returns whether hedged reads were switched on or off. Default: none.
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    ///
    /// assert_eq!(ReadPreference::secondary(None).hedge(), None);
    /// ```
    #[must_use]
    pub fn hedge(&self) -> Option<bool> {
        Some(self.options()?.hedge?.enabled)
    }

    /// True for mode primary. Tag sets, maximum staleness and hedged reads do not apply to it.
    ///
    /// ```
    /// use onionskin_core::options::ReadPreference;
    ///
    /// assert!(ReadPreference::default().is_primary());
    /// assert!(!ReadPreference::primary_preferred(None).is_primary());
    /// ```
    #[must_use]
    pub fn is_primary(&self) -> bool {
        matches!(self, Self::Primary)
    }
}

impl fmt::Display for ReadPreference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ mode: {}", self.mode().name())?;
        if !self.tag_sets().is_empty() {
            f.write_str(", tagSets: [")?;
            for (number, set) in self.tag_sets().iter().enumerate() {
                f.write_str(if number == 0 { "{" } else { ", {" })?;
                for (number, (name, value)) in set.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { ", " })?;
                    quoted(name, f)?;
                    f.write_str(": ")?;
                    quoted(value, f)?;
                }
                f.write_str("}")?;
            }
            f.write_str("]")?;
        }
        if let Some(max) = self.max_staleness() {
            write!(f, ", maxStalenessSeconds: {}", whole_seconds(max))?;
        }
        if let Some(enabled) = self.hedge() {
            write!(f, ", hedge: {{ enabled: {enabled} }}")?;
        }
        f.write_str(" }")
    }
}

/// Writes a text in quotation marks as in JSON. What a terminal does not show is escaped.
fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            _ if c.escape_debug().len() == 1 || c == '\'' => f.write_char(c)?,
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(f, "\\u{unit:04x}")?;
                }
            }
        }
    }
    f.write_char('"')
}

/// The serde form of a read preference: `{ mode, tags, maxStalenessSeconds, hedge }`. `tagSets` is
/// read as `tags`.
#[derive(Serialize, Deserialize)]
struct Form {
    mode: String,
    /// The tag sets by the name that they have in options of other drivers, for reading only.
    #[serde(rename = "tagSets", default, skip_serializing)]
    tag_sets: Option<Vec<Tags>>,
    #[serde(flatten)]
    options: ReadPreferenceOptions,
}

impl Serialize for ReadPreference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Form {
            mode: self.mode().name().to_owned(),
            tag_sets: None,
            options: self.options().cloned().unwrap_or_default(),
        }
        .serialize(serializer)
    }
}

/// Fails for an unknown mode, and for the mode primary with options.
impl<'de> Deserialize<'de> for ReadPreference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form {
            mode,
            tag_sets,
            mut options,
        } = Form::deserialize(deserializer)?;
        options.tag_sets = options.tag_sets.or(tag_sets);
        let known = ReadMode::ALL
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(&mode));
        let known = known.ok_or_else(|| D::Error::custom(format!("unknown mode {mode:?}")))?;
        let is_plain = options == ReadPreferenceOptions::default();
        if known == ReadMode::Primary && !is_plain {
            return Err(D::Error::custom("mode primary takes no options"));
        }
        Ok(Self::with_mode(known, (!is_plain).then_some(options)))
    }
}
