//! Measures what the check of revocation adds to a TLS handshake, with staples and with CRLs.
//!
//! For each case the program prints the median of the client's time for the whole handshake, and
//! that of its longest single input. Inputs are handled under the client's lock, so the longest one
//! bounds how long other operations wait. Command `openssl` makes the OCSP responses.
//!
//! `docs/performance.md` has the figures.

use onionskin_core::{options::TlsOptions, time::WallTime, unstable::tls::TlsContext};
use onionskin_tests::{
    handshake::Handshake,
    peers::pki::{Keys, Kind, Pki},
};
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The number of handshakes of each kind.
const TIMES: usize = 100;

/// The numbers of entries of the CRLs. The last list is too large to show that a certificate was
/// not revoked, so its signature is not checked.
const ENTRIES: [u64; 3] = [10, 5_000, 50_000];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    for keys in [Keys::EcdsaP256, Keys::Rsa2048, Keys::EcdsaP384] {
        for is_delegated in [false, true] {
            staples(keys, is_delegated)?;
        }
        lists(keys)?;
    }
    Ok(())
}

/// Measures handshakes with a server that staples a response, and with one that does not.
fn staples(keys: Keys, is_delegated: bool) -> Result<()> {
    let pki = pki(keys, is_delegated);
    let options = trusting(&pki)?;
    let mut unchecked = options.clone();
    unchecked.disable_certificate_revocation_check = Some(true);
    let valid = pki.respond(None);
    let signer = match is_delegated {
        true => "signed by a delegate",
        false => "signed by the issuer",
    };
    if !is_delegated {
        measure(&format!("{keys:?}, unchecked"), &unchecked, &pki, None)?;
        measure(&format!("{keys:?}, no staple"), &options, &pki, None)?;
    }
    measure(
        &format!("{keys:?}, staple {signer}"),
        &options,
        &pki,
        Some(valid),
    )
}

/// Measures handshakes of a client with a CRL that does not contain the server's certificate.
fn lists(keys: Keys) -> Result<()> {
    let pki = pki(keys, false);
    for entries in ENTRIES {
        let mut options = trusting(&pki)?;
        let list = pki.revocation_list(entries);
        let name = format!(
            "{keys:?}, CRL with {entries} entries, {} bytes of PEM",
            list.len()
        );
        options.crl_pem = Some(list.into_bytes());
        measure(&name, &options, &pki, None)?;
    }
    Ok(())
}

fn pki(keys: Keys, is_delegated: bool) -> Pki {
    let kind = Kind {
        keys,
        is_delegated,
        has_long_serial: false,
        must_staple: false,
        is_revoked: false,
    };
    // No responder is asked: the handshakes end before.
    Pki::new(Path::new("openssl"), kind, &[1])
}

fn trusting(pki: &Pki) -> Result<TlsOptions> {
    let mut options = TlsOptions::default();
    options.ca_pem = Some(fs::read(pki.authority())?);
    Ok(options)
}

fn measure(name: &str, options: &TlsOptions, pki: &Pki, staple: Option<Vec<u8>>) -> Result<()> {
    let now = WallTime::from_unix(SystemTime::now().duration_since(UNIX_EPOCH)?);
    let config = Arc::new(pki.server(staple));
    let (mut totals, mut longest) = (Vec::new(), Vec::new());
    let mut outcome = String::new();
    for _ in 0..TIMES {
        // A new context has no sessions.
        let context = TlsContext::new(options)?;
        context.set_wall_time(now);
        let run = Handshake::run(&context, &config, "127.0.0.1", &mut |work| work());
        totals.push(run.total);
        longest.push(run.longest);
        outcome = run
            .outcome
            .map_or_else(|error| error, |kind| format!("{kind:?}"));
    }
    outcome.truncate(100);
    let (total, longest) = (median(totals), median(longest));
    println!("{name}: {total:?}, longest input {longest:?}; {outcome}");
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
