//! The first element of a command that names a collection.

use super::{Kind, Release, type_name};
use crate::server::{
    connection::Request,
    document::integer,
    fault::{Fault, bad_value, fault},
};
use bson::{Bson, spec::BinarySubtype};

/// True if a value is a name of the kind that a command takes. [`check`] has the reason if it is
/// not. All values are accepted for a kind that is not about collections.
pub(super) fn accepts(kind: Kind, value: &Bson) -> bool {
    match (kind, value) {
        (Kind::CollectionOrOne, Bson::String(name)) => is_valid(name),
        (Kind::CollectionOrOne, Bson::Decimal128(number)) => number.to_string() == "1",
        (Kind::CollectionOrOne, number) => integer(number) == Some(1) && !is_fraction(number),
        (Kind::CollectionOrUuid, Bson::Binary(binary)) => binary.subtype == BinarySubtype::Uuid,
        (Kind::Collection | Kind::CollectionOrUuid, value) => matches!(value, Bson::String(_)),
        _ => true,
    }
}

/// Returns the error of a command whose first element is no name of a collection.
pub(super) fn check(
    request: &Request,
    kind: Kind,
    value: &Bson,
    release: Release,
) -> Result<(), Fault> {
    if accepts(kind, value) {
        return Ok(());
    }
    let found = type_name(value);
    Err(match (kind, value) {
        (Kind::CollectionOrOne, Bson::String(name)) => invalid(request, name),
        (
            Kind::CollectionOrOne,
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_),
        ) => {
            let text = format!(
                "Invalid command format: the '{}' field must specify a collection name or 1",
                request.name
            );
            fault(9, text)
        }
        (Kind::CollectionOrOne, _) => {
            fault(14, format!("collection name has invalid type: {found}"))
        }
        (Kind::Collection, Bson::Binary(binary)) if binary.subtype == BinarySubtype::Uuid => {
            bad_value("Collection name must be provided. UUID is not valid in this context")
        }
        _ => {
            let text = format!("collection name has invalid type {found}");
            fault(code(&request.name, value, release), text)
        }
    })
}

/// Returns the code of the error for a name of a wrong type. It depends on how a release reads the
/// command.
fn code(name: &str, value: &Bson, release: Release) -> i32 {
    match (name, value) {
        _ if release >= (8, 0) => 14,
        ("distinct" | "validate", _) | ("find", Bson::Int32(_)) => 73,
        ("insert" | "update" | "delete", _) => 2,
        _ if release < (5, 0) => 73,
        _ => 2,
    }
}

/// Returns an error if a command that takes any text as the name of a collection has one that no
/// collection can have.
pub(super) fn check_name(request: &Request) -> Result<(), Fault> {
    match request.command.get(&request.name) {
        Some(Bson::String(name)) if request.name == "killCursors" && !is_valid(name) => {
            Err(invalid(request, name))
        }
        _ => Ok(()),
    }
}

fn is_valid(name: &str) -> bool {
    !name.is_empty() && !name.contains('\0')
}

fn is_fraction(number: &Bson) -> bool {
    matches!(number, Bson::Double(number) if number.fract() != 0.0)
}

fn invalid(request: &Request, name: &str) -> Fault {
    let text = format!("Invalid namespace specified '{}.{name}'", request.database);
    fault(73, text)
}
