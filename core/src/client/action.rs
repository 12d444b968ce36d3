//! What the client orders, and how it answers.

use super::{Question, QuestionId};
use crate::{
    address::Address,
    connection::SocketId,
    error::Error,
    operation::{Exchange, OperationId},
    selection::SelectorQuestion,
};

/// An order to whoever drives the client. Orders are to be carried out in the order in which they
/// come; none of them blocks the next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Connect a socket to this address, then report
    /// [`handle_connected`](super::Client::handle_connected) or
    /// [`handle_failed`](super::Client::handle_failed), and from then on everything it receives.
    Dial {
        /// The number under which the socket is known from now on.
        socket: SocketId,
        /// Where to.
        address: Address,
    },
    /// Take a parked socket out of its place and read from it, as after
    /// [`Dial`](Self::Dial): report everything it receives, until its [`SocketUse`] is not open.
    Drain {
        /// Which.
        socket: SocketId,
    },
    /// Write these bytes to a socket that was dialled and is not parked.
    Transmit {
        /// Which.
        socket: SocketId,
        /// What; earlier bytes go first.
        bytes: Vec<u8>,
    },
    /// Close a socket, parked or not. Dialling stops; what was not written is dropped.
    Close {
        /// Which.
        socket: SocketId,
    },
    /// Break the exchange on a socket in use: the exchange's holder stops moving bytes and gives
    /// the exchange back with this error. Given only while the socket is in use, and meant for that
    /// exchange: when the exchange came back first, forget it.
    Interrupt {
        /// Which.
        socket: SocketId,
        /// Why.
        error: Error,
    },
    /// Answer this question by [`handle_answer`](super::Client::handle_answer), where it delays
    /// nothing else.
    Ask {
        /// The number under which to answer.
        id: QuestionId,
        /// What is asked.
        question: Question,
    },
    /// Stop working on a question, if that can be stopped: its answer is no longer wanted.
    Withdraw {
        /// Which.
        question: QuestionId,
    },
    /// An operation that waits is to be [resumed](super::Client::resume).
    Wake {
        /// Which.
        operation: OperationId,
    },
}

/// How an operation goes on.
#[derive(Debug)]
pub enum Progress<E = Exchange> {
    /// It has a connection: perform the exchange and give the exchange back.
    Exchange(E),
    /// The application's server selector has a say: [ask](SelectorQuestion::ask) it outside of all
    /// locks, then hand its answer to
    /// [`handle_selector_answer`](super::Client::handle_selector_answer), or cancel the operation.
    Asking {
        /// The operation, which waits under this number.
        operation: OperationId,
        /// What to ask.
        question: SelectorQuestion,
    },
    /// It waits for a server or a connection, under this number. Resume it when it is woken, or
    /// cancel it.
    Waiting(OperationId),
    /// It is over.
    Failed(Error),
}

/// What the client makes of an exchange.
#[derive(Debug)]
pub enum AfterExchange {
    /// The operation is over.
    Done(Result<(), Error>),
    /// It is tried once more.
    Again(Progress),
}

/// What is to become of a dialled socket after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketUse {
    /// Go on: report what it receives.
    Open,
    /// It is ready for operations. Put it where exchanges find it, before anything else is done.
    Parked,
    /// It is no longer wanted.
    Closed,
}
