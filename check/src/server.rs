//! The steps of one server: addresses, dial, proxy, TLS and `hello`.

use crate::{
    advice, diagnosis,
    drive::{Clock, Findings, Hello, drive},
    hello,
    report::{Fact, Stage, Step},
};
use futures_util::future::join_all;
use onionskin::{Runtime, system};
use onionskin_core::{
    address::Address,
    client::ClientConfig,
    error::{Error, ErrorKind, IoError, NetworkFault, TlsFault},
    options::ClientOptions,
    probe::{Probe, ProbeStep},
    random::Seed,
    time::{Instant, WallTime},
};
use std::{net::SocketAddr, time::Duration};

/// The maximum number of addresses of one host that are dialled.
const MAX_ADDRESSES: usize = 16;

/// The time after which a connection on which nothing was sent is replaced.
const MAX_IDLE: Duration = Duration::from_millis(500);

/// How the client knows a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The connection string or its seed list names the server.
    Seed,
    /// A member of the replica set, which this text names, announces the server.
    Announced(String),
}

/// The results of the steps of one server.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) address: Address,
    pub(crate) origin: Origin,
    pub(crate) steps: Vec<Step>,
    pub(crate) hello: Option<Hello>,
    /// The stage that failed; `None` if the server has answered `hello`.
    pub(crate) failure: Option<Stage>,
}

impl Visit {
    fn failed(&mut self, step: Step) {
        self.failure = Some(step.stage);
        self.steps.push(step);
    }
}

/// Goes through the steps of one server, without a credential: a client checks a server by
/// connections that do not authenticate, before it trusts the server with its password.
pub(crate) async fn visit<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    address: Address,
    origin: Origin,
) -> Visit {
    let mut visit = Visit {
        address: address.clone(),
        origin,
        steps: Vec::new(),
        hello: None,
        failure: None,
    };
    let probe = match probe(clock, options.clone(), &address, Probe::without_credential) {
        Ok(probe) => probe,
        Err(error) => {
            let mut step = Step::new(Stage::Parse, Some(address.to_string()));
            step.fail(error.to_string(), Vec::new());
            visit.failed(step);
            return visit;
        }
    };
    let target = probe.dial_address().clone();
    let Some(stream) = dial(clock, options, &mut visit, &target).await else {
        return visit;
    };
    let begun = clock.now();
    let findings = drive(clock, probe, stream, options.tls().is_some()).await;
    visit.hello.clone_from(&findings.hello);
    record(clock, options, &mut visit, &findings, begun).await;
    visit
}

/// Returns a probe of a server for a client with these options, made by `new`.
pub(crate) fn probe<R: Runtime>(
    clock: &Clock<R>,
    mut options: ClientOptions,
    address: &Address,
    new: impl FnOnce(Instant, Address, ClientConfig, WallTime) -> Probe,
) -> Result<Probe, Error> {
    let mut seed = [0; 32];
    clock.runtime.entropy(&mut seed).map_err(|error| {
        Error::argument(format!("cannot read random bytes from the system: {error}"))
    })?;
    if options.kerberos().is_none() {
        options.set_kerberos(system::kerberos());
    }
    let config = ClientConfig::new(options, Seed::new(seed))?;
    Ok(new(clock.now(), address.clone(), config, clock.wall()))
}

/// Resolves the host of `target`, which is the server or its proxy, and dials each of its
/// addresses. Returns the connection to the first address in the order of the resolver that accepts
/// one.
async fn dial<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    visit: &mut Visit,
    target: &Address,
) -> Option<R::Stream> {
    let limit = options.connect_timeout();
    match target {
        Address::Unix { path } => dial_unix(clock, limit, visit, path).await,
        Address::Tcp { host, port } => {
            let addresses = match host.parse() {
                Ok(address) => vec![SocketAddr::new(address, *port)],
                Err(_) => resolve(clock, limit, visit, target).await?,
            };
            dial_all(clock, limit, visit, target, addresses).await
        }
    }
}

