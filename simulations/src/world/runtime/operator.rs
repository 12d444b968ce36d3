//! What somebody outside of the client may do to the world, and see of it, while it runs.

use super::SimRuntime;
use crate::{
    deployment::Deployment,
    world::{plan::Disaster, setup},
};
use onionskin_core::{address::Address, time::Instant};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// Names with several addresses, and addresses that swallow everything.
#[derive(Debug, Default)]
pub(super) struct Routes {
    names: BTreeMap<String, Vec<IpAddr>>,
    holes: BTreeSet<IpAddr>,
    attempts: Vec<(Instant, IpAddr)>,
}

impl Routes {
    pub(super) fn of(&self, host: &str) -> Option<&Vec<IpAddr>> {
        self.names.get(host)
    }

    /// Notes an attempt to reach an address; true if the address swallows it.
    pub(super) fn swallow(&mut self, now: Instant, ip: IpAddr) -> bool {
        let is_hole = self.holes.contains(&ip);
        if !self.names.is_empty() {
            self.attempts.push((now, ip));
        }
        is_hole
    }
}

/// The addresses at which a simulated runtime finds the members of a deployment.
#[must_use]
pub fn member_addresses(members: usize) -> Vec<Address> {
    (0..members)
        .map(|member| Address::tcp(&setup::host(member), setup::PORT))
        .collect()
}

/// The address at which a simulated runtime finds the load balancer of a deployment that has one.
#[must_use]
pub fn balancer_address() -> Address {
    setup::balancer_address()
}

impl SimRuntime {
    /// Brings a disaster about at this moment.
    pub fn strike(&self, disaster: &Disaster) {
        self.shared.lock().strike(disaster);
    }

    /// Lets a name lead to a member from now on; connections that there are stay.
    pub fn name(&self, host: &str, member: usize) {
        self.shared.lock().names.insert(host.to_owned(), member);
    }

    /// Lets a name lead to these addresses from now on, in this order.
    pub fn name_addresses(&self, host: &str, addresses: &[IpAddr]) {
        let routes = &mut self.shared.lock().routes;
        routes.names.insert(host.to_owned(), addresses.to_vec());
    }

    /// Lets an address swallow every attempt to connect from now on: there is no answer, not even
    /// a refusal.
    pub fn swallow(&self, address: IpAddr) {
        self.shared.lock().routes.holes.insert(address);
    }

    /// When which address was tried, since the first name was given
    /// [addresses](Self::name_addresses).
    #[must_use]
    pub fn attempts(&self) -> Vec<(Instant, IpAddr)> {
        self.shared.lock().routes.attempts.clone()
    }

    /// Looks at the deployment.
    pub fn look<T>(&self, look: impl FnOnce(&Deployment) -> T) -> T {
        look(self.shared.lock().network.deployment())
    }

    /// Connections that a client or a member still holds.
    #[must_use]
    pub fn open_links(&self) -> usize {
        self.shared.lock().network.open_links()
    }

    /// How many steps the world has taken: tasks that ran, and moments that passed.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.shared.lock().steps
    }
}
