//! The client of the core: its parts, and the loop that carries orders between them.
//!
//! The client consists of seven parts, which do not use each other. The client gives each input to
//! the part that it concerns. All parts except operations and the seed list answer with orders, and
//! a loop in `control/routing.rs` carries the orders out until there are none.
//!
//! | part | type | file |
//! |---|---|---|
//! | topology | `Sdam` | `sdam/` |
//! | pools | `Pools` | `pools.rs`, `pool/` |
//! | connections | `Connections` | `connections.rs`, `connection/` |
//! | pinned connections | `Pins` | `pins.rs` |
//! | operations | `Operations` | `attempts/operations.rs` |
//! | questions | `Questions` | `questions/` |
//! | seed list | `SeedList` | `seeds/list.rs` |
//!
//! Beside the parts, the client has tables of sessions (`session/`) and timers (`time/timers.rs`),
//! which give no orders, and server selection (`attempts/choice.rs`, `attempts/scanning.rs`,
//! `selection/`), which reads the topology and the pools, and starts scans.
//!
//! An attempt of an operation has three steps. `attempts/begin.rs` selects a server and checks out
//! a connection, or takes a pinned one. `attempts/begin_exchange.rs` makes an
//! [`Exchange`](crate::operation::Exchange) of the connection and the operation. `attempts/end.rs`
//! decides about the outcome, and `attempts/lease.rs` ends the use of the connection. The shell
//! moves the bytes of the request and the reply through the exchange, without the client.

mod action;
mod attempts;
mod config;
mod connections;
mod control;
mod pins;
mod pools;
mod questions;
mod recording;
mod seeds;
#[cfg(any(test, feature = "unstable-machines"))]
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

pub use crate::{
    auth::{
        DerivedKeys, Finding, Inquiry, KerberosStep, KerberosStepResult, KeyDerivation,
        MAX_FILE_BYTES,
    },
    connection::{ConnectionFacts, ConnectionId, SocketId, closed_by_peer},
    hello::{DriverInfo, Environment, OsFacts},
    operation::Outcome,
    selection::{SelectorAnswer, SelectorQuestion},
    session::SessionId,
};
pub use action::{Action, AfterExchange, Progress, SocketUse};
pub use attempts::idle_check::{IDLE_CHECK_AFTER, MAX_IDLE_CHECK_BYTES};
pub use attempts::lease::DRAIN_LIMIT;
pub use attempts::overdue::OVERDUE_LIMIT;
pub use attempts::pinging::SOCKET_CHECK_INTERVAL;
pub use attempts::sessions::StartedSession;
pub use attempts::waits::GRANT_LIMIT;
pub use config::{ClientConfig, Counts};
pub use control::timing::Timer;
pub use questions::programs::MAX_BLOCKING_INQUIRIES;
pub use questions::question::{Answer, Question, QuestionId};
pub use questions::table::{MAX_DERIVATIONS, MAX_KERBEROS_STEPS, QUESTION_LIMIT};
pub use recording::{Recording, RecordingOptions, Replay, ReplayedStep, Verdict};
pub use seeds::list::MIN_RESCAN_INTERVAL;
pub use seeds::lookup::SeedLookup;
pub use table::{Key, Table};
#[cfg(any(test, feature = "unstable-machines"))]
pub use {
    pins::PinState,
    snapshot::{
        ConnectionState, OperationState, PinnedState, PoolSnapshot, Snapshot, WaitingOperation,
    },
};

use crate::{
    connection::RecordedTls,
    description::{TopologyDescription, TopologyId},
    error::Error,
    event::{Event, Subscriptions},
    operation::ClusterTimes,
    sdam::{self, Sdam},
    selection::Selector,
    session::Sessions,
    time::{Instant, WallTime},
    uri::Warning,
};
use attempts::{Attempts, choice::Choice, operations::Operations};
use bson::oid::ObjectId;
use config::Settings;
use connections::Connections;
use control::{lifecycle::Life, outbox::Outbox, timing::Clock};
use pins::Pins;
use pools::Pools;
use questions::table::Questions;
use recording::{Kind, Recorder, put_document};
use seeds::{Seeds, list::SeedList};
use std::{collections::BTreeMap, sync::Arc};

/// The state machine of one client: server selection, connection pools, monitoring and retries.
///
/// After each input, take everything that [`poll_action`](Self::poll_action) and
/// [`poll_event`](Self::poll_event) return. Then wait for the next input. At
/// [`deadline`](Self::deadline), call [`handle_timeout`](Self::handle_timeout). Inputs about
/// sockets and operations that no longer exist change nothing.
///
/// ```
/// use onionskin_core::{
///     client::{Action, Client, ClientConfig},
///     random::Seed,
///     time::Instant,
///     uri,
/// };
///
/// let options = uri::parse("mongodb://localhost")?.options;
/// let config = ClientConfig::new(options, Seed::new([0; 32]))?;
/// let mut client = Client::new(config);
/// client.open(Instant::ZERO);
/// // The first action dials a connection to check the server.
/// assert!(matches!(client.poll_action(), Some(Action::Dial { .. })));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    life: Life,
    topology: Sdam,
    pools: Pools,
    connections: Connections,
    pins: Pins,
    attempts: Attempts,
    questions: Questions,
    seeds: Seeds,
    clock: Clock,
    out: Outbox,
    /// The recording; `None` unless the client records itself.
    recorder: Option<Box<Recorder>>,
}

