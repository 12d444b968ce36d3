//! Wall clocks that jump, those of members and those of clients.

use super::{
    options::{WorldOptions, index},
    scenario::{MAX_SPAN, Span},
};
use onionskin_core::{random::Random, time::Instant};
use onionskin_deployment::deployment::Deployment;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, time::Duration};

/// The shortest jump. Wall clocks are read in milliseconds.
const MIN_JUMP: Span = Span(Duration::from_millis(1));

/// A jump of the wall clock of one member or of one client. Timers and deadlines do not follow it.
/// Later jumps add up, and the end of all faults does not set the clock right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClockJump {
    /// The index of the member, router or service, from 0. Default: `None`, for a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// The index of the client, from 0. Default: `None`, for a member. A run of the core alone has
    /// nothing that reads the wall clock of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<usize>,
    /// The time by which the clock goes forward, from 1 ms to a day. Default: `None`, if it goes
    /// back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<Span>,
    /// The time by which the clock goes back, from 1 ms to a day. Default: `None`, if it goes
    /// forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Span>,
}

impl ClockJump {
    /// Returns the reason why the jump has no effect or cannot be, if there is one.
    pub(super) fn idle(&self) -> Option<&'static str> {
        if self.member.is_some() == self.client.is_some() {
            Some("a `jump-clock` needs either `member` or `client`")
        } else if self.forward.is_some() == self.back.is_some() {
            Some("a `jump-clock` needs either `forward` or `back`")
        } else if self.forward.or(self.back) < Some(MIN_JUMP) {
            Some("`forward` and `back` of a `jump-clock` must be at least 1ms")
        } else if self.forward.or(self.back) > Some(MAX_SPAN) {
            Some("`forward` and `back` of a `jump-clock` must be at most a day")
        } else {
            None
        }
    }

    /// Draws a jump of up to two hours. A few of them are far less than the year by which a cluster
    /// time can be ahead of a wall clock.
    pub(super) fn drawn(options: &WorldOptions, random: &mut Random) -> Self {
        let is_of_client = random.chance(1, 3);
        let member = index(random, options.members);
        let client = index(random, options.clients);
        let most_millis = [1_000, 60_000, 7_200_000][index(random, 3)];
        let span = Some(Span(Duration::from_millis(1 + random.below(most_millis))));
        let goes_back = random.chance(1, 2);
        Self {
            member: (!is_of_client).then_some(member),
            client: is_of_client.then_some(client),
            forward: span.filter(|_| !goes_back),
            back: span.filter(|_| goes_back),
        }
    }

    /// Moves the clock of the member, if it is one of a member.
    pub(super) fn strike(&self, now: Instant, deployment: &mut Deployment) {
        if let Some(member) = self.member {
            deployment.jump_clock(now, member, self.millis());
        }
    }

    /// Returns the milliseconds by which the clock goes forward; a negative number if it goes back.
    fn millis(&self) -> i64 {
        let millis = |span: Option<Span>| {
            let millis = span.map_or(0, |span| span.0.as_millis());
            i64::try_from(millis).unwrap_or(i64::MAX)
        };
        millis(self.forward) - millis(self.back)
    }
}

impl fmt::Display for ClockJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.member, self.client) {
            (Some(member), _) => write!(f, "the wall clock of member {member} goes")?,
            (None, client) => {
                let client = client.unwrap_or_default();
                write!(f, "the wall clock of client {client} goes")?;
            }
        }
        match (self.forward, self.back) {
            (Some(span), _) => write!(f, " forward by {}", String::from(span)),
            (None, Some(span)) => write!(f, " back by {}", String::from(span)),
            (None, None) => f.write_str(" on"),
        }
    }
}

/// The wall clocks of the clients that have jumped.
#[derive(Debug, Default)]
pub(super) struct ClientClocks {
    /// By how many milliseconds each is ahead; negative if it is behind.
    ahead: BTreeMap<usize, i64>,
}

