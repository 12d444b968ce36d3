//! The TLS configuration that all connections of a client share.

use super::{
    certificates::{identity, roots},
    configuration,
    verifier::Verifier,
};
use crate::{error::Result, options::TlsOptions, time::WallTime};
use rustls::{
    ClientConfig, client::Resumption, crypto::ring, pki_types::UnixTime,
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
/// The insecure options switch checks off ([URI-21]). `tlsAllowInvalidHostnames` switches off the
/// check of the host name. `tlsAllowInvalidCertificates` and `tlsInsecure` switch off the checks of
/// chain, validity, purpose and host name. The peer's proof that it holds the key of the
/// certificate is always checked. Revocation is never checked. Therefore
/// `tlsDisableOCSPEndpointCheck` and `tlsDisableCertificateRevocationCheck` have no effect.
///
/// Handshakes run under the client's lock, where a slow one delays all operations. A certificate
/// chain that would take long to check is therefore refused at once.
/// [`MAX_CERTIFICATES`](super::MAX_CERTIFICATES) and [`MAX_CHAIN_BYTES`](super::MAX_CHAIN_BYTES)
/// limit its size. [`MAX_OF_ONE_SUBJECT`](super::MAX_OF_ONE_SUBJECT) and
/// [`MAX_SHARED_SUBJECTS`](super::MAX_SHARED_SUBJECTS) limit the number of its paths to an
/// authority.
///
/// Sessions are not resumed: a resumed session would skip the check of the certificate, and pools
/// rarely connect.
///
/// ```
/// use onionskin_core::{options::TlsOptions, time::WallTime, tls::{TlsContext, TlsSession}};
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
}

impl TlsContext {
    /// Returns the context for these options. If the options name a file, they must also hold its
    /// content.
    ///
    /// Every handshake fails until [`set_wall_time`](Self::set_wall_time) is called.
    pub fn new(options: &TlsOptions) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(Verifier::new(roots(options)?, algorithms, options));
        let clock = Arc::new(Clock::default());
        let builder = ClientConfig::builder_with_details(provider, clock.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| configuration(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match identity(options)? {
            Some(identity) => builder
                .with_client_auth_cert(identity.chain, identity.key)
                .map_err(|error| configuration(format!("tlsCertificateKeyFile: {error}")))?,
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            clock,
        })
    }

    /// Sets the time of day. Certificates are checked against the last time that was set.
    pub fn set_wall_time(&self, now: WallTime) {
        self.clock.0.store(now.as_unix_millis(), Ordering::Relaxed);
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContext").finish_non_exhaustive()
    }
}

/// The time of day that was set last, in milliseconds since 1970; zero if none was set.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(UnixTime::since_unix_epoch(Duration::from_millis(millis))),
        }
    }
}
