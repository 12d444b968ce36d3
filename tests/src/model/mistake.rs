//! Mistakes that a driver could make: each is one line of the model gone wrong.

/// A wrong reading of the requirements.
///
/// A model that makes one has to be told apart from the machine; a net that cannot do that would
/// not have caught the mistake in the machine either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// `ismaster` is not looked at where `isWritablePrimary` is absent (SDAM-39).
    NoLegacyPrimary,
    /// `ismaster` counts where `isWritablePrimary` says false (SDAM-39).
    LegacyOverrules,
    /// A set's name is tested before `isreplicaset` (table A.2.2).
    SetNameBeforeGhost,
    /// `msg: isdbgrid` is tested before `isreplicaset` (table A.2.2).
    RouterBeforeGhost,
    /// A hidden member counts as the secondary that it also is (table A.2.2).
    HiddenIsSecondary,
    /// Names keep their case (SDAM-53).
    NamesKeepCase,
    /// The text of an error without a code says nothing (SDAM-92).
    NoTextWithoutCode,
    /// The text of an error counts although it has a code (SDAM-88).
    TextOverrulesCode,
    /// A `writeConcernError` is not looked at (SDAM-93).
    NoWriteConcernError,
    /// `writeErrors` are looked at (SDAM-94).
    WriteErrorsCount,
    /// An equal topology version refuses a hello (SDAM-37).
    EqualHelloRefused,
    /// An equal topology version accepts an error (SDAM-87).
    EqualErrorAccepted,
    /// The Unknown of a state change error forgets the error's topology version (SDAM-95).
    ErrorVersionForgotten,
    /// An error of an earlier generation counts (SDAM-86).
    StaleGenerationCounts,
    /// PrimarySteppedDown clears the pool like a shutdown (SDAM-91).
    StepDownClears,
    /// A shutdown does not clear the pool (SDAM-98).
    ShutdownDoesNotClear,
    /// A timeout of an operation makes its server unknown (SDAM-101).
    OperationTimeoutCounts,
    /// The label of overload is not looked at (SDAM-104).
    OverloadCounts,
    /// After a state change error nobody asks for a check (SDAM-96).
    NoCheckAfterStateChange,
    /// After a network error somebody asks for a check (SDAM-108).
    CheckAfterNetworkError,
    /// After a network error the running check goes on (SDAM-109).
    NetworkErrorDoesNotCancel,
    /// A pool is not made ready by a check (SDAM-84).
    CheckDoesNotReady,
    /// The pool of a primary that a newer one replaced is cleared (SDAM-75).
    OldPrimaryCleared,
    /// Nobody asks for a check of a primary that a newer one replaced (SDAM-74).
    OldPrimaryNotChecked,
    /// A primary that a newer one replaced stays a primary (SDAM-74).
    OldPrimaryStays,
    /// Whatever calls itself primary is one (SDAM-72).
    AnyPrimaryAccepted,
    /// The rule of 6.0 holds for every version (SDAM-73).
    NewPairRuleAlways,
    /// The rule before 6.0 holds for every version (SDAM-72).
    OldPairRuleAlways,
    /// Without a `me` a member is removed, as if it had another (A.11, trap 3).
    MissingMeRemoves,
    /// What `me` says is not looked at (A.5).
    MeIgnored,
    /// A member's list removes servers although no primary is known (SDAM-79).
    MemberRemoves,
    /// Servers that the primary does not name stay (SDAM-80).
    PrimaryDoesNotRemove,
    /// Members of another set stay (A.5).
    SetNameIgnored,
    /// "One seed" is taken as "one server by now" (A.11, trap 6).
    OneServerIsOneSeed,
    /// A ghost is removed from a replica set (SDAM-43).
    GhostRemoved,
    /// A failed check leaves the pool alone (MON-62).
    FailedCheckDoesNotClear,
    /// A timeout of a check does not break connections in use (MON-63).
    TimeoutDoesNotInterrupt,
    /// A check that failed is never repeated at once (MON-66).
    NoRetryOfCheck,
    /// A check that failed is repeated at once, known server or not (MON-66).
    AlwaysRetryOfCheck,
    /// A request is remembered while a check runs (MON-17).
    RequestRemembered,
    /// A requested check does not wait for the 500 ms (MON-31).
    NoFloor,
    /// Replies that come early are followed by the next check at once for ever (a bound of the
    /// driver's own beside MON-56).
    NoBoundForEarlyReplies,
    /// Servers that others name are checked at once for ever (a bound of the driver's own beside
    /// MON-12).
    NoBoundForNewServers,
    /// Ghosts, arbiters and others are left out of the check of versions (SDAM-60).
    OnlyDataBearingCompatible,
    /// The two texts about versions are exchanged (SDAM-60).
    CompatibilityTextsSwapped,
    /// A server without session timeout is left out of the smallest one (SDAM-83).
    MissingTimeoutSkipped,
    /// Tags are not read (table A.2.1).
    NoTags,
    /// `lastWrite` is not read (SDAM-50).
    NoLastWrite,
    /// The round trip time of an unknown server is kept (SDAM-49).
    UnknownKeepsRoundTrip,
    /// One measurement is enough for the smallest round trip time (MON-49).
    SmallestOfOne,
    /// The smallest round trip time is that of all measurements, not of the last ten (MON-49).
    SmallestOfAll,
}

impl Mistake {
    /// Those that no official file catches: the first five of the list in section A.13, then what
    /// it names from reading.
    pub const UNCHECKED: [Self; 18] = [
        Self::NoLegacyPrimary,
        Self::SetNameBeforeGhost,
        Self::RouterBeforeGhost,
        Self::NoTextWithoutCode,
        Self::NoWriteConcernError,
        Self::NoCheckAfterStateChange,
        Self::CheckAfterNetworkError,
        Self::NetworkErrorDoesNotCancel,
        Self::CheckDoesNotReady,
        Self::OldPrimaryCleared,
        Self::OldPrimaryNotChecked,
        Self::OnlyDataBearingCompatible,
        Self::CompatibilityTextsSwapped,
        Self::NoTags,
        Self::NoLastWrite,
        Self::UnknownKeepsRoundTrip,
        Self::SmallestOfOne,
        Self::SmallestOfAll,
    ];

    /// All others.
    pub const CHECKED: [Self; 31] = [
        Self::LegacyOverrules,
        Self::HiddenIsSecondary,
        Self::NamesKeepCase,
        Self::TextOverrulesCode,
        Self::WriteErrorsCount,
        Self::EqualHelloRefused,
        Self::EqualErrorAccepted,
        Self::ErrorVersionForgotten,
        Self::StaleGenerationCounts,
        Self::StepDownClears,
        Self::ShutdownDoesNotClear,
        Self::OperationTimeoutCounts,
        Self::OverloadCounts,
        Self::OldPrimaryStays,
        Self::AnyPrimaryAccepted,
        Self::NewPairRuleAlways,
        Self::OldPairRuleAlways,
        Self::MissingMeRemoves,
        Self::MeIgnored,
        Self::MemberRemoves,
        Self::PrimaryDoesNotRemove,
        Self::SetNameIgnored,
        Self::OneServerIsOneSeed,
        Self::GhostRemoved,
        Self::FailedCheckDoesNotClear,
        Self::TimeoutDoesNotInterrupt,
        Self::NoRetryOfCheck,
        Self::AlwaysRetryOfCheck,
        Self::RequestRemembered,
        Self::NoFloor,
        Self::MissingTimeoutSkipped,
    ];
}
