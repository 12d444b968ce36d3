//! TLS handshakes in memory between a client's session and a server, with the cost of the client.

use onionskin_core::unstable::tls::{TlsContext, TlsSession};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, date_time_ymd};
use rustls::{
    HandshakeKind, ServerConfig, ServerConnection,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The number of bytes of one input of the client, as many as the adapters read at once.
const READ_BYTES: usize = 4096;

/// The outcome of a handshake.
#[derive(Debug)]
pub struct Handshake {
    /// The time of all the work of the client.
    pub total: Duration,
    /// The time of the client's longest input.
    pub longest: Duration,
    /// The kind of the handshake, or the reason why it failed.
    pub outcome: Result<HandshakeKind, String>,
}

impl Handshake {
    /// Runs a handshake of a client that connects to `host`. The function `run` is called with each
    /// part of the client's work.
    ///
    /// # Panics
    ///
    /// Panics if the host name cannot be used or the server does not start.
    pub fn run(
        context: &TlsContext,
        config: &Arc<ServerConfig>,
        host: &str,
        run: &mut dyn FnMut(&mut dyn FnMut()),
    ) -> Self {
        let mut server = ServerConnection::new(config.clone()).expect("a server");
        server.set_buffer_limit(None);
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        let mut timed = |work: &mut dyn FnMut()| {
            let start = Instant::now();
            run(work);
            let took = start.elapsed();
            total += took;
            took
        };
        let mut client = None;
        timed(&mut || client = TlsSession::new(context, host).ok());
        let mut client = client.expect("a name");
        let outcome = 'handshake: loop {
            let (mut out, mut back) = (Vec::new(), Vec::new());
            timed(&mut || while client.poll_transmit(&mut out) {});
            let mut rest = &out[..];
            while !rest.is_empty() {
                server.read_tls(&mut rest).expect("room");
                if let Err(error) = server.process_new_packets() {
                    break 'handshake Err(error.to_string());
                }
            }
            while server.wants_write() {
                server.write_tls(&mut back).expect("a vector");
            }
            for bytes in back.chunks(READ_BYTES) {
                let mut result = Ok(());
                let took = timed(&mut || result = client.handle_received(bytes));
                longest = longest.max(took);
                if let Err(error) = result {
                    break 'handshake Err(error.to_string());
                }
            }
            if out.is_empty() && back.is_empty() {
                break server
                    .handshake_kind()
                    .ok_or_else(|| "unfinished".to_owned());
            }
        };
        Self {
            total,
            longest,
            outcome,
        }
    }
}

/// Returns the parameters of a certificate for `db.example.net` that is valid from 2020 to 2040.
/// `name` is its common name.
///
/// # Panics
///
/// Never: the host name is valid.
pub fn server_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["db.example.net".to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params
}

/// Returns the parameters of an authority's certificate that is valid from 2020 to 2040.
pub fn authority_params(name: &str) -> CertificateParams {
    let mut params = server_params(name);
    params.subject_alt_names.clear();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A server's choice of its certificate, the same for each client.
#[derive(Debug)]
pub struct Always(pub Arc<CertifiedKey>);

impl ResolvesServerCert for Always {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}
