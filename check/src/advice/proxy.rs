//! Hints about a SOCKS5 proxy.

use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind, IoError, NetworkFault},
};

/// Returns hints about a proxy whose name cannot be resolved.
pub(crate) fn unresolved() -> Vec<String> {
    vec!["check proxyHost: this machine has to resolve the name of the proxy itself".to_owned()]
}

/// Returns hints about a proxy, none of whose addresses accepts a connection.
pub(crate) fn not_connected(error: &Error, proxy: &Address) -> Vec<String> {
    let port = proxy.port().unwrap_or_default();
    let first = match fault(error) {
        Some(NetworkFault::Refused) => {
            format!("is a SOCKS5 proxy running there, and is {port} its port (proxyPort)?")
        }
        _ => "is proxyHost right, and may this machine connect to it?".to_owned(),
    };
    vec![first, "the default of proxyPort is 1080".to_owned()]
}

/// Returns hints about a conversation with the proxy that failed.
pub(crate) fn failed(error: &Error) -> Vec<String> {
    let hints: &[&str] = match fault(error) {
        Some(NetworkFault::ProxyAuthentication) => &[
            "check proxyUsername and proxyPassword: they are those of the proxy, not of the \
             deployment",
            "a proxy can also accept clients by their address and need no login: ask who runs it",
        ],
        Some(NetworkFault::Refused | NetworkFault::Unreachable) => &[
            "this machine reaches the proxy, but the proxy cannot or may not connect to the server",
            "the proxy resolves the name of the server: is the name known where the proxy runs?",
            "do the rules of the proxy and the firewall behind it allow this server and its port?",
        ],
        Some(NetworkFault::Closed | NetworkFault::Reset) => &[
            "is this the port of a SOCKS5 proxy, and not of another kind of proxy?",
            "the log of the proxy may say why it closed the connection",
        ],
        None => &[
            "the proxy accepts connections, but does not answer in time: does it reach the server?",
            "or allow more time: connectTimeoutMS in the connection string",
        ],
        Some(_) => &["is this the port of a SOCKS5 proxy, and not of another kind of proxy?"],
    };
    hints.iter().map(|&hint| hint.to_owned()).collect()
}

/// Returns the fault of a network error; `None` for another error, such as a timeout.
fn fault(error: &Error) -> Option<NetworkFault> {
    match error.kind() {
        ErrorKind::Io(IoError { fault, .. }) => Some(*fault),
        _ => None,
    }
}
