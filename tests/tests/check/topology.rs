//! Deployments that a client discovers but cannot use, or only in part.

use super::*;
use bson::{Document, doc};
use onionskin_check::MAX_SERVERS;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::conformance::server::{Gate, Server, Step, answer, hello};
use std::{
    io::Read as _,
    sync::{Arc, OnceLock},
};

#[test]
fn a_replica_set_is_described_in_full() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("members");
    let report = report_of(deployment.uri());
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    assert_eq!(
        stages(&report),
        "parse ok, dial ok, hello ok, dial ok, hello ok, dial ok, hello ok, topology ok, \
         selection ok, settings ok"
    );
    let text = report.to_text(false);
    for part in [
        "type: replica set",
        ": state primary, round trip ",
        ": state secondary, round trip ",
        ", lag ",
        "of this client: primary\n",
        "primary: 127.0.0.1:",
        "maxPoolSize: 100",
        "A client can use this deployment (0 failed, 0 with warnings",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_member_that_is_down_is_a_warning_unless_the_check_is_strict() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("members");
    deployment.kill(2);
    let mut options = CheckOptions::default();
    let report = report_with(deployment.uri(), &options);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    assert!(report.count(Status::Failed) == 1 && report.count(Status::Warning) == 1);
    options.strict = true;
    let report = report_with(deployment.uri(), &options);
    assert_eq!(report.exit_code(), 12, "{}", report.to_text(false));
}

#[test]
fn another_replica_set_fails_the_topology() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("members");
    let uri = deployment.uri().replace("replicaSet=rs0", "replicaSet=rs1");
    let report = report_of(&uri);
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    let cause = "belongs to the replica set \"rs0\", and the connection string asks for \"rs1\"";
    assert!(problems.contains(cause), "{problems}");
    assert!(problems.contains("write replicaSet=rs0"), "{problems}");
}

#[test]
fn members_with_names_that_cannot_be_resolved_are_explained() {
    let server = Server::on_socket(|request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        reply.extend(doc! {
            "setName": "rs", "setVersion": 1, "me": "node1.invalid:27017",
            "primary": "node1.invalid:27017",
            "hosts": ["node1.invalid:27017", "node2.invalid:27017"],
        });
        request.reply(&reply)
    });
    let uri = server.uri("replicaSet=rs&serverSelectionTimeoutMS=3000");
    let report = report_of(&uri);
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    let problems = problems(&report, &[(&server.address(), "SEED")]).join("\n");
    for part in [
        "cannot resolve the host name node1.invalid",
        "SEED announces node1.invalid as a member",
        "hosts file",
        "rs.reconfig()",
        "directConnection=true",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let report = report_of(&format!(
        "{}&directConnection=true",
        server.uri("replicaSet=rs")
    ));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
}

#[test]
fn a_replica_set_without_a_primary_fails_for_a_client_that_reads_from_it() {
    let server = Server::on_socket(|request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        let own = "127.0.0.1:1";
        reply.insert("isWritablePrimary", false);
        reply.extend(doc! { "secondary": true, "setName": "rs", "hosts": [own], "me": own });
        request.reply(&reply)
    });
    let address = server.address();
    let options = format!("replicaSet=rs&serverSelectionTimeoutMS=3000&appName={address}");
    let report = report_of(&server.uri(&options));
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
}

#[test]
fn a_sharded_cluster_and_a_standalone_are_described() {
    let deployment = Embedded::start(ServeOptions::sharded(2)).expect("routers");
    let report = report_of(deployment.uri());
    assert_eq!(report.exit_code(), 0);
    assert!(
        report.to_text(false).contains("type: sharded cluster"),
        "{report:?}"
    );
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let report = report_of(deployment.uri());
    assert_eq!(report.exit_code(), 0);
    assert!(
        report.to_text(false).contains("kind: standalone"),
        "{report:?}"
    );
}

#[test]
fn a_standalone_is_no_member_of_a_replica_set() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let report = report_of(&format!("{}?replicaSet=rs0", deployment.uri()));
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(problems.contains("belongs to no replica set"), "{problems}");
    assert!(problems.contains("remove replicaSet"), "{problems}");
}

#[test]
fn two_standalones_are_no_deployment() {
    let deployments = [(); 2].map(|()| Embedded::start(ServeOptions::standalone()));
    let deployments = deployments.map(|deployment| deployment.expect("a server"));
    let [one, other] = deployments
        .each_ref()
        .map(|deployment| deployment.addresses()[0]);
    let report = report_of(&format!("mongodb://{one},{other}/"));
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(
        problems.contains("does not use several standalone servers"),
        "{problems}"
    );
}

