//! Facts about the members of a deployment and the network between them, for reports.

use super::{Deployment, routing};

impl Deployment {
    /// True if a member is [frozen](Self::freeze). False if there is no such member.
    #[must_use]
    pub fn is_frozen(&self, member: usize) -> bool {
        self.frozen.contains(member)
    }

    /// True if a member [shuts down](Self::shut_down) and has not ended yet. False if there is no
    /// such member.
    #[must_use]
    pub fn is_shutting_down(&self, member: usize) -> bool {
        let home = self.members.get(member);
        home.is_some_and(|home| home.quiesces())
    }

    /// True if a member has [failed](super::MemberEvent::Failed), so that it cannot start again.
    /// False if there is no such member.
    #[must_use]
    pub fn has_failed(&self, member: usize) -> bool {
        let home = self.members.get(member);
        home.is_some_and(|home| home.has_failed())
    }

    /// Returns the number of open client connections to a member. There are none to a shard.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{ConnId, Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("a", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// deployment.handle_connected(Instant::ZERO, ConnId(1), 0);
    /// assert_eq!(deployment.connections_of(0), 1);
    /// ```
    #[must_use]
    pub fn connections_of(&self, member: usize) -> usize {
        let homes = self.homes.iter();
        homes
            .filter(|(conn, home)| **home == member && !routing::is_inner(**conn))
            .count()
    }

    /// Returns the number of [cuts](Self::cut) between members. A cut in both directions counts
    /// twice.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.network.cuts()
    }
}
