//! What a member knows about one client's connection.

use super::{fail_point::FailEffect, reply::Reply, scram::Conversation};
use bson::{Document, Timestamp};
use onionskin_core::{time::Instant, wire::FrameDecoder};

/// One request, read and checked.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: i32,
    /// Size of the whole message.
    pub(super) bytes: usize,
    /// It came as OP_QUERY and is answered by OP_REPLY.
    pub(super) legacy: bool,
    /// False: the client wants no answer (MSG-18).
    pub(super) reply_wanted: bool,
    /// Several replies are welcome (MSG-23).
    pub(super) exhaust: bool,
    /// The command's name as it was sent.
    pub(super) name: String,
    pub(super) database: String,
    pub(super) command: Document,
}

/// How much replication a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Majority,
    Members(usize),
}

/// Why a request is not answered yet.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A write that was done waits until others have it.
    Replication {
        index: u64,
        need: Need,
        reply: Reply,
    },
    /// An awaitable hello waits for a change (MON-74).
    Hello { exhaust: bool },
    /// A fail point holds the command.
    Blocked { effect: FailEffect },
    /// A read waits for a cluster time.
    Time { after: Timestamp },
    /// A tailable cursor waits for more.
    Tail,
    /// A step-down waits for a member to catch up.
    StepDown,
    /// A router waits for the shard's answer.
    Routed { effect: Option<FailEffect> },
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) waiting: Waiting,
    pub(super) deadline: Option<Instant>,
}

/// How a client's connection came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Straight to the server.
    #[default]
    Direct,
    /// Through a load balancer.
    Forwarded,
}

/// One client's connection.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) decoder: FrameDecoder,
    /// Bytes in the decoder.
    pub(super) ahead: usize,
    pub(super) out: Vec<u8>,
    pub(super) announced: bool,
    pub(super) pending: Option<Pending>,
    pub(super) closing: bool,
    /// It was accepted, but nothing is read from it before its turn comes.
    pub(super) is_queued: bool,
    /// One request was handled; the next one waits for its turn.
    pub(super) is_resting: bool,
    pub(super) users: Vec<(String, String)>,
    pub(super) conversation: Option<Conversation>,
    pub(super) app_name: Option<String>,
    pub(super) arrival: Arrival,
    /// Its first hello was answered; on a forwarded connection only that one is special.
    pub(super) was_greeted: bool,
}

impl Connection {
    /// True while the next request must wait.
    pub(super) const fn is_busy(&self) -> bool {
        self.pending.is_some() || self.closing || self.is_queued || self.is_resting
    }
}
