//! The read preferences of commands.

use super::{
    commands::type_name,
    connection::Request,
    document::integer_field,
    fault::{Fault, bad_value, fault},
};
use bson::Bson;

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
