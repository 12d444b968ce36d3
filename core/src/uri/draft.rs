//! The options of a connection string during parsing, and their completion at the end.

use super::{Result, authority::UserInfo, invalid, value::Refusal};
use crate::{
    description::Tags,
    error::{Argument, Error, ErrorKind, UriPart},
    options::{
        Acknowledgment, AuthMechanism, CODE_ONLY_PROPERTIES, ClientOptions, Credential, ReadMode,
        ReadPreference, Secret, Socks5Proxy, Tls, TlsOptions, WriteConcern, check,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// The options that were parsed so far. Values that form one option together are kept apart until
/// all of them are known.
pub(super) struct Draft {
    pub(super) options: ClientOptions,
    pub(super) tls: TlsOptions,
    tls_enabled: Option<bool>,
    pub(super) mechanism: Option<AuthMechanism>,
    pub(super) auth_source: Option<String>,
    properties: BTreeMap<String, Secret>,
    /// True if `authMechanismProperties` was ignored. Parsing then does not check the properties.
    pub(super) properties_dropped: bool,
    pub(super) read_mode: Option<ReadMode>,
    pub(super) tag_sets: Vec<Tags>,
    max_staleness: Option<Duration>,
    pub(super) write_concern: WriteConcern,
    pub(super) proxy_host: Option<String>,
    pub(super) proxy_port: Option<u16>,
    pub(super) proxy_username: Option<String>,
    pub(super) proxy_password: Option<Secret>,
}

impl From<Error> for Refusal {
    /// Ignores a value that a rule refuses, with the message of the rule as the reason.
    fn from(error: Error) -> Self {
        Self::Ignore(match error.kind() {
            ErrorKind::InvalidArgument {
                argument: Argument::Option(_),
                message,
                ..
            } => message.clone(),
            other => other.to_string(),
        })
    }
}

/// Converts an error of a rule or of validation to an error of the connection string.
pub(super) fn in_uri(error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidArgument {
            argument: Argument::Option(option),
            message,
        } => match *option {
            "username" | "password" => invalid(UriPart::UserInfo, message.clone()),
            "defaultDatabase" => invalid(UriPart::Database, message.clone()),
            "hosts" | "srvHost" => invalid(UriPart::Host, message.clone()),
            option => invalid(UriPart::Options, format!("{option}: {message}")),
        },
        _ => error,
    }
}

impl Draft {
    /// Returns a draft of these options in which no option was parsed.
    pub(super) fn new(options: ClientOptions) -> Self {
        Self {
            options,
            tls: TlsOptions::default(),
            tls_enabled: None,
            mechanism: None,
            auth_source: None,
            properties: BTreeMap::new(),
            properties_dropped: false,
            read_mode: None,
            tag_sets: Vec::new(),
            max_staleness: None,
            write_concern: WriteConcern::default(),
            proxy_host: None,
            proxy_port: None,
            proxy_username: None,
            proxy_password: None,
        }
    }
}

/// Functions that the option table calls to store a value.
impl Draft {
    /// Stores a value in an option that permits every value.
    pub(super) fn set_option(
        &mut self,
        set: impl FnOnce(&mut ClientOptions),
    ) -> Result<(), Refusal> {
        set(&mut self.options);
        Ok(())
    }

    /// Stores a value in an option, unless its rule refuses the value.
    pub(super) fn set_checked<T>(
        &mut self,
        value: T,
        rule: fn(&T) -> Result<(), Error>,
        field: impl FnOnce(&mut ClientOptions) -> &mut Option<T>,
    ) -> Result<(), Refusal> {
        rule(&value)?;
        *field(&mut self.options) = Some(value);
        Ok(())
    }

    /// Stores a value in the draft.
    pub(super) fn store(&mut self, set: impl FnOnce(&mut Self)) -> Result<(), Refusal> {
        set(self);
        Ok(())
    }

    /// Sets whether TLS is on. `tls` and `ssl` are one option, and different values are an error
    /// (URI-12).
    pub(super) fn set_tls(&mut self, enabled: bool) -> Result<(), Refusal> {
        if self.tls_enabled.is_some_and(|earlier| earlier != enabled) {
            return Refusal::fatal("tls and ssl are one option and must not differ; keep tls");
        }
        self.tls_enabled = Some(enabled);
        Ok(())
    }

    pub(super) fn set_properties(
        &mut self,
        properties: BTreeMap<String, Secret>,
    ) -> Result<(), Refusal> {
        let code_only = |key: &String| {
            CODE_ONLY_PROPERTIES
                .into_iter()
                .find(|p| p.eq_ignore_ascii_case(key))
        };
        if let Some(name) = properties.keys().find_map(code_only) {
            return Refusal::fatal(format!("{name} can only be set in code"));
        }
        self.properties = properties;
        Ok(())
    }

    pub(super) fn set_max_staleness(&mut self, seconds: i64) -> Result<(), Refusal> {
        self.max_staleness = match seconds {
            -1 => None,
            _ => Some(Duration::from_secs(seconds.unsigned_abs())),
        };
        Ok(())
    }

    /// Sets `w`. A negative number, or one of more than 31 bits, is an error and not a warning,
    /// because the specification of write concerns is stricter than the rule for other options
    /// (URI-23).
    pub(super) fn set_w(&mut self, w: Result<i64, String>) -> Result<(), Refusal> {
        self.write_concern.w = Some(match w {
            Ok(members) => match i32::try_from(members).map(u32::try_from) {
                Ok(Ok(members)) => Acknowledgment::Nodes(members),
                _ => return Refusal::fatal("it must be a number from 0 to 2147483647, or a name"),
            },
            Err(mode) => mode.into(),
        });
        Ok(())
    }

    pub(super) fn set_w_timeout(&mut self, timeout: Duration) -> Result<(), Refusal> {
        self.write_concern.w_timeout = Some(timeout);
        Ok(())
    }
}

/// Functions that complete the options after all of them were parsed.
impl Draft {
    /// Combines the values into options, and checks the rules that involve several options.
    pub(super) fn finish(
        mut self,
        srv: bool,
        userinfo: Option<UserInfo>,
        database: Option<String>,
    ) -> Result<ClientOptions> {
        self.finish_credential(userinfo, database.as_deref())?;
        if let Some(database) = database {
            check::default_database(&database).map_err(in_uri)?;
            self.options.default_database = Some(database);
        }
        self.finish_proxy()?;
        // `mongodb+srv` switches TLS on (DNS-13), and `tls=false` switches it off again (DNS-14).
        match self.tls_enabled.unwrap_or(srv) {
            true => self.options.tls = Some(self.tls.into()),
            false => {
                self.options.tls = self.tls_enabled.map(|_| Tls::Disabled);
                let is_given = self.tls != TlsOptions::default();
                self.options.unused_tls = is_given.then(|| Box::new(self.tls));
            }
        }

        let mut preference = ReadPreference::new(self.read_mode.unwrap_or_default());
        preference = preference.with_tag_sets(self.tag_sets).map_err(in_uri)?;
        if let Some(staleness) = self.max_staleness {
            preference = preference.with_max_staleness(staleness).map_err(in_uri)?;
        }
        if preference != ReadPreference::Primary || self.read_mode.is_some() {
            self.options.selection_criteria = Some(preference.into());
        }
        if !self.write_concern.is_empty() {
            self.write_concern.validate().map_err(in_uri)?;
            self.options.write_concern = Some(self.write_concern);
        }
        self.options.validate_combinations().map_err(in_uri)?;
        Ok(self.options)
    }

    /// Sets the credential. Only an `@` or a mechanism requires authentication (AUTH-5, CS-43). A
    /// database, `authSource` or properties alone do not (AUTH-6, AUTH-7, CS-18).
    fn finish_credential(
        &mut self,
        userinfo: Option<UserInfo>,
        database: Option<&str>,
    ) -> Result<()> {
        if userinfo.is_none() && self.mechanism.is_none() {
            return Ok(());
        }
        // Each mechanism has its own default for `authSource` (AUTH-133, AUTH-134).
        let mut credential = Credential {
            source: self.auth_source.take(),
            default_source: database.map(str::to_owned),
            is_parsed: true,
            mechanism: self.mechanism,
            mechanism_properties: std::mem::take(&mut self.properties),
            ..Credential::default()
        };
        if let Some((username, password)) = userinfo {
            credential.username = Some(username);
            credential.password = password;
        }
        if self.mechanism == Some(AuthMechanism::Gssapi)
            && credential.property("SERVICE_NAME").is_none()
        {
            let name = ("SERVICE_NAME".to_owned(), Secret::new("mongodb"));
            credential.mechanism_properties.extend([name]);
        }
        credential
            .check_from_uri(self.properties_dropped)
            .map_err(in_uri)?;
        self.options.credential = Some(credential);
        Ok(())
    }

    /// Returns the options of a credential that were given without a mechanism. They have no effect
    /// if there is no user name either.
    pub(super) fn unused_credential_options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("authSource", self.auth_source.is_some()),
            ("authMechanismProperties", !self.properties.is_empty()),
        ];
        let is_used = self.mechanism.is_some();
        let unused = given.into_iter().filter(move |(_, is)| *is && !is_used);
        unused.map(|(option, _)| option)
    }

    /// Sets the proxy. The other proxy options need `proxyHost`, and user name and password need
    /// each other (URI-18). An empty user name or password counts as absent. An empty host is
    /// refused, because it would connect without the proxy.
    fn finish_proxy(&mut self) -> Result<()> {
        let refuse = |message| Err(invalid(UriPart::Options, message));
        let username = self.proxy_username.take().filter(|name| !name.is_empty());
        let password = self
            .proxy_password
            .take()
            .filter(|word| !word.expose().is_empty());
        let Some(host) = self.proxy_host.take() else {
            if self.proxy_port.is_some() || username.is_some() || password.is_some() {
                return refuse("proxyPort, proxyUsername and proxyPassword need proxyHost; add it");
            }
            return Ok(());
        };
        let mut proxy = Socks5Proxy::new(host);
        proxy.port = self.proxy_port;
        proxy.authentication = match (username, password) {
            (Some(username), Some(password)) => Some((username, password)),
            (None, None) => None,
            _ => return refuse("proxyUsername and proxyPassword need each other; give both"),
        };
        self.options.socks5_proxy = Some(proxy);
        Ok(())
    }
}
