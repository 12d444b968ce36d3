//! Sessions: those in use by id, and the pool of those that are not (Driver Sessions,
//! "ServerSession Pool").

mod pool;
mod table;

pub use pool::{END_SESSIONS_BATCH, MAX_POOLED_SESSIONS, ServerSession, SessionPool};
pub use table::{SessionId, Sessions};
