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
fn a_commit_that_broke_gives_its_connection_up_before_it_is_tried_on_another() {
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
fn a_pin_that_is_released_during_a_command_ends_with_it() {
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
enum Answered {
    Well,
    /// The server replies with an error that has this code and, if one is given, this label.
    Badly(i32, Option<&'static str>),
    /// A network error occurs, and the owner of the transaction adds this label.
    Lost(&'static str),
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
        session.perform(TransactionStep::Operation, Answered::Well);
        assert_eq!(
            take_events(&mut session.world),
            ["started", "created 1", "ready 1", "out 1"]
        );
        session
    }

    /// Runs a command of the transaction, and releases the pin if the result requires that.
    fn perform(&mut self, step: TransactionStep, answered: Answered) {
        let mut command = insert();
        self.pin.apply(&mut command);
        let mut exchange = self.world.begin_exchange(command);
        self.pin.keep(&mut exchange);
        let outcome = match answered {
            Answered::Lost(_) => reset(),
            Answered::Well => {
                World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
                Outcome::Completed
            }
            Answered::Badly(code, label) => {
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
        let result = match (result, answered) {
            (Err(error), Answered::Lost(label)) => Err(error.with_label(Label::from_name(label))),
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
fn a_transaction_lets_go_of_its_connection_where_a_sharded_one_lets_go_of_its_server() {
    // A transaction unpins its connection in the cases in which a sharded transaction unpins its
    // mongos (LB-40).
    use Answered::{Badly, Lost, Well};
    use TransactionStep as Step;
    let transient = Some("TransientTransactionError");
    let unknown = Some("UnknownTransactionCommitResult");
    let back: &[&str] = &["in 1"];
    let broken: &[&str] = &["cleared 1", "in 1", "closed 1: Error"];
    let cases = [
        (Step::Operation, Well, &[][..]),
        (Step::Operation, Badly(51, None), &[]),
        (Step::Operation, Badly(24, transient), back),
        (Step::Operation, Lost("TransientTransactionError"), broken),
        (Step::Commit, Well, &[]),
        (Step::Commit, Badly(51, None), &[]),
        (Step::Commit, Badly(24, transient), back),
        (Step::Commit, Badly(50, unknown), back),
        (Step::Commit, Lost("UnknownTransactionCommitResult"), broken),
        (Step::Abort, Well, back),
        (Step::Abort, Badly(51, None), back),
        (Step::Abort, Badly(24, transient), back),
        (Step::Abort, Lost("TransientTransactionError"), broken),
    ];
    for (step, answered, expected) in cases {
        let mut session = Session::begin();
        session.perform(step, answered);
        assert_eq!(
            take_events(&mut session.world),
            expected,
            "{step:?}, {answered:?}"
        );
        let in_use = usize::from(expected.is_empty());
        assert_eq!(session.world.client.counts().in_use, in_use);
    }
    for step in [Step::Abort, Step::Start, Step::Outside, Step::End] {
        let mut session = Session::begin();
        // A commit that succeeded may be repeated on the same connection.
        session.perform(Step::Commit, Well);
        session.perform(Step::Commit, Well);
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
fn a_first_command_that_fails_has_kept_its_connection_all_the_same() {
    // A transaction has one check out and one check in (LB-31), even if its first command fails.
    let mut session = Session {
        world: world(),
        pin: TransactionPin::default(),
    };
    session.perform(TransactionStep::Operation, Answered::Badly(51, None));
    assert_eq!(
        take_events(&mut session.world),
        ["started", "created 1", "ready 1", "out 1"]
    );
    session.after(TransactionStep::Abort, Ok(()));
    assert_eq!(take_events(&mut session.world), ["in 1"]);
}
