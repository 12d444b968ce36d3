//! The probe of one server: connects, and reports each step up to authentication.
//!
//! A client hides the steps of a connection. A tool that explains why a client cannot connect needs
//! them one by one, with their facts and times.

use crate::{
    address::Address,
    auth::{DerivedKeys, KeyCache, KeyDerivation},
    client::ClientConfig,
    connection::{Connection, ConnectionPurpose, HandshakeOptions, Output, closed_by_peer},
    description::{ServerDescription, ServerType, TopologyDescription},
    error::{Error, ErrorKind},
    options::{ClientOptions, Mechanism, ReadPreference},
    random::Random,
    selection::{Criteria, in_window, suitable},
    time::{Instant, WallTime},
};
use bson::RawDocumentBuf;
use std::{sync::Arc, time::Duration};

pub use crate::tls::TlsFacts;

/// A step of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeStep {
    /// Connecting the socket.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The hello of the connection.
    Hello,
    /// Authentication.
    Authentication,
}

/// A report of a probe, from [`Probe::poll_output`].
#[derive(Debug)]
pub enum ProbeOutput {
    /// The TLS handshake is complete.
    TlsEstablished(TlsFacts),
    /// The hello was answered.
    HelloAnswered {
        /// The whole reply.
        reply: RawDocumentBuf,
        /// The server as the reply describes it.
        description: Box<ServerDescription>,
        /// The time from sending the hello to receiving its reply.
        round_trip: Duration,
    },
    /// Authentication waits for these keys, whose derivation may take long.
    /// [`Probe::handle_keys`] takes them.
    KeysNeeded(KeyDerivation),
    /// The connection is ready for operations. No further report follows.
    Ready {
        /// The mechanism by which the connection was authenticated. `None` without a credential,
        /// and for an arbiter, which has no users ([AUTH-16]).
        ///
        /// [AUTH-16]: crate::requirements::authentication#AUTH-16
        mechanism: Option<Mechanism>,
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
/// The caller connects a socket to the server, calls [`handle_connected`](Self::handle_connected),
/// and passes received bytes to [`handle_received`](Self::handle_received). At
/// [`deadline`](Self::deadline) it calls [`handle_timeout`](Self::handle_timeout). After each input
/// it writes the bytes of [`poll_transmit`](Self::poll_transmit) to the socket and takes the
/// reports of [`poll_output`](Self::poll_output).
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
    random: Random,
    keys: KeyCache,
    /// The mechanism of authentication, once the hello was answered.
    mechanism: Option<Mechanism>,
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
        Self::start(now, address, config.into_handshake_options(), random, wall)
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
        Self {
            connection: Connection::new(now, address, purpose, Arc::new(options)),
            step: ProbeStep::Connect,
            random,
            keys: KeyCache::new(),
            mechanism: None,
            tls: None,
            now,
        }
    }

    /// Continues after the socket was connected.
    pub fn handle_connected(&mut self, now: Instant) {
        self.now = now;
        self.step = ProbeStep::Tls;
        self.connection.handle_connected(now, &mut self.random);
        self.note_tls();
    }

    /// Processes bytes from the socket.
    pub fn handle_received(&mut self, now: Instant, bytes: &[u8]) {
        self.now = now;
        let Self { random, keys, .. } = self;
        self.connection.handle_received(now, bytes, random, keys);
        self.mechanism = self.connection.mechanism().or(self.mechanism);
        self.note_tls();
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
        self.connection.handle_keys(now, keys);
    }

    /// Fails the probe if the time limit of the current step has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.connection.handle_timeout(now);
    }

    /// Returns the time at which the current step times out; `None` without a limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Appends the bytes to transmit to `out`. Returns false if there are none.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        self.connection.poll_transmit(out)
    }

    /// Returns the next report; `None` if there is none.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<ProbeOutput> {
        if let Some(facts) = self.tls.take() {
            return Some(ProbeOutput::TlsEstablished(facts));
        }
        Some(match self.connection.poll_output()? {
            Output::HelloAnswered {
                reply,
                hello,
                round_trip,
                ..
            } => {
                self.step = ProbeStep::Authentication;
                let address = self.connection.address().clone();
                let (now, least) = (self.now, Duration::ZERO);
                let description = hello.into_description(address, now, Some(round_trip), least);
                if description.server_type == ServerType::RsArbiter {
                    self.mechanism = None;
                }
                ProbeOutput::HelloAnswered {
                    reply,
                    description: Box::new(description),
                    round_trip,
                }
            }
            Output::KeysNeeded(derivation) => ProbeOutput::KeysNeeded(derivation),
            Output::Established => ProbeOutput::Ready {
                mechanism: self.mechanism,
            },
            Output::Failed { error, .. } => ProbeOutput::Failed {
                step: match error.kind() {
                    // A server with TLS 1.3 refuses the client's certificate after the handshake.
                    ErrorKind::Tls { .. } => ProbeStep::Tls,
                    _ => self.step,
                },
                error,
            },
            // Only monitors check a server.
            Output::Checked { .. } => return None,
        })
    }

    /// Notes the end of the TLS handshake. Without TLS the step of the hello begins at once.
    fn note_tls(&mut self) {
        if self.step == ProbeStep::Tls && self.connection.is_open() {
            self.step = ProbeStep::Hello;
            self.tls = self.connection.tls_facts();
        }
    }
}

/// Returns the servers from which a client with these options would choose for an operation with
/// this read preference, sorted by address: the suitable servers in the latency window ([SEL-57]).
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
    let mut servers = suitable(description, &criteria, options.heartbeat_frequency(), &[])?;
    in_window(&mut servers, options.local_threshold());
    Ok(servers
        .iter()
        .map(|server| server.address.clone())
        .collect())
}

#[cfg(test)]
mod tests;
