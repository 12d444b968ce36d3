//! Properties that the discovery machine has for all inputs (section E.6).

use crate::{
    bench::{Bench, options},
    cases,
    script::{Deployment, Input, Script, play, scripts},
};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId};
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyDescription, TopologyType},
    time::Instant,
    unstable::{
        hello::HelloAnswer,
        sdam::{MAX_SERVERS, Order, Sdam},
    },
};
use onionskin_models::discovery::Config;
use onionskin_worlds::strategies::{
    ReplicaSet, Role, Step, address, replica_set_histories, replica_set_steps,
};
use proptest::{collection::vec, prelude::*, test_runner::TestCaseError};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

fn failed(what: String) -> TestCaseError {
    TestCaseError::fail(what)
}

proptest! {
    #![proptest_config(cases(100))]

    // The bench and its watcher check the properties E.6-1 to E.6-6 and E.6-9. For example, there
    // is at most one primary, and the events give the same description as the machine. A server has
    // one check at a time, at the permitted times, and each check ends once. A server that can be
    // selected has a ready pool. Stale inputs change nothing, and after the close nothing is left.
    #[test]
    fn no_reply_violates_an_invariant_of_sdam(script in scripts(Deployment::LyingHugely)) {
        let mut bench = Bench::alone(&script.config).map_err(failed)?;
        script.play(&mut bench).map_err(failed)?;
        prop_assert!(bench.sdam.description().servers.len() <= MAX_SERVERS);
        bench.close().map_err(failed)?;
        prop_assert!(bench.sdam.description().servers.is_empty());
    }

    // The same inputs give the same orders (E.6-10).
    #[test]
    fn the_same_inputs_give_the_same_sdam_actions(script in scripts(Deployment::Lying)) {
        let run = || -> Result<_, TestCaseError> {
            let mut bench = Bench::alone(&script.config).map_err(failed)?;
            bench.log = Some(Vec::new());
            script.play(&mut bench).map_err(failed)?;
            Ok(bench.log)
        };
        prop_assert_eq!(run()?, run()?);
    }

    #[test]
    fn the_election_id_of_the_primary_never_decreases(script in scripts(Deployment::ReplicaSet)) {
        let mut bench = Bench::alone(&script.config).map_err(failed)?;
        let mut newest: Option<ObjectId> = None;
        for input in without_random_hellos(&script) {
            play(&mut bench, input, false).map_err(failed)?;
            let primary = bench.sdam.description().primary().cloned();
            let Some(id) = primary.as_ref().and_then(|p| p.election_id) else {
                continue;
            };
            prop_assert!(Some(id) >= newest, "{} after {newest:?}", bench.sdam.description());
            newest = Some(id);
        }
    }

    #[test]
    fn only_the_reply_of_a_primary_removes_other_servers(script in scripts(Deployment::Lying)) {
        let mut bench = Bench::alone(&script.config).map_err(failed)?;
        for input in &script.inputs {
            let before = bench.sdam.description().clone();
            let lives = bench.lives.clone();
            play(&mut bench, input, false).map_err(failed)?;
            let after = bench.sdam.description();
            let gone: Vec<&Address> = before
                .servers
                .keys()
                .filter(|address| !after.servers.contains_key(*address))
                .collect();
            if gone.is_empty() || matches!(input, Input::Close) {
                continue;
            }
            let (speaker, reply) = match input {
                Input::Ask(address, Some(reply), ..) => (address, reply),
                Input::Handshake(server, reply) => (&lives[server % lives.len()].address, reply),
                other => return Err(failed(format!("{other:?} removed {gone:?}"))),
            };
            let itself = gone == [speaker] && removes_its_own_server(&before, speaker, reply);
            prop_assert!(
                claims_to_be_primary(reply) || itself,
                "{reply:?} of {speaker} removed {gone:?} from {before}"
            );
        }
    }

    #[test]
    fn hello_replies_in_any_order_violate_no_invariant_of_sdam(
        history in replica_set_histories(),
        turns in vec(0_usize..16, 16),
    ) {
        let mut config = Config::new(history.seeds);
        config.replica_set = history.set_name;
        let mut hellos = history.hellos;
        hellos.truncate(turns.len());
        let mut order = Vec::new();
        for turn in turns.iter().take(hellos.len()) {
            order.push(hellos.remove(turn % hellos.len()));
        }
        let mut bench = Bench::alone(&config).map_err(failed)?;
        for hello in order {
            let round_trip = Duration::from_millis(1);
            bench.ask(&hello.server, hello.reply.as_deref(), round_trip, false).map_err(failed)?;
        }
    }

    #[test]
    fn an_unchanged_replica_set_gives_the_same_topology_in_any_order_of_replies(
        steps in vec(replica_set_steps(), 0..20),
        wire in prop::sample::select(vec![8, 16, 17, 21]),
        orders in vec(Just([0_usize, 1, 2, 3, 4]).prop_shuffle(), 4),
    ) {
        let mut set = ReplicaSet::new(&[Role::Normal; 4], 5, wire);
        for step in steps {
            set.step(step);
        }
        for member in 0..5 {
            set.step(Step::Start(member));
            set.step(Step::Learn(member));
        }
        let mut outcomes = BTreeSet::new();
        for order in orders {
            outcomes.insert(discover(&set, &order).map_err(failed)?);
        }
        prop_assert_eq!(outcomes.len(), 1, "{:?}", outcomes);
    }

    #[test]
    fn event_subscribers_do_not_change_sdam_actions(script in scripts(Deployment::ReplicaSet)) {
        prop_assert_eq!(actions_of(&script, true), actions_of(&script, false));
    }
}

