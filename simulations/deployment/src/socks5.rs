//! The proxy's side of SOCKS5 (RFC 1928) without I/O: bytes in, bytes out. Shares no code with the
//! client's side.
//!
//! [`Socks5Server`] has the options of a proxy. [`Socks5Exchange`] is the conversation of one
//! connection, which ends in a [`Socks5Step`].

/// The options of a proxy.
#[derive(Clone, Debug, Default)]
pub struct Socks5Server {
    /// The user name and the password that the proxy requires. `None` for a proxy that needs no
    /// authentication, which then chooses this method even if a client also offers a password.
    pub credentials: Option<(String, String)>,
    /// The addresses, as `host:port`, that lead elsewhere, each with its destination.
    pub mapped: Vec<(String, (String, u16))>,
    /// The fault of each connection; `None` for none.
    pub fault: Option<Socks5Fault>,
}

/// A fault of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socks5Fault {
    /// Replies to each request with this code, for example 5 for "connection refused".
    Reply(u8),
    /// Reads everything and replies with nothing.
    Silence,
    /// Replies with these bytes to the first message, and closes the connection.
    Bytes(Vec<u8>),
    /// Closes the connection after the greeting.
    Close,
}

/// The next step of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socks5Step {
    /// More bytes are needed.
    Wait,
    /// Connect to this host and port, and then call [`Socks5Exchange::connected`].
    Connect(String, u16),
    /// Close the connection, after the output was sent.
    Close,
}

/// The state of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Login,
    Request,
    Over,
}

/// The conversation of one connection with the proxy.
#[derive(Debug)]
pub struct Socks5Exchange {
    server: Socks5Server,
    stage: Stage,
    received: Vec<u8>,
    output: Vec<u8>,
    /// The methods that the client offered.
    offered: Vec<u8>,
    /// The type of the address in the request.
    kind: u8,
}

impl Socks5Exchange {
    /// Returns the conversation of a new connection.
    #[must_use]
    pub const fn new(server: Socks5Server) -> Self {
        Self {
            server,
            stage: Stage::Greeting,
            received: Vec::new(),
            output: Vec::new(),
            offered: Vec::new(),
            kind: 0,
        }
    }

    /// Processes bytes of the client, and returns the next step.
    pub fn handle_received(&mut self, bytes: &[u8]) -> Socks5Step {
        self.received.extend_from_slice(bytes);
        if self.server.fault == Some(Socks5Fault::Silence) {
            return Socks5Step::Wait;
        }
        loop {
            let step = match self.stage {
                Stage::Greeting => self.greeting(),
                Stage::Login => self.login(),
                Stage::Request => self.request(),
                Stage::Over => None,
            };
            match step {
                None => return Socks5Step::Wait,
                Some(Socks5Step::Wait) => {}
                Some(step) => return step,
            }
        }
    }

    /// Queues the reply to the request: success, or a failure with this code.
    pub fn connected(&mut self, result: Result<(), u8>) {
        let code = result.err().unwrap_or(0);
        // The type of the bound address differs from that of the address in the request, so that
        // clients meet all three types.
        match self.kind {
            3 => self
                .output
                .extend([5, code, 0, 3, 5, b'b', b'o', b'u', b'n', b'd', 0, 0]),
            4 => self.output.extend([5, code, 0, 1, 0, 0, 0, 0, 0, 0]),
            _ => {
                self.output.extend([5, code, 0, 4]);
                self.output.extend([0; 18]);
            }
        }
    }

    /// Takes the bytes for the client.
    #[must_use]
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the bytes of the client that belong to the destination.
    #[must_use]
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Returns the methods of authentication that the client offered.
    #[must_use]
    pub fn offered(&self) -> &[u8] {
        &self.offered
    }

    /// Processes the greeting. `None` if it is not complete.
    fn greeting(&mut self) -> Option<Socks5Step> {
        let count = usize::from(*self.received.get(1)?);
        let methods = self.received.get(2..2 + count)?.to_vec();
        let version = self.received[0];
        self.received.drain(..2 + count);
        self.offered = methods;
        match &self.server.fault {
            Some(Socks5Fault::Bytes(bytes)) => {
                self.output.extend_from_slice(bytes);
                return Some(self.close());
            }
            Some(Socks5Fault::Close) => return Some(self.close()),
            Some(Socks5Fault::Reply(_) | Socks5Fault::Silence) | None => {}
        }
        let method = if self.server.credentials.is_some() {
            2
        } else {
            0
        };
        if version != 5 || !self.offered.contains(&method) {
            self.output.extend([5, 0xFF]);
            return Some(self.close());
        }
        self.output.extend([5, method]);
        self.stage = if method == 2 {
            Stage::Login
        } else {
            Stage::Request
        };
        Some(Socks5Step::Wait)
    }

    /// Processes the user name and the password. `None` if they are not complete.
    fn login(&mut self) -> Option<Socks5Step> {
        let name_end = 2 + usize::from(*self.received.get(1)?);
        let word_start = name_end + 1;
        let word_end = word_start + usize::from(*self.received.get(name_end)?);
        let word = self.received.get(word_start..word_end)?.to_vec();
        let name = self.received[2..name_end].to_vec();
        let version = self.received[0];
        self.received.drain(..word_end);
        let is_right = self
            .server
            .credentials
            .as_ref()
            .is_some_and(|(n, w)| version == 1 && name == n.as_bytes() && word == w.as_bytes());
        self.output.extend([1, u8::from(!is_right)]);
        if !is_right {
            return Some(self.close());
        }
        self.stage = Stage::Request;
        Some(Socks5Step::Wait)
    }

