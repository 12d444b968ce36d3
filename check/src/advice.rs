//! Hints: what a person should check or change after a failure, the most likely cause first.

use crate::{
    diagnosis::{NAMES, PLAIN, SELF_SIGNED, VALIDITY},
    report::{Step, Value},
    server::{Origin, is_closed, wall_text},
};
use onionskin_core::{
    address::{Address, DEFAULT_PORT},
    error::{DnsFailure, Error, ErrorKind, NetworkFault, TlsFault, UriPart},
    options::{ClientOptions, Credential},
    time::WallTime,
};

/// The code of the error of a server that is behind a load balancer, when the client does not
/// expect one.
const LOAD_BALANCER_MISMATCH: i32 = 354;

/// The code of a failed authentication.
const AUTHENTICATION_FAILED: i32 = 18;

/// The code of a mechanism that the server does not permit.
const MECHANISM_UNAVAILABLE: i32 = 334;

/// The end of the host names of Atlas, the hosted service of MongoDB.
const ATLAS: &str = ".mongodb.net";

fn texts<const N: usize>(hints: [&str; N]) -> Vec<String> {
    hints.map(str::to_owned).to_vec()
}

/// Returns hints about a connection string that cannot be parsed, or whose options cannot be used.
pub(crate) fn not_parsed(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::InvalidUri { part, .. } => match part {
            UriPart::Scheme => texts(["a connection string begins with mongodb:// or \
                                       mongodb+srv://"]),
            UriPart::UserInfo => texts([
                "in the user name and the password, write these characters percent-encoded: \
                 / is %2F, : is %3A, @ is %40, % is %25, ? is %3F, # is %23",
            ]),
            UriPart::Host => texts([
                "hosts are separated by commas: mongodb://host1:27017,host2:27017/",
                "an @ or / in the password must be percent-encoded: %40 or %2F",
                "a mongodb+srv:// string has exactly one host, without a port",
            ]),
            UriPart::Database => texts(["the default database stands between / and ?"]),
            UriPart::Options => {
                texts(["options are written name=value, after /?, and separated by &"])
            }
        },
        _ => Vec::new(),
    }
}

/// Returns hints about options with which no client can be created.
pub(crate) fn not_built(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::Tls { .. } => texts(["check the files of tlsCAFile and tlsCertificateKeyFile"]),
        _ => Vec::new(),
    }
}

/// Returns hints about a failed lookup of the records of a `mongodb+srv` connection string.
pub(crate) fn seed_list_failed(error: &Error, host: &str) -> Vec<String> {
    let ErrorKind::Dns { failure, .. } = error.kind() else {
        return vec![format!("ask whoever runs the DNS of {host}")];
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
             ask whoever runs them",
        ]),
        DnsFailure::Unreachable => silent_name_servers(),
        _ => vec![format!("ask whoever runs the DNS of {host}")],
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
        "does this user have the permission to use the socket?",
    ])
}

/// Returns hints about a host, none of whose addresses accepts a connection.
pub(crate) fn not_connected(error: &Error, address: &Address) -> Vec<String> {
    let hosted = address.host().ends_with(ATLAS);
    let port = address.port().unwrap_or(DEFAULT_PORT);
    let mut hints = Vec::new();
    match error.kind() {
        ErrorKind::Network {
            fault: NetworkFault::Refused,
            ..
        } => {
            hints.push(format!(
                "is a server running there, and is {port} its port?"
            ));
            if port != DEFAULT_PORT {
                hints.push(format!("the default port of MongoDB is {DEFAULT_PORT}"));
            }
            hints.push(
                "a server accepts connections only on the addresses in net.bindIp of its \
                 configuration, by default only on localhost"
                    .to_owned(),
            );
        }
        ErrorKind::Network {
            fault: NetworkFault::Unreachable,
            ..
        } => hints.push(
            "there is no route to this address: is this machine connected to that network, for \
             example by VPN?"
                .to_owned(),
        ),
        ErrorKind::Network {
            fault: NetworkFault::OutOfSockets,
            ..
        } => hints.push(
            "this machine or process has no free socket: close connections, or raise its limit of \
             open files"
                .to_owned(),
        ),
        _ => hints.push(
            "a firewall or a security group drops the packets, or the address is wrong".to_owned(),
        ),
    }
    if hosted || matches!(error.kind(), ErrorKind::Timeout { .. }) {
        hints.push(access_list());
    }
    hints
}

