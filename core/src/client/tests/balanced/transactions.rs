//! Tests of transactions, which pin their connections and share them with their cursors. The tests
//! act as the owner of a transaction does.

use super::*;
use crate::{
    error::Label,
    operation::{TransactionPin, TransactionStep},
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
    let start = world.client.start(world.now, hasty);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
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
fn a_failed_commit_checks_in_its_connection_before_the_retry_checks_out_another() {
    // A commit that fails with `UnknownTransactionCommitResult` makes the owner of the transaction
    // release the pin (LB-40). The old connection is checked in and closed before the retry checks
    // out another one (LB trap 9).
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let commit = || {
        let mut command = Command::new("commitTransaction", "admin", CommandKind::RetryableWrite);
        command.body().i32("commitTransaction", 1);
        command.set_session(SessionUse::None);
        command
    };
    let mut first = commit();
    first.set_pin(&pin);
    let exchange = world.begin_exchange(first);
    let socket = exchange.socket();
    take_events(&mut world);
    let after = world.check_in(exchange, reset());
    // The owner of the transaction retries the commit. The client does not.
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    assert_eq!(take_events(&mut world), ["cleared 1"]);
    world.client.release(world.now, pin);
    world.run();
    let mut exchange = world.begin_exchange(commit());
    assert_ne!(exchange.socket(), socket);
    assert_eq!(
        take_events(&mut world),
        [
            "in 1",
            "closed 1: Error",
            "started",
            "created 2",
            "ready 2",
            "out 2"
        ]
    );
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 2"]);
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

/// The result of a command.
#[derive(Clone, Copy, Debug)]
enum CommandResult {
    Success,
    /// The server replies with an error that has this code and, if one is given, this label.
    ServerError(i32, Option<&'static str>),
    /// A network error occurs, and the owner of the transaction adds this label.
    NetworkError(&'static str),
}

/// A session with a transaction. The test acts as its owner.
struct Session {
    world: World,
    pin: TransactionPin,
}

impl Session {
    /// Returns a session that has inserted a document in its transaction.
    fn begin() -> Self {
        let mut session = Self {
            world: world(),
            pin: TransactionPin::default(),
        };
        session.perform(TransactionStep::Operation, CommandResult::Success);
        assert_eq!(
            take_events(&mut session.world),
            ["started", "created 1", "ready 1", "out 1"]
        );
        session
    }

    /// Runs a command of the transaction, and releases the pin if the result requires that.
    fn perform(&mut self, step: TransactionStep, command_result: CommandResult) {
        let mut command = insert();
        self.pin.apply(&mut command);
        let mut exchange = self.world.begin_exchange(command);
        self.pin.keep(&mut exchange);
        let outcome = match command_result {
            CommandResult::NetworkError(_) => reset(),
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
        let result = match self.world.check_in(exchange, outcome) {
            AfterExchange::Done(result) => result,
            AfterExchange::Again(_) => panic!("the owner tries again, not the client"),
        };
        let result = match (result, command_result) {
            (Err(error), CommandResult::NetworkError(label)) => {
                Err(error.with_label(Label::from_name(label)))
            }
            (result, _) => result,
        };
        self.after(step, result.as_ref().copied());
    }

    fn after(&mut self, step: TransactionStep, result: Result<(), &Error>) {
        if let Some(pin) = self.pin.after(step, result) {
            self.world.client.release(self.world.now, pin);
            self.world.run();
        }
    }
}

#[test]
fn a_transaction_unpins_its_connection_when_a_sharded_one_unpins_its_mongos() {
    // A transaction unpins its connection in the cases in which a sharded transaction unpins its
    // mongos (LB-40).
    use CommandResult::{NetworkError, ServerError, Success};
    use TransactionStep as Step;
    let transient = Some("TransientTransactionError");
    let unknown = Some("UnknownTransactionCommitResult");
    let back: &[&str] = &["in 1"];
    let broken: &[&str] = &["cleared 1", "in 1", "closed 1: Error"];
    let cases = [
        (Step::Operation, Success, &[][..]),
        (Step::Operation, ServerError(51, None), &[]),
        (Step::Operation, ServerError(24, transient), back),
        (
            Step::Operation,
            NetworkError("TransientTransactionError"),
            broken,
        ),
        (Step::Commit, Success, &[]),
        (Step::Commit, ServerError(51, None), &[]),
        (Step::Commit, ServerError(24, transient), back),
        (Step::Commit, ServerError(50, unknown), back),
        (
            Step::Commit,
            NetworkError("UnknownTransactionCommitResult"),
            broken,
        ),
        (Step::Abort, Success, back),
        (Step::Abort, ServerError(51, None), back),
        (Step::Abort, ServerError(24, transient), back),
        (
            Step::Abort,
            NetworkError("TransientTransactionError"),
            broken,
        ),
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
    for step in [Step::Abort, Step::Start, Step::Outside, Step::End] {
        let mut session = Session::begin();
        // A commit that succeeded may be repeated on the same connection.
        session.perform(Step::Commit, Success);
        session.perform(Step::Commit, Success);
        assert!(take_events(&mut session.world).is_empty());
        session.after(step, Ok(()));
        assert_eq!(take_events(&mut session.world), ["in 1"], "{step:?}");
        session.after(Step::End, Ok(()));
        assert!(
            take_events(&mut session.world).is_empty(),
            "it goes back once"
        );
    }
}

#[test]
fn a_transaction_stays_pinned_if_its_first_command_fails() {
    // A transaction has one check out and one check in (LB-31), even if its first command fails.
    let mut session = Session {
        world: world(),
        pin: TransactionPin::default(),
    };
    session.perform(
        TransactionStep::Operation,
        CommandResult::ServerError(51, None),
    );
    assert_eq!(
        take_events(&mut session.world),
        ["started", "created 1", "ready 1", "out 1"]
    );
    session.after(TransactionStep::Abort, Ok(()));
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
