//! The table of commands: where each may run, and the names and types of its fields.
//!
//! A command is checked against its row before it is executed. The names, types and codes are those
//! of the server's documentation and of its public descriptions of commands (IDL), for the release
//! that the deployment claims.

mod catalog;
mod collection;
mod crud;
mod general;
mod older;
mod refused;
mod stream;
mod types;

use super::{
    connection::Request,
    document::integer,
    fault::{Fault, bad_value, fault},
};
use bson::{Bson, Document};
pub(super) use refused::refusal;
pub(super) use stream::check_change_stream;
pub(super) use types::{Field, Kind, type_name};
use types::{field, has_required};

/// A release in which a field appeared or was removed: the major and the minor number.
type Release = (u16, u16);

/// The first release that knows the fields of the Stable API.
const API_SINCE: Release = (5, 0);

/// The fields that are not part of Stable API version 1, of commands that are.
const FIELDS_NOT_IN_API: [(&str, &[&str]); 4] = [
    ("aggregate", &["explain"]),
    (
        "find",
        &[
            "awaitData",
            "max",
            "min",
            "noCursorTimeout",
            "oplogReplay",
            "returnKey",
            "showRecordId",
            "tailable",
        ],
    ),
    (
        "create",
        &[
            "autoIndexId",
            "capped",
            "indexOptionDefaults",
            "max",
            "size",
            "storageEngine",
        ],
    ),
    (
        "createIndexes",
        &["background", "bucketSize", "sparse", "storageEngine"],
    ),
];

/// The stages of pipelines that are not part of Stable API version 1.
const NOT_IN_API: [&str; 7] = [
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$search",
];

/// The row of a command.
#[derive(Debug)]
pub(super) struct Row {
    /// The name, followed by other names of the same command.
    pub(super) names: &'static [&'static str],
    /// The first part of the path of a field in errors, if it is not the name of the command.
    prefix: Option<&'static str>,
    /// The type of the first element.
    value: Kind,
    /// True for a command that the server executes on the database `admin` only.
    admin: bool,
    /// True for a member of Stable API version 1.
    api: bool,
    /// The release in which the command appeared; `(0, 0)` if that is before all releases that can
    /// be claimed.
    since: Release,
    /// False for a command that ignores unknown fields.
    strict: bool,
    pub(super) fields: &'static [Field],
}

/// Makes the row of a command that any database takes and that refuses unknown fields.
const fn row(names: &'static [&'static str], value: Kind, fields: &'static [Field]) -> Row {
    Row {
        names,
        prefix: None,
        value,
        admin: false,
        api: false,
        since: (0, 0),
        strict: true,
        fields,
    }
}

impl Row {
    const fn api(mut self) -> Self {
        self.api = true;
        self
    }

    const fn admin(mut self) -> Self {
        self.admin = true;
        self
    }

    const fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = (major, minor);
        self
    }

    const fn lax(mut self) -> Self {
        self.strict = false;
        self
    }

    /// True if a command has the form of this row. [`check`](Self::check) finds the reason if
    /// it has not, but takes longer.
    fn accepts(&self, command: &Document, release: Release) -> bool {
        let mut elements = command.iter();
        let value = elements.next().map(|(_, value)| value);
        let is_valid = |(name, value): (&String, &Bson)| {
            let mut known = self.fields.iter().chain(general::GENERIC);
            match known.find(|field| field.name == name && field.exists(release)) {
                Some(field) => field.accepts(value, release),
                None => !self.strict,
            }
        };
        value.is_none_or(|value| self.accepts_value(value, release))
            && elements.all(is_valid)
            && has_required(self.fields, command, release)
    }

    /// True if the value of the first element is one that the command takes.
    fn accepts_value(&self, value: &Bson, release: Release) -> bool {
        let is_typed = field(self.names[0], self.value).accepts(value, release);
        is_typed && collection::accepts(self.value, value)
    }

    /// Returns an error if a command does not have the form of this row.
    fn check(&self, request: &Request, release: Release) -> Result<(), Fault> {
        let prefix = self.prefix.unwrap_or(self.names[0]);
        let mut elements = request.command.iter();
        if let Some((_, value)) = elements.next() {
            collection::check(request, self.value, value, release)?;
            let path = format!("{prefix}.{}", request.name);
            field(self.names[0], self.value).check(&path, value, release)?;
        }
        for (name, value) in elements {
            let known = self.fields.iter().chain(general::GENERIC);
            let mut known = known.filter(|field| field.exists(release));
            match known.find(|field| field.name == name) {
                Some(field) if field.is_refused(value) => {
                    let error = older::unknown_field(request, prefix, name, release);
                    return Err(error.not_simulated(&format!("{prefix}.{name}")));
                }
                Some(field) => {
                    older::check_type(request, field, value, release)?;
                    field.check(&format!("{prefix}.{name}"), value, release)?;
                }
                None if self.strict => {
                    return Err(older::unknown_field(request, prefix, name, release));
                }
                None => {}
            }
        }
        check_missing(prefix, self.fields, &request.command, release)
    }

    const fn prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = Some(prefix);
        self
    }
}

