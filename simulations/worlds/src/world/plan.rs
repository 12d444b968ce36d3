//! The disasters of a run. A schedule gives their times, or these are drawn from the seed before
//! the run begins.

use super::{
    clock_jump::ClockJump,
    command_fault::CommandFault,
    drawn::drawn,
    member::WorldMember,
    names::LookupFailures,
    options::WorldOptions,
    overload::ServerOverload,
    releases,
    scenario::{Scheduled, Span},
    slow_member::SlowMember,
    void::no_step_down,
};
use onionskin_core::{random::Random, time::Instant};
use onionskin_deployment::deployment::{Deployment, DeploymentOptions, ServerVersion, Shape};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// An event at one instant that affects a whole member, client or network, or that repairs an
/// earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Disaster {
    /// The process of a member ends.
    Kill(usize),
    /// A member shuts down in an orderly way, with a quiesce mode before its end.
    ShutDown(usize),
    /// A member that was killed or shut down starts again. One that is still shutting down ends
    /// first.
    Restart(usize),
    /// All connections to a member are closed. The member continues to run.
    Disconnect(usize),
    /// The primary steps down.
    StepDown,
    /// The primary gives a member of the replica set other options. Whether it is an arbiter must
    /// stay. Nothing happens without a primary, if the primary could no longer lead, or if the
    /// voters would change before a majority has the present configuration.
    Reconfigure {
        /// The index of the member, from 0.
        member: usize,
        /// The new options.
        options: WorldMember,
    },
    /// The primary removes a member from the configuration of the replica set. Its process runs on.
    /// Nothing happens in the cases of [`Reconfigure`](Self::Reconfigure).
    RemoveMember(usize),
    /// The primary adds a member to the configuration of the replica set, with the options that it
    /// had before. Nothing happens in the cases of [`Reconfigure`](Self::Reconfigure).
    AddMember(usize),
    /// A member installs a configuration without some others by force, as an operator does who has
    /// lost the majority. Acknowledged writes that only those have are lost.
    ForceConfiguration {
        /// The index of the member that installs it, from 0.
        member: usize,
        /// The indexes of the members that it removes.
        remove: Vec<usize>,
    },
    /// A member loses its data, starts again, and copies the data of the primary. Nothing happens
    /// to the primary, without a primary, and if a write of the majority could be lost.
    Resync(usize),
    /// A later release is installed for a member of the replica set. The member has it when it
    /// starts again the next time. If another member has, or will have, a release that does not
    /// follow, nothing happens.
    Upgrade {
        /// The index of the member, from 0.
        member: usize,
        /// The release, such as `7.0`.
        version: String,
    },
    /// Each server accepts only this number of connections, at most 1,000,000, and closes further
    /// ones at once. Connections that are open stay.
    LimitConnections(usize),
    /// Messages from one member to another are lost.
    CutMembers {
        /// The index of the sending member, from 0.
        from: usize,
        /// The index of the receiving member, from 0.
        to: usize,
    },
    /// All messages between one member and the others are lost.
    Isolate(usize),
    /// All cuts between members, and those between shards, are removed.
    JoinMembers,
    /// The process of a shard ends.
    KillShard(usize),
    /// A shard that was killed starts again.
    RestartShard(usize),
    /// A shard steps down, and is elected again at once.
    StepDownShard(usize),
    /// Messages from one shard to another are lost.
    CutShards {
        /// The number of the sending shard, from 0.
        from: usize,
        /// The number of the receiving shard, from 0.
        to: usize,
    },
    /// Bytes between a client and a member are lost.
    CutClient {
        /// The index of the client, from 0.
        client: usize,
        /// The index of the member, from 0.
        member: usize,
        /// True if bytes from the client to the member are lost.
        up: bool,
        /// True if bytes from the member to the client are lost.
        down: bool,
    },
    /// All cuts between clients and members are removed.
    JoinClients,
    /// The connections of a client to a member break, those of its pool and of its monitor. The
    /// client sees a reset of each.
    DisconnectClient {
        /// The index of the client, from 0.
        client: usize,
        /// The index of the member, from 0.
        member: usize,
    },
    /// A member reads requests slowly, so that its clients cannot write, or sends replies in small
    /// pieces.
    SlowMember(SlowMember),
    /// No member is slow any more.
    EndSlowness,
    /// The process of a member is frozen for a while. The system still accepts connections and
    /// bytes for it. Routers and services cannot be frozen.
    FreezeMember {
        /// The index of the member, from 0.
        member: usize,
        /// The length of the pause.
        pause: Span,
    },
    /// The process of a client is frozen for a while. In a run with the async client, all clients
    /// are frozen.
    Freeze {
        /// The index of the client, from 0.
        client: usize,
        /// The length of the pause.
        pause: Span,
    },
    /// The wall clock of a member or of a client jumps forward or back.
    JumpClock(ClockJump),
    /// The SRV records of the clients' seed list name these members. Without any, there are no
    /// records. A list at the time zero is there before clients ask.
    ListMembers(Vec<usize>),
    /// The name server of the clients does not answer until a [list](Self::ListMembers) comes.
    SilenceNames,
    /// Lookups of the clients fail at these rates: those of their seed lists and those of the
    /// addresses of hosts, also if a client asks a name server in the virtual network.
    FailNames(LookupFailures),
    /// No lookup fails in this way any more.
    MendNames,
    /// All logins expire: the servers require authentication again with the error 391.
    ExpireLogins,
    /// Commands fail, block or lose their connection.
    FailCommands(CommandFault),
    /// No command fails in this way any more.
    EndFailures,
    /// Servers refuse requests or new connections because of overload.
    Overload(ServerOverload),
    /// No server is overloaded any more.
    EndOverload,
    /// All change streams that are open end: the next reply to each of them has the cursor id 0, as
    /// after the event `invalidate`, but there is no event and no error.
    EndStreams,
    /// A client is closed while its operations run.
    CloseClient(usize),
    /// All cuts are removed, all members and shards run again, also those that were shutting down
    /// or frozen, commands and lookups no longer fail, no server is slow or overloaded or has a
    /// [limit of connections](Self::LimitConnections), the name server answers, and no more faults
    /// are drawn. Wall clocks and the configuration of the set stay as they are.
    Heal,
}

