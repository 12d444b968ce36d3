//! One loop that carries out a client's actions in tests, and holds the client to its contract.
//!
//! A [`Peer`] is the other side of a client in a test: a method for each action, each with a
//! default. [`drain`] polls the actions and gives them to the peer until there are none;
//! [`time_out`] reports a moment. Both check the contract on the way, in every test.

use super::*;

/// What a peer lends the loop.
pub(super) struct Parts<'a> {
    pub(super) client: &'a mut Client,
    pub(super) contract: &'a mut Contract,
    pub(super) now: Instant,
}

/// The other side of a client: performs its actions and reports what comes of them.
pub(super) trait Peer {
    /// The client, its contract, and the present moment.
    fn parts(&mut self) -> Parts<'_>;

    /// Performs [`Action::Dial`]; by default the socket connects at once.
    fn dialled(&mut self, socket: SocketId, _: Address) {
        self.connect(socket);
    }

    /// Performs [`Action::Transmit`]; by default nothing is answered.
    fn transmitted(&mut self, _: SocketId, _: Vec<u8>) {}

    /// Performs [`Action::Close`].
    fn closed(&mut self, _: SocketId) {}

    /// Performs [`Action::Interrupt`].
    fn interrupted(&mut self, _: SocketId, _: Error) {}

    /// Performs [`Action::Drain`]; by default no late reply comes.
    fn drained(&mut self, _: SocketId) {}

    /// Performs [`Action::Ask`]; by default the test expects no question.
    fn asked(&mut self, id: QuestionId, question: Question) {
        panic!("no connection of this test authenticates: {id:?}, {question:?}");
    }

    /// Performs [`Action::Withdraw`].
    fn withdrawn(&mut self, _: QuestionId) {}

    /// Performs [`Action::Wake`]; by default the operation is not resumed.
    fn woken(&mut self, _: OperationId) {}

    /// Reports that a socket is connected.
    fn connect(&mut self, socket: SocketId) -> Fate {
        let Parts { client, now, .. } = self.parts();
        client.handle_connected(now, socket)
    }

    /// Reports bytes that a socket received.
    fn receive(&mut self, socket: SocketId, bytes: &[u8]) -> Fate {
        let Parts { client, now, .. } = self.parts();
        client.handle_received(now, socket, bytes)
    }

    /// Answers a request that was transmitted.
    fn respond(&mut self, socket: SocketId, request: &[u8], body: &RawDocument) -> Fate {
        let header = Header::decode(request, 1 << 20).expect("a request");
        self.receive(socket, &framed(header.request_id, body))
    }
}

/// The message that answers a request with this number.
pub(super) fn framed(request: i32, body: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, request)
        .body(body)
        .end();
    bytes
}

/// Gives the peer each action of its client, until there are none.
pub(super) fn drain(peer: &mut (impl Peer + ?Sized)) {
    while let Some(action) = next(peer) {
        match action {
            Action::Dial { socket, address } => peer.dialled(socket, address),
            Action::Transmit { socket, bytes } => peer.transmitted(socket, bytes),
            Action::Close { socket } => peer.closed(socket),
            Action::Interrupt { socket, error } => peer.interrupted(socket, error),
            Action::Drain { socket } => peer.drained(socket),
            Action::Ask { id, question } => peer.asked(id, question),
            Action::Withdraw { question } => peer.withdrawn(question),
            Action::Wake { operation } => peer.woken(operation),
        }
    }
}

/// Polls one action, for a test that looks at each by itself.
pub(super) fn next(peer: &mut (impl Peer + ?Sized)) -> Option<Action> {
    let Parts {
        client, contract, ..
    } = peer.parts();
    let Some(action) = client.poll_action() else {
        contract.check_rest(client);
        return None;
    };
    let is_leased = |socket| {
        let mut all = client.snapshot().connections.into_iter();
        all.any(|(id, state)| id == socket && matches!(state, ConnectionState::Leased(..)))
    };
    if let Err(breach) = contract.take(&action, is_leased) {
        panic!("{breach}: {action:?}");
    }
    Some(action)
}

/// Reports the present moment. Nothing may be due afterwards.
pub(super) fn time_out(peer: &mut (impl Peer + ?Sized)) {
    let Parts { client, now, .. } = peer.parts();
    client.handle_timeout(now);
    let deadline = client.deadline();
    assert!(
        deadline.is_none_or(|at| at > now),
        "{deadline:?} at {now:?}"
    );
    assert_eq!(deadline, client.exact_deadline());
}

