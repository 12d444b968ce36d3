//! Walks through all states of small pools behind a load balancer.

use crate::explorer::{Bounds, SMALL, are_all_found, explore};
use onionskin_models::pool::Mistake;

/// Three requests, two connections at most and two services. One clear of a service is permitted.
const BALANCED: Bounds = Bounds {
    services: 2,
    service_clears: 1,
    ..SMALL
};

/// Services multiply the number of states, so these worlds have two requests only.
const TWO_REQUESTS: Bounds = Bounds {
    requests: 2,
    ..BALANCED
};

#[test]
fn every_interleaving_of_service_clears() {
    let mut bounds = TWO_REQUESTS;
    (bounds.max_connecting, bounds.due) = (2, 1);
    explore(bounds, 3_604, 15);
}

#[test]
fn every_interleaving_of_service_clears_and_cancelled_check_outs() {
    let mut bounds = BALANCED;
    (bounds.cancels, bounds.close) = (1, true);
    explore(bounds, 16_474, 18);
}

#[test]
fn every_interleaving_of_three_services_and_population() {
    let mut bounds = TWO_REQUESTS;
    (bounds.services, bounds.service_clears) = (3, 1);
    (bounds.min_size, bounds.max_connecting) = (1, 2);
    explore(bounds, 6_817, 16);
}

#[test]
fn every_interleaving_of_pinned_connections() {
    let mut bounds = TWO_REQUESTS;
    (bounds.services, bounds.pins) = (1, 2);
    bounds.deadlines = 1;
    explore(bounds, 1_965, 16);
}

#[test]
fn exploring_a_small_load_balanced_pool_finds_model_mistakes() {
    use Mistake as M;
    let mut pinned = BALANCED;
    (pinned.max_size, pinned.pins, pinned.deadlines) = (1, 1, 1);
    let mut twice = pinned;
    twice.pins = 2;
    let clears = [
        M::ServiceClearPauses,
        M::ServiceClearFailsQueue,
        M::ServiceClearHitsAll,
        M::ServiceClearClosesPending,
        M::ClearMakesService,
        M::ServiceNotForgotten,
        M::ForgottenTooEarly,
        M::BeginsAtPoolGeneration,
        M::GenerationAtTheEnd,
        M::StaleBetweenFreshStays,
        M::StaleEstablishmentFails,
        M::RequeuedGoesLast,
    ];
    let clears = clears.map(|mistake| (BALANCED, mistake));
    let others = [
        (pinned, M::PinNotReleased),
        (twice, M::CursorInTransactionCountsTwice),
        (pinned, M::FullIsNotReported),
        (pinned, M::EstablishingReportsUsers),
    ];
    are_all_found(clears.into_iter().chain(others));
}
