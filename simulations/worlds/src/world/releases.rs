//! The releases of the servers of a scenario: those that can be mixed, and the upgrades.

use super::{
    options::Workload,
    plan::Disaster,
    scenario::{Scenario, Scheduled, WorldShape},
};
use onionskin_deployment::deployment::ServerVersion;

/// The first release with snapshot reads outside of transactions, which the workload `applications`
/// has.
pub(super) const SNAPSHOT_READS: [u16; 3] = [5, 0, 0];

/// The reason why an upgrade has no effect without a replica set.
const NEEDS_SET: &str = "an `upgrade` needs `shape` and `members` of a replica set";

/// Returns the release of this name.
///
/// # Errors
///
/// The text names the releases that there are.
pub(super) fn known(name: &str) -> Result<ServerVersion, String> {
    ServerVersion::named(name).ok_or_else(|| {
        let names = ServerVersion::NAMES.join(", ");
        format!("`version` must be one of {names}")
    })
}

impl Scenario {
    /// Returns the release of the servers without their own. `None` if the seed can draw it.
    pub(super) fn named_version(&self) -> Option<ServerVersion> {
        let has_own = self.member_options.iter().any(|m| m.version.is_some());
        let is_mixed = has_own || self.upgrades().next().is_some();
        match self.version.as_deref() {
            Some(name) => ServerVersion::named(name),
            None => is_mixed.then(ServerVersion::default),
        }
    }

    /// True if a server can be of a release that orders configurations in another way than the
    /// simulated ones.
    pub(super) fn has_old_version(&self) -> bool {
        let is_old = |version: &ServerVersion| version.release < [6, 0, 0];
        self.first_versions().iter().any(is_old)
    }

    /// Returns the reason why the servers cannot have their releases, if there is one.
    pub(super) fn release_fault(&self) -> Option<String> {
        let options = self.member_options.iter();
        let own = options.filter_map(|member| member.version.as_deref());
        let later = self.upgrades().map(|upgrade| upgrade.version);
        let mut names = self.version.as_deref().into_iter().chain(own).chain(later);
        if let Some(fault) = names.find_map(|name| known(name).err()) {
            return Some(fault);
        }
        let lacks_snapshots = |version: &ServerVersion| version.release < SNAPSHOT_READS;
        if self.workload == Some(Workload::Applications)
            && self.first_versions().iter().any(lacks_snapshots)
        {
            return Some("`applications` need a `version` of 5.0 or later".to_owned());
        }
        let mut upgrades = self.upgrades();
        if let Some(fault) = upgrades.find_map(|upgrade| self.idle_upgrade(&upgrade)) {
            return Some(fault.to_owned());
        }
        let later = self.upgrades().map(|upgrade| upgrade.version);
        let later = later.filter_map(ServerVersion::named);
        let versions: Vec<ServerVersion> = self.first_versions().into_iter().chain(later).collect();
        let fits = |one: &ServerVersion| versions.iter().all(|other| one.works_with(*other));
        if !versions.iter().all(fits) {
            let names = ServerVersion::NAMES.join(", ");
            return Some(format!(
                "the releases of all members, before and after each `upgrade`, must be at most two \
                 that follow each other in {names}"
            ));
        }
        let is_idle = |member: usize| {
            let is_old = self.first_version(member).release < [4, 4, 0];
            is_old && !self.upgrades().any(|upgrade| upgrade.member == member)
        };
        let mut members = self.member_options.iter().enumerate();
        members
            .any(|(member, options)| !options.streaming && is_idle(member))
            .then(|| "`streaming` has no effect before release 4.4".to_owned())
    }

