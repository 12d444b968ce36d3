//! Tests with random inputs in any order. The client leaks nothing, closes nothing twice, and lets
//! no operation wait forever.

mod driver;
mod server;

use super::{adaptive::overloaded, *};
use crate::options::{Monitoring, ReadMode, ServerSelector};
use driver::RandomHarness;
use proptest::prelude::*;
use std::time::Duration;

/// One input. A number of type `usize` selects the object that the input concerns, such as a
/// socket.
#[derive(Clone, Debug)]
enum Input {
    Start {
        kind: u8,
        timeout: Option<u16>,
    },
    Resume(usize),
    Cancel(usize),
    CheckIn {
        which: usize,
        outcome: u8,
    },
    Connect(usize),
    Answer {
        which: usize,
        hello: u8,
    },
    Break(usize),
    Late {
        which: usize,
        what: u8,
    },
    Keys {
        which: usize,
        what: u8,
    },
    Ask {
        is_held: bool,
        is_blocking: bool,
        timeout: Option<u16>,
    },
    Narrow(usize),
    IdleCheck(u8),
    Wait(u16),
    Fork,
    Close,
    CloseNow,
    Abandon,
}

fn input() -> impl Strategy<Value = Input> {
    let which = any::<usize>();
    prop_oneof![
        4 => (0..5_u8, prop::option::of(0..5000_u16))
            .prop_map(|(kind, timeout)| Input::Start { kind, timeout }),
        6 => which.prop_map(Input::Resume),
        2 => which.prop_map(Input::Cancel),
        2 => (which, 0..6_u8).prop_map(|(which, what)| Input::Late { which, what }),
        5 => (which, 0..9_u8).prop_map(|(which, outcome)| Input::CheckIn { which, outcome }),
        6 => which.prop_map(Input::Connect),
        10 => (which, 0..40_u8).prop_map(|(which, hello)| Input::Answer { which, hello }),
        1 => which.prop_map(Input::Break),
        3 => (which, 0..12_u8).prop_map(|(which, what)| Input::Keys { which, what }),
        2 => (any::<bool>(), any::<bool>(), prop::option::of(0..5000_u16))
            .prop_map(ask),
        4 => which.prop_map(Input::Narrow),
        1 => (0..4_u8).prop_map(Input::IdleCheck),
        3 => prop_oneof![4 => 0..500_u16, 1 => 0..12_000_u16].prop_map(Input::Wait),
        1 => (0..100_u8).prop_map(|rare| match rare {
            0 | 1 => Input::Close,
            2..=4 => Input::Fork,
            5 => Input::Abandon,
            6 => Input::CloseNow,
            _ => Input::Wait(1),
        }),
    ]
}

fn ask((is_held, is_blocking, timeout): (bool, bool, Option<u16>)) -> Input {
    Input::Ask {
        is_held,
        is_blocking,
        timeout,
    }
}

impl RandomHarness {
    fn apply(&mut self, input: Input) {
        match input {
            Input::Start { kind, timeout } => {
                let mut command = command(kind);
                command.set_timeout(timeout.map(|ms| Duration::from_millis(ms.into())));
                let start = self.client.start(self.now, command);
                self.started(start);
            }
            Input::Keys { which, what } if !self.questions.is_empty() => self.answer(which, what),
            Input::Ask {
                is_held,
                is_blocking,
                timeout,
            } => self.ask(is_held, is_blocking, timeout),
            Input::Narrow(which) if !self.asking.is_empty() => self.narrow(which),
            Input::IdleCheck(what) => self.idle_check = what,
            Input::Resume(which) if !self.waiting.is_empty() => {
                let id = self.waiting.remove(which % self.waiting.len());
                // A task may be polled although its operation was not woken.
                self.woken.remove(&id);
                let start = self.client.resume(self.now, id);
                self.started(start);
            }
            Input::Cancel(which) if !self.waiting.is_empty() => {
                let id = self.waiting.remove(which % self.waiting.len());
                self.client.cancel(self.now, id);
            }
            Input::CheckIn { which, outcome } if !self.exchanges.is_empty() => {
                let mut exchange = self.exchanges.remove(which % self.exchanges.len());
                self.left.insert(
                    exchange.socket(),
                    exchange.operation.exchange.context.request_id,
                );
                let outcome = finish(&mut exchange, outcome);
                if let AfterExchange::Again(start) =
                    self.client.check_in(self.now, exchange, outcome)
                {
                    self.started(start);
                }
            }
            Input::Connect(which) if !self.dialling.is_empty() => {
                let socket = self.dialling.remove(which % self.dialling.len());
                self.client.handle_connected(self.now, socket);
            }
            Input::Answer { which, hello } if !self.unanswered.is_empty() => {
                let (socket, request) = self.unanswered.remove(which % self.unanswered.len());
                let bytes = self.servers.reply(socket, &request, hello);
                self.client.handle_received(self.now, socket, &bytes);
            }
            Input::Break(which) => {
                let sockets = driven(&self.client);
                if let Some(&socket) = sockets.get(which % sockets.len().max(1)) {
                    self.client.handle_received(self.now, socket, &[]);
                }
            }
            Input::Late { which, what } => self.late(which, what),
            Input::Wait(ms) => {
                self.now = self.now + Duration::from_millis(ms.into());
                harness::time_out(self);
            }
            Input::Fork => self.fork(),
            Input::Close => self.client.close(self.now),
            Input::CloseNow => self.client.close_now(self.now),
            Input::Abandon => self.abandon(),
            _ => {}
        }
        self.drain();
    }
}

