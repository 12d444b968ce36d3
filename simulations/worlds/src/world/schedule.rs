//! Checks of the schedule of a scenario: the times of events, and events that need members, clients
//! or shards which the world does not have.

use super::{
    options::GRACE,
    plan::{Disaster, Needs},
    scenario::{Scenario, Scheduled},
};

impl Scenario {
    /// Returns the reason why the schedule is refused, if there is one.
    pub(super) fn schedule_fault(&self) -> Option<String> {
        let mut events = self.schedule.iter().flatten().peekable();
        events.peek()?;
        let Some(safety) = self.safety else {
            return Some("a `schedule` needs `safety`, the time after which faults end".to_owned());
        };
        events.find_map(|Scheduled { at, event }| {
            let Needs {
                members,
                clients,
                shards,
            } = event.needs();
            if *at >= safety {
                let at = String::from(*at);
                return Some(format!("the event at {at} comes after the safety phase"));
            }
            if let Disaster::Freeze { pause, .. } | Disaster::FreezeMember { pause, .. } = event
                && at.0.saturating_add(pause.0)
                    > safety.0 + self.grace.map_or(GRACE, |grace| grace.0)
            {
                return Some("a freeze must end within `safety` and `grace`".to_owned());
            }
            if let Some(reason) = self.idle_event(event) {
                return Some(reason.to_owned());
            }
            let lacks = |name, needed: usize, number: Option<usize>| {
                let is_lacking = needed > number.unwrap_or(1);
                is_lacking.then(|| format!("an event needs `{name} = {needed}` or more"))
            };
            lacks("members", members, self.members)
                .or_else(|| lacks("clients", clients, self.clients))
                .or_else(|| lacks("shards", shards, self.shards))
        })
    }
}
