//! The read preferences of commands, and the members of shards that routers choose by them.

use super::{
    commands::type_name,
    connection::Request,
    dispatch::is_read,
    document::integer_field,
    fault::{Fault, bad_value, fault},
    read::pipeline_writes,
};
use bson::{Bson, Document};

/// The modes of read preferences.
const READ_MODES: [&str; 5] = [
    "primary",
    "primaryPreferred",
    "secondary",
    "secondaryPreferred",
    "nearest",
];

/// The smallest `maxStalenessSeconds` of a read preference.
const MIN_STALENESS_SECONDS: i64 = 90;

/// The member of a shard that executes a request. A shard of one member ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Primary,
    PrimaryPreferred,
    Secondary,
    SecondaryPreferred,
    Nearest,
    /// The member with this index in the deployment, which has the cursor.
    Member(usize),
    /// No member suits this mode, because those of shards have no tags.
    Nobody(&'static str),
}

impl Choice {
    /// Returns the choice for a command that needs no certain member. Only reads outside of
    /// transactions have a read preference.
    pub(super) fn of(request: &Request) -> Self {
        let reads = is_read(&request.name) || request.name == "listDatabases";
        let is_part = request.command.contains_key("autocommit");
        let preference = request.command.get_document("$readPreference");
        let Ok(preference) = preference else {
            return Self::Primary;
        };
        if !reads || is_part || pipeline_writes(request) {
            return Self::Primary;
        }
        let suits = has_no_tags(preference);
        match preference.get_str("mode").unwrap_or_default() {
            "secondary" if !suits => Self::Nobody("secondary"),
            "nearest" if !suits => Self::Nobody("nearest"),
            "secondary" => Self::Secondary,
            "nearest" => Self::Nearest,
            "primaryPreferred" if suits => Self::PrimaryPreferred,
            "secondaryPreferred" if suits => Self::SecondaryPreferred,
            _ => Self::Primary,
        }
    }

    /// Returns the mode of the read preference, as errors have it.
    pub(super) const fn mode(self) -> &'static str {
        match self {
            Self::Primary | Self::Member(_) => "primary",
            Self::PrimaryPreferred => "primaryPreferred",
            Self::Secondary => "secondary",
            Self::Nobody(mode) => mode,
            Self::SecondaryPreferred => "secondaryPreferred",
            Self::Nearest => "nearest",
        }
    }
}

/// True if a member without tags suits the tag sets of a read preference.
fn has_no_tags(preference: &Document) -> bool {
    let sets = preference.get_array("tags").map(Vec::as_slice);
    let sets = sets.unwrap_or_default();
    let is_empty = |set: &Bson| set.as_document().is_some_and(Document::is_empty);
    sets.is_empty() || sets.iter().any(is_empty)
}

/// Returns an error if the read preference has an unknown mode, tags with the mode `primary`, or a
/// `maxStalenessSeconds` below the smallest one.
pub(super) fn check_read_preference(request: &Request) -> Result<(), Fault> {
    let Ok(preference) = request.command.get_document("$readPreference") else {
        return Ok(());
    };
    let mode = match preference.get("mode") {
        None => {
            let text = "BSON field 'readPreference.mode' is missing but a required field";
            return Err(fault(40414, text));
        }
        Some(Bson::String(mode)) => mode.as_str(),
        Some(other) => {
            let text = format!(
                "BSON field 'readPreference.mode' is the wrong type '{}', expected type 'string'",
                type_name(other)
            );
            return Err(fault(14, text));
        }
    };
    if !READ_MODES.contains(&mode) {
        let text = format!(
            "Could not parse $readPreference mode '{mode}'. Only the modes 'primary', \
             'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are supported."
        );
        return Err(fault(9, text));
    }
    let mut tags = preference.get_array("tags").into_iter().flatten();
    if mode == "primary" && tags.any(|set| set.as_document().is_none_or(|set| !set.is_empty())) {
        let text = "Only empty tags are allowed with primary read preference";
        return Err(bad_value(text));
    }
    match integer_field(preference, "maxStalenessSeconds") {
        Some(seconds) if (1..MIN_STALENESS_SECONDS).contains(&seconds) => {
            let text =
                format!("maxStalenessSeconds value can not be less than {MIN_STALENESS_SECONDS}");
            Err(fault(160, text))
        }
        _ => Ok(()),
    }
}
