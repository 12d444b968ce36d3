//! Deliberate errors of the model of pools, each of which a driver could make.

/// A wrong reading of a rule. Each variant says what the model does wrong and which numbered rule
/// that violates, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The check out fails before the connection that could not be established is closed (CMAP trap
    /// 1, CMAP-151).
    FailureBeforeClosed,
    /// A connection whose establishment failed is subtracted from the counts twice (CMAP trap 2).
    DoubleDecrement,
    /// Errors have the text `a Connection` of the specification, not `a connection` of the official
    /// tests (CMAP trap 3, CMAP-141, CMAP-143).
    CapitalConnection,
    /// A clear of a paused pool does not raise the generation (CMAP trap 4, CMAP-92).
    PausedClearDoesNotCount,
    /// A clear of a paused pool emits an event (CMAP-92).
    PausedClearIsReported,
    /// A `maxPoolSize` of 0 permits no connection (CMAP trap 5, CMAP-8).
    ZeroIsNoRoom,
    /// A request whose connection is being established takes a connection that is checked in
    /// meanwhile (CMAP trap 6).
    EstablishingTakesReturned,
    /// A request whose connection is being established holds up the queue (CMAP trap 6, CMAP-82).
    EstablishingHoldsQueue,
    /// A returned connection goes to the next check out although requests wait (CMAP-31, CMAP-33).
    NewcomersOvertake,
    /// The last request in the queue is served first (CMAP-30).
    LastFirst,
    /// A populated connection is subtracted from the pending count before it is available (CMAP
    /// trap 7, CMAP-72).
    SlotFirst,
    /// A connection that is both broken and stale is closed with the reason `stale`, not `error`
    /// (CMAP trap 8).
    StaleBeforeError,
    /// In a closed pool, a broken connection is closed with the reason `error`, not `poolClosed`
    /// (CMAP trap 8).
    ErrorBeforePoolClosed,
    /// In a closed pool, a stale connection is closed with the reason `stale`, not `poolClosed`
    /// (CMAP trap 8).
    StaleBeforePoolClosed,
    /// A clear that interrupts leaves pending connections alone (CMAP trap 9, CMAP-98).
    InterruptSparesPending,
    /// An interrupted connection is closed twice (CMAP trap 9).
    InterruptCloses,
    /// Each further clear interrupts an operation again (CMAP trap 9).
    InterruptsAgain,
    /// No clear interrupts connections (CMAP-94).
    NeverInterrupts,
    /// Each clear interrupts connections (CMAP-94, CMAP-152).
    AlwaysInterrupts,
    /// No perished connection is closed while the pool is paused (CMAP trap 10, CMAP-111).
    NoPruningWhilePaused,
    /// The pool is populated while it is paused (CMAP trap 10, CMAP-67).
    PopulatesWhilePaused,
    /// The pool is populated before the ready event (CMAP trap 10, CMAP-59).
    PopulatesBeforeReady,
    /// A check out that fails at once has no started event (CMAP trap 11, CMAP-73).
    RefusedIsNotStarted,
    /// Durations begin with the establishment of the connection (CMAP trap 11, CMAP-121, CMAP-122).
    DurationOfEstablishment,
    /// The time in use counts as idle time (CMAP trap 12).
    IdleWhileInUse,
    /// A connection is idle at `maxIdleTimeMS`, not only after it (CMAP trap 12).
    IdleAtLimit,
    /// The idle time starts when the connection is first available (CMAP-89).
    IdleSinceFirst,
    /// A `maxIdleTimeMS` of 0 is a limit of zero (CMAP-10).
    ZeroIdleIsLimit,
    /// A clear does not pause the pool (CMAP-90).
    ClearDoesNotPause,
    /// A clear does not fail the requests in the wait queue (CMAP-93).
    ClearKeepsQueue,
    /// The cleared event comes after the failures of waiting requests (CMAP-91).
    ClearedAfterFailures,
    /// Marking a ready pool as ready emits an event (CMAP-58).
    ReadyIsReportedAgain,
    /// A closed pool can become ready (CMAP-51).
    ReadyReopens,
    /// The pool closed event comes before the closed events of the pool's connections (CMAP-55).
    PoolClosedFirst,
    /// Closing the pool does not fail waiting requests (CMAP-39).
    CloseKeepsQueue,
    /// A closed event comes before the checked in event of the connection (CMAP-88).
    ClosedBeforeCheckedIn,
    /// Pending connections do not count for `maxPoolSize` (CMAP-8).
    PendingIsNotCounted,
    /// Draining connections do not count for `maxPoolSize` (CMAP-42).
    DrainingIsNotCounted,
    /// Draining connections are checked out (CMAP-20).
    DrainingIsHandedOut,
    /// `maxConnecting` does not limit check outs (CMAP-43).
    NoRateLimit,
    /// `maxConnecting` does not limit population (CMAP-69).
    PopulationIgnoresRateLimit,
    /// Population exceeds `maxPoolSize` (CMAP-42).
    PopulationIgnoresMaxSize,
    /// A request never times out (CMAP-32).
    TimeoutsWait,
    /// `waitQueueTimeoutMS` also limits the establishment of a connection (CMAP-12, CMAP-153).
    QueueLimitBoundsEstablishment,
    /// `waitQueueTimeoutMS` applies although the operation has a `timeoutMS` (CMAP-153).
    QueueLimitAlwaysCounts,
    /// A stale connection is checked out (CMAP-75).
    StaleIsHandedOut,
    /// A stale connection becomes available after its check in (CMAP-89).
    StaleStays,
    /// A connection that became stale while it was established is checked out (CMAP-25).
    StaleAfterEstablishment,
    /// Check outs of a paused pool wait (CMAP-80).
    PausedWaits,
    /// A check out of a closed pool fails with the reason `connectionError` (CMAP-79).
    ClosedIsConnectionError,
    /// Connection ids start at 0 (CMAP-21).
    NumbersFromZero,
    /// The created event comes after the establishment (CMAP-60).
    CreatedWhenReady,
    /// A clear of a service pauses the pool (CMAP-102).
    ServiceClearPauses,
    /// A clear of a service fails waiting requests (CMAP-102).
    ServiceClearFailsQueue,
    /// A clear of a service makes the connections of all services stale (LB-52).
    ServiceClearHitsAll,
    /// A clear of a service raises the generation of the pool (CMAP-99).
    ServiceClearCountsForPool,
    /// A clear of a service emits no event (CMAP-101).
    ServiceClearIsSilent,
    /// A clear of a service closes the connections of the service that are being established
    /// (CMAP-101).
    ServiceClearClosesPending,
    /// A clear of a service without connections emits an event.
    UnknownClearIsReported,
    /// A clear of a service without connections makes an entry with the generation 1.
    ClearMakesService,
    /// The entry of a service stays after its last connection was closed (CMAP-100).
    ServiceNotForgotten,
    /// The generation of a service is reset while a connection is left (CMAP-100).
    ForgottenTooEarly,
    /// A connection takes the generation of the pool (CMAP-99, LB-49).
    BeginsAtPoolGeneration,
    /// A connection takes the generation of its service at the end of its establishment, not at its
    /// `hello` (CMAP-99).
    GenerationAtTheEnd,
    /// A connection can get another service by a second `hello`.
    ServiceSetTwice,
    /// A stale connection stays available while one that became available earlier is not stale
    /// (CMAP-107).
    StaleBetweenFreshStays,
    /// A request fails if a clear makes its connection stale during the establishment (CMAP-102).
    StaleEstablishmentFails,
    /// A request whose connection became stale during the establishment moves to the end of the
    /// queue (CMAP-31).
    RequeuedGoesLast,
    /// The duration of a request starts again when its connection becomes stale during the
    /// establishment (CMAP-122).
    RequeuedStartsAnew,
    /// After its check in a connection still counts as in use by a cursor or a transaction (LB-43).
    PinNotReleased,
    /// A connection that is not checked out can be pinned (LB-43).
    UnusedIsPinned,
    /// A cursor in a transaction counts in both classes (LB-44).
    CursorInTransactionCountsTwice,
    /// Connections that are not in use count as in use by other operations (LB-46).
    UnusedCountAsOthers,
    /// Behind a load balancer, the timeout in a full pool has the message of a pool without a load
    /// balancer (LB-46).
    FullIsNotReported,
    /// A request that `maxConnecting` held up gets the message of a full pool (LB-45).
    AnyWaitReportsUsers,
    /// A request whose connection was being established gets the message of a full pool (LB-45).
    EstablishingReportsUsers,
}

