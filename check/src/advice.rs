//! Hints: what a person should check or change after a failure, the most likely cause first.

pub(crate) mod authentication;
pub(crate) mod proxy;
pub(crate) mod tls;

use crate::{
    diagnosis::TLS,
    report::{Step, Value},
    server::{Origin, is_closed},
};
use onionskin_core::{
    address::{Address, DEFAULT_PORT},
    description::{ServerType, TopologyDescription, TopologyType},
    error::{Argument, DnsFailure, Error, ErrorKind, IoError, NetworkFault, UriPart},
    options::{ClientOptions, ReadPreference},
};
use std::net::IpAddr;

/// The code of the error of a server that is behind a load balancer, when the client does not
/// expect one.
const LOAD_BALANCER_MISMATCH: i32 = 354;

/// The end of the host names of Atlas, the hosted service of MongoDB.
const ATLAS: &str = ".mongodb.net";

fn texts<const N: usize>(hints: [&str; N]) -> Vec<String> {
    hints.map(str::to_owned).to_vec()
}

/// Returns hints about a connection string that cannot be parsed, or whose options cannot be used.
pub(crate) fn not_parsed(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::InvalidArgument {
            argument: Argument::Uri(part),
            message,
        } => match part {
            UriPart::Scheme => texts(["a connection string begins with mongodb:// or \
                                       mongodb+srv://"]),
            UriPart::UserInfo if !message.contains("encoded") => {
                authentication::invalid_user(message)
            }
            UriPart::UserInfo => texts([
                "in the user name and the password, write these characters percent-encoded: \
                 / is %2F, : is %3A, @ is %40, % is %25, ? is %3F, # is %23",
            ]),
            UriPart::Host if message.starts_with("mongodb+srv") => {
                texts(["a mongodb+srv:// string has exactly one host, without a port"])
            }
            UriPart::Host => texts([
                "hosts are separated by commas: mongodb://host1:27017,host2:27017/",
                "an @ or / in the password must be percent-encoded: %40 or %2F",
            ]),
            UriPart::Database => texts(["the default database is written between / and ?"]),
            UriPart::Options if message.contains("key=value") => {
                texts(["options are written name=value, after /?, and separated by &"])
            }
            UriPart::Options => authentication::invalid_option(message),
        },
        _ => Vec::new(),
    }
}

/// Returns hints about options with which no client can be created.
pub(crate) fn not_built(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::InvalidArgument {
            argument: Argument::Option(option),
            message,
        } => match *option {
            "credential" => authentication::invalid_user(message),
            option => authentication::invalid_option(&format!("{option}: {message}")),
        },
        ErrorKind::Tls { .. } => tls::unusable_options(),
        _ => Vec::new(),
    }
}

/// Returns hints about a failed lookup of the records of a `mongodb+srv` connection string.
pub(crate) fn seed_list_failed(error: &Error, host: &str) -> Vec<String> {
    let ErrorKind::DnsResolve { failure, .. } = error.kind() else {
        return vec![format!("ask the administrator of the DNS zone of {host}")];
    };
    match failure {
        DnsFailure::NoSuchName => texts([
            "check the spelling of the host name; hosted services show the connection string of a \
             deployment for copying",
            "a name of a private network is known only to the name servers of that network: is \
             this machine connected to it, for example by VPN?",
        ]),
        DnsFailure::NoRecords => texts([
            "a host without SRV records needs mongodb:// instead of mongodb+srv://",
            "check srvServiceName, which is the first part of the name of the SRV records",
        ]),
        DnsFailure::Refused => texts([
            "the name servers that were asked cannot or may not answer: check /etc/resolv.conf, or \
             ask their administrator",
        ]),
        DnsFailure::Unreachable => silent_name_servers(),
        _ => vec![format!("ask the administrator of the DNS zone of {host}")],
    }
}

/// Returns hints about name servers that do not answer.
pub(crate) fn silent_name_servers() -> Vec<String> {
    texts([
        "is this machine connected to the network, and does a firewall block port 53 (DNS)?",
        "check the name servers in /etc/resolv.conf",
    ])
}

/// Returns hints about a host name that was not resolved.
pub(crate) fn unresolved(host: &str, origin: &Origin) -> Vec<String> {
    match origin {
        Origin::Seed => vec![
            format!("check the spelling of {host}"),
            "a name of another network, such as that of containers or of a VPN, is known only there"
                .to_owned(),
        ],
        Origin::Announced(member) => vec![
            format!(
                "{member} announces {host} as a member, and clients connect to announced names, \
                 not to those of the connection string"
            ),
            format!("make {host} known to this machine, by DNS or in its hosts file"),
            "or let the members announce names that clients can resolve, with rs.reconfig()"
                .to_owned(),
            "or connect to one member only, with directConnection=true".to_owned(),
        ],
    }
}

