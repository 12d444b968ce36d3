//! Tests of the application's server selector (SEL-10).

use super::*;
use crate::options::ServerSelector;

fn with(choice: impl Fn(&mut Vec<&ServerDescription>) + Send + Sync + 'static) -> Selector {
    selector().with_server_selector(Some(ServerSelector::new(choice)))
}

fn select(selector: &mut Selector, avoid: &[Address]) -> Result<Option<ServerId>, Error> {
    select_in(selector, &mongos(3), avoid)
}

fn select_in(
    selector: &mut Selector,
    description: &TopologyDescription,
    avoid: &[Address],
) -> Result<Option<ServerId>, Error> {
    let criteria = Criteria::Writable;
    let question = selector.question(1, description, &criteria, avoid, None)?;
    let answer = question.expect("there are servers to ask about").ask();
    selector.select_from_answer(description, id, &criteria, avoid, &answer)
}

#[test]
fn a_server_selector_can_choose_one_server_for_every_operation() {
    // The selector takes the server with the highest port (SEL-P5); here the addresses differ in
    // the host.
    let mut selector = with(|servers| {
        let highest = servers.iter().map(|s| s.address.clone()).max();
        servers.retain(|s| Some(&s.address) == highest.as_ref());
    });
    for _ in 0..10 {
        assert_eq!(select(&mut selector, &[]), Ok(Some(ServerId(2))));
    }
}

#[test]
fn a_server_selector_runs_after_the_filters_and_before_the_latency_window() {
    let mut description = mongos(3);
    let near = description
        .servers
        .get_mut(&address(0))
        .expect("it is there");
    Arc::make_mut(near).round_trip_time = Some(Duration::ZERO);
    let other = description
        .servers
        .get_mut(&address(1))
        .expect("it is there");
    Arc::make_mut(other).server_type = ServerType::Unknown;
    let mut selector = Selector::new(Duration::ZERO, HEARTBEAT, Seed::new([8; 32]).random())
        .with_server_selector(Some(ServerSelector::new(|servers| {
            assert_eq!(servers.len(), 2, "one does not suit");
            servers.retain(|s| s.address != address(0));
        })));
    let found = select_in(&mut selector, &description, &[]);
    assert_eq!(
        found,
        Ok(Some(ServerId(2))),
        "the nearest of those that are left"
    );
}

#[test]
fn an_empty_selector_result_means_wait_and_added_servers_are_ignored() {
    // An empty list means to wait, and is no error (SEL trap 16).
    let mut none = with(|servers| servers.clear());
    assert_eq!(select(&mut none, &[]), Ok(None));
    let alien: &ServerDescription = Box::leak(Box::new(ServerDescription::unknown(Address::tcp(
        "alien", 1,
    ))));
    let mut adding = with(move |servers| *servers = vec![alien]);
    assert_eq!(select(&mut adding, &[]), Ok(None));
}

#[test]
fn a_panic_in_the_server_selector_fails_only_that_selection() {
    // After a panic of the selector, later selections work (scenario 12).
    let calls = std::sync::atomic::AtomicU32::new(0);
    let mut selector = with(move |_| {
        let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(call != 1, "the second call fails");
    });
    assert!(select(&mut selector, &[]).is_ok());
    let error = select(&mut selector, &[]).expect_err("it panicked");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
        "{error}"
    );
    assert!(select(&mut selector, &[address(0)]).is_ok());
}
