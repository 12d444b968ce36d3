//! The client's side of SOCKS5 (RFC 1928) without sockets: asks a proxy to connect to a server.
//!
//! The methods of authentication are "no authentication", and user name and password (RFC 1929).
//! The only command is `CONNECT` ([SOCKS-1], [SOCKS-22]).
//!
//! [`Socks5Context`] has the options of a client. [`Socks5Conversation`] is the conversation of one
//! connection with the proxy.
//!
//! [SOCKS-1]: crate::requirements::proxies#SOCKS-1
//! [SOCKS-22]: crate::requirements::proxies#SOCKS-22

mod conversation;
mod messages;

#[cfg(test)]
mod tests;

pub use conversation::Socks5Conversation;

use crate::{address::Address, error::Error, options::Socks5Proxy};
use std::{fmt, sync::Arc};
use zeroize::Zeroizing;

/// The proxy of a client and the credentials for it. Clones share the credentials.
#[derive(Clone)]
pub struct Socks5Context {
    proxy: Address,
    /// The request of RFC 1929 with the user name and the password; `None` without credentials.
    login: Option<Arc<Zeroizing<Vec<u8>>>>,
}

/// Shows neither the user name nor the password.
impl fmt::Debug for Socks5Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socks5Context")
            .field("proxy", &self.proxy)
            .field("has_credentials", &self.login.is_some())
            .finish()
    }
}

impl Socks5Context {
    /// Returns the context of a client with these options. Fails if the options cannot be used, for
    /// example because a credential is too long.
    pub fn new(options: &Socks5Proxy) -> Result<Self, Error> {
        options.validate()?;
        let login = options.credentials().map(|(username, password)| {
            let login = messages::login(username.as_bytes(), password.expose().as_bytes());
            Arc::new(login)
        });
        Ok(Self {
            proxy: Address::tcp(options.host(), options.port()),
            login,
        })
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn proxy(&self) -> &Address {
        &self.proxy
    }

    /// Returns the message with the user name and the password, with which the bytes for the proxy
    /// that have it begin; `None` without credentials.
    pub(crate) fn login(&self) -> Option<Arc<Zeroizing<Vec<u8>>>> {
        self.login.clone()
    }
}
