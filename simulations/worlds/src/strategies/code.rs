//! Values as Rust code, for a test of a value that failed. The code uses the names of the module
//! `strategies`, and full paths for the names of other crates.

mod description;

pub use description::{server_code, topology_code};

use super::{Cause, Failure, Hello, History, Incident, Role, Step};
use bson::{RawBsonRef, RawDocument, oid::ObjectId, spec::BinarySubtype};
use onionskin_core::{address::Address, error::TopologyVersion};
use std::fmt::Write as _;

/// The largest number of macro calls inside each other that the macro `rawdoc!` makes for a
/// document. The compiler's default `recursion_limit` is 128, and the document can itself be inside
/// of a few macros.
const MAX_DEPTH: usize = 100;

impl History {
    /// Returns an expression in Rust with this value. It uses the names of this module and the
    /// macro `bson::rawdoc`.
    ///
    /// A failed property test prints the smallest history that fails: print its code instead, and
    /// paste that into a test of its own.
    ///
    /// ```
    /// use onionskin_worlds::strategies::{Hello, History, address};
    ///
    /// let history = History {
    ///     seeds: vec![address(0)],
    ///     set_name: None,
    ///     hellos: vec![Hello {
    ///         server: address(0),
    ///         reply: Some(bson::rawdoc! { "ok": 1_i32, "isWritablePrimary": true }),
    ///     }],
    /// };
    /// let code = history.code();
    /// assert!(code.contains(r#"bson::rawdoc! { "ok": 1_i32, "isWritablePrimary": true }"#));
    /// ```
    #[must_use]
    pub fn code(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(address_code).collect();
        let set_name = self.set_name.as_ref();
        let set_name = match set_name {
            Some(name) => format!("Some({name:?}.to_owned())"),
            None => "None".to_owned(),
        };
        let mut text = format!(
            "History {{\n    seeds: vec![{}],\n    set_name: {set_name},\n    hellos: vec![\n",
            seeds.join(", ")
        );
        for Hello { server, reply } in &self.hellos {
            let server = address_code(server);
            let reply = match reply {
                Some(reply) => format!("Some({})", reply_code(reply)),
                None => "None".to_owned(),
            };
            let _ = writeln!(
                text,
                "        Hello {{ server: {server}, reply: {reply} }},"
            );
        }
        text + "    ],\n}"
    }
}

impl Failure {
    /// Returns an expression in Rust with this value, as [`History::code`] does.
    ///
    /// ```
    /// use onionskin_core::{error::NetworkFault, unstable::sdam::Phase};
    /// use onionskin_worlds::strategies::{Cause, Failure};
    ///
    /// let failure = Failure {
    ///     phase: Phase::Hello,
    ///     cause: Cause::Network(NetworkFault::Refused),
    ///     overloaded: true,
    /// };
    /// assert_eq!(
    ///     failure.code(),
    ///     "Failure { phase: onionskin_core::unstable::sdam::Phase::Hello, cause: \
    ///      Cause::Network(onionskin_core::error::NetworkFault::Refused), overloaded: true }"
    /// );
    /// ```
    #[must_use]
    pub fn code(&self) -> String {
        let Self {
            phase,
            cause,
            overloaded,
        } = self;
        let cause = match cause {
            Cause::Network(fault) => {
                format!("Network(onionskin_core::error::NetworkFault::{fault:?})")
            }
            Cause::Timeout => "Timeout".to_owned(),
            Cause::Tls(fault) => format!("Tls(onionskin_core::error::TlsFault::{fault:?})"),
            Cause::Nonsense => "Nonsense".to_owned(),
            Cause::Reply(reply) => format!("Reply({})", reply_code(reply)),
            Cause::Refused(reply) => format!("Refused({})", reply_code(reply)),
            Cause::Client(cause) => format!("Client(ClientCause::{cause:?})"),
        };
        format!(
            "Failure {{ phase: onionskin_core::unstable::sdam::Phase::{phase:?}, cause: \
             Cause::{cause}, overloaded: {overloaded} }}"
        )
    }
}

impl Incident {
    /// Returns an expression in Rust with this value, as [`History::code`] does.
    ///
    /// ```
    /// use onionskin_core::unstable::sdam::Phase;
    /// use onionskin_worlds::strategies::{Cause, Failure, Incident, address};
    ///
    /// let incident = Incident {
    ///     server: address(1),
    ///     age: 0,
    ///     failure: Failure {
    ///         phase: Phase::Operation,
    ///         cause: Cause::Timeout,
    ///         overloaded: false,
    ///     },
    /// };
    /// assert!(incident.code().starts_with("Incident { server: address(1), age: 0, failure: "));
    /// ```
    #[must_use]
    pub fn code(&self) -> String {
        let Self {
            server,
            age,
            failure,
        } = self;
        let (server, failure) = (address_code(server), failure.code());
        format!("Incident {{ server: {server}, age: {age}, failure: {failure} }}")
    }
}

/// Returns an expression in Rust with these incidents, as [`History::code`] does.
///
/// ```
/// use onionskin_worlds::strategies::incidents_code;
///
/// assert_eq!(incidents_code(&[]), "vec![\n]");
/// ```
#[must_use]
pub fn incidents_code(incidents: &[Incident]) -> String {
    let mut text = "vec![\n".to_owned();
    for incident in incidents {
        let _ = writeln!(text, "    {},", incident.code());
    }
    text + "]"
}