/// Returns hints about a Unix domain socket that accepts no connection.
pub(crate) fn unix_socket() -> Vec<String> {
    texts([
        "is a server running, and is the path the one in net.unixDomainSocket of its \
         configuration?",
        "may the user of this process use the socket? See its permissions",
    ])
}

/// Returns hints about a host, none of whose addresses accepts a connection.
pub(crate) fn not_connected(error: &Error, address: &Address) -> Vec<String> {
    let port = address.port().unwrap_or(DEFAULT_PORT);
    let fault = match error.kind() {
        ErrorKind::Io(IoError { fault, .. }) => Some(*fault),
        _ => None,
    };
    let mut hints = match fault {
        Some(NetworkFault::Refused) => vec![
            format!("is a server running there, and is {port} its port?"),
            "a server accepts connections only on the addresses in net.bindIp of its \
             configuration, by default only on localhost"
                .to_owned(),
        ],
        Some(NetworkFault::Unreachable) => texts([
            "there is no route to this address: is this machine connected to that network, for \
             example by VPN?",
        ]),
        Some(NetworkFault::OutOfSockets) => texts([
            "this machine or process has no free socket: close connections, or raise its limit of \
             open files",
        ]),
        _ => texts(["a firewall or a security group drops the packets, or the address is wrong"]),
    };
    if fault == Some(NetworkFault::Refused) && port != DEFAULT_PORT {
        hints.insert(1, format!("the default port of MongoDB is {DEFAULT_PORT}"));
    }
    let is_timeout = matches!(error.kind(), ErrorKind::Timeout { .. });
    if address.host().ends_with(ATLAS) || (is_timeout && !is_local(address)) {
        hints.push(access_list());
    }
    hints
}

/// True for an address of this machine or of a private network, where no hosted service is.
fn is_local(address: &Address) -> bool {
    match address.host().parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Err(_) => address.host() == "localhost",
    }
}

fn access_list() -> String {
    "hosted services such as Atlas accept connections only from the IP addresses on their access \
     list: add the public IP address of this machine"
        .to_owned()
}

/// Returns hints about a `hello` that failed. `step` has the fact whether the server uses TLS.
pub(crate) fn hello_failed(error: &Error, options: &ClientOptions, step: &Step) -> Vec<String> {
    let tls = step.value(TLS);
    if tls == Some(&Value::Bool(true)) {
        return texts(["the server requires TLS: add tls=true to the connection string"]);
    }
    if is_load_balancer_mismatch(error) {
        return texts([
            "the server is behind a load balancer: add loadBalanced=true to the connection string",
        ]);
    }
    if options.load_balanced() && matches!(error.kind(), ErrorKind::InvalidResponse { .. }) {
        return texts([
            "this server is not behind a load balancer: remove loadBalanced=true",
            "or connect to the load balancer instead of a server behind it",
        ]);
    }
    const PORT: &str = "is this the port of a MongoDB server? Another service seems to answer";
    match error.kind() {
        ErrorKind::InvalidResponse { .. } => texts([PORT]),
        ErrorKind::Timeout { .. } => texts([
            "the port accepts connections, but nothing answers: is it that of a MongoDB server?",
            "a server that hangs does not answer either: its log may say why",
        ]),
        ErrorKind::Command(_) => Vec::new(),
        _ if tls.is_some() => texts([
            "is this the port of a MongoDB server? It closes connections, with and without TLS",
            "a proxy or load balancer without a working server behind it does the same",
        ]),
        _ => texts(["the server closed the connection without a reason: its log may say why"]),
    }
}

/// True if the server is behind a load balancer and the client does not expect one.
pub(crate) fn is_load_balancer_mismatch(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Command(fault) if fault.code == LOAD_BALANCER_MISMATCH)
}

/// Returns hints about a connection that was lost after the server had answered before.
pub(crate) fn connection_lost(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::Timeout { .. } => texts([
            "the server does not answer in time: it hangs or is overloaded, and its log may say \
             why",
            "or allow more time: connectTimeoutMS, socketTimeoutMS or timeoutMS in the connection \
             string, and the time limit of the check",
        ]),
        _ if is_closed(error) => texts(["the server closed the connection: its log may say why"]),
        _ => Vec::new(),
    }
}

