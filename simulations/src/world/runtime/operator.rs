//! What somebody outside of the client may do to the world, and see of it, while it runs.

use super::SimRuntime;
use crate::{
    deployment::Deployment,
    world::{plan::Disaster, setup},
};
use onionskin_core::address::Address;

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
