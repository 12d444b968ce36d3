//! The rules for the npm package.

use super::*;

/// The rules for the npm package, which does not interpret options.
pub(crate) const NPM: &[Rule] = &[
    TLS_TWICE,
    PRIMARY,
    WRONG_W,
    UNACKNOWLEDGED_JOURNAL,
    POOL_SIZES,
    SRV_MAX_HOSTS,
    PROXY,
    CREDENTIAL,
    MECHANISM,
    USERINFO_CHARACTERS,
    EMPTY_KEY,
    rule(
        "accepted",
        "a key without an equals sign is accepted",
        "CS-21",
        Ours,
        |s| {
            s.query
                .split('&')
                .any(|pair| !pair.is_empty() && !pair.contains('='))
        },
    ),
    rule(
        "accepted",
        "a value of tls that is no boolean is ignored",
        "CS-32",
        Both,
        Parts::has_unreadable_tls,
    ),
    rule(
        "accepted",
        "the form of hosts and ports is not checked",
        "CS-13",
        Ours,
        |s| s.hosts.split(',').any(is_wrong_host),
    ),
    rule(
        "accepted",
        "the characters of the database name are not checked",
        "CS-17",
        Ours,
        |s| {
            ["%2F", "$", "%5C", "%22", "%20"]
                .iter()
                .any(|text| s.database.contains(text))
        },
    ),
    rule(
        "accepted",
        "directConnection=true is accepted with mongodb+srv and several hosts",
        "URI-13, URI-14",
        Ours,
        |s| s.is("directconnection", "true") && (s.is_srv || s.hosts.contains(',')),
    ),
    rule(
        "accepted",
        "loadBalanced=true is accepted with several hosts, replicaSet or directConnection=true",
        "URI-15",
        Ours,
        |s| {
            let conflicts = s.hosts.contains(',') || s.has("replicaset");
            s.is("loadbalanced", "true") && (conflicts || s.is("directconnection", "true"))
        },
    ),
    rule(
        "accepted",
        "srvMaxHosts and srvServiceName are accepted without mongodb+srv",
        "URI-16",
        Ours,
        |s| !s.is_srv && (s.has("srvmaxhosts") || s.has("srvservicename")),
    ),
    rule(
        "accepted",
        "tlsInsecure is accepted with tlsAllowInvalidCertificates and tlsAllowInvalidHostnames",
        "URI-5",
        Ours,
        |s| {
            let other = s.has("tlsallowinvalidcertificates") || s.has("tlsallowinvalidhostnames");
            s.has("tlsinsecure") && other
        },
    ),
    rule(
        "accepted",
        "an empty authSource is accepted",
        "URI-24",
        Ours,
        |s| s.is("authsource", ""),
    ),
    rule(
        "refused",
        "an @ in an option is taken for the end of the user name",
        "CS-42",
        Ours,
        |s| s.query.contains('@'),
    ),
    rule(
        "options",
        "a # ends the options, as in a URI",
        "CS-2",
        Ours,
        |s| s.query.contains('#'),
    ),
    rule(
        "database",
        "a # ends the database, as in a URI",
        "CS-2",
        Ours,
        |s| s.database.contains('#'),
    ),
    rule(
        "options",
        "a + in an option is a space",
        "CS-39",
        Both,
        |s| s.query.contains('+'),
    ),
    rule("password", "an empty password is none", "CS-7", Ours, |s| {
        s.userinfo.as_ref().is_some_and(|text| text.ends_with(':'))
    }),
    rule(
        "hosts",
        "a port is not read as a number",
        "CS-13",
        Both,
        |s| s.hosts.contains(":0"),
    ),
];
