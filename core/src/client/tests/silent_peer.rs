//! A peer with default methods only, and a test of the contract.

use super::*;

/// A peer with the default methods: sockets connect, and nothing is answered.
#[derive(Debug)]
pub(super) struct SilentPeer {
    pub(super) client: Client,
    pub(super) contract: Contract,
    pub(super) now: Instant,
}

impl SilentPeer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            contract: Contract::default(),
            now: Instant::ZERO,
        }
    }

    /// Returns the socket of the next dial, which has to lead to the proxy `proxy:1080`. The name
    /// of the server is not resolved or dialled (SOCKS-11, SOCKS-14). The port is the default
    /// (SOCKS-3).
    pub(super) fn dialled_proxy(&mut self) -> SocketId {
        loop {
            match harness::next(self).expect("a dial") {
                Action::Dial { socket, address } => {
                    assert_eq!(address.to_string(), "proxy:1080");
                    return socket;
                }
                Action::Transmit { .. } | Action::Close { .. } | Action::Wake { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns the bytes that a socket sends next.
    pub(super) fn sent(&mut self, from: SocketId) -> Vec<u8> {
        loop {
            match harness::next(self).expect("bytes") {
                Action::Transmit { socket, bytes } if socket == from => return bytes,
                _ => {}
            }
        }
    }
}

impl Peer for SilentPeer {
    fn parts(&mut self) -> Parts<'_> {
        Parts {
            client: &mut self.client,
            contract: Some(&mut self.contract),
            now: self.now,
        }
    }
}

#[test]
fn the_contract_of_the_harness_reports_each_breach() {
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
    let drain = || Action::Read { socket };
    let interrupt = || Action::Interrupt {
        socket,
        error: Error::network(NetworkFault::Reset, "reset"),
    };
    let wake = || Action::Wake {
        operation: OperationId(1),
    };
    let withdraw = || Action::Withdraw {
        question: QuestionId(1),
    };
    let found = |actions: Vec<Action>, is_there: bool| {
        let mut contract = Contract::default();
        let mut all = actions.iter();
        all.find_map(|action| contract.take(action, |_| is_there).err())
    };
    let kept = vec![
        dial(),
        send(),
        interrupt(),
        wake(),
        drain(),
        send(),
        close(),
    ];
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
            "a socket without an exchange is interrupted",
        ),
        (vec![wake()], "an operation that does not wait is woken"),
        (
            vec![withdraw()],
            "a question is withdrawn that was not asked",
        ),
    ] {
        assert_eq!(found(actions, false), Some(breach));
    }
}
