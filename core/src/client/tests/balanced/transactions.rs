//! Tests of transactions, which pin their connections and share them with their cursors.

use super::*;
use crate::{
    operation::{SessionOptions, TransactionOptions, crud::Defaults},
    random::Seed,
    session::SessionId,
};

#[test]
fn a_transaction_and_its_cursor_share_a_connection() {
    // All commands of a transaction use one connection (LB-39), and no other operation uses it
    // (LB-41). The cursor shares the connection and does not check it in (LB-42). The connection
    // counts for the transaction (LB-44).
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    let socket = exchange.socket();
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(
        take_events(&mut world),
        ["started", "created 1", "ready 1", "out 1"]
    );
    let mut command = find();
    command.set_pin(&pin);
    let mut exchange = world.begin_exchange(command);
    assert_eq!(exchange.socket(), socket);
    // A second command cannot run at the same time.
    let mut hasty = ping();
    hasty.set_pin(&pin);
    let Progress::Waiting(id) = world.client.start(world.now, hasty) else {
        panic!("the connection is in use");
    };
    world.client.cancel(world.now, id);
    let other = world.begin_exchange(ping());
    assert_ne!(other.socket(), socket);
    take_events(&mut world);
    World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
    let mut cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    world.check_in(exchange, Outcome::Completed);
    let kill = cursor.end().expect("it is open");
    world.perform(kill, &rawdoc! { "ok": 1 });
    assert!(
        take_events(&mut world).is_empty(),
        "the transaction keeps it"
    );
    world.client.release(world.now, pin);
    assert_eq!(take_events(&mut world), ["in 1"]);
}

#[test]
fn releasing_a_pin_during_a_command_checks_in_its_connection_after_the_command() {
    let mut world = world();
    let (exchange, pin) = pinned_transaction(&mut world);
    let mut exchange = exchange;
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let mut command = ping();
    command.set_pin(&pin);
    let mut exchange = world.begin_exchange(command);
    take_events(&mut world);
    world.client.release(world.now, pin);
    assert!(take_events(&mut world).is_empty());
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 1"]);
}

/// A session with a transaction.
struct Session {
    world: World,
    id: SessionId,
}

/// The result of a command.
#[derive(Clone, Copy, Debug)]
enum CommandResult {
    Success,
    /// The server replies with an error that has this code and, if one is given, this label.
    ServerError(i32, Option<&'static str>),
    NetworkError,
}

/// A command of a session with a transaction.
#[derive(Clone, Copy, Debug)]
enum Step {
    Operation,
    Commit,
    Abort,
}

impl Session {
    /// Returns a session with a transaction in which nothing was done.
    fn new() -> Self {
        let mut world = world();
        let session = world
            .client
            .start_session(world.now, &SessionOptions::default());
        let id = session.expect("the client is open").id;
        let mut session = Self { world, id };
        session.start();
        session
    }

    fn start(&mut self) {
        let options = TransactionOptions::default();
        let started = self.world.client.start_transaction(
            self.world.now,
            self.id,
            &options,
            &Defaults::default(),
        );
        started.expect("no transaction is in progress");
        self.world.run();
    }

    /// Returns a session that has inserted a document in its transaction.
    fn begin() -> Self {
        let mut session = Self::new();
        session.perform(Step::Operation, CommandResult::Success);
        assert_eq!(
            take_events(&mut session.world),
            ["started", "created 1", "ready 1", "out 1"]
        );
        session
    }

    fn command(&mut self, step: Step) -> Command {
        let (now, client) = (self.world.now, &mut self.world.client);
        let end = match step {
            Step::Operation => {
                let mut command = insert();
                command.use_explicit_session(self.id);
                return command;
            }
            Step::Commit => client.commit_transaction(now, self.id, None),
            Step::Abort => client.abort_transaction(now, self.id, None),
        };
        end.expect("it is permitted").expect("an operation has run")
    }

