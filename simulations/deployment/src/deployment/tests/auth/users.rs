//! Tests of the commands on users, and of roles.

use super::{code, options, scram::log_in, user};
use crate::deployment::{
    AuthMechanism, ConnId, DeploymentOptions, Role, User,
    tests::world::{World, set_of},
};
use bson::{Document, doc};
use onionskin_core::address::Address;

const SHA1: AuthMechanism = AuthMechanism::ScramSha1;
const SHA256: AuthMechanism = AuthMechanism::ScramSha256;

/// Returns a deployment, and a connection on which the user `ada` with the role `root` has
/// authenticated.
fn world() -> (World, ConnId) {
    let mut options = options();
    let mut reader = User::new("rea", "pencil");
    reader.roles = vec![Role::new("read", "app")];
    options.users.push(reader);
    let mut nobody = User::new("nob", "pencil");
    nobody.roles.clear();
    options.users.push(nobody);
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    log_in_as(&mut world, conn, "ada");
    (world, conn)
}

fn log_in_as(world: &mut World, conn: ConnId, name: &str) {
    let user = ("admin", name, "pencil");
    assert_eq!(log_in(world, conn, SHA256, user), None);
}

fn run(world: &mut World, conn: ConnId, command: Document) -> Document {
    world.send_command(conn, &command).expect("a reply")
}

#[test]
fn created_users_authenticate_with_their_mechanisms_only() {
    let (mut world, root) = world();
    for (name, mechanisms) in [
        ("sha1", vec!["SCRAM-SHA-1"]),
        ("sha256", vec!["SCRAM-SHA-256"]),
        ("both", vec!["SCRAM-SHA-1", "SCRAM-SHA-256"]),
    ] {
        let create = doc! {
            "createUser": name, "pwd": name, "roles": ["root"], "mechanisms": mechanisms,
            "$db": "admin",
        };
        assert_eq!(code(&run(&mut world, root, create.clone())), None);
        assert_eq!(code(&run(&mut world, root, create)), Some(51003));
        let conn = world.connect(0);
        let mut is_permitted =
            |mechanism| log_in(&mut world, conn, mechanism, ("admin", name, name)).is_none();
        assert_eq!(is_permitted(SHA1), name != "sha256");
        assert_eq!(is_permitted(SHA256), name != "sha1");
    }
}

#[test]
fn passwords_are_prepared_for_scram_sha_256_only() {
    let (mut world, root) = world();
    for (name, password) in [("IX", "IX"), ("\u{2168}", "\u{2163}")] {
        let create = doc! {
            "createUser": name, "pwd": password, "roles": ["root"], "$db": "admin",
        };
        assert_eq!(code(&run(&mut world, root, create)), None);
    }
    let conn = world.connect(0);
    // The prepared form of U+2163 is `IV`.
    let prepared = ("admin", "\u{2168}", "IV");
    assert_eq!(log_in(&mut world, conn, SHA256, prepared), None);
    assert_eq!(log_in(&mut world, conn, SHA1, prepared), Some(18));
    let raw = ("admin", "\u{2168}", "\u{2163}");
    assert_eq!(log_in(&mut world, conn, SHA1, raw), None);
    // A name is not prepared.
    assert_eq!(
        log_in(&mut world, conn, SHA256, ("admin", "I\u{ad}X", "IX")),
        Some(18)
    );
}

#[test]
fn a_digested_password_works_for_scram_sha_1() {
    let (mut world, root) = world();
    let digest = "1c33006ec1ffd90f9cadcbcc0e118200";
    let mut create = doc! {
        "createUser": "user", "pwd": digest, "roles": [], "digestPassword": false, "$db": "admin",
    };
    assert_eq!(code(&run(&mut world, root, create.clone())), Some(2));
    create.insert("mechanisms", vec!["SCRAM-SHA-1"]);
    assert_eq!(code(&run(&mut world, root, create)), None);
    let conn = world.connect(0);
    assert_eq!(
        log_in(&mut world, conn, SHA1, ("admin", "user", "pencil")),
        None
    );
}

