//! Time limits, sockets, and the loop that drives a probe.

use crate::{awaited::Awaited, derivations::Derivations};
use futures_util::{
    AsyncReadExt, AsyncWriteExt, StreamExt,
    future::{Either, select},
    stream::FuturesUnordered,
};
use onionskin::{Runtime, answer_inquiry, bson::RawDocumentBuf, run_kerberos_step, system};
use onionskin_core::{
    address::Address,
    client::{Inquiry, KerberosStep, KeyDerivation},
    description::ServerDescription,
    error::{Error, ErrorKind, NetworkFault, Wait},
    options::AuthMechanism,
    probe::{CompressionSample, Probe, ProbeOutput, ProbeStep, TlsFacts},
    time::{Instant, WallTime},
};
use std::{future::Future, net::SocketAddr, path::Path, pin::pin, time::Duration};

/// The size of the read buffer in bytes.
const READ_BYTES: usize = 4096;

/// The text of the error of a step for which the check has no time left.
pub(crate) const OUT_OF_TIME: &str = "the check has no time left for this step";

/// The runtime of a check, and the time limit of the whole check.
#[derive(Clone, Debug)]
pub(crate) struct Clock<R> {
    pub(crate) runtime: R,
    end: Instant,
    derivations: Derivations,
}

impl<R: Runtime> Clock<R> {
    pub(crate) fn new(runtime: R, limit: Duration) -> Self {
        Self {
            end: now_of(&runtime) + limit,
            runtime,
            derivations: Derivations::default(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        now_of(&self.runtime)
    }

    pub(crate) fn wall(&self) -> WallTime {
        WallTime::from_unix(self.runtime.wall_time())
    }

    /// Returns the time that is left to the whole check.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_since(self.now())
    }

    /// Awaits a future. Returns `None` if its time limit passes before, or that of the check.
    pub(crate) async fn within<F: Future>(
        &self,
        limit: Option<Duration>,
        future: F,
    ) -> Option<F::Output> {
        let limit = limit.unwrap_or(Duration::MAX).min(self.left());
        let sleep = pin!(self.runtime.sleep(limit));
        match select(pin!(future), sleep).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Returns a clock with a part of the time that is left.
    pub(crate) fn part(&self, divisor: u32) -> Self
    where
        R: Clone,
    {
        Self {
            runtime: self.runtime.clone(),
            end: self.now() + self.left() / divisor,
            derivations: self.derivations.clone(),
        }
    }

    /// Connects to a host within the limit: to the first of its addresses that accepts.
    pub(crate) async fn dial(
        &self,
        address: &Address,
        limit: Option<Duration>,
    ) -> Result<R::Stream, Error> {
        let (host, port) = match address {
            Address::Unix { path } => return self.connect_unix(path, limit).await,
            Address::Tcp { host, port } => (host, *port),
        };
        let addresses = match host.parse() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => self
                .within(limit, self.runtime.resolve(host, port))
                .await
                .ok_or_else(|| timed_out("the host name was not resolved in time"))?
                .map_err(|error| system::socket_error(&error))?,
        };
        let mut result = Err(Error::network(
            NetworkFault::NotResolved,
            "the host name has no address",
        ));
        for address in addresses {
            result = self.connect(&address, limit).await;
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Connects to a socket address within the limit.
    pub(crate) async fn connect(
        &self,
        address: &SocketAddr,
        limit: Option<Duration>,
    ) -> Result<R::Stream, Error> {
        let connected = self.within(limit, self.runtime.connect(*address)).await;
        connected
            .ok_or_else(|| timed_out("the connection was not accepted in time"))?
            .map_err(|error| system::socket_error(&error))
    }

    /// Connects to a Unix domain socket within the limit.
    pub(crate) async fn connect_unix(
        &self,
        path: &str,
        limit: Option<Duration>,
    ) -> Result<R::Stream, Error> {
        let connected = self
            .within(limit, self.runtime.connect_unix(Path::new(path)))
            .await;
        connected
            .ok_or_else(|| timed_out("the connection was not accepted in time"))?
            .map_err(|error| system::socket_error(&error))
    }
}

fn now_of<R: Runtime>(runtime: &R) -> Instant {
    let nanos = u64::try_from(runtime.now().as_nanos());
    Instant::from_nanos(nanos.unwrap_or(u64::MAX))
}

fn timed_out(message: &str) -> Error {
    let (wait, message) = (Wait::Connect, message.to_owned());
    ErrorKind::Timeout { wait, message }.into()
}

/// The results of the probe of one server.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The duration of the conversation with the proxy; `None` without a proxy, or if it failed.
    pub(crate) proxy: Option<Duration>,
    /// The facts of TLS with the duration of the handshake; `None` without TLS.
    pub(crate) tls: Option<(TlsFacts, Duration)>,
    /// The reply to `hello`; `None` if there was none.
    pub(crate) hello: Option<Hello>,
    /// The duration of the step that came last: that of authentication, or of the failed one.
    pub(crate) last: Duration,
    /// The mechanism of authentication if the connection became ready, or else the failed step with
    /// its error.
    pub(crate) result: Result<Option<AuthMechanism>, (ProbeStep, Error)>,
    /// The source of the credential, if it came from outside of the connection string.
    pub(crate) source: Option<String>,
    /// The source or computation for which the connection waits, if it does not wait for the
    /// server.
    pub(crate) awaited: Option<Awaited>,
}

/// A reply to `hello`.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) reply: RawDocumentBuf,
    pub(crate) description: Box<ServerDescription>,
    pub(crate) round_trip: Duration,
    /// The compressor of requests; `None` if they are not compressed.
    pub(crate) compression: Option<CompressionSample>,
    /// The calendar time of this machine when the reply arrived.
    pub(crate) wall: WallTime,
}

impl Findings {
    /// Returns the step that was under way last.
    fn step(&self, encrypted: bool) -> ProbeStep {
        match (&self.tls, &self.hello) {
            (_, Some(_)) => ProbeStep::Authentication,
            (None, None) if encrypted => ProbeStep::Tls,
            _ => ProbeStep::Hello,
        }
    }
}

/// Drives a probe over a connected socket until it is ready or has failed. `encrypted` tells
/// whether the probe uses TLS.
pub(crate) async fn drive<R: Runtime>(
    clock: &Clock<R>,
    mut probe: Probe,
    stream: R::Stream,
    encrypted: bool,
) -> Findings {
    probe.handle_connected(clock.now());
    let drive = Drive {
        clock,
        probe,
        stream,
        begun: clock.now(),
        findings: Findings {
            proxy: None,
            tls: None,
            hello: None,
            last: Duration::ZERO,
            result: Ok(None),
            source: None,
            awaited: None,
        },
    };
    drive.run(encrypted).await
}

/// A probe on a socket.
struct Drive<'a, R: Runtime> {
    clock: &'a Clock<R>,
    probe: Probe,
    stream: R::Stream,
    /// The time at which the step that is under way began.
    begun: Instant,
    findings: Findings,
}

