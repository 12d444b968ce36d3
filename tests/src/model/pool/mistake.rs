//! Mistakes that a pool could make: each is one line of the model gone wrong.

/// A wrong reading of the requirements of pools; most are traps that section 1.3 names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The check out's failure is told before its connection's end (trap 1, CMAP-151).
    FailureBeforeClosed,
    /// A failed establishment is subtracted twice (trap 2).
    DoubleDecrement,
    /// The texts of the specification, not of its tests (trap 3, CMAP-141, CMAP-143).
    CapitalConnection,
    /// A paused pool's clear does not count (trap 4, CMAP-92).
    PausedClearDoesNotCount,
    /// A paused pool's clear is told (CMAP-92).
    PausedClearIsTold,
    /// A `maxPoolSize` of 0 leaves no room (trap 5, CMAP-8).
    ZeroIsNoRoom,
    /// A request whose connection is being established takes a returned one (trap 6).
    EstablishingTakesReturned,
    /// Nobody behind a request is served until its connection is established (trap 6, CMAP-82).
    EstablishingHoldsQueue,
    /// What comes back is for whoever asks next, although others wait (CMAP-31, CMAP-33).
    NewcomersOvertake,
    /// Last come, first served (CMAP-30).
    LastFirst,
    /// The slot of a connection made for `minPoolSize` is free before the connection is there to
    /// be had (trap 7, CMAP-72).
    SlotFirst,
    /// Stale comes before broken (trap 8).
    StaleBeforeError,
    /// Broken comes before a closed pool (trap 8).
    ErrorBeforePoolClosed,
    /// Stale comes before a closed pool (trap 8).
    StaleBeforePoolClosed,
    /// Interrupting leaves pending connections alone (trap 9, CMAP-98).
    InterruptSparesPending,
    /// An interrupted connection is closed at once, and again when it comes back (trap 9).
    InterruptCloses,
    /// An operation is interrupted by each clear anew (trap 9).
    InterruptsAgain,
    /// Nothing is ever interrupted (CMAP-94).
    NeverInterrupts,
    /// Each clear interrupts (CMAP-94, CMAP-152).
    AlwaysInterrupts,
    /// Nothing is pruned while the pool is paused (trap 10, CMAP-111).
    NoPruningWhilePaused,
    /// Connections are made for `minPoolSize` while the pool is paused (trap 10, CMAP-67).
    PopulatesWhilePaused,
    /// Population is seen before the ready event (trap 10, CMAP-59).
    PopulatesBeforeReady,
    /// A refused check out has no started event (trap 11, CMAP-73).
    RefusedIsNotStarted,
    /// Durations begin when the establishment does (trap 11, CMAP-121, CMAP-122).
    DurationOfEstablishment,
    /// A connection that was in use for long is idle when it comes back (trap 12).
    IdleWhileInUse,
    /// Idle is who was unused for just as long as the limit (trap 12).
    IdleAtLimit,
    /// Idle times count from the first time that the connection was available (CMAP-89).
    IdleSinceFirst,
    /// A zero `maxIdleTimeMS` is a limit of zero (CMAP-10).
    ZeroIdleIsLimit,
    /// A clear does not pause (CMAP-90).
    ClearDoesNotPause,
    /// A clear leaves the queue alone (CMAP-93).
    ClearKeepsQueue,
    /// The clear is told after those who waited have been sent away (CMAP-91).
    ClearedAfterFailures,
    /// A ready pool tells again that it is (CMAP-58).
    ReadyIsToldAgain,
    /// A closed pool becomes ready (CMAP-51).
    ReadyReopens,
    /// The pool's closed event comes before its connections' (CMAP-55).
    PoolClosedFirst,
    /// Closing leaves those who wait alone (CMAP-39).
    CloseKeepsQueue,
    /// A connection's closed event comes before its checked in event (CMAP-88).
    ClosedBeforeCheckedIn,
    /// Pending connections do not count in `maxPoolSize` (CMAP-8).
    PendingIsNotCounted,
    /// Connections whose reply is outstanding do not count in `maxPoolSize` (CMAP-42).
    DrainingIsNotCounted,
    /// Connections whose reply is outstanding are handed out (CMAP-20).
    DrainingIsHandedOut,
    /// `maxConnecting` does not bind requests (CMAP-43).
    NoRateLimit,
    /// `maxConnecting` does not bind population (CMAP-69).
    PopulationIgnoresRateLimit,
    /// `minPoolSize` overrules `maxPoolSize` (CMAP-42).
    PopulationIgnoresMaxSize,
    /// A waiter past its deadline is only found when something comes back (CMAP-32).
    TimeoutsWait,
    /// `waitQueueTimeoutMS` also ends an establishment (CMAP-12, CMAP-153).
    QueueLimitBoundsEstablishment,
    /// `waitQueueTimeoutMS` counts although the operation has a time limit (CMAP-153).
    QueueLimitAlwaysCounts,
    /// What is stale is handed out (CMAP-75).
    StaleIsHandedOut,
    /// What is stale comes back and stays (CMAP-89).
    StaleStays,
    /// What was established across a clear is handed out (CMAP-25).
    StaleAfterEstablishment,
    /// A paused pool lets requests wait (CMAP-80).
    PausedWaits,
    /// A check out on a closed pool is told as a failed connection (CMAP-79).
    ClosedIsConnectionError,
    /// Numbers begin at zero (CMAP-21).
    NumbersFromZero,
    /// A created event only once the connection is established (CMAP-60).
    CreatedWhenReady,
    /// The clear of a service pauses the pool (CMAP-102).
    ServiceClearPauses,
    /// The clear of a service sends away who waits (CMAP-102).
    ServiceClearFailsQueue,
    /// The clear of a service concerns all of them (LB-52).
    ServiceClearHitsAll,
    /// The clear of a service is one of the pool as well (CMAP-99).
    ServiceClearCountsForPool,
    /// The clear of a service is not told (CMAP-101).
    ServiceClearIsSilent,
    /// The clear of a service aborts what is being established (CMAP-102).
    ServiceClearClosesPending,
    /// A service without connections is cleared, and that is told.
    UnknownClearIsTold,
    /// The clear of a service without connections makes an entry for it, which nobody removes.
    ClearMakesService,
    /// The entry of a service stays after its last connection (CMAP-100).
    ServiceNotForgotten,
    /// A service begins anew while a connection is left (CMAP-100).
    ForgottenTooEarly,
    /// Connections begin at the generation of the pool (CMAP-99, LB-49).
    BeginsAtPoolGeneration,
    /// A connection is of the generation that its service has when all is established, not when
    /// it answered (CMAP-99).
    GenerationAtTheEnd,
    /// A second service can claim a connection.
    GreetedTwice,
    /// What is stale stays among the available until it is the oldest (CMAP-107).
    StaleBetweenFreshStays,
    /// A request whose connection a clear made stale while it was established fails (CMAP-102).
    StaleEstablishmentFails,
    /// Such a request goes to the end of the queue (CMAP-31).
    AskAgainGoesLast,
    /// Such a request begins to count its time anew (CMAP-122).
    AskAgainStartsAnew,
    /// A connection that came back still counts as a cursor's or transaction's (LB-43).
    HoldNotReleased,
    /// A connection that nobody has is held for somebody (LB-43).
    UnusedIsHeld,
    /// A cursor in a transaction counts as both (LB-44).
    CursorInTransactionCountsTwice,
    /// Pending and draining connections count as used by other operations (LB-46).
    UnusedCountAsOthers,
    /// A full pool behind a load balancer does not tell who has its connections (LB-46).
    FullIsNotTold,
    /// Who waited for a turn to connect is told of a full pool (LB-45).
    AnyWaitIsToldOfUsers,
    /// Who waited for the establishment of a connection is told of a full pool (LB-45).
    EstablishingIsToldOfUsers,
}