    /// Runs a command. If the client repeats it, its second attempt succeeds.
    fn perform(&mut self, step: Step, command_result: CommandResult) {
        let command = self.command(step);
        let mut exchange = self.world.begin_exchange(command);
        let outcome = match command_result {
            CommandResult::NetworkError => reset(),
            CommandResult::Success => {
                World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
                Outcome::Completed
            }
            CommandResult::ServerError(code, label) => {
                let labels: Vec<&str> = label.into_iter().collect();
                let reply = bson::doc! {
                    "ok": 0, "code": code, "errmsg": "no", "errorLabels": labels,
                };
                let reply = RawDocumentBuf::try_from(&reply).expect("BSON");
                World::answer(&mut exchange, &reply);
                Outcome::Completed
            }
        };
        if let AfterExchange::Again(start) = self.world.check_in(exchange, outcome) {
            let mut exchange = self.world.exchange_of(start);
            World::answer(&mut exchange, &rawdoc! { "ok": 1 });
            let after = self.world.check_in(exchange, Outcome::Completed);
            assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        }
    }
}

#[test]
fn a_transaction_unpins_its_connection_when_a_sharded_one_unpins_its_mongos() {
    // A transaction unpins its connection in the cases in which a sharded transaction unpins its
    // mongos (LB-40). The old connection is checked in and closed before a retry checks out another
    // one (LB trap 9).
    use CommandResult::{NetworkError, ServerError, Success};
    let transient = Some("TransientTransactionError");
    let unknown = Some("UnknownTransactionCommitResult");
    let back: &[&str] = &["in 1"];
    let broken: &[&str] = &["cleared 1", "in 1", "closed 1: Error"];
    let repeated: &[&str] = &[
        "cleared 1",
        "in 1",
        "closed 1: Error",
        "started",
        "created 2",
        "ready 2",
        "out 2",
        "in 2",
    ];
    let cases = [
        (Step::Operation, Success, &[][..]),
        (Step::Operation, ServerError(51, None), &[]),
        (Step::Operation, ServerError(24, transient), back),
        (Step::Operation, NetworkError, broken),
        (Step::Commit, Success, &[]),
        (Step::Commit, ServerError(51, None), &[]),
        (Step::Commit, ServerError(24, transient), back),
        (Step::Commit, ServerError(50, unknown), back),
        (Step::Commit, NetworkError, repeated),
        (Step::Abort, Success, back),
        (Step::Abort, ServerError(51, None), back),
        (Step::Abort, ServerError(24, transient), back),
        (Step::Abort, NetworkError, repeated),
    ];
    for (step, command_result, expected) in cases {
        let mut session = Session::begin();
        session.perform(step, command_result);
        assert_eq!(
            take_events(&mut session.world),
            expected,
            "{step:?}, {command_result:?}"
        );
        let in_use = usize::from(expected.is_empty());
        assert_eq!(session.world.client.counts().in_use, in_use);
    }
}

#[test]
fn a_committed_transaction_keeps_its_connection_until_something_else_begins() {
    type Act = fn(&mut Session);
    let acts: [(&str, Act); 4] = [
        ("a transaction", Session::start),
        ("an operation", |session| {
            session.perform(Step::Operation, CommandResult::Success)
        }),
        ("the end of the session", |session| {
            let resources = CursorResources::of_session(session.id);
            session
                .world
                .client
                .release_cursor(session.world.now, resources);
            session.world.run();
        }),
        ("a fork", |session| {
            let seed = Seed::new([9; 32]);
            session.world.client.handle_forked(session.world.now, &seed);
            session.world.run();
        }),
    ];
    for (what, act) in acts {
        let mut session = Session::begin();
        // A commit that succeeded may be repeated on the same connection.
        session.perform(Step::Commit, CommandResult::Success);
        session.perform(Step::Commit, CommandResult::Success);
        assert!(take_events(&mut session.world).is_empty());
        act(&mut session);
        let events = take_events(&mut session.world);
        if what != "a fork" {
            assert_eq!(events[0], "in 1", "{what}");
        }
        assert!(session.world.client.snapshot().pins.is_empty(), "{what}");
        assert_eq!(session.world.client.counts().in_use, 0, "{what}");
    }
}

#[test]
fn a_transaction_stays_pinned_if_its_first_command_fails() {
    // A transaction has one check out and one check in (LB-31), even if its first command fails.
    let mut session = Session::new();
    session.perform(Step::Operation, CommandResult::ServerError(51, None));
    assert_eq!(
        take_events(&mut session.world),
        ["started", "created 1", "ready 1", "out 1"]
    );
    session.perform(Step::Abort, CommandResult::Success);
    assert_eq!(take_events(&mut session.world), ["in 1"]);
}

#[test]
fn a_transaction_keeps_its_connection_if_its_first_command_has_to_authenticate_again() {
    // The server accepts each login, because its hello reply is also a reply to `saslStart`.
    let mut hello = service(1);
    hello.append(bson::cstr!("conversationId"), 1);
    hello.append(bson::cstr!("done"), true);
    let payload = bson::Binary {
        subtype: bson::spec::BinarySubtype::Generic,
        bytes: Vec::new(),
    };
    hello.append(bson::cstr!("payload"), payload);
    let text = "mongodb://user:pencil@lb/?loadBalanced=true&authMechanism=PLAIN";
    let mut world = World::new(text, hello);
    let (mut exchange, pin) = pinned_transaction(&mut world);
    let socket = exchange.socket();
    let again = rawdoc! { "ok": 0, "code": 391, "errmsg": "again" };
    World::answer(&mut exchange, &again);
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the connection authenticates again");
    };
    let mut exchange = world.exchange_of(start);
    assert_eq!(exchange.socket(), socket);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let mut command = ping();
    command.set_pin(&pin);
    let mut exchange = world.begin_exchange(command);
    assert_eq!(exchange.socket(), socket);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(world.client.counts().in_use, 1);
    world.client.release(world.now, pin);
    world.run();
    assert_eq!(world.client.counts().in_use, 0);
    assert!(world.client.snapshot().pins.is_empty());
}

