//! Server sessions: taken when an operation begins, given back when it ends, and used again.

mod pool;

pub use pool::{END_SESSIONS_BATCH, MAX_POOLED_SESSIONS, ServerSession, SessionPool};