impl Mistake {
    /// Those that the traps of section 1.3 name.
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
        Self::PausedClearIsTold,
    ];

    /// Other rows of section 1.1, read wrongly.
    pub const OTHERS: [Self; 26] = [
        Self::IdleSinceFirst,
        Self::ZeroIdleIsLimit,
        Self::ClearDoesNotPause,
        Self::ClearKeepsQueue,
        Self::ClearedAfterFailures,
        Self::ReadyIsToldAgain,
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

    /// Rows of load-balanced pools, read wrongly.
    pub const BALANCED: [Self; 24] = [
        Self::ServiceClearPauses,
        Self::ServiceClearFailsQueue,
        Self::ServiceClearHitsAll,
        Self::ServiceClearCountsForPool,
        Self::ServiceClearIsSilent,
        Self::ServiceClearClosesPending,
        Self::UnknownClearIsTold,
        Self::ClearMakesService,
        Self::ServiceNotForgotten,
        Self::ForgottenTooEarly,
        Self::BeginsAtPoolGeneration,
        Self::GenerationAtTheEnd,
        Self::GreetedTwice,
        Self::StaleBetweenFreshStays,
        Self::StaleEstablishmentFails,
        Self::AskAgainGoesLast,
        Self::AskAgainStartsAnew,
        Self::HoldNotReleased,
        Self::UnusedIsHeld,
        Self::CursorInTransactionCountsTwice,
        Self::UnusedCountAsOthers,
        Self::FullIsNotTold,
        Self::AnyWaitIsToldOfUsers,
        Self::EstablishingIsToldOfUsers,
    ];
}
