//! DNS lookups: asks the resolver of the application, or the built-in one.

use crate::{
    HostResolver, Resolver, Runtime, hosts,
    resolver::Resolvers,
    shared::{Shared, since},
    user_code::{UserFuture, catch_panic},
};
use onionskin_core::{
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
    options::Cryptography,
};
use std::{
    future::{Future, poll_fn},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

/// The time limit of the lookup of a host if the client has none: `connectTimeoutMS` is 0.
const HOST_LIMIT: Duration = Duration::from_secs(30);

/// The time for which the addresses of one family wait for those of the other one (RFC 8305
/// section 3, Resolution Delay).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// The addresses of a host.
pub(crate) struct Addresses<'a> {
    /// The addresses that are known.
    pub(crate) known: Vec<SocketAddr>,
    /// The lookup of the addresses of the other family, if it takes longer.
    pub(crate) rest: Option<AddressLookup<'a>>,
}

type AddressLookup<'a> = Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>, Error>> + Send + 'a>>;

impl From<Vec<SocketAddr>> for Addresses<'_> {
    fn from(known: Vec<SocketAddr>) -> Self {
        Self { known, rest: None }
    }
}

/// Returns the addresses of a host, by the resolver that the client uses for hosts.
pub(crate) async fn addresses<'a, R: Runtime>(
    services: &'a Services<'a, R>,
    host: &str,
    port: u16,
) -> Result<Addresses<'a>, LookupError> {
    // Only the system knows the zone of an IPv6 address, which is the name of an interface.
    let by_system = services.resolvers.hosts == HostResolver::System || host.contains('%');
    let known = known_addresses(host);
    let is_known = !known.is_empty();
    if is_known && (!by_system || host != LOCALHOST) {
        let addresses = known.into_iter().map(|ip| SocketAddr::new(ip, port));
        return Ok(addresses.collect::<Vec<_>>().into());
    }
    if by_system {
        let addresses = match services.shared {
            Some(shared) => hosts::resolve(shared, host, port).await,
            None => services.runtime.resolve(host, port).await.map_err(Arc::new),
        };
        return addresses.map(Addresses::from).map_err(LookupError::System);
    }
    let now = || since(services.runtime, services.start);
    let mut turn = match services.shared {
        Some(shared) => {
            let is_stranger = shared.lock().core.is_stranger(host);
            Some(shared.hosts.lookups.turn(now, host, is_stranger).await)
        }
        None => None,
    };
    let result = query(services, host, port).await;
    if let Some(turn) = &mut turn {
        turn.answered = Some(result.is_ok());
    }
    result
}

/// Returns the addresses of a host, by DNS queries of the client for both families.
async fn query<'a, R: Runtime>(
    services: &'a Services<'a, R>,
    host: &str,
    port: u16,
) -> Result<Addresses<'a>, LookupError> {
    // The lookup ends before the limit of the dial, which is `connectTimeoutMS` as well, so that
    // its error is the one that is reported.
    let limit = services
        .resolvers
        .limit
        .map_or(HOST_LIMIT, |limit| limit / 4 * 3);
    let mut lookups = [RecordKind::Aaaa, RecordKind::A].map(|kind| {
        let query = DnsQuery::new(host, kind);
        let lookup: AddressLookup<'a> = Box::pin(async move {
            let answer = services.look_up(query, limit).await?;
            Ok(socket_addresses(&answer, port))
        });
        (Some(lookup), None)
    });
    let mut delay = pin!(None);
    poll_fn(|context| {
        for (lookup, result) in &mut lookups {
            if let Some(pending) = lookup
                && let Poll::Ready(found) = pending.as_mut().poll(context)
            {
                (*lookup, *result) = (None, Some(found));
            }
        }
        if lookups.iter().all(|(_, result)| result.is_some()) {
            return Poll::Ready(());
        }
        if !lookups
            .iter()
            .any(|(_, result)| matches!(result, Some(Ok(_))))
        {
            return Poll::Pending;
        }
        if delay.is_none() {
            delay.set(Some(services.runtime.sleep(RESOLUTION_DELAY)));
        }
        match delay.as_mut().as_pin_mut() {
            Some(delay) => delay.poll(context),
            None => Poll::Pending,
        }
    })
    .await;
    let (mut known, mut rest, mut failure) = (Vec::new(), None, None);
    for (lookup, result) in lookups {
        rest = rest.or(lookup);
        match result {
            Some(Ok(addresses)) => known.extend(addresses),
            Some(Err(error)) => failure = Some(error),
            None => {}
        }
    }
    match failure {
        Some(error) if known.is_empty() => Err(LookupError::Dns(error)),
        _ => Ok(Addresses { known, rest }),
    }
}

