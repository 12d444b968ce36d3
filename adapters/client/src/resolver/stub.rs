//! The built-in resolver: carries out the actions of [`Lookup`].

use crate::{Runtime, files, system::is_local};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin_core::{
    dns::{
        DnsAnswer, DnsCache, DnsQuery, HostsFile, Lookup, LookupAction, LookupSocket,
        MAX_FILE_BYTES, RecordKind, ResolverConfig,
    },
    error::{Error, NetworkFault},
    random::Seed,
    time::Instant,
};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

/// The size of the read buffer in bytes. It is larger than the datagrams that name servers are
/// asked for.
const READ_BYTES: usize = 4096;

/// The file with the name servers of the system.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The file with the addresses of names that need no name server.
const HOSTS: &str = "/etc/hosts";

/// The configuration and the cache of a client's resolver.
#[derive(Debug, Default)]
pub(crate) struct StubResolver {
    /// The configuration; `None` for that of the system, which is read at each lookup.
    config: Option<Arc<ResolverConfig>>,
    cache: Mutex<DnsCache>,
}

impl StubResolver {
    pub(crate) fn new(config: Option<ResolverConfig>) -> Self {
        Self {
            config: config.map(Arc::new),
            cache: Mutex::default(),
        }
    }

    /// Looks up records in the cache, or by asking name servers.
    pub(crate) async fn look_up<R: Runtime>(
        &self,
        runtime: &R,
        now: impl Fn() -> Instant + Send,
        query: DnsQuery,
        limit: Duration,
    ) -> Result<DnsAnswer, Error> {
        let cached = self.cache().get(now(), &query);
        if let Some(result) = cached {
            return result;
        }
        let mut seed = [0; 32];
        runtime.entropy(&mut seed).map_err(|error| {
            Error::argument(format!("cannot read random bytes from the system: {error}"))
        })?;
        let config = match &self.config {
            Some(config) => config.clone(),
            None => Arc::new(system_config(query.kind)?),
        };
        let random = Seed::new(seed).random();
        let lookup = Lookup::new(now(), query.clone(), config, random, Some(limit));
        let mut driver = Driver {
            runtime,
            now: &now,
            lookup,
            sockets: Vec::new(),
            sleep: None,
            lack: None,
        };
        let result = poll_fn(|context| driver.poll(context)).await;
        if let (Err(_), Some(error)) = (&result, driver.lack.take()) {
            return Err(local_error(&error, "a name server cannot be asked"));
        }
        let ttl = match &result {
            Ok(answer) => answer.ttl.unwrap_or_default(),
            Err(_) => driver.lookup.negative_ttl(),
        };
        self.cache().insert(now(), query, result.clone(), ttl);
        result
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, DnsCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the configuration of the system for a query of this type. The hosts file is read for
/// addresses only. A missing file counts as empty.
pub(super) fn system_config(kind: RecordKind) -> Result<ResolverConfig, Error> {
    let config = ResolverConfig::parse(&read(RESOLV_CONF)?);
    match kind {
        RecordKind::A | RecordKind::Aaaa => {
            let hosts = read(HOSTS)?;
            Ok(config.with_hosts(HostsFile::parse(&String::from_utf8_lossy(&hosts))))
        }
        _ => Ok(config),
    }
}

fn read(path: &str) -> Result<Vec<u8>, Error> {
    match files::read(Path::new(path), MAX_FILE_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        result => result.map_err(|error| local_error(&error, &format!("{path} cannot be read"))),
    }
}

/// Returns the error for a lookup that this machine cannot carry out.
fn local_error(error: &io::Error, what: &str) -> Error {
    let fault = match is_local(error) {
        true => NetworkFault::OutOfSockets,
        false => NetworkFault::Other,
    };
    Error::network(fault, format!("{what}: {error}"))
}

/// One lookup with its sockets.
struct Driver<'a, R: Runtime, N> {
    runtime: &'a R,
    now: &'a N,
    lookup: Lookup,
    sockets: Vec<Socket<'a, R>>,
    /// The wait for the deadline of the lookup.
    sleep: Option<(Instant, Pin<Box<R::Sleep>>)>,
    /// The last error of a socket that shows a shortage in this process.
    lack: Option<io::Error>,
}

/// A socket of a lookup.
struct Socket<'a, R: Runtime> {
    id: LookupSocket,
    server: SocketAddr,
    is_datagram: bool,
    bytes: Vec<u8>,
    written: usize,
    state: State<'a, R>,
}

