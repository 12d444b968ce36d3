//! Members that read requests and send replies slowly, or read nothing.

use super::scenario::Span;
use onionskin_deployment::deployment::Action;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, ops::Range, time::Duration};

/// The shortest pause between two pieces. With a shorter one, a run would need too many steps.
const MIN_PAUSE: Span = Span(Duration::from_millis(1));

/// The longest pause between two pieces. A connection ends after it at the latest.
const MAX_PAUSE: Span = Span(Duration::from_secs(10));

/// The largest piece and window, 1 GiB.
const MAX_BYTES: usize = 1 << 30;

/// The slowness of a member towards its clients. A later one of the same member replaces it. A
/// member that starts again has none, also if it was set while the member was not running.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlowMember {
    /// The index of the member, from 0. Default: `None`, for all members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// True if the member reads requests slowly. A client whose connection has as many unread
    /// bytes as [`window`](Self::window) then cannot write. Default: true.
    pub reads: bool,
    /// True if replies arrive in pieces with pauses between them. Default: true.
    pub writes: bool,
    /// The size of a piece, in bytes, at most 1 GiB. Default: 16.
    pub bytes: usize,
    /// The time between two pieces of a connection, from 1 ms to 10 s. Default: `None`, for a
    /// member that reads nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Span>,
    /// The number of bytes of a connection that a client can send before the member reads them, at
    /// most 1 GiB. Another one than the default needs [`reads`](Self::reads). Default: 64, less
    /// than a request, because the requests of worlds are small. On real sockets, it has no effect.
    pub window: usize,
}

impl Default for SlowMember {
    fn default() -> Self {
        Self {
            member: None,
            reads: true,
            writes: true,
            bytes: 16,
            pause: None,
            window: 64,
        }
    }
}

impl SlowMember {
    /// Returns the members that this concerns, in a deployment of `all` members.
    pub(super) fn members(&self, all: usize) -> Range<usize> {
        match self.member {
            Some(member) => member..member.saturating_add(1),
            None => 0..all,
        }
    }

    /// Returns the reason why the slowness has no effect or cannot be, if there is one.
    pub(super) fn idle(&self) -> Option<&'static str> {
        if !self.reads && !self.writes {
            Some("a `slow-member` needs `reads` or `writes`")
        } else if self.writes && self.pause.is_none() {
            Some("a `slow-member` with `writes` needs a `pause`")
        } else if self.bytes == 0 || self.window == 0 {
            Some("`bytes` and `window` of a `slow-member` must be above zero")
        } else if self.bytes > MAX_BYTES || self.window > MAX_BYTES {
            Some("`bytes` and `window` of a `slow-member` must be at most 1 GiB (1073741824)")
        } else if !self.reads && self.window != Self::default().window {
            Some("a `slow-member` with `window` needs `reads`, which it limits")
        } else if self.pause.is_some_and(|pause| pause < MIN_PAUSE) {
            Some("the `pause` of a `slow-member` must be at least 1ms")
        } else if self.pause > Some(MAX_PAUSE) {
            Some("the `pause` of a `slow-member` must be at most 10s")
        } else {
            None
        }
    }
}

impl fmt::Display for SlowMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            Some(member) => write!(f, "member {member}")?,
            None => f.write_str("each member")?,
        }
        f.write_str(match (self.reads, self.writes) {
            (true, true) => " reads and writes",
            (true, false) => " reads",
            (false, _) => " writes",
        })?;
        match self.pause {
            Some(pause) => write!(f, " {} bytes every {}", self.bytes, String::from(pause)),
            None => f.write_str(" nothing"),
        }
    }
}

/// The slow members of a deployment.
///
/// ```
/// use onionskin_worlds::world::{SlowMember, SlowMembers};
///
/// let mut members = SlowMembers::default();
/// members.begin(&SlowMember::default(), 3);
/// assert!(members.get(2).is_some() && members.get(3).is_none());
/// members.end(&(0..3));
/// assert!(members.get(2).is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct SlowMembers(BTreeMap<usize, SlowMember>);