    /// Processes the request. `None` if it is not complete.
    fn request(&mut self) -> Option<Socks5Step> {
        let &[version, command, _, kind, first, ..] = &*self.received else {
            return None;
        };
        let (start, length) = match kind {
            1 => (4, 4),
            3 => (5, usize::from(first)),
            4 => (4, 16),
            _ => (4, 0),
        };
        let end = start + length;
        let &[high, low] = self.received.get(end..end + 2)? else {
            return None;
        };
        let bytes = self.received[start..end].to_vec();
        self.received.drain(..end + 2);
        self.kind = kind;
        self.stage = Stage::Over;
        let code = match (&self.server.fault, version, command, kind) {
            (Some(Socks5Fault::Reply(code)), ..) => Some(*code),
            (_, 5, 1, 1 | 3 | 4) => None,
            (_, 5, 1, _) => Some(8),
            _ => Some(7),
        };
        if let Some(code) = code {
            self.connected(Err(code));
            return Some(self.close());
        }
        let host = match kind {
            3 => String::from_utf8_lossy(&bytes).into_owned(),
            _ => address(&bytes),
        };
        let port = u16::from_be_bytes([high, low]);
        let asked = format!("{host}:{port}");
        let mut mapped = self.server.mapped.iter();
        Some(match mapped.find(|(from, _)| *from == asked) {
            Some((_, (host, port))) => Socks5Step::Connect(host.clone(), *port),
            None => Socks5Step::Connect(host, port),
        })
    }

    fn close(&mut self) -> Socks5Step {
        self.stage = Stage::Over;
        Socks5Step::Close
    }
}

/// Returns the text of an IPv4 or IPv6 address.
fn address(bytes: &[u8]) -> String {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return std::net::Ipv4Addr::from(bytes).to_string();
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(bytes) => std::net::Ipv6Addr::from(bytes).to_string(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_NAME: &[u8] = &[5, 1, 0, 3, 2, b'd', b'b', 0x69, 0x89];

    fn required() -> Socks5Server {
        Socks5Server {
            credentials: Some(("me".to_owned(), "pw".to_owned())),
            ..Socks5Server::default()
        }
    }

    /// Gives a proxy these bytes one by one. Returns its output and the last step.
    fn run(server: &Socks5Server, bytes: &[u8]) -> (Vec<u8>, Socks5Step) {
        let mut exchange = Socks5Exchange::new(server.clone());
        let mut step = Socks5Step::Wait;
        for byte in bytes {
            assert_eq!(step, Socks5Step::Wait);
            step = exchange.handle_received(&[*byte]);
        }
        (exchange.take_output(), step)
    }

    #[test]
    fn a_proxy_without_credentials_connects() {
        let bytes = [&[5, 2, 0, 2][..], TO_NAME].concat();
        let (output, step) = run(&Socks5Server::default(), &bytes);
        assert_eq!(output, [5, 0]);
        assert_eq!(step, Socks5Step::Connect("db".to_owned(), 27017));
        let v4 = [5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0, 80];
        let (_, step) = run(&Socks5Server::default(), &v4);
        assert_eq!(step, Socks5Step::Connect("10.0.0.1".to_owned(), 80));
        let (output, step) = run(&Socks5Server::default(), &[5, 1, 2]);
        assert_eq!((output, step), (vec![5, 0xFF], Socks5Step::Close));
    }

    #[test]
    fn a_proxy_with_credentials_requires_them() {
        let right = [&[5, 2, 0, 2, 1, 2][..], b"me\x02pw", TO_NAME].concat();
        let (output, step) = run(&required(), &right);
        assert_eq!(output, [5, 2, 1, 0]);
        assert_eq!(step, Socks5Step::Connect("db".to_owned(), 27017));
        let wrong = [&[5, 2, 0, 2, 1, 2][..], b"me\x02px"].concat();
        let (output, step) = run(&required(), &wrong);
        assert_eq!((output, step), (vec![5, 2, 1, 1], Socks5Step::Close));
        let (output, step) = run(&required(), &[5, 1, 0]);
        assert_eq!((output, step), (vec![5, 0xFF], Socks5Step::Close));
    }

    #[test]
    fn mapped_addresses_and_faults_apply() {
        let bytes = [&[5, 1, 0][..], TO_NAME].concat();
        let mut server = Socks5Server::default();
        let elsewhere = ("other".to_owned(), 1);
        server.mapped.push(("db:27017".to_owned(), elsewhere));
        let (_, step) = run(&server, &bytes);
        assert_eq!(step, Socks5Step::Connect("other".to_owned(), 1));
        server.fault = Some(Socks5Fault::Reply(5));
        let (output, step) = run(&server, &bytes);
        assert_eq!(
            (output[..4].to_vec(), step),
            (vec![5, 0, 5, 5], Socks5Step::Close)
        );
        server.fault = Some(Socks5Fault::Close);
        assert_eq!(run(&server, &[5, 1, 0]), (vec![], Socks5Step::Close));
        server.fault = Some(Socks5Fault::Silence);
        assert_eq!(run(&server, &bytes), (vec![], Socks5Step::Wait));
    }
}
