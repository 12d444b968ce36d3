//! Connection strings and options that cannot be used.

use super::*;

#[test]
fn a_connection_string_that_cannot_be_parsed_is_not_shown() {
    for (uri, cause, hint) in [
        (
            "mongo://user:pencil-4711@db/",
            "scheme",
            "begins with mongodb://",
        ),
        (
            "mongodb://user:pencil-4711@x@db/",
            "user information",
            "@ is %40",
        ),
        (
            "mongodb://user:pencil-4711/x@db/",
            "user name or password",
            "%40 or %2F",
        ),
        ("mongodb://db:port/", "host", "separated by commas"),
        ("mongodb://db/?w", "options", "name=value"),
        (
            "mongodb://db/?loadBalanced=true&replicaSet=rs",
            "options",
            "name=value",
        ),
    ] {
        let report = report_of(uri);
        assert_eq!(report.exit_code(), 10, "{uri}");
        assert_eq!(stages(&report), "parse failed", "{uri}");
        assert_eq!(report.uri, None);
        let problems = problems(&report, &[]).join("\n");
        assert!(
            problems.contains(cause) && problems.contains(hint),
            "{uri}: {problems}"
        );
    }
}

#[test]
fn an_option_that_cannot_be_used_is_named() {
    let report = report_of("mongodb://db/?proxyHost=localhost");
    assert_eq!(report.exit_code(), 10);
    assert!(
        problems(&report, &[])[0].contains("proxyHost"),
        "{report:?}"
    );
    let report = report_of("mongodb://db/?tls=true&tlsCAFile=/nowhere/ca.pem");
    assert_eq!(report.exit_code(), 10);
    assert!(
        problems(&report, &[])[0].contains("/nowhere/ca.pem"),
        "{report:?}"
    );
    let scratch = onionskin_tests::peers::Scratch::new().expect("a directory");
    let file = scratch.write("ca.pem", "no certificate").expect("a file");
    let report = report_of(&format!(
        "mongodb://db/?tls=true&tlsCAFile={}",
        file.display()
    ));
    assert_eq!(report.exit_code(), 13);
    assert!(
        problems(&report, &[])[0].contains("tlsCAFile"),
        "{report:?}"
    );
}

#[test]
fn warnings_about_options_are_part_of_the_first_step() {
    let uri = format!("mongodb://user:{PASSWORD}@127.0.0.1:1/?compressors=zstd&color=red");
    let report = report_of(&uri);
    assert_eq!(
        report.uri.as_deref(),
        Some("mongodb://user:[redacted]@127.0.0.1:1/?compressors=zstd&color=[redacted]")
    );
    assert_eq!(
        stages(&report),
        "parse warning, dial failed, topology skipped"
    );
    let warnings = &problems(&report, &[])[..2];
    assert!(
        warnings[0].contains("color") && warnings[1].contains("compressors"),
        "{warnings:?}"
    );
}