enum State<'a, R: Runtime> {
    Opening(Pin<Box<dyn Future<Output = io::Result<R::Stream>> + Send + 'a>>),
    Open(R::Stream),
}

impl<R: Runtime, N: Fn() -> Instant> Driver<'_, R, N> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<DnsAnswer, Error>> {
        loop {
            while let Some(action) = self.lookup.poll_action() {
                self.carry_out(action);
            }
            if let Some(result) = self.lookup.take_result() {
                return Poll::Ready(result);
            }
            if !self.poll_sockets(context) && !self.poll_deadline(context) {
                return Poll::Pending;
            }
        }
    }

    fn carry_out(&mut self, action: LookupAction) {
        let runtime = self.runtime;
        let (id, server, bytes, is_datagram) = match action {
            LookupAction::SendDatagram {
                socket,
                server,
                bytes,
            } => (socket, server, bytes, true),
            LookupAction::SendStream {
                socket,
                server,
                bytes,
            } => (socket, server, bytes, false),
            LookupAction::Close { socket } => {
                self.sockets.retain(|other| other.id != socket);
                return;
            }
        };
        let state = match is_datagram {
            true => State::Opening(Box::pin(runtime.connect_datagram(server))),
            false => State::Opening(Box::pin(runtime.connect(server))),
        };
        self.sockets.push(Socket {
            id,
            server,
            is_datagram,
            bytes,
            written: 0,
            state,
        });
    }

    /// Polls the sockets until one of them has an input for the lookup. Returns false if none has.
    fn poll_sockets(&mut self, context: &mut Context<'_>) -> bool {
        let mut buffer = [0; READ_BYTES];
        for socket in &mut self.sockets {
            let result = socket.poll(context, &mut buffer);
            let now = (self.now)();
            match result {
                Poll::Pending => continue,
                Poll::Ready(Ok(count)) if socket.is_datagram => {
                    let (id, server) = (socket.id, socket.server);
                    self.lookup
                        .handle_datagram(now, id, server, &buffer[..count]);
                }
                Poll::Ready(Ok(count)) => {
                    self.lookup
                        .handle_received(now, socket.id, &buffer[..count]);
                }
                Poll::Ready(Err(error)) => {
                    self.lookup
                        .handle_failed(now, socket.id, &error.to_string());
                    if is_local(&error) {
                        self.lack = Some(error);
                    }
                }
            }
            return true;
        }
        false
    }

    /// Waits for the deadline of the lookup. Returns true when it has passed.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> bool {
        let Some(deadline) = self.lookup.deadline() else {
            return false;
        };
        let now = (self.now)();
        if self
            .sleep
            .as_ref()
            .is_none_or(|(until, _)| *until != deadline)
        {
            let pause = deadline.saturating_since(now);
            self.sleep = Some((deadline, Box::pin(self.runtime.sleep(pause))));
        }
        let is_over = match &mut self.sleep {
            Some((_, sleep)) => sleep.as_mut().poll(context).is_ready(),
            None => false,
        };
        if is_over {
            self.sleep = None;
            self.lookup.handle_timeout((self.now)());
        }
        is_over
    }
}

impl<R: Runtime> Socket<'_, R> {
    /// Opens the socket, sends the query, and then receives. Returns the number of received bytes.
    fn poll(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let stream = match &mut self.state {
                State::Opening(opening) => match opening.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(stream)) => {
                        self.state = State::Open(stream);
                        continue;
                    }
                },
                State::Open(stream) => stream,
            };
            if self.written == self.bytes.len() {
                return Pin::new(stream).poll_read(context, buffer);
            }
            match Pin::new(stream).poll_write(context, &self.bytes[self.written..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
    }
}