impl Disaster {
    /// Makes the disaster happen to the members of a deployment. Nothing happens here for those of
    /// clients, and of connections between clients and members.
    ///
    /// # Errors
    ///
    /// The reason why the disaster has no effect in the present state of the members, such as
    /// `member 2 does not run`. The guide `docs/simulation.md` lists the reasons.
    pub fn strike(&self, now: Instant, deployment: &mut Deployment) -> Result<(), String> {
        let (void, cuts) = (self.void_in(deployment), deployment.cuts());
        let acted = self.act(now, deployment);
        if let Some(reason) = void {
            return Err(reason);
        }
        match self {
            Self::CutMembers { .. } | Self::CutShards { .. } | Self::Isolate(_)
                if deployment.cuts() == cuts =>
            {
                Err("these messages are lost already".to_owned())
            }
            _ => acted,
        }
    }

    fn act(&self, now: Instant, deployment: &mut Deployment) -> Result<(), String> {
        match *self {
            Self::FailCommands(ref fault) => fault.begin(deployment),
            Self::EndFailures => CommandFault::end_all(deployment),
            Self::JumpClock(jump) => jump.strike(now, deployment),
            Self::Overload(ref overload) => overload.begin(deployment),
            Self::EndOverload => ServerOverload::end_all(deployment),
            Self::EndStreams => return deployment.end_streams(),
            Self::Kill(member) => deployment.kill(now, member),
            Self::ShutDown(member) => deployment.shut_down(now, member),
            Self::Restart(member) => deployment.restart(now, member),
            Self::Disconnect(member) => deployment.disconnect(now, member),
            Self::StepDown => {
                if !deployment.step_down(now) {
                    return Err(no_step_down(deployment));
                }
            }
            Self::CutMembers { from, to } => deployment.cut(now, from, to),
            Self::Isolate(member) => deployment.partition(now, &[member]),
            Self::JoinMembers => deployment.heal(now),
            Self::KillShard(shard) => deployment.kill_shard(now, shard),
            Self::RestartShard(shard) => deployment.restart_shard(now, shard),
            Self::StepDownShard(shard) => {
                if !deployment.step_down_shard(now, shard) {
                    return Err(format!("shard {shard} does not run"));
                }
            }
            Self::CutShards { from, to } => {
                let first = deployment.members();
                deployment.cut(now, first + from, first + to);
            }
            Self::FreezeMember { member, pause } => deployment.freeze(now, member, pause.0),
            Self::LimitConnections(most) => deployment.limit_connections(Some(most)),
            Self::Reconfigure { .. }
            | Self::RemoveMember(_)
            | Self::AddMember(_)
            | Self::ForceConfiguration { .. }
            | Self::Resync(_)
            | Self::Upgrade { .. } => return self.change_members(now, deployment),
            Self::ExpireLogins => deployment.require_reauthentication(),
            Self::Heal => deployment.recover(now),
            Self::CutClient { .. }
            | Self::JoinClients
            | Self::DisconnectClient { .. }
            | Self::SlowMember(_)
            | Self::EndSlowness
            | Self::Freeze { .. }
            | Self::ListMembers(_)
            | Self::SilenceNames
            | Self::FailNames(_)
            | Self::MendNames
            | Self::CloseClient(_) => {}
        }
        Ok(())
    }