impl ClientClocks {
    /// Moves the clock of the client, if it is one of a client.
    pub(super) fn jump(&mut self, jump: ClockJump) {
        if let Some(client) = jump.client {
            let ahead = self.ahead.entry(client).or_default();
            *ahead = ahead.saturating_add(jump.millis());
        }
    }

    /// Returns the time that the clock of a client shows at the right time, since 1970.
    pub(super) fn shown(&self, client: usize, right: Duration) -> Duration {
        let Some(ahead) = self.ahead.get(&client) else {
            return right;
        };
        let by = Duration::from_millis(ahead.unsigned_abs());
        match *ahead >= 0 {
            true => right.saturating_add(by),
            false => right.saturating_sub(by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Disaster, Rates, Scenario, Scheduled, Way, WorldShape, run_seed};

    const HOUR: Span = Span(Duration::from_secs(3600));

    fn of_member(member: usize, forward: Option<Span>, back: Option<Span>) -> ClockJump {
        ClockJump {
            member: Some(member),
            forward,
            back,
            ..ClockJump::default()
        }
    }

    #[test]
    fn clients_work_while_all_clocks_jump() {
        let jumps = [
            of_member(0, Some(HOUR), None),
            of_member(1, None, Some(HOUR)),
            of_member(0, None, Some(MAX_SPAN)),
            ClockJump {
                client: Some(0),
                back: Some(HOUR),
                ..ClockJump::default()
            },
        ];
        let second = |at| Span(Duration::from_secs(at));
        let event = |(place, jump): (u64, ClockJump)| Scheduled {
            at: second(2 + 2 * place),
            event: Disaster::JumpClock(jump),
        };
        let mut schedule: Vec<Scheduled> = (0..).zip(jumps).map(event).collect();
        schedule.push(Scheduled {
            at: second(11),
            event: Disaster::StepDown,
        });
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(2),
            tasks: Some(4),
            safety: Some(second(25)),
            client_options: Some(
                "heartbeatFrequencyMS=2000&readPreference=nearest&maxStalenessSeconds=90"
                    .to_owned(),
            ),
            rates: Some(Rates::default()),
            schedule: Some(schedule),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        for way in [Way::Core, Way::Runtime] {
            let mut options = scenario.options(1);
            options.keep_trace = true;
            let report = run_seed(1, way, options);
            assert!(report.failure.is_none(), "{report}");
            let jumped = report.trace.matches("the wall clock of ").count();
            assert_eq!(jumped, jumps.len(), "{way}");
        }
    }

    #[test]
    fn the_clocks_of_clients_jump_each_by_itself() {
        let mut clocks = ClientClocks::default();
        let right = Duration::from_secs(10_000);
        for (forward, back) in [(None, Some(HOUR)), (Some(MIN_JUMP), None)] {
            clocks.jump(ClockJump {
                client: Some(1),
                forward,
                back,
                ..ClockJump::default()
            });
        }
        clocks.jump(of_member(1, Some(HOUR), None));
        assert_eq!(clocks.shown(0, right), right);
        assert_eq!(clocks.shown(1, right), right - HOUR.0 + MIN_JUMP.0);
        assert_eq!(clocks.shown(1, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_jump_without_effect_is_refused() {
        let mut jump = of_member(0, Some(HOUR), None);
        assert_eq!(jump.idle(), None);
        jump.client = Some(0);
        assert!(jump.idle().is_some_and(|why| why.contains("`client`")));
        (jump.member, jump.back) = (None, Some(HOUR));
        assert!(jump.idle().is_some_and(|why| why.contains("`back`")));
        jump.forward = None;
        assert_eq!(jump.idle(), None);
        jump.back = Some(Span(Duration::from_micros(999)));
        assert!(jump.idle().is_some_and(|why| why.contains("1ms")));
        jump.back = Some(Span(MAX_SPAN.0 + MIN_JUMP.0));
        assert!(jump.idle().is_some_and(|why| why.contains("a day")));
    }
}