#[test]
fn users_can_be_changed_listed_and_dropped() {
    let (mut world, root) = world();
    let create = doc! {
        "createUser": "eve", "pwd": "apple", "roles": [{ "role": "read", "db": "app" }],
        "$db": "app",
    };
    assert_eq!(code(&run(&mut world, root, create)), None);
    let update = doc! { "updateUser": "eve", "pwd": "pear", "$db": "app" };
    assert_eq!(code(&run(&mut world, root, update)), None);
    let conn = world.connect(0);
    assert_eq!(
        log_in(&mut world, conn, SHA256, ("app", "eve", "apple")),
        Some(18)
    );
    assert_eq!(
        log_in(&mut world, conn, SHA256, ("app", "eve", "pear")),
        None
    );

    let names = |world: &mut World, wanted: bson::Bson| {
        let reply = run(world, root, doc! { "usersInfo": wanted, "$db": "app" });
        let users = reply.get_array("users").expect("users").clone();
        let names = users.into_iter().map(|user| {
            let user = user.as_document().cloned().expect("a document");
            user.get_str("_id").expect("a name").to_owned()
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&mut world, "eve".into()), ["app.eve"]);
    assert_eq!(names(&mut world, 1.into()), ["app.eve"]);
    assert_eq!(
        names(&mut world, doc! { "user": "ada", "db": "admin" }.into()),
        ["admin.ada"]
    );
    assert_eq!(
        names(&mut world, doc! { "forAllDBs": true }.into()).len(),
        4
    );

    let find = doc! { "find": "c", "$db": "app" };
    assert_eq!(code(&run(&mut world, conn, find.clone())), None);
    let update = doc! { "updateUser": "eve", "roles": [], "$db": "app" };
    assert_eq!(code(&run(&mut world, root, update)), None);
    assert_eq!(
        code(&run(&mut world, conn, find)),
        Some(13),
        "the role is lost"
    );
    assert_eq!(user(&mut world, conn).as_deref(), Some("eve"));

    let drop = doc! { "dropUser": "eve", "$db": "app" };
    assert_eq!(code(&run(&mut world, root, drop.clone())), None);
    assert_eq!(code(&run(&mut world, root, drop)), Some(11));
    let update = doc! { "updateUser": "eve", "pwd": "fig", "$db": "app" };
    assert_eq!(code(&run(&mut world, root, update)), Some(11));
    let all = doc! { "dropAllUsersFromDatabase": 1, "$db": "admin" };
    assert_eq!(run(&mut world, root, all).get_i32("n").ok(), Some(3));
    // Authentication stays required without users, and the logins end.
    let find = doc! { "find": "c", "$db": "x" };
    let reply = run(&mut world, root, find);
    let text = reply.get_str("errmsg").expect("a message");
    assert_eq!(text, "Command find requires authentication");
}

#[test]
fn commands_on_users_check_their_fields() {
    let (mut world, root) = world();
    for (command, expected) in [
        (doc! { "createUser": "x", "pwd": "x" }, 40414),
        (doc! { "createUser": "x", "roles": [] }, 2),
        (doc! { "createUser": "", "pwd": "x", "roles": [] }, 2),
        (doc! { "createUser": "x", "pwd": 1, "roles": [] }, 14),
        (doc! { "createUser": "x", "pwd": "", "roles": [] }, 2),
        (doc! { "createUser": "x", "pwd": "x", "roles": ["fly"] }, 31),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "mechanisms": [] },
            2,
        ),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "mechanisms": ["PLAIN"] },
            2,
        ),
        (doc! { "createUser": "x", "pwd": "\u{7}", "roles": [] }, 2),
        (doc! { "usersInfo": true }, 14),
    ] {
        let mut command = command;
        command.insert("$db", "admin");
        let reply = run(&mut world, root, command.clone());
        assert_eq!(code(&reply), Some(expected), "{command}: {reply}");
    }
}

#[test]
fn roles_decide_which_commands_are_permitted() {
    let (mut world, _) = world();
    let conn = world.connect(0);
    log_in_as(&mut world, conn, "rea");
    for (command, is_permitted) in [
        (doc! { "find": "c", "$db": "app" }, true),
        (doc! { "find": "c", "$db": "other" }, false),
        (
            doc! { "insert": "c", "documents": [{}], "$db": "app" },
            false,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }], "cursor": {}, "$db": "app" },
            false,
        ),
        (doc! { "dropDatabase": 1, "$db": "app" }, false),
        (
            doc! { "createUser": "x", "pwd": "x", "roles": [], "$db": "app" },
            false,
        ),
        (doc! { "serverStatus": 1, "$db": "admin" }, false),
        (doc! { "usersInfo": "rea", "$db": "admin" }, true),
        (doc! { "usersInfo": "ada", "$db": "admin" }, false),
        (doc! { "ping": 1, "$db": "admin" }, true),
    ] {
        let reply = run(&mut world, conn, command.clone());
        let expected = (!is_permitted).then_some(13);
        assert_eq!(code(&reply), expected, "{command}: {reply}");
        if !is_permitted {
            let text = reply.get_str("errmsg").expect("a message");
            assert!(text.starts_with("not authorized on "), "{text}");
        }
    }
    let nobody = world.connect(0);
    log_in_as(&mut world, nobody, "nob");
    assert_eq!(
        code(&run(&mut world, nobody, doc! { "find": "c", "$db": "app" })),
        Some(13)
    );
}