/// Returns hints about a server that has none of the client's compressors.
pub(crate) fn no_compressor() -> Vec<String> {
    texts([
        "messages are sent uncompressed; the setting net.compression.compressors of the server \
         lists its compressors",
    ])
}

/// Returns hints about a server that belongs to a replica set which is not initiated.
pub(crate) fn ghost() -> Vec<String> {
    texts(["run rs.initiate() on one member"])
}

/// Returns hints about a server of another replica set, or of none.
pub(crate) fn other_set(found: Option<&str>) -> Vec<String> {
    let first = match found {
        Some(found) => format!("if this is the right deployment, write replicaSet={found}"),
        None => "if this is the right server, remove replicaSet".to_owned(),
    };
    let second = "else check the hosts in the connection string".to_owned();
    vec![first, second]
}

/// Returns hints about a server that demands a user from everybody.
pub(crate) fn authentication_required() -> Vec<String> {
    texts([
        "write user name and password before the host: mongodb://user:password@host/",
        "the database in which the user was created is given by authSource (default: admin)",
    ])
}

/// Returns hints about a replica set without a primary.
pub(crate) fn no_primary() -> Vec<String> {
    texts([
        "a primary is elected only while a majority of the voting members reach each other: \
         rs.status() on a member shows what it sees",
        "during an election this passes within seconds: run the check again",
    ])
}

/// Returns hints about a host of the connection string that is no member of its replica set.
pub(crate) fn not_a_member() -> Vec<String> {
    texts(["name members in the connection string as the replica set announces them"])
}

/// Returns hints about a deployment whose members announce names that cannot be resolved.
pub(crate) fn announced_only() -> Vec<String> {
    texts([
        "the members announce names that this machine cannot resolve (see the failed steps above), \
         and a client connects to the announced names only",
    ])
}

/// Returns hints about several servers that belong to no deployment.
pub(crate) fn several_standalones() -> Vec<String> {
    texts([
        "a client does not use several standalone servers: name one of them in the connection \
         string",
    ])
}

/// Returns hints about a direct connection to a server that serves no operations.
pub(crate) fn not_serving() -> Vec<String> {
    texts([
        "name a primary or a secondary, or leave directConnection out, so that the client finds \
         the other members",
    ])
}

/// Returns hints about a direct connection to a secondary.
pub(crate) fn direct_secondary() -> Vec<String> {
    texts(["leave directConnection out to let the client find the primary"])
}

/// Returns hints about servers whose wire versions do not fit.
pub(crate) fn incompatible() -> Vec<String> {
    texts(["use another version of the server or of the driver"])
}

/// Returns hints about a check that had no time left.
pub(crate) fn out_of_time() -> Vec<String> {
    texts(["give the check more time (--timeout)"])
}

/// Returns hints about a topology in which no server is suitable.
pub(crate) fn unsuitable(
    topology: &TopologyDescription,
    preference: &ReadPreference,
) -> Vec<String> {
    let mut types = topology.servers.values().map(|server| server.server_type);
    if types.any(|kind| kind == ServerType::RsGhost) {
        return ghost();
    }
    match topology.topology_type {
        TopologyType::ReplicaSetNoPrimary => no_primary(),
        _ if preference.tag_sets().iter().any(|tags| !tags.is_empty()) => texts([
            "compare readPreferenceTags with the tags of the members, or add an empty tag set",
        ]),
        _ => texts(["compare the types of the servers with the read preference of the client"]),
    }
}

/// Returns hints about clocks that differ.
pub(crate) fn clock() -> Vec<String> {
    texts([
        "synchronize the clocks of both machines, for example by NTP",
        "certificates, time stamps and the expiry of sessions depend on them",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::error::Wait;

    #[test]
    fn the_access_list_of_a_hosted_service_is_hinted_at_after_a_timeout() {
        let (wait, message) = (Wait::Connect, "slow".to_owned());
        let timeout = Error::from(ErrorKind::Timeout { wait, message });
        let refused = Error::network(NetworkFault::Refused, "refused");
        for (host, error, is_hinted) in [
            ("shard0.abcde.mongodb.net", &timeout, true),
            ("shard0.abcde.mongodb.net", &refused, true),
            ("db.example.net", &timeout, true),
            ("db.example.net", &refused, false),
            ("10.0.0.7", &timeout, false),
            ("::1", &timeout, false),
            ("localhost", &timeout, false),
        ] {
            let hints = not_connected(error, &Address::tcp(host, 27017)).join(" ");
            assert_eq!(hints.contains("access list"), is_hinted, "{host}: {hints}");
        }
    }
}
