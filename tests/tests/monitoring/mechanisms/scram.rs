//! The prose tests of SCRAM and of the negotiation of mechanisms.

use crate::scene::{Scene, authenticated, play, replica_set_of};
use bson::{Bson, doc};
use onionskin_core::{
    error::{Error, ErrorKind},
    options::{AuthMechanism, Credential},
    uri,
};
use onionskin_deployment::deployment::Deployment;

/// The options of all clients. Writes and reads are not retried, so that each login counts.
const OPTIONS: &str = "retryReads=false";

/// Creates a user with these mechanisms, from the exact characters of its name and password.
async fn create_user(scene: &Scene, name: &str, password: &str, mechanisms: &[&str]) {
    let mechanisms: Vec<Bson> = mechanisms.iter().map(|&m| m.into()).collect();
    let command = doc! {
        "createUser": name, "pwd": password, "roles": ["root"], "mechanisms": mechanisms,
    };
    scene.tell(0, command).await;
}

/// Logs in and runs `dbStats`. Returns the mechanism by which the server authenticated the only
/// connection with a user.
async fn log_in(scene: &Scene, credential: Credential) -> Result<&'static str, Error> {
    let watched = scene.client_as(OPTIONS, credential);
    let stats = watched
        .client
        .database("app")
        .run_command(doc! { "dbStats": 1 })
        .await;
    let used = scene.operator.inspect(Deployment::login_mechanisms);
    watched.end().await;
    stats?;
    assert_eq!(used.len(), 1, "{used:?}");
    Ok(used[0].name())
}

fn credential(name: &str, password: &str, mechanism: Option<AuthMechanism>) -> Credential {
    let mut credential = Credential::password(name, password);
    credential.mechanism = mechanism;
    credential
}

fn is_refused(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Authentication { .. }) && error.code() == Some(18)
}

/// Returns the credential in a connection string.
fn in_string(string: &str) -> Credential {
    let parsed = uri::parse(string).expect("a connection string");
    parsed.options.credential.expect("a credential")
}

/// SCRAM prose 1 to 3: users with one or both mechanisms, named mechanisms (AUTH-29) and
/// negotiation (AUTH-30) in code and in connection strings, and unknown users.
#[test]
fn each_user_logs_in_with_its_mechanisms_and_no_other() {
    const ONE: &str = "SCRAM-SHA-1";
    const TWO: &str = "SCRAM-SHA-256";
    play([authenticated(replica_set_of(1))], |scene| async move {
        let users: [(&str, &[&str]); 3] =
            [("sha1", &[ONE]), ("sha256", &[TWO]), ("both", &[ONE, TWO])];
        for (name, mechanisms) in users {
            create_user(&scene, name, name, mechanisms).await;
            for mechanism in [
                None,
                Some(AuthMechanism::ScramSha1),
                Some(AuthMechanism::ScramSha256),
            ] {
                let named = mechanism.map(AuthMechanism::name);
                let option = named.map_or_else(String::new, |m| format!("authMechanism={m}"));
                let string = format!("mongodb://{name}:{name}@member0/admin?{option}");
                for credential in [credential(name, name, mechanism), in_string(&string)] {
                    let result = log_in(&scene, credential).await;
                    match named {
                        // With both mechanisms the negotiation chooses SCRAM-SHA-256.
                        None => assert_eq!(result.ok().as_ref(), mechanisms.last(), "{name}"),
                        Some(named) if mechanisms.contains(&named) => {
                            assert_eq!(result.ok(), Some(named), "{name}");
                        }
                        Some(named) => {
                            let error = result.expect_err("the user does not have the mechanism");
                            assert!(is_refused(&error), "{name} {named}: {error}");
                        }
                    }
                }
            }
        }
        // An unknown user fails like a wrong password.
        for (name, password) in [("nobody", "x"), ("both", "x")] {
            let error = log_in(&scene, credential(name, password, None)).await;
            let error = error.expect_err("a wrong login");
            assert!(is_refused(&error), "{error}");
        }
    });
}

/// SCRAM prose 4: passwords are prepared with SASLprep and user names are not, in code and in
/// connection strings.
#[test]
fn passwords_in_both_forms_of_saslprep_log_in() {
    play([authenticated(replica_set_of(1))], |scene| async move {
        create_user(&scene, "IX", "IX", &["SCRAM-SHA-256"]).await;
        create_user(&scene, "\u{2168}", "\u{2163}", &["SCRAM-SHA-256"]).await;
        for (name, password, encoded) in [
            ("IX", "IX", "IX:IX"),
            ("IX", "I\u{ad}X", "IX:I%C2%ADX"),
            ("\u{2168}", "IV", "%E2%85%A8:IV"),
            ("\u{2168}", "I\u{ad}V", "%E2%85%A8:I%C2%ADV"),
        ] {
            let in_code = credential(name, password, None);
            let in_string = in_string(&format!("mongodb://{encoded}@member0/admin"));
            for credential in [in_code, in_string] {
                let result = log_in(&scene, credential).await;
                assert_eq!(result.ok(), Some("SCRAM-SHA-256"), "{encoded}");
            }
        }
        // The name in the other form is another user.
        let error = log_in(&scene, credential("I\u{ad}X", "IX", None)).await;
        assert!(is_refused(&error.expect_err("no such user")));
    });
}
