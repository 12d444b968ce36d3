//! Functions by which a test changes and inspects the world while it runs.

use super::SimRuntime;
use crate::world::{options::Rates, plan::Disaster, setup};
use onionskin_core::{address::Address, time::Instant};
use onionskin_deployment::deployment::Deployment;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

/// Host names with several addresses, addresses that do not answer, and the connection attempts.
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

    /// Records an attempt to connect to an address, if [`SimRuntime::name_addresses`] was called
    /// before. Returns true if the address does not answer.
    pub(super) fn swallow(&mut self, now: Instant, ip: IpAddr) -> bool {
        let is_hole = self.holes.contains(&ip);
        if !self.names.is_empty() {
            self.attempts.push((now, ip));
        }
        is_hole
    }
}

/// Returns the addresses of a deployment's members in a simulated world.
#[must_use]
pub fn member_addresses(members: usize) -> Vec<Address> {
    (0..members)
        .map(|member| Address::tcp(&setup::host(member), setup::PORT))
        .collect()
}

/// Returns the address of a deployment's load balancer in a simulated world.
#[must_use]
pub fn balancer_address() -> Address {
    setup::balancer_address()
}

/// Returns the address at which the load balancer leads to one service alone.
///
/// # Panics
///
/// If no deployment has so many services.
#[must_use]
pub fn service_address(service: usize) -> Address {
    setup::service_address(service)
}

impl SimRuntime {
    /// Makes a disaster happen now. [`Disaster::CloseClient`] has no effect: a test closes its
    /// clients itself.
    pub fn strike(&self, disaster: &Disaster) {
        self.shared.lock().strike(disaster);
    }

    /// Sets the rates of faults of the network and of name lookups from now on.
    pub fn set_rates(&self, rates: Rates) {
        let mut state = self.shared.lock();
        state.rates = rates;
        state.network.set_rates(rates);
    }

    /// Sets the shortest and the longest time that bytes are under way from now on.
    pub fn set_latency(&self, latency: (Duration, Duration)) {
        self.shared.lock().network.set_latency(latency);
    }

    /// Makes a host name resolve to a member from now on. Existing connections are not affected.
    pub fn name(&self, host: &str, member: usize) {
        self.shared.lock().names.insert(host.to_owned(), member);
    }

    /// Makes a host name resolve to these addresses from now on, in this order.
    pub fn name_addresses(&self, host: &str, addresses: &[IpAddr]) {
        let routes = &mut self.shared.lock().routes;
        routes.names.insert(host.to_owned(), addresses.to_vec());
    }

    /// Makes an address ignore all connection attempts from now on, without an answer or a refusal.
    pub fn swallow(&self, address: IpAddr) {
        self.shared.lock().routes.holes.insert(address);
    }

    /// Returns all connection attempts with their times, since the first call of
    /// [`name_addresses`](Self::name_addresses).
    #[must_use]
    pub fn attempts(&self) -> Vec<(Instant, IpAddr)> {
        self.shared.lock().routes.attempts.clone()
    }

    /// Calls a function with the deployment.
    pub fn inspect<T>(&self, action: impl FnOnce(&Deployment) -> T) -> T {
        action(self.shared.lock().network.deployment())
    }

    /// Calls a function that can change the deployment, for example set a fault of authentication.
    pub fn operate<T>(&self, action: impl FnOnce(&mut Deployment) -> T) -> T {
        self.operate_now(|deployment, _| action(deployment))
    }

    /// Calls a function that can change the deployment, with the present time.
    pub fn operate_now<T>(&self, action: impl FnOnce(&mut Deployment, Instant) -> T) -> T {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let now = state.now;
        let act = |deployment: &mut Deployment| action(deployment, now);
        let result = state.network.operate(now, act, &mut state.trace);
        // A member that goes on has room for what its clients write.
        state.wake_writers();
        result
    }

    /// Returns the number of connections that a client or a server still holds or that have
    /// something in transit.
    #[must_use]
    pub fn open_links(&self) -> usize {
        self.shared.lock().network.open_links()
    }

    /// Returns the number of steps of the world so far: polled tasks, and handled events.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.shared.lock().steps
    }
}
