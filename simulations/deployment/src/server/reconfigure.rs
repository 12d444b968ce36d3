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
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;

/// The code of `NewReplicaSetConfigurationIncompatible`.
const INCOMPATIBLE: i32 = 103;

impl Member {
    /// Gives a member of the set other options. Only the primary does that.
    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        member: usize,
        options: MemberOptions,
    ) -> Result<(), String> {
        let mut members = self.replica.config().members.clone();
        let old = members.get_mut(member).ok_or("there is no such member")?;
        *old = options;
        self.install(now, members)
    }

    fn install(&mut self, now: Instant, members: Vec<MemberOptions>) -> Result<(), String> {
        let old = &self.replica.config().members;
        let mut pairs = old.iter().zip(&members);
        let is_same = |(old, new): (&MemberOptions, &MemberOptions)| {
            (old.votes, old.arbiter) == (new.votes, new.arbiter)
        };
        if old.len() != members.len() || !pairs.all(is_same) {
            return Err("this simulated server changes neither voters nor arbiters".to_owned());
        }
        let hidden = |member: &MemberOptions| member.hidden && member.priority > 0;
        if members.iter().any(hidden) {
            return Err("priority must be 0 when hidden=true".to_owned());
        }
        if !members[self.index].can_lead() {
            let me = self.index;
            return Err(format!(
                "This node, with _id {me} is not electable under the new configuration"
            ));
        }
        self.replica.reconfigure(now, members);
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
            let text = "replSetReconfig should only be run on a writable PRIMARY. Current state \
                        SECONDARY;";
            return Err(fault(10107, text));
        }
        let config = request.command.get_document("replSetReconfig");
        let config = config.map_err(|_| fault(14, "no configuration document was given"))?;
        let version = integer_field(config, "version");
        let expected = i64::from(self.replica.config().version);
        if version.is_none_or(|version| version <= expected) {
            let text = format!("New config version must be greater than old ({expected})");
            return Err(fault(INCOMPATIBLE, text));
        }
        let members = self.named_members(config)?;
        self.install(now, members)
            .map_err(|text| fault(INCOMPATIBLE, text))?;
        Ok(doc! {})
    }

    /// Returns the options of the members of a configuration, which must be those of this set, in
    /// their order.
    fn named_members(&self, config: &Document) -> Result<Vec<MemberOptions>, Fault> {
        let members = config.get_array("members").map(Vec::as_slice);
        let members = members.unwrap_or_default().iter();
        let named = members.enumerate().map(|(index, member)| {
            let member = member.as_document();
            let host = self.options.addresses.get(index).map(ToString::to_string);
            match member.filter(|member| member.get_str("host").ok() == host.as_deref()) {
                Some(member) => Ok(options(member)),
                None => {
                    let text = "this simulated server neither adds nor removes members";
                    Err(fault(238, text))
                }
            }
        });
        named.collect()
    }
}

/// Reads the options of a member from a configuration.
fn options(member: &Document) -> MemberOptions {
    let number = |key| match member.get(key) {
        Some(Bson::Double(number)) => Some(*number),
        Some(Bson::Int32(number)) => Some(f64::from(*number)),
        Some(Bson::Int64(number)) => i32::try_from(*number).ok().map(f64::from),
        _ => None,
    };
    let flag = |key| member.get_bool(key).unwrap_or(false);
    let tags = member.get_document("tags").ok();
    let tags = tags.into_iter().flatten();
    MemberOptions {
        // A priority can be a fraction, and only zero has another meaning than a higher number.
        priority: number("priority").map_or(1, |n| n.clamp(0.0, 1000.0).ceil() as u32),
        votes: number("votes") != Some(0.0),
        hidden: flag("hidden"),
        arbiter: flag("arbiterOnly"),
        tags: tags
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    }
}
