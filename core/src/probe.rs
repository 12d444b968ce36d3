//! The probe of one server: connects, and reports each step up to authentication.
//!
//! A client hides the steps of a connection. A tool that explains why a client cannot connect needs
//! them one by one, with their facts and times.

mod revocation;

use crate::{
    address::Address,
    auth::{
        AuthState, CallLimits, DerivedKeys, Finding, Inquiry, KerberosStep, KerberosStepResult,
        KeyDerivation, Need, Provided, Supply, SupplyStep, not_provided,
    },
    client::ClientConfig,
    connection::{Connection, ConnectionPurpose, HandshakeOptions, Output, Phase, closed_by_peer},
    description::{ServerDescription, ServerType, TopologyDescription},
    error::{Error, ErrorKind},
    hello::HelloAnswer,
    options::{AuthMechanism, ClientOptions, Compressor, ReadPreference},
    random::{Random, Seed},
    selection::{Criteria, in_window, suitable},
    time::{Instant, WallTime, earliest},
};
use bson::RawDocumentBuf;
use revocation::StatusCheck;
use std::{collections::VecDeque, sync::Arc, time::Duration};

pub use crate::tls::{RevocationStatus, StatusSource, TlsFacts};

/// A step of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeStep {
    /// Connecting the socket: to the server, or to the proxy if there is one.
    Connect,
    /// The conversation with the proxy, which connects to the server.
    Proxy,
    /// The TLS handshake.
    Tls,
    /// The hello of the connection.
    Hello,
    /// Authentication.
    Authentication,
}

/// The compressor of a connection, and its effect on the reply to the hello, as a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionSample {
    /// The compressor of the requests.
    pub compressor: Compressor,
    /// The size of a message with the sample, in bytes.
    pub plain_bytes: usize,
    /// The size of the message once it is compressed, in bytes.
    pub compressed_bytes: usize,
}

/// A report of a probe, from [`Probe::poll_output`].
#[derive(Debug)]
pub enum ProbeOutput {
    /// The proxy has connected to the server.
    ProxyConnected,
    /// The TLS connection waits for what OCSP responders know about the certificate of the server.
    /// Make these inquiries at the same time. [`Probe::handle_status_finding`] takes each answer,
    /// until [`Probe::is_waiting_for_status`] is false.
    StatusNeeded {
        /// The inquiries.
        inquiries: Vec<Inquiry>,
        /// The time limit, which all inquiries share.
        limit: Duration,
    },
    /// The TLS handshake is complete, and the certificate is accepted.
    TlsEstablished(TlsFacts),
    /// The hello was answered.
    HelloAnswered {
        /// The whole reply.
        reply: RawDocumentBuf,
        /// The server as the reply describes it.
        description: Box<ServerDescription>,
        /// The time from sending the hello to receiving its reply.
        round_trip: Duration,
        /// The chosen compressor, and its effect on a sample. `None` if messages are not
        /// compressed.
        compression: Option<CompressionSample>,
    },
    /// Authentication waits for these keys, whose derivation may take long.
    /// [`Probe::handle_keys`] takes them.
    KeysNeeded(KeyDerivation),
    /// Authentication waits for this step of Kerberos, which may block for a long time.
    /// [`Probe::handle_kerberos_step`] takes the result.
    KerberosStepNeeded(KerberosStep),
    /// Authentication waits for the answer to this inquiry. [`Probe::handle_finding`] takes it. The
    /// caller gives up after the time limit.
    InquiryNeeded {
        /// The inquiry.
        inquiry: Inquiry,
        /// The time limit.
        limit: Duration,
    },
    /// The connection is ready for operations. No further report follows.
    Ready {
        /// The mechanism by which the connection was authenticated. `None` without a credential,
        /// and for an arbiter, which has no users ([AUTH-16]).
        ///
        /// [AUTH-16]: crate::requirements::authentication#AUTH-16
        mechanism: Option<AuthMechanism>,
    },
    /// The probe failed. No further report follows.
    Failed {
        /// The step that failed.
        step: ProbeStep,
        /// The error of the step.
        error: Error,
    },
}

