//! The options of a SOCKS5 proxy.

use super::Secret;
use crate::{
    address::{literal_fault, name_fault},
    error::Error,
};

/// The address of a SOCKS5 proxy, and the credentials for it.
///
/// ```
/// use onionskin_core::options::Socks5Proxy;
///
/// let credentials = ("me".to_owned(), "pencil".into());
/// let proxy = Socks5Proxy::builder()
///     .host("proxy.example.net")
///     .authentication(credentials)
///     .build();
/// assert_eq!(proxy.port(), 1080);
/// assert_eq!(proxy.validate(), Ok(()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Socks5Proxy {
    /// `proxyHost`, the name or IP address of the proxy. An IPv6 address may be in brackets.
    pub host: String,
    /// `proxyPort`. Default: 1080.
    pub port: Option<u16>,
    /// `proxyUsername` and `proxyPassword`. If both are empty, there are no credentials. The client
    /// offers two methods to the proxy: user name and password, and no authentication. The proxy
    /// chooses one of them. Default: none ([SOCKS-5], [SOCKS-7], [SOCKS-13]).
    ///
    /// [SOCKS-5]: crate::requirements::proxies#SOCKS-5
    /// [SOCKS-7]: crate::requirements::proxies#SOCKS-7
    /// [SOCKS-13]: crate::requirements::proxies#SOCKS-13
    pub authentication: Option<(String, Secret)>,
}

/// A builder of [`Socks5Proxy`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `build`"]
pub struct Socks5ProxyBuilder(Socks5Proxy);

impl Socks5ProxyBuilder {
    /// Sets the name or IP address of the proxy.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// let proxy = Socks5Proxy::builder().host("proxy.example.net").build();
    /// assert_eq!(proxy.host(), "proxy.example.net");
    /// ```
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.0.host = host.into();
        self
    }

    /// Sets the port.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// let proxy = Socks5Proxy::builder().host("proxy.example.net").port(9050).build();
    /// assert_eq!(proxy.port(), 9050);
    /// ```
    pub fn port(mut self, port: impl Into<Option<u16>>) -> Self {
        self.0.port = port.into();
        self
    }

    /// Sets the user name and the password.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// let credentials = ("me".to_owned(), "pencil".into());
    /// let proxy =
    ///     Socks5Proxy::builder().host("proxy.example.net").authentication(credentials).build();
    /// assert!(proxy.credentials().is_some());
    /// ```
    pub fn authentication(mut self, credentials: impl Into<Option<(String, Secret)>>) -> Self {
        self.0.authentication = credentials.into();
        self
    }

    /// Returns the proxy.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, Socks5Proxy};
    ///
    /// let proxy = Socks5Proxy::builder().host("proxy.example.net").build();
    /// let options = ClientOptions::builder().socks5_proxy(proxy).build();
    /// assert!(options.validate().is_ok());
    /// ```
    #[must_use]
    pub fn build(self) -> Socks5Proxy {
        self.0
    }
}

impl Socks5Proxy {
    /// The default of [`port`](Self::port): 1080.
    pub const DEFAULT_PORT: u16 = 1080;

    /// The maximum length of a host name, a user name and a password in bytes: 255. SOCKS5 sends
    /// each length as one byte (RFC 1928 section 5, RFC 1929 section 2).
    pub const MAX_TEXT_BYTES: usize = 255;

    /// Returns a builder of a proxy without a host.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// let proxy = Socks5Proxy::builder().host("::1").port(1081).build();
    /// assert_eq!((proxy.host(), proxy.port()), ("::1", 1081));
    /// ```
    pub fn builder() -> Socks5ProxyBuilder {
        Socks5ProxyBuilder::default()
    }

    /// Returns the proxy at `host`, with port 1080 and without credentials.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// let proxy = Socks5Proxy::new("proxy.example.net");
    /// assert_eq!((proxy.port(), proxy.credentials()), (1080, None));
    /// ```
    pub fn new(host: impl Into<String>) -> Self {
        Self::builder().host(host).build()
    }

    /// Checks the host, the port and the credentials. The check of a client's options
    /// ([`ClientOptions::validate`](super::ClientOptions::validate)) includes this one.
    ///
    /// The host must be a domain name, an IPv4 address or an IPv6 address. User name and password
    /// need each other, and are at most [`MAX_TEXT_BYTES`](Self::MAX_TEXT_BYTES) long ([SOCKS-2],
    /// [SOCKS-6], [SOCKS-8]).
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// assert!(Socks5Proxy::new("proxy.example.net").validate().is_ok());
    /// assert!(Socks5Proxy::new("socks5://proxy.example.net").validate().is_err());
    /// ```
    ///
    /// [SOCKS-2]: crate::requirements::proxies#SOCKS-2
    /// [SOCKS-6]: crate::requirements::proxies#SOCKS-6
    /// [SOCKS-8]: crate::requirements::proxies#SOCKS-8
    pub fn validate(&self) -> Result<(), Error> {
        if let Some(fault) = host_fault(self.host()) {
            return Err(Error::invalid_option("proxyHost", fault));
        }
        if self.port() == 0 {
            return Err(Error::invalid_option(
                "proxyPort",
                "it must be from 1 to 65535",
            ));
        }
        let Some((username, password)) = self.credentials() else {
            return Ok(());
        };
        for (option, other, text) in [
            ("proxyUsername", "proxyPassword", username),
            ("proxyPassword", "proxyUsername", password.expose()),
        ] {
            if text.is_empty() {
                return Err(Error::invalid_option(
                    option,
                    format!("{other} needs it; give both or neither"),
                ));
            }
            if text.len() > Self::MAX_TEXT_BYTES {
                let limit = Self::MAX_TEXT_BYTES;
                let message = format!("it has {} bytes, but SOCKS5 allows {limit}", text.len());
                return Err(Error::invalid_option(option, message));
            }
        }
        Ok(())
    }

