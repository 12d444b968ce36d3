//! Options that identify the deployment, the application and the credential.

use super::{
    Address, ClientOptions, Credential, DEFAULT_SRV_SERVICE_NAME, Error, KerberosLibrary,
    MAX_APP_NAME_BYTES, MAX_SRV_SERVICE_NAME_BYTES, ServerApi, TlsOptions,
};
use crate::{address::name_fault, options::Kerberos};
use std::{sync::Arc, time::Duration};

impl ClientOptions {
    /// Sets [`hosts`](Self::hosts), the seed list ([SDAM-19]). A few members of a replica set are
    /// enough, because discovery finds the others. The client connects to every seed, so a list of
    /// hundreds of members costs many connections and finds no more servers ([SDAM-121]).
    ///
    /// [SDAM-19]: crate::requirements::discovery#SDAM-19
    /// [SDAM-121]: crate::requirements::discovery#SDAM-121
    pub fn set_hosts(&mut self, hosts: Vec<Address>) -> &mut Self {
        self.hosts = hosts;
        self
    }

    /// Sets [`srv_host`](Self::srv_host) and clears the hosts, which come from DNS. Unlike a
    /// `mongodb+srv` connection string, this setter does not switch TLS on. Fails if `host` is not
    /// one host name without a port.
    pub fn set_srv_host(&mut self, host: &str) -> Result<&mut Self, Error> {
        let host = host.to_ascii_lowercase();
        if name_fault(&host).is_some() {
            return Err(Error::invalid_option(
                "srvHost",
                "give one host name, without a port (DNS supplies the ports)",
            ));
        }
        self.srv_host = Some(host);
        self.hosts.clear();
        Ok(self)
    }

    /// Sets [`srv_service_name`](Self::srv_service_name). Fails if the name is not a service name
    /// of RFC 6335 with at most [`MAX_SRV_SERVICE_NAME_BYTES`] bytes ([DNS-7]).
    ///
    /// [DNS-7]: crate::requirements::seed_lists#DNS-7
    pub fn set_srv_service_name(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        let letters = name.bytes().any(|b| b.is_ascii_alphabetic());
        let known = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let hyphens = name.starts_with('-') || name.ends_with('-') || name.contains("--");
        if !letters || !known || hyphens || name.len() > MAX_SRV_SERVICE_NAME_BYTES {
            return Err(Error::invalid_option(
                "srvServiceName",
                format!(
                    "a service name has 1 to {MAX_SRV_SERVICE_NAME_BYTES} letters, digits and \
                     single inner hyphens, at least one letter among them (default \
                     {DEFAULT_SRV_SERVICE_NAME})"
                ),
            ));
        }
        self.srv_service_name = name;
        Ok(self)
    }

    /// Sets [`srv_max_hosts`](Self::srv_max_hosts).
    pub fn set_srv_max_hosts(&mut self, hosts: u32) -> &mut Self {
        self.srv_max_hosts = hosts;
        self
    }

    /// Sets [`app_name`](Self::app_name). Fails if the name is longer than [`MAX_APP_NAME_BYTES`].
    pub fn set_app_name(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        if name.len() > MAX_APP_NAME_BYTES {
            let message =
                format!("at most {MAX_APP_NAME_BYTES} bytes of UTF-8 are sent; shorten it");
            return Err(Error::invalid_option("appName", message));
        }
        self.app_name = Some(name);
        Ok(self)
    }

    /// Sets [`credential`](Self::credential). Fails if the credential lacks a field that its
    /// mechanism requires, or has one that its mechanism refuses ([AUTH-4]).
    ///
    /// [AUTH-4]: crate::requirements::authentication#AUTH-4
    pub fn set_credential(&mut self, credential: Credential) -> Result<&mut Self, Error> {
        credential.validate()?;
        self.credential = Some(credential);
        self.auth_source_is_default = false;
        Ok(self)
    }

    /// Sets [`kerberos`](Self::kerberos).
    pub fn set_kerberos(&mut self, kerberos: Option<Arc<dyn Kerberos>>) -> &mut Self {
        self.kerberos = kerberos.map(KerberosLibrary);
        self
    }

    /// Sets the credential of a connection string, which may lack a password. `source_chosen` is
    /// true if the string gave `authSource`, so that a TXT record cannot change the source.
    pub(crate) fn set_parsed_credential(&mut self, credential: Credential, source_chosen: bool) {
        self.credential = Some(credential);
        self.auth_source_is_default = !source_chosen;
    }

    /// True if the source of the credential is a default, which a TXT record may replace.
    pub(crate) const fn auth_source_is_default(&self) -> bool {
        self.auth_source_is_default
    }

    /// Returns `loadBalanced`, or `None` if it was not set.
    pub(crate) const fn load_balanced_choice(&self) -> Option<bool> {
        self.load_balanced
    }

    /// Sets the time to live of the SRV records that gave the hosts; `None` if it is unknown.
    pub(crate) fn set_srv_ttl(&mut self, ttl: Option<Duration>) {
        self.srv_ttl = ttl;
    }

    /// Returns the time to live of the SRV records that gave the hosts, by which the first rescan
    /// is due.
    pub(crate) const fn srv_ttl(&self) -> Option<Duration> {
        self.srv_ttl
    }

