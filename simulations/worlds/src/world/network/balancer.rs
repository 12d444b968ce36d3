//! The load balancer in front of services, which passes each connection to a service.
//!
//! The balancer itself never fails, but the faults of the network apply to its connections. A fault
//! affects the whole connection between a client and its service.

use super::{Incoming, LinkId, Network, Parcel, Towards};
use crate::world::trace::Trace;
use onionskin_core::{address::Address, time::Instant};
use onionskin_deployment::deployment::ConnId;

/// The services to which an address of the load balancer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Services {
    All,
    One(usize),
}

impl Network {
    /// Returns the services behind an address. The balancer's own port leads to all of them in
    /// turn, and each of the ports after it to one.
    pub(super) fn services_at(&self, address: &Address) -> Option<Services> {
        let balancer = self.balancer.as_ref()?;
        if address.host() != balancer.host() {
            return None;
        }
        let place = address.port()?.checked_sub(balancer.port()?)?;
        match usize::from(place).checked_sub(1) {
            None => Some(Services::All),
            Some(service) => (service < self.addresses.len()).then_some(Services::One(service)),
        }
    }

    /// Handles a connection at the balancer. If no service runs, the balancer accepts the
    /// connection and closes it.
    pub(super) fn hand_over(
        &mut self,
        now: Instant,
        id: LinkId,
        services: Services,
        trace: &mut Trace,
    ) {
        let connected = Parcel::Answer(Incoming::Connected);
        self.post(now, id, Towards::Client, connected);
        if !self.lead_to_service(now, id, services, trace) {
            let closed = Parcel::Answer(Incoming::Closed);
            self.post(now, id, Towards::Client, closed);
        }
    }

    /// Passes a connection to a service. Returns false if no service runs.
    pub(super) fn lead_to_service(
        &mut self,
        now: Instant,
        id: LinkId,
        services: Services,
        trace: &mut Trace,
    ) -> bool {
        let member = match services {
            Services::All => self.deployment.balance(),
            Services::One(service) => self.listening[service].then_some(service),
        };
        let Some(member) = member else {
            trace.note(now, format_args!("link {} finds no service", id.0));
            return false;
        };
        trace.note(now, format_args!("link {} leads to service {member}", id.0));
        if let Some(link) = self.links.get_mut(&id) {
            link.member = member;
            link.has_server = true;
        }
        self.deployment.handle_forwarded(now, ConnId(id.0), member);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        options::{WorldOptions, world_seed},
        plan::Disaster,
        setup,
    };
    use bson::{oid::ObjectId, rawdoc};
    use onionskin_core::unstable::wire::{FrameDecoder, MessageWriter};
    use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    use std::collections::VecDeque;

    struct BalancedNetwork {
        network: Network,
        now: Instant,
        trace: Trace,
    }

    fn balanced_network(services: usize) -> BalancedNetwork {
        let services = (0..services).map(|n| Address::tcp(&setup::host(n), setup::PORT));
        let options =
            DeploymentOptions::load_balanced(setup::balancer_address(), services.collect());
        let seed = world_seed(1);
        let deployment = Deployment::new(options, &seed).expect("a deployment");
        let options = WorldOptions::drawn(1).calm();
        BalancedNetwork {
            network: Network::new(deployment, &options, &VecDeque::new(), &seed),
            now: Instant::ZERO,
            trace: Trace::new(false),
        }
    }

    impl BalancedNetwork {
        fn dial(&mut self, address: &Address) -> LinkId {
            self.network.dial(self.now, 0, address, &mut self.trace)
        }

        /// Advances the time until no parcel is in transit. Returns the events on one connection.
        fn receive(&mut self, link: LinkId) -> Vec<Incoming> {
            let mut received = Vec::new();
            while let Some((&(at, _), _)) = self.network.under_way.first_key_value() {
                self.now = self.now.max(at);
                self.network.advance(self.now, &mut self.trace);
                while let Some((id, _, incoming)) = self.network.poll_arrival() {
                    if id == link {
                        received.push(incoming);
                    }
                }
            }
            received
        }

