//! The TLS configuration that all connections of a client share.

use super::{
    certificates::{identity, roots},
    configuration,
    provider::provider,
    resumption::Sessions,
    revocation::Subject,
    verifier::Verifier,
};
use crate::{error::Result, options::TlsOptions, time::WallTime};
use rustls::{
    ClientConfig, Error,
    client::Resumption,
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::SingleCertAndKey,
    time_provider::TimeProvider,
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The TLS configuration of a client: trusted authorities, the client's certificate, and the time
/// of day. Cloning is cheap, and clones share the time.
///
/// The insecure options switch checks off. `tlsAllowInvalidHostnames` switches off the check of the
/// host name. `tlsAllowInvalidCertificates` and `tlsInsecure` switch off the checks of chain,
/// validity, purpose and host name. The peer's proof that it holds the key of the certificate is
/// always checked. Revocation is checked unless one of `tlsAllowInvalidCertificates`, `tlsInsecure`
/// and `tlsDisableCertificateRevocationCheck` is set. A session asks OCSP responders only if its
/// context was made with [`with_status_queries`](Self::with_status_queries), and not with
/// `tlsDisableOCSPEndpointCheck` ([URI-21]).
///
/// Handshakes run under the client's lock, where a slow one delays all operations. A certificate
/// chain that would take long to check is therefore refused at once.
/// [`MAX_CERTIFICATES`](super::MAX_CERTIFICATES) and [`MAX_CHAIN_BYTES`](super::MAX_CHAIN_BYTES)
/// limit its size. [`MAX_OF_ONE_SUBJECT`](super::MAX_OF_ONE_SUBJECT) and
/// [`MAX_SHARED_SUBJECTS`](super::MAX_SHARED_SUBJECTS) limit the number of its paths to an
/// authority, and [`MAX_SIGNATURES`](super::MAX_SIGNATURES) the number of signatures that are
/// checked.
///
/// Sessions are resumed, which saves the server its signature, and with TLS 1.2 a round trip. The
/// handshake of a resumed session does not check the certificate. The context therefore checks the
/// certificate of the original session again, as for a new session. If this fails, the connection
/// fails, and the sessions of that host are dropped. A context stores sessions of at most
/// [`MAX_RESUMABLE_SERVERS`](super::MAX_RESUMABLE_SERVERS) hosts. Sessions are not resumed with a
/// host whose certificate requires a stapled OCSP response. Contexts share no sessions, except with
/// their clones.
///
/// With [`TlsOptions::config`], all of this is left to the application's configuration.
///
/// ```
/// use onionskin_core::{options::TlsOptions, time::WallTime};
/// use onionskin_core::unstable::tls::{TlsContext, TlsSession};
///
/// let context = TlsContext::new(&TlsOptions::default())?;
/// context.set_wall_time(WallTime::from_unix_millis(1_800_000_000_000));
/// let mut session = TlsSession::new(&context, "db.example.net")?;
/// let mut ciphertext = Vec::new();
/// assert!(session.poll_transmit(&mut ciphertext) && session.is_handshaking());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
///
/// [URI-21]: crate::requirements::connection_strings#URI-21
#[derive(Clone)]
pub struct TlsContext {
    config: Arc<ClientConfig>,
    clock: Arc<Clock>,
    /// `None` with a configuration of the application, which checks certificates itself.
    own: Option<Arc<BuiltIn>>,
    has_queries: bool,
    asks_responders: bool,
}

impl TlsContext {
    /// Returns the context for these options. If the options name a file, they must also hold its
    /// content.
    ///
    /// Every handshake fails until [`set_wall_time`](Self::set_wall_time) is called.
    pub fn new(options: &TlsOptions) -> Result<Self> {
        let clock = Arc::new(Clock::default());
        if let Some(config) = &options.config {
            return Ok(Self {
                config: config.get().clone(),
                clock,
                own: None,
                has_queries: false,
                asks_responders: false,
            });
        }
        let provider = Arc::new(provider(options.cryptography)?);
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(Verifier::new(roots(options)?, algorithms, options)?);
        let builder = ClientConfig::builder_with_details(provider.clone(), clock.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| configuration(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let mut config = match identity(options)? {
            Some(identity) => {
                let key = identity.certified(&provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
            }
            None => builder.with_no_client_auth(),
        };
        let sessions = Arc::new(Sessions::default());
        config.resumption = Resumption::store(sessions.clone());
        Ok(Self {
            config: Arc::new(config),
            clock,
            own: Some(Arc::new(BuiltIn { verifier, sessions })),
            has_queries: false,
            asks_responders: options.disable_ocsp_endpoint_check != Some(true),
        })
    }

    /// Makes sessions give a [`StatusQuery`](super::StatusQuery) before they are established, if
    /// neither a CRL of the user nor the options answer it.
    #[must_use]
    pub fn with_status_queries(mut self) -> Self {
        self.has_queries = true;
        self
    }

    /// Checks the certificates of a resumed session, which its handshake did not check. If they are
    /// not accepted now, the sessions with this host are dropped, so that the next connection gets
    /// the certificate that the server has by then. Returns what the check of revocation needs.
    pub(super) fn check_resumed(
        &self,
        host: &ServerName<'static>,
        chain: &[CertificateDer<'_>],
    ) -> std::result::Result<Option<Arc<Subject>>, Error> {
        let Some(own) = &self.own else {
            return Ok(None);
        };
        let now = self.clock.current_time();
        let now = now.ok_or(Error::FailedToGetCurrentTime)?;
        let (first, others) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        let result = own.verifier.check(first, others, host, now);
        if result.is_err() {
            self.drop_sessions(host);
        }
        result
    }

    /// Drops the sessions with this host, so that the next handshake is a full one.
    pub(super) fn drop_sessions(&self, host: &ServerName<'static>) {
        if let Some(own) = &self.own {
            own.sessions.drop_all(host);
        }
    }

    /// Makes all handshakes with this host full ones, because its certificate requires a stapled
    /// OCSP response.
    pub(super) fn refuse_resumption(&self, host: &ServerName<'static>) {
        if let Some(own) = &self.own {
            own.sessions.refuse(host);
        }
    }

    /// Sets the time of day. Certificates are checked against the last time that was set.
    pub fn set_wall_time(&self, now: WallTime) {
        self.clock.0.store(now.as_unix_millis(), Ordering::Relaxed);
    }

    /// Returns the verifier; `None` with a configuration of the application.
    pub(super) fn verifier(&self) -> Option<&Verifier> {
        self.own.as_ref().map(|own| &*own.verifier)
    }

    pub(super) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// True if sessions give a status query.
    pub(super) fn has_queries(&self) -> bool {
        self.has_queries
    }

    /// True if OCSP responders may be asked.
    pub(super) fn asks_responders(&self) -> bool {
        self.asks_responders
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> Option<Arc<Sessions>> {
        self.own.as_ref().map(|own| own.sessions.clone())
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

/// The verifier of a context, and the sessions that can be resumed.
struct BuiltIn {
    verifier: Arc<Verifier>,
    sessions: Arc<Sessions>,
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContext").finish_non_exhaustive()
    }
}

/// The time of day that was set last, in milliseconds since 1970; zero if none was set.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Returns the time in seconds since 1970; `None` if none was set.
    pub(super) fn unix_seconds(&self) -> Option<u64> {
        self.current_time().map(|time| time.as_secs())
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(UnixTime::since_unix_epoch(Duration::from_millis(millis))),
        }
    }
}
