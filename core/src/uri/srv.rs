//! Completes the options of a `mongodb+srv` string with the results of its SRV and TXT queries.

use super::{
    Result, Warning, invalid,
    options::{GivenOption, OptionsParser, collect_options},
    pairs::{Pair, pairs},
};
use crate::{
    address::Address,
    error::{Argument, Error, ErrorKind, UriPart},
    options::{
        ClientOptions,
        check::{is_label, srv_domain_of_suffix},
    },
};

/// The options that a TXT record may contain (DNS-30).
const ALLOWED_IN_TXT: [&str; 3] = ["authSource", "replicaSet", "loadBalanced"];

/// Returns the options of a client whose `mongodb+srv` host is resolved, and the warnings about the
/// TXT record.
///
/// `hosts` are the hosts of the SRV records and become the seeds; the caller has applied
/// `srvMaxHosts`. `txt` has one element for each TXT record, whose strings are joined with nothing
/// between them. The TXT record sets only options that neither the string nor code has set
/// ([DNS-28], [DNS-32], [DNS-37]).
///
/// Fails without hosts, with more than one TXT record, with a TXT record that is malformed or has
/// an option that is not permitted there, or if a host lies outside of the domain of the string.
/// [`ClientOptions::validate`] checks the result, because the record may violate rules about
/// several options ([DNS-12]).
///
/// ```
/// use onionskin_core::{address::Address, uri};
///
/// let parsed = uri::parse("mongodb+srv://cluster.example.net/?replicaSet=mine")?;
/// assert!(parsed.options.hosts().is_empty() && parsed.options.tls().is_some());
/// let hosts = vec![Address::tcp("a.example.net", 27017)];
/// let txt = ["authSource=users&replicaSet=theirs".to_owned()];
/// let (options, _) = uri::resolve(&parsed.options, hosts, &txt)?;
/// assert_eq!(options.repl_set_name.as_deref(), Some("mine"));
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
///
/// [DNS-28]: crate::requirements::seed_lists#DNS-28
/// [DNS-32]: crate::requirements::seed_lists#DNS-32
/// [DNS-37]: crate::requirements::seed_lists#DNS-37
/// [DNS-12]: crate::requirements::seed_lists#DNS-12
pub fn resolve(
    options: &ClientOptions,
    hosts: Vec<Address>,
    txt: &[String],
) -> Result<(ClientOptions, Vec<Warning>)> {
    let mut resolved = options.clone();
    check_srv_hosts(options, &hosts)?;
    if txt.len() > 1 {
        // More than one TXT record is an error (DNS-29).
        let host = options.srv_host.as_deref().unwrap_or_default();
        let message = format!(
            "{host} has {} TXT records, and one is allowed; ask the administrator of its DNS zone",
            txt.len()
        );
        return Err(invalid(UriPart::Options, message));
    }
    resolved.hosts = hosts.into_iter().map(Into::into).collect();
    let mut warnings = Vec::new();
    if let Some(txt) = txt.first() {
        let parser = parse_txt(txt).map_err(|error| of_txt_record(options, &error))?;
        if let Some(credential) = &mut resolved.credential
            && credential.source.is_none()
            && credential.is_parsed
            && let Some(source) = parser.draft.auth_source
        {
            credential.default_source = Some(source);
        }
        let from_txt = parser.draft.options;
        resolved.repl_set_name = resolved.repl_set_name.or(from_txt.repl_set_name);
        resolved.load_balanced = resolved.load_balanced.or(from_txt.load_balanced);
        warnings = parser.warnings;
    }
    if resolved.hosts.is_empty() {
        return Err(invalid(
            UriPart::Host,
            "DNS has no SRV records for the host",
        ));
    }
    resolved.validate().map_err(|error| match txt {
        [] => error,
        _ => of_txt_record(options, &error),
    })?;
    Ok((resolved, warnings))
}

/// Parses the options of a TXT record.
fn parse_txt(txt: &str) -> Result<OptionsParser> {
    let mut parser = OptionsParser::new(ClientOptions::default());
    let pairs = pairs(txt)?;
    for given in &allowed(&pairs, &mut parser.warnings)? {
        parser.apply(given)?;
    }
    Ok(parser)
}

