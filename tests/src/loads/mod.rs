//! Work to be measured: the same for wall times (`benches/`) and for counted instructions and
//! allocations (`examples/`).

pub mod client;
#[path = "../../../core/src/client/tests/harness.rs"]
mod harness;
pub mod hostile;
pub mod pool;
pub mod topology;

use bson::RawDocument;
use onionskin_core::{
    address::Address,
    client::{Action, Client, ConnectionState, Question, QuestionId, SocketUse},
    connection::SocketId,
    error::Error,
    operation::OperationId,
    time::Instant,
    wire::{Header, MessageWriter},
};
use std::collections::BTreeSet;

/// The moment at which something of a client is due, as far as it is known outside of the core.
fn due(client: &Client) -> Option<Instant> {
    client.deadline()
}