    /// Returns the host, an IPv6 address without its brackets.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// assert_eq!(Socks5Proxy::new("[::1]").host(), "::1");
    /// ```
    #[must_use]
    pub fn host(&self) -> &str {
        let inner = self
            .host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'));
        let address = inner.filter(|inner| literal_fault(inner).is_none());
        address.unwrap_or(&self.host)
    }

    /// Returns the port, or its default.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// assert_eq!(Socks5Proxy::new("proxy.example.net").port(), 1080);
    /// ```
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(Self::DEFAULT_PORT)
    }

    /// Returns the user name and the password, unless both are empty.
    ///
    /// ```
    /// use onionskin_core::options::Socks5Proxy;
    ///
    /// let mut proxy = Socks5Proxy::new("proxy.example.net");
    /// assert_eq!(proxy.credentials(), None);
    /// proxy.authentication = Some(("me".to_owned(), "pencil".into()));
    /// assert_eq!(proxy.credentials().map(|(username, _)| username), Some("me"));
    /// ```
    #[must_use]
    pub fn credentials(&self) -> Option<(&str, &Secret)> {
        let (username, password) = self.authentication.as_ref()?;
        let is_empty = username.is_empty() && password.expose().is_empty();
        (!is_empty).then_some((username.as_str(), password))
    }
}

/// Returns the reason why `host` is neither a name nor an IP address; `None` if it is one.
fn host_fault(host: &str) -> Option<&'static str> {
    if host.is_empty() {
        return Some("it is empty; give the name or the IP address of the proxy");
    }
    if host.len() > Socks5Proxy::MAX_TEXT_BYTES {
        return Some("it has more than 255 bytes");
    }
    let is_address = literal_fault(host).is_none();
    if host.contains("://") {
        return Some("it is the name or the IP address of the proxy, without a scheme");
    }
    if host.contains(':') && !is_address {
        return Some("it is neither a name nor an IP address; give the port in proxyPort");
    }
    let fault = name_fault(host).filter(|_| !is_address);
    fault.map(|_| "it is neither a name nor an IP address")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Argument, ErrorKind};

    /// Returns the name of the option that is refused; `None` if none is.
    fn refused(proxy: &Socks5Proxy) -> Option<&'static str> {
        match proxy.validate().err()?.kind() {
            ErrorKind::InvalidArgument {
                argument: Argument::Option(option),
                ..
            } => Some(option),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_host_is_a_name_or_an_ip_address() {
        // SOCKS-2. The default of the port is 1080 (SOCKS-3).
        for (text, host) in [
            ("localhost", "localhost"),
            ("proxy_1.example.net", "proxy_1.example.net"),
            ("10.0.0.1", "10.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("fe80::1%eth0", "fe80::1%eth0"),
        ] {
            let proxy = Socks5Proxy::new(text);
            assert_eq!((proxy.host(), proxy.port()), (host, 1080));
            assert_eq!(refused(&proxy), None, "{text}");
        }
        let long = "a".repeat(256);
        for text in [
            "",
            " ",
            "a b",
            "a/b",
            "a\0",
            "proxy:1080",
            "[proxy]",
            "[::1]:1080",
            "socks5://proxy",
            "me@proxy",
            "::1%",
            &long,
        ] {
            assert_eq!(
                refused(&Socks5Proxy::new(text)),
                Some("proxyHost"),
                "{text}"
            );
        }
        assert_eq!(refused(&Socks5Proxy::new("a".repeat(255))), None);
        assert_eq!(
            refused(&Socks5Proxy::builder().host("a").port(0).build()),
            Some("proxyPort")
        );
    }

    #[test]
    fn user_name_and_password_need_each_other_and_have_at_most_255_bytes() {
        // Empty ones are as if absent (SOCKS-5, SOCKS-7). One without the other is an error
        // (SOCKS-6, SOCKS-8). RFC 1929 has one byte for each length.
        let proxy = |username: &str, password: &str| {
            Socks5Proxy::builder()
                .host("proxy")
                .authentication((username.to_owned(), password.into()))
                .build()
        };
        let (long, longest) = (&*"x".repeat(256), &*"x".repeat(255));
        let none = proxy("", "");
        assert_eq!((none.credentials(), refused(&none)), (None, None));
        for (username, password, expected) in [
            ("me", "", Some("proxyPassword")),
            ("", "pencil", Some("proxyUsername")),
            ("me", "pencil", None),
            (longest, longest, None),
            (long, "pencil", Some("proxyUsername")),
            ("me", long, Some("proxyPassword")),
        ] {
            let proxy = proxy(username, password);
            assert_eq!(refused(&proxy), expected);
            let error = proxy
                .validate()
                .err()
                .map(|error| format!("{error} {error:?}"));
            assert!(!error.unwrap_or_default().contains("pencil"));
        }
    }
}
