//! A replica set that is consistent: what its members answer follows from what happened to it.

use super::address;
use bson::{RawArrayBuf, RawDocumentBuf, cstr, oid::ObjectId, rawdoc};
use onionskin_core::address::Address;
use std::collections::BTreeMap;

/// The part that the configuration gives a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Can become primary.
    Normal,
    /// Priority zero.
    Passive,
    /// Priority zero, and no member speaks of it.
    Hidden,
    /// Votes, holds no data.
    Arbiter,
}

/// What a member is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State {
    /// Takes writes, elected in this term; it may be one that was replaced and does not know.
    Primary {
        term: u64,
    },
    Secondary,
    Recovering,
}

/// A configuration of the set: who belongs to it, as what.
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
    /// Whom it holds for the primary.
    primary: Option<usize>,
    max_wire_version: i32,
}

/// What can happen to a set. Members are counted round; what is not possible does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The member wins an election: a new term begins. Nobody else knows yet.
    Elect(usize),
    /// The member hears from the primary of the newest term: its configuration, and that a later
    /// term began.
    Learn(usize),
    /// The member gives up being the primary.
    StepDown(usize),
    /// The member's process ends.
    Stop(usize),
    /// It starts again, with a new process id.
    Start(usize),
    /// It can be read no more for a while, or again.
    Recover(usize),
    /// The primary of the newest term adds the process, or gives a member another part.
    Add(usize, Role),
    /// The primary of the newest term removes a member, but not itself.
    Remove(usize),
}

impl Step {
    /// Whom it happens to.
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

/// A replica set with all the processes that may ever belong to it.
///
/// ```
/// use onionskin_simulations::strategies::{ReplicaSet, Role, Step};
///
/// let mut set = ReplicaSet::new(&[Role::Normal, Role::Normal, Role::Normal], 4, 21);
/// assert!(set.step(Step::Elect(1)));
/// let reply = set.hello(1, false).expect("it is up");
/// assert_eq!(reply.get_bool("isWritablePrimary").ok(), Some(true));
/// // The others have not heard of it yet.
/// assert!(set.hello(0, false).unwrap().get_str("primary").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaSet {
    members: Vec<Member>,
    term: u64,
}

impl ReplicaSet {
    /// A set of members with these parts, in a configuration that all know, without a primary.
    /// There are `processes` in all; the others wait to be added.
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

    /// The member's wire version, for sets in the middle of an upgrade.
    pub fn set_wire_version(&mut self, member: usize, max_wire_version: i32) {
        let member = member % self.members.len();
        self.members[member].max_wire_version = max_wire_version;
    }

    /// How many processes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if there is no process at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Where the process listens.
    #[must_use]
    pub fn address(&self, member: usize) -> Address {
        address(member % self.members.len())
    }

    /// The term of the last election; zero before the first.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The version of the newest configuration.
    #[must_use]
    pub fn version(&self) -> i64 {
        let versions = self.members.iter().map(|m| m.configuration.version);
        versions.max().unwrap_or(0)
    }

    /// How often processes were started again, all together.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.members.iter().map(|m| u32::from(m.restarts)).sum()
    }

    /// True if the process runs.
    #[must_use]
    pub fn is_up(&self, member: usize) -> bool {
        self.members[member % self.members.len()].up
    }

    /// The winner of the newest term, while it is up and has not stepped down. There can be others
    /// that take themselves for primaries of earlier terms.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        let newest = State::Primary { term: self.term };
        self.members.iter().position(|m| m.up && m.state == newest)
    }

    /// Lets it happen; false if it is not possible, or would change nothing.
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

    /// What the process answers, with the old field names if `legacy`; `None` while it is down.
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
        // SDAM-55: from 4.4 on.
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
            // A majority has the newest configuration, so only its holder can win.
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
    /// The fields of a member of a set.
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

/// As servers make them: later terms have greater ids.
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
