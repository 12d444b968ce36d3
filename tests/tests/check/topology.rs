//! Deployments that a client discovers but cannot use, or only in part.

use super::*;
use bson::doc;
use onionskin_simulations::serve::{Embedded, ServeOptions};
use onionskin_tests::conformance::server::{Server, answer, hello};

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
        ": primary, round trip ",
        ": secondary, round trip ",
        ", lag 0.",
        "primary (of this client): 127.0.0.1:",
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
    let uri = server.uri("replicaSet=rs&serverSelectionTimeoutMS=500");
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
    let options = format!("replicaSet=rs&serverSelectionTimeoutMS=300&appName={address}");
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
