//! Events of the members of one shard.

use super::{clock_jump::ClockJump, plan::Disaster};
use onionskin_core::time::Instant;
use onionskin_deployment::deployment::Deployment;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An event of the members of one shard, which is a replica set. The members of the event count
/// from 0 in the shard.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEvent {
    /// The number of the shard, from 0.
    pub shard: usize,
    /// The event: [`Kill`](Disaster::Kill), [`Restart`](Disaster::Restart),
    /// [`StepDown`](Disaster::StepDown), [`FreezeMember`](Disaster::FreezeMember),
    /// [`Isolate`](Disaster::Isolate), [`CutMembers`](Disaster::CutMembers), or
    /// [`JumpClock`](Disaster::JumpClock) of a member. All other events are refused.
    pub event: Box<Disaster>,
}

impl ShardEvent {
    /// Creates an event of the members of the shard with this number, from 0.
    ///
    /// ```
    /// use onionskin_worlds::world::{Disaster, ShardEvent};
    ///
    /// let event = Disaster::InShard(ShardEvent::new(1, Disaster::Kill(0)));
    /// assert_eq!(event.to_string(), "in shard 1: member 0 is killed");
    /// ```
    #[must_use]
    pub fn new(shard: usize, event: Disaster) -> Self {
        Self {
            shard,
            event: Box::new(event),
        }
    }

    /// Returns the reason why the event has no effect in any deployment or cannot be, if there is
    /// one.
    pub(super) fn idle(&self) -> Option<&'static str> {
        match *self.event {
            Disaster::Kill(_)
            | Disaster::Restart(_)
            | Disaster::StepDown
            | Disaster::FreezeMember { .. }
            | Disaster::Isolate(_)
            | Disaster::CutMembers { .. }
            | Disaster::JumpClock(ClockJump {
                member: Some(_), ..
            }) => self.event.idle(),
            _ => Some(
                "the event of an `in-shard` must be `kill`, `restart`, `step-down`, \
                 `freeze-member`, `isolate`, `cut-members`, or `jump-clock` of a member",
            ),
        }
    }

    /// Returns the event with the indexes that the members have in the deployment; `None` if it has
    /// no such members.
    fn placed(&self, deployment: &Deployment) -> Option<Disaster> {
        let place = |member| deployment.place_in_shard(self.shard, member);
        Some(match *self.event {
            Disaster::Kill(member) => Disaster::Kill(place(member)?),
            Disaster::Restart(member) => Disaster::Restart(place(member)?),
            Disaster::StepDown => Disaster::StepDownShard(self.shard),
            Disaster::Isolate(member) => Disaster::Isolate(place(member)?),
            Disaster::FreezeMember { member, pause } => Disaster::FreezeMember {
                member: place(member)?,
                pause,
            },
            Disaster::CutMembers { from, to } => Disaster::CutMembers {
                from: place(from)?,
                to: place(to)?,
            },
            Disaster::JumpClock(jump) => Disaster::JumpClock(ClockJump {
                member: Some(place(jump.member?)?),
                ..jump
            }),
            _ => return None,
        })
    }

    pub(super) fn act(&self, now: Instant, deployment: &mut Deployment) -> Result<(), String> {
        match self.placed(deployment) {
            Some(event) => event.act(now, deployment),
            None => Err(format!("shard {} has no such member", self.shard)),
        }
    }

    /// Returns the reason why the event changes nothing in a deployment, if the state of a member
    /// is the reason.
    pub(super) fn void_in(&self, deployment: &Deployment) -> Option<String> {
        self.placed(deployment)?.void_in(deployment)
    }
}

