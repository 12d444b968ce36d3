//! A consistent replica set: the replies of its members follow from the steps that were applied to
//! the set.

use super::address;
use bson::{RawArrayBuf, RawDocumentBuf, cstr, oid::ObjectId, rawdoc};
use onionskin_core::address::Address;
use std::collections::BTreeMap;

/// The role of a member in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A member that can become primary.
    Normal,
    /// A member with priority zero, which cannot become primary.
    Passive,
    /// A member with priority zero that hello replies do not list.
    Hidden,
    /// A member that votes and holds no data.
    Arbiter,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State {
    /// The member was elected in this term. Another member may have replaced it without its
    /// knowledge.
    Primary {
        term: u64,
    },
    Secondary,
    Recovering,
}

/// A configuration of the set: its members and their roles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Configuration {
    version: i64,
    members: BTreeMap<usize, Role>,
}

/// A process that is, was or may become a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    up: bool,
    restarts: u8,
    changes: i64,
    configuration: Configuration,
    state: State,
    /// The primary, as far as this process knows.
    primary: Option<usize>,
    max_wire_version: i32,
}

/// A step in the life of a set. Members are counted modulo the number of processes, and a step that
/// is not possible has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The member wins an election in a new term. No other member knows about it yet.
    Elect(usize),
    /// The member learns the newest primary and its configuration. A primary of an earlier term
    /// becomes a secondary.
    Learn(usize),
    /// The member steps down as primary.
    StepDown(usize),
    /// The process of the member ends.
    Stop(usize),
    /// The process of the member starts again, with a new process id.
    Start(usize),
    /// The member enters the state `Recovering`, or returns from it to the state `Secondary`.
    Recover(usize),
    /// The newest primary adds the process to the set, or changes its role.
    Add(usize, Role),
    /// The newest primary removes a member other than itself.
    Remove(usize),
}

impl Step {
    /// Returns the member of the step.
    #[must_use]
    pub const fn member(self) -> usize {
        match self {
            Self::Elect(m)
            | Self::Learn(m)
            | Self::StepDown(m)
            | Self::Stop(m)
            | Self::Start(m)
            | Self::Recover(m)
            | Self::Add(m, _)
            | Self::Remove(m) => m,
        }
    }
}

/// A replica set, with all processes that can become members.
///
/// ```
/// use onionskin_worlds::strategies::{ReplicaSet, Role, Step};
///
/// let mut set = ReplicaSet::new(&[Role::Normal, Role::Normal, Role::Normal], 4, 21);
/// assert!(set.step(Step::Elect(1)));
/// let reply = set.hello(1, false).expect("it is up");
/// assert_eq!(reply.get_bool("isWritablePrimary").ok(), Some(true));
/// // The other members do not know the new primary yet.
/// assert!(set.hello(0, false).unwrap().get_str("primary").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaSet {
    members: Vec<Member>,
    term: u64,
}

impl ReplicaSet {
    /// Creates a set of members with these roles. All members know the configuration, and there is
    /// no primary. There are `processes` processes in all, and those without a role can be added
    /// later.
    #[must_use]
    pub fn new(roles: &[Role], processes: usize, max_wire_version: i32) -> Self {
        let configuration = Configuration {
            version: 1,
            members: roles.iter().copied().enumerate().collect(),
        };
        let nobody = Configuration {
            version: 0,
            members: BTreeMap::new(),
        };
        let members = (0..processes.max(roles.len()))
            .map(|i| Member {
                up: true,
                restarts: 0,
                changes: 0,
                configuration: if i < roles.len() {
                    configuration.clone()
                } else {
                    nobody.clone()
                },
                state: State::Secondary,
                primary: None,
                max_wire_version,
            })
            .collect();
        Self { members, term: 0 }
    }

