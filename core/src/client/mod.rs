//! The composition: the parts of a client, and what goes from one to the other.
//!
//! The parts do not see each other. An input goes to the one part that it concerns; parts answer
//! with orders, and one loop (`routing.rs`) takes the orders until there are none. The road of an
//! operation, select, check out and exchange, then judge and check in, is in `begin.rs` and
//! `end.rs`. What an operation does on its connection happens in the
//! [`Exchange`](crate::operation::Exchange) that it gets, outside.
//!
//! | part | type | file |
//! |---|---|---|
//! | topology | [`Sdam`] | `sdam/` |
//! | pools | `Pools` | `pools.rs`, `pool/` |
//! | connections | `Connections` | `connections.rs`, `connection/` |
//! | pinned connections | `Pins` | `pins.rs` |
//! | operations | `Operations` | `operations.rs` |
//! | sessions | [`Sessions`] | `session/` |
//! | questions | `Questions` | `questions.rs` |
//! | timers | `Timers` | `time/timers.rs` |
//! | server choice | `Choice`, `Scanning` | `choice.rs`, `scanning.rs`, `selection/` |

mod action;
mod begin;
mod choice;
mod config;
mod connections;
mod end;
mod exchanges;
mod forking;
mod idle_probe;
mod inputs;
mod lifecycle;
mod operations;
mod outbox;
mod pinging;
mod pins;
mod pools;
mod questions;
mod releases;
mod routing;
mod scanning;
mod snapshot;
#[cfg(test)]
mod tests;
mod timing;
mod waits;

pub use crate::operation::Outcome;
pub use action::{Action, AfterExchange, Progress, SocketUse};
pub use config::{ClientConfig, Counts};
pub use end::DRAIN_LIMIT;
pub use idle_probe::{MAX_PROBED_BYTES, PROBE_AFTER};
pub use pinging::SOCKET_CHECK_INTERVAL;
pub use pins::PinState;
pub use questions::{Answer, MAX_DERIVATIONS, QUESTION_LIMIT, Question, QuestionId};
pub use snapshot::{
    ConnectionState, OperationState, PinnedState, PooledState, Snapshot, WaitingOperation,
};
pub use timing::Timer;
pub use waits::GRANT_LIMIT;

use crate::{
    description::{TopologyDescription, TopologyId},
    error::Error,
    event::{Event, Subscriptions},
    hello::DriverInfo,
    operation::ClusterTime,
    random::Random,
    sdam::Sdam,
    selection::Selector,
    session::Sessions,
    time::{Instant, Timers, WallTime},
};
use bson::oid::ObjectId;
use choice::Choice;
use config::Settings;
use connections::Connections;
use lifecycle::Life;
use operations::Operations;
use outbox::Outbox;
use pins::Pins;
use pools::Pools;
use questions::Questions;
use std::sync::Arc;

/// The control plane of one client.
///
/// Feed one input, drain [`poll_action`](Self::poll_action) and [`poll_event`](Self::poll_event),
/// then wait until [`deadline`](Self::deadline) at the longest and call
/// [`handle_timeout`](Self::handle_timeout). Inputs about sockets and operations that no longer
/// exist change nothing.
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
/// // The first thing it wants is a connection to look at the server.
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
    operations: Operations,
    sessions: Sessions,
    questions: Questions,
    timers: Timers<Timer>,
    choice: Choice,
    /// Draws how long operations pause between attempts.
    pauses: Random,
    /// The newest cluster time that a reply brought.
    cluster_time: Option<Arc<ClusterTime>>,
    last_request: i32,
    /// Operations that wait for a server are to select again.
    reselect: bool,
    out: Outbox,
    /// Never later than the true deadline; made exact by each `handle_timeout`.
    armed: Option<Instant>,
}

impl Client {
    /// A client that does nothing yet.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let ClientConfig {
            options,
            seed,
            metadata,
            subscriptions,
            tls,
            streaming,
        } = config;
        let mut id = [0; 12];
        seed.split("topology").random().fill(&mut id);
        let topology_id = TopologyId(ObjectId::from_bytes(id));
        let settings = Settings::new(&options, metadata, tls, subscriptions);
        let selector = Selector::new(
            options.local_threshold(),
            options.heartbeat_frequency(),
            seed.split("selection").random(),
        )
        .with_server_selector(options.server_selector().cloned())
        .with_plain_choice(settings.scanning.is_some());
        Self {
            topology: Sdam::new(config::sdam_options(
                &options,
                topology_id,
                streaming,
                subscriptions,
                &seed,
            )),
            pools: Pools::new(config::pool_options(&options), subscriptions.pool),
            connections: Connections::new(seed.split("nonces").random()),
            pins: Pins::new(topology_id),
            operations: Operations::new(settings.without_server),
            sessions: Sessions::new(seed.split("sessions").random()),
            questions: Questions::default(),
            timers: Timers::default(),
            choice: Choice::new(selector, subscriptions),
            pauses: seed.split("pauses").random(),
            cluster_time: None,
            last_request: 0,
            reselect: false,
            out: Outbox::default(),
            armed: None,
            life: Life::default(),
            settings,
        }
    }

    /// Appends a library that wraps the driver to what handshakes tell of the client (HELLO-47).
    ///
    /// Connections that are dialled from now on tell it. For those that exist nothing is sent, and
    /// none is opened or closed (HELLO-48). A library that was named before with the same version
    /// and platform is not appended again (HELLO-49). Fails for an info that is not valid
    /// ([`DriverInfo::validate`]).
    pub fn append_metadata(&mut self, info: &DriverInfo) -> Result<(), Error> {
        if self.settings.metadata.append(info)? {
            let handshake = Arc::make_mut(&mut self.settings.handshake);
            handshake.metadata = self.settings.metadata.document().to_owned();
        }
        Ok(())
    }

    /// The server's calendar time, for certificates: to be set before connections are made and now
    /// and then afterwards.
    pub fn set_wall_time(&mut self, wall: WallTime) {
        self.settings.handshake.layers.set_wall_time(wall);
    }

    /// The next order.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.actions.pop_front()
    }

    /// The next event.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` for never. May be
    /// earlier than needed, never later.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.armed
    }

    /// What is known of the deployment.
    #[must_use]
    pub fn topology(&self) -> &Arc<TopologyDescription> {
        self.topology.description()
    }

    /// True once the client is closed and nothing is left to be done.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.life.is_closed() && self.connections.len() == 0
    }

    /// Which events are built.
    #[must_use]
    pub fn subscriptions(&self) -> Subscriptions {
        self.settings.subscriptions
    }

    /// How much of everything there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            sockets: self.connections.len(),
            in_use: self.pools.exchange_of(),
            waiting: self.operations.len(),
        }
    }
}
