//! The SOCKS5 proxy between clients and members.
//!
//! The proxy itself never fails, but the faults of the network apply to its connections. A fault
//! affects the whole connection between a client and its member.

use super::{Incoming, LinkId, Network, Parcel, Towards};
use crate::world::trace::{Summary, Trace};
use onionskin_core::{address::Address, time::Instant};
use onionskin_deployment::{
    deployment::ConnId,
    socks5::{Socks5Exchange, Socks5Server, Socks5Step},
};

/// The code of a reply which says that the destination refused the connection (RFC 1928 section 6).
const REFUSED: u8 = 5;

/// The proxy of a network.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The address at which clients reach the proxy.
    pub address: Address,
    /// The options of the proxy.
    pub server: Socks5Server,
}

impl Network {
    /// Returns the conversation of a new connection to this address, if the proxy has it.
    pub(super) fn proxied(&self, address: &Address) -> Option<Box<Socks5Exchange>> {
        let proxy = self.proxy.as_ref()?;
        (proxy.address == *address).then(|| Box::new(Socks5Exchange::new(proxy.server.clone())))
    }

    /// Handles bytes for the proxy, and connects when the client has named its destination.
    pub(super) fn handle_greeting(
        &mut self,
        now: Instant,
        id: LinkId,
        bytes: &[u8],
        trace: &mut Trace,
    ) {
        let taken = self.links.get_mut(&id).and_then(|link| link.proxy.take());
        let Some(mut exchange) = taken else {
            return;
        };
        let step = exchange.handle_received(bytes);
        let (is_open, rest) = match step {
            Socks5Step::Wait => (true, None),
            Socks5Step::Close => (false, None),
            Socks5Step::Connect(host, port) => {
                let destination = Address::tcp(&host, port);
                let result = self.lead_on(now, id, &destination, trace);
                exchange.connected(result);
                (result.is_ok(), Some(exchange.take_rest()))
            }
        };
        let output = exchange.take_output();
        if !output.is_empty() {
            trace.note(
                now,
                format_args!("link {} proxy replies {}", id.0, Summary(&output)),
            );
            self.transfer(now, id, Towards::Client, &output, trace);
        }
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        match rest {
            _ if !is_open => {
                let closed = Parcel::Answer(Incoming::Closed);
                self.post(now, id, Towards::Client, closed);
            }
            None => link.proxy = Some(exchange),
            Some(_) if !link.has_server => {
                // Only a load balancer without a service leaves a connection without a server.
                let closed = Parcel::Answer(Incoming::Closed);
                self.post(now, id, Towards::Client, closed);
            }
            Some(rest) if rest.is_empty() => {}
            Some(rest) => self.deployment.handle_received(now, ConnId(id.0), &rest),
        }
    }

    /// Connects to a member or the load balancer for a client. Fails with the code of the reply.
    fn lead_on(
        &mut self,
        now: Instant,
        id: LinkId,
        destination: &Address,
        trace: &mut Trace,
    ) -> Result<(), u8> {
        trace.note(
            now,
            format_args!("link {} proxy connects to {destination}", id.0),
        );
        if self.is_drawn(self.rates.refuse) {
            return Err(REFUSED);
        }
        if let Some(services) = self.services_at(destination) {
            self.lead_to_service(now, id, services, trace);
            return Ok(());
        }
        let member = self.addresses.iter().position(|a| a == destination);
        let Some(member) = member.filter(|member| self.listening[*member]) else {
            return Err(REFUSED);
        };
        if let Some(link) = self.links.get_mut(&id) {
            link.member = member;
            link.has_server = true;
        }
        self.deployment.handle_connected(now, ConnId(id.0), member);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        options::{WorldOptions, WorldProxy, world_seed},
        plan::Disaster,
        setup,
    };
    use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    use std::collections::VecDeque;

    struct ProxiedNetwork {
        network: Network,
        now: Instant,
        trace: Trace,
    }