/// The reason why an inquiry has no answer.
const NO_ANSWER: &str = "no answer came within the time limit";

/// True for a report with which the probe asks for something, and ends no step.
const fn is_request(output: &ProbeOutput) -> bool {
    matches!(
        output,
        ProbeOutput::StatusNeeded { .. }
            | ProbeOutput::KeysNeeded(_)
            | ProbeOutput::KerberosStepNeeded(_)
            | ProbeOutput::InquiryNeeded { .. }
    )
}

/// The input that a probe waits for.
enum Need {
    /// Bytes from the server.
    Bytes,
    /// Keys for authentication.
    Keys(KeyDerivation),
    /// The result of a step of Kerberos.
    Step(KerberosStep),
    /// The answer to an inquiry of authentication, within this time.
    Finding(Inquiry, Duration),
    /// The answers of OCSP responders, within this time.
    Status(Vec<Inquiry>, Duration),
    /// Nothing: the probe is over.
    Nothing,
}

impl<R: Runtime> Drive<'_, R> {
    async fn run(mut self, encrypted: bool) -> Findings {
        loop {
            let need = self.take_outputs();
            // A server can wait for bytes while the check waits for others.
            let is_waiting = !matches!(need, Need::Nothing | Need::Bytes);
            if is_waiting && self.flush().await.is_none() {
                continue;
            }
            let is_timed_out = match need {
                Need::Nothing => return self.findings,
                Need::Status(inquiries, limit) => {
                    self.ask_responders(inquiries, limit).await.is_none()
                }
                Need::Keys(derivation) => self.derive(derivation).await.is_none(),
                Need::Step(step) => self.run_step(step).await.is_none(),
                Need::Finding(inquiry, limit) => self.inquire(inquiry, limit).await.is_none(),
                Need::Bytes => self.exchange().await.is_none(),
            };
            if !is_timed_out {
                continue;
            }
            if self.clock.left().is_zero() {
                let step = match self.probe.step() {
                    ProbeStep::Proxy => ProbeStep::Proxy,
                    _ => self.findings.step(encrypted),
                };
                let error = match &self.findings.awaited {
                    Some(awaited) => format!("waiting for {awaited} took the rest of the time"),
                    None => OUT_OF_TIME.to_owned(),
                };
                self.findings.last = self.clock.now() - self.begun;
                self.findings.result = Err((step, timed_out(&error)));
                return self.findings;
            }
            self.probe.handle_timeout(self.clock.now());
        }
    }

    /// Takes the reports of the probe.
    fn take_outputs(&mut self) -> Need {
        while let Some(output) = self.probe.poll_output() {
            let now = self.clock.now();
            self.findings.last = now - self.begun;
            if !is_request(&output) {
                self.begun = now;
            }
            let source = self.probe.credential_source();
            self.findings.source = source.map(str::to_owned);
            match output {
                ProbeOutput::ProxyConnected => {
                    self.findings.proxy = Some(self.findings.last);
                }
                ProbeOutput::TlsEstablished(facts) => {
                    self.findings.tls = Some((facts, self.findings.last));
                }
                ProbeOutput::HelloAnswered {
                    reply,
                    description,
                    round_trip,
                    compression,
                } => {
                    self.findings.hello = Some(Hello {
                        reply,
                        description,
                        round_trip,
                        compression,
                        wall: self.clock.wall(),
                    });
                }
                ProbeOutput::KeysNeeded(derivation) => {
                    self.findings.awaited = Some(Awaited::Keys);
                    return Need::Keys(derivation);
                }
                ProbeOutput::KerberosStepNeeded(step) => {
                    self.findings.awaited = Some(Awaited::Kerberos);
                    return Need::Step(step);
                }
                ProbeOutput::StatusNeeded { inquiries, limit } => {
                    self.findings.awaited = Some(Awaited::responders(&inquiries));
                    return Need::Status(inquiries, limit);
                }
                ProbeOutput::InquiryNeeded { inquiry, limit } => {
                    self.findings.awaited = Some(Awaited::of(&inquiry));
                    return Need::Finding(inquiry, limit);
                }
                ProbeOutput::Ready { mechanism } => {
                    self.findings.result = Ok(mechanism);
                    return Need::Nothing;
                }
                ProbeOutput::Failed { step, error } => {
                    self.findings.result = Err((step, error));
                    return Need::Nothing;
                }
            }
        }
        Need::Bytes
    }

    /// Writes what the probe has to say, and passes received bytes to it. Returns `None` if its
    /// deadline passes before.
    async fn exchange(&mut self) -> Option<()> {
        let mut bytes = Vec::new();
        while self.probe.poll_transmit(&mut bytes) {}
        let mut buffer = [0; READ_BYTES];
        let stream = &mut self.stream;
        let turn = async {
            stream.write_all(&bytes).await?;
            stream.read(&mut buffer).await
        };
        let deadline = self.probe.deadline();
        let limit = deadline.map(|end| end.saturating_since(self.clock.now()));
        let received = self.clock.within(limit, turn).await?;
        match received {
            Ok(0) => self.probe.handle_closed(),
            Ok(count) => {
                let now = self.clock.now();
                self.probe.handle_received(now, &buffer[..count]);
            }
            Err(error) => self.probe.handle_failed(system::socket_error(&error)),
        }
        Some(())
    }

    /// Writes what the probe has to say. Returns `None` if that fails, or if the deadline of the
    /// probe passes before.
    async fn flush(&mut self) -> Option<()> {
        let mut bytes = Vec::new();
        while self.probe.poll_transmit(&mut bytes) {}
        let deadline = self.probe.deadline();
        let limit = deadline.map(|end| end.saturating_since(self.clock.now()));
        let written = self.clock.within(limit, self.stream.write_all(&bytes));
        match written.await {
            Some(Ok(())) => Some(()),
            Some(Err(error)) => {
                self.probe.handle_failed(system::socket_error(&error));
                None
            }
            None => {
                self.probe.handle_timeout(self.clock.now());
                None
            }
        }
    }

    /// Asks OCSP responders at the same time, until the status of the certificate is known or this
    /// time has passed. Returns `None` if the time limit of the check passes before.
    async fn ask_responders(&mut self, inquiries: Vec<Inquiry>, limit: Duration) -> Option<()> {
        let runtime = &self.clock.runtime;
        let asked = inquiries.into_iter();
        let mut answers: FuturesUnordered<_> = asked
            .map(|inquiry| answer_inquiry(runtime, inquiry))
            .collect();
        let end = self.clock.now() + limit;
        while self.probe.is_waiting_for_status() {
            let left = end.saturating_since(self.clock.now());
            let found = self.clock.within(Some(left), answers.next()).await;
            if found.is_none() && self.clock.left().is_zero() {
                return None;
            }
            let found = found.flatten();
            let found = found.unwrap_or_else(|| Err(NO_ANSWER.to_owned()));
            self.probe.handle_status_finding(self.clock.now(), found);
        }
        self.findings.awaited = None;
        Some(())
    }

    /// Answers an inquiry within this time. Returns `None` if the time limit of the check passes
    /// before.
    async fn inquire(&mut self, inquiry: Inquiry, limit: Duration) -> Option<()> {
        let answer = answer_inquiry(&self.clock.runtime, inquiry);
        let found = self.clock.within(Some(limit), answer).await;
        let found = match found {
            Some(found) => found,
            None if self.clock.left().is_zero() => return None,
            None => Err(NO_ANSWER.to_owned()),
        };
        self.findings.awaited = None;
        self.probe.handle_finding(self.clock.now(), found);
        Some(())
    }

    /// Runs a step of Kerberos on a thread of its own. Returns `None` if the deadline of the probe
    /// passes before.
    async fn run_step(&mut self, step: KerberosStep) -> Option<()> {
        let deadline = self.probe.deadline();
        let limit = deadline.map(|end| end.saturating_since(self.clock.now()));
        let work = run_kerberos_step(&self.clock.runtime, step);
        let result = self.clock.within(limit, work).await?;
        self.findings.awaited = None;
        match result {
            Some(result) => self.probe.handle_kerberos_step(self.clock.now(), result),
            None => {
                let message = "the Kerberos library panicked or could not be run".to_owned();
                self.probe
                    .handle_failed(ErrorKind::Runtime { message }.into());
            }
        }
        Some(())
    }

    /// Derives keys where this delays no other task. Meanwhile the deadline of the probe does not
    /// count. Returns `None` if the time limit of the check passes before.
    async fn derive(&mut self, derivation: KeyDerivation) -> Option<()> {
        let runtime = &self.clock.runtime;
        let work = self
            .clock
            .derivations
            .run(runtime, move || derivation.derive());
        let keys = self.clock.within(None, work).await?;
        self.findings.awaited = None;
        match keys {
            Some(keys) => self.probe.handle_keys(self.clock.now(), &keys),
            None => {
                let error = Error::runtime("the runtime did not derive the keys");
                self.probe.handle_failed(error);
            }
        }
        Some(())
    }
}