/// Opens a cursor in the transaction.
fn cursor_of(session: &mut Session) -> Cursor {
    let mut command = find();
    command.use_explicit_session(session.id);
    let mut exchange = session.world.begin_exchange(command);
    World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
    let cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    session.world.check_in(exchange, Outcome::Completed);
    cursor
}

#[test]
fn an_abort_waits_for_the_end_of_cursors_and_runs_on_their_connection() {
    let mut session = Session::begin();
    let mut cursors = [(); 2].map(|()| cursor_of(&mut session));
    let [first, second] = cursors.each_mut().map(|c| c.end().expect("it is open"));
    let mut kill = session.world.begin_exchange(first);
    let socket = kill.socket();
    let world = &mut session.world;
    let Progress::Waiting(second) = world.client.start(world.now, second) else {
        panic!("the connection is in use");
    };
    let abort = session.command(Step::Abort);
    let world = &mut session.world;
    let Progress::Waiting(abort) = world.client.start(world.now, abort) else {
        panic!("the connection is in use");
    };
    World::answer(&mut kill, &rawdoc! { "ok": 1 });
    world.check_in(kill, Outcome::Completed);
    for id in [second, abort] {
        let mut exchange = world.exchange_of(Progress::Waiting(id));
        assert_eq!(exchange.socket(), socket);
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
    }
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn an_abort_does_not_wait_for_a_command_that_only_the_application_can_end() {
    let mut session = Session::begin();
    let mut cursor = cursor_of(&mut session);
    // The application does not poll this any more.
    let mut stuck = more(&mut session.world, &mut cursor);
    let abort = session.command(Step::Abort);
    let world = &mut session.world;
    let mut exchange = world.begin_exchange(abort);
    assert_ne!(exchange.socket(), stuck.socket());
    assert_eq!(exchange.operation.request.name(), "abortTransaction");
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    World::answer(&mut stuck, &cursor_reply(0, "nextBatch"));
    let step = cursor.handle_reply(&mut stuck);
    assert!(
        matches!(step, crate::operation::Step::Done(Ok(_))),
        "{step:?}"
    );
    world.check_in(stuck, Outcome::Completed);
    let resources = cursor.end().expect_err("the server has closed it");
    release_resources(world, resources);
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn an_abort_does_not_wait_behind_such_a_command_either() {
    let mut session = Session::begin();
    let mut cursors = [(); 2].map(|()| cursor_of(&mut session));
    let kill = cursors[0].end().expect("it is open");
    let kill = session.world.begin_exchange(kill);
    let next = cursors[1].more().expect("it is open");
    let world = &mut session.world;
    // The `getMore` waits for the `killCursors`, and the application does not poll it any more.
    let waiting = world.client.start(world.now, next);
    assert!(matches!(waiting, Progress::Waiting(_)), "{waiting:?}");
    let abort = session.command(Step::Abort);
    let exchange = session.world.begin_exchange(abort);
    assert_ne!(exchange.socket(), kill.socket());
}

/// Returns the reply of an overloaded server that has ended the transaction.
fn busy() -> RawDocumentBuf {
    rawdoc! {
        "ok": 0, "code": 462, "errmsg": "busy",
        "errorLabels": ["SystemOverloadedError", "RetryableError", "TransientTransactionError"],
    }
}

#[test]
fn the_retry_of_a_statement_whose_transaction_left_its_connection_uses_another() {
    // The label `TransientTransactionError` unpins the transaction (LB-40), and the labels of an
    // overload permit the retry of the statement (BP-2).
    let mut session = Session::new();
    let command = session.command(Step::Operation);
    let mut exchange = session.world.begin_exchange(command);
    World::answer(&mut exchange, &busy());
    let after = session.world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Again(start) = after else {
        panic!("it is tried again: {after:?}");
    };
    let mut exchange = session.world.exchange_of(start);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    let after = session.world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    // The transaction is pinned again, and its end releases the connection.
    assert_eq!(session.world.client.counts().in_use, 1);
    session.perform(Step::Abort, CommandResult::Success);
    assert_eq!(session.world.client.counts().in_use, 0);
}

#[test]
fn the_end_of_a_transaction_is_sent_although_its_connection_cannot_be_used() {
    // A connection also breaks otherwise than by the network, for example by unexpected bytes.
    for step in [Step::Commit, Step::Abort] {
        let mut session = Session::begin();
        let socket = session.world.client.snapshot().pins[0].socket;
        let broken = crate::client::pins::broken(None);
        session.world.client.pins.interrupt(socket, broken);
        let command = session.command(step);
        let exchange = session.world.begin_exchange(command);
        // Nothing was sent before, so this is the first attempt.
        assert!(World::request(&exchange).get("writeConcern").is_none());
        let AfterExchange::Again(start) = session.world.check_in(exchange, reset()) else {
            panic!("{step:?} is tried again");
        };
        let mut exchange = session.world.exchange_of(start);
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        let after = session.world.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{step:?}");
    }
}

#[test]
fn the_retry_of_a_statement_uses_a_third_connection_if_the_second_one_is_closed() {
    // A connection that was closed while it was idle is no attempt, also not of a retry.
    let mut session = Session::new();
    let world = &mut session.world;
    for mut exchange in [world.begin_exchange(ping()), world.begin_exchange(ping())] {
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
    }
    let command = session.command(Step::Operation);
    let world = &mut session.world;
    let mut exchange = world.begin_exchange(command);
    World::answer(&mut exchange, &busy());
    let AfterExchange::Again(Progress::Waiting(id)) = world.check_in(exchange, Outcome::Completed)
    else {
        panic!("it backs off");
    };
    world.wait(std::time::Duration::from_secs(2));
    let Progress::Exchange(exchange) = world.client.resume(world.now, id) else {
        panic!("a connection is idle");
    };
    let closed = Error::network(NetworkFault::Closed, "closed");
    let next = world.client.refuse(world.now, exchange, closed);
    let mut exchange = world.exchange_of(next);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
}
