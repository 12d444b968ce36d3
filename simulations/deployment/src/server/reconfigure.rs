//! Changes of the configuration of a replica set, as by `replSetReconfig`.
//!
//! The members keep their places, addresses and numbers, also while they are not in the set.

use super::{
    Member,
    connection::Request,
    document::{integer_field, truth},
    fault::{Fault, fault, type_mismatch},
};
use crate::deployment::{MAX_VOTING_MEMBERS, MemberOptions, MemberState};
use bson::{Bson, Document};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The code of `NewReplicaSetConfigurationIncompatible`.
const INCOMPATIBLE: i32 = 103;

/// The code of `InvalidReplicaSetConfig`.
const INVALID: i32 = 93;

/// The code of `CurrentConfigNotCommittedYet`.
const NOT_COMMITTED: i32 = 308;

/// The highest version that a command can give a configuration. Those above are for forced
/// configurations, whose versions are higher than the given ones, and for the changes that a
/// primary makes on its own.
const MAX_VERSION: i32 = i32::MAX - 1_000_000;

/// The code and the text of an error.
type Refusal = (i32, String);

/// The fields of a configuration that are the same all the time.
const FIXED: [&str; 4] = [
    "_id",
    "protocolVersion",
    "writeConcernMajorityJournalDefault",
    "settings",
];

/// The fields of a member that are the same all the time.
const FIXED_OF_MEMBER: [&str; 3] = ["_id", "host", "buildIndexes"];

/// The fields of a member that can change.
const FREE_OF_MEMBER: [&str; 6] = [
    "priority",
    "votes",
    "hidden",
    "arbiterOnly",
    "secondaryDelaySecs",
    "tags",
];

