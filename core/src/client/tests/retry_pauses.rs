//! Tests of the pauses between the attempts of an operation.

use super::{
    retries::{LIMIT, URI, timed, unreachable},
    *,
};
use std::time::Duration;

#[test]
fn an_operation_with_a_time_limit_is_retried_with_growing_pauses() {
    for command in [find, insert] {
        let mut world = World::new(URI, primary());
        let mut exchange = world.begin_exchange(timed(command(), LIMIT));
        let id = exchange.operation();
        let mut attempts = Vec::new();
        let error = loop {
            attempts.push(world.now);
            World::answer(&mut exchange, &unreachable());
            match world.check_in(exchange, Outcome::Completed) {
                AfterExchange::Done(Err(error)) => break error,
                AfterExchange::Again(Progress::Exchange(again)) => {
                    exchange = again;
                    exchange.begin(world.now).expect("it fits");
                    continue;
                }
                AfterExchange::Again(Progress::Waiting(waiting)) => assert_eq!(waiting, id),
                other => panic!("{other:?}"),
            }
            let next = loop {
                world.wait(Duration::from_millis(1));
                match world.client.resume(world.now, id) {
                    Progress::Waiting(_) => {}
                    next => break next,
                }
            };
            exchange = match next {
                Progress::Exchange(exchange) => exchange,
                Progress::Failed(error) => break error,
                other => panic!("{other:?}"),
            };
            exchange.begin(world.now).expect("it fits");
        };
        assert!(error.is_timeout(), "{error:?}");
        // The second attempt follows at once. The pauses before later attempts last at most 10 ms,
        // 20 ms, 40 ms and so on, up to 500 ms, and at least half of that.
        assert_eq!(attempts[0], attempts[1]);
        let pauses: Vec<_> = attempts
            .windows(2)
            .skip(1)
            .map(|two| two[1] - two[0])
            .collect();
        for (number, pause) in pauses.iter().enumerate() {
            let longest = Duration::from_millis((10 << number.min(6)).min(500));
            let shortest = longest / 2;
            assert!(
                (shortest..=longest + Duration::from_millis(1)).contains(pause),
                "{pauses:?}"
            );
        }
        assert!((20..50).contains(&attempts.len()), "{}", attempts.len());
    }
}
