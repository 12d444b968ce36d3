//! Changes of the settings of members while they run.

use super::{Deployment, MemberOptions, Shape};
use onionskin_core::time::Instant;

impl Deployment {
    /// Limits the number of client connections of each member, which closes further ones at once;
    /// `None` for that of the options. Connections that are open stay.
    pub fn limit_connections(&mut self, most: Option<usize>) {
        let clients = self.members();
        for member in &mut self.members[..clients] {
            member.limit_connections(most);
        }
    }

    /// Gives a member of the replica set other options, as `replSetReconfig` does. The primary
    /// tells the other members of the new configuration.
    ///
    /// # Errors
    ///
    /// The reason why nothing changes: there is no primary, it is [frozen](Self::freeze) or could
    /// not lead any more, a hidden member has a priority, or the member would get or lose its vote
    /// or its data. A simulated set has the same voters and arbiters all the time. Servers before
    /// release 6.0 order configurations in another way, and are not reconfigured.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        member: usize,
        options: MemberOptions,
    ) -> Result<(), String> {
        let is_set = matches!(self.options.shape, Shape::ReplicaSet(_));
        let primary = self.primary().filter(|_| is_set);
        let primary = primary.filter(|place| !self.frozen.contains(*place));
        let primary = primary.ok_or("there is no primary that goes on")?;
        self.members[primary].reconfigure(now, member, options)?;
        self.settle(now);
        Ok(())
    }
}
