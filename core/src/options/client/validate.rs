//! Rules that involve several options.

use super::{ClientOptions, Error, check};
use crate::{
    error::{Argument, ErrorKind, UriPart},
    options::{
        Credential, Cryptography, DriverInfo, Monitoring, OidcFlow, SystemRoots, TLS_CONFLICTS,
        TlsOptions, Warning, WriteConcern,
    },
};

impl ClientOptions {
    /// Checks the value of each option, the rules that involve several options, that the credential
    /// is complete, and that [strict](Self::strict) options ignore no part of the connection
    /// string.
    /// [`ClientConfig::new`](crate::client::ClientConfig::new) calls this for every client, and
    /// [`resolve`](crate::uri::resolve) when the hosts of a `mongodb+srv` string are known.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// let options = ClientOptions::builder().max_pool_size(5).min_pool_size(6).build();
    /// assert!(options.validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_values()?;
        self.validate_combinations()?;
        self.validate_strict()?;
        if let Some(credential) = &self.credential {
            credential.validate()?;
            self.validate_human_flow(credential)?;
        }
        Ok(())
    }

    /// Checks the values of single options.
    fn validate_values(&self) -> Result<(), Error> {
        fn each<T>(value: &Option<T>, rule: fn(&T) -> Result<(), Error>) -> Result<(), Error> {
            value.as_ref().map_or(Ok(()), rule)
        }
        check::hosts(&self.hosts)?;
        each(&self.app_name, check::app_name)?;
        each(&self.default_database, check::default_database)?;
        each(&self.driver_info, DriverInfo::validate)?;
        each(&self.heartbeat_freq, check::heartbeat_freq)?;
        each(&self.max_connecting, check::max_connecting)?;
        each(&self.repl_set_name, check::repl_set_name)?;
        each(
            &self.server_selection_timeout,
            check::server_selection_timeout,
        )?;
        each(
            &self.srv_allowed_hosts_suffix,
            check::srv_allowed_hosts_suffix,
        )?;
        each(&self.srv_host, check::srv_host)?;
        each(&self.srv_service_name, check::srv_service_name)?;
        each(&self.write_concern, WriteConcern::validate)?;
        each(&self.zlib_compression_level, check::zlib_compression_level)
    }

    /// Checks that only a client that scans has `serverSelectionTryOnce` (SEL-6).
    fn validate_monitoring(&self) -> Result<(), Error> {
        if self.monitoring == Monitoring::Background && self.server_selection_try_once.is_some() {
            return Err(Error::invalid_option(
                "serverSelectionTryOnce",
                "only a client that checks servers on demand (Monitoring::Scanning) has this \
                 option; remove it",
            ));
        }
        Ok(())
    }

    /// Checks that a proxy cannot lead the human flow to another server than the one that the
    /// allowed hosts name (AUTH-108). A proxy connects to any server, and can come from the
    /// connection string of an attacker. So the certificate of the server must prove its name.
    fn validate_human_flow(&self, credential: &Credential) -> Result<(), Error> {
        let tls = self.tls();
        let is_checked = tls.is_some_and(|tls| tls_checks(tls).iter().all(|(_, is_off)| !is_off));
        if self.socks5_proxy.is_none() || is_checked || credential.oidc_flow() != OidcFlow::Human {
            return Ok(());
        }
        Err(Error::invalid_option(
            "proxyHost",
            "with an OIDC human callback, a proxy could connect to a server that is not one of the \
             ALLOWED_HOSTS; add tls=true without options that disable checks, or remove the proxy",
        ))
    }

    /// Fails if a part of the connection string was ignored, and the options are strict.
    fn validate_strict(&self) -> Result<(), Error> {
        let mut warnings = self.warnings.iter().filter(|_| self.strict);
        let Some(warning) = warnings.find(|warning| warning.is_of_ignored_part()) else {
            return Ok(());
        };
        // Nothing is ignored here, because the client is not created.
        let defect = match warning {
            Warning::Unknown { key, nearest } => {
                let nearest = nearest
                    .as_ref()
                    .map(|name| format!(" (did you mean {name}?)"));
                format!("option {key:?} is not known{}", nearest.unwrap_or_default())
            }
            Warning::Ignored { option, reason } => format!("option {option}: {reason}"),
            other => other.to_string(),
        };
        Err(Error::new(ErrorKind::InvalidArgument {
            argument: Argument::Uri(UriPart::Options),
            message: format!("{defect}; correct or remove it, because the options are strict"),
        }))
    }

    /// Checks what [`validate`](Self::validate) checks, except the credential, because a connection
    /// string may lack the password.
    pub(crate) fn validate_combinations(&self) -> Result<(), Error> {
        self.validate_topology()?;
        self.validate_monitoring()?;
        self.validate_srv()?;
        self.validate_tls()?;
        if let Some(proxy) = &self.socks5_proxy {
            proxy.validate()?;
        }
        if self.max_pool_size() > 0 && self.min_pool_size() > self.max_pool_size() {
            // `minPoolSize` must not exceed `maxPoolSize`, unless that is 0 (CMAP-9, URI-24).
            return Err(Error::invalid_option(
                "minPoolSize",
                "it is above maxPoolSize; lower it, or raise maxPoolSize (0 is no limit)",
            ));
        }
        Ok(())
    }

    fn validate_topology(&self) -> Result<(), Error> {
        let several = self.hosts.len() > 1;
        // `directConnection=true` conflicts with several seeds (SDAM-26, SDAM-27, URI-13) and with
        // `mongodb+srv` (URI-14).
        if self.direct_connection == Some(true) {
            if several {
                return Err(Error::invalid_option(
                    "directConnection",
                    "a direct connection goes to one host; name one, or leave this out",
                ));
            }
            if self.srv_host.is_some() {
                return Err(Error::invalid_option(
                    "directConnection",
                    "it conflicts with mongodb+srv, which may name several servers; use \
                     mongodb:// with one host",
                ));
            }
        }
        // A load balancer is one host, and hides the deployment behind it (SDAM-29, URI-15). So
        // `loadBalanced=true` conflicts with several hosts (LB-3), a set name (LB-4), a direct
        // connection (LB-5) and a limit of SRV hosts (LB-6).
        if self.load_balanced() {
            let conflict = if several {
                "several hosts; name only the load balancer"
            } else if self.repl_set_name.is_some() {
                "replicaSet; the load balancer hides the set, so remove one of them"
            } else if self.direct_connection == Some(true) {
                "directConnection=true; leave one of them out"
            } else if self.srv_max_hosts() > 0 {
                "srvMaxHosts; a load balancer is one host, so leave it out"
            } else {
                return Ok(());
            };
            return Err(Error::invalid_option(
                "loadBalanced",
                format!("it conflicts with {conflict}"),
            ));
        }
        Ok(())
    }

    fn validate_srv(&self) -> Result<(), Error> {
        if self.srv_max_hosts() > 0 && self.repl_set_name.is_some() {
            // `srvMaxHosts` conflicts with `replicaSet`: a random choice of hosts could leave out
            // members (URI-17).
            return Err(Error::invalid_option(
                "srvMaxHosts",
                "it conflicts with replicaSet, whose members are all needed; leave one out",
            ));
        }
        if self.srv_host.is_none() {
            // These options need `mongodb+srv` (URI-16, DNS-44).
            let option = if self.srv_allowed_hosts_suffix.is_some() {
                "srvAllowedHostsSuffix"
            } else if self.srv_max_hosts() > 0 {
                "srvMaxHosts"
            } else if self.srv_service_name() != super::DEFAULT_SRV_SERVICE_NAME {
                "srvServiceName"
            } else {
                return Ok(());
            };
            return Err(Error::invalid_option(
                option,
                "it needs a mongodb+srv host; leave it out",
            ));
        }
        Ok(())
    }

    fn validate_tls(&self) -> Result<(), Error> {
        let Some(tls) = self.tls() else {
            return Ok(());
        };
        let options = tls_checks(tls);
        let on = |name: &&str| options.iter().any(|&(option, on)| on && option == *name);
        match TLS_CONFLICTS.iter().find(|(a, b)| on(a) && on(b)) {
            Some((a, b)) => Err(Error::invalid_option(
                a,
                format!("it conflicts with {b}; leave one out"),
            )),
            None => validate_tls_in_code(tls),
        }
    }
}

