//! Events that have no effect, because of the state in which the servers are at their time.

use super::{
    command_fault::CommandFault, overload::ServerOverload, plan::Disaster, scenario::Span,
};
use onionskin_core::time::Instant;
use onionskin_deployment::deployment::{Deployment, MemberState};
use std::fmt;

/// An event of a run that had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoidEvent {
    /// The number of the event, from 1. Events count in the order of their times.
    pub number: u64,
    /// The time of the event.
    pub at: Instant,
    /// The event.
    pub event: Disaster,
    /// The reason, such as `member 2 is primary`.
    pub reason: String,
}

impl VoidEvent {
    /// Creates the note of an event that had no effect for a reason.
    #[must_use]
    pub const fn new(number: u64, at: Instant, event: Disaster, reason: String) -> Self {
        Self {
            number,
            at,
            event,
            reason,
        }
    }
}

impl fmt::Display for VoidEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = String::from(Span(self.at.since_start()));
        let (number, reason) = (self.number, &self.reason);
        write!(f, "event {number} at {at} had no effect: {reason}")
    }
}

impl Disaster {
    /// Returns the reason why the disaster changes nothing in a deployment, if the state of a
    /// member or shard is the reason.
    pub(super) fn void_in(&self, deployment: &Deployment) -> Option<String> {
        let runs = |place: usize| {
            let state = deployment.state(place);
            state.is_some_and(|state| state != MemberState::Down)
        };
        let is_down = |member: usize| (!runs(member)).then(|| not_running(member));
        let places = |shard: usize| (0..).map_while(move |m| deployment.place_in_shard(shard, m));
        match *self {
            Self::Kill(member) => is_down(member),
            Self::FreezeMember { member, .. } => {
                let is_router = deployment.state(member) == Some(MemberState::Router);
                let router = is_router.then(|| "routers and services cannot be frozen".to_owned());
                is_down(member).or(router)
            }
            Self::ShutDown(member) => {
                let is_ending = deployment.is_shutting_down(member);
                let is_void = is_ending && !deployment.is_frozen(member);
                let ending = || format!("member {member} is shutting down already");
                is_down(member).or_else(|| is_void.then(ending))
            }
            Self::Restart(member) => {
                let is_ending = deployment.is_shutting_down(member);
                let runs = (runs(member) && !is_ending).then(|| format!("member {member} runs"));
                let has_failed = deployment.has_failed(member);
                runs.or_else(|| has_failed.then(|| format!("member {member} has failed")))
            }
            Self::Disconnect(member) => {
                let is_alone = deployment.connections_of(member) == 0;
                is_alone.then(|| format!("member {member} has no connections"))
            }
            Self::KillShard(shard) => {
                let is_down = !places(shard).any(runs);
                is_down.then(|| format!("shard {shard} does not run"))
            }
            Self::RestartShard(shard) => {
                let is_up = places(shard).all(runs);
                is_up.then(|| format!("shard {shard} runs"))
            }
            Self::InShard(ref event) => event.void_in(deployment),
            Self::Resync(member) => {
                let is_primary = deployment.primary() == Some(member);
                is_primary.then(|| format!("member {member} is primary"))
            }
            Self::FailCommands(CommandFault {
                member: Some(member),
                ..
            })
            | Self::Overload(ServerOverload {
                member: Some(member),
                ..
            }) => is_down(member),
            Self::FailCommands(_) | Self::Overload(_) => {
                let is_any_up = (0..deployment.members()).any(runs);
                (!is_any_up).then(|| NO_MEMBER_RUNS.to_owned())
            }
            _ => None,
        }
    }
}

/// The reason if an event concerns all members that run, and there is none.
pub(super) const NO_MEMBER_RUNS: &str = "no member runs";

/// Returns the reason if an event needs a member that runs.
pub(super) fn not_running(member: usize) -> String {
    format!("member {member} does not run")
}

/// Returns the reason why the primary of a shard has not begun to step down.
pub(super) fn no_shard_step_down(deployment: &Deployment, shard: usize) -> String {
    match deployment.primary_of_shard(shard) {
        _ if deployment.options().shard_members == 1 => format!("shard {shard} does not run"),
        None => format!("shard {shard} has no primary"),
        Some(primary) if deployment.is_frozen(primary) => format!("member {primary} is frozen"),
        Some(primary) => format!("member {primary} is stepping down already"),
    }
}

/// Returns the reason why the primary of a deployment has not begun to step down.
pub(super) fn no_step_down(deployment: &Deployment) -> String {
    let primary = deployment.primary();
    match primary.filter(|primary| *primary < deployment.members()) {
        None => "there is no primary".to_owned(),
        Some(primary) if deployment.is_frozen(primary) => format!("member {primary} is frozen"),
        Some(primary) if deployment.state(primary) == Some(MemberState::Standalone) => {
            "a standalone does not step down".to_owned()
        }
        Some(primary) => format!("member {primary} is stepping down already"),
    }
}
