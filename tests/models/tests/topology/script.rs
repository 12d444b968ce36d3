//! Scripts: random sequences of inputs to the discovery machine of a client.

use crate::bench::{Bench, Found};
use bson::{RawDocumentBuf, oid::ObjectId};
use onionskin_core::address::Address;
use onionskin_models::discovery::Config;
use onionskin_worlds::strategies::{
    ADDRESSES, Failure, History, address, failures, hello_replies, lying_histories,
    replica_set_histories, sharded_histories, standalone_histories,
};
use proptest::{collection::vec, prelude::*};
use std::time::Duration;

/// One input. An index selects one of the servers or monitor connections that have existed so far,
/// modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A check of the server starts, if none is under way, and gets this reply. Without a reply the
    /// check fails. The third field is the round trip time in milliseconds. The last field is true
    /// if the reply announces another one.
    Ask(Address, Option<RawDocumentBuf>, u64, bool),
    /// The server's check that is under way fails: with a timeout (`true`) or another network
    /// error.
    Fail(Address, bool),
    /// The round trip time measurement that is under way is answered (`true`) or fails.
    Measure(bool),
    /// This number of milliseconds passes.
    Pass(u64),
    /// Operations begin (`true`) or stop (`false`) waiting for a server.
    Waiting(bool),
    /// An immediate check of all servers is requested.
    Request,
    /// A late reply arrives on the connection with this index, if that connection is closed.
    Late(usize, RawDocumentBuf),
    /// A reply to the handshake of a new connection of a pool. The index is that of the server.
    Handshake(usize, RawDocumentBuf),
    /// An operation fails, or the establishment of a pool's connection. The fields are the index of
    /// the server, the age of the connection in generations, the error, and the service behind a
    /// load balancer.
    Error(usize, u64, Failure, u8),
    /// The client closes.
    Close,
}

/// The configuration of a client and its inputs.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) config: Config,
    pub(crate) inputs: Vec<Input>,
}

/// The deployment that a client connects to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deployment {
    /// A consistent replica set.
    ReplicaSet,
    /// A sharded cluster with several mongos.
    Sharded,
    /// A standalone server.
    Standalone,
    /// Servers whose replies violate the rules of servers.
    Lying,
    /// The servers of `Lying`. Some of their host lists are longer than a client accepts.
    LyingHugely,
    /// A load balancer.
    LoadBalanced,
}

/// Returns a strategy for scripts of clients of this deployment.
pub(crate) fn scripts(deployment: Deployment) -> impl Strategy<Value = Script> {
    let history = match deployment {
        Deployment::ReplicaSet => replica_set_histories().boxed(),
        Deployment::Sharded => sharded_histories().boxed(),
        Deployment::Standalone => standalone_histories().boxed(),
        Deployment::Lying | Deployment::LoadBalanced => lying_histories(false).boxed(),
        Deployment::LyingHugely => lying_histories(true).boxed(),
    };
    let asked = (0_u64..20, any::<bool>());
    (
        history,
        vec(asked, 60),
        vec((0_usize..64, others()), 0..40),
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.3, Just(Duration::from_secs(3))),
        prop::option::weighted(0.2, 0_usize..64),
    )
        .prop_map(
            move |(history, asked, others, streaming, direct, limit, close)| {
                let load_balanced = matches!(deployment, Deployment::LoadBalanced);
                let mut config = configure(&history, load_balanced, direct);
                config.streaming = streaming && !load_balanced;
                config.connect_timeout = limit;
                let asks = history.hellos.into_iter().zip(asked);
                let mut inputs: Vec<Input> = asks
                    .map(|(hello, (ms, more))| Input::Ask(hello.server, hello.reply, ms, more))
                    .collect();
                for (place, other) in others {
                    let place = place % (inputs.len() + 1);
                    inputs.insert(place, other);
                }
                if let Some(place) = close {
                    let place = place % (inputs.len() + 1);
                    inputs.insert(place, Input::Close);
                }
                Script { config, inputs }
            },
        )
}

fn configure(history: &History, load_balanced: bool, direct: bool) -> Config {
    let one = load_balanced || direct;
    let count = if one { 1 } else { history.seeds.len() };
    let mut config = Config::new(history.seeds.iter().take(count).cloned());
    config.load_balanced = load_balanced;
    config.direct = direct && !load_balanced;
    if !load_balanced {
        config.replica_set.clone_from(&history.set_name);
    }
    config
}

/// Returns a strategy for all inputs except `Ask`, which comes from a history, and `Close`.
fn others() -> impl Strategy<Value = Input> {
    let server = || (0..ADDRESSES).prop_map(address);
    prop_oneof![
        2 => (server(), any::<bool>()).prop_map(|(a, timeout)| Input::Fail(a, timeout)),
        1 => any::<bool>().prop_map(Input::Measure),
        2 => (0_u64..12_000).prop_map(Input::Pass),
        1 => any::<bool>().prop_map(Input::Waiting),
        1 => Just(Input::Request),
        1 => (0_usize..32, hello_replies()).prop_map(|(c, reply)| Input::Late(c, reply)),
        2 => (0_usize..16, hello_replies()).prop_map(|(s, reply)| Input::Handshake(s, reply)),
        6 => (0_usize..16, prop_oneof![4 => Just(0_u64), 1 => 1_u64..3], failures(), 0_u8..3)
            .prop_map(|(s, age, failure, service)| Input::Error(s, age, failure, service)),
    ]
}

impl Script {
    /// Plays all inputs of the script.
    pub(crate) fn play(&self, bench: &mut Bench) -> Found {
        for (i, input) in self.inputs.iter().enumerate() {
            play(bench, input, self.config.load_balanced)
                .map_err(|what| format!("input {i}, {input:?}: {what}"))?;
        }
        Ok(())
    }
}

/// Plays one input.
pub(crate) fn play(bench: &mut Bench, input: &Input, load_balanced: bool) -> Found {
    match input {
        Input::Ask(address, reply, ms, more) => {
            let round_trip = Duration::from_millis(*ms);
            if bench.sdam.is_closed() {
                return Ok(());
            }
            bench.ask(address, reply.as_deref(), round_trip, *more)
        }
        Input::Fail(address, timeout) => bench.fail(address, *timeout).map(drop),
        Input::Measure(answered) => {
            let reply = bson::rawdoc! { "ok": 1, "helloOk": true };
            bench.measure(answered.then_some(&reply)).map(drop)
        }
        Input::Pass(ms) => bench.pass(Duration::from_millis(*ms)),
        Input::Waiting(waiting) => bench.set_waiting(*waiting),
        Input::Request => bench.request_check(),
        Input::Late(connection, reply) => {
            let count = bench.checks.len().max(1);
            match bench.checks.get(connection % count).cloned() {
                Some((check, _)) => bench.answer_late(check, reply),
                None => Ok(()),
            }
        }
        Input::Handshake(server, reply) => {
            let known = bench.lives[server % bench.lives.len()].clone();
            bench.handshake(&known, reply)
        }
        Input::Error(server, age, failure, service) => {
            let known = bench.lives[server % bench.lives.len()].clone();
            let service = load_balanced.then(|| ObjectId::from_bytes([*service; 12]));
            bench.application_error(&known, *age, failure, service)
        }
        Input::Close => bench.close(),
    }
}
