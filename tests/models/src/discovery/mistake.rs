//! Deliberate errors of the model of discovery, each of which a driver could make.

/// A wrong reading of a rule. Each variant says what the model does wrong, and cites the rule.
///
/// A test shows that a model with a mistake differs from the machine. Otherwise the test would not
/// find the same mistake in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// `ismaster` is ignored if `isWritablePrimary` is absent (SDAM-39).
    NoLegacyPrimary,
    /// `ismaster` counts although `isWritablePrimary` is false (SDAM-39).
    LegacyOverrules,
    /// `setName` is tested before `isreplicaset` (table A.2.2).
    SetNameBeforeGhost,
    /// `msg: isdbgrid` is tested before `isreplicaset` (table A.2.2).
    RouterBeforeGhost,
    /// A member with `hidden: true` and `secondary: true` counts as a secondary (table A.2.2).
    HiddenIsSecondary,
    /// Addresses keep upper case letters (SDAM-53).
    NamesKeepCase,
    /// The text of an error without a code is ignored (SDAM-92).
    NoTextWithoutCode,
    /// The text of an error counts although the error has a code (SDAM-88).
    TextOverrulesCode,
    /// `writeConcernError` is ignored (SDAM-93).
    NoWriteConcernError,
    /// `writeErrors` are examined for state change errors (SDAM-94).
    WriteErrorsCount,
    /// A `hello` with an equal `topologyVersion` is discarded (SDAM-37).
    EqualHelloRefused,
    /// An error with an equal `topologyVersion` is accepted (SDAM-87).
    EqualErrorAccepted,
    /// A state change error does not set the `topologyVersion` of the server (SDAM-95).
    ErrorVersionForgotten,
    /// An error of an older generation is accepted (SDAM-86).
    StaleGenerationCounts,
    /// `PrimarySteppedDown` clears the pool like a shutdown (SDAM-91).
    StepDownClears,
    /// A shutdown error does not clear the pool (SDAM-98).
    ShutdownDoesNotClear,
    /// A timeout of an operation makes its server `Unknown` and clears the pool (SDAM-101).
    OperationTimeoutCounts,
    /// The label `SystemOverloadedError` is ignored (SDAM-104).
    OverloadCounts,
    /// A state change error does not request a check (SDAM-96).
    NoCheckAfterStateChange,
    /// A network error of an operation requests a check (SDAM-108).
    CheckAfterNetworkError,
    /// A network error of an operation does not cancel the check under way (SDAM-109).
    NetworkErrorDoesNotCancel,
    /// A successful check neither creates the pool nor marks it as ready (SDAM-84).
    CheckDoesNotReady,
    /// The pool of a replaced primary is cleared (SDAM-75).
    OldPrimaryCleared,
    /// No check of a replaced primary is requested (SDAM-74).
    OldPrimaryNotChecked,
    /// A replaced primary stays `RSPrimary` (SDAM-74).
    OldPrimaryStays,
    /// A stale primary is accepted (SDAM-72).
    AnyPrimaryAccepted,
    /// Stale primaries of all versions are found by the rule for servers since 6.0 (SDAM-73).
    NewPairRuleAlways,
    /// Stale primaries of all versions are found by the rule for servers before 6.0 (SDAM-72).
    OldPairRuleAlways,
    /// A member without `me` is removed (A.11, trap 3).
    MissingMeRemoves,
    /// `me` is ignored (table A.5).
    MeIgnored,
    /// The host list of a member removes servers although no primary is known (SDAM-79).
    MemberRemoves,
    /// Servers that are not in the primary's host list stay (SDAM-80).
    PrimaryDoesNotRemove,
    /// Members with another set name stay (table A.5).
    SetNameIgnored,
    /// A standalone is kept if the topology has one server, not if the client has one seed (A.11,
    /// trap 6).
    OneServerIsOneSeed,
    /// An `RSGhost` is removed from a replica set (SDAM-43).
    GhostRemoved,
    /// A failed check does not clear the pool (MON-62).
    FailedCheckDoesNotClear,
    /// A timeout of a check does not interrupt connections in use (MON-63).
    TimeoutDoesNotInterrupt,
    /// A failed check is never repeated at once (MON-66).
    NoRetryOfCheck,
    /// Every failed check is repeated at once, even if the server was `Unknown` or replied without
    /// `ok: 1` (MON-66).
    AlwaysRetryOfCheck,
    /// A request for a check during a check is not ignored: the running check times out 500 ms
    /// later (MON-17).
    RequestRemembered,
    /// A requested check can start less than 500 ms after the end of the last one (MON-31).
    NoFloor,
    /// The next check starts at once after any number of awaited replies that take less than 500
    /// ms. This driver limits the number, which MON-56 does not.
    NoBoundForEarlyReplies,
    /// Any number of servers that other servers name is checked at once. This driver limits the
    /// number, which MON-12 does not.
    NoBoundForNewServers,
    /// Servers that are not data-bearing are left out of the compatibility check (SDAM-60).
    OnlyDataBearingCompatible,
    /// The two texts of `compatibilityError` are exchanged (SDAM-60).
    CompatibilityTextsSwapped,
    /// A server without a session timeout does not make the session timeout of the topology null
    /// (SDAM-83).
    MissingTimeoutSkipped,
    /// Tags are not read (table A.2.1).
    NoTags,
    /// `lastWrite` is not read (SDAM-50).
    NoLastWrite,
    /// A server that becomes `Unknown` keeps its round trip time (SDAM-49).
    UnknownKeepsRoundTrip,
    /// One sample is enough for the minimum round trip time (MON-49).
    SmallestOfOne,
    /// The minimum round trip time is that of all samples, not of the last 10 (MON-49).
    SmallestOfAll,
}

impl Mistake {
    /// The mistakes that no official test file of a suite that we run finds. The first five are
    /// those of section A.13.
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

    /// All other mistakes, except for [`NoBoundForEarlyReplies`](Self::NoBoundForEarlyReplies) and
    /// [`NoBoundForNewServers`](Self::NoBoundForNewServers), which have tests of their own.
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