/// Returns the error of a TXT record, or of options together with those of the record.
fn of_txt_record(options: &ClientOptions, error: &Error) -> Error {
    let message = match error.kind() {
        ErrorKind::InvalidArgument {
            argument: Argument::Uri(_),
            message,
            ..
        } => message.clone(),
        _ => error.to_string(),
    };
    let host = options.srv_host.as_deref().unwrap_or_default();
    invalid(
        UriPart::Options,
        format!("with the TXT record of {host}: {message}; ask the administrator of its DNS zone"),
    )
}

/// Fails if one of these hosts of SRV records lies outside of the domain of the connection string.
/// One such host makes all records unusable, and none of the hosts is contacted (DNS-21).
pub(crate) fn check_srv_hosts(options: &ClientOptions, hosts: &[Address]) -> Result<()> {
    let outside = hosts.iter().find(|host| !may_be_srv_host(options, host));
    outside.map_or(Ok(()), |host| {
        let message = format!(
            "an SRV record of {} names {host}, a host outside of the domain {}; ask the \
             administrator of its DNS zone. If the servers lie in another domain on purpose, name \
             that domain with srvAllowedHostsSuffix",
            options.srv_host.as_deref().unwrap_or_default(),
            domain_of_srv_hosts(options)
        );
        Err(invalid(UriPart::Host, message))
    })
}

/// True if `host`, which an SRV record names, lies under the domain of the options (DNS-19,
/// DNS-42).
pub(crate) fn may_be_srv_host(options: &ClientOptions, host: &Address) -> bool {
    is_below(&domain_of_srv_hosts(options), host)
}

/// Returns the domain under which the hosts of SRV records must lie.
pub(crate) fn domain_of_srv_hosts(options: &ClientOptions) -> String {
    match &options.srv_allowed_hosts_suffix {
        Some(suffix) => srv_domain_of_suffix(suffix),
        None => srv_domain(options.srv_host.as_deref().unwrap_or_default()),
    }
}

/// Returns the domain under which the hosts of SRV records lie: the host of the connection string
/// without its first label, or all of it if it has fewer than three labels (DNS-4, DNS-20).
fn srv_domain(srv_host: &str) -> String {
    let srv_host = srv_host.trim_end_matches('.').to_ascii_lowercase();
    match srv_host.split_once('.') {
        Some((_, domain)) if domain.contains('.') => domain.to_owned(),
        _ => srv_host,
    }
}

/// True if `host`, which an SRV record names, lies under the domain name of `srv_host`. A host for
/// which this is false must not be contacted ([DNS-19]).
///
/// The domain name is `srv_host` without its first label, or all of it if it has fewer than three
/// labels. The comparison is at the boundary of a label and ignores letter case ([DNS-4],
/// [DNS-20]).
///
/// The labels before the domain name consist of letters, digits, hyphens and underscores. So a DNS
/// name with other bytes in its labels is not taken for a host, nor is the root.
///
/// ```
/// use onionskin_core::{address::Address, uri};
///
/// let below = |host| uri::is_below_srv_domain("blogs.mongodb.com", &Address::tcp(host, 27017));
/// assert!(below("db1.mongodb.com"));
/// assert!(!below("cluster.testmongodb.com") && !below("mongodb.com"));
/// ```
///
/// [DNS-19]: crate::requirements::seed_lists#DNS-19
/// [DNS-4]: crate::requirements::seed_lists#DNS-4
/// [DNS-20]: crate::requirements::seed_lists#DNS-20
#[must_use]
pub fn is_below_srv_domain(srv_host: &str, host: &Address) -> bool {
    is_below(&srv_domain(srv_host), host)
}

/// True if `host` is this domain with at least one label in front. `domain` is in lower case, and
/// has no dot at either end.
fn is_below(domain: &str, host: &Address) -> bool {
    let name = host.host().trim_end_matches('.');
    matches!(host, Address::Tcp { .. })
        && name
            .strip_suffix(domain)
            .and_then(|rest| rest.strip_suffix('.'))
            .is_some_and(|labels| labels.split('.').all(is_label))
}

