//! The default of a server address, and its conversions from socket addresses and for serde.

use super::{Address, InvalidAddress, ServerAddress, literal_fault, name_fault};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{net::SocketAddr, path::PathBuf};

/// The address `localhost`, without a port.
impl Default for ServerAddress {
    fn default() -> Self {
        Self::Tcp {
            host: "localhost".to_owned(),
            port: None,
        }
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        let host = match address {
            // The scope names the interface of a link-local address.
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            _ => address.ip().to_string(),
        };
        Self::Tcp {
            host,
            port: Some(address.port()),
        }
    }
}

/// The form of an address that names its variant.
#[derive(Serialize, Deserialize)]
#[serde(rename = "ServerAddress", deny_unknown_fields)]
enum Variant {
    Tcp { host: String, port: Option<u16> },
    Unix { path: PathBuf },
}

/// The forms that are read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Parts(Parts),
    Variant(Variant),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    host: String,
    port: Option<u16>,
}

/// Returns the address of a host, which can be the path of a Unix domain socket. Fails as
/// [`ServerAddress::parse`] does.
fn from_parts(host: &str, port: Option<u16>) -> Result<ServerAddress, InvalidAddress> {
    let fail = |reason| Err(InvalidAddress { reason });
    if host.ends_with(".sock") && host.contains('/') {
        return match port {
            None => Ok(Address::unix(host).into()),
            Some(_) => fail("a Unix domain socket has no port"),
        };
    }
    let fault = match host.contains(':') {
        true => literal_fault(host),
        false => name_fault(host),
    };
    if let Some(reason) = fault {
        return fail(reason);
    }
    if port == Some(0) {
        return fail("a port lies between 1 and 65535");
    }
    let host = Address::tcp(host, 0).host().to_owned();
    Ok(ServerAddress::Tcp { host, port })
}

/// The serde form names the variant: `{ "Tcp": { "host": "a", "port": 27017 } }`.
impl Serialize for ServerAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let variant = match self.clone() {
            Self::Tcp { host, port } => Variant::Tcp { host, port },
            Self::Unix { path } => Variant::Unix { path },
        };
        variant.serialize(serializer)
    }
}

/// A text such as `a:27017`, a document `{ "host": "a", "port": 27017 }`, and the serde form are
/// read.
impl<'de> Deserialize<'de> for ServerAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let address = match Form::deserialize(deserializer)? {
            Form::Text(text) => Self::parse(text),
            Form::Parts(Parts { host, port }) | Form::Variant(Variant::Tcp { host, port }) => {
                from_parts(&host, port)
            }
            Form::Variant(Variant::Unix { path }) => return Ok(Self::Unix { path }),
        };
        address.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<ServerAddress> {
        serde_json::from_str(json).ok()
    }

    #[test]
    fn an_address_is_read_from_each_of_its_forms() {
        for (json, expected) in [
            (r#""A:5""#, "a:5"),
            (r#"{"host": "A", "port": 5}"#, "a:5"),
            (r#"{"host": "a"}"#, "a"),
            (r#"{"host": "::1"}"#, "[::1]"),
            (r#"{"host": "/tmp/m.sock"}"#, "/tmp/m.sock"),
            (r#"{"Tcp": {"host": "a", "port": 5}}"#, "a:5"),
            (r#"{"Unix": {"path": "/tmp/m.sock"}}"#, "/tmp/m.sock"),
        ] {
            let expected = ServerAddress::parse(expected).ok();
            assert_eq!(read(json), expected, "{json}");
            let written = serde_json::to_string(&expected).expect("a text");
            assert_eq!(read(&written), expected, "{written}");
        }
        for json in [
            r#""a:0""#,
            r#"{"host": "a b"}"#,
            r#"{"host": "a", "port": 0}"#,
            r#"{"host": "a", "prot": 5}"#,
            r#"{"Tcp": {"host": "a", "prot": 5}}"#,
            r#"{"host": "/tmp/m.sock", "port": 5}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn the_default_is_this_machine_and_a_socket_address_is_kept_whole() {
        assert_eq!(ServerAddress::default().to_string(), "localhost:27017");
        for (socket, expected) in [
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("[::1]:5", "[::1]:5"),
            ("[fe80::1%3]:5", "[fe80::1%3]:5"),
        ] {
            let socket: SocketAddr = socket.parse().expect("an address");
            assert_eq!(ServerAddress::from(socket).to_string(), expected);
        }
    }
}