async fn dial_unix<R: Runtime>(
    clock: &Clock<R>,
    limit: Option<Duration>,
    visit: &mut Visit,
    path: &str,
) -> Option<R::Stream> {
    let mut step = Step::new(Stage::Dial, Some(visit.address.to_string()));
    let begun = clock.now();
    let result = clock.connect_unix(path, limit).await;
    step.duration = clock.now() - begun;
    match result {
        Ok(stream) => {
            visit.steps.push(step);
            Some(stream)
        }
        Err(error) => {
            step.fail(error.to_string(), advice::unix_socket());
            visit.failed(step);
            None
        }
    }
}

async fn resolve<R: Runtime>(
    clock: &Clock<R>,
    limit: Option<Duration>,
    visit: &mut Visit,
    target: &Address,
) -> Option<Vec<SocketAddr>> {
    let (host, port) = (target.host(), target.port().unwrap_or_default());
    let mut step = Step::new(Stage::Dns, Some(visit.address.to_string()));
    note_proxy(&mut step, visit, target);
    if let Origin::Announced(member) = &visit.origin {
        step.fact("announced by", member.clone());
    }
    let begun = clock.now();
    let found = clock.within(limit, clock.runtime.resolve(host, port)).await;
    step.duration = clock.now() - begun;
    let reason = match found {
        Some(Ok(addresses)) if !addresses.is_empty() => {
            let shown = addresses.iter().map(|address| address.ip().to_string());
            step.fact("addresses", shown.collect::<Vec<_>>());
            visit.steps.push(step);
            return Some(addresses);
        }
        Some(Ok(_)) => "the name has no address".to_owned(),
        Some(Err(error)) => error.to_string(),
        None => "the resolver of the system did not answer in time".to_owned(),
    };
    let message = format!("cannot resolve the host name {host}: {reason}");
    let hints = match *target == visit.address {
        true => advice::unresolved(host, &visit.origin),
        false => advice::proxy::unresolved(),
    };
    step.fail(message, hints);
    visit.failed(step);
    None
}

/// Dials all addresses at once.
async fn dial_all<R: Runtime>(
    clock: &Clock<R>,
    limit: Option<Duration>,
    visit: &mut Visit,
    target: &Address,
    mut addresses: Vec<SocketAddr>,
) -> Option<R::Stream> {
    let mut step = Step::new(Stage::Dial, Some(visit.address.to_string()));
    note_proxy(&mut step, visit, target);
    let begun = clock.now();
    addresses.truncate(MAX_ADDRESSES);
    let attempts = addresses.iter().map(|address| async move {
        let result = clock.connect(address, limit).await;
        (*address, result, clock.now() - begun)
    });
    let results = join_all(attempts).await;
    step.duration = clock.now() - begun;
    let (mut connected, mut failure, mut facts) = (None, None, Vec::new());
    for (address, result, time) in results {
        let fact = match result {
            Ok(stream) => {
                connected.get_or_insert((address, stream, time));
                vec![Fact::new("connected in", time)]
            }
            Err(error) => {
                let fact = vec![Fact::new("failed with", error.to_string())];
                failure = Some(error);
                fact
            }
        };
        facts.push(Fact::new(address.to_string(), fact));
    }
    step.fact("addresses", facts);
    let is_proxy = *target != visit.address;
    let name = if is_proxy { "the proxy " } else { "" };
    let (message, failure) = match connected {
        None => {
            let message = format!("no address of {name}{target} accepts a connection");
            (message, failure)
        }
        Some((address, stream, time)) => {
            let idle = step.duration.saturating_sub(time);
            match replaced(clock, limit, address, stream, idle).await {
                Ok(stream) => {
                    visit.steps.push(step);
                    return Some(stream);
                }
                Err(error) => {
                    let message = format!(
                        "{address} accepted a connection, but not a second one a moment later: \
                         {error}"
                    );
                    (message, Some(error))
                }
            }
        }
    };
    let hints = failure.map(|error| match is_proxy {
        true => advice::proxy::not_connected(&error, target),
        false => advice::not_connected(&error, target),
    });
    step.fail(message, hints.unwrap_or_default());
    visit.failed(step);
    None
}

