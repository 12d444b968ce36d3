//! The events of server discovery and monitoring ([EVT-12] to [EVT-20]).
//!
//! [EVT-12]: crate::requirements::monitoring_events#EVT-12
//! [EVT-20]: crate::requirements::monitoring_events#EVT-20

use super::{connection_id, document, event, handler};
use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
    error::Error,
    event,
};
use bson::{Document, oid::ObjectId};
use std::{sync::Arc, time::Duration};

event! {
    /// The topology was created. This is the first event of the topology.
    TopologyOpeningEvent {
        /// The id of the topology.
        topology_id: ObjectId,
    }
}

event! {
    /// The topology description changed. In the first such event, `previous_description` has the
    /// type `Unknown` and no servers. In the last such event, `new_description` has.
    incomparable TopologyDescriptionChangedEvent {
        /// The id of the topology.
        topology_id: ObjectId,
        /// The topology description before the change.
        previous_description: Arc<TopologyDescription>,
        /// The topology description after the change.
        new_description: Arc<TopologyDescription>,
    }
}

event! {
    /// The client was closed. This is the last event of the topology.
    TopologyClosedEvent {
        /// The id of the topology.
        topology_id: ObjectId,
    }
}

event! {
    /// A server was added to the topology.
    ServerOpeningEvent {
        /// The address of the server.
        address: ServerAddress,
        /// The id of the topology.
        topology_id: ObjectId,
    }
}

event! {
    /// A server description changed. A new round trip time, for example, is no change.
    incomparable ServerDescriptionChangedEvent {
        /// The address of the server.
        address: ServerAddress,
        /// The id of the topology.
        topology_id: ObjectId,
        /// The server description before the change.
        previous_description: Arc<ServerDescription>,
        /// The server description after the change.
        new_description: Arc<ServerDescription>,
    }
}

event! {
    /// A server was removed from the topology, or the client was closed.
    ServerClosedEvent {
        /// The address of the server.
        address: ServerAddress,
        /// The id of the topology.
        topology_id: ObjectId,
    }
}

event! {
    /// A check of a server starts. If the check needs a new socket, this event precedes the socket.
    ServerHeartbeatStartedEvent {
        /// The address of the server.
        server_address: ServerAddress,
        /// True for an awaitable `hello` and for each streamed reply: the server delays its reply
        /// until its state changes, for `heartbeatFrequencyMS` at most.
        awaited: bool,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u32,
        /// The server's number of the monitoring connection; `None` if no reply reported one yet.
        server_connection_id: Option<i64>,
    }
}

event! {
    /// A check succeeded: the server replied with `ok: 1`.
    ServerHeartbeatSucceededEvent {
        /// The round trip time of `hello`. If `awaited` is true, the time since the started event.
        duration: Duration,
        /// The whole reply. Empty if it is nested deeper than
        /// [`MAX_DOCUMENT_DEPTH`](super::MAX_DOCUMENT_DEPTH).
        reply: Document,
        /// The address of the server.
        server_address: ServerAddress,
        /// The value of `awaited` in the started event.
        awaited: bool,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u32,
        /// The server's number of the monitoring connection, if the server reported one.
        server_connection_id: Option<i64>,
    }
}

event! {
    /// A check failed or was cancelled.
    ServerHeartbeatFailedEvent {
        /// The time since the started event.
        duration: Duration,
        /// The error of the check.
        failure: Error,
        /// The address of the server.
        server_address: ServerAddress,
        /// The value of `awaited` in the started event.
        awaited: bool,
        /// The driver's number of the monitoring connection.
        driver_connection_id: u32,
        /// The server's number of the monitoring connection; `None` if no reply reported one.
        server_connection_id: Option<i64>,
    }
}

/// The events of server discovery and monitoring.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SdamEvent {
    /// A server description changed.
    ServerDescriptionChanged(Box<ServerDescriptionChangedEvent>),
    /// A server was added.
    ServerOpening(ServerOpeningEvent),
    /// A server was removed.
    ServerClosed(ServerClosedEvent),
    /// The topology description changed.
    TopologyDescriptionChanged(Box<TopologyDescriptionChangedEvent>),
    /// The topology was created.
    TopologyOpening(TopologyOpeningEvent),
    /// The client was closed.
    TopologyClosed(TopologyClosedEvent),
    /// A check of a server starts.
    ServerHeartbeatStarted(ServerHeartbeatStartedEvent),
    /// A check succeeded.
    ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent),
    /// A check failed.
    ServerHeartbeatFailed(ServerHeartbeatFailedEvent),
    /// An event that the specification does not define, such as the one that no server is left.
    Notice(Box<event::SdamEvent>),
}

