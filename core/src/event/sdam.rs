//! Events of server discovery and monitoring. Their log messages have the fields that EVT-25 to
//! EVT-27 demand, for the topology (EVT-28, EVT-29, EVT-32, SDAM-65), for servers (EVT-30, EVT-31)
//! and for heartbeats (EVT-33, EVT-34, EVT-35).

use super::table::{Field, Fields, Visit, displayed, events};
use crate::{
    address::Address,
    description::{ServerDescription, TopologyDescription, TopologyId},
    error::Error,
};
use bson::{RawDocument, RawDocumentBuf};
use std::{fmt, sync::Arc, time::Duration};

/// The reason why a topology has no servers. A topology without servers stays without servers
/// ([SDAM-65]).
///
/// [SDAM-65]: crate::requirements::discovery#SDAM-65
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoServersCause {
    /// The client was created without seeds.
    NoSeeds,
    /// The last server was removed because of a reply that did not fit the topology.
    LastRemoved,
}

/// Writes the reason as log messages show it.
impl fmt::Display for NoServersCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSeeds => "the client was made without any",
            Self::LastRemoved => {
                "the last one was removed for what it said about itself; check the hosts and the \
                 replica set's name in the connection string"
            }
        })
    }
}

displayed!(NoServersCause);

/// The part of a log message about a check that states the server, the connection, the topology,
/// and whether the reply is awaited.
macro_rules! heartbeat {
    () => {
        " for {server} on connection with driver-generated ID {driverConnectionId}[ and \
         server-generated ID {serverConnectionId}] in topology with ID {topologyId}. Awaited: \
         {awaited}"
    };
}