/// The probe of one server, a machine that the caller drives like a connection.
///
/// The caller connects a socket to [`dial_address`](Self::dial_address), calls
/// [`handle_connected`](Self::handle_connected), and passes received bytes to
/// [`handle_received`](Self::handle_received). At [`deadline`](Self::deadline) it calls
/// [`handle_timeout`](Self::handle_timeout). After each input it writes the bytes of
/// [`poll_transmit`](Self::poll_transmit) to the socket and takes the reports of
/// [`poll_output`](Self::poll_output).
///
/// ```
/// use onionskin_core::{
///     address::Address, client::ClientConfig, probe::Probe, random::Seed,
///     time::{Instant, WallTime}, uri,
/// };
///
/// let options = uri::parse("mongodb://db.example.net")?.options;
/// let server = Address::tcp("db.example.net", 27017);
/// let config = ClientConfig::new(options, Seed::new([7; 32]))?;
/// let wall = WallTime::from_unix_millis(1_800_000_000_000);
/// let mut probe = Probe::new(Instant::ZERO, server, config, wall);
/// probe.handle_connected(Instant::ZERO);
/// let mut bytes = Vec::new();
/// assert!(probe.poll_transmit(&mut bytes), "the hello");
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Probe {
    connection: Connection,
    step: ProbeStep,
    auth: AuthState,
    supply: Supply,
    options: Arc<HandshakeOptions>,
    /// The inquiry that is to be reported next.
    inquiry: Option<(Inquiry, Duration)>,
    status: StatusCheck,
    /// The reports of the connection that were not returned yet.
    reports: VecDeque<Output>,
    /// The time at which a delayed call of a callback for tokens is due.
    callback_due: Option<Instant>,
    /// The source of the credential, as far as it came from outside of the options.
    source: Option<String>,
    /// The mechanism of authentication, once the hello was answered.
    mechanism: Option<AuthMechanism>,
    /// True if the proxy has connected to the server, and this was not reported yet.
    passed_proxy: bool,
    /// The facts of TLS, until they are reported.
    tls: Option<TlsFacts>,
    /// The time of the last input.
    now: Instant,
}

impl Probe {
    /// Returns the probe of the server at `address`, for a client with this configuration. `wall`
    /// is the calendar time, by which certificates are checked.
    #[must_use]
    pub fn new(now: Instant, address: Address, config: ClientConfig, wall: WallTime) -> Self {
        let random = config.seed.split("probe").random();
        let kerberos = config.kerberos();
        let options = config.into_handshake_options();
        let mut probe = Self::start(now, address, options, random, wall);
        probe.auth = probe.auth.with_kerberos(kerberos);
        probe
    }

    /// Returns a probe as [`new`](Self::new) does, without the credential of the client. A client
    /// checks its servers by such connections before it authenticates with them ([AUTH-13]).
    ///
    /// [AUTH-13]: crate::requirements::authentication#AUTH-13
    #[must_use]
    pub fn without_credential(
        now: Instant,
        address: Address,
        config: ClientConfig,
        wall: WallTime,
    ) -> Self {
        let random = config.seed.split("probe").random();
        let mut options = config.into_handshake_options();
        options.credential = None;
        Self::start(now, address, options, random, wall)
    }

    fn start(
        now: Instant,
        address: Address,
        options: HandshakeOptions,
        random: Random,
        wall: WallTime,
    ) -> Self {
        options.layers.set_wall_time(wall);
        let purpose = ConnectionPurpose::Operations;
        let options = Arc::new(options);
        let mut random = random;
        let mut seed = [0; 32];
        random.fill(&mut seed);
        let supply = Supply::new(Seed::new(seed).random());
        let mut auth = AuthState::new(random);
        auth.caches.set_wall_time(now, wall);
        Self {
            connection: Connection::new(now, address, purpose, options.clone()),
            step: ProbeStep::Connect,
            auth,
            supply,
            options,
            inquiry: None,
            status: StatusCheck::default(),
            reports: VecDeque::new(),
            callback_due: None,
            source: None,
            mechanism: None,
            passed_proxy: false,
            tls: None,
            now,
        }
    }

    /// Continues after the socket was connected.
    pub fn handle_connected(&mut self, now: Instant) {
        self.now = now;
        self.step = ProbeStep::Tls;
        self.connection.handle_connected(now, &mut self.auth);
        if self.connection.is_at_proxy() {
            self.step = ProbeStep::Proxy;
        }
        self.note_layers();
    }