    fn proxied_network(proxy: WorldProxy, deployment: DeploymentOptions) -> ProxiedNetwork {
        let seed = world_seed(1);
        let deployment = Deployment::new(deployment, &seed).expect("a deployment");
        let mut options = WorldOptions::drawn(1).calm();
        options.proxy = proxy;
        ProxiedNetwork {
            network: Network::new(deployment, &options, &VecDeque::new(), &seed),
            now: Instant::ZERO,
            trace: Trace::new(false),
        }
    }

    fn member() -> Address {
        Address::tcp(&setup::host(0), setup::PORT)
    }

    /// A request to connect to a host at the port of all members.
    fn request(host: &str) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, u8::try_from(host.len()).expect("a short name")];
        bytes.extend_from_slice(host.as_bytes());
        bytes.extend(setup::PORT.to_be_bytes());
        bytes
    }

    impl ProxiedNetwork {
        fn dial(&mut self) -> LinkId {
            let address = setup::proxy_address();
            self.network.dial(self.now, 0, &address, &mut self.trace)
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

        /// Sends bytes, and returns the events that follow.
        fn exchange(&mut self, link: LinkId, bytes: &[u8]) -> Vec<Incoming> {
            self.network.send(self.now, link, bytes, &mut self.trace);
            self.receive(link)
        }
    }

    /// Returns the code of a reply, and the events after it.
    fn code(events: &[Incoming]) -> (u8, &[Incoming]) {
        match events {
            [Incoming::Bytes(bytes), rest @ ..] => (bytes[1], rest),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_proxy_leads_to_members_and_requires_its_password() {
        let deployment = || DeploymentOptions::standalone(member());
        let mut open = proxied_network(WorldProxy::Open, deployment());
        let link = open.dial();
        assert_eq!(open.receive(link), [Incoming::Connected]);
        let chosen = open.exchange(link, &[5, 1, 0]);
        assert_eq!(chosen, [Incoming::Bytes(vec![5, 0])]);
        let reply = open.exchange(link, &request(&setup::host(0)));
        assert_eq!(code(&reply), (0, &[][..]));
        let mut strict = proxied_network(WorldProxy::Password, deployment());
        let link = strict.dial();
        let refused = [
            Incoming::Connected,
            Incoming::Bytes(vec![5, 0xFF]),
            Incoming::Closed,
        ];
        assert_eq!(strict.exchange(link, &[5, 1, 0]), refused);
    }

    #[test]
    fn a_proxy_reports_that_a_member_is_down_and_closes_the_connection() {
        let deployment = DeploymentOptions::standalone(member());
        let mut proxied = proxied_network(WorldProxy::Open, deployment);
        let now = proxied.now;
        proxied
            .network
            .strike(now, &Disaster::Kill(0), &mut proxied.trace);
        for host in [setup::host(0), "elsewhere".to_owned()] {
            let link = proxied.dial();
            proxied.exchange(link, &[5, 1, 0]);
            let reply = proxied.exchange(link, &request(&host));
            assert_eq!(code(&reply), (REFUSED, &[Incoming::Closed][..]));
            proxied.network.close(proxied.now, link, &mut proxied.trace);
            assert_eq!(proxied.receive(link), []);
        }
        assert_eq!(proxied.network.open_links(), 0);
    }

    #[test]
    fn a_proxy_leads_to_a_load_balancer_which_may_have_no_service() {
        let balancer = setup::balancer_address();
        let deployment = DeploymentOptions::load_balanced(balancer, vec![member()]);
        let mut proxied = proxied_network(WorldProxy::Open, deployment);
        let link = proxied.dial();
        proxied.exchange(link, &[5, 1, 0]);
        let reply = proxied.exchange(link, &request(setup::BALANCER));
        assert_eq!(code(&reply), (0, &[][..]));
        let now = proxied.now;
        proxied
            .network
            .strike(now, &Disaster::Kill(0), &mut proxied.trace);
        let link = proxied.dial();
        proxied.exchange(link, &[5, 1, 0]);
        let reply = proxied.exchange(link, &request(setup::BALANCER));
        assert_eq!(code(&reply), (0, &[Incoming::Closed][..]));
    }
}
