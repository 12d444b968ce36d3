//! Tests of a client that closes while operations wait for pinned connections.

use super::{super::adaptive::overloaded, *};
use crate::error::ErrorKind;

#[test]
fn closing_the_client_fails_each_operation_on_a_pinned_connection_once() {
    // One operation has the last use of the pin and backs off. A later one waits for the late reply
    // on the same connection. The close of the client fails both, and the first one releases the
    // pin. The connection then has no pin holder, and its next operation has failed already.
    let mut world = world();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let [mut left, mut next] = [ping(), ping()];
    left.set_pin(&pin);
    next.set_pin(&pin);
    let mut last = ping();
    last.set_last_use(pin);
    let mut exchange = world.begin_exchange(last);
    World::answer(&mut exchange, &overloaded());
    let after = world.check_in(exchange, Outcome::Completed);
    let AfterExchange::Again(Progress::Waiting(last)) = after else {
        panic!("it backs off: {after:?}");
    };
    let mut left = world.begin_exchange(left);
    left.sent(left.output().len());
    world.check_in(left, Outcome::Abandoned);
    let Progress::Waiting(next) = world.client.start(world.now, next) else {
        panic!("it waits for the reply");
    };
    world.client.close(world.now);
    world.run();
    for id in [last, next] {
        let Progress::Failed(error) = world.client.resume(world.now, id) else {
            panic!("the client is closed");
        };
        assert_eq!(error, ErrorKind::Shutdown, "{id:?}");
    }
    assert!(world.client.is_terminated());
    assert_empty(&world.client);
}
