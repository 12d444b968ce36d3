//! Questions of programs: their answers, their limits, and their ends without an answer.

use super::*;
use crate::{
    client::{Finding, Inquiry, MAX_BLOCKING_INQUIRIES, QUESTION_LIMIT},
    operation::{Ask, Program, Runner, Span, Step},
};
use std::time::Duration;

const URI: &str = "mongodb://a/?directConnection=true";

fn ask(timeout: Option<Duration>) -> Ask {
    Ask {
        inquiry: Inquiry::Environment(&["A"]),
        timeout,
    }
}

fn found() -> Answer {
    Answer::Found(Ok(Finding::Environment(Vec::new())))
}

/// Asks a question, and returns the ids of the operation and of the question.
fn asked(world: &mut World, ask: Ask) -> (OperationId, QuestionId) {
    let start = world
        .client
        .ask_in(world.now, &mut Span::default(), ask, None);
    world.run();
    let Progress::Waiting(id) = start else {
        panic!("it is not asked: {start:?}");
    };
    (id, *world.inquiries.last().expect("a question"))
}

#[test]
fn an_answer_goes_to_the_operation_that_asked() {
    let mut world = World::new(URI, primary());
    let (first, first_question) = asked(&mut world, ask(None));
    let (second, second_question) = asked(&mut world, ask(None));
    assert!(first != second && first_question != second_question);
    world
        .client
        .handle_answer(world.now, second_question, found());
    world.run();
    assert_eq!(world.woken, [second]);
    let progress = world.client.resume(world.now, first);
    assert!(matches!(progress, Progress::Waiting(_)), "{progress:?}");
    let progress = world.client.resume(world.now, second);
    assert!(
        matches!(progress, Progress::Answered(Ok(_))),
        "{progress:?}"
    );
    // An answer of the wrong type is no answer.
    world
        .client
        .handle_answer(world.now, first_question, Answer::None);
    world.run();
    let progress = world.client.resume(world.now, first);
    assert!(
        matches!(progress, Progress::Answered(Err(_))),
        "{progress:?}"
    );
}

#[test]
fn a_question_ends_at_the_time_limit_of_its_operation() {
    let mut world = World::new(URI, primary());
    let limit = Duration::from_secs(2);
    let (id, question) = asked(&mut world, ask(Some(limit)));
    world.wait(limit - Duration::from_millis(1));
    assert_eq!(world.woken, []);
    world.wait(Duration::from_millis(1));
    assert_eq!(
        (&world.woken[..], &world.withdrawn[..]),
        (&[id][..], &[question][..])
    );
    let progress = world.client.resume(world.now, id);
    let Progress::Failed(error) = progress else {
        panic!("it goes on: {progress:?}");
    };
    assert!(error.is_timeout(), "{error}");
}

#[test]
fn a_question_without_a_time_limit_ends_at_the_limit_of_questions() {
    let mut world = World::new(URI, primary());
    let (id, question) = asked(&mut world, ask(Some(Duration::ZERO)));
    world.wait(QUESTION_LIMIT);
    assert_eq!(world.withdrawn, [question]);
    let progress = world.client.resume(world.now, id);
    assert!(
        matches!(progress, Progress::Answered(Err(_))),
        "{progress:?}"
    );
}

#[test]
fn a_cancelled_operation_withdraws_its_question() {
    let mut world = World::new(URI, primary());
    let (id, question) = asked(&mut world, ask(None));
    world.client.cancel(world.now, id);
    world.run();
    assert_eq!(world.withdrawn, [question]);
    let progress = world.client.resume(world.now, id);
    assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
    assert_eq!(world.client.counts().waiting, 0);
}

#[test]
fn the_end_of_the_client_fails_the_operations_that_ask() {
    let mut world = World::new(URI, primary());
    let (id, question) = asked(&mut world, ask(None));
    let (answered, other) = asked(&mut world, ask(None));
    world.client.handle_answer(world.now, other, found());
    world.client.close(world.now);
    world.run();
    assert_eq!(world.withdrawn, [question]);
    let progress = world.client.resume(world.now, id);
    assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
    let progress = world.client.resume(world.now, answered);
    assert!(
        matches!(progress, Progress::Answered(Ok(_))),
        "{progress:?}"
    );
    let start = world
        .client
        .ask_in(world.now, &mut Span::default(), ask(None), None);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    world.run();
    assert_empty(&world.client);
}