    /// Sets [`default_database`](Self::default_database). Fails if the name is empty or has a
    /// character that database names must not have.
    pub fn set_default_database(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        if name.is_empty() || name.contains(['/', '\\', ' ', '"', '$', '\0']) {
            // A database name of a connection string must not contain these characters (CS-17). NUL
            // is refused in addition.
            return Err(Error::invalid_option(
                "defaultDatabase",
                "a database name is not empty and has no slash, backslash, space, quote, dollar \
                 sign or NUL",
            ));
        }
        self.default_database = Some(name);
        Ok(self)
    }

    /// Sets [`tls`](Self::tls).
    pub fn set_tls(&mut self, tls: TlsOptions) -> &mut Self {
        self.tls = tls;
        self
    }

    /// Sets [`replica_set`](Self::replica_set). Fails if the name is empty.
    pub fn set_replica_set(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        if name.is_empty() {
            return Err(Error::invalid_option(
                "replicaSet",
                "the name of a replica set is not empty",
            ));
        }
        self.replica_set = Some(name);
        Ok(self)
    }

    /// Sets [`direct_connection`](Self::direct_connection).
    pub fn set_direct_connection(&mut self, direct: impl Into<Option<bool>>) -> &mut Self {
        self.direct_connection = direct.into();
        self
    }

    /// Sets [`load_balanced`](Self::load_balanced).
    pub fn set_load_balanced(&mut self, load_balanced: bool) -> &mut Self {
        self.load_balanced = Some(load_balanced);
        self
    }

    /// Sets [`server_api`](Self::server_api).
    pub fn set_server_api(&mut self, api: impl Into<Option<ServerApi>>) -> &mut Self {
        self.server_api = api.into();
        self
    }

    /// Returns the seeds, the servers to which the client connects first. Empty while a
    /// `mongodb+srv` host is not resolved. Default: `localhost:27017`.
    #[must_use]
    pub fn hosts(&self) -> &[Address] {
        &self.hosts
    }

    /// Returns the host of a `mongodb+srv` connection string, in lower case. Its SRV records name
    /// the seeds. Default: none.
    #[must_use]
    pub fn srv_host(&self) -> Option<&str> {
        self.srv_host.as_deref()
    }

    /// Returns `srvServiceName`, the service in the SRV query `_{service}._tcp.{host}`. Default:
    /// `mongodb`.
    #[must_use]
    pub fn srv_service_name(&self) -> &str {
        &self.srv_service_name
    }

    /// Returns `srvMaxHosts`, the maximum number of hosts from SRV records that become seeds. Zero
    /// means no limit. Default: 0.
    #[must_use]
    pub const fn srv_max_hosts(&self) -> u32 {
        self.srv_max_hosts
    }

    /// Returns `appName`, which appears in the server's logs and profiles. At most 128 bytes.
    /// Default: none.
    #[must_use]
    pub fn app_name(&self) -> Option<&str> {
        self.app_name.as_deref()
    }

    /// Returns the credential: user name, password, `authSource`, `authMechanism` and
    /// `authMechanismProperties`. Default: none, and then connections do not authenticate.
    #[must_use]
    pub const fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// Returns the Kerberos library of the mechanism `GSSAPI`, which connection strings cannot set.
    /// A client with this mechanism is not created without a library. Default: none. Clients of the
    /// runtime crates set the GSSAPI library of the system if their Cargo feature `gssapi` is
    /// enabled and no other library is set.
    #[must_use]
    pub fn kerberos(&self) -> Option<&Arc<dyn Kerberos>> {
        self.kerberos.as_ref().map(|library| &library.0)
    }

    /// Returns the default database, which the path of a connection string names. Default: none.
    #[must_use]
    pub fn default_database(&self) -> Option<&str> {
        self.default_database.as_deref()
    }

    /// Returns `tls` and all options whose names begin with `tls`. Default: no TLS.
    #[must_use]
    pub const fn tls(&self) -> &TlsOptions {
        &self.tls
    }

    /// Returns `replicaSet`, the name of the replica set to which all servers must belong. Default:
    /// none.
    #[must_use]
    pub fn replica_set(&self) -> Option<&str> {
        self.replica_set.as_deref()
    }

    /// Returns `directConnection`. With `true`, the client uses only the one host, of any server
    /// type, and discovers no others. Default: `None`, which acts as `false`.
    #[must_use]
    pub const fn direct_connection(&self) -> Option<bool> {
        self.direct_connection
    }

    /// Returns `loadBalanced`. With `true`, the one host is a load balancer. The option applies to
    /// the whole client, not to single databases or operations. Default: `false` ([LB-1], [LB-2]).
    ///
    /// [LB-1]: crate::requirements::load_balancers#LB-1
    /// [LB-2]: crate::requirements::load_balancers#LB-2
    #[must_use]
    pub fn load_balanced(&self) -> bool {
        self.load_balanced == Some(true)
    }

    /// Returns the Stable API version that each command declares. Connection strings cannot set it.
    /// Default: none.
    #[must_use]
    pub const fn server_api(&self) -> Option<&ServerApi> {
        self.server_api.as_ref()
    }
}
