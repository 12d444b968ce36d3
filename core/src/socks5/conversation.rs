//! The conversation of one connection with the proxy.

use super::{
    Socks5Context,
    messages::{
        IPV4, IPV6, LOGIN, LOGIN_VERSION, NAME, NO_AUTHENTICATION, NO_METHOD, VERSION, fault_of,
        greeting, refused, request,
    },
};
use crate::{
    address::Address,
    error::{Error, ErrorKind, IoError, NetworkFault},
};
use std::fmt;
use zeroize::Zeroize;

/// The message of the proxy that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The chosen method of authentication. The greeting was queued.
    AwaitingMethod,
    /// The result of authentication. The user name and the password were queued.
    AwaitingLogin,
    /// The reply to the request, which was queued.
    AwaitingReply,
    /// None: the proxy has connected to the server. All further bytes come from the server.
    Connected,
    /// None: the conversation failed, and the connection cannot be used.
    Failed,
}

/// The machine of one connection's conversation with a SOCKS5 proxy.
///
/// Inputs are the bytes of the proxy, outputs the bytes for the proxy. The client sends each
/// message only after the reply to the one before. After the conversation, [`read`](Self::read)
/// returns the bytes that the server sent together with the end of the conversation.
pub struct Socks5Conversation {
    context: Socks5Context,
    state: State,
    /// The request to connect to the server.
    request: Vec<u8>,
    /// The bytes to send. They may contain the password.
    output: Vec<u8>,
    /// The bytes of an incomplete message, which has at most 262 bytes: a reply with the longest
    /// domain name. After the conversation, the bytes of the server.
    received: Vec<u8>,
}

/// Shows the state and the proxy. The bytes may contain secrets.
impl fmt::Debug for Socks5Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socks5Conversation")
            .field("context", &self.context)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Drop for Socks5Conversation {
    fn drop(&mut self) {
        self.output.zeroize();
    }
}

impl Socks5Conversation {
    /// Returns the conversation that asks the proxy to connect to the server at `host` and `port`.
    /// Fails if the name of the host is too long for SOCKS5.
    pub fn new(context: &Socks5Context, host: &str, port: u16) -> Result<Self, Error> {
        Ok(Self {
            context: context.clone(),
            state: State::AwaitingMethod,
            request: request(host, port)?,
            output: greeting(context.login.is_some()),
            received: Vec::new(),
        })
    }