    /// Processes bytes from the socket.
    pub fn handle_received(&mut self, now: Instant, bytes: &[u8]) {
        self.now = now;
        self.connection.handle_received(now, bytes, &mut self.auth);
        self.answer_status_query();
        self.mechanism = self.connection.mechanism().or(self.mechanism);
        self.note_layers();
    }

    /// Fails the probe, for example because the socket has failed.
    pub fn handle_failed(&mut self, error: Error) {
        self.connection.handle_failed(error);
    }

    /// Fails the probe because the server has closed the connection.
    pub fn handle_closed(&mut self) {
        self.connection.handle_failed(closed_by_peer());
    }

    /// Takes the keys that authentication waits for.
    pub fn handle_keys(&mut self, now: Instant, keys: &DerivedKeys) {
        self.now = now;
        self.connection.handle_keys(now, keys, &mut self.auth);
    }

    /// Takes the result of the step of Kerberos that authentication waits for.
    pub fn handle_kerberos_step(&mut self, now: Instant, result: KerberosStepResult) {
        self.now = now;
        self.connection
            .handle_kerberos_step(now, result, &mut self.auth);
    }

    /// Takes the answer to an inquiry, or the reason why there is none. The reason becomes part of
    /// an error message, so it must not contain secrets.
    pub fn handle_finding(&mut self, now: Instant, finding: Result<Finding, String>) {
        self.now = now;
        let step = self.supply.handle_finding(finding);
        self.follow_supply(step);
    }

    /// Handles a part of the credential that the connection needs.
    fn on_credential_needed(&mut self, need: &Need) {
        let Some(credential) = self.options.credential.clone() else {
            return;
        };
        let limits = CallLimits::new(self.options.connect_timeout, self.options.timeout);
        let caches = &self.auth.caches;
        let step = self
            .supply
            .begin(self.now, need, &credential, caches, limits);
        self.follow_supply(Some(step));
    }

    fn follow_supply(&mut self, step: Option<SupplyStep>) {
        let now = self.now;
        match step {
            None => {}
            Some(SupplyStep::Ask(inquiry, limit)) => {
                self.note_source(&inquiry);
                self.inquiry = Some((inquiry, limit));
            }
            Some(SupplyStep::Wait(due)) => self.callback_due = Some(due),
            Some(SupplyStep::Done(provided)) => {
                if let Provided::AwsKeys(keys) = &provided {
                    let name = keys.origin.name();
                    self.source = Some(format!("{name} (access key id {})", keys.id));
                }
                self.auth.caches.keep(now, &provided);
                self.connection
                    .handle_provided(now, &provided, &mut self.auth);
            }
            Some(SupplyStep::Failed(reason)) => {
                if let Some(credential) = &self.options.credential {
                    let error = not_provided(credential, &reason);
                    self.connection.handle_failed(error);
                }
            }
        }
    }

