//! A simulated runtime without threads, clock or sockets. The async client runs on it in virtual
//! time.
//!
//! All tasks run on one thread, in an order drawn from the seed. Time advances when no task is
//! ready. Streams are connections through the world's network to the simulated deployment or to
//! listeners.

mod applications;
mod callers;
mod closing;
mod cutter;
mod datagram;
mod executor;
mod group;
mod identity_server;
mod listener;
mod machine;
mod memory;
mod name_server;
mod operator;
mod pictures;
mod polling;
mod resolver;
mod socks5_proxy;
mod starvation;
mod stream;
mod waker;

pub use applications::{Achieved, CALLS, ListHistory};
pub(super) use callers::run_watched;
pub use callers::run_world;
pub use cutter::Cut;
pub use datagram::{DatagramId, SimDatagrams};
pub use executor::Executor;
pub use identity_server::SimIdentityServer;
pub use listener::{SimHold, SimListener, SimSocket, WINDOW_BYTES};
pub use name_server::SimNameServer;
pub use operator::{balancer_address, member_addresses, service_address};
pub use socks5_proxy::{ProxyState, SimSocks5Proxy};
pub use stream::SimStream;

use super::{
    network::{Incoming, LinkId},
    setup,
};
use executor::Shared;
use onionskin::Runtime;
use onionskin_core::{address::Address, time::Instant};
use std::{
    future::{Future, pending, poll_fn},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use stream::{Pipe, error_of};

/// The longest time of a failing name lookup, in milliseconds.
const MAX_LOOKUP_MILLIS: u64 = 2_000;

/// The network part of the members' addresses. The last byte is the index of the member.
const MEMBER_NETWORK: [u8; 3] = [10, 0, 0];

/// The last byte of the load balancer's address.
const BALANCER_PLACE: u8 = 255;

/// The last byte of the SOCKS5 proxy's address.
const PROXY_PLACE: u8 = 254;

/// The wall clock's time at the start of the world, since 1970.
const STARTED_AT: Duration = Duration::from_millis(1_750_000_000_000);

/// The simulated runtime of one client. Clones are handles to the same runtime.
#[derive(Clone, Debug)]
pub struct SimRuntime {
    shared: Arc<Shared>,
    client: usize,
}

impl SimRuntime {
    /// Returns a future that completes at this time.
    fn sleep_until(&self, at: Instant) -> SimSleep {
        SimSleep {
            shared: self.shared.clone(),
            at,
            entry: None,
        }
    }

    fn dial(&self, address: &Address) -> (SimStream, LinkId) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let link = state
            .network
            .dial(state.now, self.client, address, &mut state.trace);
        state.pipes.insert(link, Pipe::default());
        (SimStream::new(self.shared.clone(), link), link)
    }

    fn poll_connected(&self, link: LinkId, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        let Some(pipe) = state.pipes.get_mut(&link) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match pipe.inbox.pop_front() {
            None => {
                pipe.reader = Some(context.waker().clone());
                Poll::Pending
            }
            Some(Incoming::Connected) => Poll::Ready(Ok(())),
            Some(Incoming::Bytes(_)) => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            Some(other) => Poll::Ready(Err(error_of(&other))),
        }
    }
}

impl Runtime for SimRuntime {
    type Stream = SimStream;
    type Sleep = SimSleep;

    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<SimStream>> + Send {
        let runtime = self.clone();
        async move {
            let is_swallowed = {
                let mut state = runtime.shared.lock();
                let now = state.now;
                state.routes.swallow(now, address.ip())
            };
            if is_swallowed {
                return pending().await;
            }
            let host = match address.ip() {
                IpAddr::V4(ip) if ip.octets()[..3] == MEMBER_NETWORK => match ip.octets()[3] {
                    BALANCER_PLACE => setup::BALANCER.to_owned(),
                    PROXY_PLACE => setup::PROXY.to_owned(),
                    member => {
                        let state = runtime.shared.lock();
                        let address = state.network.addresses().get(usize::from(member));
                        address.map_or_else(|| member.to_string(), |a| a.host().to_owned())
                    }
                },
                other => other.to_string(),
            };
            let (stream, link) = runtime.dial(&Address::tcp(&host, address.port()));
            poll_fn(|context| runtime.poll_connected(link, context)).await?;
            Ok(stream)
        }
    }

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<SimStream> {
        Ok(self.open_datagram(server))
    }

    async fn connect_unix(&self, _: &Path) -> io::Result<SimStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        let runtime = self.clone();
        let host = host.to_owned();
        async move {
            if host == "localhost" {
                let all = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
                return Ok(all.map(|ip: IpAddr| SocketAddr::new(ip, port)).to_vec());
            }
            if let Some(all) = runtime.shared.lock().routes.of(&host) {
                return Ok(all.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
            }
            if let Ok(ip) = host.parse() {
                return Ok(vec![SocketAddr::new(ip, port)]);
            }
            let (delay, fails, place) = {
                let mut state = runtime.shared.lock();
                let mut members = state.network.addresses().iter();
                let member = members.position(|address| address.host() == host);
                let member = state.names.get(&host).copied().or(member);
                let other = match &*host {
                    setup::BALANCER => Some(BALANCER_PLACE),
                    setup::PROXY => Some(PROXY_PLACE),
                    _ => None,
                };
                let place = member
                    .and_then(|member| u8::try_from(member).ok())
                    .or(other);
                let rate = u64::from(state.rates.unresolved);
                let fails = rate > 0 && state.random.chance(rate, 1000);
                let delay = match fails {
                    true => 1 + state.random.below(MAX_LOOKUP_MILLIS),
                    false => 0,
                };
                let state = &mut *state;
                let failure = state.network.fail_host(state.now, &host, &mut state.trace);
                let delay = Duration::from_millis(delay);
                (failure.unwrap_or(delay), fails || failure.is_some(), place)
            };
            if !delay.is_zero() {
                runtime.sleep(delay).await;
            }
            match place {
                Some(place) if !fails => {
                    let ip = {
                        let [a, b, c] = MEMBER_NETWORK;
                        Ipv4Addr::new(a, b, c, place)
                    };
                    Ok(vec![SocketAddr::new(ip.into(), port)])
                }
                _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such host")),
            }
        }
    }

    fn sleep(&self, duration: Duration) -> SimSleep {
        let at = self.shared.lock().now + duration;
        self.sleep_until(at)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawn(Box::pin(task));
    }

    fn spawn_thread(&self, work: impl FnOnce() + Send + 'static) {
        self.spawn(async move { work() });
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.find_variable(name)
    }

    async fn read_file(&self, path: &Path, most: usize) -> io::Result<String> {
        self.find_file(path, most)
    }

    fn now(&self) -> Duration {
        self.shared.lock().now.since_start()
    }

    fn wall_time(&self) -> Duration {
        let state = self.shared.lock();
        let right = STARTED_AT + state.now.since_start();
        state.machine.clocks.shown(self.client, right)
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.shared.lock().random.fill(bytes);
        Ok(())
    }
}

/// A sleep in virtual time.
#[derive(Debug)]
pub struct SimSleep {
    shared: Arc<Shared>,
    at: Instant,
    /// The number of the timer, after the first poll.
    entry: Option<u64>,
}

impl Future for SimSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.shared.lock();
        if state.now >= this.at {
            return Poll::Ready(());
        }
        let entry = *this.entry.get_or_insert_with(|| state.next_number());
        state
            .timers
            .insert((this.at, entry), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            self.shared.lock().timers.remove(&(self.at, entry));
        }
    }
}