impl Step {
    /// Returns an expression in Rust with this value, as [`History::code`] does.
    ///
    /// ```
    /// use onionskin_worlds::strategies::{Role, Step};
    ///
    /// assert_eq!(Step::Elect(1).code(), "Step::Elect(1)");
    /// assert_eq!(Step::Add(2, Role::Hidden).code(), "Step::Add(2, Role::Hidden)");
    /// ```
    #[must_use]
    pub fn code(self) -> String {
        match self {
            Self::Add(member, role) => format!("Step::Add({member}, {})", role.code()),
            Self::Elect(_)
            | Self::Learn(_)
            | Self::StepDown(_)
            | Self::Stop(_)
            | Self::Start(_)
            | Self::Recover(_)
            | Self::Remove(_) => format!("Step::{self:?}"),
        }
    }
}

impl Role {
    /// Returns an expression in Rust with this value, as [`History::code`] does.
    ///
    /// ```
    /// use onionskin_worlds::strategies::Role;
    ///
    /// assert_eq!(Role::Passive.code(), "Role::Passive");
    /// ```
    #[must_use]
    pub fn code(self) -> String {
        format!("Role::{self:?}")
    }
}

/// Returns an expression in Rust with this topology version, as [`History::code`] does.
///
/// ```
/// use bson::oid::ObjectId;
/// use onionskin_core::error::TopologyVersion;
/// use onionskin_worlds::strategies::topology_version_code;
///
/// let process_id = ObjectId::from_bytes([0; 12]);
/// let code = topology_version_code(TopologyVersion { process_id, counter: 5 });
/// assert!(code.ends_with("counter: 5 }"), "{code}");
/// ```
#[must_use]
pub fn topology_version_code(version: TopologyVersion) -> String {
    let TopologyVersion {
        process_id,
        counter,
    } = version;
    let process_id = object_id_code(process_id);
    format!(
        "onionskin_core::error::TopologyVersion {{ process_id: {process_id}, counter: {counter} }}"
    )
}

fn object_id_code(id: ObjectId) -> String {
    format!("bson::oid::ObjectId::from_bytes({:?})", id.bytes())
}

fn address_code(address: &Address) -> String {
    match (0..super::ADDRESSES).find(|&index| super::address(index) == *address) {
        Some(index) => format!("address({index})"),
        None => format!(
            "{:?}.parse::<onionskin_core::address::Address>().unwrap()",
            address.to_string()
        ),
    }
}

/// Returns an expression in Rust with this reply: its fields, or its bytes if the macro
/// `bson::rawdoc` cannot have them, for example because it would exceed the compiler's default
/// `recursion_limit`.
///
/// ```
/// use onionskin_worlds::strategies::reply_code;
///
/// let reply = bson::rawdoc! { "ok": 1_i32 };
/// assert_eq!(reply_code(&reply), "bson::rawdoc! { \"ok\": 1_i32 }");
/// ```
#[must_use]
pub fn reply_code(document: &RawDocument) -> String {
    let fields = fields_code(document, 0).map(|fields| format!("bson::rawdoc! {fields}"));
    fields.unwrap_or_else(|| {
        format!(
            "bson::RawDocumentBuf::from_bytes(vec!{:?}).unwrap()",
            document.as_bytes()
        )
    })
}

/// Returns the fields of a document for `rawdoc!`, which is called inside of `depth` other macros.
fn fields_code(document: &RawDocument, mut depth: usize) -> Option<String> {
    let mut fields = Vec::new();
    depth += 2;
    for field in document {
        // For each field, the macro calls itself three times: for the name, for the value, and to
        // append both. The calls for the next field are inside of these.
        depth += 3;
        let (name, value) = field.ok()?;
        fields.push(format!(
            "{:?}: {}",
            name.as_str(),
            value_code(value, depth)?
        ));
    }
    Some(match fields.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", fields.join(", ")),
    })
}

fn value_code(value: RawBsonRef<'_>, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(match value {
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::Int32(value) => format!("{value}_i32"),
        RawBsonRef::Int64(value) => format!("{value}_i64"),
        RawBsonRef::Double(value) if value.is_finite() => format!("{value:?}_f64"),
        RawBsonRef::String(value) => format!("{value:?}"),
        RawBsonRef::Null => "null".to_owned(),
        RawBsonRef::ObjectId(id) => object_id_code(id),
        RawBsonRef::DateTime(time) => {
            format!("bson::DateTime::from_millis({})", time.timestamp_millis())
        }
        RawBsonRef::Timestamp(bson::Timestamp { time, increment }) => {
            format!("bson::Timestamp {{ time: {time}, increment: {increment} }}")
        }
        RawBsonRef::Binary(binary) if binary.subtype == BinarySubtype::Generic => format!(
            "bson::Binary {{ subtype: bson::spec::BinarySubtype::Generic, bytes: vec!{:?} }}",
            binary.bytes
        ),
        RawBsonRef::Document(document) => fields_code(document, depth + 1)?,
        RawBsonRef::Array(array) => {
            // For each element, the macro calls itself up to twice. All elements are inside of
            // these calls and of the macro `vec!`.
            let depth = depth + 2 * array.into_iter().count() + 3;
            let values: Option<Vec<String>> = array
                .into_iter()
                .map(|value| value_code(value.ok()?, depth))
                .collect();
            format!("[{}]", values?.join(", "))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
