//! A loop that carries out a client's actions in tests and checks the client's contract.
//!
//! [`Peer`] has a method with a default for each action. [`drain`] gives each action to the peer
//! until there are none, and checks it against the [`Contract`], except in tests that measure
//! memory. [`time_out`] calls `handle_timeout` with the present time, and checks the next deadline.
//!
//! The crate `onionskin-tests` includes this file too, for its hostile peers. So the file uses only
//! the public interface of the client, and `due` of its parent module.

use super::*;

/// The parts of a peer that the functions of this file use.
pub(super) struct Parts<'a> {
    /// The client that the peer drives.
    pub(super) client: &'a mut Client,
    /// The contract; `None` in tests that measure memory, because the memory of the contract would
    /// be measured too.
    pub(super) contract: Option<&'a mut Contract>,
    /// The present time.
    pub(super) now: Instant,
}

/// The shell and the servers of a client in a test. A peer carries out the actions of the client
/// and reports the results.
pub(super) trait Peer {
    /// Returns the client, its contract and the present time.
    fn parts(&mut self) -> Parts<'_>;

    /// Carries out [`Action::Dial`]; by default the socket connects at once.
    fn dialled(&mut self, socket: SocketId, _: Address) {
        self.connect(socket);
    }

    /// Carries out [`Action::Transmit`]; by default no reply is sent.
    fn transmitted(&mut self, _: SocketId, _: Vec<u8>) {}

    /// Carries out [`Action::Close`]; by default does nothing.
    fn closed(&mut self, _: SocketId) {}

    /// Carries out [`Action::Interrupt`]; by default does nothing.
    fn interrupted(&mut self, _: SocketId, _: Error) {}

    /// Carries out [`Action::Read`]; by default no late reply arrives.
    fn drained(&mut self, _: SocketId) {}

    /// Carries out [`Action::Ask`]; by default panics, because the test expects no question.
    fn asked(&mut self, id: QuestionId, question: Question) {
        panic!("no connection of this test authenticates: {id:?}, {question:?}");
    }

    /// Carries out [`Action::Withdraw`]; by default does nothing.
    fn withdrawn(&mut self, _: QuestionId) {}

    /// Carries out [`Action::Run`]; by default panics, because no late reply of the test opens a
    /// cursor.
    fn ran(&mut self, command: Command) {
        panic!("a command in the background: {command:?}");
    }

    /// Carries out [`Action::Wake`]; by default the operation is not resumed.
    fn woken(&mut self, _: OperationId) {}

    /// Reports that a socket is connected.
    fn connect(&mut self, socket: SocketId) -> SocketUse {
        let Parts { client, now, .. } = self.parts();
        client.handle_connected(now, socket)
    }

    /// Reports bytes that arrived on a socket.
    fn receive(&mut self, socket: SocketId, bytes: &[u8]) -> SocketUse {
        let Parts { client, now, .. } = self.parts();
        client.handle_received(now, socket, bytes)
    }

    /// Replies to a transmitted request.
    fn respond(&mut self, socket: SocketId, request: &[u8], body: &RawDocument) -> SocketUse {
        let header = Header::decode(request, 1 << 20).expect("a request");
        self.receive(socket, &framed(header.request_id, body))
    }
}

/// Returns a message that replies to the request with this id.
pub(super) fn framed(request: i32, body: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, request)
        .body(body)
        .end();
    bytes
}

/// Gives each action of the client to the peer, until there are none.
pub(super) fn drain(peer: &mut (impl Peer + ?Sized)) {
    while let Some(action) = next(peer) {
        match action {
            Action::Dial { socket, address } => peer.dialled(socket, address),
            Action::Transmit { socket, bytes } => peer.transmitted(socket, bytes),
            Action::Close { socket } => peer.closed(socket),
            Action::Interrupt { socket, error } => peer.interrupted(socket, error),
            Action::Read { socket } => peer.drained(socket),
            Action::Ask { id, question } => peer.asked(id, question),
            Action::Withdraw { question } => peer.withdrawn(question),
            Action::Run { command } => peer.ran(*command),
            Action::Wake { operation } => peer.woken(operation),
            #[allow(unreachable_patterns, reason = "`Action` is exhaustive in the core")]
            unknown => panic!("a new kind of action: {unknown:?}"),
        }
    }
}

