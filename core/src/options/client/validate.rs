//! Rules that involve several options.

use super::{ClientOptions, Error};
use crate::{
    error::{ErrorKind, UriPart},
    options::{Credential, Cryptography, OidcFlow, SystemRoots, TLS_CONFLICTS},
};

impl ClientOptions {
    /// Checks the rules that involve several options, that the credential is complete, and that
    /// [strict](Self::strict) options ignore no part of the connection string.
    /// [`ClientConfig::new`](crate::client::ClientConfig::new) calls this for every client, and
    /// [`resolve`](crate::uri::resolve) when the hosts of a `mongodb+srv` string are known.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// let mut options = ClientOptions::default();
    /// options.set_max_pool_size(5).set_min_pool_size(6);
    /// assert!(options.validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_combinations()?;
        self.validate_strict()?;
        if let Some(credential) = &self.credential {
            credential.validate()?;
            self.validate_human_flow(credential)?;
        }
        Ok(())
    }

    /// Checks that a proxy cannot lead the human flow to another server than the one that the
    /// allowed hosts name (AUTH-108). A proxy connects to any server, and can come from the
    /// connection string of an attacker. So the certificate of the server must prove its name.
    fn validate_human_flow(&self, credential: &Credential) -> Result<(), Error> {
        let is_checked = self.tls.enabled && self.tls_checks().iter().all(|(_, is_off)| !is_off);
        if self.proxy.is_none() || is_checked || credential.oidc_flow() != OidcFlow::Human {
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
        Err(Error::new(ErrorKind::InvalidUri {
            part: UriPart::Options,
            message: format!("{warning}; strict options forbid that"),
        }))
    }

    /// Checks what [`validate`](Self::validate) checks, except the credential, because a connection
    /// string may lack the password.
    pub(crate) fn validate_combinations(&self) -> Result<(), Error> {
        self.validate_topology()?;
        self.validate_monitoring()?;
        self.validate_srv()?;
        self.validate_tls()?;
        if let Some(proxy) = &self.proxy {
            proxy.validate()?;
        }
        if self.max_pool_size > 0 && self.min_pool_size > self.max_pool_size {
            // `minPoolSize` must not exceed `maxPoolSize`, unless that is 0 (CMAP-9, URI-24).
            return Err(Error::invalid_option(
                "minPoolSize",
                "it is above maxPoolSize; lower it, or raise maxPoolSize (0 is no limit)",
            ));
        }
        Ok(())
    }

    fn validate_topology(&self) -> Result<(), Error> {
        if self.hosts.is_empty() && self.srv_host.is_none() {
            return Err(Error::invalid_option("hosts", "give at least one host"));
        }
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
            } else if self.replica_set.is_some() {
                "replicaSet; the load balancer hides the set, so leave the name out"
            } else if self.direct_connection == Some(true) {
                "directConnection=true; leave one of them out"
            } else if self.srv_max_hosts > 0 {
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
        if self.srv_max_hosts > 0 && self.replica_set.is_some() {
            // `srvMaxHosts` conflicts with `replicaSet`: a random choice of hosts could leave out
            // members (URI-17).
            return Err(Error::invalid_option(
                "srvMaxHosts",
                "it conflicts with replicaSet, whose members are all needed; leave one out",
            ));
        }
        if self.srv_host.is_none() {
            // `srvMaxHosts` and `srvServiceName` need `mongodb+srv` (URI-16).
            let option = if self.srv_max_hosts > 0 {
                "srvMaxHosts"
            } else if self.srv_service_name != super::DEFAULT_SRV_SERVICE_NAME {
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
        let options = self.tls_checks();
        let on = |name: &&str| options.iter().any(|&(option, on)| on && option == *name);
        match TLS_CONFLICTS.iter().find(|(a, b)| on(a) && on(b)) {
            Some((a, b)) => Err(Error::invalid_option(
                a,
                format!("it conflicts with {b}; leave one out"),
            )),
            None => self.validate_tls_in_code(),
        }
    }

    /// Returns the options that disable checks of certificates, each with whether it is set.
    const fn tls_checks(&self) -> [(&'static str, bool); 5] {
        let tls = &self.tls;
        [
            ("tlsInsecure", tls.insecure),
            (
                "tlsAllowInvalidCertificates",
                tls.allow_invalid_certificates,
            ),
            ("tlsAllowInvalidHostnames", tls.allow_invalid_hostnames),
            (
                "tlsDisableOCSPEndpointCheck",
                tls.disable_ocsp_endpoint_check,
            ),
            (
                "tlsDisableCertificateRevocationCheck",
                tls.disable_certificate_revocation_check,
            ),
        ]
    }

    /// Checks the TLS options that connection strings do not have.
    fn validate_tls_in_code(&self) -> Result<(), Error> {
        let tls = &self.tls;
        let has_certificate =
            tls.certificate_key_file.is_some() || tls.certificate_key_pem.is_some();
        let has_key = tls.private_key_file.is_some() || tls.private_key_pem.is_some();
        if has_key && !has_certificate {
            return Err(Error::invalid_option(
                "private_key_file",
                "a private key needs a certificate; set certificate_key_file as well",
            ));
        }
        if !tls.has_config() {
            return Ok(());
        }
        // The configuration of the application replaces these options.
        let others = [
            ("tlsCAFile", tls.ca_file.is_some() || tls.ca_pem.is_some()),
            ("system_roots", tls.system_roots != SystemRoots::default()),
            (
                "tlsCRLFile",
                tls.crl_file.is_some() || tls.crl_pem.is_some(),
            ),
            ("tlsCertificateKeyFile", has_certificate),
            ("cryptography", tls.cryptography != Cryptography::default()),
            (
                "tlsCertificateKeyFilePassword",
                tls.certificate_key_password.is_some(),
            ),
        ];
        let checks = self.tls_checks();
        match others.into_iter().chain(checks).find(|(_, is_set)| *is_set) {
            Some((option, _)) => Err(Error::invalid_option(
                option,
                "it has no effect with TlsOptions::config; leave one out",
            )),
            None => Ok(()),
        }
    }
}