// An unreachable server is checked every `heartbeatFrequencyMS` (E.6-8, SDAM-31), and every 500 ms
// while an operation waits (SDAM-119).
#[test]
fn an_unreachable_server_is_checked_more_often_while_operations_wait() -> Result<(), String> {
    let server = address(0);
    for (waiting, expected) in [(false, 7), (true, 121)] {
        let mut bench = Bench::paired(&Config::new([server.clone()]), None)?;
        let mut checks = 0;
        bench.set_waiting(waiting)?;
        for _ in 0..=120 {
            checks += u32::from(bench.fail(&server, false)?);
            bench.pass(Duration::from_millis(500))?;
        }
        assert_eq!(checks, expected, "within a minute, waiting: {waiting}");
    }
    Ok(())
}

/// Returns the inputs without those whose hello replies are random and do not come from the
/// simulated replica set.
fn without_random_hellos(script: &Script) -> impl Iterator<Item = &Input> {
    let drawn = |input: &&Input| !matches!(input, Input::Handshake(..) | Input::Late(..));
    script.inputs.iter().filter(drawn)
}

fn says(reply: &RawDocument, key: &str) -> bool {
    let value = reply.get(key).ok().flatten();
    value.is_some_and(|v| v.as_bool() == Some(true) || v.as_i32().is_some_and(|n| n != 0))
}

fn claims_to_be_primary(reply: &RawDocument) -> bool {
    let writable = says(reply, "isWritablePrimary") || says(reply, "ismaster");
    writable && reply.get_str("setName").is_ok()
}

/// True if the reply makes the client remove the server that sent it. Such a reply has a server
/// type that the topology cannot contain, another set name, or another `me`.
fn removes_its_own_server(
    known: &TopologyDescription,
    speaker: &Address,
    reply: &RawDocument,
) -> bool {
    let me = reply.get_str("me").ok();
    let me = me.and_then(|me| me.parse::<Address>().ok());
    let renamed = me.is_some_and(|me| me != *speaker);
    let set_name = reply.get_str("setName").ok();
    let router = set_name.is_none() && reply.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    match known.topology_type {
        TopologyType::Sharded => !router || says(reply, "isreplicaset"),
        TopologyType::Unknown => set_name.is_none() && !router || renamed,
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            set_name.is_none() || set_name != known.set_name.as_deref() || renamed
        }
        TopologyType::Single | TopologyType::LoadBalanced => false,
    }
}

/// Answers checks of the members in this order, four times. Returns the resulting topology type and
/// server types.
fn discover(
    set: &ReplicaSet,
    order: &[usize],
) -> Result<(TopologyType, BTreeMap<Address, ServerType>), String> {
    let mut config = Config::new(order.iter().map(|&member| set.address(member)));
    config.replica_set = Some("rs".to_owned());
    let mut bench = Bench::alone(&config)?;
    for _ in 0..4 {
        for &member in order {
            let reply = set.hello(member, false);
            let round_trip = Duration::from_millis(1);
            bench.ask(&set.address(member), reply.as_deref(), round_trip, false)?;
        }
    }
    let now = bench.sdam.description();
    let servers = now.servers.iter();
    let plain = |kind| match kind {
        ServerType::PossiblePrimary => ServerType::Unknown,
        other => other,
    };
    let servers = servers.map(|(address, s)| (address.clone(), plain(s.server_type)));
    Ok((now.topology_type, servers.collect()))
}

/// Lets 700 ms pass for each input of the script, and plays `Request`, `Waiting`, `Close` and each
/// `Ask` with a reply. Returns the orders of the machine without its events.
fn actions_of(script: &Script, subscribed: bool) -> Vec<String> {
    let mut options = options(&script.config);
    options.subscribed = subscribed;
    let mut sdam = Sdam::new(options);
    let mut now = Instant::ZERO;
    let mut orders = Vec::new();
    let mut opened = BTreeMap::new();
    sdam.start(now);
    let mut drain = |sdam: &mut Sdam, opened: &mut BTreeMap<Address, _>| {
        while let Some(order) = sdam.poll_order() {
            if let Order::Open {
                connection: check,
                address,
                ..
            } = &order
            {
                opened.insert(address.clone(), *check);
            }
            if !matches!(order, Order::Emit(_)) {
                orders.push(format!("{order:?}"));
            }
        }
    };
    drain(&mut sdam, &mut opened);
    for input in &script.inputs {
        now = now + Duration::from_millis(700);
        sdam.handle_timeout(now);
        let round_trip = Duration::from_millis(1);
        match input {
            Input::Ask(address, Some(reply), _, more) => {
                let reply: &RawDocumentBuf = reply;
                if let Some(check) = opened.get(address) {
                    sdam.handle_connected(
                        now,
                        *check,
                        HelloAnswer::new(reply.to_owned()),
                        round_trip,
                    );
                    sdam.handle_reply(
                        now,
                        *check,
                        HelloAnswer::new(reply.to_owned()),
                        round_trip,
                        *more,
                    );
                }
            }
            Input::Request => sdam.request_check(now),
            Input::Waiting(waiting) => sdam.set_waiting(now, *waiting),
            Input::Close => sdam.close(now),
            _ => {}
        }
        drain(&mut sdam, &mut opened);
    }
    orders
}
