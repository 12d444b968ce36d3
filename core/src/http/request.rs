//! Requests.

use super::HttpBody;
use crate::{address::Address, options::Secret};
use http::Uri;
use std::fmt::{self, Write};

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `PUT`, without a body.
    Put,
    /// `POST`.
    Post,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
        }
    }
}

/// A request. `Debug` and `Display` show the method and the host, because path, headers and body
/// can contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    method: Method,
    is_secure: bool,
    host: String,
    port: u16,
    path: String,
    headers: Vec<(&'static str, Secret)>,
    body: Option<(&'static str, HttpBody)>,
}

impl HttpRequest {
    /// Returns a request for this URL, whose scheme is `http` or `https`. The error states why the
    /// URL is not valid. It does not contain the URL, which can have secrets.
    pub fn new(method: Method, url: &str) -> Result<Self, String> {
        let invalid = |reason: &str| format!("the URL is not valid: {reason}");
        let uri: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| invalid(&error.to_string()))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid("it begins neither with http:// nor with https://")),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(invalid("it contains a user name; remove it"));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(invalid("it has no host"));
        }
        let port = match uri.port_u16() {
            Some(port) => port,
            // `port_u16` is also `None` for a port that is no number up to 65535.
            None if authority.len() > host.len() => return Err(invalid("its port is not valid")),
            None if is_secure => 443,
            None => 80,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        Ok(Self {
            method,
            is_secure,
            host: host.to_owned(),
            port,
            path,
            headers: Vec::new(),
            body: None,
        })
    }

    /// Adds a header. The error states that the value contains a character that headers do not
    /// allow.
    pub fn with_header(mut self, name: &'static str, value: Secret) -> Result<Self, String> {
        let is_plain = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        if !value.expose().bytes().all(is_plain) {
            return Err(format!(
                "the value of the header {name} has a control character"
            ));
        }
        self.headers.push((name, value));
        Ok(self)
    }

    /// Sets the body, with its `Content-Type`.
    #[must_use]
    pub fn with_body(mut self, content_type: &'static str, body: impl Into<HttpBody>) -> Self {
        self.body = Some((content_type, body.into()));
        self
    }

    /// Returns the path and the query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// True for the scheme `https`.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns the address to connect to.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::tcp(self.host_name(), self.port)
    }

    /// Returns the host without the brackets of an IPv6 address.
    pub(super) fn host_name(&self) -> &str {
        let inner = self
            .host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'));
        inner.unwrap_or(&self.host)
    }

    /// Returns the bytes of the request. The server is asked to close the connection after its
    /// response.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}",
            self.method.name(),
            self.path,
            self.host
        );
        let default = if self.is_secure { 443 } else { 80 };
        if self.port != default {
            let _ = write!(head, ":{}", self.port);
        }
        head.push_str("\r\nConnection: close\r\n");
        let own = |name: &str| {
            self.headers
                .iter()
                .any(|(n, _)| n.eq_ignore_ascii_case(name))
        };
        if !own("Accept") {
            head.push_str("Accept: */*\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {}\r\n", value.expose());
        }
        let body = self.body.as_ref();
        if let Some((content_type, _)) = body {
            let _ = write!(head, "Content-Type: {content_type}\r\n");
        }
        let length = body.map_or(0, |(_, body)| body.bytes().len());
        if self.method != Method::Get {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.map_or(&[], |(_, body)| body.bytes()));
        bytes
    }
}

#[cfg(test)]
impl HttpRequest {
    /// Returns the bytes of the request.
    pub(crate) fn bytes_for_test(&self) -> Vec<u8> {
        self.encode()
    }
}

impl fmt::Display for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        let Self { host, port, .. } = self;
        write!(f, "{} {scheme}://{host}:{port}", self.method.name())
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpRequest({self})")
    }
}

/// Appends `text` with percent-encoding: all bytes but the unreserved characters of RFC 3986.
pub(crate) fn percent_encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}
