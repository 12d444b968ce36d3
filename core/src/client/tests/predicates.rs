//! Tests of operations whose servers a function of the application accepts.

use super::{World, find, insert, mongos, ping, primary, retries::unreachable};
use crate::{
    client::{AfterExchange, Outcome, Progress},
    event::Subscriptions,
    operation::Command,
    options::{SelectionCriteria, ServerSelector},
    selection::SelectorQuestion,
    uri,
};
use std::sync::Arc;

/// Returns a command that accepts the servers with this port.
fn at_port(mut command: Command, port: u16) -> Command {
    let accepts =
        move |server: &crate::description::ServerDescription| server.address.port() == Some(port);
    command.set_criteria(&SelectionCriteria::Predicate(Arc::new(accepts)));
    command
}

fn routers(selector: Option<ServerSelector>) -> World {
    let parsed = uri::parse("mongodb://a:1,a:2,a:3").expect("a string");
    let mut options = parsed.options;
    options.server_selector = selector;
    World::with_options(options, mongos(), Subscriptions::default())
}

fn question(start: Progress) -> (crate::operation::OperationId, SelectorQuestion) {
    match start {
        Progress::Asking {
            operation,
            question,
        } => (operation, question),
        other => panic!("the function has a say: {other:?}"),
    }
}

#[test]
fn the_function_of_an_operation_chooses_its_server() {
    let mut world = routers(None);
    for port in [1, 2, 3, 2] {
        let (id, question) = question(world.client.start(world.now, at_port(find(), port)));
        let answer = question.ask();
        let next = world.client.handle_selector_answer(world.now, id, answer);
        let exchange = world.exchange_of(next);
        assert_eq!(exchange.facts().address.port(), Some(port));
    }
    // Other operations ask nothing.
    let start = world.client.start(world.now, ping());
    assert!(!matches!(start, Progress::Asking { .. }), "{start:?}");
}

#[test]
fn the_selector_of_the_client_is_asked_before_the_function() {
    let all_but_first = ServerSelector::new(|servers| {
        servers.retain(|server| server.address.port() != Some(1));
    });
    let mut world = routers(Some(all_but_first));
    for (port, expected) in [(2, Some(2)), (1, None)] {
        let (id, question) = question(world.client.start(world.now, at_port(find(), port)));
        let answer = question.ask();
        let next = world.client.handle_selector_answer(world.now, id, answer);
        match expected {
            Some(_) => {
                let exchange = world.exchange_of(next);
                assert_eq!(exchange.facts().address.port(), expected);
            }
            None => assert!(matches!(next, Progress::Waiting(_)), "{next:?}"),
        }
    }
}

#[test]
fn a_write_ignores_the_function_and_a_primary_can_be_accepted() {
    let uri = "mongodb://a/?replicaSet=rs";
    let mut world = World::with_subscriptions(uri, primary(), Subscriptions::default());
    let (id, question) = question(world.client.start(world.now, at_port(find(), 27017)));
    let answer = question.ask();
    let next = world.client.handle_selector_answer(world.now, id, answer);
    assert_eq!(world.exchange_of(next).facts().address.port(), Some(27017));
    let start = world.client.start(world.now, at_port(insert(), 1));
    let exchange = world.exchange_of(start);
    assert_eq!(exchange.facts().address.port(), Some(27017));
}

#[test]
fn a_retry_returns_to_the_only_server_that_the_function_accepts() {
    // The server of the failed attempt is avoided only if another one suits (SEL-42).
    let mut world = routers(None);
    let (id, first) = question(world.client.start(world.now, at_port(find(), 2)));
    let next = world
        .client
        .handle_selector_answer(world.now, id, first.ask());
    let mut exchange = world.exchange_of(next);
    World::answer(&mut exchange, &unreachable());
    let AfterExchange::Again(again) = world.check_in(exchange, Outcome::Completed) else {
        panic!("a read is tried again");
    };
    let (id, others) = question(again);
    let next = world
        .client
        .handle_selector_answer(world.now, id, others.ask());
    let (id, all) = question(next);
    let next = world
        .client
        .handle_selector_answer(world.now, id, all.ask());
    let exchange = world.exchange_of(next);
    assert_eq!(exchange.facts().address.port(), Some(2));
}
