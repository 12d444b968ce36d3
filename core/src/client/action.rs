//! The actions of the client for the shell, and the results that tell the shell how to continue.

use super::{Question, QuestionId};
use crate::{
    address::Address,
    auth::Finding,
    connection::SocketId,
    error::Error,
    operation::{Command, Exchange, OperationId},
    selection::SelectorQuestion,
};

/// An action for the shell, which is the code that drives the client. The shell starts actions in
/// the order in which they come, and does not wait until one is complete.
#[derive(Debug)]
#[must_use = "the shell must carry out each action"]
pub enum Action {
    /// Connect a socket to this address. Report the result by
    /// [`handle_connected`](super::Client::handle_connected) or
    /// [`handle_failed`](super::Client::handle_failed), and after a success everything that the
    /// socket receives.
    Dial {
        /// The id of the new socket.
        socket: SocketId,
        /// The address to connect to: that of a server, or that of the proxy.
        address: Address,
    },
    /// Read from a parked socket, because a late reply is due, or because the connection
    /// authenticates again. Report everything that the socket
    /// receives by [`handle_received`](super::Client::handle_received), until that returns another
    /// [`SocketUse`] than `Open`.
    Read {
        /// The socket to read from.
        socket: SocketId,
    },
    /// Write these bytes to a socket that was dialled and is not parked.
    Transmit {
        /// The socket to write to.
        socket: SocketId,
        /// The bytes to write, after those of earlier actions.
        bytes: Vec<u8>,
    },
    /// Close a socket, parked or not. Dialling stops. Closing does not wait for bytes that were not
    /// written.
    Close {
        /// The socket to close.
        socket: SocketId,
    },
    /// Interrupt the exchange on a socket. The holder of the exchange stops moving bytes and checks
    /// the exchange in with this error. The action is given only while the socket is in use. If the
    /// exchange is checked in before the shell carries out the action, the shell drops the action,
    /// so that no later exchange is interrupted.
    Interrupt {
        /// The socket in use.
        socket: SocketId,
        /// The error to check the exchange in with.
        error: Error,
    },
    /// Find the answer to this question where the work delays nothing else, and report it by
    /// [`handle_answer`](super::Client::handle_answer).
    Ask {
        /// The id of the question, to report the answer with.
        id: QuestionId,
        /// The question to answer.
        question: Question,
    },
    /// Stop working on a question, if that is possible: its answer is no longer needed.
    Withdraw {
        /// The question to stop working on.
        question: QuestionId,
    },
    /// Run this command as an operation of its own, as for
    /// [`Abandoned::Run`](crate::operation::Abandoned::Run). Its result is ignored.
    Run {
        /// The command to run.
        command: Box<Command>,
    },
    /// [Resume](super::Client::resume) an operation that waits.
    Wake {
        /// The operation to resume.
        operation: OperationId,
    },
}

/// How an operation continues.
#[derive(Debug)]
#[must_use = "the operation continues as this value says"]
pub enum Progress<E = Exchange> {
    /// The operation has a connection. Perform the exchange and check it in.
    Exchange(E),
    /// The application's server selector has to narrow the list of suitable servers.
    /// [Ask](SelectorQuestion::ask) the question while no lock is held. Then give the answer to
    /// [`handle_selector_answer`](super::Client::handle_selector_answer), or cancel the operation.
    Asking {
        /// The id of the operation, which waits for the answer.
        operation: OperationId,
        /// The server selector question.
        question: SelectorQuestion,
    },
    /// The operation waits, for a server or a connection for example. Resume the operation when
    /// [`Action::Wake`] names this id, or cancel it.
    Waiting(OperationId),
    /// The question of [`ask_in`](super::Client::ask_in) was answered, or there is no answer for
    /// this reason.
    Answered(Result<Finding, String>),
    /// The operation has failed.
    Failed(Error),
}

/// How an operation continues after its exchange was checked in.
#[derive(Debug)]
#[must_use = "the operation continues as this value says"]
pub enum AfterExchange {
    /// The operation is over, with this result.
    Done(Result<(), Error>),
    /// Another attempt was begun, or the operation's own exchange after a preliminary ping. The
    /// value says how the operation continues.
    Again(Progress),
}

/// How the shell is to treat a dialled socket after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketUse {
    /// Read from the socket and report everything that it receives.
    Open,
    /// Park the socket before the next input: its connection is ready, and an exchange may use it
    /// at once.
    Parked,
    /// Close the socket: the client no longer has its connection.
    Closed,
}