fn access_list() -> String {
    "hosted services such as Atlas accept connections only from the IP addresses on their access \
     list: add the public IP address of this machine"
        .to_owned()
}

/// Returns hints about a failed TLS handshake. `step` has the facts about TLS.
pub(crate) fn tls_failed(error: &Error, step: &Step, host: &str, wall: WallTime) -> Vec<String> {
    let ErrorKind::Tls { fault, message } = error.kind() else {
        return tls_lost(error, step, host);
    };
    match fault {
        TlsFault::Configuration => {
            texts(["check the files of tlsCAFile and tlsCertificateKeyFile"])
        }
        TlsFault::HostName => {
            let names = match text_of(step, NAMES) {
                Some(Value::List(names)) if !names.is_empty() => names.join(", "),
                _ => "no host".to_owned(),
            };
            vec![
                format!("the certificate is for {names}: connect by one of these names"),
                format!("or give the server a certificate with the name {host}"),
            ]
        }
        TlsFault::Certificate => certificate_refused(step, wall),
        _ if message.contains("CertificateRequired") || message.contains("HandshakeFailure") => {
            texts([
                "the server demands a certificate of the client: set tlsCertificateKeyFile",
                "the server may accept no TLS version or cipher that this client has (TLS 1.2 and \
                 1.3)",
            ])
        }
        _ => tls_lost(error, step, host),
    }
}

fn certificate_refused(step: &Step, wall: WallTime) -> Vec<String> {
    let clock = format!(
        "is the clock of this machine right? It says {}",
        wall_text(wall)
    );
    match text_of(step, VALIDITY) {
        Some(Value::Text(text)) if text == "expired" => {
            vec!["renew the certificate of the server".to_owned(), clock]
        }
        Some(Value::Text(text)) if text == "not valid yet" => vec![clock],
        _ => {
            let mut hints = Vec::new();
            if text_of(step, SELF_SIGNED).is_some() {
                hints.push(
                    "the server signed its certificate itself: give that certificate as tlsCAFile"
                        .to_owned(),
                );
            }
            hints.push(
                "if the deployment has a certificate authority of its own, give the file with its \
                 certificate as tlsCAFile"
                    .to_owned(),
            );
            hints.push(
                "a proxy that inspects TLS shows certificates of its own: compare the issuer above"
                    .to_owned(),
            );
            hints
        }
    }
}

/// Returns hints about a TLS handshake that ended without a reason.
fn tls_lost(error: &Error, step: &Step, host: &str) -> Vec<String> {
    if text_of(step, PLAIN).is_some() {
        return texts([
            "the server does not use TLS: remove tls=true (ssl=true) from the connection string, \
             or enable TLS on the server (net.tls.mode)",
        ]);
    }
    let mut hints = Vec::new();
    if host.ends_with(ATLAS) || is_closed(error) {
        hints.push(access_list());
    }
    hints.push("does the server, or a proxy before it, use TLS on this port?".to_owned());
    hints
}

