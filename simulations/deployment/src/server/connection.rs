//! The state of one client connection.

use super::{
    apart::Apart,
    auth::{Conversation, Login},
    fail_point::FailEffect,
    fault::Fault,
    job::LongQuery,
    parts::Progress,
    plan::Plan,
    reply::Reply,
    transaction::{Lock, TransactionId},
};
use crate::{
    deployment::{AuthFault, AuthMechanism},
    replica::SessionKey,
};
use bson::{DateTime, Document, Timestamp};
use onionskin_core::{options::Compressor, time::Instant, unstable::wire::FrameDecoder};

/// A decoded request of a client.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: i32,
    /// The size of the whole message, in bytes.
    pub(super) bytes: usize,
    /// The number of the compressor of the message; `None` if it was not compressed.
    pub(super) compressor: Option<u8>,
    /// True if the request is an OP_QUERY, so that the reply is an OP_REPLY.
    pub(super) legacy: bool,
    /// False if the client expects no reply to this request (MSG-18).
    pub(super) reply_wanted: bool,
    /// True if the client accepts several replies to this request (MSG-23).
    pub(super) exhaust: bool,
    /// The command's name as the client sent it.
    pub(super) name: String,
    pub(super) database: String,
    pub(super) command: Document,
    /// The rest of a command of which a part was executed: a write, or a `getMore`.
    pub(super) progress: Option<Box<Progress>>,
    /// The result of the check of the command's form, if the job that decoded it has checked it.
    pub(super) checked: Option<Result<(), Fault>>,
}

/// The replication that a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Majority,
    Members(usize),
}

/// The reason why a request was not answered yet.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A finished write waits until enough members have it.
    Replication {
        index: u64,
        need: Need,
        answer: Result<Reply, Fault>,
    },
    /// A finished linearizable read waits until a majority has an entry of this primary.
    Majority { index: u64, reply: Reply },
    /// An awaitable hello waits for a change (MON-74).
    Hello { exhaust: bool },
    /// A fail point blocks the command.
    Blocked { effect: FailEffect },
    /// A read waits until this member, or a majority, has reached a cluster time.
    Time {
        after: Timestamp,
        is_committed: bool,
        effect: Option<FailEffect>,
    },
    /// A write waits for the end of a transaction, or a statement of a transaction waits for a
    /// command that changes the catalog.
    Lock(Box<Lock>),
    /// A command waits for the end of a statement or a commit of this session, which has paused on
    /// another connection. The session is that of the command, or that of a commit which changes
    /// the same collections.
    Statement {
        session: SessionKey,
        effect: Option<FailEffect>,
    },
    /// A `getMore` on a tailable cursor waits for documents.
    Tail,
    /// A `getMore` whose client accepts several replies waits for its turn to send the next one.
    Stream,
    /// A long command has paused. `until` is its time limit.
    Part {
        until: Option<Instant>,
        /// The wall clock at the first start.
        clock: DateTime,
        effect: Option<FailEffect>,
    },
    /// A command waits for the result of its job.
    Job {
        query: Box<LongQuery>,
        effect: Option<FailEffect>,
    },
    /// A step-down waits for a secondary to catch up.
    StepDown,
    /// A router waits for the decision on a transaction of several shards.
    Decision(TransactionId),
    /// A router or a secondary waits for the replies of other members.
    Routed {
        plan: Box<Plan>,
        effect: Option<FailEffect>,
    },
}

/// A request that waits, with its reason and deadline.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) waiting: Waiting,
    pub(super) deadline: Option<Instant>,
}

/// The way in which a client connected to this member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The client connected directly to the server.
    #[default]
    Direct,
    /// The client connected through a load balancer.
    Forwarded,
    /// A router or another member connected, for the request of its client. Neither authentication
    /// nor the fail points of commands concern it.
    Internal,
}

/// A client connection: its buffers, its waiting request, and its authenticated user.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// The number of the connection in this process, from 1: the `connectionId` of hello.
    pub(super) number: i32,
    pub(super) decoder: FrameDecoder,
    /// The number of bytes in the decoder.
    pub(super) buffered: usize,
    /// The number of bytes of the message that a job decodes.
    pub(super) undecoded: usize,
    /// The message that a job decodes or encodes.
    pub(super) apart: Option<Apart>,
    pub(super) out: Vec<u8>,
    pub(super) announced: bool,
    pub(super) pending: Option<Pending>,
    pub(super) closing: bool,
    /// True while the connection waits for its admission. Until then, no request of the connection
    /// is handled.
    pub(super) is_queued: bool,
    /// True from the start of a request until the next call of `Member::next_turn` for this
    /// connection that finds the request answered. Always false if the member does not take turns.
    pub(super) is_resting: bool,
    /// The user who has authenticated.
    pub(super) login: Option<Login>,
    /// The number of changes of users that the login reflects.
    pub(super) user_changes: u64,
    pub(super) conversation: Option<Conversation>,
    /// The mechanism and the fault of the last conversation.
    pub(super) mechanism: Option<AuthMechanism>,
    pub(super) auth_fault: Option<AuthFault>,
    /// The subject of the client's TLS certificate.
    pub(super) certificate: Option<String>,
    pub(super) app_name: Option<String>,
    /// The compressors that the last handshake has negotiated, in the order of the client.
    pub(super) compressors: Vec<Compressor>,
    pub(super) arrival: Arrival,
    /// True after the first hello of a forwarded connection was accepted. Only its reply has the
    /// `serviceId`.
    pub(super) first_hello_answered: bool,
}

impl Connection {
    /// True while the next request of the connection must wait.
    pub(super) const fn is_busy(&self) -> bool {
        let waits = self.pending.is_some() || self.apart.is_some();
        waits || self.closing || self.is_queued || self.is_resting
    }

    /// Returns the number of received bytes that were not decoded yet.
    pub(super) const fn unfinished(&self) -> usize {
        self.buffered + self.undecoded
    }
}