/// Returns the rows of all commands.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    [crud::ROWS, catalog::ROWS, general::ROWS]
        .into_iter()
        .flatten()
}

/// The commands that servers have although no row describes their fields.
pub(crate) const OTHERS: [&str; 17] = [
    "isMaster",
    "ismaster",
    "connectionStatus",
    "logout",
    "startSession",
    "buildInfo",
    "buildinfo",
    "hostInfo",
    "serverStatus",
    "whatsmyuri",
    "connPoolStats",
    "getFreeMonitoringStatus",
    "getnonce",
    "replSetInitiate",
    "createSearchIndexes",
    "updateSearchIndex",
    "dropSearchIndex",
];

/// True if a simulated server of some release has a command of this name.
///
/// ```
/// use onionskin_deployment::deployment::is_command;
///
/// assert!(is_command("find") && !is_command("fnid"));
/// ```
#[must_use]
pub fn is_command(name: &str) -> bool {
    let has_row = || rows().any(|row| row.names.contains(&name));
    OTHERS.contains(&name) || has_row() || refused::contains(name)
}

/// True if a server of a release has a command of this name. Routers have others than members.
pub(super) fn exists(name: &str, release: [u16; 3], is_router: bool) -> bool {
    let is_elsewhere = match (name, is_router) {
        ("top", true) => true,
        (name, true) => name.starts_with("replSet") && name != "replSetGetStatus",
        (name, false) => matches!(
            name,
            "checkMetadataConsistency" | "enableSharding" | "listShards" | "shardCollection"
        ),
    };
    let [major, minor, _] = release;
    let row = rows().find(|row| row.names.contains(&name));
    let is_known = match row {
        Some(row) => (major, minor) >= row.since,
        None if name == "getnonce" => release < [6, 2, 0],
        None if name == "panicForTest" => cfg!(feature = "__panics"),
        None => OTHERS.contains(&name),
    };
    is_known && !is_elsewhere || refusal(name, release, is_router).is_some()
}

/// Returns an error if a command, at `release`, does not have the form that its row describes.
/// Commands without a row are not checked.
pub(super) fn check(request: &Request, release: [u16; 3]) -> Result<(), Fault> {
    older::check_comment(request, release)?;
    let [major, minor, _] = release;
    let release = (major, minor);
    let name = request.name.as_str();
    let Some(row) = rows().find(|row| row.names.contains(&name)) else {
        return check_api(request, None, release);
    };
    if release < row.since {
        return Err(fault(59, format!("no such command: '{name}'")));
    }
    if row.admin && request.database != "admin" {
        let text = format!("{name} may only be run against the admin database.");
        return Err(fault(13, text));
    }
    check_api(request, Some(row), release)?;
    let is_accepted = row.accepts(&request.command, release);
    debug_assert_eq!(is_accepted, row.check(request, release).is_ok());
    if !is_accepted {
        row.check(request, release)?;
    }
    collection::check_name(request)?;
    check_limit(&request.command, release)
}

/// Returns an error if a field of a command without a row has a wrong type. The path of the field
/// in the error begins with `prefix`.
pub(super) fn check_field(
    prefix: &str,
    name: &'static str,
    kind: Kind,
    command: &Document,
    [major, minor, _]: [u16; 3],
) -> Result<(), Fault> {
    match command.get(name) {
        Some(value) => field(name, kind).check(&format!("{prefix}.{name}"), value, (major, minor)),
        None => Ok(()),
    }
}

/// Returns an error if the time limit of a command is no number, or out of range.
fn check_limit(command: &Document, release: Release) -> Result<(), Fault> {
    let Some(limit) = command
        .get("maxTimeMS")
        .filter(|limit| !is_missing(Some(limit)))
    else {
        return Ok(());
    };
    if !matches!(type_name(limit), "int" | "long" | "double" | "decimal") {
        return Err(bad_value("maxTimeMS must be a number"));
    }
    let is_fraction = matches!(limit, Bson::Double(n) if n.is_finite() && n.fract() != 0.0);
    if release >= (8, 2) {
        let whole = integer(limit).filter(|_| !is_fraction);
        let Some(whole) = whole else {
            let reason = match is_fraction {
                true => "Expected an integer",
                false => "Cannot represent as a 64-bit integer",
            };
            return Err(fault(9, format!("{reason}: maxTimeMS: {limit}")));
        };
        let bound = match whole {
            ..0 => ">= 0",
            0..=0x7fff_ffff => return Ok(()),
            _ => "<= 2147483647",
        };
        let text = format!("BSON field 'maxTimeMS' value must be {bound}, actual value '{whole}'");
        return Err(bad_value(text));
    }
    if is_fraction {
        return Err(bad_value("maxTimeMS has non-integral value"));
    }
    if i32::try_from(integer(limit).unwrap_or(-1)).is_ok_and(|limit| limit >= 0) {
        return Ok(());
    }
    let text = format!("{limit} value for maxTimeMS is out of range [0, 2147483647]");
    Err(bad_value(text))
}