events! {
    /// Events of server discovery and monitoring.
    ///
    /// See [EVT-12] to [EVT-20].
    ///
    /// [EVT-12]: crate::requirements::monitoring_events#EVT-12
    /// [EVT-20]: crate::requirements::monitoring_events#EVT-20
    #[derive(Clone, Debug)]
    pub enum SdamEvent {
        /// The topology was created. This is the first event of the topology ([EVT-12]).
        ///
        /// [EVT-12]: crate::requirements::monitoring_events#EVT-12
        TopologyOpening {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
        }
        trace ("topology {topology} opening")
        log "Starting topology monitoring",
            "Starting monitoring for topology with ID {topologyId}";

        /// The topology description changed. In the first such event, `previous` has the type
        /// `Unknown` and no servers. In the last such event, `new` has the type `Unknown` and no
        /// servers ([EVT-15], [EVT-10], [EVT-11]).
        ///
        /// [EVT-15]: crate::requirements::monitoring_events#EVT-15
        /// [EVT-10]: crate::requirements::monitoring_events#EVT-10
        /// [EVT-11]: crate::requirements::monitoring_events#EVT-11
        TopologyDescriptionChanged {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The topology description before the change.
            previous: Arc<TopologyDescription> => "previousDescription",
            /// The topology description after the change.
            new: Arc<TopologyDescription> => "newDescription",
        }
        trace ("topology is {new}")
        log "Topology description changed",
            "Description changed for topology with ID {topologyId}. Previous description: \
             {previousDescription}. New description: {newDescription}";

        /// The client was closed. This is the last event of the topology ([EVT-17]).
        ///
        /// [EVT-17]: crate::requirements::monitoring_events#EVT-17
        TopologyClosed {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
        }
        trace ("topology {topology} closed")
        log "Stopped topology monitoring",
            "Stopped monitoring for topology with ID {topologyId}";

        /// A server was added to the topology. If the server is not a load balancer, its monitor
        /// starts after this event ([EVT-13]).
        ///
        /// [EVT-13]: crate::requirements::monitoring_events#EVT-13
        ServerOpening {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the server.
            address: Address => "server",
        }
        trace ("{address} opening")
        log "Starting server monitoring",
            "Starting monitoring for server {server} in topology with ID {topologyId}";

        /// A server description changed. A new round trip time, for example, is no change. The
        /// first description of a server has the type `Unknown` ([EVT-14], [EVT-9]).
        ///
        /// [EVT-14]: crate::requirements::monitoring_events#EVT-14
        /// [EVT-9]: crate::requirements::monitoring_events#EVT-9
        ServerDescriptionChanged {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the server.
            address: Address => "server",
            /// The server description before the change.
            previous: Arc<ServerDescription>,
            /// The server description after the change.
            new: Arc<ServerDescription>,
        }
        trace ("server is {new}");

        /// A server was removed from the topology, or the client was closed.
        ServerClosed {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the server.
            address: Address => "server",
        }
        trace ("{address} closed")
        log "Stopped server monitoring",
            "Stopped monitoring for server {server} in topology with ID {topologyId}";

        /// The topology has no servers, and no way to discover any. Operations will fail
        /// ([SDAM-65]).
        ///
        /// [SDAM-65]: crate::requirements::discovery#SDAM-65
        NoServers {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The reason why there are no servers.
            cause: NoServersCause => "reason",
        }
        trace ("no servers: {cause:?}")
        log "No servers left",
            "No server is left to be monitored in topology with ID {topologyId}: {reason}";

        /// A server has claimed for some time to be the primary, and is refused as stale: another
        /// server reported a newer `electionId` or `setVersion` ([SDAM-46]).
        ///
        /// The refusal lasts until a server reports values that are newer still, or until the
        /// application creates the client anew. The event comes once for each such time.
        ///
        /// [SDAM-46]: crate::requirements::discovery#SDAM-46
        PrimaryRefused {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the refused server.
            address: Address => "server",
            /// The server that reported the newer values; `None` if it is not known.
            newest: Option<Address>,
            /// The time since the server was refused first.
            refused_for: Duration => "durationMS",
            /// The cause and the remedy.
            reason: String => "reason",
        }
        trace ("{address} refused as primary: {reason}")
        log "Primary refused",
            "Server {server} has claimed for {durationMS} ms to be the primary, and topology with \
             ID {topologyId} refuses it as stale: {reason}";

        /// A lookup of the SRV records of the running client failed, or gave no host that can be
        /// used. The servers stay as they are ([SRV-13], [SRV-15]).
        ///
        /// [SRV-13]: crate::requirements::srv_polling#SRV-13
        /// [SRV-15]: crate::requirements::srv_polling#SRV-15
        RescanFailed {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The reason why the lookup failed.
            error: Error => "failure",
        }
        trace ("rescan failed: {error}")
        log "SRV records not available",
            "Looking up the SRV records of topology with ID {topologyId} failed: {failure}";

        /// An SRV record names a host outside of the domain that the options permit. The host is
        /// ignored ([SRV-9], [SRV-11]).
        ///
        /// [SRV-9]: crate::requirements::srv_polling#SRV-9
        /// [SRV-11]: crate::requirements::srv_polling#SRV-11
        HostIgnored {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the ignored host.
            address: Address => "server",
        }
        trace ("{address} ignored")
        log "SRV record ignored",
            "An SRV record of topology with ID {topologyId} names {server}, which is outside of \
             the domain of the connection string";

        /// A TXT record of the connection string's host has an option that was ignored ([DNS-34]).
        ///
        /// [DNS-34]: crate::requirements::seed_lists#DNS-34
        TxtRecordIgnored {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The warning, which names the option.
            warning: String => "reason",
        }
        trace ("TXT record: {warning}")
        log "TXT record ignored",
            "The TXT record of topology with ID {topologyId} has an option that is ignored: \
             {reason}";

        /// A check of a server starts. If the check needs a new socket, this event precedes the
        /// socket ([EVT-18]).
        ///
        /// [EVT-18]: crate::requirements::monitoring_events#EVT-18
        HeartbeatStarted {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the server.
            address: Address => "server",
            /// The driver's number of the monitoring connection.
            driver_connection_id: u64 => "driverConnectionId",
            /// The server's number of the monitoring connection; `None` if no reply reported one
            /// yet.
            server_connection_id: Option<i64> => "serverConnectionId",
            /// True for an awaitable `hello` and for each streamed reply: the server delays its
            /// reply until its state changes, for `heartbeatFrequencyMS` at most.
            awaited: bool => "awaited",
        }
        trace ("{address} check started, awaited: {awaited}")
        log "Server heartbeat started",
            concat!("Heartbeat started", heartbeat!());

        /// A check succeeded: the server replied with `ok: 1` ([EVT-19]).
        ///
        /// [EVT-19]: crate::requirements::monitoring_events#EVT-19
        HeartbeatSucceeded {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the server.
            address: Address => "server",
            /// The driver's number of the monitoring connection.
            driver_connection_id: u64 => "driverConnectionId",
            /// The server's number of the monitoring connection, if the server reported one.
            server_connection_id: Option<i64> => "serverConnectionId",
            /// The value of `awaited` in the started event.
            awaited: bool => "awaited",
            /// The round trip time of `hello`. If `awaited` is true, the time since the started
            /// event.
            duration: Duration => "durationMS",
            /// The whole reply.
            reply: Arc<RawDocumentBuf> => ("reply", HelloReply(reply)),
        }
        trace ("{address} check succeeded after {duration:?}")
        log "Server heartbeat succeeded",
            concat!("Heartbeat succeeded in {durationMS} ms", heartbeat!(), ". Reply: {reply}");

        /// A check failed or was cancelled ([EVT-20]).
        ///
        /// [EVT-20]: crate::requirements::monitoring_events#EVT-20
        HeartbeatFailed {
            /// The id of the topology.
            topology: TopologyId => "topologyId",
            /// The address of the server.
            address: Address => "server",
            /// The driver's number of the monitoring connection.
            driver_connection_id: u64 => "driverConnectionId",
            /// The server's number of the monitoring connection; `None` if no reply reported one.
            server_connection_id: Option<i64> => "serverConnectionId",
            /// The value of `awaited` in the started event.
            awaited: bool => "awaited",
            /// The time since the started event.
            duration: Duration => "durationMS",
            /// The error of the check.
            failure: Error => "failure",
        }
        trace ("{address} check failed: {failure}")
        log "Server heartbeat failed",
            concat!("Heartbeat failed in {durationMS} ms", heartbeat!(), ". Failure: {failure}");
    }
}

/// The reply to a check, as log messages show it.
///
/// Monitors do not authenticate, so their replies lack `speculativeAuthenticate`. A reply that has
/// the field all the same, or that cannot be searched for it, is shown as an empty document.
struct HelloReply<'a>(&'a RawDocument);

impl Fields for HelloReply<'_> {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        match self.0.get("speculativeAuthenticate") {
            Ok(None) => visit(key, Field::Document(self.0)),
            _ => visit(key, Field::Text("{}".into())),
        }
    }
}