fn socket_addresses(answer: &DnsAnswer, port: u16) -> Vec<SocketAddr> {
    let addresses = answer.records.iter().filter_map(|data| match data {
        DnsData::Address(address) => Some(SocketAddr::new(*address, port)),
        _ => None,
    });
    addresses.collect()
}

/// The name of this machine, which the hosts file of the system can change.
const LOCALHOST: &str = "localhost";

/// Returns the addresses of a host that needs no resolver: an IP address, or `localhost` (RFC 6761
/// section 6.3).
fn known_addresses(host: &str) -> Vec<IpAddr> {
    match host.parse() {
        Ok(address) => vec![address],
        Err(_) if host == LOCALHOST => {
            vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
        }
        Err(_) => Vec::new(),
    }
}

/// The error of the lookup of a host.
pub(crate) enum LookupError {
    System(Arc<io::Error>),
    Dns(Error),
}

/// The runtime and the resolvers with which hosts are looked up and dialled.
pub(crate) struct Services<'a, R: Runtime> {
    pub(crate) runtime: &'a R,
    pub(crate) resolvers: &'a Resolvers,
    /// The time at which the clock of the core started, on the clock of the runtime.
    pub(crate) start: Duration,
    /// The client whose turns limit lookups and dials; `None` outside of a client, where nothing
    /// limits them.
    pub(crate) shared: Option<&'a Arc<Shared<R>>>,
    /// The library for the TLS of HTTP requests.
    pub(crate) cryptography: Cryptography,
}

impl<'a, R: Runtime> Services<'a, R> {
    pub(crate) fn of(shared: &'a Arc<Shared<R>>) -> Self {
        Self {
            shared: Some(shared),
            runtime: &shared.runtime,
            resolvers: &shared.resolvers,
            start: shared.start,
            cryptography: shared.cryptography,
        }
    }

    /// Looks up DNS records within `limit`.
    pub(crate) async fn look_up(
        &self,
        query: DnsQuery,
        limit: Duration,
    ) -> Result<DnsAnswer, Error> {
        if let Some(resolver) = &self.resolvers.application {
            return ask_application(self.runtime, &**resolver, &query, limit).await;
        }
        #[cfg(feature = "dns")]
        {
            let now = || since(self.runtime, self.start);
            let stub = &self.resolvers.stub;
            stub.look_up(self.runtime, now, query, limit).await
        }
        #[cfg(not(feature = "dns"))]
        {
            let message = format!(
                "the lookup of {query} failed: onionskin was built without its feature dns; enable \
                 the feature, or set a resolver"
            );
            Err(failure(DnsFailure::Refused, message))
        }
    }
}

/// Asks the resolver of the application.
async fn ask_application<R: Runtime>(
    runtime: &R,
    resolver: &dyn Resolver,
    query: &DnsQuery,
    limit: Duration,
) -> Result<DnsAnswer, Error> {
    let mut call = UserFuture::new(|| resolver.look_up(query));
    let mut end = pin!(runtime.sleep(limit));
    poll_fn(|context| {
        if let Poll::Ready(result) = call.poll(context) {
            return Poll::Ready(match result {
                Some(result) => result.map_err(|error| plain(error, query)),
                None => {
                    let message = format!(
                        "the lookup of {query} failed: the resolver of the application panicked"
                    );
                    Err(failure(DnsFailure::Refused, message))
                }
            });
        }
        end.as_mut().poll(context).map(|()| {
            let message = format!(
                "the lookup of {query} failed: the resolver of the application gave no answer \
                 within {} ms",
                limit.as_millis()
            );
            Err(failure(DnsFailure::Unreachable, message))
        })
    })
    .await
}

/// Returns an error of the application's resolver without values of the application, which the core
/// would drop while the client is locked.
fn plain(error: Error, query: &DnsQuery) -> Error {
    match error.kind() {
        ErrorKind::DnsResolve {
            failure: fault,
            message,
        } => failure(*fault, message.clone()),
        _ => {
            let mut message = format!("the lookup of {query} failed");
            // Display and drop of the error can be code of the application.
            catch_panic(|| message = format!("{message}: {error}"));
            catch_panic(|| drop(error));
            failure(DnsFailure::Refused, message)
        }
    }
}

fn failure(failure: DnsFailure, message: String) -> Error {
    Error::from(ErrorKind::DnsResolve { failure, message })
}