/// True for a field that every command has.
pub(super) fn is_generic(name: &str) -> bool {
    general::GENERIC.iter().any(|field| field.name == name)
}

fn unknown(path: &str) -> Fault {
    fault(40415, format!("BSON field '{path}' is an unknown field."))
}

fn is_missing(value: Option<&Bson>) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

fn check_missing(
    prefix: &str,
    fields: &[Field],
    document: &Document,
    release: Release,
) -> Result<(), Fault> {
    let mut required = fields.iter().filter(|f| f.required && f.exists(release));
    match required.find(|field| is_missing(document.get(field.name))) {
        None => Ok(()),
        Some(Field { name, .. }) => {
            let text = format!("BSON field '{prefix}.{name}' is missing but a required field");
            Err(fault(40414, text))
        }
    }
}

/// Checks the fields of the Stable API, which releases before 5.0 do not know.
fn check_api(request: &Request, row: Option<&Row>, release: Release) -> Result<(), Fault> {
    let command = &request.command;
    if release < API_SINCE {
        return Ok(());
    }
    let Some(version) = command.get("apiVersion") else {
        let mut options = ["apiStrict", "apiDeprecationErrors"].into_iter();
        return match options.any(|option| command.contains_key(option)) {
            false => Ok(()),
            true => {
                let text = "Provided apiStrict and/or apiDeprecationErrors without passing \
                            apiVersion";
                Err(fault(4_886_600, text))
            }
        };
    };
    match version {
        Bson::String(version) if version == "1" => {}
        Bson::String(_) => return Err(fault(322, "API version must be \"1\"")),
        other => {
            let text = format!(
                "BSON field 'apiVersion' is the wrong type '{}', expected type 'string'",
                type_name(other)
            );
            return Err(fault(14, text));
        }
    }
    if command.get_bool("apiStrict").unwrap_or(false) && !row.is_some_and(|row| row.api) {
        let text = format!(
            "Provided apiStrict:true, but the command {} is not in API Version 1",
            request.name
        );
        return Err(fault(323, text));
    }
    match command.get_bool("apiStrict") {
        Ok(true) => check_fields(request, row).and_then(|()| check_stages(request)),
        _ => Ok(()),
    }
}

/// Returns an error if a command has a field that is not part of Stable API version 1.
fn check_fields(request: &Request, row: Option<&Row>) -> Result<(), Fault> {
    let known = FIELDS_NOT_IN_API.iter();
    let fields = known.filter(|(command, _)| *command == request.name);
    let mut fields = fields.flat_map(|(_, fields)| fields.iter());
    let indexes = request.command.get_array("indexes");
    let indexes = indexes.map(Vec::as_slice).unwrap_or_default();
    let is_given = |field: &str| {
        let mut indexes = indexes.iter().filter_map(Bson::as_document);
        request.command.contains_key(field) || indexes.any(|index| index.contains_key(field))
    };
    match fields.find(|field| is_given(field)) {
        None => Ok(()),
        Some(field) => {
            let prefix = row.and_then(|row| row.prefix).unwrap_or(&request.name);
            let text = format!("BSON field '{prefix}.{field}' is not allowed with apiStrict:true.");
            Err(fault(323, text))
        }
    }
}

/// Returns an error if a command declares no version of the API.
pub(super) fn require_api(request: &Request) -> Result<(), Fault> {
    match request.command.contains_key("apiVersion") {
        true => Ok(()),
        false => {
            let text = "The apiVersion parameter is required, please configure your MongoClient's \
                        API version";
            Err(fault(498_870, text))
        }
    }
}

/// Returns an error if a pipeline has a stage that is not part of Stable API version 1.
fn check_stages(request: &Request) -> Result<(), Fault> {
    let stages = match request.name.as_str() {
        "aggregate" => request.command.get_array("pipeline").ok(),
        _ => None,
    };
    let stages = stages.into_iter().flatten().filter_map(Bson::as_document);
    let stages = stages.filter_map(|stage| stage.iter().next());
    for (name, operand) in stages {
        let is_part = match (name.as_str(), operand) {
            ("$collStats", Bson::Document(parts)) => parts.keys().all(|part| part == "count"),
            (name, _) => !NOT_IN_API.contains(&name),
        };
        if !is_part {
            let text =
                format!("stage {name} is not allowed with 'apiStrict: true' in API Version 1");
            return Err(fault(323, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