/// A thread stays occupied after its operation has left.
#[test]
fn programs_occupy_a_bounded_number_of_threads() {
    let mut world = World::new(URI, primary());
    let blocking = || Ask {
        inquiry: Inquiry::File("a".to_owned()),
        timeout: None,
    };
    for _ in 0..MAX_BLOCKING_INQUIRIES {
        let (id, _) = asked(&mut world, blocking());
        world.client.cancel(world.now, id);
    }
    world.run();
    assert_eq!(world.withdrawn, []);
    let refused = world
        .client
        .ask_in(world.now, &mut Span::default(), blocking(), None);
    assert!(matches!(refused, Progress::Answered(Err(_))), "{refused:?}");
    let first = world.inquiries[0];
    world.client.handle_answer(world.now, first, Answer::None);
    asked(&mut world, blocking());
}

/// The question is the first step, so it begins the time limit of the operation.
#[test]
fn a_command_after_a_question_has_the_time_that_is_left() {
    let mut world = World::new(URI, primary());
    let mut span = Span::default();
    let limit = Some(Duration::from_secs(10));
    let start = world.client.ask_in(world.now, &mut span, ask(limit), None);
    world.run();
    let Progress::Waiting(asking) = start else {
        panic!("it is not asked: {start:?}");
    };
    world.wait(Duration::from_secs(4));
    let question = world.inquiries[0];
    world.client.handle_answer(world.now, question, found());
    let progress = world.client.resume(world.now, asking);
    assert!(
        matches!(progress, Progress::Answered(Ok(_))),
        "{progress:?}"
    );
    let mut ping = Command::new("ping", "admin", CommandKind::Run);
    ping.body().i32("ping", 1);
    let start = world.client.start_in(world.now, &mut span, ping);
    let exchange = world.exchange_of(start);
    assert_eq!(exchange.operation(), asking);
    let millis = World::request(&exchange).get_i32("maxTimeMS");
    assert_eq!(millis.ok(), Some(6_000));
}

/// A program that asks while it reads a reply, and then reads the document that it has put in its
/// place.
struct Rewritten;

impl Program for Rewritten {
    type Output = i32;

    fn start(&mut self) -> Step<i32> {
        let mut command = Command::new("x", "app", CommandKind::Run);
        command.body().i32("x", 1);
        Step::Run(command)
    }

    fn handle_reply(&mut self, _: &mut Exchange) -> Step<i32> {
        Step::Ask(Box::new(ask(None)))
    }

    fn handle_answer(
        &mut self,
        _: Result<Finding, String>,
        exchange: Option<&mut Exchange>,
    ) -> Step<i32> {
        let exchange = exchange.expect("it asked while it read a reply");
        exchange.replace_reply(rawdoc! { "plain": 7 });
        let plain = exchange.reply().expect("a reply").get_i32("plain").ok();
        let taken = exchange.take_reply().expect("a reply");
        assert_eq!(taken.document().get_i32("plain").ok(), plain);
        // Nothing can be replaced once the reply was taken.
        exchange.replace_reply(rawdoc! { "plain": 8 });
        assert!(exchange.reply().is_none());
        Step::Done(plain.ok_or_else(|| Error::argument("it is a number")))
    }
}

#[test]
fn a_program_replaces_a_reply_after_an_answer() {
    let mut world = World::new(URI, primary());
    let mut runner = Runner::new(Rewritten);
    let Step::Run(command) = runner.start() else {
        panic!("it begins with a command");
    };
    let start = world.client.start_in(world.now, runner.span(), command);
    let mut exchange = world.exchange_of(start);
    let socket = exchange.socket();
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "secret": [1, 2, 3] });
    exchange.end(&Outcome::Completed);
    let step = runner.handle_end(&mut exchange, &Outcome::Completed);
    let Some(Step::Ask(ask)) = step else {
        panic!("it does not ask: {step:?}");
    };
    let start = world
        .client
        .ask_in(world.now, runner.span(), *ask, Some(&mut exchange));
    world.run();
    let Progress::Waiting(id) = start else {
        panic!("it is not asked: {start:?}");
    };
    let question = world.inquiries[0];
    world.client.handle_answer(world.now, question, found());
    world.run();
    let Progress::Answered(answer) = world.client.resume(world.now, id) else {
        panic!("there is no answer");
    };
    let step = runner.handle_answer(answer, Some(&mut exchange));
    assert!(matches!(step, Step::Done(Ok(7))), "{step:?}");
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    // The reply was removed from the buffer, so the connection is used again.
    let again = world.begin_exchange(Command::new("x", "app", CommandKind::Run));
    assert_eq!(again.socket(), socket);
    world.check_in(again, Outcome::Abandoned);
}