/// Replaces a connection that was idle for long. While other addresses were dialled, the server may
/// have closed it.
async fn replaced<R: Runtime>(
    clock: &Clock<R>,
    limit: Option<Duration>,
    address: SocketAddr,
    stream: R::Stream,
    idle: Duration,
) -> Result<R::Stream, Error> {
    if idle < MAX_IDLE {
        return Ok(stream);
    }
    drop(stream);
    clock.connect(&address, limit).await
}

/// Adds the address of the proxy if that is dialled instead of the server.
fn note_proxy(step: &mut Step, visit: &Visit, target: &Address) {
    if *target != visit.address {
        step.fact("proxy", target.to_string());
    }
}

/// Adds the step of the proxy. Returns false if it failed.
fn record_proxy(visit: &mut Visit, findings: &Findings) -> bool {
    let mut step = Step::new(Stage::Proxy, Some(visit.address.to_string()));
    if let Err((ProbeStep::Proxy, error)) = &findings.result {
        step.duration = findings.last;
        step.fail(error.to_string(), advice::proxy::failed(error));
        visit.failed(step);
        return false;
    }
    if let Some(time) = findings.proxy {
        step.duration = time;
        visit.steps.push(step);
    }
    true
}

/// Adds the steps that a probe has gone through.
async fn record<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    visit: &mut Visit,
    findings: &Findings,
    begun: Instant,
) {
    if !record_proxy(visit, findings) {
        return;
    }
    let failure = findings.result.as_ref().err();
    if let Some(tls) = options.tls() {
        let mut step = Step::new(Stage::Tls, Some(visit.address.to_string()));
        if let Some((facts, time)) = &findings.tls {
            step.duration = *time;
            diagnosis::describe_tls(&mut step, facts, options, clock.wall());
            diagnosis::describe_revocation(&mut step, facts);
        }
        if let Some((ProbeStep::Connect | ProbeStep::Tls, error)) = failure {
            step.duration = clock.now() - begun;
            if is_revoked(error) {
                step.fact("revocation", "revoked");
            }
            if findings.tls.is_none() {
                diagnosis::examine_tls(clock, &mut step, &visit.address, options, error).await;
            }
            let hints = advice::tls::failed(error, &step, &visit.address, options, clock.wall());
            step.fail(error.to_string(), hints);
            visit.failed(step);
            return;
        }
        if tls.checks_identity() {
            step.fact("name matches", visit.address.host());
        }
        visit.steps.push(step);
    }
    let mut step = Step::new(Stage::Hello, Some(visit.address.to_string()));
    if let Some(hello) = &findings.hello {
        step.duration = hello.round_trip;
        hello::describe(&mut step, hello, options);
    }
    let Some((_, error)) = failure else {
        visit.steps.push(step);
        return;
    };
    step.duration = findings.last;
    // A server that has answered speaks without TLS.
    let is_silent = is_closed(error) || matches!(error.kind(), ErrorKind::Timeout { .. });
    if is_silent && options.tls().is_none() {
        let speaks_tls = diagnosis::speaks_tls(clock, &visit.address, options).await;
        step.fact(diagnosis::TLS, speaks_tls);
    }
    step.fail(
        error.to_string(),
        advice::hello_failed(error, options, &step),
    );
    visit.failed(step);
}

/// True if the certificate of a server was refused, so that its chain is worth reading.
pub(crate) fn is_refused_certificate(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Tls {
            fault: TlsFault::Certificate | TlsFault::Revoked | TlsFault::HostName,
            ..
        }
    )
}

fn is_revoked(error: &Error) -> bool {
    let fault = TlsFault::Revoked;
    matches!(error.kind(), ErrorKind::Tls { fault: found, .. } if *found == fault)
}

/// True if the server closed or reset the connection.
pub(crate) fn is_closed(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Io(IoError {
            fault: NetworkFault::Closed | NetworkFault::Reset,
            ..
        })
    )
}

/// Returns the calendar time in the form of RFC 3339.
pub(crate) fn wall_text(wall: WallTime) -> String {
    let millis = i64::try_from(wall.as_unix_millis()).unwrap_or(i64::MAX);
    let time = onionskin::bson::DateTime::from_millis(millis);
    time.try_to_rfc3339_string()
        .unwrap_or_else(|_| format!("{millis} ms after 1970"))
}
