//! Reads the certificates that the TLS options name, and those of the operating system.

use onionskin_core::{
    error::{Error, ErrorKind},
    options::{ClientOptions, Secret, SystemRoots},
    uri::Warning,
};
use std::env;

/// Environment variables with which a user replaces the certificate authorities of the system.
const ROOTS_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Reads certificates, if TLS is enabled, and stores them in the options. Returns a warning if the
/// certificate authorities that the user has chosen in the environment cannot be read.
pub(crate) fn read(options: &mut ClientOptions) -> Result<Option<Warning>, Error> {
    read_files(options)?;
    let mut tls = options.tls().clone();
    if !tls.enabled {
        return Ok(None);
    }
    let mut warning = None;
    let is_checked = !tls.insecure && !tls.allow_invalid_certificates;
    if is_checked && tls.ca_pem.is_none() && tls.system_roots.certificates().is_empty() {
        (tls.system_roots, warning) = system_roots();
    }
    options.set_tls(tls);
    Ok(warning)
}

/// Reads the files that the options name, if TLS is enabled, and stores their content in the
/// options.
pub(crate) fn read_files(options: &mut ClientOptions) -> Result<(), Error> {
    let mut tls = options.tls().clone();
    if !tls.enabled {
        return Ok(());
    }
    let read = |option: &'static str, path: &str| {
        std::fs::read(path).map_err(|error| {
            let message = format!("{path} cannot be read: {error}");
            Error::new(ErrorKind::InvalidOption { option, message })
        })
    };
    if let (Some(path), None) = (&tls.ca_file, &tls.ca_pem) {
        tls.ca_pem = Some(read("tlsCAFile", path)?);
    }
    if let (Some(path), None) = (&tls.certificate_key_file, &tls.certificate_key_pem) {
        let option = "tlsCertificateKeyFile";
        let bytes = read(option, path)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let message = format!("{path} is not a PEM file");
            Error::new(ErrorKind::InvalidOption { option, message })
        })?;
        tls.certificate_key_pem = Some(Secret::new(text));
    }
    options.set_tls(tls);
    Ok(())
}

/// Returns the certificate authorities of the operating system. A system without any is no error,
/// because the built-in list is trusted as well.
fn system_roots() -> (SystemRoots, Option<Warning>) {
    let found = rustls_native_certs::load_native_certs();
    let chosen = ROOTS_VARIABLES
        .into_iter()
        .find(|name| env::var_os(name).is_some());
    let warning = chosen.zip(found.errors.first()).map(|(option, error)| {
        let reason = format!("{error}; the built-in certificate authorities are trusted");
        Warning::Ignored { option, reason }
    });
    let certificates = found.certs.into_iter().map(|der| der.to_vec());
    (SystemRoots::new(certificates), warning)
}