    /// Sets the wire version of one member, for sets in the middle of an upgrade.
    pub fn set_wire_version(&mut self, member: usize, max_wire_version: i32) {
        let member = member % self.members.len();
        self.members[member].max_wire_version = max_wire_version;
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if there are no processes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the address of a process.
    #[must_use]
    pub fn address(&self, member: usize) -> Address {
        address(member % self.members.len())
    }

    /// Returns the term of the last election, or 0 before the first one.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns the version of the newest configuration.
    #[must_use]
    pub fn version(&self) -> i64 {
        let versions = self.members.iter().map(|m| m.configuration.version);
        versions.max().unwrap_or(0)
    }

    /// Returns the number of restarts of all processes together.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.members.iter().map(|m| u32::from(m.restarts)).sum()
    }

    /// True if the process runs.
    #[must_use]
    pub fn is_up(&self, member: usize) -> bool {
        self.members[member % self.members.len()].up
    }

    /// Returns the primary of the newest term, if it runs and has not stepped down. Other members
    /// can still be primaries of earlier terms.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        let newest = State::Primary { term: self.term };
        self.members.iter().position(|m| m.up && m.state == newest)
    }

    /// Applies a step. Returns false if the step is not possible, or changes nothing.
    pub fn step(&mut self, step: Step) -> bool {
        let count = self.members.len();
        match step {
            Step::Elect(m) => self.elect(m % count),
            Step::Learn(m) => self.learn(m % count),
            Step::StepDown(m) => {
                let is_primary = matches!(self.members[m % count].state, State::Primary { .. });
                is_primary && self.change(m % count, State::Secondary, None)
            }
            Step::Stop(m) => std::mem::replace(&mut self.members[m % count].up, false),
            Step::Start(m) => self.start(m % count),
            Step::Recover(m) => self.recover(m % count),
            Step::Add(m, role) => self.reconfigure(m % count, Some(role)),
            Step::Remove(m) => self.reconfigure(m % count, None),
        }
    }

    /// Returns the hello reply of a process, with the legacy field names if `legacy`. Returns
    /// `None` if the process does not run.
    #[must_use]
    pub fn hello(&self, member: usize, legacy: bool) -> Option<RawDocumentBuf> {
        let index = member % self.members.len();
        let member = &self.members[index];
        if !member.up {
            return None;
        }
        let primary_key = if legacy {
            cstr!("ismaster")
        } else {
            cstr!("isWritablePrimary")
        };
        let mut reply = rawdoc! { "ok": 1, "helloOk": true };
        let own_role = member.configuration.members.get(&index).copied();
        let is_primary = matches!(member.state, State::Primary { .. }) && own_role.is_some();
        reply.append(primary_key, is_primary);
        match own_role {
            None => reply.append(cstr!("isreplicaset"), true),
            Some(role) => member.describe(&mut reply, index, role),
        }
        reply.append(cstr!("minWireVersion"), 0);
        reply.append(cstr!("maxWireVersion"), member.max_wire_version);
        // Servers since 4.4 send `topologyVersion` (SDAM-55).
        if member.max_wire_version >= 9 {
            reply.append(
                cstr!("topologyVersion"),
                rawdoc! {
                    "processId": process_id(index, member.restarts),
                    "counter": member.changes,
                },
            );
        }
        Some(reply)
    }

    fn elect(&mut self, m: usize) -> bool {
        let member = &self.members[m];
        let role = member.configuration.members.get(&m);
        let voters = &member.configuration.members;
        let present = voters.keys().filter(|&&v| self.members[v].up).count();
        let can = member.up
            && role == Some(&Role::Normal)
            && member.state == State::Secondary
            && present * 2 > voters.len()
            // Only a member with the newest configuration can win, as if a majority had that
            // configuration.
            && member.configuration.version == self.version();
        if can {
            self.term += 1;
            self.change(m, State::Primary { term: self.term }, Some(m));
        }
        can
    }

    fn learn(&mut self, m: usize) -> bool {
        let Some(primary) = self.primary() else {
            return false;
        };
        let configuration = self.members[primary].configuration.clone();
        let member = &self.members[m];
        let belongs =
            member.configuration.members.contains_key(&m) || configuration.members.contains_key(&m);
        let news = member.configuration != configuration || member.primary != Some(primary);
        if !member.up || m == primary || !news || !belongs {
            return false;
        }
        let state = match member.state {
            State::Recovering => State::Recovering,
            _ => State::Secondary,
        };
        self.members[m].configuration = configuration;
        self.change(m, state, Some(primary))
    }

    fn start(&mut self, m: usize) -> bool {
        let member = &mut self.members[m];
        if member.up {
            return false;
        }
        member.up = true;
        member.restarts = member.restarts.saturating_add(1);
        member.changes = 0;
        member.state = State::Secondary;
        member.primary = None;
        true
    }

    fn recover(&mut self, m: usize) -> bool {
        let primary = self.members[m].primary;
        match self.members[m].state {
            State::Primary { .. } => false,
            State::Secondary => self.change(m, State::Recovering, primary),
            State::Recovering => self.change(m, State::Secondary, primary),
        }
    }

    fn reconfigure(&mut self, m: usize, role: Option<Role>) -> bool {
        let Some(primary) = self.primary() else {
            return false;
        };
        let members = &mut self.members[primary].configuration.members;
        if m == primary || members.get(&m) == role.as_ref() {
            return false;
        }
        match role {
            Some(role) => members.insert(m, role),
            None => members.remove(&m),
        };
        let version = self.version();
        self.members[primary].configuration.version = version + 1;
        self.members[primary].changes += 1;
        true
    }

    fn change(&mut self, m: usize, state: State, primary: Option<usize>) -> bool {
        let member = &mut self.members[m];
        member.state = state;
        member.primary = primary;
        member.changes += 1;
        true
    }
}

