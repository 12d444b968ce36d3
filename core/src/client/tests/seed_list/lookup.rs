//! Tests of the lookup of a seed list before its client exists.

use super::*;
use crate::{
    client::SeedLookup,
    options::{ClientOptions, Credential},
};

fn options(text: &str) -> ClientOptions {
    ClientOptions::parse(text).run().expect(text)
}

fn lookup(options: &ClientOptions) -> SeedLookup {
    let lookup = SeedLookup::new(options, &Seed::new([7; 32])).expect("valid options");
    lookup.expect("the hosts are unknown")
}

/// Answers both queries of the lookup for these options.
fn resolved(
    options: &ClientOptions,
    srv: Result<DnsAnswer, Error>,
    txt: Result<DnsAnswer, Error>,
) -> Result<ClientOptions, Error> {
    let mut lookup = lookup(options);
    let [(srv_id, _), (txt_id, _)] = lookup.queries();
    assert!(lookup.handle_answer(txt_id, txt).is_none());
    lookup.handle_answer(srv_id, srv).expect("the result")
}

#[test]
fn the_lookup_asks_both_queries_and_gives_options_with_hosts() {
    // DNS-15, DNS-26.
    let unresolved = options("mongodb+srv://c.example.net/?srvServiceName=db&connectTimeoutMS=5");
    let mut seeds = lookup(&unresolved);
    let queries = seeds.queries().map(|(_, query)| query.to_string());
    assert_eq!(queries, ["SRV _db._tcp.c.example.net", "TXT c.example.net"]);
    assert_eq!(seeds.limit(), Duration::from_millis(5));
    let [(srv, _), (txt, _)] = seeds.queries();
    assert!(seeds.handle_answer(QuestionId(99), no_text()).is_none());
    assert!(seeds.handle_answer(srv, hosts(&["a", "b"], 60)).is_none());
    let found = seeds.handle_answer(txt, no_text()).expect("the result");
    let found = found.expect("valid records").hosts().to_vec();
    assert_eq!(found.len(), 2);
    assert!(
        seeds.handle_answer(txt, no_text()).is_none(),
        "a late answer"
    );
    assert_eq!(
        lookup(&options("mongodb+srv://c.example.net/?connectTimeoutMS=0")).limit(),
        SECOND * 30
    );
}

#[test]
fn options_with_hosts_need_no_lookup() {
    let mut with_hosts = options("mongodb+srv://c.example.net");
    with_hosts.hosts = vec![Address::tcp("a.example.net", 1).into()];
    for options in [with_hosts, options("mongodb://a")] {
        let lookup = SeedLookup::new(&options, &Seed::new([7; 32]));
        assert!(lookup.expect("valid options").is_none());
    }
}

#[test]
fn nothing_is_looked_up_for_invalid_options() {
    // DNS-38. Setters can contradict each other.
    let mut options = options("mongodb+srv://c.example.net");
    options.direct_connection = Some(true);
    assert!(SeedLookup::new(&options, &Seed::new([7; 32])).is_err());
    // An option that needs a part which is not there, such as a Kerberos library.
    let options = self::options("mongodb+srv://u@c.example.net/?authMechanism=GSSAPI");
    assert!(SeedLookup::new(&options, &Seed::new([7; 32])).is_err());
}

#[test]
fn a_failed_srv_query_ends_the_lookup_at_once() {
    // DNS-18.
    let mut lookup = lookup(&options(URI));
    let [(srv, _), (txt, _)] = lookup.queries();
    let error = failure(DnsFailure::NoSuchName);
    let result = lookup.handle_answer(srv, Err(error.clone()));
    assert_eq!(result.expect("the result").expect_err("it failed"), error);
    assert!(lookup.handle_answer(txt, no_text()).is_none());
}

#[test]
fn a_failed_txt_query_fails_the_lookup_unless_there_is_no_record() {
    // DNS-27.
    for missing in [DnsFailure::NoSuchName, DnsFailure::NoRecords] {
        let found = resolved(&options(URI), hosts(&["a"], 60), Err(failure(missing)));
        assert_eq!(found.expect("no TXT record").hosts().len(), 1);
    }
    let refused = Err(failure(DnsFailure::Refused));
    assert!(resolved(&options(URI), hosts(&["a"], 60), refused).is_err());
}

/// One option that a TXT record may have.
struct Sources {
    in_code: fn(&mut ClientOptions),
    in_string: &'static str,
    in_txt: &'static str,
    read: fn(&ClientOptions) -> String,
}

