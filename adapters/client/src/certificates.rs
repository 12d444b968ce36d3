//! Reads the certificates that the TLS options name, and those of the operating system.

use crate::files;
use onionskin_core::{
    error::Error,
    options::{
        ClientOptions, MAX_CERTIFICATE_FILE_BYTES, MAX_CRL_FILE_BYTES, Secret, SystemRoots, Tls,
    },
    uri::Warning,
};
#[cfg(any(test, feature = "tls"))]
use std::env;
use std::path::Path;

/// Environment variables with which a user replaces the certificate authorities of the system.
#[cfg(feature = "tls")]
const ROOTS_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Reads certificates, if TLS is enabled, and stores them in the options. Returns a warning if the
/// certificate authorities that the user has chosen in the environment cannot be read.
pub(crate) fn read(options: &mut ClientOptions) -> Result<Option<Warning>, Error> {
    read_files(options)?;
    let Some(Tls::Enabled(tls)) = &mut options.tls else {
        return Ok(None);
    };
    let mut warning = None;
    let unchecked = [tls.insecure, tls.allow_invalid_certificates].contains(&Some(true));
    let is_checked = !tls.has_config() && !unchecked;
    if is_checked && tls.ca_pem.is_none() && tls.system_roots.certificates().is_empty() {
        (tls.system_roots, warning) = system_roots();
    }
    Ok(warning)
}

/// Reads the files that the options name, if TLS is enabled, and stores their content in the
/// options.
pub(crate) fn read_files(options: &mut ClientOptions) -> Result<(), Error> {
    let Some(Tls::Enabled(tls)) = &mut options.tls else {
        return Ok(());
    };
    let read = |option: &'static str, path: &Path| {
        let most = match option {
            "tlsCRLFile" => MAX_CRL_FILE_BYTES,
            _ => MAX_CERTIFICATE_FILE_BYTES,
        };
        files::read(path, most).map_err(|error| {
            let message = format!("{} cannot be read: {error}", path.display());
            Error::invalid_option(option, message)
        })
    };
    if let (Some(path), None) = (&tls.ca_file_path, &tls.ca_pem) {
        tls.ca_pem = Some(read("tlsCAFile", path)?);
    }
    if let (Some(path), None) = (&tls.crl_file_path, &tls.crl_pem) {
        tls.crl_pem = Some(read("tlsCRLFile", path)?);
    }
    let read_secret = |option: &'static str, path: &Path| {
        let bytes = read(option, path)?;
        String::from_utf8(bytes).map(Secret::new).map_err(|_| {
            let message = format!("{} is not a PEM file", path.display());
            Error::invalid_option(option, message)
        })
    };
    if let (Some(path), None) = (&tls.cert_key_file_path, &tls.certificate_key_pem) {
        tls.certificate_key_pem = Some(read_secret("tlsCertificateKeyFile", path)?);
    }
    if let (Some(path), None) = (&tls.private_key_file_path, &tls.private_key_pem) {
        tls.private_key_pem = Some(read_secret("private_key_file_path", path)?);
    }
    Ok(())
}

/// Returns no certificate authorities. Without the Cargo feature `tls` there is no TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn system_roots() -> (SystemRoots, Option<Warning>) {
    (SystemRoots::default(), None)
}

/// Returns the certificate authorities of the operating system. A system without any is no error,
/// because the built-in list is trusted as well.
#[cfg(feature = "tls")]
pub(crate) fn system_roots() -> (SystemRoots, Option<Warning>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::options::TlsOptions;
    #[cfg(unix)]
    use std::path::PathBuf;

    #[test]
    fn files_are_read_unless_their_content_is_given() {
        let directory = env::temp_dir();
        let path =
            |name: &str| directory.join(format!("onionskin-{}-{name}.pem", std::process::id()));
        let (certificate, key) = (path("certificate"), path("key"));
        std::fs::write(&certificate, "a certificate").expect("a file");
        std::fs::write(&key, "a key").expect("a file");
        let mut tls = TlsOptions::default();
        tls.ca_file_path = Some(path("missing"));
        tls.ca_pem = Some(b"authorities".to_vec());
        tls.cert_key_file_path = Some(certificate.clone());
        tls.private_key_file_path = Some(key.clone());
        let mut options = ClientOptions::default();
        options.tls = Some(tls.into());
        read_files(&mut options).expect("both files are there");
        let tls = options.tls().expect("it is on");
        assert_eq!(tls.ca_pem.as_deref(), Some(&b"authorities"[..]));
        let text = |secret: &Option<Secret>| secret.as_ref().map(|text| text.expose().to_owned());
        let read = [&tls.certificate_key_pem, &tls.private_key_pem].map(text);
        let expected = ["a certificate", "a key"].map(|text| Some(text.to_owned()));
        assert_eq!(read, expected);

        std::fs::write(&key, [0xff]).expect("a file");
        let mut tls = options.tls().expect("it is on").clone();
        tls.private_key_pem = None;
        options.tls = Some(tls.into());
        for reason in ["is not a PEM file", "cannot be read"] {
            let error = read_files(&mut options).expect_err(reason).to_string();
            assert!(error.contains("private_key_file"), "{error}");
            assert!(error.contains(reason), "{error}");
            let _missing_the_second_time = std::fs::remove_file(&key);
        }
        std::fs::remove_file(&certificate).expect("a file");
    }

    #[cfg(unix)]
    #[test]
    fn each_file_has_a_limit() {
        let sets: [fn(&mut TlsOptions, PathBuf); 4] = [
            |tls, path| tls.ca_file_path = Some(path),
            |tls, path| tls.crl_file_path = Some(path),
            |tls, path| tls.cert_key_file_path = Some(path),
            |tls, path| tls.private_key_file_path = Some(path),
        ];
        for set in sets {
            let mut tls = TlsOptions::default();
            set(&mut tls, "/dev/zero".into());
            let mut options = ClientOptions::default();
            options.tls = Some(tls.into());
            let error = read_files(&mut options)
                .expect_err("it has no end")
                .to_string();
            assert!(
                error.contains("/dev/zero cannot be read: it is longer than"),
                "{error}"
            );
        }
    }

    /// This test runs with `--no-default-features`.
    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_is_refused_without_its_feature() {
        use onionskin_core::{
            client::ClientConfig,
            error::{Argument, ErrorKind},
            http::{HttpExchange, HttpRequest, Method},
            random::Seed,
            time::WallTime,
        };

        let mut tls = TlsOptions::default();
        let mut options = ClientOptions::default();
        options.tls = Some(tls.clone().into());
        let error = ClientConfig::new(options, Seed::new([1; 32])).expect_err("no TLS");
        let ErrorKind::InvalidArgument {
            argument: Argument::Option(option),
            message,
        } = error.kind()
        else {
            panic!("{error}");
        };
        assert_eq!(*option, "tls");
        assert!(message.contains("Cargo feature tls"), "{message}");
        let request = HttpRequest::new(Method::Get, "https://localhost/").expect("a request");
        let wall = WallTime::from_unix_millis(1);
        let error = HttpExchange::new(&request, &tls, wall).expect_err("no TLS");
        assert!(error.contains("Cargo feature tls"), "{error}");
    }
}