impl Member {
    /// Appends the fields that a member of a set sends.
    fn describe(&self, reply: &mut RawDocumentBuf, index: usize, role: Role) {
        reply.append(cstr!("setName"), "rs");
        reply.append(cstr!("setVersion"), self.configuration.version);
        if let State::Primary { term } = self.state {
            reply.append(cstr!("electionId"), election_id(term));
        }
        let readable = self.state == State::Secondary && role != Role::Arbiter;
        reply.append(cstr!("secondary"), readable);
        match role {
            Role::Arbiter => reply.append(cstr!("arbiterOnly"), true),
            Role::Hidden => {
                reply.append(cstr!("hidden"), true);
                reply.append(cstr!("passive"), true);
            }
            Role::Passive => reply.append(cstr!("passive"), true),
            Role::Normal => {}
        }
        reply.append(cstr!("hosts"), self.list(Role::Normal));
        reply.append(cstr!("passives"), self.list(Role::Passive));
        reply.append(cstr!("arbiters"), self.list(Role::Arbiter));
        reply.append(cstr!("me"), address(index).to_string());
        if let Some(primary) = self.primary {
            reply.append(cstr!("primary"), address(primary).to_string());
        }
        if role != Role::Arbiter {
            reply.append(cstr!("logicalSessionTimeoutMinutes"), 30);
            reply.append(cstr!("tags"), rawdoc! { "rack": index.to_string() });
            let date = bson::DateTime::from_millis(1_000 + self.changes);
            reply.append(cstr!("lastWrite"), rawdoc! { "lastWriteDate": date });
        }
    }

    fn list(&self, role: Role) -> RawArrayBuf {
        let mut names = RawArrayBuf::new();
        for (&member, _) in self
            .configuration
            .members
            .iter()
            .filter(|(_, r)| **r == role)
        {
            names.push(address(member).to_string());
        }
        names
    }
}

/// Returns an election id as servers make it: a later term has a greater id.
fn election_id(term: u64) -> ObjectId {
    let mut bytes = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

fn process_id(member: usize, restarts: u8) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[10] = u8::try_from(member).unwrap_or(u8::MAX);
    bytes[11] = restarts;
    ObjectId::from_bytes(bytes)
}
