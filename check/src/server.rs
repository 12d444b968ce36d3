//! The steps of one server: addresses, dial, TLS, `hello` and authentication.

use crate::{
    advice, diagnosis,
    drive::{Clock, Findings, Hello, drive},
    report::{Stage, Step, Value},
};
use futures_util::future::join_all;
use onionskin::{
    Runtime,
    bson::{RawBsonRef, RawDocument},
};
use onionskin_core::{
    address::Address,
    client::ClientConfig,
    description::ServerType,
    error::{Error, ErrorKind, NetworkFault},
    options::ClientOptions,
    probe::{Probe, ProbeStep},
    random::Seed,
    time::{Instant, WallTime},
};
use std::{net::SocketAddr, time::Duration};

/// The maximum number of addresses of one host that are dialled.
const MAX_ADDRESSES: usize = 16;

/// The difference between the clocks of a server and of this machine from which a warning is given.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

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
    pub(crate) steps: Vec<Step>,
    pub(crate) hello: Option<Hello>,
    /// The stage that failed; `None` if the connection became ready.
    pub(crate) failure: Option<Stage>,
}

impl Visit {
    fn failed(&mut self, step: Step) {
        self.failure = Some(step.stage);
        self.steps.push(step);
    }
}

/// Goes through the steps of one server.
pub(crate) async fn visit<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    address: Address,
    origin: Origin,
) -> Visit {
    let mut visit = Visit {
        address: address.clone(),
        steps: Vec::new(),
        hello: None,
        failure: None,
    };
    let Some(stream) = dial(clock, options, &mut visit, &origin).await else {
        return visit;
    };
    let begun = clock.now();
    let probe = match probe(clock, options.clone(), &address) {
        Ok(probe) => probe,
        Err(error) => {
            let mut step = Step::new(Stage::Parse, Some(address.to_string()));
            step.fail(error.to_string(), Vec::new());
            visit.failed(step);
            return visit;
        }
    };
    let encrypted = options.tls().enabled;
    let findings = drive(clock, probe, stream, encrypted).await;
    visit.hello.clone_from(&findings.hello);
    record(clock, options, &mut visit, &findings, begun).await;
    visit
}

/// Returns a probe of a server for a client with these options.
pub(crate) fn probe<R: Runtime>(
    clock: &Clock<R>,
    options: ClientOptions,
    address: &Address,
) -> Result<Probe, Error> {
    let mut seed = [0; 32];
    clock.runtime.entropy(&mut seed).map_err(|error| {
        Error::argument(format!("cannot read random bytes from the system: {error}"))
    })?;
    let config = ClientConfig::new(options, Seed::new(seed))?;
    Ok(Probe::new(
        clock.now(),
        address.clone(),
        config,
        clock.wall(),
    ))
}

