//! Changes of the configuration of a replica set, as by `replSetReconfig`.
//!
//! The members keep their addresses, their votes and their data, so that each configuration has the
//! same majorities.

use super::{
    Member,
    connection::Request,
    document::integer_field,
    fault::{Fault, fault},
};
use crate::deployment::MemberOptions;
use bson::{Bson, Document};
use onionskin_core::time::Instant;

/// The code of `NewReplicaSetConfigurationIncompatible`.
const INCOMPATIBLE: i32 = 103;

/// The code of `InvalidReplicaSetConfig`.
const INVALID: i32 = 93;

/// The fields of a configuration that are the same all the time.
const FIXED: [&str; 4] = [
    "_id",
    "protocolVersion",
    "writeConcernMajorityJournalDefault",
    "settings",
];

/// The fields of a member that are the same all the time.
const FIXED_OF_MEMBER: [&str; 4] = ["_id", "host", "buildIndexes", "secondaryDelaySecs"];

impl Member {
    /// Gives a member of the set other options. Only the primary does that.
    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        member: usize,
        options: MemberOptions,
    ) -> Result<(), String> {
        let config = self.replica.config();
        let (mut members, version) = (config.members.clone(), config.version);
        let old = members.get_mut(member).ok_or("there is no such member")?;
        *old = options;
        let installed = self.install(now, members, version.saturating_add(1));
        installed.map_err(|(_, text)| text)
    }

    /// Installs a configuration. Fails with the code and the text of an error.
    fn install(
        &mut self,
        now: Instant,
        members: Vec<MemberOptions>,
        version: i32,
    ) -> Result<(), (i32, String)> {
        let config = self.replica.config();
        let not_here = |text: &str| Err((238, format!("this simulated server {text}")));
        if self.options.oldest_version().release < [6, 0, 0] {
            return not_here("reconfigures only servers from release 6.0 on");
        }
        if config.members.len() != members.len() {
            return not_here("neither adds nor removes members");
        }
        let mut pairs = config.members.iter().zip(&members);
        let is_same = |(old, new): (&MemberOptions, &MemberOptions)| {
            (old.votes, old.arbiter) == (new.votes, new.arbiter)
        };
        if !pairs.all(is_same) {
            return not_here("changes neither voters nor arbiters");
        }
        if let Some(fault) = members.iter().find_map(MemberOptions::fault) {
            return Err((INVALID, fault.to_owned()));
        }
        if !members[self.index].can_lead() {
            let (me, host) = (self.index, &self.options.addresses[self.index]);
            let text = format!(
                "This node, {host}, with _id MemberId({me}) is not electable under the new \
                 configuration"
            );
            return Err((INCOMPATIBLE, text));
        }
        self.replica.reconfigure(now, members, version);
        Ok(())
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
        if !self.replica.is_writable() {
            let text = "New config is rejected :: caused by :: replSetReconfig should only be run \
                        on a writable PRIMARY. Current state SECONDARY;";
            return Err(fault(10107, text));
        }
        let new = request.command.get_document("replSetReconfig");
        let new = new.map_err(|_| fault(14, "no configuration document was given"))?;
        let old = self.replica_config()?;
        let old = old.get_document("config").cloned().unwrap_or_default();
        let version = integer_field(new, "version").and_then(|n| i32::try_from(n).ok());
        let known = self.replica.config().version;
        let Some(version) = version.filter(|version| *version > known) else {
            let of = |config: &Document| config.get("version").cloned().unwrap_or(Bson::Null);
            let text = format!(
                "New replica set configuration version and term must be greater than old, but \
                 {{version: {}}} is not greater than {{version: {}}}",
                of(new),
                of(&old)
            );
            return Err(fault(INCOMPATIBLE, text));
        };
        check_fixed(new, &old, &FIXED, &["version", "term", "members"])?;
        let members = named_members(new, &old)?;
        let installed = self.install(now, members, version);
        installed.map_err(|(code, text)| fault(code, text))?;
        Ok(Document::new())
    }
}

/// Returns the options of the members of a configuration, which must be those of the present one,
/// in their order.
fn named_members(new: &Document, old: &Document) -> Result<Vec<MemberOptions>, Fault> {
    let members = |config: &Document| -> Vec<Document> {
        let members = config.get_array("members").map(Vec::as_slice);
        let members = members.unwrap_or_default().iter();
        members.filter_map(|m| m.as_document().cloned()).collect()
    };
    let (new, old) = (members(new), members(old));
    let named = new.iter().enumerate().map(|(place, member)| {
        let Some(known) = old.get(place) else {
            let text = "this simulated server neither adds nor removes members";
            return Err(fault(238, text));
        };
        let free = ["priority", "votes", "hidden", "arbiterOnly", "tags"];
        check_fixed(member, known, &FIXED_OF_MEMBER, &free)?;
        options(member)
    });
    named.collect()
}

/// Fails for a field that is neither one of those that can change, nor has its present value.
fn check_fixed(new: &Document, old: &Document, fixed: &[&str], free: &[&str]) -> Result<(), Fault> {
    for (field, value) in new {
        let is_same = fixed.contains(&field.as_str()) && old.get(field) == Some(value);
        if !is_same && !free.contains(&field.as_str()) {
            let text = format!("this simulated server does not change {field} of a configuration");
            return Err(fault(238, text));
        }
    }
    Ok(())
}

/// Reads the options of a member from a configuration.
fn options(member: &Document) -> Result<MemberOptions, Fault> {
    let wrong = |field: &str| fault(INVALID, format!("{field} field value is out of range"));
    let number = |field: &str, default: u32, most: u32| match member.get(field) {
        None => Ok(default),
        Some(Bson::Double(n)) if *n >= 0.0 && *n <= most.into() && n.fract() == 0.0 => Ok((0
            ..=most)
            .find(|whole| f64::from(*whole) >= *n)
            .unwrap_or(most)),
        Some(Bson::Double(_)) => Err(wrong(field)),
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
    let arbiter = flag("arbiterOnly")?;
    Ok(MemberOptions {
        priority: number("priority", u32::from(!arbiter), MemberOptions::MAX_PRIORITY)?,
        votes: number("votes", 1, 1)? == 1,
        hidden: flag("hidden")?,
        arbiter,
        tags,
        ..MemberOptions::default()
    })
}
