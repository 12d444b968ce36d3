//! Checks what the events of a client say about services. Commands and clears have a service id
//! exactly if the client is behind a load balancer. There, no server is monitored, and after a
//! clear of a service no older connection of that service is used.

use super::ensure;
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::TopologyType,
    event::{CloseReason, CommandEvent, CommandFacts, Event, EventKind, PoolEvent, SdamEvent},
};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct BalancerChecker {
    /// True once the topology had the type `LoadBalanced`.
    is_balanced: bool,
    /// The number of changes of the server description.
    changes: u32,
    /// The number of clears so far.
    clears: u64,
    /// The services that were cleared, each with the value of `clears` at its last clear.
    services: BTreeMap<ObjectId, u64>,
    connections: BTreeMap<(Address, u64), Connection>,
}

/// The state of a connection.
#[derive(Debug, Default)]
struct Connection {
    /// The value of `clears` when the connection was created. `ready` has the value when the
    /// connection became ready, and `None` before.
    made: u64,
    ready: Option<u64>,
    /// The service of the connection, from the events of its first command. `None` before.
    service: Option<ObjectId>,
}

impl BalancerChecker {
    pub(super) fn observe(&mut self, event: &Event) -> Result<(), String> {
        match &event.kind {
            EventKind::Sdam(event) => self.on_sdam(event),
            EventKind::Pool(event) => self.on_pool(event),
            EventKind::Command(
                CommandEvent::Started { facts, .. }
                | CommandEvent::Succeeded { facts, .. }
                | CommandEvent::Failed { facts, .. },
            ) => self.on_command(facts),
            _ => Ok(()),
        }
    }

    /// Checks that the server description changes only once (LB-16, LB-18, LB-51), and that no
    /// server is checked (LB-14). This holds from the event with which the topology gets the type
    /// `LoadBalanced`, which it keeps (LB-12).
    fn on_sdam(&mut self, event: &SdamEvent) -> Result<(), String> {
        match event {
            SdamEvent::TopologyDescriptionChanged { new, .. } => {
                self.is_balanced |= new.topology_type == TopologyType::LoadBalanced;
                Ok(())
            }
            SdamEvent::ServerDescriptionChanged { .. } if self.is_balanced => {
                self.changes += 1;
                ensure(self.changes == 1, || {
                    "the description of a load balancer changed".to_owned()
                })
            }
            SdamEvent::HeartbeatStarted { .. } => ensure(!self.is_balanced, || {
                "a load balancer is checked".to_owned()
            }),
            _ => Ok(()),
        }
    }