        /// Connects, sends a hello, and returns the connection and the `serviceId` of the reply.
        fn hello(&mut self, address: &Address) -> (LinkId, Option<ObjectId>) {
            let link = self.dial(address);
            assert_eq!(self.receive(link), [Incoming::Connected]);
            let mut hello = Vec::new();
            MessageWriter::begin(&mut hello, 1, 0)
                .body(&rawdoc! { "hello": 1, "loadBalanced": true, "$db": "admin" })
                .end();
            self.network.send(self.now, link, &hello, &mut self.trace);
            let mut decoder = FrameDecoder::new();
            for incoming in self.receive(link) {
                let Incoming::Bytes(bytes) = incoming else {
                    panic!("{incoming:?}");
                };
                decoder.extend(&bytes);
            }
            let (_, frame) = decoder.frame().expect("a frame").expect("a whole one");
            let message =
                onionskin_core::unstable::wire::Message::decode(frame).expect("a message");
            (link, message.body.get_object_id("serviceId").ok())
        }
    }

    #[test]
    fn services_are_reachable_through_the_balancer_in_turn_and_directly() {
        let mut balanced_network = balanced_network(2);
        let balancer = setup::balancer_address();
        let [one, other, again] = [(); 3].map(|()| balanced_network.hello(&balancer).1);
        assert!(one.is_some() && other.is_some());
        assert_ne!(one, other);
        assert_eq!(one, again);
        let (_, direct) = balanced_network.hello(&Address::tcp(&setup::host(0), setup::PORT));
        assert_eq!(direct, None);
        for (service, expected) in [(0, one), (1, other), (0, one)] {
            let address = setup::service_address(service);
            assert_eq!(balanced_network.hello(&address).1, expected);
        }
    }

    #[test]
    fn without_a_service_the_balancer_accepts_and_closes_connections() {
        let mut balanced_network = balanced_network(1);
        let balancer = setup::balancer_address();
        let now = balanced_network.now;
        balanced_network
            .network
            .strike(now, &Disaster::Kill(0), &mut balanced_network.trace);
        let link = balanced_network.dial(&balancer);
        assert_eq!(
            balanced_network.receive(link),
            [Incoming::Connected, Incoming::Closed]
        );
        balanced_network
            .network
            .close(balanced_network.now, link, &mut balanced_network.trace);
        assert_eq!(balanced_network.receive(link), []);
        assert_eq!(balanced_network.network.open_links(), 0);
        let now = balanced_network.now;
        balanced_network
            .network
            .strike(now, &Disaster::Restart(0), &mut balanced_network.trace);
        assert!(balanced_network.hello(&balancer).1.is_some());
    }

    #[test]
    fn a_network_partition_behind_the_balancer_affects_only_one_service() {
        let mut balanced_network = balanced_network(2);
        let balancer = setup::balancer_address();
        let (one, _) = balanced_network.hello(&balancer);
        let (other, _) = balanced_network.hello(&balancer);
        let cut = Disaster::CutClient {
            client: 0,
            member: 0,
            up: true,
            down: true,
        };
        let now = balanced_network.now;
        balanced_network
            .network
            .strike(now, &cut, &mut balanced_network.trace);
        let mut ping = Vec::new();
        MessageWriter::begin(&mut ping, 2, 0)
            .body(&rawdoc! { "ping": 1, "$db": "admin" })
            .end();
        balanced_network
            .network
            .send(now, one, &ping, &mut balanced_network.trace);
        assert_eq!(balanced_network.receive(one), []);
        balanced_network
            .network
            .send(now, other, &ping, &mut balanced_network.trace);
        assert!(matches!(
            balanced_network.receive(other).as_slice(),
            [Incoming::Bytes(_)]
        ));
        // The balancer accepts the connection and gives it to the service that is cut off, so its
        // bytes are lost.
        let link = balanced_network.dial(&balancer);
        assert_eq!(balanced_network.receive(link), [Incoming::Connected]);
        balanced_network.network.send(
            balanced_network.now,
            link,
            &ping,
            &mut balanced_network.trace,
        );
        assert_eq!(balanced_network.receive(link), []);
    }
}