impl Client {
    /// Returns a client that does nothing until [`open`](Self::open).
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let kerberos = config.kerberos();
        let mode = config.mode();
        let ClientConfig {
            options,
            seed,
            nonces,
            metadata,
            subscriptions,
            proxy,
            tls,
            streaming,
            recorder,
            is_replay: _,
            replays_tls,
        } = config;
        let mut id = [0; 12];
        seed.split("topology").random().fill(&mut id);
        let topology_id = TopologyId(ObjectId::from_bytes(id));
        let mut settings = Settings::new(&options, metadata, proxy, tls, subscriptions);
        if replays_tls {
            let handshake = Arc::make_mut(&mut settings.handshake);
            handshake.layers.push(RecordedTls);
        }
        let selector = Selector::new(
            options.local_threshold(),
            options.heartbeat_freq(),
            seed.split("selection").random(),
        )
        .with_server_selector(options.server_selector.clone())
        .with_plain_choice(settings.scanning.is_some());
        let sdam = config::sdam_options(&options, topology_id, streaming, subscriptions, &seed);
        let nonces = nonces.unwrap_or_else(|| seed.split("nonces"));
        let random = seed.split("seed list").random();
        let seed_list = SeedList::new(&options, random, sdam::MAX_SERVERS);
        Self {
            seeds: Seeds {
                unresolved: seed_list.is_unresolved().then(|| Box::new(sdam.clone())),
                list: seed_list,
                txt_warnings: Vec::new(),
            },
            topology: Sdam::new(sdam),
            pools: Pools::new(config::pool_options(&options), subscriptions.pool),
            connections: Connections::new(nonces.random(), kerberos, mode),
            pins: Pins::new(topology_id),
            attempts: Attempts {
                operations: Operations::new(settings.without_server),
                choice: Choice::new(selector, subscriptions),
                sessions: Sessions::new(seed.split("sessions").random()),
                explicit: BTreeMap::new(),
                pauses: seed.split("pauses").random(),
                cluster_times: ClusterTimes::default(),
                last_request: 0,
                taken_back: 0,
                reselect: false,
                reselecting: None,
            },
            questions: Questions::new(seed.split("credentials").random()),
            clock: Clock::default(),
            out: Outbox::default(),
            life: Life::default(),
            recorder,
            settings,
        }
    }

    /// Appends a library that wraps the driver to the client metadata of handshakes ([HELLO-47]).
    ///
    /// Only connections that are dialled from now on send the new metadata. Nothing is sent on
    /// existing connections, and no connection is opened or closed ([HELLO-48]).
    ///
    /// Fails if the info is not valid ([`DriverInfo::validate`]). An info that has the same name,
    /// version and platform as an earlier one is not appended again ([HELLO-49]).
    ///
    /// [HELLO-47]: crate::requirements::handshake#HELLO-47
    /// [HELLO-48]: crate::requirements::handshake#HELLO-48
    /// [HELLO-49]: crate::requirements::handshake#HELLO-49
    pub fn append_metadata(&mut self, info: &DriverInfo) -> Result<(), Error> {
        if self.settings.metadata.append(info)? {
            let metadata = self.settings.metadata.document().to_owned();
            self.begin_timeless_entry(Kind::Metadata, |out| put_document(out, &metadata));
            Arc::make_mut(&mut self.settings.handshake).metadata = metadata;
            self.end_entry(|_| {});
        }
        Ok(())
    }

    /// Sets the calendar time, by which certificates are checked and AWS credentials expire. Call
    /// this before connections are made, and from time to time afterwards.
    pub fn set_wall_time(&mut self, now: Instant, wall: WallTime) {
        self.settings.handshake.layers.set_wall_time(wall);
        self.connections.set_wall_time(now, wall);
    }

    /// Returns the next action, or `None` if there is none.
    #[must_use]
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.actions.pop_front()
    }

    /// Returns the next event, or `None` if there is none.
    #[must_use]
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is to be called; `None`
    /// for never. The time may be earlier than needed, never later.
    #[must_use]
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.armed
    }

    /// Returns the current topology description.
    #[must_use]
    pub fn topology(&self) -> &Arc<TopologyDescription> {
        self.topology.description()
    }

    /// Returns the warnings about the TXT record of a `mongodb+srv` client; none until the client
    /// has looked the record up. Those about a record that a [`SeedLookup`] found are in
    /// [`ClientOptions::warnings`](crate::options::ClientOptions::warnings).
    #[must_use]
    pub fn txt_warnings(&self) -> &[Warning] {
        &self.seeds.txt_warnings
    }

    /// True once the client is closed and has no connection left.
    #[must_use]
    #[inline]
    pub fn is_terminated(&self) -> bool {
        self.life.is_closed() && self.connections.len() == 0
    }

    /// Returns which events the client emits.
    #[must_use]
    pub fn subscriptions(&self) -> Subscriptions {
        self.settings.subscriptions
    }

    /// Returns the numbers of sockets, checked-out connections and waiting operations.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            sockets: self.connections.len(),
            in_use: self.pools.in_use(),
            waiting: self.attempts.operations.len(),
        }
    }
}
