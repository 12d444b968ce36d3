//! Measures what TLS handshakes cost a client, with honest servers and with hostile ones.
//!
//! For each kind of handshake the program prints two times: that of all the work of the client, and
//! that of the longest single input. Inputs have at most 4 KiB and are handled under the client's
//! lock, so the longest input bounds how long other operations wait. `docs/performance.md` has the
//! figures.
//!
//! The hostile RSA keys (`Fake`) are made-up numbers without a private key. Signatures with such
//! a key are wrong, and the client finds that out only at the end of the whole computation.

use onionskin_core::{options::TlsOptions, time::WallTime, unstable::tls::TlsContext};
use onionskin_tests::{
    handshake::{Always, Handshake, authority_params as ca, server_params as params},
    peers::rsa_key,
};
use rcgen::{
    CertificateParams, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_RSA_SHA256, PublicKeyData, SigningKey, date_time_ymd,
};
use rustls::{
    ServerConfig, SignatureAlgorithm, SignatureScheme,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, Signer},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// 2030-01-01, a date within the validity of all certificates of this file.
const NOW: WallTime = WallTime::from_unix_millis(1_893_456_000_000);

/// The number of handshakes of each kind, unless they take longer than `LONG`.
const TIMES: u32 = 50;

const LONG: Duration = Duration::from_secs(5);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let ecdsa = KeyPair::generate()?;
    honest("ECDSA P-256", &ecdsa)?;
    match rsa_key(Path::new("openssl")) {
        Ok(key) => honest("RSA 2048", &key)?,
        Err(error) => println!("SKIPPED: RSA 2048 ({error})"),
    }
    for (bits, exponent) in [
        (2048, 65537),
        (8192, 65537),
        (8192, (1 << 33) - 1),
        (16384, 65537),
    ] {
        let fake = Fake::new(bits, exponent);
        let name = format!("tlsInsecure, RSA {bits}, exponent {exponent}");
        let leaf = params("x").signed_by(&fake, &Issuer::new(params("x"), KeyPair::generate()?))?;
        let options = insecure();
        measure(&name, &options, vec![leaf.der().clone()], Arc::new(fake));
    }
    let trusted = Authority::new()?;
    for count in [1, 3, 6, 10, 30, 100, 200] {
        chain_of_strangers("in a line", &trusted, count, false)?;
    }
    for count in [3, 6, 8, 10, 20, 100] {
        chain_of_strangers("of one name", &trusted, count, true)?;
    }
    for (count, bits) in [(10, 4096), (100, 4096), (100, 8192)] {
        claims(count, bits)?;
    }
    maze("RSA 4096", &Fake::new(4096, 65537), Fake::new(4096, 65537))?;
    let p384 = || KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384);
    maze("ECDSA P-384", &p384()?, p384()?)?;
    let p256 = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
    maze("ECDSA P-256", &p256()?, p256()?)?;
    for count in [100, 1_000, 3_000] {
        many_names(&trusted, count)?;
    }
    Ok(())
}

/// Measures handshakes with an honest server: its chain leads from a certificate for the host over
/// an intermediate authority to a trusted authority.
fn honest(name: &str, key: &KeyPair) -> Result<()> {
    let authority = Authority::new()?;
    let between = ca("between");
    let middle_key = KeyPair::generate()?;
    let middle = between.signed_by(&middle_key, &authority.issuer)?;
    let issuer = Issuer::new(between, middle_key);
    let leaf = params("db.example.net").signed_by(key, &issuer)?;
    let chain = vec![leaf.der().clone(), middle.der().clone()];
    let der = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let signer = ring::sign::any_supported_type(&der)?;
    measure(name, &authority.options(), chain, signer);
    Ok(())
}

/// Measures handshakes with a chain of `count` certificates that leads to no trusted authority.
/// Each certificate names the next one as its issuer. With `same`, all certificates have the same
/// name.
fn chain_of_strangers(how: &str, trusted: &Authority, count: usize, same: bool) -> Result<()> {
    let name = |n: usize| {
        if same {
            "x".to_owned()
        } else {
            format!("x{n}")
        }
    };
    let mut chain = Vec::new();
    for n in 0..count {
        let own = if n == 0 {
            params(&name(0))
        } else {
            ca(&name(n))
        };
        let issuer = Issuer::new(ca(&name(n + 1)), KeyPair::generate()?);
        chain.push(own.signed_by(&KeyPair::generate()?, &issuer)?.der().clone());
    }
    let name = format!("{count} certificates {how}");
    measure(
        &name,
        &trusted.options(),
        chain,
        Arc::new(Fake::new(2048, 3)),
    );
    Ok(())
}

/// Measures handshakes with `count` certificates that name the trusted authority as their issuer.
/// Their signatures are wrong.
fn claims(count: usize, bits: usize) -> Result<()> {
    let root = Fake::new(bits, 65537);
    let authority = ca("root").self_signed(&root)?;
    let options = trust(authority.pem().into_bytes());
    let issuer = Issuer::new(ca("root"), root);
    let mut chain = Vec::new();
    for n in 0..count {
        let own = if n == 0 { params("root") } else { ca("root") };
        chain.push(own.signed_by(&KeyPair::generate()?, &issuer)?.der().clone());
    }
    let name = format!("{count} certificates that claim an authority of RSA {bits}");
    measure(&name, &options, chain, Arc::new(Fake::new(2048, 3)));
    Ok(())
}