/// Polls one action and checks the contract, for tests that handle each action themselves.
pub(super) fn next(peer: &mut (impl Peer + ?Sized)) -> Option<Action> {
    let Parts {
        client, contract, ..
    } = peer.parts();
    let action = client.poll_action();
    let Some(contract) = contract else {
        return action;
    };
    let Some(action) = action else {
        contract.check_rest(client);
        return None;
    };
    if let Err(breach) = contract.take(&action, |subject| is_there(client, subject)) {
        panic!("{breach}: {action:?}");
    }
    Some(action)
}

/// The subject of an action, which has to exist when the action is polled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    /// A connection that an exchange holds.
    InUse(SocketId),
    /// An operation that holds no exchange.
    Waiting(OperationId),
}

fn is_there(client: &Client, subject: Subject) -> bool {
    let snapshot = client.snapshot();
    match subject {
        Subject::InUse(socket) => {
            let mut all = snapshot.connections.into_iter();
            all.any(|(id, state)| id == socket && matches!(state, ConnectionState::InUse(..)))
        }
        Subject::Waiting(operation) => snapshot.operations.iter().any(|o| o.id == operation),
    }
}

/// Reports the present time. Asserts that the client's next deadline is later than that, and is the
/// earliest deadline of all parts.
pub(super) fn time_out(peer: &mut (impl Peer + ?Sized)) {
    let Parts { client, now, .. } = peer.parts();
    client.handle_timeout(now);
    let deadline = client.deadline();
    assert!(
        deadline.is_none_or(|at| at > now),
        "{deadline:?} at {now:?}"
    );
    assert_eq!(deadline, due(client));
}

/// A record of the client's actions, which later actions have to agree with.
#[derive(Debug, Default)]
pub(super) struct Contract {
    /// All sockets that were dialled. An id is not used again.
    dialled: BTreeSet<SocketId>,
    /// The dialled sockets that were not closed.
    open: BTreeSet<SocketId>,
    /// All questions that were asked.
    asked: BTreeSet<QuestionId>,
    /// Questions that were withdrawn.
    withdrawn: BTreeSet<QuestionId>,
}

impl Contract {
    /// Records an action. Returns an error if the action breaks the contract.
    pub(super) fn take(
        &mut self,
        action: &Action,
        is_there: impl Fn(Subject) -> bool,
    ) -> Result<(), &'static str> {
        let keeps = |kept: bool, breach| if kept { Ok(()) } else { Err(breach) };
        match action {
            Action::Dial { socket, .. } => {
                keeps(self.dialled.insert(*socket), "a socket is dialled twice")?;
                self.open.insert(*socket);
                Ok(())
            }
            Action::Transmit { socket, .. } => {
                self.known(*socket)?;
                keeps(self.open.contains(socket), "bytes are sent after a close")
            }
            Action::Close { socket } => {
                self.known(*socket)?;
                keeps(self.open.remove(socket), "a socket is closed twice")
            }
            Action::Read { socket } => {
                self.known(*socket)?;
                keeps(self.open.contains(socket), "a closed socket is drained")
            }
            Action::Interrupt { socket, .. } => {
                self.known(*socket)?;
                keeps(self.open.contains(socket), "a closed socket is interrupted")?;
                let is_in_use = is_there(Subject::InUse(*socket));
                keeps(is_in_use, "a socket without an exchange is interrupted")
            }
            Action::Ask { id, .. } => keeps(self.asked.insert(*id), "a question is asked twice"),
            Action::Withdraw { question } => {
                let is_asked = self.asked.contains(question);
                keeps(is_asked, "a question is withdrawn that was not asked")?;
                let is_new = self.withdrawn.insert(*question);
                keeps(is_new, "a question is withdrawn twice")
            }
            Action::Run { .. } => Ok(()),
            Action::Wake { operation } => {
                let waits = is_there(Subject::Waiting(*operation));
                keeps(waits, "an operation that does not wait is woken")
            }
            #[allow(unreachable_patterns, reason = "`Action` is exhaustive in the core")]
            _ => Err("it is of a new kind"),
        }
    }

    fn known(&self, socket: SocketId) -> Result<(), &'static str> {
        match self.dialled.contains(&socket) {
            true => Ok(()),
            false => Err("a socket was not dialled"),
        }
    }

    /// Checks the contract of a client that has no more actions.
    fn check_rest(&self, client: &mut Client) {
        assert!(client.poll_action().is_none(), "nothing was reported since");
        let sockets = client.counts().sockets;
        assert_eq!(sockets, self.open.len(), "sockets that are open: {self:?}");
        let (armed, due) = (client.deadline(), due(client));
        let is_armed = due.is_none() || armed.is_some_and(|at| Some(at) <= due);
        assert!(is_armed, "{armed:?} is later than {due:?}");
    }
}