/// Returns hints about a `hello` that failed. `speaks_tls` is true if a TLS handshake with the
/// server succeeds, and the connection string has no TLS.
pub(crate) fn hello_failed(
    error: &Error,
    options: &ClientOptions,
    speaks_tls: bool,
) -> Vec<String> {
    if speaks_tls {
        return texts(["the server requires TLS: add tls=true to the connection string"]);
    }
    if is_load_balancer_mismatch(error) {
        return texts([
            "the server is behind a load balancer: add loadBalanced=true to the connection string",
        ]);
    }
    if options.load_balanced() && !is_closed(error) {
        return texts([
            "this server is not behind a load balancer: remove loadBalanced=true",
            "or connect to the load balancer instead of a server behind it",
        ]);
    }
    match error.kind() {
        ErrorKind::Protocol { .. } => {
            texts(["is this the port of a MongoDB server? Another service seems to answer"])
        }
        ErrorKind::Timeout { .. } => texts([
            "the port accepts connections, but nothing answers: is it the port of a MongoDB \
             server, and does the server hang?",
        ]),
        ErrorKind::Command(_) => Vec::new(),
        _ => texts([
            "the server closed the connection without a reason: its log may say why",
            "a proxy or load balancer without a working server behind it does the same",
        ]),
    }
}

/// True if the server is behind a load balancer and the client does not expect one.
pub(crate) fn is_load_balancer_mismatch(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Command(fault) if fault.code == Some(LOAD_BALANCER_MISMATCH))
}

/// Returns hints about a failed authentication. `offered` are the mechanisms that the server has
/// for the user, if it names any.
pub(crate) fn not_authenticated(
    error: &Error,
    credential: &Credential,
    offered: Option<&[String]>,
) -> Vec<String> {
    let ErrorKind::Authentication { cause, .. } = error.kind() else {
        return texts([
            "the connection was lost during authentication: the log of the server may \
                       say why",
        ]);
    };
    let source = &credential.source;
    match cause.as_ref().and_then(|cause| cause.code) {
        Some(MECHANISM_UNAVAILABLE) => texts([
            "the server does not permit this mechanism: leave authMechanism out, so that client \
             and server agree on one",
        ]),
        Some(AUTHENTICATION_FAILED) => {
            let mut hints = Vec::new();
            match offered {
                Some(_) => hints.push(format!(
                    "the server knows the user in the database {source}, so the password is \
                     probably wrong"
                )),
                None if credential.mechanism.is_none() => hints.push(format!(
                    "the server names no mechanism for the user, so the database {source} \
                     probably has no such user: a user belongs to the database in which it was \
                     created, which authSource names"
                )),
                None => hints.push(format!(
                    "either the password is wrong, or the database {source} (authSource) has no \
                     such user"
                )),
            }
            hints.push(
                "in a connection string, characters such as @ : / % of user name and password are \
                 written percent-encoded"
                    .to_owned(),
            );
            hints
        }
        _ => Vec::new(),
    }
}

/// Returns hints about a server that belongs to a replica set which is not initiated.
pub(crate) fn ghost() -> Vec<String> {
    texts(["run rs.initiate() on one member"])
}

/// Returns hints about a server of another replica set.
pub(crate) fn other_set(found: &str) -> Vec<String> {
    vec![
        format!("if this is the right deployment, write replicaSet={found}"),
        "else check the hosts in the connection string".to_owned(),
    ]
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

/// Returns hints about a `ping` that failed.
pub(crate) fn ping_failed(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::ServerSelection { .. } => texts([
            "the servers answer, but none of them may run this operation: compare the types of the \
             servers with the read preference of the client",
        ]),
        _ => Vec::new(),
    }
}

/// Returns hints about a read preference that selects no server.
pub(crate) fn nothing_selected() -> Vec<String> {
    texts(["choose another readPreference, or readPreferenceTags that a server has"])
}

/// Returns hints about clocks that differ.
pub(crate) fn clock() -> Vec<String> {
    texts([
        "synchronize the clocks of both machines, for example by NTP",
        "certificates, time stamps and the expiry of sessions depend on them",
    ])
}

fn text_of<'a>(step: &'a Step, name: &str) -> Option<&'a Value> {
    let fact = step.facts.iter().find(|fact| fact.name == name);
    fact.map(|fact| &fact.value)
}
