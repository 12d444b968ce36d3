//! The hello command, the client metadata that it carries, and the replies of servers.

mod answer;
mod command;
mod environment;
mod metadata;
mod reply;

pub use crate::options::{DriverInfo, SEPARATOR};
pub use answer::HelloAnswer;
pub use command::{HelloCommand, ServerApiFields};
pub use environment::{Environment, OsFacts};
pub use metadata::{ClientMetadata, MAX_DRIVER_INFOS, MAX_METADATA_BYTES};
pub use reply::{
    HelloReply, MAX_HOST_BYTES, MAX_MEMBERS, MAX_NAME_BYTES, MAX_NAMES, MAX_WRITE_BATCH_SIZE,
};