    /// Changes the members of a replica set. What is not possible now, as during an election, does
    /// not happen.
    fn change_members(&self, now: Instant, deployment: &mut Deployment) -> Result<(), String> {
        match *self {
            Self::Reconfigure {
                member,
                ref options,
            } => deployment.reconfigure(now, member, options.options()),
            Self::RemoveMember(member) => deployment.remove_member(now, member),
            Self::AddMember(member) => deployment.add_member(now, member),
            Self::ForceConfiguration { member, ref remove } => {
                deployment.force_configuration(now, member, remove)
            }
            Self::Resync(member) => deployment.resync(now, member),
            Self::Upgrade {
                member,
                ref version,
            } => match ServerVersion::named(version) {
                Some(version) => deployment.upgrade(member, version),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// True for a disaster of clients, or of connections between clients and members.
    #[must_use]
    pub const fn concerns_clients(&self) -> bool {
        match self {
            Self::CutClient { .. }
            | Self::JoinClients
            | Self::DisconnectClient { .. }
            | Self::SlowMember(_)
            | Self::EndSlowness
            | Self::Freeze { .. }
            | Self::ListMembers(_)
            | Self::SilenceNames
            | Self::FailNames(_)
            | Self::MendNames
            | Self::CloseClient(_) => true,
            Self::JumpClock(jump) => jump.client.is_some(),
            Self::Kill(_)
            | Self::ShutDown(_)
            | Self::Restart(_)
            | Self::Disconnect(_)
            | Self::StepDown
            | Self::CutMembers { .. }
            | Self::Isolate(_)
            | Self::JoinMembers
            | Self::KillShard(_)
            | Self::RestartShard(_)
            | Self::StepDownShard(_)
            | Self::CutShards { .. }
            | Self::FreezeMember { .. }
            | Self::Reconfigure { .. }
            | Self::RemoveMember(_)
            | Self::AddMember(_)
            | Self::ForceConfiguration { .. }
            | Self::Resync(_)
            | Self::Upgrade { .. }
            | Self::LimitConnections(_)
            | Self::ExpireLogins
            | Self::FailCommands(_)
            | Self::EndFailures
            | Self::Overload(_)
            | Self::EndOverload
            | Self::EndStreams
            | Self::Heal => false,
        }
    }
}

impl Disaster {
    /// Checks that a deployment has the members and shards that the disaster names, and that a cut,
    /// a fault of commands or of lookups, an overload, a slow member, a jump of a clock or an
    /// upgrade can have an effect.
    ///
    /// # Errors
    ///
    /// The text says which member or shard is missing, or what the disaster needs.
    pub fn check(&self, options: &DeploymentOptions) -> Result<(), String> {
        if let Some(reason) = self.idle() {
            return Err(reason.to_owned());
        }
        if let Self::Upgrade { version, .. } = self {
            if !matches!(options.shape, Shape::ReplicaSet(_)) {
                return Err("only the members of a replica set are upgraded".to_owned());
            }
            releases::known(version)?;
        }
        let has_shards = matches!(options.shape, Shape::Sharded | Shape::LoadBalanced { .. });
        let shards = if has_shards { options.shards } else { 0 };
        let (members, needs) = (options.addresses.len(), self.needs());
        let lacks = |name: &str, there: usize, needed: usize| {
            let place = needed.saturating_sub(1);
            Err(match there {
                1 => format!("there is one {name}, and no {name} {place}"),
                _ => format!("there are {there} {name}s, and no {name} {place}"),
            })
        };
        match needs {
            Needs {
                members: needed, ..
            } if needed > members => lacks("member", members, needed),
            Needs { shards: needed, .. } if needed > shards => lacks("shard", shards, needed),
            _ => Ok(()),
        }
    }

    /// Returns how many members, clients and shards there must be for this disaster.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        match *self {
            Self::FailCommands(ref fault) => needs.members = fault.member.map_or(0, up_to),
            Self::Overload(ref overload) => needs.members = overload.member.map_or(0, up_to),
            Self::SlowMember(ref slow) => needs.members = slow.member.map_or(0, up_to),
            Self::JumpClock(jump) => {
                needs.members = jump.member.map_or(0, up_to);
                needs.clients = jump.client.map_or(0, up_to);
            }
            Self::Kill(member)
            | Self::ShutDown(member)
            | Self::Restart(member)
            | Self::Disconnect(member)
            | Self::FreezeMember { member, .. }
            | Self::Reconfigure { member, .. }
            | Self::RemoveMember(member)
            | Self::AddMember(member)
            | Self::Resync(member)
            | Self::Upgrade { member, .. }
            | Self::Isolate(member) => needs.members = up_to(member),
            Self::CutMembers { from, to } => needs.members = up_to(from.max(to)),
            Self::ForceConfiguration { member, ref remove } => {
                let highest = remove.iter().copied().max().unwrap_or_default();
                needs.members = up_to(member.max(highest));
            }
            Self::CutClient { client, member, .. } | Self::DisconnectClient { client, member } => {
                needs.members = up_to(member);
                needs.clients = up_to(client);
            }
            Self::Freeze { client, .. } | Self::CloseClient(client) => {
                needs.clients = up_to(client)
            }
            Self::KillShard(shard) | Self::RestartShard(shard) | Self::StepDownShard(shard) => {
                needs.shards = up_to(shard);
            }
            Self::CutShards { from, to } => needs.shards = up_to(from.max(to)),
            Self::ListMembers(ref members) => {
                needs.members = members.iter().copied().max().map_or(0, up_to);
            }
            Self::StepDown
            | Self::JoinMembers
            | Self::JoinClients
            | Self::EndSlowness
            | Self::SilenceNames
            | Self::FailNames(_)
            | Self::MendNames
            | Self::LimitConnections(_)
            | Self::ExpireLogins
            | Self::EndFailures
            | Self::EndOverload
            | Self::EndStreams
            | Self::Heal => {}
        }
        needs
    }
}

/// How many members, clients and shards there must be for a disaster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) members: usize,
    pub(crate) clients: usize,
    pub(crate) shards: usize,
}

