//! Strategies for the hello replies of a deployment in the course of time.

use super::{
    ADDRESSES, address,
    replica_set::{ReplicaSet, Role, Step},
    reply::{mongos_replies, standalone_replies},
};
use bson::RawDocumentBuf;
use onionskin_core::address::Address;
use proptest::{collection::vec, prelude::*};

/// One hello and its reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// The server to which the client sent the hello.
    pub server: Address,
    /// The raw document of the reply, or `None` if there was no reply.
    pub reply: Option<RawDocumentBuf>,
}

/// A sequence of hellos, and the configuration of the client that sends them.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The configured seed list.
    pub seeds: Vec<Address>,
    /// The configured `replicaSet`; `None` if the option is not set.
    pub set_name: Option<String>,
    /// The hellos, in the order in which the client sends them.
    pub hellos: Vec<Hello>,
}

/// A step of a replica set, a hello to a member, or both.
#[derive(Clone, Debug)]
enum Event {
    Step(Step),
    Ask(usize, bool),
    /// A step, followed by a hello to the member of the step.
    Seen(Step),
}

/// Returns a strategy for steps of a [`ReplicaSet`].
pub fn replica_set_steps() -> impl Strategy<Value = Step> {
    let member = || 0..ADDRESSES;
    prop_oneof![
        4 => member().prop_map(Step::Learn),
        3 => member().prop_map(Step::Elect),
        1 => member().prop_map(Step::StepDown),
        1 => member().prop_map(Step::Stop),
        2 => member().prop_map(Step::Start),
        1 => member().prop_map(Step::Recover),
        1 => (member(), roles()).prop_map(|(m, role)| Step::Add(m, role)),
        1 => member().prop_map(Step::Remove),
    ]
}

fn roles() -> impl Strategy<Value = Role> {
    prop_oneof![
        6 => Just(Role::Normal),
        1 => Just(Role::Passive),
        1 => Just(Role::Hidden),
        1 => Just(Role::Arbiter),
    ]
}

/// Returns a strategy for wire versions. The test for stale primaries differs from 17 on (SDAM-72)
/// and below it (SDAM-73).
fn wire_versions() -> impl Strategy<Value = i32> {
    prop_oneof![
        2 => Just(21),
        1 => Just(17),
        1 => Just(16),
        1 => Just(9),
        1 => Just(8),
    ]
}

/// Returns a strategy for histories of a consistent replica set of one to five members.
///
/// The histories have elections with terms and election ids, set versions, step-downs,
/// reconfigurations and restarts. The sets have hidden members, passive members and arbiters,
/// primaries that do not know yet that they were replaced, and members of different releases.
pub fn replica_set_histories() -> impl Strategy<Value = History> {
    let event = prop_oneof![
        2 => replica_set_steps().prop_map(Event::Step),
        3 => replica_set_steps().prop_map(Event::Seen),
        3 => (0..ADDRESSES, prop::bool::weighted(0.2)).prop_map(|(m, l)| Event::Ask(m, l)),
    ];
    let member = || (roles(), prop::option::weighted(0.2, wire_versions()));
    let members = prop_oneof![
        1 => vec(member(), 1..3),
        4 => vec(member(), 3..=ADDRESSES),
    ];
    (
        members,
        wire_versions(),
        prop::sample::subsequence(vec![0, 1, 2, 3], 1..=3),
        any::<bool>(),
        vec(event, 1..80),
    )
        .prop_map(|(members, wire_version, seeds, named, events)| {
            let roles: Vec<Role> = members.iter().map(|(role, _)| *role).collect();
            let mut set = ReplicaSet::new(&roles, ADDRESSES, wire_version);
            for (i, (_, own)) in members.iter().enumerate() {
                if let Some(own) = own {
                    set.set_wire_version(i, *own);
                }
            }
            History {
                seeds: seeds.into_iter().map(address).collect(),
                set_name: named.then(|| "rs".to_owned()),
                hellos: live(&mut set, events),
            }
        })
}

fn live(set: &mut ReplicaSet, events: Vec<Event>) -> Vec<Hello> {
    let mut hellos = Vec::new();
    for event in events {
        let (step, asked) = match event {
            Event::Step(step) => (Some(step), None),
            Event::Ask(member, legacy) => (None, Some((member, legacy))),
            Event::Seen(step) => (Some(step), Some((step.member(), false))),
        };
        if let Some(step) = step {
            set.step(step);
        }
        if let Some((member, legacy)) = asked {
            hellos.push(Hello {
                server: address(member),
                reply: set.hello(member, legacy),
            });
        }
    }
    hellos
}

/// Returns a strategy for histories of one to three mongos that stop and start.
pub fn sharded_histories() -> impl Strategy<Value = History> {
    let hello = (0..3_usize, prop::option::weighted(0.8, mongos_replies()));
    (1..=3_usize, vec(hello, 1..40)).prop_map(|(count, hellos)| History {
        seeds: (0..count).map(address).collect(),
        set_name: None,
        hellos: into_hellos(count, hellos),
    })
}

/// Returns a strategy for histories of one standalone that stops and starts.
pub fn standalone_histories() -> impl Strategy<Value = History> {
    let hello = (Just(0), prop::option::weighted(0.8, standalone_replies()));
    vec(hello, 1..40).prop_map(|hellos| History {
        seeds: vec![address(0)],
        set_name: None,
        hellos: into_hellos(1, hellos),
    })
}

fn into_hellos(count: usize, hellos: Vec<(usize, Option<RawDocumentBuf>)>) -> Vec<Hello> {
    let hellos = hellos.into_iter().map(|(server, reply)| Hello {
        server: address(server % count),
        reply,
    });
    hellos.collect()
}
