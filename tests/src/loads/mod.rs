//! The workloads that the programs in `benches/` and `examples/` and some tests measure.

pub mod client;
pub mod connection_string;
#[path = "../../../core/src/client/tests/harness.rs"]
mod harness;
pub mod hostile;
pub mod pool;
pub mod topology;
pub mod upload;

use bson::RawDocument;
use onionskin_core::{
    address::Address,
    client::{Action, Client, ConnectionState, Question, QuestionId, SocketUse},
    error::Error,
    operation::{Command, OperationId},
    time::Instant,
    unstable::{
        connection::SocketId,
        wire::{Header, MessageWriter},
    },
};
use std::collections::BTreeSet;

/// Returns the client's deadline. `harness` calls `due` of its parent module, which is another
/// function in the core's own tests: there it returns the exact time of the next timer.
fn due(client: &Client) -> Option<Instant> {
    client.deadline()
}