    /// Fails the probe if the time limit of the current step has passed, and continues a step that
    /// is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.connection.handle_timeout(now);
        if self.callback_due.take_if(|due| *due <= now).is_some() {
            let step = self.supply.handle_due(now);
            self.follow_supply(step);
        }
    }

    /// Returns the address to connect the socket to: that of the server, or that of the proxy if
    /// the connection goes through one.
    #[must_use]
    pub fn dial_address(&self) -> &Address {
        self.connection.dial_address()
    }

    /// Returns the step that is under way, or that failed.
    #[must_use]
    pub const fn step(&self) -> ProbeStep {
        self.step
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is to be called; `None`
    /// for never.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        earliest(self.connection.deadline(), self.callback_due)
    }

    /// Appends the bytes to transmit to `out`. Returns false if there are none.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        self.connection.poll_transmit(out)
    }

    /// Returns the source of the credential for a message, such as the name of a file or an
    /// endpoint: the one that was asked last, or the one that gave AWS credentials. `None` for a
    /// credential of which all parts are in the options. The text contains no secret.
    #[must_use]
    pub fn credential_source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    fn note_source(&mut self, inquiry: &Inquiry) {
        self.source = match inquiry {
            // The variables name another source, except those with AWS credentials.
            Inquiry::Environment(_) => return,
            Inquiry::File(path) => Some(format!("the file {path}")),
            Inquiry::Http(request) => Some(request.to_string()),
            Inquiry::Call(_) => Some("a callback of the application".to_owned()),
        };
    }

    /// Returns the next report; `None` if there is none.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<ProbeOutput> {
        if std::mem::take(&mut self.passed_proxy) {
            return Some(ProbeOutput::ProxyConnected);
        }
        if let Some(report) = self.status.take_report() {
            return Some(report);
        }
        if let Some(facts) = self.tls.take() {
            return Some(ProbeOutput::TlsEstablished(facts));
        }
        if let Some((inquiry, limit)) = self.inquiry.take() {
            return Some(ProbeOutput::InquiryNeeded { inquiry, limit });
        }
        let report = self.reports.pop_front();
        Some(match report.or_else(|| self.connection.poll_output())? {
            Output::HelloAnswered {
                answer, round_trip, ..
            } => {
                let HelloAnswer {
                    hello, document, ..
                } = *answer;
                let reply = Arc::unwrap_or_clone(document);
                self.step = ProbeStep::Authentication;
                let address = self.connection.address().clone();
                let (now, least) = (self.now, Duration::ZERO);
                let description = hello.into_description(address, now, Some(round_trip), least);
                if description.server_type == ServerType::RsArbiter {
                    self.mechanism = None;
                }
                let sample = self.connection.compress_sample(&reply);
                ProbeOutput::HelloAnswered {
                    reply,
                    description: Box::new(description),
                    round_trip,
                    compression: sample.map(|(compressor, plain_bytes, compressed_bytes)| {
                        CompressionSample {
                            compressor,
                            plain_bytes,
                            compressed_bytes,
                        }
                    }),
                }
            }
            Output::KeysNeeded(derivation) => ProbeOutput::KeysNeeded(derivation),
            Output::KerberosStepNeeded(step) => ProbeOutput::KerberosStepNeeded(step),
            Output::CredentialNeeded(need) => {
                self.on_credential_needed(&need);
                return self.poll_output();
            }
            Output::Established => ProbeOutput::Ready {
                mechanism: self.mechanism,
            },
            Output::Failed { error, phase } => ProbeOutput::Failed {
                step: match error.kind() {
                    _ if phase == Phase::Proxy && self.step > ProbeStep::Connect => {
                        ProbeStep::Proxy
                    }
                    // A server with TLS 1.3 refuses the client's certificate after the handshake.
                    ErrorKind::Tls { .. } => ProbeStep::Tls,
                    _ => self.step,
                },
                error,
            },
            // Only monitors check a server. Queries are answered when they are given.
            Output::Checked { .. } | Output::StatusNeeded(_) => return None,
        })
    }

    /// Notes the end of the conversation with the proxy, and the end of the TLS handshake. Without
    /// TLS the step of the hello begins at once.
    fn note_layers(&mut self) {
        if self.step == ProbeStep::Proxy && !self.connection.is_at_proxy() {
            self.step = ProbeStep::Tls;
            self.passed_proxy = true;
        }
        if self.step == ProbeStep::Tls && self.connection.is_open() {
            self.step = ProbeStep::Hello;
            self.tls = self.connection.tls_facts();
        }
    }
}

/// Returns the servers from which a client with these options would choose for an operation with
/// this read preference, sorted by address: the suitable servers in the latency window ([SEL-57]).
///
/// A custom server selector is not asked.
///
/// Fails if the maximum staleness of the preference is too small for the topology ([STALE-6]).
///
/// [SEL-57]: crate::requirements::server_selection#SEL-57
/// [STALE-6]: crate::requirements::server_selection#STALE-6
pub fn eligible_servers(
    description: &TopologyDescription,
    preference: &ReadPreference,
    options: &ClientOptions,
) -> Result<Vec<Address>, Error> {
    let criteria = Criteria::Readable(Arc::new(preference.clone()));
    let mut servers = suitable(description, &criteria, options.heartbeat_freq(), &[])?;
    in_window(&mut servers, options.local_threshold());
    Ok(servers
        .iter()
        .map(|server| server.address.clone())
        .collect())
}

#[cfg(test)]
mod tests;