#[test]
fn a_user_sees_the_databases_on_which_it_has_a_privilege() {
    let (mut world, conn) = world();
    for database in ["app", "other"] {
        let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": database };
        assert_eq!(code(&run(&mut world, conn, insert)), None);
    }
    let list = |more: Document| {
        let mut command = doc! { "listDatabases": 1, "nameOnly": true, "$db": "admin" };
        command.extend(more);
        command
    };
    let reader = world.connect(0);
    log_in_as(&mut world, reader, "rea");
    for (conn, more, expected) in [
        (
            conn,
            doc! {},
            &["admin", "app", "config", "local", "other"][..],
        ),
        (
            conn,
            doc! { "authorizedDatabases": false },
            &["admin", "app", "config", "local", "other"],
        ),
        (reader, doc! {}, &["app"]),
        (reader, doc! { "authorizedDatabases": true }, &["app"]),
    ] {
        let reply = run(&mut world, conn, list(more));
        let found = reply.get_array("databases").expect("a list").iter();
        let names = found.filter_map(|entry| entry.as_document()?.get_str("name").ok());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{reply}");
    }
    let reply = run(
        &mut world,
        reader,
        list(doc! { "authorizedDatabases": false }),
    );
    assert_eq!(code(&reply), Some(13), "{reply}");
}

#[test]
fn the_error_of_a_refused_command_shows_no_password() {
    let (mut world, _) = world();
    let reader = world.connect(0);
    log_in_as(&mut world, reader, "rea");
    let create = doc! { "createUser": "x", "pwd": "top-secret", "roles": [], "$db": "admin" };
    let text = run(&mut world, reader, create).to_string();
    assert!(
        text.contains("xxx") && !text.contains("top-secret"),
        "{text}"
    );
}

#[test]
fn connection_status_shows_the_user_its_roles_and_privileges() {
    let (mut world, _) = world();
    let conn = world.connect(0);
    let status = doc! { "connectionStatus": 1, "showPrivileges": true, "$db": "admin" };
    let reply = run(&mut world, conn, status.clone());
    let info = reply.get_document("authInfo").expect("a document");
    for field in [
        "authenticatedUsers",
        "authenticatedUserRoles",
        "authenticatedUserPrivileges",
    ] {
        assert!(info.get_array(field).expect("a list").is_empty(), "{field}");
    }
    log_in_as(&mut world, conn, "rea");
    let reply = run(&mut world, conn, status);
    let info = reply.get_document("authInfo").expect("a document");
    let roles = info.get_array("authenticatedUserRoles").expect("a list");
    assert_eq!(roles, &vec![doc! { "role": "read", "db": "app" }.into()]);
    assert_eq!(
        info.get_array("authenticatedUserPrivileges")
            .map(Vec::len)
            .ok(),
        Some(1)
    );
    assert_eq!(user(&mut world, conn).as_deref(), Some("rea"));
    run(&mut world, conn, doc! { "logout": 1, "$db": "app" });
    assert_eq!(
        user(&mut world, conn).as_deref(),
        Some("rea"),
        "another database"
    );
    run(&mut world, conn, doc! { "logout": 1, "$db": "admin" });
    assert_eq!(user(&mut world, conn), None);
}

#[test]
fn all_members_and_routers_have_the_same_users() {
    let create = doc! { "createUser": "eve", "pwd": "pencil", "roles": ["root"], "$db": "admin" };
    for (mut options, other) in [
        (set_of(3), Some(10107)),
        (
            DeploymentOptions::sharded(vec![Address::tcp("r", 1), Address::tcp("r", 2)]),
            Some(51003),
        ),
    ] {
        options.users.push(User::new("ada", "pencil"));
        let mut world = World::new(options, 1);
        let conns = [world.connect(0), world.connect(1)];
        for conn in conns {
            log_in_as(&mut world, conn, "ada");
        }
        assert_eq!(code(&run(&mut world, conns[0], create.clone())), None);
        assert_eq!(code(&run(&mut world, conns[1], create.clone())), other);
        log_in_as(&mut world, conns[1], "eve");
        let find = doc! {
            "find": "c", "$readPreference": { "mode": "nearest" }, "$db": "d",
        };
        assert_eq!(code(&run(&mut world, conns[1], find)), None);
    }
}
