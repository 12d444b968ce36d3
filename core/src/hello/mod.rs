//! The first message on every connection: who the client is, and what it asks of the server.

mod command;
mod environment;
mod metadata;

pub use command::{HelloCommand, ServerApiFields};
pub use environment::{Environment, OsFacts};
pub use metadata::{
    ClientMetadata, DriverInfo, MAX_APPLICATION_NAME_BYTES, MAX_METADATA_BYTES, SEPARATOR,
};