impl Mistake {
    /// Mistakes about the subjects of the traps of CMAP section 1.3.
    pub const TRAPS: [Self; 26] = [
        Self::FailureBeforeClosed,
        Self::DoubleDecrement,
        Self::CapitalConnection,
        Self::PausedClearDoesNotCount,
        Self::ZeroIsNoRoom,
        Self::EstablishingTakesReturned,
        Self::EstablishingHoldsQueue,
        Self::NewcomersOvertake,
        Self::LastFirst,
        Self::SlotFirst,
        Self::StaleBeforeError,
        Self::ErrorBeforePoolClosed,
        Self::StaleBeforePoolClosed,
        Self::InterruptSparesPending,
        Self::InterruptCloses,
        Self::InterruptsAgain,
        Self::NeverInterrupts,
        Self::AlwaysInterrupts,
        Self::NoPruningWhilePaused,
        Self::PopulatesWhilePaused,
        Self::PopulatesBeforeReady,
        Self::RefusedIsNotStarted,
        Self::DurationOfEstablishment,
        Self::IdleWhileInUse,
        Self::IdleAtLimit,
        Self::PausedClearIsReported,
    ];

    /// Mistakes about the other rules of pools without a load balancer.
    pub const OTHERS: [Self; 26] = [
        Self::IdleSinceFirst,
        Self::ZeroIdleIsLimit,
        Self::ClearDoesNotPause,
        Self::ClearKeepsQueue,
        Self::ClearedAfterFailures,
        Self::ReadyIsReportedAgain,
        Self::ReadyReopens,
        Self::PoolClosedFirst,
        Self::CloseKeepsQueue,
        Self::ClosedBeforeCheckedIn,
        Self::PendingIsNotCounted,
        Self::DrainingIsNotCounted,
        Self::DrainingIsHandedOut,
        Self::NoRateLimit,
        Self::PopulationIgnoresRateLimit,
        Self::PopulationIgnoresMaxSize,
        Self::TimeoutsWait,
        Self::QueueLimitBoundsEstablishment,
        Self::QueueLimitAlwaysCounts,
        Self::StaleIsHandedOut,
        Self::StaleStays,
        Self::StaleAfterEstablishment,
        Self::PausedWaits,
        Self::ClosedIsConnectionError,
        Self::NumbersFromZero,
        Self::CreatedWhenReady,
    ];

    /// Mistakes about the rules of load-balanced pools.
    pub const BALANCED: [Self; 24] = [
        Self::ServiceClearPauses,
        Self::ServiceClearFailsQueue,
        Self::ServiceClearHitsAll,
        Self::ServiceClearCountsForPool,
        Self::ServiceClearIsSilent,
        Self::ServiceClearClosesPending,
        Self::UnknownClearIsReported,
        Self::ClearMakesService,
        Self::ServiceNotForgotten,
        Self::ForgottenTooEarly,
        Self::BeginsAtPoolGeneration,
        Self::GenerationAtTheEnd,
        Self::ServiceSetTwice,
        Self::StaleBetweenFreshStays,
        Self::StaleEstablishmentFails,
        Self::RequeuedGoesLast,
        Self::RequeuedStartsAnew,
        Self::PinNotReleased,
        Self::UnusedIsPinned,
        Self::CursorInTransactionCountsTwice,
        Self::UnusedCountAsOthers,
        Self::FullIsNotReported,
        Self::AnyWaitReportsUsers,
        Self::EstablishingReportsUsers,
    ];
}
