//! The descriptions that a client has of a deployment during a history.

use super::History;
use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::{TopologyDescription, TopologyId},
    error::{Error, NetworkFault},
    time::Instant,
    unstable::{
        hello::HelloAnswer,
        sdam::{MonitorConnectionId, Order, Sdam, SdamOptions},
    },
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The round trip time of all hellos.
const ROUND_TRIP: Duration = Duration::from_millis(1);

impl History {
    /// Returns the descriptions that a client has of the deployment while it sends these hellos:
    /// the one before its first hello, and then one after each hello that changed it. So two
    /// neighbours are the old and the new description of an event of the kind
    /// `TopologyDescriptionChanged`.
    ///
    /// The client polls its servers, and uses only the hellos of servers that it knows at their
    /// time.
    #[must_use]
    pub fn descriptions(&self) -> Vec<Arc<TopologyDescription>> {
        let mut observer = Observer::new(self);
        let mut found = vec![observer.sdam.description().clone()];
        let mut version = observer.sdam.version();
        for hello in &self.hellos {
            let reply = hello.reply.clone().map(HelloAnswer::new);
            observer.ask(&hello.server, reply);
            if version != observer.sdam.version() {
                version = observer.sdam.version();
                found.push(observer.sdam.description().clone());
            }
        }
        found
    }
}

/// A client that only observes.
struct Observer {
    sdam: Sdam,
    now: Instant,
    /// The connection to each server, and whether it is open.
    connections: BTreeMap<Address, (MonitorConnectionId, bool)>,
    /// The connections on which a reply is due.
    asked: Vec<MonitorConnectionId>,
}

impl Observer {
    fn new(history: &History) -> Self {
        let id = TopologyId(ObjectId::from_bytes([0; 12]));
        let mut options = SdamOptions::new(id, history.seeds.clone());
        options.replica_set.clone_from(&history.set_name);
        // Without streaming and limits, a check lasts until its reply.
        options.streaming = false;
        options.connect_timeout = None;
        let mut observer = Self {
            sdam: Sdam::new(options),
            now: Instant::ZERO,
            connections: BTreeMap::new(),
            asked: Vec::new(),
        };
        observer.sdam.start(observer.now);
        observer.obey();
        observer
    }

    fn obey(&mut self) {
        while let Some(order) = self.sdam.poll_order() {
            match order {
                Order::Open {
                    connection,
                    address,
                    ..
                } => {
                    self.connections.insert(address, (connection, false));
                    self.asked.push(connection);
                }
                Order::SendHello { connection, .. } => self.asked.push(connection),
                Order::Close { connection } => {
                    self.connections.retain(|_, (id, _)| *id != connection);
                    self.asked.retain(|id| *id != connection);
                }
                _ => {}
            }
        }
    }

    /// Returns the connection on which a server owes a reply, and whether it is open.
    fn pending(&self, server: &Address) -> Option<(MonitorConnectionId, bool)> {
        let connection = self.connections.get(server).copied();
        connection.filter(|(id, _)| self.asked.contains(id))
    }

    /// Lets time pass until a server is checked, and answers the check. Without a reply the
    /// connection breaks.
    fn ask(&mut self, server: &Address, reply: Option<HelloAnswer>) {
        if self.sdam.server_id(server).is_none() {
            return;
        }
        while self.pending(server).is_none()
            && let Some(deadline) = self.sdam.deadline()
        {
            self.now = self.now.max(deadline);
            self.sdam.handle_timeout(self.now);
            self.obey();
        }
        let Some((id, is_open)) = self.pending(server) else {
            return;
        };
        self.asked.retain(|asked| *asked != id);
        self.now = self.now + ROUND_TRIP;
        match reply {
            Some(reply) if is_open => {
                self.sdam
                    .handle_reply(self.now, id, reply, ROUND_TRIP, false);
            }
            Some(reply) => {
                self.connections.insert(server.clone(), (id, true));
                self.sdam.handle_connected(self.now, id, reply, ROUND_TRIP);
            }
            None => {
                self.connections.remove(server);
                let error = Error::network(NetworkFault::Reset, "the server does not answer");
                self.sdam.handle_failed(self.now, id, error);
            }
        }
        self.obey();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{lying_histories, replica_set_histories, sharded_histories};
    use onionskin_core::description::{ServerType, TopologyType};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_replica_set_has_one_primary_at_most(history in replica_set_histories()) {
            for description in history.descriptions() {
                let primaries = description.servers.values();
                let primaries = primaries.filter(|s| s.server_type == ServerType::RsPrimary);
                prop_assert!(primaries.count() <= 1);
            }
        }

        #[test]
        fn answers_of_mongos_are_seen(history in sharded_histories()) {
            let answered = history.hellos.iter().any(|hello| hello.reply.is_some());
            let last = history.descriptions().pop().expect("there is a first one");
            prop_assert_eq!(answered, last.topology_type == TopologyType::Sharded);
        }

        #[test]
        fn lies_end_no_test(history in lying_histories(false)) {
            prop_assert!(!history.descriptions().is_empty());
        }
    }
}