/// Begins an exchange, receives its reply, and asks a question that keeps its connection.
fn asked_during_an_exchange(world: &mut World) -> (Exchange, OperationId, QuestionId) {
    let mut ping = Command::new("ping", "admin", CommandKind::Run);
    ping.body().i32("ping", 1);
    let mut exchange = world.begin_exchange(ping);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    let mut span = Span::default();
    let held = Some(&mut exchange);
    let start = world.client.ask_in(world.now, &mut span, ask(None), held);
    world.run();
    let Progress::Waiting(id) = start else {
        panic!("it is not asked: {start:?}");
    };
    (exchange, id, *world.inquiries.last().expect("a question"))
}

/// The reply has arrived, so `socketTimeoutMS` does not limit the question. The time of the
/// question is no use of the connection.
#[test]
fn a_question_keeps_the_connection_longer_than_the_socket_timeout() {
    let mut world = World::new(&format!("{URI}&socketTimeoutMS=500"), primary());
    let (exchange, id, question) = asked_during_an_exchange(&mut world);
    let socket = exchange.socket();
    world.wait(Duration::from_secs(10));
    assert!(world.interrupted.is_empty() && world.closed.is_empty());
    world.client.handle_answer(world.now, question, found());
    world.run();
    let progress = world.client.resume(world.now, id);
    assert!(
        matches!(progress, Progress::Answered(Ok(_))),
        "{progress:?}"
    );
    world.check_in(exchange, Outcome::Completed);
    let start = world
        .client
        .start(world.now, Command::new("x", "app", CommandKind::Run));
    let Progress::Exchange(next) = start else {
        panic!("no connection: {start:?}");
    };
    assert!(next.socket() == socket && next.wants_idle_check());
    world.check_in(next, Outcome::Abandoned);
}

/// A future that is not polled after the answer does not keep its connection for ever.
#[test]
fn a_connection_is_taken_back_after_the_limit_of_a_question() {
    let mut world = World::new(URI, primary());
    let (exchange, id, question) = asked_during_an_exchange(&mut world);
    world.client.handle_answer(world.now, question, found());
    world.run();
    world.wait(QUESTION_LIMIT);
    assert_eq!(world.closed.len(), 0);
    world.wait(Duration::from_secs(1));
    assert!(world.closed.contains(&exchange.socket()));
    let progress = world.client.resume(world.now, id);
    assert!(
        matches!(progress, Progress::Answered(Ok(_))),
        "{progress:?}"
    );
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    assert_eq!(world.client.counts().in_use, 0);
}

/// The program that would have owned the cursor of the reply was given up during its question.
#[test]
fn a_cursor_of_a_reply_that_was_kept_during_a_question_is_closed_with_the_operation() {
    let mut world = World::new(URI, primary());
    let mut find = Command::new("find", "app", CommandKind::Read);
    find.body().str("find", "things");
    let mut exchange = world.begin_exchange(find);
    let cursor = rawdoc! { "id": 7_i64, "ns": "app.things", "firstBatch": [] };
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "cursor": cursor });
    let mut span = Span::default();
    let held = Some(&mut exchange);
    let start = world.client.ask_in(world.now, &mut span, ask(None), held);
    world.run();
    let Progress::Waiting(id) = start else {
        panic!("it is not asked: {start:?}");
    };
    world.client.cancel(world.now, id);
    world.check_in(exchange, Outcome::Abandoned);
    let names: Vec<_> = world.background.iter().map(Command::name).collect();
    assert_eq!(names, ["killCursors"]);
    assert_eq!(world.client.counts().in_use, 0);
}

/// A call that a program has given up occupies its thread, and is no call of a credential provider.
#[test]
fn a_stuck_call_of_a_program_does_not_hold_up_credentials() {
    let mut world = World::new(URI, primary());
    let blocking = Ask {
        inquiry: Inquiry::File("a".to_owned()),
        timeout: None,
    };
    let (id, _) = asked(&mut world, blocking);
    world.client.cancel(world.now, id);
    world.run();
    assert_eq!(world.client.snapshot().questions.len(), 1);
    assert!(!world.client.questions.has_overdue_inquiry());
}
