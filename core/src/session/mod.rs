//! Server sessions: a table of the sessions in use, and the pool of the others (Driver Sessions,
//! "ServerSession Pool").

mod pool;
mod table;

pub use pool::{END_SESSIONS_BATCH, MAX_POOLED_SESSIONS, ServerSession, SessionPool};
pub use table::{SessionId, Sessions};
