//! Options that say which deployment is meant and who is asking.

use super::{
    Address, ClientOptions, Credential, DEFAULT_SRV_SERVICE_NAME, Error, MAX_APP_NAME_BYTES,
    MAX_SRV_SERVICE_NAME_BYTES, ServerApi, TlsOptions, invalid,
};

impl ClientOptions {
    /// Sets [`hosts`](Self::hosts) (SDAM-19). A few of a replica set's members are enough, the rest
    /// is found; each one given is connected to at the start, so that a list of hundreds makes many
    /// connections and finds no more (SDAM-121).
    pub fn set_hosts(&mut self, hosts: Vec<Address>) -> &mut Self {
        self.hosts = hosts;
        self
    }

    /// Sets [`srv_host`](Self::srv_host), and forgets the hosts: they come from DNS. Encryption is
    /// not changed by this; `mongodb+srv` in a connection string switches it on.
    pub fn set_srv_host(&mut self, host: &str) -> Result<&mut Self, Error> {
        let host = host.to_ascii_lowercase();
        if host.is_empty() || host.contains([',', ':', '/', '[', ']', '@']) {
            return Err(invalid(
                "srvHost",
                "give one host name, without a port (DNS supplies the ports)",
            ));
        }
        self.srv_host = Some(host);
        self.hosts.clear();
        Ok(self)
    }

    /// Sets [`srv_service_name`](Self::srv_service_name).
    pub fn set_srv_service_name(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        let letters = name.bytes().any(|b| b.is_ascii_alphabetic());
        let known = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let hyphens = name.starts_with('-') || name.ends_with('-') || name.contains("--");
        if !letters || !known || hyphens || name.len() > MAX_SRV_SERVICE_NAME_BYTES {
            return Err(invalid(
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

    /// Sets [`app_name`](Self::app_name).
    pub fn set_app_name(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        if name.len() > MAX_APP_NAME_BYTES {
            let message =
                format!("at most {MAX_APP_NAME_BYTES} bytes of UTF-8 are sent; shorten it");
            return Err(invalid("appName", message));
        }
        self.app_name = Some(name);
        Ok(self)
    }

    /// Sets [`credential`](Self::credential), if it holds what its mechanism needs and nothing
    /// that the mechanism refuses (AUTH-4).
    pub fn set_credential(&mut self, credential: Credential) -> Result<&mut Self, Error> {
        credential.check()?;
        self.credential = Some(credential);
        self.auth_source_is_default = false;
        Ok(self)
    }

    /// Takes over the credential of a connection string, which may still lack something, and
    /// whether its source was chosen there.
    pub(crate) fn set_parsed_credential(&mut self, credential: Credential, source_chosen: bool) {
        self.credential = Some(credential);
        self.auth_source_is_default = !source_chosen;
    }

    /// True if neither a connection string nor code chose `authSource`, so that a TXT record may.
    pub(crate) const fn auth_source_is_default(&self) -> bool {
        self.auth_source_is_default
    }

    /// `loadBalanced` as far as it was chosen.
    pub(crate) const fn load_balanced_choice(&self) -> Option<bool> {
        self.load_balanced
    }

    /// Sets [`default_database`](Self::default_database).
    pub fn set_default_database(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        if name.is_empty() || name.contains(['/', '\\', ' ', '"', '$', '\0']) {
            // CS-17
            return Err(invalid(
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

    /// Sets [`replica_set`](Self::replica_set).
    pub fn set_replica_set(&mut self, name: impl Into<String>) -> Result<&mut Self, Error> {
        let name = name.into();
        if name.is_empty() {
            return Err(invalid(
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

    /// The seeds: servers to ask first. Empty while a `mongodb+srv` host is not yet resolved.
    /// Default: `localhost:27017`.
    #[must_use]
    pub fn hosts(&self) -> &[Address] {
        &self.hosts
    }

    /// The host of a `mongodb+srv` connection string, whose SRV records name the seeds; in lower
    /// case. Default: none.
    #[must_use]
    pub fn srv_host(&self) -> Option<&str> {
        self.srv_host.as_deref()
    }

    /// `srvServiceName`: the service in the SRV query `_{service}._tcp.{host}`. Default:
    /// `mongodb`.
    #[must_use]
    pub fn srv_service_name(&self) -> &str {
        &self.srv_service_name
    }

    /// `srvMaxHosts`: how many of the hosts that SRV records name are used; 0 for all of them.
    /// Default: 0.
    #[must_use]
    pub const fn srv_max_hosts(&self) -> u32 {
        self.srv_max_hosts
    }

    /// `appName`: shown in the server's logs and profiles; at most 128 bytes. Default: none.
    #[must_use]
    pub fn app_name(&self) -> Option<&str> {
        self.app_name.as_deref()
    }

    /// User name, password, `authSource`, `authMechanism` and `authMechanismProperties`. Default:
    /// none, which means that nothing is authenticated.
    #[must_use]
    pub const fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// The database named after the hosts of a connection string. Default: none.
    #[must_use]
    pub fn default_database(&self) -> Option<&str> {
        self.default_database.as_deref()
    }

    /// `tls` and all options whose names begin so. Default: not encrypted.
    #[must_use]
    pub const fn tls(&self) -> &TlsOptions {
        &self.tls
    }

    /// `replicaSet`: the set that servers must belong to. Default: none.
    #[must_use]
    pub fn replica_set(&self) -> Option<&str> {
        self.replica_set.as_deref()
    }

    /// `directConnection`: `true` talks to the one host as it is and looks for no others. Default:
    /// not chosen, which acts as `false`.
    #[must_use]
    pub const fn direct_connection(&self) -> Option<bool> {
        self.direct_connection
    }

    /// `loadBalanced`: the one host is a load balancer, behind which there are services. Holds for
    /// the whole client; there is no such choice for databases or operations. Default: `false`
    /// (LB-1, LB-2).
    #[must_use]
    pub fn load_balanced(&self) -> bool {
        self.load_balanced == Some(true)
    }

    /// The version of the Stable API that is declared with each command; not an option of
    /// connection strings. Default: none.
    #[must_use]
    pub const fn server_api(&self) -> Option<&ServerApi> {
        self.server_api.as_ref()
    }
}