const SOURCES: [Sources; 3] = [
    Sources {
        in_code: |options| {
            options.repl_set_name = Some("code".to_owned());
        },
        in_string: "replicaSet=string",
        in_txt: "replicaSet=txt",
        read: |options| {
            options
                .repl_set_name
                .as_deref()
                .unwrap_or("none")
                .to_owned()
        },
    },
    Sources {
        in_code: |options| {
            let mut credential = Credential::password("u", "p");
            credential.source = Some("code".to_owned());
            options.credential = Some(credential);
        },
        in_string: "authSource=string",
        in_txt: "authSource=txt",
        read: |options| {
            let credential = options.credential.as_ref();
            credential.expect("a credential").source().to_owned()
        },
    },
    Sources {
        in_code: |options| {
            options.load_balanced = Some(false);
        },
        in_string: "loadBalanced=false",
        in_txt: "loadBalanced=true",
        read: |options| {
            if options.load_balanced() {
                "txt"
            } else {
                "none"
            }
            .to_owned()
        },
    },
];

#[test]
fn code_overrides_the_string_and_both_override_the_txt_record() {
    // DNS-32, CS-38.
    for Sources {
        in_code,
        in_string,
        in_txt: txt,
        read,
    } in SOURCES
    {
        let is_switch = txt.starts_with("load");
        let expected = |source: &str| match source {
            _ if is_switch && source != "txt" => "none".to_owned(),
            source => source.to_owned(),
        };
        for sources in 0..8 {
            let [has_code, has_string, has_txt] = [1, 2, 4].map(|bit| sources & bit != 0);
            let query = if has_string { in_string } else { "" };
            let mut options = options(&format!("mongodb+srv://u:p@c.example.net/?{query}"));
            if has_code {
                in_code(&mut options);
            }
            let record = if has_txt { text(txt) } else { no_text() };
            let found = resolved(&options, hosts(&["a"], 60), record).expect("valid records");
            let source = match (has_code, has_string, has_txt) {
                (true, _, _) => "code",
                (_, true, _) => "string",
                (_, _, true) => "txt",
                _ if txt.starts_with("auth") => "admin",
                _ => "none",
            };
            assert_eq!(read(&found), expected(source), "{txt}, {sources:03b}");
        }
    }
}

#[test]
fn the_options_keep_the_warnings_about_the_string_and_the_txt_record() {
    let options = options("mongodb+srv://c.example.net/?tsl=1");
    let record = text("loadBalanced=maybe");
    let found = resolved(&options, hosts(&["a"], 60), record.clone()).expect("valid records");
    let warnings: Vec<_> = found.warnings().iter().map(ToString::to_string).collect();
    let ignored = "option loadBalanced is ignored: it takes true or false";
    assert_eq!(
        warnings,
        [
            "option \"tsl\" is not known and was ignored; did you mean tls?",
            ignored
        ]
    );
    // A client that looks the record up itself has the warnings afterwards.
    let mut world = World::srv_world(URI);
    assert!(world.client.txt_warnings().is_empty());
    world.answer_seeds(hosts(&["a"], 60), record);
    let warnings = world.client.txt_warnings().iter();
    assert_eq!(
        warnings.map(ToString::to_string).collect::<Vec<_>>(),
        [ignored]
    );
}

#[test]
fn srv_max_hosts_leaves_a_random_choice() {
    // DNS-24.
    let options = options("mongodb+srv://c.example.net/?srvMaxHosts=1");
    let mut chosen = BTreeSet::new();
    for seed in 0..40 {
        let mut lookup = SeedLookup::new(&options, &Seed::new([seed; 32]))
            .expect("valid options")
            .expect("the hosts are unknown");
        let [(srv, _), (txt, _)] = lookup.queries();
        let _ = lookup.handle_answer(txt, no_text());
        let found = lookup.handle_answer(srv, hosts(&["a", "b", "c"], 60));
        let found = found.expect("the result").expect("valid records");
        assert_eq!(found.hosts().len(), 1);
        chosen.insert(found.hosts()[0].clone());
    }
    assert_eq!(chosen.len(), 3);
}

#[test]
fn the_client_rescans_after_the_time_to_live_of_the_records() {
    // SRV-23, SRV-24.
    for (ttl, wait) in [(Some(300), 300), (Some(5), 60), (None, 60)] {
        let mut srv = hosts(&["a"], 0).expect("hosts");
        srv.ttl = ttl.map(Duration::from_secs);
        let found = resolved(&options(URI), Ok(srv), no_text()).expect("valid records");
        let mut world = World::with_options(found, mongos(), Subscriptions::default());
        assert!(world.lookups.is_empty() && world.known_hosts() == ["a"]);
        world.wait(SECOND * (wait - 1));
        assert!(world.lookups.is_empty(), "{ttl:?}");
        world.wait(SECOND);
        assert_eq!(
            world.queries(),
            ["SRV _mongodb._tcp.c.example.net"],
            "{ttl:?}"
        );
    }
}