impl Member {
    /// Changes the options of a member of the set. Only the primary does that.
    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        member: usize,
        change: impl FnOnce(&mut MemberOptions),
    ) -> Result<(), String> {
        let config = self.replica.config();
        let (mut members, version) = (config.members.clone(), config.version);
        change(members.get_mut(member).ok_or("there is no such member")?);
        let installed = self.install(now, members, version.saturating_add(1));
        installed.map_err(|(_, text)| text)
    }

    /// Installs a configuration without some members by force. Any member can do that.
    pub(crate) fn force(&mut self, now: Instant, removed: &[usize]) -> Result<(), String> {
        let config = self.replica.config();
        let (mut members, version) = (config.members.clone(), config.version);
        for place in removed {
            let member = members.get_mut(*place).ok_or("there is no such member")?;
            member.absent = true;
        }
        let installed = self.install_by_force(now, members, version);
        installed.map_err(|(_, text)| text)
    }

    fn install_by_force(
        &mut self,
        now: Instant,
        members: Vec<MemberOptions>,
        version: i32,
    ) -> Result<(), Refusal> {
        self.check_members(&members, true)?;
        is_installed(self.replica.force(now, members, version))
    }

    /// Installs a configuration. Fails with the code and the text of an error.
    fn install(
        &mut self,
        now: Instant,
        members: Vec<MemberOptions>,
        version: i32,
    ) -> Result<(), Refusal> {
        self.check_members(&members, false)?;
        let old = &self.replica.config().members;
        let has_vote = |options: &MemberOptions| options.has_vote();
        let votes = old.iter().map(has_vote).zip(members.iter().map(has_vote));
        match votes.filter(|(old, new)| old != new).count() {
            0 => {}
            1 if self.replica.may_change_voters() => {}
            1 => {
                let text = "New config is rejected :: caused by :: the current configuration is \
                            not yet that of a majority";
                return Err((NOT_COMMITTED, text.to_owned()));
            }
            _ => {
                let text = "Non force replica set reconfig can only add or remove at most 1 voting \
                            member.";
                return Err((INCOMPATIBLE, text.to_owned()));
            }
        }
        is_installed(self.replica.reconfigure(now, members, version))
    }

    /// Checks the options of all members of a new configuration. This member must be in it, and it
    /// must be able to lead unless the configuration is forced.
    fn check_members(&self, members: &[MemberOptions], is_forced: bool) -> Result<(), Refusal> {
        if self.options.oldest_version().release < [6, 0, 0] {
            let text = "this simulated server reconfigures only servers from release 6.0 on";
            return Err((238, text.to_owned()));
        }
        let present = members.iter().filter(|member| !member.absent);
        if let Some(fault) = present.clone().find_map(MemberOptions::fault) {
            return Err((INVALID, fault.to_owned()));
        }
        let host = |place: usize| &self.options.addresses[place];
        let mut pairs = self.replica.config().members.iter().zip(members);
        let turns = |(old, new): (&MemberOptions, &MemberOptions)| {
            !old.absent && !new.absent && old.arbiter != new.arbiter
        };
        if let Some(place) = pairs.position(turns) {
            let text = format!(
                "New and old configurations differ in the setting of the arbiterOnly field for \
                 member {}; to make this change, remove then re-add the member",
                host(place)
            );
            return Err((INCOMPATIBLE, text));
        }
        let voters = present.filter(|member| member.votes).count();
        if voters > MAX_VOTING_MEMBERS {
            let text = format!(
                "Replica set configuration contains {voters} voting members, but must be at least \
                 1 and no more than {MAX_VOTING_MEMBERS}"
            );
            return Err((INCOMPATIBLE, text));
        }
        if !members.iter().any(MemberOptions::can_lead) {
            let text = "Replica set configuration must contain at least one non-arbiter member \
                        with priority > 0";
            return Err((INCOMPATIBLE, text.to_owned()));
        }
        let me = &members[self.index];
        if me.can_lead() || (is_forced && !me.absent) {
            return Ok(());
        }
        let text = match me.absent {
            true => "No host described in new configuration maps to this node".to_owned(),
            false => {
                let (me, host) = (self.index, host(self.index));
                format!(
                    "This node, {host}, with _id MemberId({me}) is not electable under the new \
                     configuration"
                )
            }
        };
        Err((INCOMPATIBLE, text))
    }

    /// Handles `replSetReconfig`.
    pub(super) fn replica_reconfigure(
        &mut self,
        now: Instant,
        request: &Request,
    ) -> Result<Document, Fault> {
        if !self.is_set() {
            return Err(fault(76, "not running with --replSet"));
        }
        let is_forced = truth(request.command.get("force"));
        if !is_forced && !self.replica.is_writable() {
            let state = match self.state() {
                MemberState::Removed => "REMOVED",
                MemberState::Arbiter => "ARBITER",
                MemberState::Primary => "PRIMARY",
                MemberState::Syncing => "STARTUP2",
                _ => "SECONDARY",
            };
            let text = format!(
                "New config is rejected :: caused by :: replSetReconfig should only be run on a \
                 writable PRIMARY. Current state {state};"
            );
            return Err(fault(10107, text));
        }
        let new = request.command.get_document("replSetReconfig");
        let new = new.map_err(|_| fault(14, "no configuration document was given"))?;
        let version = checked_version(new)?;
        let old = self.replica_config()?;
        let old = old.get_document("config").cloned().unwrap_or_default();
        if !is_forced && version <= self.replica.config().version {
            let of = |config: &Document| config.get("version").cloned().unwrap_or(Bson::Null);
            let text = format!(
                "New replica set configuration version and term must be greater than old, but \
                 {{version: {}}} is not greater than {{version: {}}}",
                of(new),
                of(&old)
            );
            return Err(fault(INCOMPATIBLE, text));
        }
        if version > MAX_VERSION {
            let text = format!(
                "this simulated server installs no configuration with a version above \
                 {MAX_VERSION}"
            );
            return Err(fault(238, text));
        }
        check_fixed(new, &old, &FIXED, &["version", "term", "members"])?;
        let members = self.named_members(new)?;
        let installed = match is_forced {
            true => self.install_by_force(now, members, version),
            false => self.install(now, members, version),
        };
        installed.map_err(|(code, text)| fault(code, text))?;
        Ok(Document::new())
    }

    /// Reads the members of a configuration. Those that it does not name are absent.
    fn named_members(&self, new: &Document) -> Result<Vec<MemberOptions>, Fault> {
        let mut members = self.replica.config().members.clone();
        members.iter_mut().for_each(|member| member.absent = true);
        for member in new.get_array("members").into_iter().flatten() {
            let member = member.as_document();
            let member = member.ok_or_else(|| type_mismatch("members"))?;
            for field in ["_id", "host"] {
                present(member, field)?;
            }
            let host = member.get_str("host").map_err(|_| type_mismatch("host"))?;
            let mut addresses = self.options.addresses.iter();
            let Some(place) = addresses.position(|address| address.to_string() == host) else {
                let text = format!("this simulated server does not reach a member at '{host}'");
                return Err(fault(238, text));
            };
            if !members[place].absent {
                let text = format!("Found two member configurations with same host field {host}");
                return Err(fault(INCOMPATIBLE, text));
            }
            let known = self.in_config(place);
            check_fixed(member, &known, &FIXED_OF_MEMBER, &FREE_OF_MEMBER)?;
            members[place] = options(member)?;
        }
        Ok(members)
    }
}

/// Fails if a configuration was not installed because its version is not above the present one.
fn is_installed(is_installed: bool) -> Result<(), Refusal> {
    match is_installed {
        true => Ok(()),
        false => {
            let text = "the version of the new configuration is not above the present one";
            Err((INCOMPATIBLE, text.to_owned()))
        }
    }
}