/// Resolves the host of a server, and dials each of its addresses. Returns the connection to the
/// first address in the order of the resolver that accepts one.
async fn dial<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    visit: &mut Visit,
    origin: &Origin,
) -> Option<R::Stream> {
    let limit = options.connect_timeout();
    match visit.address.clone() {
        Address::Unix { path } => dial_unix(clock, limit, visit, &path).await,
        Address::Tcp { host, port } => {
            let addresses = match host.parse() {
                Ok(address) => vec![SocketAddr::new(address, port)],
                Err(_) => resolve(clock, limit, visit, &host, port, origin).await?,
            };
            dial_all(clock, limit, visit, addresses).await
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
    host: &str,
    port: u16,
    origin: &Origin,
) -> Option<Vec<SocketAddr>> {
    let mut step = Step::new(Stage::Dns, Some(visit.address.to_string()));
    if let Origin::Announced(member) = origin {
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
    step.fail(message, advice::unresolved(host, origin));
    visit.failed(step);
    None
}

/// Dials all addresses at once.
async fn dial_all<R: Runtime>(
    clock: &Clock<R>,
    limit: Option<Duration>,
    visit: &mut Visit,
    mut addresses: Vec<SocketAddr>,
) -> Option<R::Stream> {
    let mut step = Step::new(Stage::Dial, Some(visit.address.to_string()));
    let begun = clock.now();
    addresses.truncate(MAX_ADDRESSES);
    let attempts = addresses.iter().map(|address| async move {
        let result = clock.connect(address, limit).await;
        (address, result, clock.now() - begun)
    });
    let results = join_all(attempts).await;
    step.duration = clock.now() - begun;
    let (mut connected, mut failure) = (None, None);
    for (address, result, time) in results {
        match result {
            Ok(stream) => {
                let took = format!("connected in {:.1} ms", time.as_secs_f64() * 1e3);
                step.fact(address.to_string(), took);
                connected.get_or_insert(stream);
            }
            Err(error) => {
                step.fact(address.to_string(), error.to_string());
                failure = Some(error);
            }
        }
    }
    match (&connected, failure) {
        (None, Some(error)) => {
            let message = format!("no address of {} accepts a connection", visit.address);
            step.fail(message, advice::not_connected(&error, &visit.address));
            visit.failed(step);
        }
        _ => visit.steps.push(step),
    }
    connected
}

/// Adds the steps that a probe has gone through.
async fn record<R: Runtime>(
    clock: &Clock<R>,
    options: &ClientOptions,
    visit: &mut Visit,
    findings: &Findings,
    begun: Instant,
) {
    let server = Some(visit.address.to_string());
    let failed = findings.failure.as_ref();
    if options.tls().enabled {
        let mut step = Step::new(Stage::Tls, server.clone());
        let host = visit.address.host().to_owned();
        if let Some((facts, time)) = &findings.tls {
            step.duration = *time;
            diagnosis::describe_tls(&mut step, facts, clock.wall());
        }
        if let Some((ProbeStep::Connect | ProbeStep::Tls, error)) = failed {
            step.duration = clock.now() - begun;
            if findings.tls.is_none() {
                diagnosis::examine_tls(clock, &mut step, &visit.address, error).await;
            }
            let hints = advice::tls_failed(error, &step, &host, clock.wall());
            step.fail(error.to_string(), hints);
            visit.failed(step);
            return;
        }
        visit.steps.push(step);
    }
    let mut step = Step::new(Stage::Hello, server.clone());
    if let Some(hello) = &findings.hello {
        step.duration = hello.round_trip;
        describe_hello(&mut step, hello, options);
    }
    match failed {
        Some((ProbeStep::Connect | ProbeStep::Tls | ProbeStep::Hello, error)) => {
            if findings.hello.is_none() {
                step.duration = findings.last;
            }
            let speaks_tls = findings.hello.is_none()
                && !options.tls().enabled
                && diagnosis::speaks_tls(clock, &visit.address).await;
            step.fail(
                error.to_string(),
                advice::hello_failed(error, options, speaks_tls),
            );
            visit.failed(step);
            return;
        }
        Some((ProbeStep::Authentication, _)) | None => visit.steps.push(step),
    }
    let Some(credential) = options.credential() else {
        return;
    };
    let mut step = Step::new(Stage::Authentication, server);
    step.duration = findings.last;
    if let Some(user) = &credential.username {
        step.fact("user", user.clone());
    }
    step.fact("authSource", credential.source.clone());
    if let Some(mechanism) = credential.mechanism {
        step.fact("mechanism", mechanism.name());
    }
    let offered = findings
        .hello
        .as_ref()
        .and_then(|hello| strings(&hello.reply, "saslSupportedMechs"));
    match failed {
        None => visit.steps.push(step),
        Some((_, error)) => {
            let hints = advice::not_authenticated(error, credential, offered.as_deref());
            step.fail(error.to_string(), hints);
            visit.failed(step);
        }
    }
}

/// Adds the facts of a reply to `hello`.
fn describe_hello(step: &mut Step, hello: &Hello, options: &ClientOptions) {
    let server = &hello.description;
    step.fact("kind", kind(server.server_type));
    if let Some(name) = &server.set_name {
        step.fact("replica set", name.clone());
    }
    if let Some(me) = server.me.as_ref().filter(|me| **me != server.address) {
        step.fact("announced as", me.to_string());
    }
    if let Some(primary) = &server.primary {
        step.fact("primary", primary.to_string());
    }
    let versions = format!(
        "{} to {}{}",
        server.min_wire_version,
        server.max_wire_version,
        release_of(server.max_wire_version)
    );
    step.fact("wire versions", versions);
    step.fact(
        "compressors",
        strings(&hello.reply, "compression").unwrap_or_default(),
    );
    if let Some(mechanisms) = strings(&hello.reply, "saslSupportedMechs") {
        step.fact("mechanisms of the user", mechanisms);
    }
    step.fact("round trip", hello.round_trip);
    if server.server_type == ServerType::RsGhost {
        let message = "the server was started as a member of a replica set that does not exist yet";
        step.warn(message, advice::ghost());
    }
    if let (Some(wanted), Some(found)) = (options.replica_set(), &server.set_name)
        && wanted != found
    {
        let message = format!(
            "the server belongs to the replica set {found:?}, and the connection string asks for \
             {wanted:?}"
        );
        step.warn(message, advice::other_set(found));
    }
    describe_clock(step, hello);
}

/// Compares the clock of the server with that of this machine.
fn describe_clock(step: &mut Step, hello: &Hello) {
    let Ok(Some(RawBsonRef::DateTime(time))) = hello.reply.get("localTime") else {
        return;
    };
    let own = i128::from(hello.wall.as_unix_millis());
    let difference = i128::from(time.timestamp_millis()) - own;
    step.fact("clock difference", Value::Millis(difference as f64));
    if difference.unsigned_abs() >= CLOCK_DIFFERENCE.as_millis() {
        let seconds = difference.unsigned_abs() / 1000;
        let direction = if difference > 0 { "ahead of" } else { "behind" };
        let message =
            format!("the clock of the server is {seconds} s {direction} that of this machine");
        step.warn(message, advice::clock());
    }
}

/// Returns the strings of an array of the reply; `None` if there is no such array.
fn strings(reply: &RawDocument, key: &str) -> Option<Vec<String>> {
    let array = reply.get_array(key).ok()?;
    let texts = array.into_iter().flatten().take(64);
    Some(
        texts
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect(),
    )
}

/// Returns the type of a server in the words of users.
pub(crate) const fn kind(server_type: ServerType) -> &'static str {
    match server_type {
        ServerType::Standalone => "standalone",
        ServerType::Mongos => "mongos (router of a sharded cluster)",
        ServerType::RsPrimary => "primary",
        ServerType::RsSecondary => "secondary",
        ServerType::RsArbiter => "arbiter",
        ServerType::RsOther => "member that is hidden or recovers",
        ServerType::RsGhost => "member of a replica set that is not initiated",
        ServerType::LoadBalancer => "load balancer",
        ServerType::PossiblePrimary | ServerType::Unknown => "unknown",
    }
}

/// Returns the MongoDB release that introduced a wire version.
const fn release_of(wire_version: i32) -> &'static str {
    match wire_version {
        6 => " (MongoDB 3.6)",
        7 => " (MongoDB 4.0)",
        8 => " (MongoDB 4.2)",
        9 => " (MongoDB 4.4)",
        13 => " (MongoDB 5.0)",
        17 => " (MongoDB 6.0)",
        21 => " (MongoDB 7.0)",
        25 => " (MongoDB 8.0)",
        27 => " (MongoDB 8.2)",
        _ => "",
    }
}

/// True if the certificate of a server was refused, so that its chain is worth reading.
pub(crate) fn is_refused_certificate(error: &Error) -> bool {
    use onionskin_core::error::TlsFault;
    matches!(
        error.kind(),
        ErrorKind::Tls {
            fault: TlsFault::Certificate | TlsFault::HostName,
            ..
        }
    )
}

/// True if the server closed or reset the connection.
pub(crate) fn is_closed(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Network {
            fault: NetworkFault::Closed | NetworkFault::Reset,
            ..
        }
    )
}

/// Returns the calendar time in the form of RFC 3339.
pub(crate) fn wall_text(wall: WallTime) -> String {
    let millis = i64::try_from(wall.as_unix_millis()).unwrap_or(i64::MAX);
    let time = onionskin::bson::DateTime::from_millis(millis);
    time.try_to_rfc3339_string()
        .unwrap_or_else(|_| format!("{millis} ms after 1970"))
}
