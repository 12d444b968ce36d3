//! The modes of read preferences.

/// The mode of a read preference: which types of members may serve a read. A member is eligible if
/// the tag sets and the maximum staleness permit its use ([SEL-12]).
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
    ///
    /// ```
    /// use onionskin_core::options::ReadMode;
    ///
    /// assert_eq!(ReadMode::SecondaryPreferred.name(), "secondaryPreferred");
    /// ```
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
    ///
    /// ```
    /// use onionskin_core::options::ReadMode;
    ///
    /// assert_eq!(ReadMode::from_name("nearest"), Some(ReadMode::Nearest));
    /// assert_eq!(ReadMode::from_name("Nearest"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}