/// Returns the value of a field that a configuration, or a member in it, must have.
fn present<'a>(from: &'a Document, field: &str) -> Result<&'a Bson, Fault> {
    let missing = || {
        fault(
            INVALID,
            format!("the configuration lacks the field '{field}'"),
        )
    };
    from.get(field).ok_or_else(missing)
}

/// Checks that a configuration has the required fields and that their types are right. Returns its
/// version.
fn checked_version(new: &Document) -> Result<i32, Fault> {
    for field in ["_id", "version", "members"] {
        let value = present(new, field)?;
        let is_right = match field {
            "_id" => matches!(value, Bson::String(_)),
            "members" => matches!(value, Bson::Array(_)),
            _ => matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)),
        };
        if !is_right {
            return Err(type_mismatch(field));
        }
    }
    let version = integer_field(new, "version").and_then(|n| i32::try_from(n).ok());
    version.filter(|version| *version > 0).ok_or_else(|| {
        let given = new.get("version").cloned().unwrap_or(Bson::Null);
        let text = format!("version field value of {given} is out of range");
        fault(INVALID, text)
    })
}

/// Fails for a field that is neither one of those that can change, nor has its present value.
fn check_fixed(new: &Document, old: &Document, fixed: &[&str], free: &[&str]) -> Result<(), Fault> {
    for (field, value) in new {
        let is_same = fixed.contains(&field.as_str()) && old.get(field) == Some(value);
        if !is_same && !free.contains(&field.as_str()) {
            return Err(fixed_field(field, new, old));
        }
    }
    Ok(())
}

/// Returns the error of a field of a configuration, or of a member in it, that cannot change.
fn fixed_field(field: &str, new: &Document, old: &Document) -> Fault {
    let host = new.get_str("host");
    let (text, code) = match (field, new.get(field), old.get(field), host) {
        ("_id", Some(Bson::String(new)), Some(Bson::String(old)), _) => {
            let text = "New and old configurations differ in replica set name";
            (
                format!("{text}; old was {old}, and new is {new}"),
                INCOMPATIBLE,
            )
        }
        ("_id", Some(new), Some(old), Ok(host)) => {
            let text = format!(
                "New and old configurations both have members with host of {host} but in the new \
                 configuration the _id field is {new} and in the old configuration it is {old} for \
                 that host"
            );
            (text, INCOMPATIBLE)
        }
        _ => {
            let text = format!("this simulated server does not change {field} of a configuration");
            (text, 238)
        }
    };
    fault(code, text)
}

/// Reads the options of a member from a configuration.
fn options(member: &Document) -> Result<MemberOptions, Fault> {
    let wrong = |field: &str| fault(INVALID, format!("{field} field value is out of range"));
    let number = |field: &str, default: u32, most: u32| match member.get(field) {
        None => Ok(default),
        Some(Bson::Double(n)) if n.fract() != 0.0 => Err(wrong(field)),
        Some(_) => match integer_field(member, field).and_then(|n| u32::try_from(n).ok()) {
            Some(n) if n <= most => Ok(n),
            _ => Err(wrong(field)),
        },
    };
    let flag = |field: &str| match member.get(field) {
        None => Ok(false),
        Some(Bson::Boolean(flag)) => Ok(*flag),
        Some(_) => Err(wrong(field)),
    };
    let tags = match member.get("tags") {
        None => Vec::new(),
        Some(Bson::Document(tags)) => {
            let pairs = tags.iter().map(|(key, value)| {
                let value = value.as_str().ok_or_else(|| wrong("tags"))?;
                Ok((key.clone(), value.to_owned()))
            });
            pairs.collect::<Result<_, Fault>>()?
        }
        Some(_) => return Err(wrong("tags")),
    };
    if let Some(Bson::Double(priority)) = member.get("priority")
        && priority.fract() != 0.0
        && (0.0..=f64::from(MemberOptions::MAX_PRIORITY)).contains(priority)
    {
        let text = format!("this simulated server does not implement the priority {priority}");
        return Err(fault(238, text));
    }
    let arbiter = flag("arbiterOnly")?;
    let delay = number("secondaryDelaySecs", 0, MemberOptions::MAX_DELAY_SECS)?;
    Ok(MemberOptions {
        priority: number("priority", u32::from(!arbiter), MemberOptions::MAX_PRIORITY)?,
        votes: number("votes", 1, 1)? == 1,
        hidden: flag("hidden")?,
        arbiter,
        delay: Duration::from_secs(delay.into()),
        tags,
        ..MemberOptions::default()
    })
}
