//! Tests that many hosts that never answer delay neither other hosts nor the application.

use crate::scene::{Scene, play, sharded_alone};
use bson::doc;
use onionskin::{Client, Runtime};
use onionskin_core::{
    dial::{MAX_ATTEMPTS, TurnLimits},
    unstable::hello::Environment,
};
use onionskin_worlds::world::{
    SimRuntime,
    runtime::{SimSleep, SimStream},
};
use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture, pending, poll_fn},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

/// The number of hosts that never answer.
const SILENT: usize = 120;

/// The way in which these hosts do not answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// The lookups of their names fail after 15 seconds.
    Names,
    /// Each name has 28 addresses, and none of them answers.
    Addresses,
}

/// The calls that are under way, by name, and the largest number of them.
#[derive(Debug, Default)]
struct Calls {
    running: BTreeMap<String, usize>,
    most: usize,
    most_of_a_name: usize,
}

/// A runtime on which the hosts `silent..` never answer.
#[derive(Clone)]
struct SilentRuntime {
    inner: SimRuntime,
    silence: Silence,
    lookups: Arc<Mutex<Calls>>,
    connects: Arc<Mutex<Calls>>,
}

/// A call that is under way.
struct Call(Arc<Mutex<Calls>>, String);

impl Call {
    fn begin(calls: &Arc<Mutex<Calls>>, name: &str) -> Self {
        let mut state = calls.lock().expect("no panic");
        let count = state.running.entry(name.to_owned()).or_default();
        *count += 1;
        let of_a_name = *count;
        let all = state.running.values().sum();
        state.most = state.most.max(all);
        state.most_of_a_name = state.most_of_a_name.max(of_a_name);
        Self(calls.clone(), name.to_owned())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.0.lock().expect("no panic");
        *state.running.get_mut(&self.1).expect("begun") -= 1;
    }
}

impl Runtime for SilentRuntime {
    type Stream = SimStream;
    type Sleep = SimSleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<SimStream> {
        let _call = Call::begin(&self.connects, &address.to_string());
        match address {
            SocketAddr::V4(v4) if v4.ip().octets()[..3] == [192, 0, 2] => pending().await,
            _ => self.inner.connect(address).await,
        }
    }

    async fn connect_unix(&self, _: &Path) -> io::Result<SimStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let _call = Call::begin(&self.lookups, host);
        if !host.starts_with("silent") {
            return self.inner.resolve(host, port).await;
        }
        match self.silence {
            Silence::Names => {
                self.inner.sleep(Duration::from_secs(15)).await;
                Err(io::ErrorKind::NotFound.into())
            }
            Silence::Addresses => {
                let address = |last| (Ipv4Addr::new(192, 0, 2, last), port).into();
                Ok((1..=28).map(address).collect())
            }
        }
    }

    onionskin_tests::forward_runtime!(
        inner: sleep, spawn, now, wall_time, entropy
    );
}

impl SilentRuntime {
    fn new(scene: &Scene, silence: Silence) -> Self {
        Self {
            inner: scene.runtime.clone(),
            silence,
            lookups: Arc::default(),
            connects: Arc::default(),
        }
    }
}

/// Creates a client whose seeds are a router and hosts that never answer. Waits until the client
/// tries to reach them, and then runs commands that need new connections to the router. Each of
/// them must end within a second of virtual time.
async fn run(scene: &Scene, runtime: &SilentRuntime) {
    let silent: String = (0..SILENT).map(|n| format!(",silent{n}")).collect();
    let uri = scene.uri(
        &format!("member0{silent}"),
        "serverSelectionTimeoutMS=300000",
    );
    let client = Client::builder_from_uri(runtime.clone(), &uri)
        .expect("a connection string")
        .environment(Environment::default())
        .build()
        .expect("a client");
    let database = client.database("admin");
    database
        .run_command(doc! { "ping": 1 })
        .await
        .expect("a reply");
    for _ in 0..5 {
        runtime.sleep(Duration::from_secs(13)).await;
        let started = runtime.now();
        let mut pings: Vec<_> = (0..20)
            .map(|_| Box::pin(database.run_command(doc! { "ping": 1 }).into_future()))
            .collect();
        poll_fn(|context| {
            pings.retain_mut(|ping| match ping.as_mut().poll(context) {
                Poll::Ready(result) => result.expect("a reply").is_empty(),
                Poll::Pending => true,
            });
            match pings.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let taken = runtime.now() - started;
        assert!(taken < Duration::from_secs(1), "{taken:?}");
    }
    client.shutdown().await;
}

#[test]
fn few_names_are_looked_up_at_once_and_those_that_answer_go_first() {
    play([sharded_alone()], |scene| async move {
        let runtime = SilentRuntime::new(&scene, Silence::Names);
        run(&scene, &runtime).await;
        let lookups = runtime.lookups.lock().expect("no panic");
        let limits = TurnLimits::LOOKUPS;
        let most = limits.unanswered..=limits.all;
        assert!(most.contains(&lookups.most), "{}", lookups.most);
        assert_eq!(lookups.most_of_a_name, 1, "a name is looked up once");
    });
}

#[test]
fn few_hosts_are_dialled_at_once_and_those_that_answer_go_first() {
    play([sharded_alone()], |scene| async move {
        let runtime = SilentRuntime::new(&scene, Silence::Addresses);
        run(&scene, &runtime).await;
        let connects = runtime.connects.lock().expect("no panic");
        let limits = TurnLimits::DIALS;
        let most = limits.unanswered * MAX_ATTEMPTS..=limits.all * MAX_ATTEMPTS;
        assert!(most.contains(&connects.most), "{}", connects.most);
    });
}