/// What a client has ordered so far, as far as its later actions must agree with it.
#[derive(Debug, Default)]
pub(super) struct Contract {
    /// All sockets that were dialled; a number is never used again.
    dialled: BTreeSet<SocketId>,
    /// Those that were not closed.
    open: BTreeSet<SocketId>,
    /// All questions that were asked.
    asked: BTreeSet<QuestionId>,
    /// Questions that were withdrawn.
    withdrawn: BTreeSet<QuestionId>,
}

impl Contract {
    /// Notes an action; says in what it breaks the contract.
    fn take(
        &mut self,
        action: &Action,
        is_leased: impl Fn(SocketId) -> bool,
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
            Action::Drain { socket } => {
                self.known(*socket)?;
                keeps(self.open.contains(socket), "a closed socket is drained")
            }
            Action::Interrupt { socket, .. } => {
                self.known(*socket)?;
                keeps(self.open.contains(socket), "a closed socket is interrupted")?;
                keeps(
                    is_leased(*socket),
                    "a socket without a lease is interrupted",
                )
            }
            Action::Ask { id, .. } => keeps(self.asked.insert(*id), "a question is asked twice"),
            Action::Withdraw { question } => {
                let is_asked = self.asked.contains(question);
                keeps(is_asked, "a question is withdrawn that was not asked")?;
                let is_new = self.withdrawn.insert(*question);
                keeps(is_new, "a question is withdrawn twice")
            }
            Action::Wake { .. } => Ok(()),
        }
    }

    fn known(&self, socket: SocketId) -> Result<(), &'static str> {
        match self.dialled.contains(&socket) {
            true => Ok(()),
            false => Err("a socket was not dialled"),
        }
    }

    /// Checks a client that has no more actions.
    fn check_rest(&self, client: &mut Client) {
        assert!(client.poll_action().is_none(), "nothing was reported since");
        let sockets = client.counts().sockets;
        assert_eq!(sockets, self.open.len(), "sockets that are open: {self:?}");
        let (armed, due) = (client.deadline(), client.exact_deadline());
        let is_armed = due.is_none() || armed.is_some_and(|at| Some(at) <= due);
        assert!(is_armed, "{armed:?} is later than {due:?}");
    }
}

/// A peer that does what is done by default: sockets connect, and nothing is answered.
#[derive(Debug)]
pub(super) struct Mute {
    pub(super) client: Client,
    pub(super) contract: Contract,
    pub(super) now: Instant,
}

impl Mute {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            contract: Contract::default(),
            now: Instant::ZERO,
        }
    }
}

impl Peer for Mute {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: &mut self.contract,
            now: self.now,
        }
    }
}

#[test]
fn each_breach_of_the_contract_is_found() {
    let socket = SocketId::new(1, 0);
    let address = Address::tcp("a", 1);
    let dial = || Action::Dial {
        socket,
        address: address.clone(),
    };
    let send = || Action::Transmit {
        socket,
        bytes: vec![1],
    };
    let close = || Action::Close { socket };
    let drain = || Action::Drain { socket };
    let interrupt = || Action::Interrupt {
        socket,
        error: Error::network(NetworkFault::Reset, "reset"),
    };
    let withdraw = || Action::Withdraw {
        question: QuestionId(1),
    };
    let found = |actions: Vec<Action>, is_leased: bool| {
        let mut contract = Contract::default();
        let mut all = actions.iter();
        all.find_map(|action| contract.take(action, |_| is_leased).err())
    };
    let kept = vec![dial(), send(), interrupt(), drain(), send(), close()];
    assert_eq!(found(kept, true), None);
    for (actions, breach) in [
        (vec![dial(), dial()], "a socket is dialled twice"),
        (vec![dial(), close(), dial()], "a socket is dialled twice"),
        (vec![send()], "a socket was not dialled"),
        (vec![close()], "a socket was not dialled"),
        (vec![drain()], "a socket was not dialled"),
        (vec![interrupt()], "a socket was not dialled"),
        (
            vec![dial(), close(), send()],
            "bytes are sent after a close",
        ),
        (vec![dial(), close(), close()], "a socket is closed twice"),
        (vec![dial(), close(), drain()], "a closed socket is drained"),
        (
            vec![dial(), close(), interrupt()],
            "a closed socket is interrupted",
        ),
        (
            vec![dial(), interrupt()],
            "a socket without a lease is interrupted",
        ),
        (
            vec![withdraw()],
            "a question is withdrawn that was not asked",
        ),
    ] {
        assert_eq!(found(actions, false), Some(breach));
    }
}
