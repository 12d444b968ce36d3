//! The first conversation on a connection: what the client asks with `hello`, what servers answer.

mod reply;

pub use reply::{HelloReply, MAX_MEMBERS, MAX_NAMES, MAX_WRITE_BATCH_SIZE};