/// Starts a server whose replies to `hello` are changed in this way.
fn server_of(change: impl Fn(&mut Document) + Send + Sync + 'static) -> Server {
    Server::on_socket(move |request| {
        if !request.is_hello() {
            return answer(request);
        }
        let mut reply = hello(request.connection);
        change(&mut reply);
        request.reply(&reply)
    })
}

#[test]
fn a_direct_connection_to_a_member_without_writes_is_named() {
    let secondary = server_of(|reply| {
        reply.insert("isWritablePrimary", false);
        reply.extend(doc! { "secondary": true, "setName": "rs", "hosts": ["127.0.0.1:1"] });
    });
    let report = report_of(&secondary.uri("directConnection=true"));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    let warnings = problems(&report, &[]).join("\n");
    assert!(
        warnings.contains("is a secondary, so that writes fail"),
        "{warnings}"
    );
    let ghost = server_of(|reply| {
        reply.insert("isWritablePrimary", false);
        reply.insert("isreplicaset", true);
    });
    let report = report_of(&ghost.uri("directConnection=true"));
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    assert!(
        problems(&report, &[]).join("\n").contains("rs.initiate()"),
        "{report:?}"
    );
}

#[test]
fn time_limits_of_the_client_apply_to_the_ping() {
    let slow = Gate::new();
    let gate = slow.clone();
    let server = Server::on_socket(move |request| match request.name.as_str() {
        "ping" => {
            let mut steps = vec![Step::Hold(gate.clone())];
            steps.extend(answer(request));
            steps
        }
        _ => answer(request),
    });
    for limit in ["timeoutMS=3000", "socketTimeoutMS=3000"] {
        let report = report_of(&server.uri(limit));
        assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
        let problems = problems(&report, &[]).join("\n");
        assert!(
            problems.contains("hangs or is overloaded"),
            "{limit}: {problems}"
        );
    }
    let mut options = CheckOptions::default();
    options.timeout = Duration::from_secs(3);
    let report = report_with(&server.uri(""), &options);
    assert_eq!(report.exit_code(), 16, "{}", report.to_text(false));
    assert!(
        problems(&report, &[]).join("\n").contains("--timeout"),
        "{report:?}"
    );
    slow.open();
    let report = report_of(&server.uri("serverSelectionTimeoutMS=3000"));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
}

#[test]
fn a_silent_member_leaves_time_for_the_others() {
    let silent = Server::raw(|mut stream| {
        let mut buffer = [0; 1024];
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let (own, other) = (Arc::new(OnceLock::<String>::new()), silent.address());
    let address = own.clone();
    let server = server_of(move |reply| {
        let own = address.get().expect("it listens").as_str();
        reply.extend(doc! { "setName": "rs", "hosts": [own, other.as_str()], "me": own });
    });
    own.set(server.address()).expect("it was not set");
    let mut options = CheckOptions::default();
    options.timeout = Duration::from_secs(2);
    let report = report_with(&server.uri("connectTimeoutMS=30000"), &options);
    assert!(report.is_usable, "{}", report.to_text(false));
    assert_eq!(report.exit_code(), 0);
    assert!(
        report.duration < Duration::from_secs(5),
        "{:?}",
        report.duration
    );
    options.strict = true;
    let report = report_with(&server.uri("connectTimeoutMS=30000"), &options);
    assert!(
        report.is_usable && report.exit_code() == 14,
        "{}",
        report.to_text(false)
    );
}

#[test]
fn members_that_announce_thousands_of_members_are_bounded() {
    let server = server_of(|reply| {
        let closed = (0..1000).map(|n| format!("127.0.0.1:{}", 1 + n % 900));
        let unknown = (0..1000).map(|n| format!("node{n}.invalid:1"));
        let hosts: Vec<String> = closed.chain(unknown).collect();
        reply.extend(doc! { "setName": "rs", "hosts": hosts });
    });
    let mut options = CheckOptions::default();
    options.timeout = Duration::from_secs(4);
    let report = report_with(&server.uri("serverSelectionTimeoutMS=3000"), &options);
    assert!(
        report.steps.len() < 3 * MAX_SERVERS,
        "{}",
        report.steps.len()
    );
    assert!(report.to_json().len() < 1 << 20);
}

#[test]
fn seeds_beyond_the_limit_are_used_by_the_client() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 1)).expect("a member");
    let dead: Vec<String> = (0..MAX_SERVERS)
        .map(|n| format!("127.0.0.1:{}", n + 1))
        .collect();
    let own = deployment.addresses()[0];
    let report = report_of(&format!(
        "mongodb://{},{own}/?replicaSet=rs0",
        dead.join(",")
    ));
    assert!(report.is_usable, "{}", report.to_text(false));
    assert!(
        report
            .to_text(false)
            .contains("1 servers were not checked one by one")
    );
}