fn command(kind: u8) -> Command {
    match kind {
        0 => ping(),
        1 => insert(),
        2 => find(),
        3 => {
            let mut elsewhere = find();
            let preference = ReadPreference::new(ReadMode::SecondaryPreferred);
            elsewhere.set_read_preference(Arc::new(preference));
            elsewhere
        }
        _ => {
            let mut unacknowledged = insert();
            unacknowledged.set_unacknowledged();
            unacknowledged
        }
    }
}

fn extra() -> impl Strategy<Value = Extra> {
    prop_oneof![
        2 => Just(Extra::Nothing),
        1 => Just(Extra::Authentication),
        1 => Just(Extra::Selector),
    ]
}

/// Ends an exchange in one of several ways, and returns its outcome.
fn finish(exchange: &mut Exchange, outcome: u8) -> Outcome {
    let reply = match outcome {
        0 => return Outcome::Abandoned,
        6 | 7 => {
            // The whole request is sent, or only its first byte.
            let whole = exchange.output().len();
            exchange.sent(if outcome == 6 { whole } else { 1 });
            return Outcome::Abandoned;
        }
        1 => return reset(),
        2 => rawdoc! { "ok": 0, "code": 10107, "errmsg": "x" },
        3 => rawdoc! { "ok": 0, "code": 91, "errorLabels": ["RetryableWriteError"] },
        8 => overloaded(),
        _ => rawdoc! { "ok": 1 },
    };
    if exchange.operation.request.acknowledged {
        World::answer(exchange, &reply);
    } else {
        exchange.sent(exchange.output().len());
    }
    Outcome::Completed
}

/// A feature of the client that not every run has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extra {
    Nothing,
    /// The servers require authentication.
    Authentication,
    /// The application has a server selector.
    Selector,
}

fn begin(monitoring: Monitoring, extra: Extra, seed: u8) -> RandomHarness {
    let user = if extra == Extra::Authentication {
        "user:pencil@"
    } else {
        ""
    };
    let text = format!(
        "mongodb://{user}a/?replicaSet=rs&maxPoolSize=3&minPoolSize=1&connectTimeoutMS=2000\
         &waitQueueTimeoutMS=3000&socketTimeoutMS=4000"
    );
    let mut options = uri::parse_for(&text, monitoring)
        .expect("a connection string")
        .options;
    if extra == Extra::Selector {
        // One answer out of four leaves no server.
        let asked = std::sync::atomic::AtomicUsize::new(0);
        options.server_selector = Some(ServerSelector::new(move |servers| {
            if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 4 == 3 {
                servers.clear();
            }
        }));
    }
    let config = ClientConfig::new(options, Seed::new([seed; 32])).expect("options");
    let mut play = RandomHarness::new(Client::new(config), extra);
    if monitoring == Monitoring::Scanning {
        play.apply(Input::Start {
            kind: 0,
            timeout: None,
        });
    }
    // The first check succeeds, so that most of the later inputs concern operations.
    play.apply(Input::Connect(0));
    play.apply(Input::Answer {
        which: 0,
        hello: u8::MAX,
    });
    play
}

fn play(monitoring: Monitoring, extra: Extra, seed: u8, inputs: Vec<Input>) {
    let mut play = begin(monitoring, extra, seed);
    for input in inputs {
        play.apply(input);
    }
    play.end();
}

proptest! {
    #[test]
    fn random_inputs_leave_no_state_in_a_closed_client(
        extra in extra(),
        seed in any::<u8>(),
        inputs in prop::collection::vec(input(), 0..300),
    ) {
        play(Monitoring::Background, extra, seed, inputs);
    }

    #[test]
    fn random_inputs_leave_no_state_in_a_closed_single_threaded_client(
        extra in extra(),
        seed in any::<u8>(),
        inputs in prop::collection::vec(input(), 0..300),
    ) {
        play(Monitoring::Scanning, extra, seed, inputs);
    }
}

#[test]
fn the_servers_of_the_random_tests_authenticate_clients() {
    // If the servers did not know the password, the random tests would run no operation of an
    // authenticated client.
    let mut play = begin(Monitoring::Background, Extra::Authentication, 0);
    let (which, hello) = (0, u8::MAX);
    for _ in 0..3 {
        let (kind, timeout) = (0, None);
        play.apply(Input::Start { kind, timeout });
        for _ in 0..4 {
            play.apply(Input::Connect(0));
            play.apply(Input::Answer { which, hello });
            play.apply(Input::Keys { which, what: 2 });
        }
        play.apply(Input::Resume(0));
    }
    assert_eq!(play.exchanges.len(), 3);
    play.end();
}