handler! {
    /// The methods that a handler of the events of discovery and monitoring has.
    ///
    /// The names are those of the official driver. An application can also give one function for
    /// all events of the family, with
    /// [`EventHandler::callback`](crate::options::EventHandler::callback).
    ///
    /// ```
    /// use onionskin_core::{
    ///     event::handlers::sdam::{SdamEventHandler, ServerHeartbeatFailedEvent},
    ///     options::ClientOptions,
    /// };
    /// use std::sync::Arc;
    ///
    /// struct Print;
    ///
    /// impl SdamEventHandler for Print {
    ///     fn handle_server_heartbeat_failed_event(&self, event: ServerHeartbeatFailedEvent) {
    ///         println!("{event:?}");
    ///     }
    /// }
    ///
    /// let options = ClientOptions::builder().sdam_event_handler(Arc::new(Print)).build();
    /// ```
    SdamEventHandler of SdamEvent without Notice {
        /// A server description changed.
        handle_server_description_changed_event:
            ServerDescriptionChanged(ServerDescriptionChangedEvent) as *;
        /// A server was added.
        handle_server_opening_event: ServerOpening(ServerOpeningEvent);
        /// A server was removed.
        handle_server_closed_event: ServerClosed(ServerClosedEvent);
        /// The topology description changed.
        handle_topology_description_changed_event:
            TopologyDescriptionChanged(TopologyDescriptionChangedEvent) as *;
        /// The topology was created.
        handle_topology_opening_event: TopologyOpening(TopologyOpeningEvent);
        /// The client was closed.
        handle_topology_closed_event: TopologyClosed(TopologyClosedEvent);
        /// A check of a server starts.
        handle_server_heartbeat_started_event: ServerHeartbeatStarted(ServerHeartbeatStartedEvent);
        /// A check succeeded.
        handle_server_heartbeat_succeeded_event:
            ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent);
        /// A check failed.
        handle_server_heartbeat_failed_event: ServerHeartbeatFailed(ServerHeartbeatFailedEvent);
    }
}

impl From<&event::SdamEvent> for SdamEvent {
    fn from(event: &event::SdamEvent) -> Self {
        use event::SdamEvent as Core;
        match event {
            Core::TopologyOpening { topology } => Self::TopologyOpening(TopologyOpeningEvent {
                topology_id: topology.0,
            }),
            Core::TopologyDescriptionChanged {
                topology,
                previous,
                new,
            } => Self::TopologyDescriptionChanged(Box::new(TopologyDescriptionChangedEvent {
                topology_id: topology.0,
                previous_description: previous.clone(),
                new_description: new.clone(),
            })),
            Core::TopologyClosed { topology } => Self::TopologyClosed(TopologyClosedEvent {
                topology_id: topology.0,
            }),
            Core::ServerOpening { topology, address } => Self::ServerOpening(ServerOpeningEvent {
                address: address.into(),
                topology_id: topology.0,
            }),
            Core::ServerDescriptionChanged {
                topology,
                address,
                previous,
                new,
            } => Self::ServerDescriptionChanged(Box::new(ServerDescriptionChangedEvent {
                address: address.into(),
                topology_id: topology.0,
                previous_description: previous.clone(),
                new_description: new.clone(),
            })),
            Core::ServerClosed { topology, address } => Self::ServerClosed(ServerClosedEvent {
                address: address.into(),
                topology_id: topology.0,
            }),
            Core::HeartbeatStarted { .. }
            | Core::HeartbeatSucceeded { .. }
            | Core::HeartbeatFailed { .. } => Self::of_check(event),
            _ => Self::Notice(Box::new(event.clone())),
        }
    }
}

impl SdamEvent {
    /// Returns an event about a check.
    fn of_check(event: &event::SdamEvent) -> Self {
        use event::SdamEvent as Core;
        match event {
            Core::HeartbeatStarted {
                address,
                driver_connection_id,
                server_connection_id,
                awaited,
                ..
            } => Self::ServerHeartbeatStarted(ServerHeartbeatStartedEvent {
                server_address: address.into(),
                awaited: *awaited,
                driver_connection_id: connection_id(*driver_connection_id),
                server_connection_id: *server_connection_id,
            }),
            Core::HeartbeatSucceeded {
                address,
                driver_connection_id,
                server_connection_id,
                awaited,
                duration,
                reply,
                ..
            } => Self::ServerHeartbeatSucceeded(ServerHeartbeatSucceededEvent {
                duration: *duration,
                reply: document(reply),
                server_address: address.into(),
                awaited: *awaited,
                driver_connection_id: connection_id(*driver_connection_id),
                server_connection_id: *server_connection_id,
            }),
            Core::HeartbeatFailed {
                address,
                driver_connection_id,
                server_connection_id,
                awaited,
                duration,
                failure,
                ..
            } => Self::ServerHeartbeatFailed(ServerHeartbeatFailedEvent {
                duration: *duration,
                failure: failure.clone(),
                server_address: address.into(),
                awaited: *awaited,
                driver_connection_id: connection_id(*driver_connection_id),
                server_connection_id: *server_connection_id,
            }),
            _ => Self::Notice(Box::new(event.clone())),
        }
    }
}
