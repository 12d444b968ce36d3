//! Changes of the settings of members while they run.

use super::{Deployment, MemberOptions, ServerVersion, Shape, Shedding};
use crate::server::Member;
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

    /// Sets the share of requests and handshakes that a member, router or service refuses because
    /// of overload, until the next call or until its process ends. Without effect if there is no
    /// such member.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions, Shedding};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("a", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([0; 32])).expect("valid options");
    /// let shedding = Shedding { requests_per_mille: 200, ..Shedding::default() };
    /// deployment.set_shedding(0, shedding);
    /// ```
    pub fn set_shedding(&mut self, member: usize, shedding: Shedding) {
        if let Some(member) = self.clients_member(member) {
            member.set_shedding(shedding);
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
    /// release 6.0 order configurations in another way, and a set that began with one is not
    /// reconfigured. The release of the member and its streaming stay as they are.
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

    /// Returns the release of a member's process; `None` if the member does not exist. A member
    /// that does not run has that of its last process.
    #[must_use]
    pub fn version(&self, member: usize) -> Option<ServerVersion> {
        self.members.get(member).map(Member::version)
    }

    /// Installs a later release for a member of the replica set. The member has it from its next
    /// [start](Self::restart) on, and its running process goes on as before.
    ///
    /// # Errors
    ///
    /// The reason why nothing changes: there is no such member or no replica set, the release is
    /// not later than the installed one, or it does not [work](ServerVersion::works_with) with a
    /// release that a member has, or will have after its next start.
    pub fn upgrade(&mut self, member: usize, version: ServerVersion) -> Result<(), String> {
        let is_set = matches!(self.options.shape, Shape::ReplicaSet(_));
        let installed = self.members.get(member).filter(|_| is_set);
        let installed = installed.map(Member::installed_version);
        let installed = installed.ok_or("there is no such member of a replica set")?;
        if version.release <= installed.release {
            return Err(format!("{version} is not later than {installed}"));
        }
        let versions = |member: &Member| [member.version(), member.installed_version()];
        let mut known: Vec<ServerVersion> = self.members.iter().flat_map(versions).collect();
        known.retain(|other| !version.works_with(*other));
        if let Some(other) = known.first() {
            return Err(format!("{version} and {other} do not follow each other"));
        }
        self.members[member].set_installed_version(version);
        Ok(())
    }
}
