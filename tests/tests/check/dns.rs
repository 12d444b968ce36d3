//! Host names and seed lists that cannot be looked up.

use super::*;
use onionskin_check::check_with;
use onionskin_core::dns::ResolverConfig;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::name_server::NameServer;

/// Returns options whose only name server is this one.
fn asking(server: &NameServer) -> CheckOptions {
    let mut options = CheckOptions::default();
    options.resolver_config = Some(ResolverConfig::new([server.address()]));
    options
}

#[test]
fn a_host_name_that_does_not_exist_fails() {
    let report = report_of("mongodb://db.invalid/");
    assert_eq!(report.exit_code(), 11, "{}", report.to_text(false));
    assert_eq!(stages(&report), "parse ok, dns failed, topology skipped");
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("cannot resolve the host name db.invalid"),
        "{problems}"
    );
    assert!(
        problems.contains("check the spelling of db.invalid"),
        "{problems}"
    );
}

#[test]
fn the_records_of_a_seed_list_are_shown() {
    let names = NameServer::start();
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 1)).expect("a member");
    let port = deployment.addresses()[0].port();
    names.records().set_srv(
        "_mongodb._tcp.db.example.net",
        300,
        &[("a.example.net", port)],
    );
    names
        .records()
        .set_txt("db.example.net", &[&["replicaSet=rs0"]]);
    let uri = "mongodb+srv://db.example.net/?tls=false&connectTimeoutMS=2000";
    let report = report_with(uri, &asking(&names));
    // The system's resolver does not know the name of the member.
    assert_eq!(report.exit_code(), 11, "{}", report.to_text(false));
    assert_eq!(
        stages(&report),
        "parse ok, dns ok, dns failed, topology skipped"
    );
    let text = text_of(&report, &[(&names.address().to_string(), "NAMES")]);
    for part in [
        "name servers: NAMES".to_owned(),
        format!("SRV _mongodb._tcp.db.example.net: a.example.net:{port}"),
        "time to live: 300 s".to_owned(),
        "TXT db.example.net: replicaSet=rs0".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
}

#[test]
fn a_seed_list_that_cannot_be_looked_up_fails_with_its_reason() {
    let names = NameServer::start();
    names.records().set_srv(
        "_mongodb._tcp.out.example.net",
        300,
        &[("a.evil.example", 1)],
    );
    names.records().set_txt("text.example.net", &[&["text"]]);
    names.records().set_srv(
        "_mongodb._tcp.odd.example.net",
        300,
        &[("a.example.net", 1)],
    );
    names
        .records()
        .set_txt("odd.example.net", &[&["maxPoolSize=1"]]);
    for (host, hint) in [
        ("missing.example.net", "check the spelling of the host name"),
        ("out.example.net", "ask the administrator"),
        ("odd.example.net", "ask the administrator"),
    ] {
        let report = report_with(&format!("mongodb+srv://{host}/"), &asking(&names));
        assert_eq!(report.exit_code(), 11, "{host}");
        assert_eq!(stages(&report), "parse ok, dns failed", "{host}");
        let problems = problems(&report, &[]).join("\n");
        assert!(problems.contains(hint), "{host}: {problems}");
    }
    names.records().set_silent(true);
    let uri = "mongodb+srv://silent.example.net/?connectTimeoutMS=300";
    let report = report_with(uri, &asking(&names));
    assert_eq!(report.exit_code(), 11);
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("does a firewall block port 53"),
        "{problems}"
    );
}

#[test]
fn steps_are_reported_as_they_complete() {
    let mut seen = Vec::new();
    let report = on_tokio(check_with(
        TokioRuntime::default(),
        "mongodb://db.invalid/",
        &CheckOptions::default(),
        |step| seen.push(step.clone()),
    ));
    assert_eq!(seen, report.steps);
}