/// Measures handshakes with a chain that has many paths from the first certificate to the trusted
/// authority, which is named `a`. The chain has two certificates named `a` with the issuer `b`, and
/// two named `b` with the issuer `a`. Five more certificates with the issuer `b` are on no path.
fn maze(name: &str, root: &impl SigningKey, forger: impl SigningKey) -> Result<()> {
    let authority = ca("a").self_signed(root)?;
    let options = trust(authority.pem().into_bytes());
    let by_a = Issuer::new(ca("a"), forger);
    let by_b = Issuer::new(ca("b"), KeyPair::generate()?);
    let leaf = params("x").signed_by(&KeyPair::generate()?, &by_a)?;
    let mut chain = vec![leaf.der().clone()];
    for _ in 0..2 {
        chain.push(
            ca("a")
                .signed_by(&KeyPair::generate()?, &by_b)?
                .der()
                .clone(),
        );
        chain.push(
            ca("b")
                .signed_by(&KeyPair::generate()?, &by_a)?
                .der()
                .clone(),
        );
    }
    for n in 0..5 {
        let name = format!("x{n}");
        chain.push(
            ca(&name)
                .signed_by(&KeyPair::generate()?, &by_b)?
                .der()
                .clone(),
        );
    }
    let name = format!("the largest maze, below {name}");
    measure(&name, &options, chain, Arc::new(Fake::new(2048, 3)));
    Ok(())
}

/// Measures handshakes with a valid certificate for `count` host names. None of them is the name to
/// which the client connects.
fn many_names(authority: &Authority, count: usize) -> Result<()> {
    let names: Vec<String> = (0..count).map(|n| format!("host{n}.example.org")).collect();
    let mut own = CertificateParams::new(names)?;
    own.not_before = date_time_ymd(2020, 1, 1);
    own.not_after = date_time_ymd(2040, 1, 1);
    let leaf = own.signed_by(&KeyPair::generate()?, &authority.issuer)?;
    let name = format!("a certificate for {count} other hosts");
    let chain = vec![leaf.der().clone()];
    measure(
        &name,
        &authority.options(),
        chain,
        Arc::new(Fake::new(2048, 3)),
    );
    Ok(())
}

/// Runs the handshake `TIMES` times, or for `LONG` if that is shorter, and prints the median of its
/// cost.
fn measure(
    name: &str,
    options: &TlsOptions,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<dyn rustls::sign::SigningKey>,
) {
    let bytes: usize = chain.iter().map(|certificate| certificate.len()).sum();
    let key = Arc::new(CertifiedKey::new(chain, key));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Always(key)));
    let (config, context) = (Arc::new(config), TlsContext::new(options).expect("options"));
    context.set_wall_time(NOW);
    let (start, mut runs) = (Instant::now(), Vec::new());
    let mut outcome = String::new();
    while runs.len() < TIMES as usize && start.elapsed() < LONG {
        let run = Handshake::run(&context, &config, "db.example.net", &mut |work| work());
        outcome = run
            .outcome
            .map_or_else(|error| error, |_| "connected".to_owned());
        runs.push((run.total, run.longest));
    }
    runs.sort_unstable();
    let (total, longest) = runs[runs.len() / 2];
    outcome.truncate(60);
    println!("{name}: {bytes} bytes, {total:?}, longest input {longest:?}; {outcome}");
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Result<Self> {
        let (key, params) = (KeyPair::generate()?, ca("root"));
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { pem, issuer })
    }

    fn options(&self) -> TlsOptions {
        trust(self.pem.clone().into_bytes())
    }
}

fn trust(pem: Vec<u8>) -> TlsOptions {
    let mut options = TlsOptions::default();
    options.ca_pem = Some(pem);
    options
}

fn insecure() -> TlsOptions {
    let mut options = TlsOptions::default();
    options.insecure = Some(true);
    options
}

/// An RSA public key that has no private key.
#[derive(Debug)]
struct Fake {
    public: Vec<u8>,
    signature: Vec<u8>,
}

impl Fake {
    fn new(bits: usize, exponent: u64) -> Self {
        let mut modulus = vec![0];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..bits / 8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            modulus.push(state as u8);
        }
        // The highest bit makes the modulus `bits` long, and an RSA modulus is odd.
        modulus[1] |= 0x80;
        modulus[bits / 8] |= 1;
        let exponent = exponent.to_be_bytes();
        let start = exponent.iter().position(|&byte| byte != 0).unwrap_or(0);
        let body = [integer(&modulus), integer(&exponent[start..])].concat();
        Self {
            public: tagged(0x30, &body),
            signature: vec![1; bits / 8],
        }
    }
}

fn integer(bytes: &[u8]) -> Vec<u8> {
    tagged(0x02, bytes)
}

fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len())
        .expect("it is short")
        .to_be_bytes();
    let mut all = match body.len() {
        0..=127 => vec![tag, length[1]],
        128..=255 => vec![tag, 0x81, length[1]],
        _ => vec![tag, 0x82, length[0], length[1]],
    };
    all.extend_from_slice(body);
    all
}

impl PublicKeyData for Fake {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &PKCS_RSA_SHA256
    }
}

impl SigningKey for Fake {
    fn sign(&self, _message: &[u8]) -> std::result::Result<Vec<u8>, rcgen::Error> {
        Ok(self.signature.clone())
    }
}

impl rustls::sign::SigningKey for Fake {
    fn choose_scheme(&self, _offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(Wrong(self.signature.clone())))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}

/// A signer that returns the same wrong signature for every message.
#[derive(Debug)]
struct Wrong(Vec<u8>);

impl Signer for Wrong {
    fn sign(&self, _message: &[u8]) -> std::result::Result<Vec<u8>, rustls::Error> {
        Ok(self.0.clone())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::RSA_PSS_SHA256
    }
}