    fn on_pool(&mut self, event: &PoolEvent) -> Result<(), String> {
        match event {
            PoolEvent::Cleared { service, .. } => {
                ensure(service.is_some() == self.is_balanced, || {
                    format!("a clear tells of service {service:?}")
                })?;
                self.clears += 1;
                if let Some(service) = service {
                    self.services.insert(*service, self.clears);
                }
                Ok(())
            }
            PoolEvent::ConnectionCreated {
                address,
                connection,
                ..
            } => {
                let made = Connection {
                    made: self.clears,
                    ..Connection::default()
                };
                self.connections
                    .insert((address.clone(), *connection), made);
                Ok(())
            }
            PoolEvent::ConnectionReady {
                address,
                connection,
                ..
            } => {
                let clears = self.clears;
                if let Some(known) = self.connections.get_mut(&(address.clone(), *connection)) {
                    known.ready = Some(clears);
                }
                Ok(())
            }
            PoolEvent::CheckedOut {
                address,
                connection,
                ..
            } => {
                let known = self.connections.get(&(address.clone(), *connection));
                let is_stale = known.is_some_and(|known| self.last_clear(known) > known.ready);
                ensure(!is_stale, || {
                    format!("connection {connection} of a service that was cleared is handed out")
                })
            }
            PoolEvent::ConnectionClosed {
                address,
                connection,
                reason,
                ..
            } => {
                let known = self.connections.remove(&(address.clone(), *connection));
                let Some(known) = known.filter(|known| known.service.is_some()) else {
                    return Ok(());
                };
                let was_cleared = self.last_clear(&known) > Some(known.made);
                ensure(*reason != CloseReason::Stale || was_cleared, || {
                    format!("connection {connection} is stale, and its service was not cleared")
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the value of `clears` at the last clear of a connection's service. Returns `None` if
    /// the service was not cleared or is not known yet.
    fn last_clear(&self, connection: &Connection) -> Option<u64> {
        self.services.get(&connection.service?).copied()
    }

    /// Checks that command events have a service id behind a load balancer and nowhere else
    /// (LB-55), and that the service of a connection never changes.
    fn on_command(&mut self, facts: &CommandFacts) -> Result<(), String> {
        let service = facts.service;
        ensure(service.is_some() == self.is_balanced, || {
            format!("{} tells of service {service:?}", facts.name)
        })?;
        let key = (facts.address.clone(), facts.driver_connection_id);
        let (Some(service), Some(known)) = (service, self.connections.get_mut(&key)) else {
            return Ok(());
        };
        let was = *known.service.get_or_insert(service);
        ensure(was == service, || {
            format!("connection {} changed its service", key.1)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::world::check::EventCheckers;
    use bson::{oid::ObjectId, rawdoc};
    use onionskin_core::{
        address::Address,
        description::{ServerDescription, TopologyDescription, TopologyId, TopologyType},
        event::{CloseReason, CommandEvent, CommandFacts, Event, EventKind, PoolEvent, SdamEvent},
        options::ClientOptions,
        time::Instant,
    };
    use std::{sync::Arc, time::Duration};

    const ONE: [u8; 12] = [1; 12];
    const OTHER: [u8; 12] = [2; 12];

    fn address() -> Address {
        Address::tcp("balancer", 27017)
    }

    /// A sequence of events of a client, which is behind a load balancer or connected to routers.
    struct EventScript {
        checkers: EventCheckers,
        result: Result<(), String>,
        requests: i32,
    }

    impl EventScript {
        fn of(kind: TopologyType) -> Self {
            let id = TopologyId(ObjectId::from_bytes([0; 12]));
            let unknown = TopologyDescription::unknown(id);
            let mut known = unknown.clone();
            known.topology_type = kind;
            let options = "mongodb://balancer/?maxPoolSize=2&maxConnecting=2";
            let options: ClientOptions = options.parse().expect("options");
            let script = Self {
                checkers: EventCheckers::new(&options),
                result: Ok(()),
                requests: 0,
            };
            let changed = SdamEvent::TopologyDescriptionChanged {
                topology: id,
                previous: Arc::new(unknown),
                new: Arc::new(known),
            };
            let address = address();
            let ready = PoolEvent::Ready {
                address: address.clone(),
            };
            let created = PoolEvent::Created {
                address,
                options: Default::default(),
            };
            script
                .sdam(SdamEvent::TopologyOpening { topology: id })
                .sdam(changed)
                .pool(created)
                .pool(ready)
        }

        fn balanced() -> Self {
            Self::of(TopologyType::LoadBalanced)
        }

        fn observe(mut self, kind: EventKind) -> Self {
            let at = Instant::ZERO;
            if self.result.is_ok() {
                self.result = self.checkers.observe(&Event::new(at, kind));
            }
            self
        }

        fn sdam(self, event: SdamEvent) -> Self {
            self.observe(EventKind::Sdam(event))
        }

        fn pool(self, event: PoolEvent) -> Self {
            self.observe(EventKind::Pool(event))
        }

        fn made(self, connection: u64) -> Self {
            let (address, duration) = (address(), Duration::ZERO);
            self.pool(PoolEvent::ConnectionCreated {
                address: address.clone(),
                connection,
            })
            .pool(PoolEvent::ConnectionReady {
                address,
                connection,
                duration,
            })
        }

        fn checked_out_connection(self, connection: u64) -> Self {
            let (address, duration) = (address(), Duration::ZERO);
            self.pool(PoolEvent::CheckOutStarted {
                address: address.clone(),
            })
            .pool(PoolEvent::CheckedOut {
                address,
                connection,
                duration,
            })
        }

        fn checked_in_connection(self, connection: u64) -> Self {
            let address = address();
            self.pool(PoolEvent::CheckedIn {
                address,
                connection,
            })
        }

        /// Adds a connection that runs a command with this service id.
        fn used(self, connection: u64, service: Option<[u8; 12]>) -> Self {
            self.made(connection)
                .checked_out_connection(connection)
                .command(connection, service)
                .checked_in_connection(connection)
        }

        fn command(mut self, connection: u64, service: Option<[u8; 12]>) -> Self {
            self.requests += 1;
            let facts = Arc::new(CommandFacts {
                name: "ping".into(),
                database: "admin".into(),
                request_id: self.requests,
                operation_id: 1,
                address: address(),
                driver_connection_id: connection,
                server_connection_id: None,
                service: service.map(ObjectId::from_bytes),
            });
            let started = CommandEvent::Started {
                facts: facts.clone(),
                command: rawdoc! {},
            };
            let succeeded = CommandEvent::Succeeded {
                facts,
                duration: Duration::ZERO,
                reply: rawdoc! {},
            };
            self.observe(EventKind::Command(started))
                .observe(EventKind::Command(succeeded))
        }

        fn cleared(self, service: Option<[u8; 12]>) -> Self {
            self.pool(PoolEvent::Cleared {
                address: address(),
                service: service.map(ObjectId::from_bytes),
                interrupt_in_use: false,
            })
        }

        fn stale(self, connection: u64) -> Self {
            self.pool(PoolEvent::ConnectionClosed {
                address: address(),
                connection,
                reason: CloseReason::Stale,
                error: None,
            })
        }

        fn expect_violation(self, with: &str) {
            let what = self.result.expect_err(with);
            assert!(what.contains(with), "{what}");
        }
    }

    #[test]
    fn clearing_one_service_does_not_clear_the_pool() {
        let script = EventScript::balanced()
            .used(1, Some(ONE))
            .used(2, Some(OTHER))
            .cleared(Some(ONE))
            .checked_out_connection(2)
            .checked_in_connection(2)
            .stale(1)
            // This connection became ready after the clear, so that it is not stale.
            .used(3, Some(ONE))
            .checked_out_connection(3);
        assert_eq!(script.result, Ok(()));
    }

    #[test]
    fn checking_out_a_connection_of_a_cleared_service_is_found() {
        let script = EventScript::balanced()
            .used(1, Some(ONE))
            .cleared(Some(ONE));
        script
            .checked_out_connection(1)
            .expect_violation("of a service that was cleared");
    }

    #[test]
    fn closing_a_connection_of_another_service_as_stale_is_found() {
        let script = EventScript::balanced()
            .used(1, Some(ONE))
            .cleared(Some(OTHER));
        script
            .stale(1)
            .expect_violation("its service was not cleared");
    }

    #[test]
    fn a_missing_unexpected_or_changed_service_id_is_found() {
        EventScript::balanced()
            .used(1, None)
            .expect_violation("ping tells");
        EventScript::balanced()
            .cleared(None)
            .expect_violation("a clear tells");
        let routers = || EventScript::of(TopologyType::Sharded);
        routers().used(1, Some(ONE)).expect_violation("ping tells");
        routers()
            .cleared(Some(ONE))
            .expect_violation("a clear tells");
        assert_eq!(routers().used(1, None).cleared(None).result, Ok(()));
        let script = EventScript::balanced()
            .used(1, Some(ONE))
            .checked_out_connection(1);
        script
            .command(1, Some(OTHER))
            .expect_violation("changed its service");
    }

    #[test]
    fn a_second_description_or_a_check_of_a_load_balancer_is_found() {
        let topology = TopologyId(ObjectId::from_bytes([0; 12]));
        let unknown = Arc::new(ServerDescription::unknown(address()));
        let change = || SdamEvent::ServerDescriptionChanged {
            topology,
            address: address(),
            previous: unknown.clone(),
            new: unknown.clone(),
        };
        let opening = SdamEvent::ServerOpening {
            topology,
            address: address(),
        };
        let script = EventScript::balanced().sdam(opening).sdam(change());
        assert_eq!(script.result, Ok(()));
        script
            .sdam(change())
            .expect_violation("of a load balancer changed");
        let opening = SdamEvent::ServerOpening {
            topology,
            address: address(),
        };
        let check = SdamEvent::HeartbeatStarted {
            topology,
            address: address(),
            driver_connection_id: 1,
            server_connection_id: None,
            awaited: false,
        };
        let script = EventScript::balanced().sdam(opening).sdam(check);
        script.expect_violation("is checked");
    }
}