const fn up_to(place: usize) -> usize {
    place.saturating_add(1)
}

/// Returns the disasters with their times, the earliest first. The last one is [`Disaster::Heal`].
#[must_use]
pub fn plan(options: &WorldOptions, random: &mut Random) -> VecDeque<(Instant, Disaster)> {
    let schedule = options.schedule.clone();
    let schedule = schedule.unwrap_or_else(|| drawn(options, random));
    let timed = |Scheduled { at, event }| (Instant::ZERO + at.0, event);
    let mut plan: Vec<_> = schedule.into_iter().map(timed).collect();
    let end = Instant::ZERO + options.safety;
    plan.retain(|(at, _)| *at < end);
    plan.push((end, Disaster::Heal));
    plan.sort_by_key(|(at, _)| *at);
    plan.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::options::world_seed;

    #[test]
    fn every_plan_is_sorted_by_time_and_ends_with_healing() {
        for seed in 0..50 {
            let mut options = WorldOptions::drawn(seed);
            options.disasters = 10;
            let plan = plan(&options, &mut world_seed(seed).random());
            assert!(plan.iter().is_sorted_by_key(|(at, _)| *at), "seed {seed}");
            let last = plan.back().map(|(_, disaster)| disaster);
            assert_eq!(last, Some(&Disaster::Heal), "seed {seed}");
        }
    }
}
