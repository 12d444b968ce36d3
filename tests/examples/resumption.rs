//! Measures what a resumed TLS session saves the client, against a whole handshake.
//!
//! Without arguments, the program prints the CPU time of the client in one handshake of each kind.
//! To count instructions, give the name of a kind, for example:
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*by_the_client*' \
//!     target/release/examples/resumption "TLS 1.3, ECDSA P-256, resumed"
//! ```
//!
//! `docs/performance.md` has the figures.

use onionskin_core::{options::TlsOptions, time::WallTime, unstable::tls::TlsContext};
use onionskin_tests::{
    handshake::{Handshake, authority_params as ca, server_params as params},
    peers::rsa_key,
};
use rcgen::{Issuer, KeyPair};
use rustls::{
    HandshakeKind, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use std::{env, hint::black_box, path::Path, sync::Arc, time::Duration};

/// 2030-01-01, a date within the validity of all certificates of this file.
const NOW: WallTime = WallTime::from_unix_millis(1_893_456_000_000);

/// The host name in the server's certificate.
const HOST: &str = "db.example.net";

/// The number of handshakes of each kind.
const TIMES: u32 = 1_000;

/// The number of handshakes of one kind whose instructions are counted.
const COUNTED: u32 = 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let chosen = env::args().nth(1);
    let keys = [
        ("ECDSA P-256", Some(KeyPair::generate()?)),
        ("RSA 2048", rsa_key(Path::new("openssl")).ok()),
    ];
    for (key_name, key) in keys {
        let Some(key) = key else {
            println!("SKIPPED: {key_name} (no openssl)");
            continue;
        };
        for (version_name, version) in [("TLS 1.3", &TLS13), ("TLS 1.2", &TLS12)] {
            let (options, server) = deployment(&key, version)?;
            for (kind_name, kind) in [
                ("whole", HandshakeKind::Full),
                ("resumed", HandshakeKind::Resumed),
            ] {
                let name = format!("{version_name}, {key_name}, {kind_name}");
                if chosen.as_ref().is_none_or(|chosen| *chosen == name) {
                    let times = if chosen.is_some() { COUNTED } else { TIMES };
                    measure(&name, &options, &server, kind, times)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the options of a client, and a server whose chain leads from a certificate for the host
/// over an intermediate authority to a trusted authority. All keys but that of the server are of
/// ECDSA P-256.
fn deployment(
    key: &KeyPair,
    version: &'static SupportedProtocolVersion,
) -> Result<(TlsOptions, Arc<ServerConfig>)> {
    let root_key = KeyPair::generate()?;
    let root = ca("root").self_signed(&root_key)?;
    let by_root = Issuer::new(ca("root"), root_key);
    let between_key = KeyPair::generate()?;
    let between = ca("between").signed_by(&between_key, &by_root)?;
    let by_between = Issuer::new(ca("between"), between_key);
    let own = params("db.example.net").signed_by(key, &by_between)?;
    let der = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])?
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone(), between.der().clone()], der)?;
    let mut options = TlsOptions::default();
    options.ca_pem = Some(root.pem().into_bytes());
    Ok((options, Arc::new(config)))
}

fn measure(
    name: &str,
    options: &TlsOptions,
    server: &Arc<ServerConfig>,
    kind: HandshakeKind,
    times: u32,
) -> Result<()> {
    let context = TlsContext::new(options)?;
    context.set_wall_time(NOW);
    let mut total = Duration::ZERO;
    // The first handshake is a whole one in any case.
    Handshake::run(&context, server, HOST, &mut |work| work());
    for _ in 0..times {
        // A new context has no sessions.
        let new = TlsContext::new(options)?;
        new.set_wall_time(NOW);
        let context = match kind {
            HandshakeKind::Resumed => &context,
            _ => &new,
        };
        let run = Handshake::run(context, server, HOST, &mut by_the_client);
        assert_eq!(run.outcome, Ok(kind), "{name}");
        total += run.total;
    }
    println!("{name}: {:?}", total / times);
    Ok(())
}

/// Runs a part of the work of the client. The instructions in this function are those of the
/// client.
#[inline(never)]
fn by_the_client(work: &mut dyn FnMut()) {
    black_box(work)();
}