impl SlowMembers {
    /// Returns the slowness of a member, or `None` if the member is not slow.
    #[must_use]
    pub fn get(&self, member: usize) -> Option<&SlowMember> {
        self.0.get(&member)
    }

    /// Makes members of a deployment of `all` members slow.
    pub fn begin(&mut self, slow: &SlowMember, all: usize) {
        let entries = slow.members(all).map(|member| (member, slow.clone()));
        self.0.extend(entries);
    }

    /// Ends the slowness of members.
    pub fn end(&mut self, members: &Range<usize>) {
        self.0.retain(|member, _| !members.contains(member));
    }

    /// Ends the slowness of a member whose process ends or starts. An event can have made the
    /// member slow while it was not running. Returns the member if it was slow.
    pub fn handle_action(&mut self, action: &Action) -> Option<usize> {
        let (Action::Listen(member) | Action::StopListening(member)) = action else {
            return None;
        };
        self.0.remove(member).map(|_| *member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Disaster, Rates, Report, Scenario, Scheduled, Way, WorldShape, run_seed};
    use onionskin_core::time::Instant;

    const END: Duration = Duration::from_secs(8);

    #[test]
    fn a_member_whose_process_ends_or_starts_is_not_slow() {
        for action in [Action::Listen(1), Action::StopListening(1)] {
            let mut members = SlowMembers::default();
            members.begin(&SlowMember::default(), 3);
            assert_eq!(members.handle_action(&action), Some(1));
            assert_eq!(members.handle_action(&action), None);
            assert!(members.get(1).is_none() && members.get(2).is_some());
        }
    }

    #[test]
    fn the_slowness_of_a_member_that_cannot_exist_concerns_none() {
        let slow = SlowMember {
            member: Some(usize::MAX),
            ..SlowMember::default()
        };
        let mut members = SlowMembers::default();
        members.begin(&slow, 3);
        assert!((0..3).all(|member| members.get(member).is_none()));
    }

    /// Runs a replica set with this slowness until [`END`].
    fn slowed(way: Way, slow: SlowMember) -> Report {
        assert_eq!(slow.idle(), None);
        let begin = (Duration::from_secs(2), Disaster::SlowMember(slow));
        run(way, 3, &[begin, (END, Disaster::EndSlowness)])
    }

    /// Runs members with these events.
    fn run(way: Way, members: usize, events: &[(Duration, Disaster)]) -> Report {
        let scheduled = |(at, event): &(Duration, Disaster)| Scheduled {
            at: Span(*at),
            event: event.clone(),
        };
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(members),
            clients: Some(2),
            tasks: Some(4),
            safety: Some(Span(Duration::from_secs(12))),
            authentication: Some(false),
            client_options: Some(
                "maxPoolSize=4&heartbeatFrequencyMS=1000&connectTimeoutMS=2000".to_owned(),
            ),
            rates: Some(Rates::default()),
            schedule: Some(events.iter().map(scheduled).collect()),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        let mut options = scenario.options(1);
        options.keep_trace = true;
        let report = run_seed(1, way, options);
        assert!(report.failure.is_none(), "{report}");
        report
    }

    /// Returns the number of lines of a trace with a text, and the time of the last one.
    fn lines(report: &Report, text: &str) -> (usize, Instant) {
        let lines = report.trace.lines().filter(|line| line.contains(text));
        let micros = |line: &str| line.split_whitespace().next()?.parse().ok();
        let last = lines.clone().filter_map(micros).max();
        let last = Duration::from_micros(last.unwrap_or_default());
        (lines.count(), Instant::ZERO + last)
    }

    #[test]
    fn clients_wait_for_room_while_members_read_slowly_or_nothing() {
        let slowly = SlowMember {
            writes: false,
            pause: Some(Span(Duration::from_millis(20))),
            ..SlowMember::default()
        };
        let nothing = SlowMember {
            writes: false,
            ..SlowMember::default()
        };
        for way in [Way::Core, Way::Runtime] {
            for slow in [&slowly, &nothing] {
                let report = slowed(way, slow.clone());
                let (count, last) = lines(&report, "has no room for its client");
                // A member that reads nothing stops each of the four connections once.
                assert!(count >= 4, "{way}, {slow}: {count}");
                assert!(last <= Instant::ZERO + END, "{way}, {slow}: {last}");
            }
        }
    }

    #[test]
    fn replies_of_slow_members_arrive_in_small_pieces() {
        let slow = SlowMember {
            reads: false,
            bytes: 7,
            pause: Some(Span(Duration::from_millis(1))),
            ..SlowMember::default()
        };
        for way in [Way::Core, Way::Runtime] {
            let report = slowed(way, slow.clone());
            // Later requests are answered in whole.
            let (count, last) = lines(&report, " gets 7 bytes ");
            assert!(count > 100, "{way}: {count}");
            assert!(
                last < Instant::ZERO + END + Duration::from_secs(1),
                "{way}: {last}"
            );
        }
    }

    #[test]
    fn a_run_with_the_smallest_pieces_and_pauses_ends() {
        let slow = SlowMember {
            bytes: 1,
            pause: Some(MIN_PAUSE),
            ..SlowMember::default()
        };
        let steps = |slow: Option<&SlowMember>| {
            let event = slow.map(|slow| Scheduled {
                at: Span(Duration::from_secs(2)),
                event: Disaster::SlowMember(slow.clone()),
            });
            let scenario = Scenario {
                safety: Some(Span(Duration::from_secs(3600))),
                members: Some(3),
                schedule: Some(event.into_iter().collect()),
                ..Scenario::default()
            };
            scenario.options(1).max_steps
        };
        assert_eq!(steps(Some(&slow)), 10 * steps(None));
        let events = [
            (Duration::from_secs(2), Disaster::SlowMember(slow)),
            (Duration::from_secs(3), Disaster::EndSlowness),
        ];
        for way in [Way::Core, Way::Runtime] {
            let (count, _) = lines(&run(way, 1, &events), " gets 1 bytes ");
            assert!(count > 100, "{way}: {count}");
        }
    }

    #[test]
    fn a_killed_member_sends_no_further_pieces() {
        let slow = SlowMember {
            reads: false,
            pause: Some(Span(Duration::from_millis(50))),
            ..SlowMember::default()
        };
        let end = Duration::from_millis(2_500);
        let events = [
            (Duration::from_secs(2), Disaster::SlowMember(slow)),
            (end, Disaster::Kill(0)),
            (Duration::from_secs(6), Disaster::Restart(0)),
        ];
        for way in [Way::Core, Way::Runtime] {
            let report = run(way, 1, &events);
            let (count, last) = lines(&report, " gets 16 bytes ");
            assert!(count > 10, "{way}: {count}");
            assert!(last <= Instant::ZERO + end, "{way}: {last}");
        }
    }

    #[test]
    fn a_slowness_without_effect_is_refused() {
        let mut slow = SlowMember::default();
        assert!(slow.idle().is_some_and(|why| why.contains("`pause`")));
        slow.pause = Some(Span(Duration::from_secs(11)));
        assert!(slow.idle().is_some_and(|why| why.contains("10s")));
        slow.pause = Some(Span(Duration::from_micros(999)));
        assert!(slow.idle().is_some_and(|why| why.contains("1ms")));
        for pause in [MIN_PAUSE, MAX_PAUSE] {
            slow.pause = Some(pause);
            assert_eq!(slow.idle(), None);
        }
        (slow.reads, slow.window) = (false, 100);
        assert!(slow.idle().is_some_and(|why| why.contains("`window`")));
        slow.bytes = 0;
        assert!(slow.idle().is_some_and(|why| why.contains("above zero")));
        (slow.reads, slow.writes) = (false, false);
        assert!(slow.idle().is_some_and(|why| why.contains("`reads` or")));
    }
}