impl fmt::Display for ShardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in shard {}: {}", self.shard, self.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        Rates, Scenario, Scheduled, Span, Way, WorldShape, run_seed, runtime::member_addresses,
    };
    use onionskin_core::random::Seed;
    use onionskin_deployment::deployment::{DeploymentOptions, MemberState};
    use std::time::Duration;

    fn options() -> DeploymentOptions {
        let mut options = DeploymentOptions::sharded(member_addresses(2));
        (options.shards, options.shard_members) = (2, 3);
        options
    }

    fn in_shard(shard: usize, event: Disaster) -> Disaster {
        Disaster::InShard(ShardEvent::new(shard, event))
    }

    #[test]
    fn an_event_strikes_the_member_of_its_shard() {
        let mut deployment = Deployment::new(options(), &Seed::new([1; 32])).expect("valid");
        let now = Instant::ZERO;
        let place = deployment.place_in_shard(1, 2).expect("a third member");
        assert_eq!(place, 7);
        let kill = in_shard(1, Disaster::Kill(2));
        kill.strike(now, &mut deployment).expect("it runs");
        assert_eq!(deployment.state(place), Some(MemberState::Down));
        let reason = kill.strike(now, &mut deployment).expect_err("it is down");
        assert_eq!(reason, "member 7 does not run");
        let restart = in_shard(1, Disaster::Restart(2));
        restart.strike(now, &mut deployment).expect("it is down");
        assert_eq!(deployment.state(place), Some(MemberState::Secondary));
        let pause = Span(Duration::from_secs(1));
        let freeze = in_shard(0, Disaster::FreezeMember { member: 0, pause });
        freeze.strike(now, &mut deployment).expect("it runs");
        assert!(deployment.is_frozen(2));
        let cut = in_shard(1, Disaster::CutMembers { from: 0, to: 1 });
        cut.strike(now, &mut deployment)
            .expect("they hear each other");
        assert_eq!(deployment.cuts(), 1);
        let reason = cut.strike(now, &mut deployment).expect_err("it is cut");
        assert!(reason.contains("lost already"), "{reason}");
    }

    #[test]
    fn events_that_members_of_shards_do_not_have_are_refused() {
        let options = options();
        for event in [
            Disaster::Heal,
            Disaster::ShutDown(0),
            Disaster::KillShard(0),
            Disaster::CutMembers { from: 1, to: 1 },
            in_shard(0, Disaster::Kill(0)),
        ] {
            let event = in_shard(0, event);
            assert!(event.check(&options).is_err(), "{event}");
        }
        let missing = in_shard(2, Disaster::Kill(0)).check(&options);
        assert!(missing.is_err_and(|reason| reason.contains("no shard 2")));
        let missing = in_shard(1, Disaster::Kill(3)).check(&options);
        let text = "there are 3 shard members, and no shard member 3";
        assert_eq!(missing, Err(text.to_owned()));
        in_shard(1, Disaster::Kill(2))
            .check(&options)
            .expect("it exists");
    }

    #[test]
    fn clients_of_routers_survive_failovers_of_shards() {
        let at = |seconds, event| Scheduled {
            at: Span(Duration::from_secs(seconds)),
            event,
        };
        let pause = Span(Duration::from_secs(5));
        let freeze = Disaster::FreezeMember { member: 2, pause };
        for shape in [WorldShape::Sharded, WorldShape::LoadBalanced] {
            let scenario = Scenario {
                shape: Some(shape),
                members: Some(2),
                shards: Some(2),
                shard_members: Some(3),
                safety: Some(Span(Duration::from_secs(40))),
                election_timeout: Some(Span(Duration::from_secs(2))),
                rates: Some(Rates::default()),
                schedule: Some(vec![
                    at(4, Disaster::StepDownShard(0)),
                    at(5, in_shard(1, Disaster::Kill(0))),
                    at(15, in_shard(1, Disaster::Restart(0))),
                    at(18, in_shard(0, freeze.clone())),
                    at(25, in_shard(0, Disaster::Isolate(1))),
                    at(32, Disaster::JoinMembers),
                ]),
                ..Scenario::default()
            };
            for way in [Way::Core, Way::Runtime] {
                for seed in 0..3 {
                    let mut options = scenario.options(seed);
                    options.keep_trace = true;
                    let report = run_seed(seed, way, options);
                    assert!(report.failure.is_none(), "{report}");
                    assert!(
                        report.trace.contains("is primary in term 2"),
                        "{way} {seed}"
                    );
                    assert!(report.tally.succeeded > 50, "{report}");
                }
            }
        }
    }
}