/// Returns the options of a TXT record. Fails if the record is malformed (DNS-33) or contains an
/// option that is not allowed there, such as `ssl` (DNS-30, DNS-31).
fn allowed<'a>(pairs: &'a [Pair], warnings: &mut Vec<Warning>) -> Result<Vec<GivenOption<'a>>> {
    let given = collect_options(pairs, warnings)?;
    let unknown = warnings
        .iter()
        .any(|w| matches!(w, Warning::Unknown { .. }));
    if unknown || given.iter().any(|g| !ALLOWED_IN_TXT.contains(&g.spec.name)) {
        let message = format!(
            "only {} are allowed in a TXT record",
            ALLOWED_IN_TXT.join(", ")
        );
        return Err(invalid(UriPart::Options, message));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Credential;
    use crate::uri::parse;

    fn resolved(uri: &str, hosts: usize, txt: Option<&str>) -> Result<ClientOptions> {
        let parsed = parse(uri).expect(uri);
        assert_eq!(
            parsed.options.srv_host.as_deref(),
            Some("c.example.net"),
            "in lower case"
        );
        let hosts = (0..hosts).map(|i| Address::tcp(&format!("h{i}.example.net"), 27017));
        let txt: Vec<String> = txt.into_iter().map(str::to_owned).collect();
        resolve(&parsed.options, hosts.collect(), &txt).map(|(options, _)| options)
    }

    #[test]
    fn txt_record_options_apply_unless_the_connection_string_sets_them() {
        // Options of the connection string override those of the TXT record (DNS-32).
        let txt = Some("authSource=txt&replicaSet=txt");
        let o = resolved("mongodb+srv://u:p@C.example.net/db", 2, txt).expect("it is valid");
        assert_eq!(o.repl_set_name.as_deref(), Some("txt"));
        assert_eq!(o.credential.as_ref().map(Credential::source), Some("txt"));
        let uri = "mongodb+srv://u:p@c.example.net/?authSource=uri&replicaSet=uri";
        let o = resolved(uri, 2, txt).expect("it is valid");
        assert_eq!(o.repl_set_name.as_deref(), Some("uri"));
        assert_eq!(o.credential.as_ref().map(Credential::source), Some("uri"));
        let o = resolved("mongodb+srv://c.example.net", 2, txt).expect("it is valid");
        assert!(
            o.credential.is_none(),
            "a source alone asks for no authentication"
        );
    }

    #[test]
    fn a_credential_set_in_code_ignores_the_auth_source_of_the_txt_record() {
        let mut parsed = parse("mongodb+srv://c.example.net").expect("it is valid");
        let credential = Credential::password("u", "p");
        parsed.options.credential = Some(credential);
        let hosts = vec![Address::tcp("h.example.net", 1)];
        let txt = ["authSource=txt".to_owned()];
        let (o, _) = resolve(&parsed.options, hosts, &txt).expect("it is valid");
        assert_eq!(o.credential.as_ref().map(Credential::source), Some("admin"));
    }

    #[test]
    fn a_source_that_code_gives_to_a_parsed_credential_is_kept() {
        let uri = "mongodb+srv://u:p@c.example.net/db";
        let mut parsed = parse(uri).expect("it is valid");
        let credential = parsed.options.credential.as_mut().expect("there is one");
        assert_eq!(credential.source(), "db");
        credential.source = Some("mine".to_owned());
        let hosts = vec![Address::tcp("h.example.net", 1)];
        let txt = ["authSource=theirs".to_owned()];
        let (o, _) = resolve(&parsed.options, hosts, &txt).expect("it is valid");
        assert_eq!(o.credential.as_ref().map(Credential::source), Some("mine"));

        // The database of the string is no source of a mechanism without one.
        let credential = parsed.options.credential.as_mut().expect("there is one");
        (credential.source, credential.password) = (None, None);
        credential.mechanism = Some(crate::options::AuthMechanism::MongoDbX509);
        assert_eq!(credential.source(), "$external");
        assert_eq!(credential.validate(), Ok(()));
    }

    #[test]
    fn a_txt_record_accepts_only_auth_source_replica_set_and_load_balanced() {
        // Only `authSource`, `replicaSet` and `loadBalanced` are allowed (DNS-30). So `ssl` is an
        // error (DNS-31), and so are malformed options (DNS-33).
        for txt in [
            "ssl=false",
            "socketTimeoutMS=500",
            "foo=bar",
            "authSource",
            "authSource=",
        ] {
            assert!(
                resolved("mongodb+srv://c.example.net", 1, Some(txt)).is_err(),
                "{txt}"
            );
        }
        let o = resolved("mongodb+srv://c.example.net", 1, Some("loadBalanced=maybe"));
        assert!(
            !o.expect("a wrong value is ignored (DNS-34)")
                .load_balanced()
        );
    }

    #[test]
    fn errors_about_a_txt_record_name_it() {
        for (uri, txt) in [
            ("mongodb+srv://c.example.net", "authSource"),
            ("mongodb+srv://c.example.net", "authSource="),
            ("mongodb+srv://c.example.net", "ssl=false"),
            (
                "mongodb+srv://c.example.net",
                "srvAllowedHostsSuffix=.net.x",
            ),
            ("mongodb+srv://c.example.net/?srvMaxHosts=1", "replicaSet=x"),
        ] {
            let error = resolved(uri, 1, Some(txt)).expect_err(txt).to_string();
            assert!(error.contains("the TXT record of c.example.net"), "{error}");
        }
    }

    #[test]
    fn a_txt_record_cannot_change_the_source_of_users_outside_of_mongodb() {
        let uri = "mongodb+srv://c.example.net/?authMechanism=MONGODB-X509";
        let options = resolved(uri, 1, Some("authSource=admin")).expect("the source is ignored");
        let source = options.credential.as_ref().map(Credential::source);
        assert_eq!(source, Some("$external"));
    }

    #[test]
    fn dns_results_that_conflict_with_the_options_are_refused() {
        // `srvMaxHosts` conflicts with `replicaSet` and `loadBalanced` (DNS-10, DNS-11), and
        // `loadBalanced` with several hosts and `replicaSet` (DNS-39, LB-8). The rules are checked
        // after the queries (DNS-12, LB-7). An SRV query without records is an error (LB-11).
        for (uri, hosts, txt) in [
            ("mongodb+srv://c.example.net", 0, None),
            ("mongodb+srv://c.example.net/?loadBalanced=true", 2, None),
            ("mongodb+srv://c.example.net", 2, Some("loadBalanced=true")),
            (
                "mongodb+srv://c.example.net/?srvMaxHosts=1",
                1,
                Some("loadBalanced=true"),
            ),
            (
                "mongodb+srv://c.example.net/?srvMaxHosts=1",
                1,
                Some("replicaSet=x"),
            ),
            (
                "mongodb+srv://c.example.net/?replicaSet=x",
                1,
                Some("loadBalanced=true"),
            ),
        ] {
            assert!(resolved(uri, hosts, txt).is_err(), "{uri} {txt:?}");
        }
        let uri = "mongodb+srv://c.example.net/?loadBalanced=false";
        let o = resolved(uri, 2, Some("loadBalanced=true")).expect("the string wins");
        assert!(!o.load_balanced());
        let uri = "mongodb+srv://c.example.net/?srvMaxHosts=0";
        assert!(resolved(uri, 1, Some("loadBalanced=true")).is_ok());
    }

    #[test]
    fn an_srv_host_outside_the_domain_is_refused() {
        // Most of these hosts are from the prose tests of the specification of initial DNS seedlist
        // discovery.
        for (srv_host, host, below) in [
            ("localhost", "a.localhost", true),
            ("localhost", "localhost.mongodb", false),
            ("localhost", "localhost", false),
            ("localhost", "test_1.cluster_1localhost", false),
            ("mongo.local", "a.mongo.local", true),
            ("mongo.local", "test_1.evil.local", false),
            ("mongo.local", "mongo.local", false),
            ("mongo.local", "test_1.my_hostmongo.local", false),
            ("Blogs.MongoDB.com", "x.y.mongodb.com.", true),
            ("blogs.mongodb.com", "blogs.evil.com", false),
            ("blogs.mongodb.com", ".mongodb.com", false),
            ("blogs.mongodb.com", "a..mongodb.com", false),
            ("blogs.mongodb.com", "my_db-1.mongodb.com", true),
            ("blogs.mongodb.com", "evil\\.mongodb.com", false),
            ("blogs.mongodb.com", "a b.mongodb.com", false),
            ("blogs.mongodb.com", ".", false),
            ("localhost", "", false),
        ] {
            let host = Address::tcp(host, 1);
            assert_eq!(
                is_below_srv_domain(srv_host, &host),
                below,
                "{srv_host} {host}"
            );
        }
        let parsed = parse("mongodb+srv://c.example.net").expect("it is valid");
        let hosts = vec![
            Address::tcp("a.example.net", 1),
            Address::tcp("a.evil.net", 1),
        ];
        assert!(resolve(&parsed.options, hosts, &[]).is_err());
    }

    #[test]
    fn a_second_txt_record_is_an_error() {
        let parsed = parse("mongodb+srv://c.example.net").expect("it is valid");
        let hosts = vec![Address::tcp("a.example.net", 1)];
        let txt = ["replicaSet=x".to_owned(), "authSource=y".to_owned()];
        assert!(resolve(&parsed.options, hosts, &txt).is_err());
    }
}
