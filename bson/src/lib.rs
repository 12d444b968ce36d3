//! BSON for applications and drivers: a fast serde deserializer and serializer over bytes, Extended
//! JSON, DBRef and vectors, for the types of the crate [`bson`].

mod db_ref;
mod de;
mod decimal128;
mod error;
pub mod extjson;
mod fields;
mod object_id;
mod read;
mod regex;
mod ser;
mod uuid;
mod validate;
pub mod vector;
mod walk;

pub use db_ref::DbRef;
pub use de::{
    Deserializer, deserialize_from_slice, deserialize_owned, document_from_slice,
    document_from_slice_into,
};
pub use decimal128::parse_decimal128;
pub use error::{Error, ErrorKind, Result};
pub use fields::{Field, Fields, fields};
pub use object_id::ObjectIdGenerator;
pub use regex::sorted_options;
pub use ser::{serialize_to_buffer, serialize_to_insert, serialize_to_vec};
pub use uuid::UuidRepresentation;
pub use validate::validate;

/// The maximum nesting depth of a document, including the outermost level. Servers accept stored
/// documents of 180 levels, and replies nest these in a few more.
pub const MAX_DEPTH: usize = 200;
