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

    /// Ends all open change streams. The next reply to each of them has the cursor id 0 and no
    /// error, as after the event `invalidate`, but without an event. A client can open another
    /// stream after the last token.
    ///
    /// # Errors
    ///
    /// No change stream is open.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("a", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([0; 32])).expect("valid options");
    /// let reason = deployment.end_streams().unwrap_err();
    /// assert_eq!(reason, "no change stream is open");
    /// ```
    pub fn end_streams(&mut self) -> Result<(), String> {
        let ended = self.members.iter_mut().map(Member::end_streams);
        match ended.filter(|has_ended| *has_ended).count() {
            0 => Err("no change stream is open".to_owned()),
            _ => Ok(()),
        }
    }

    /// Moves the wall clock of a member, router or service forward by a number of milliseconds, or
    /// back if the number is negative. The clock is then at most ten years ahead or behind. Without
    /// effect if there is no such member.
    ///
    /// The clock stays so, also if the process starts again, until the next call or until
    /// [`restore`](Self::restore). It gives `localTime`, `lastWriteDate` and other dates, and
    /// decides which documents, tokens and signatures have expired. Timers do not follow it, and
    /// cluster times never go back: the member keeps its logical clock.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    ///
    /// let options = DeploymentOptions::standalone(Address::tcp("a", 27017));
    /// let mut deployment = Deployment::new(options, &Seed::new([0; 32])).expect("valid options");
    /// // An hour back.
    /// deployment.jump_clock(Instant::ZERO, 0, -3_600_000);
    /// ```
    pub fn jump_clock(&mut self, now: Instant, member: usize, millis: i64) {
        if self.clients_member(member).is_some() {
            self.members.iter_mut().for_each(Member::let_clocks_differ);
            self.members[member].jump_clock(now, millis);
        }
    }

    /// Gives a member of the replica set other options, as `replSetReconfig` does. The primary
    /// tells the other members of the new configuration.
    ///
    /// # Errors
    ///
    /// The reason why nothing changes: there is no primary, it is [frozen](Self::freeze) or could
    /// not lead any more, a hidden member has a priority, more than 7 members would vote, the
    /// member would become an arbiter or stop being one, or the voters would change before a
    /// majority has the present configuration. Servers before release 6.0 order configurations in
    /// another way, and a set that began with one is not reconfigured. The release of the member
    /// and its streaming stay as they are.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        member: usize,
        options: MemberOptions,
    ) -> Result<(), String> {
        self.change_member(now, member, |old| *old = options)
    }

    /// Removes a member from the configuration of the replica set. Its process runs on. When it
    /// learns of its removal it closes the connections of its clients, and its state is
    /// [`Removed`](super::MemberState::Removed). It keeps its data and options.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions, MemberState};
    /// use std::time::Duration;
    ///
    /// let addresses = ["a", "b", "c"].map(|host| Address::tcp(host, 27017)).to_vec();
    /// let options = DeploymentOptions::replica_set("rs", addresses);
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// let now = Instant::ZERO + Duration::from_secs(5);
    /// deployment.handle_timeout(now);
    /// deployment.remove_member(now, 2)?;
    /// assert_eq!(deployment.state(2), Some(MemberState::Removed));
    /// # Ok::<_, String>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reconfigure`](Self::reconfigure), of which this is a case.
    pub fn remove_member(&mut self, now: Instant, member: usize) -> Result<(), String> {
        self.change_member(now, member, |options| options.absent = true)
    }

    /// Adds a member to the configuration of the replica set, with the options that it had or that
    /// it has from the beginning ([`MemberOptions::absent`]). Its vote counts when the primary
    /// knows that it has copied data.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{
    ///     Deployment, DeploymentOptions, MemberState, Shape,
    /// };
    /// use std::time::Duration;
    ///
    /// let addresses = ["a", "b", "c"].map(|host| Address::tcp(host, 27017)).to_vec();
    /// let mut options = DeploymentOptions::replica_set("rs", addresses);
    /// if let Shape::ReplicaSet(set) = &mut options.shape {
    ///     set.members[2].absent = true;
    /// }
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// assert_eq!(deployment.state(2), Some(MemberState::Removed));
    /// let now = Instant::ZERO + Duration::from_secs(5);
    /// deployment.handle_timeout(now);
    /// deployment.add_member(now, 2)?;
    /// deployment.handle_timeout(now + Duration::from_secs(60));
    /// assert_eq!(deployment.state(2), Some(MemberState::Secondary));
    /// # Ok::<_, String>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reconfigure`](Self::reconfigure), of which this is a case.
    pub fn add_member(&mut self, now: Instant, member: usize) -> Result<(), String> {
        self.change_member(now, member, |options| options.absent = false)
    }

    fn change_member(
        &mut self,
        now: Instant,
        member: usize,
        change: impl FnOnce(&mut MemberOptions),
    ) -> Result<(), String> {
        let primary = self.running_primary()?;
        self.members[primary].reconfigure(now, member, change)?;
        self.settle(now);
        Ok(())
    }

    fn running_primary(&self) -> Result<usize, String> {
        let is_set = matches!(self.options.shape, Shape::ReplicaSet(_));
        let primary = self.primary().filter(|_| is_set);
        let primary = primary.filter(|place| !self.frozen.contains(*place));
        primary.ok_or_else(|| "there is no primary that goes on".to_owned())
    }

    /// Installs a configuration without some members by force on one member, as `replSetReconfig`
    /// with `force: true` does when there is no majority. It tells the others, and its version is
    /// higher by a random number from 10,000 to 109,999.
    ///
    /// Acknowledged writes that only removed members have are lost, as in a real set. A member that
    /// joins again with other committed entries than the primary drops its data.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    /// use std::time::Duration;
    ///
    /// let addresses = ["a", "b", "c"].map(|host| Address::tcp(host, 27017)).to_vec();
    /// let options = DeploymentOptions::replica_set("rs", addresses);
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// let now = Instant::ZERO + Duration::from_secs(5);
    /// deployment.handle_timeout(now);
    /// for member in [0, 1] {
    ///     deployment.kill(now, member);
    /// }
    /// deployment.force_configuration(now, 2, &[0, 1])?;
    /// deployment.handle_timeout(now + Duration::from_secs(30));
    /// assert_eq!(deployment.primary(), Some(2));
    /// # Ok::<_, String>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The reason why nothing changes: there is no replica set or no such member, the member does
    /// not run or is [frozen](Self::freeze), it would be removed itself, or nobody could lead.
    /// Servers before release 6.0 are not reconfigured.
    pub fn force_configuration(
        &mut self,
        now: Instant,
        member: usize,
        removed: &[usize],
    ) -> Result<(), String> {
        let is_set = matches!(self.options.shape, Shape::ReplicaSet(_));
        let is_frozen = self.frozen.contains(member);
        let home = self.members.get_mut(member);
        let home = home.filter(|home| is_set && home.is_up() && !is_frozen);
        home.ok_or("there is no such member that goes on")?
            .force(now, removed)?;
        self.settle(now);
        Ok(())
    }

    /// Deletes the data of a member, as an operator does who removes its files: its process ends
    /// and starts again at once. The member then copies the data of the primary, which takes 5 s
    /// and one more for each MiB of memory. Until it has them it is
    /// [`Syncing`](super::MemberState::Syncing): it cannot be read from, does not acknowledge
    /// writes, neither votes nor stands for election. Its term and its vote are kept.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed, time::Instant};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions, MemberState};
    /// use std::time::Duration;
    ///
    /// let addresses = ["a", "b", "c"].map(|host| Address::tcp(host, 27017)).to_vec();
    /// let options = DeploymentOptions::replica_set("rs", addresses);
    /// let mut deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// let now = Instant::ZERO + Duration::from_secs(5);
    /// deployment.handle_timeout(now);
    /// deployment.resync(now, 2)?;
    /// assert_eq!(deployment.state(2), Some(MemberState::Syncing));
    /// deployment.handle_timeout(now + Duration::from_secs(10));
    /// assert_eq!(deployment.state(2), Some(MemberState::Secondary));
    /// # Ok::<_, String>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The reason why nothing happens: there is no such member or it holds no data, there is no
    /// primary or it is the primary itself, or the primary does not know that a majority of the
    /// voting members has all committed writes without it.
    pub fn resync(&mut self, now: Instant, member: usize) -> Result<(), String> {
        let primary = self.running_primary()?;
        let home = self.members.get(member);
        if home.is_none_or(|home| home.has_failed() || !home.holds_data()) {
            return Err("there is no such member with data".to_owned());
        }
        if !self.members[primary].can_lose(member) {
            return Err("the set needs the data of this member".to_owned());
        }
        self.kill(now, member);
        self.members[member].drop_data();
        self.restart(now, member);
        Ok(())
    }

    /// Returns the members that the hello replies of the primary list, in order. Without a primary
    /// and outside of a replica set there are none.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    ///
    /// let addresses = ["a", "b"].map(|host| Address::tcp(host, 27017)).to_vec();
    /// let options = DeploymentOptions::replica_set("rs", addresses);
    /// let deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// assert_eq!(deployment.listed_members(), [0, 1]);
    /// ```
    #[must_use]
    pub fn listed_members(&self) -> Vec<usize> {
        let is_set = matches!(self.options.shape, Shape::ReplicaSet(_));
        let primary = self.primary().filter(|_| is_set);
        primary.map_or_else(Vec::new, |place| self.members[place].listed_members())
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
