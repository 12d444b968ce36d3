//! The simulated runtime as a host of the suite: virtual time, virtual connections and one thread.

use super::{
    Host,
    server::{ClosedPort, Listener, simulated_listener, simulated_port},
};
use crate::name_server::NameServer;
use onionskin::{Client, ClientBuilder, Error};
use onionskin_core::{options::Monitoring, time::Instant, uri};
use onionskin_worlds::world::{SimRuntime, runtime::Executor};
use std::{cell::RefCell, env, future::Future, time::Duration};

/// The environment variable that replaces the default seed.
const SEED: &str = "ONIONSKIN_SEED";

/// The default seed of all tests.
const USUAL_SEED: u64 = 1;

/// The limit of the virtual time of a test.
const LIMIT: Duration = Duration::from_secs(600);

thread_local! {
    /// The runtime of the test that runs in this thread.
    static RUNTIME: RefCell<Option<SimRuntime>> = const { RefCell::new(None) };
}

/// The host of the simulated runtime.
#[derive(Debug)]
pub struct SimHost;

impl SimHost {
    /// Runs a future on a simulated runtime with this seed. Returns a digest of the trace.
    pub fn run(seed: u64, future: impl Future<Output = ()>) -> [u8; 32] {
        let executor = Executor::quiet(seed).expect("a world");
        RUNTIME.set(Some(executor.runtime(0)));
        let ended = executor.run(Instant::ZERO + LIMIT, future);
        RUNTIME.set(None);
        if let Err(failure) = ended {
            panic!("seed {seed}: {failure}");
        }
        executor.digest()
    }
}

impl Host for SimHost {
    type R = SimRuntime;

    const TEST_TIME_LIMIT: Duration = Duration::from_secs(40);
    const WAIT_LIMIT: Duration = Duration::from_secs(10);
    const SLACK: Duration = Duration::from_millis(1500);
    const LIMIT: Duration = Duration::from_millis(300);

    fn runtime() -> SimRuntime {
        let runtime = RUNTIME.with_borrow(Clone::clone);
        runtime.expect("it is asked for while a check runs")
    }

    fn block_on(future: impl Future<Output = ()>) {
        let chosen = env::var(SEED).ok();
        let seed = chosen.map_or(USUAL_SEED, |seed| seed.parse().expect("a number"));
        Self::run(seed, future);
    }

    fn listener() -> Box<dyn Listener> {
        simulated_listener(Self::runtime())
    }

    fn closed_port() -> Box<dyn ClosedPort> {
        simulated_port(Self::runtime())
    }

    fn name_server() -> NameServer {
        NameServer::simulated(&Self::runtime())
    }
}

/// The host of the simulated runtime with clients that check servers on demand.
#[derive(Debug)]
pub struct ScanningSimHost;

impl Host for ScanningSimHost {
    type R = SimRuntime;

    const TEST_TIME_LIMIT: Duration = Duration::from_secs(40);
    const WAIT_LIMIT: Duration = Duration::from_secs(10);
    const SLACK: Duration = Duration::from_millis(1500);
    const LIMIT: Duration = Duration::from_millis(300);

    fn runtime() -> SimRuntime {
        SimHost::runtime()
    }

    fn block_on(future: impl Future<Output = ()>) {
        SimHost::block_on(future);
    }

    fn builder(uri: &str) -> Result<ClientBuilder<SimRuntime>, Error> {
        let parsed = uri::parse_for(uri, Monitoring::Scanning)?;
        Ok(Client::builder(Self::runtime(), parsed.into_options()))
    }

    fn listener() -> Box<dyn Listener> {
        SimHost::listener()
    }

    fn closed_port() -> Box<dyn ClosedPort> {
        SimHost::closed_port()
    }

    fn name_server() -> NameServer {
        SimHost::name_server()
    }
}
