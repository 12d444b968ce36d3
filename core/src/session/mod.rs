//! Server sessions: a table of the sessions in use, and the pool of the sessions that are not in
//! use (section "ServerSession Pool" of the specification Driver Sessions).

mod pool;
mod table;

pub use pool::{END_SESSIONS_BATCH, MAX_POOLED_SESSIONS, ServerSession, SessionPool};
pub use table::{SessionId, Sessions};