    /// Returns the reason why an upgrade has no effect, if there is one.
    fn idle_upgrade(&self, upgrade: &Upgrade<'_>) -> Option<&'static str> {
        let (member, own) = (upgrade.member, self.first_version(upgrade.member));
        let is_later = |version: ServerVersion| version.release > own.release;
        let of_member = self.upgrades().filter(|other| other.member == member);
        if self.shape != Some(WorldShape::ReplicaSet) || self.members.is_none_or(|n| n < 2) {
            Some(NEEDS_SET)
        } else if !ServerVersion::named(upgrade.version).is_some_and(is_later) {
            Some("an `upgrade` must be to a later release than that of the member")
        } else if of_member.count() > 1 {
            Some("a member has one `upgrade`, because there are at most two releases")
        } else if !self.starts_after(member, upgrade.event) {
            Some("an `upgrade` needs a `kill` or `shut-down`, so that the member starts again")
        } else {
            None
        }
    }

    /// True if a member starts after this event: it has ended before, or ends later. Healing starts
    /// it at the latest.
    fn starts_after(&self, member: usize, upgrade: &Scheduled) -> bool {
        let mut events: Vec<&Scheduled> = self.schedule.iter().flatten().collect();
        events.sort_by_key(|scheduled| scheduled.at);
        let place = events
            .iter()
            .position(|event| std::ptr::eq(*event, upgrade));
        let change = |scheduled: &&Scheduled| match scheduled.event {
            Disaster::Kill(place) | Disaster::ShutDown(place) if place == member => Some(true),
            Disaster::Restart(place) if place == member => Some(false),
            Disaster::Heal => Some(false),
            _ => None,
        };
        let (before, after) = events.split_at(place.unwrap_or(0));
        before.iter().filter_map(change).next_back() == Some(true)
            || after
                .iter()
                .any(|scheduled| change(scheduled) == Some(true))
    }

    /// Returns the releases of all members at the start.
    fn first_versions(&self) -> Vec<ServerVersion> {
        let members = 0..self.members.unwrap_or(1);
        members.map(|member| self.first_version(member)).collect()
    }

    /// Returns the release of a member at the start.
    fn first_version(&self, member: usize) -> ServerVersion {
        let own = self.member_options.get(member);
        let own = own.and_then(|member| member.options().version);
        own.or_else(|| self.named_version()).unwrap_or_default()
    }

    fn upgrades(&self) -> impl Iterator<Item = Upgrade<'_>> {
        let events = self.schedule.iter().flatten();
        events.filter_map(|scheduled| match &scheduled.event {
            Disaster::Upgrade { member, version } => Some(Upgrade {
                event: scheduled,
                member: *member,
                version: version.as_str(),
            }),
            _ => None,
        })
    }
}

/// An upgrade of a member, as the schedule names it.
struct Upgrade<'a> {
    event: &'a Scheduled,
    member: usize,
    version: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Way, WorldMember, scenario::Span};
    use std::time::Duration;

    /// Returns a scenario in which two of three members are upgraded, and later the last one.
    fn upgraded() -> Scenario {
        let at = |seconds, event| Scheduled {
            at: Span(Duration::from_secs(seconds)),
            event,
        };
        let upgrade = |member| Disaster::Upgrade {
            member,
            version: "6.0".to_owned(),
        };
        Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            version: Some("5.0".to_owned()),
            safety: Some(Span(Duration::from_secs(25))),
            election_timeout: Some(Span(Duration::from_secs(1))),
            schedule: Some(vec![
                at(3, Disaster::Kill(1)),
                at(4, upgrade(1)),
                at(5, Disaster::Restart(1)),
                at(8, upgrade(2)),
                at(9, Disaster::Kill(2)),
                at(10, Disaster::Restart(2)),
                at(14, Disaster::StepDown),
                at(17, Disaster::ShutDown(0)),
                at(18, upgrade(0)),
            ]),
            ..Scenario::default()
        }
    }

    #[test]
    fn clients_work_during_a_rolling_upgrade() {
        for way in [Way::Core, Way::Runtime] {
            for seed in 0..3 {
                let report = upgraded().run(seed, way).expect("it is possible");
                assert!(report.failure.is_none(), "{report}");
            }
        }
    }

    #[test]
    fn clients_work_with_members_that_are_polled_and_with_others() {
        let member = |version: Option<&str>, streaming| WorldMember {
            version: version.map(str::to_owned),
            streaming,
            ..WorldMember::default()
        };
        let scenario = Scenario {
            version: Some("4.4".to_owned()),
            member_options: vec![
                member(None, true),
                member(Some("4.2"), true),
                member(None, false),
            ],
            schedule: None,
            disasters: Some(3),
            ..upgraded()
        };
        for way in [Way::Core, Way::Runtime] {
            for seed in 0..3 {
                let report = scenario.run(seed, way).expect("it is possible");
                assert!(report.failure.is_none(), "{report}");
            }
        }
    }

    #[test]
    fn the_release_beside_those_of_members_is_not_drawn() {
        let scenario = Scenario {
            version: None,
            workload: Some(Workload::Applications),
            member_options: vec![WorldMember {
                version: Some("8.0".to_owned()),
                ..WorldMember::default()
            }],
            schedule: None,
            ..upgraded()
        };
        for seed in 0..20 {
            let version = scenario.options(seed).version;
            assert_eq!(version, Some(ServerVersion::default()), "seed {seed}");
        }
    }

    #[test]
    fn a_release_without_snapshot_reads_is_refused_for_applications() {
        let mut scenario = Scenario {
            workload: Some(Workload::Applications),
            version: Some("4.4".to_owned()),
            ..Scenario::default()
        };
        let fault = scenario.fault().expect("it is too old");
        assert!(fault.contains("5.0 or later"), "{fault}");
        scenario.version = Some("5.0".to_owned());
        assert_eq!(scenario.fault(), None);
    }

    #[test]
    fn an_upgrade_after_the_last_start_of_its_member_is_refused() {
        let mut scenario = upgraded();
        let schedule = scenario.schedule.as_mut().expect("it has one");
        schedule.swap(1, 2);
        schedule[2].at = schedule[1].at;
        assert!(scenario.run(0, Way::Core).is_err(), "it starts too early");
    }
}
