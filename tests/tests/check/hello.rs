//! Servers that do not answer `hello` as a server does.

use super::*;
use bson::{DateTime, doc};
use onionskin_check::{Stage, Value};
use onionskin_core::options::Compressor;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::conformance::server::{Server, Step, answer, hello};
use std::io::{Read as _, Write as _};

#[test]
fn a_server_with_tls_is_recognized_without_tls() {
    let mut options = ServeOptions::standalone();
    options.tls = true;
    let deployment = Embedded::start(options).expect("a server");
    let address = deployment.addresses()[0].to_string();
    let report = report_of(&format!("mongodb://{address}/"));
    assert_eq!(report.exit_code(), 14);
    assert_eq!(
        stages(&report),
        "parse ok, dial ok, hello failed, topology skipped"
    );
    let hint = "hint: the server requires TLS: add tls=true to the connection string";
    assert!(
        problems(&report, &[]).contains(&hint.to_owned()),
        "{report:?}"
    );
}

#[test]
fn another_service_on_the_port_is_no_mongodb_server() {
    let server = Server::raw(|mut stream| {
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let report = report_of(&server.uri(""));
    assert_eq!(report.exit_code(), 14);
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("is this the port of a MongoDB server"),
        "{problems}"
    );
}

#[test]
fn a_server_that_never_answers_fails_at_the_time_limit() {
    let server = Server::raw(|mut stream| {
        let mut buffer = [0; 1024];
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    for (uri, options) in [
        (server.uri("connectTimeoutMS=3000"), CheckOptions::default()),
        (server.uri(""), hurried()),
    ] {
        let report = report_with(&uri, &options);
        assert_eq!(report.exit_code(), 14, "{uri}");
        let problems = problems(&report, &[]).join("\n");
        assert!(problems.contains("nothing answers"), "{problems}");
    }
}

#[test]
fn a_load_balancer_is_recognized_without_its_option() {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("services");
    let uri = deployment.uri().replace("loadBalanced=true", "");
    let report = report_of(&uri);
    assert_eq!(report.exit_code(), 14);
    let problems = problems(&report, &[]).join("\n");
    assert!(problems.contains("add loadBalanced=true"), "{problems}");
    let report = report_of(deployment.uri());
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
}

#[test]
fn a_server_without_a_load_balancer_is_recognized() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let report = report_of(&format!("{}?loadBalanced=true", deployment.uri()));
    assert_eq!(report.exit_code(), 14, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(problems.contains("remove loadBalanced=true"), "{problems}");
}

#[test]
fn a_clock_that_differs_is_a_warning() {
    let server = Server::on_socket(|request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        let hour_ago = DateTime::from_millis(DateTime::now().timestamp_millis() - 3_600_000);
        reply.extend(doc! { "localTime": hour_ago });
        request.reply(&reply)
    });
    let report = report_of(&server.uri(""));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("s behind that of this machine"),
        "{problems}"
    );
    assert!(problems.contains("NTP"), "{problems}");
}

#[test]
fn texts_of_a_server_cannot_reach_the_terminal() {
    let server = Server::on_socket(|request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        reply.extend(doc! { "setName": "\x1b[2Jrs\r\n", "hosts": ["127.0.0.1:1"] });
        vec![Step::Send(request.frame(&reply))]
    });
    let mut options = hurried();
    options.timeout = Duration::from_secs(3);
    let report = report_with(&server.uri("serverSelectionTimeoutMS=3000"), &options);
    let text = report.to_text(false);
    assert!(!text.contains('\x1b') && !text.contains('\r'), "{text}");
}

fn fact<'a>(step: &'a onionskin_check::Step, name: &str) -> Option<&'a Value> {
    let mut facts = step.facts.iter();
    Some(&facts.find(|fact| fact.name == name)?.value)
}

#[test]
fn the_compressor_and_its_effect_are_shown() {
    let mut options = ServeOptions::standalone();
    options.compression.compressors = vec![Compressor::Zlib, Compressor::Zstd];
    let server = Embedded::start(options).expect("a server");
    let of = |compressors: &str| {
        let address = server.addresses()[0];
        let report = report_of(&format!("mongodb://{address}/?compressors={compressors}"));
        let mut steps = report.steps.into_iter();
        let step = steps.find(|step| step.stage == Stage::Hello);
        step.expect("the server was asked")
    };
    let chosen = of("snappy,zstd,zlib");
    assert_eq!(chosen.status, Status::Ok, "{chosen:?}");
    assert_eq!(fact(&chosen, "compressor"), Some(&Value::from("zstd")));
    let names = ["zstd", "zlib"].map(str::to_owned).to_vec();
    assert_eq!(fact(&chosen, "compressors"), Some(&Value::from(names)));
    let Some(Value::Text(sample)) = fact(&chosen, "compressed sample") else {
        panic!("{chosen:?}");
    };
    assert!(
        sample.starts_with("this reply: ") && sample.ends_with(" %"),
        "{sample}"
    );
    let none = of("snappy");
    assert_eq!(none.status, Status::Warning, "{none:?}");
    assert_eq!(fact(&none, "compressor"), None);
    let problem = &none.problems[0];
    assert!(
        problem
            .message
            .contains("none of these compressors: snappy"),
        "{problem:?}"
    );
    assert!(
        problem.hints[0].contains("net.compression.compressors"),
        "{problem:?}"
    );
}
