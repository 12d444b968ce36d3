//! Tests of `Client::abandon`, which a shell calls if its runtime has ended.

use super::*;
use crate::{client::Counts, error::ErrorKind};

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=1";

fn why() -> Error {
    Error::runtime("the runtime has ended")
}

#[test]
fn an_abandoned_client_fails_all_operations_with_the_reason() {
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(ping());
    let socket = exchange.socket();
    let Progress::Waiting(waiting) = world.client.start(world.now, insert()) else {
        panic!("there is one connection");
    };
    world.client.abandon(world.now, &why());
    world.run();
    assert!(world.woken.contains(&waiting));
    let Progress::Failed(error) = world.client.resume(world.now, waiting) else {
        panic!("it waits for nobody");
    };
    assert_eq!(&error, why().kind());
    let [(interrupted, error)] = &world.interrupted[..] else {
        panic!("one exchange is under way: {:?}", world.interrupted);
    };
    assert_eq!(*interrupted, socket);
    assert_eq!(error, why().kind());
    // The socket failed because the runtime ended. The attempt ends with that reason instead of the
    // error of the socket.
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, reset()) else {
        panic!("nothing is tried again");
    };
    assert_eq!(&error, why().kind());
    let Progress::Failed(error) = world.client.start(world.now, ping()) else {
        panic!("nothing begins any more");
    };
    assert_eq!(&error, why().kind());
    assert_eq!(world.client.counts(), Counts::default());
    assert!(world.client.is_terminated());
    assert_eq!(world.client.deadline(), None);
}

#[test]
fn abandoning_a_terminated_client_does_not_change_its_error() {
    let mut world = World::new(URI, primary());
    world.client.close(world.now);
    world.run();
    assert!(world.client.is_terminated());
    world.client.abandon(world.now, &why());
    let Progress::Failed(error) = world.client.start(world.now, ping()) else {
        panic!("nothing begins any more");
    };
    assert_eq!(error, ErrorKind::Shutdown);
}

#[test]
fn abandoning_a_closing_client_interrupts_its_exchange() {
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(ping());
    world.client.close(world.now);
    world.run();
    assert!(!world.client.is_terminated());
    world.client.abandon(world.now, &why());
    world.run();
    assert_eq!(world.interrupted.len(), 1);
    let after = world.check_in(exchange, reset());
    assert!(matches!(after, AfterExchange::Done(Err(error)) if &error == why().kind()));
    assert!(world.client.is_terminated());
}