/// Returns the options that disable checks of certificates, each with whether it is set.
fn tls_checks(tls: &TlsOptions) -> [(&'static str, bool); 5] {
    [
        ("tlsInsecure", tls.insecure == Some(true)),
        (
            "tlsAllowInvalidCertificates",
            tls.allow_invalid_certificates == Some(true),
        ),
        (
            "tlsAllowInvalidHostnames",
            tls.allow_invalid_hostnames == Some(true),
        ),
        (
            "tlsDisableOCSPEndpointCheck",
            tls.disable_ocsp_endpoint_check == Some(true),
        ),
        (
            "tlsDisableCertificateRevocationCheck",
            tls.disable_certificate_revocation_check == Some(true),
        ),
    ]
}

/// Checks the TLS options that connection strings do not have.
fn validate_tls_in_code(tls: &TlsOptions) -> Result<(), Error> {
    let has_certificate = tls.cert_key_file_path.is_some() || tls.certificate_key_pem.is_some();
    let has_key = tls.private_key_file_path.is_some() || tls.private_key_pem.is_some();
    if has_key && !has_certificate {
        return Err(Error::invalid_option(
            "private_key_file_path",
            "a private key needs a certificate; set cert_key_file_path as well",
        ));
    }
    if !tls.has_config() {
        return Ok(());
    }
    // The configuration of the application replaces these options.
    let others = [
        (
            "tlsCAFile",
            tls.ca_file_path.is_some() || tls.ca_pem.is_some(),
        ),
        ("system_roots", tls.system_roots != SystemRoots::default()),
        (
            "tlsCRLFile",
            tls.crl_file_path.is_some() || tls.crl_pem.is_some(),
        ),
        ("tlsCertificateKeyFile", has_certificate),
        ("cryptography", tls.cryptography != Cryptography::default()),
        (
            "tlsCertificateKeyFilePassword",
            tls.tls_certificate_key_file_password.is_some(),
        ),
    ];
    let checks = tls_checks(tls);
    match others.into_iter().chain(checks).find(|(_, is_set)| *is_set) {
        Some((option, _)) => Err(Error::invalid_option(
            option,
            "it has no effect with TlsOptions::config; leave one out",
        )),
        None => Ok(()),
    }
}