    /// Processes bytes from the socket. After an error the connection cannot be used, and further
    /// bytes are ignored.
    pub fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.state == State::Failed {
            return Ok(());
        }
        self.received.extend_from_slice(bytes);
        let result = self.take_messages();
        if result.is_err() {
            self.state = State::Failed;
            self.received = Vec::new();
            self.output.zeroize();
        }
        result
    }

    /// Moves bytes of the server into `buffer`. Returns their number; zero if there are none, or
    /// before the conversation is over.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        if self.state != State::Connected {
            return 0;
        }
        let count = self.received.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.received[..count]);
        self.received.drain(..count);
        count
    }

    /// Appends the bytes for the proxy to `out`. Returns false if there are none.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        if self.output.is_empty() {
            return false;
        }
        out.extend_from_slice(&self.output);
        self.output.zeroize();
        true
    }

    /// True once the proxy has connected to the server.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Returns the address of the proxy.
    #[cfg(any(test, feature = "unstable-machines"))]
    #[must_use]
    pub fn proxy(&self) -> &Address {
        self.context.proxy()
    }

    /// Returns the error for a connection that was lost before the conversation was over. `error`
    /// is that of the socket. The result names the proxy and, if the connection was closed, a
    /// likely cause. Errors other than network errors are returned unchanged.
    #[must_use]
    pub fn describe_loss(&self, error: Error) -> Error {
        let ErrorKind::Io(IoError { fault, message, .. }) = error.kind() else {
            return error;
        };
        let moment = match self.state {
            State::AwaitingMethod => "after the greeting; is it a SOCKS5 proxy?",
            State::AwaitingLogin => "after the login; check proxyUsername and proxyPassword",
            State::AwaitingReply => "before it was connected to the server",
            State::Connected | State::Failed => return error,
        };
        let message = match fault {
            NetworkFault::Closed => format!("closed the connection {moment}"),
            NetworkFault::Reset => format!("reset the connection {moment}"),
            _ => format!("cannot be used: {message}"),
        };
        fault_of(&self.context, *fault, &message)
    }

    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.received.len()
    }

    /// Processes all complete messages of the proxy.
    fn take_messages(&mut self) -> Result<(), Error> {
        loop {
            let taken = match self.state {
                State::AwaitingMethod => self.take_method()?,
                State::AwaitingLogin => self.take_login()?,
                State::AwaitingReply => self.take_reply()?,
                State::Connected | State::Failed => return Ok(()),
            };
            match taken {
                Some(length) => drop(self.received.drain(..length)),
                None => return Ok(()),
            }
        }
    }

    /// Processes the method that the proxy chose (RFC 1928 section 3). Returns the length of the
    /// message; `None` if the message is not complete.
    fn take_method(&mut self) -> Result<Option<usize>, Error> {
        let &[version, ref rest @ ..] = &*self.received else {
            return Ok(None);
        };
        self.check_version(version, VERSION)?;
        let &[method, ..] = rest else {
            return Ok(None);
        };
        match (method, &self.context.login) {
            (NO_AUTHENTICATION, _) => self.send_request(),
            (LOGIN, Some(login)) => {
                self.output.extend_from_slice(login);
                self.state = State::AwaitingLogin;
            }
            (NO_METHOD, Some(_)) => {
                let message =
                    "accepts neither a user name with a password nor connections without them";
                return Err(self.login_fault(message));
            }
            (NO_METHOD, None) => {
                let message = "requires authentication; set proxyUsername and proxyPassword";
                return Err(self.login_fault(message));
            }
            _ => {
                let message = format!("chose the method {method}, which was not offered");
                return Err(self.fault(&message));
            }
        }
        Ok(Some(2))
    }

    /// Processes the result of authentication (RFC 1929 section 2), like
    /// [`take_method`](Self::take_method).
    fn take_login(&mut self) -> Result<Option<usize>, Error> {
        let &[version, ref rest @ ..] = &*self.received else {
            return Ok(None);
        };
        self.check_version(version, LOGIN_VERSION)?;
        match *rest {
            [] => Ok(None),
            [0, ..] => {
                self.send_request();
                Ok(Some(2))
            }
            [_, ..] => {
                let message =
                    "refused the user name or the password; check proxyUsername and proxyPassword";
                Err(self.login_fault(message))
            }
        }
    }

    /// Processes the reply to the request (RFC 1928 section 6), like
    /// [`take_method`](Self::take_method). The address in the reply has no meaning for the client,
    /// but its end is the end of the conversation.
    fn take_reply(&mut self) -> Result<Option<usize>, Error> {
        let &[version, ref rest @ ..] = &*self.received else {
            return Ok(None);
        };
        self.check_version(version, VERSION)?;
        // After a failure, the proxy may close the connection without the rest of the reply.
        if let Some(&code) = rest.first().filter(|&&code| code != 0) {
            return Err(refused(&self.context, code));
        }
        // The third byte is reserved. Its value is ignored.
        let Some(&kind) = rest.get(2) else {
            return Ok(None);
        };
        let address_bytes = match (kind, rest.get(3)) {
            (IPV4, _) => 4,
            (IPV6, _) => 16,
            (NAME, Some(&length)) => 1 + usize::from(length),
            (NAME, None) => return Ok(None),
            _ => {
                let message = format!("sent a reply with the unknown type of address {kind}");
                return Err(self.fault(&message));
            }
        };
        let length = 4 + address_bytes + 2;
        if self.received.len() < length {
            return Ok(None);
        }
        self.state = State::Connected;
        Ok(Some(length))
    }

    fn send_request(&mut self) {
        self.output.append(&mut self.request);
        self.state = State::AwaitingReply;
    }

    fn check_version(&self, version: u8, expected: u8) -> Result<(), Error> {
        if version == expected {
            return Ok(());
        }
        let message =
            format!("sent the version {version} instead of {expected}; is it a SOCKS5 proxy?");
        Err(self.fault(&message))
    }

    fn fault(&self, message: &str) -> Error {
        fault_of(&self.context, NetworkFault::Other, message)
    }

    fn login_fault(&self, message: &str) -> Error {
        fault_of(&self.context, NetworkFault::ProxyAuthentication, message)
    }
}
