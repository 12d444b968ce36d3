//! Tests of the names that a Kerberos library gets.

use super::*;

#[test]
fn each_property_has_its_part_in_the_name_of_the_service() {
    // `SERVICE_NAME` (AUTH-68), `SERVICE_REALM` and `SERVICE_HOST` (AUTH-73), and the realm in the
    // user name (AUTH-75).
    for (user, properties, expected) in [
        ("ada@R", &[][..], "mongodb/localhost@R"),
        ("ada", &[], "mongodb/localhost@"),
        ("ada@", &[], "mongodb/localhost@"),
        ("ada\\@x@R", &[], "mongodb/localhost@R"),
        ("ada", &[("SERVICE_NAME", "other")], "other/localhost@"),
        ("ada@R", &[("service_name", "other")], "other/localhost@R"),
        ("ada@R", &[("SERVICE_REALM", "S")], "mongodb/localhost@S"),
        ("ada", &[("SERVICE_REALM", "S")], "mongodb/localhost@S"),
        ("ada@R", &[("SERVICE_HOST", "db.test")], "mongodb/db.test@R"),
        (
            "ada@R",
            &[
                ("SERVICE_NAME", "a/b@c\\"),
                ("SERVICE_HOST", "x@EVIL/y"),
                ("SERVICE_REALM", "p@q"),
            ],
            "a\\/b\\@c\\\\/x\\@EVIL\\/y@p\\@q",
        ),
    ] {
        let mut credential = credential(properties);
        credential.username = Some(user.to_owned());
        credential.password = Some(Secret::new("pencil"));
        let mut scene = Scene::new(Script::with_steps(2), &credential);
        command(scene.begin());
        let target = scene.target_after(Vec::new());
        assert_eq!(target.service, expected, "{user} {properties:?}");
        assert_eq!(target.username, user);
        assert_eq!(target.password, Some(Secret::new("pencil")));
        assert!(!format!("{target:?}").contains("pencil"));
    }
}

#[test]
fn the_host_gets_its_canonical_name_only_if_the_credential_requires_it() {
    // The values of the property (AUTH-69), no lookup by default (AUTH-70), lower case (AUTH-71),
    // and the given name after an error or an empty result (AUTH-72).
    use CanonicalizeHostName::{Forward, ForwardAndReverse};
    for (value, result, expected, mode) in [
        (None, None, "localhost", None),
        (Some("none"), None, "localhost", None),
        (Some("false"), None, "localhost", None),
        (
            Some("forward"),
            Some(Ok("DB.Test")),
            "db.test",
            Some(Forward),
        ),
        (
            Some("forward"),
            Some(Ok("db.test.")),
            "db.test",
            Some(Forward),
        ),
        (
            Some("forwardAndReverse"),
            Some(Ok("DB.test")),
            "db.test",
            Some(ForwardAndReverse),
        ),
        (
            Some("true"),
            Some(Ok("db.test")),
            "db.test",
            Some(ForwardAndReverse),
        ),
        (Some("forward"), Some(Ok("")), "localhost", Some(Forward)),
        (
            Some("forwardAndReverse"),
            Some(Err("no address")),
            "localhost",
            Some(ForwardAndReverse),
        ),
    ] {
        let mut script = Script::with_steps(2);
        script.canonical = result;
        let property = value.map(|value| ("CANONICALIZE_HOST_NAME", value));
        let properties: Vec<_> = property.into_iter().collect();
        let mut scene = Scene::new(script, &credential(&properties));
        command(scene.begin());
        let lookup = mode.map(|mode| ("localhost".to_owned(), mode));
        let target = scene.target_after(lookup.into_iter().collect());
        let service = format!("mongodb/{expected}@R");
        assert_eq!(target.service, service, "{value:?} {result:?}");
    }
}

#[test]
fn the_canonical_name_of_service_host_replaces_it() {
    // The official drivers for Python and Rust make `SERVICE_HOST` canonical too (AUTH-73).
    let mut script = Script::with_steps(2);
    script.canonical = Some(Ok("db7.test"));
    let properties = [
        ("SERVICE_HOST", "db.test"),
        ("CANONICALIZE_HOST_NAME", "forward"),
    ];
    let mut scene = Scene::new(script, &credential(&properties));
    command(scene.begin());
    let lookup = ("db.test".to_owned(), CanonicalizeHostName::Forward);
    let target = scene.target_after(vec![lookup]);
    assert_eq!(target.service, "mongodb/db7.test@R");
}

#[test]
fn names_with_zero_bytes_and_empty_texts_are_refused() {
    // The interface of Kerberos libraries ends a name at a zero byte: `root\0x@R` would be `root`.
    let change: [fn(&mut Credential); 5] = [
        |credential| credential.username = Some("root\0x@R".to_owned()),
        |credential| credential.password = Some(Secret::new("pen\0cil")),
        |credential| credential.password = Some(Secret::new("")),
        |credential| {
            drop(
                credential
                    .mechanism_properties
                    .insert("SERVICE_HOST".into(), Secret::new("a\0")),
            )
        },
        |credential| {
            drop(
                credential
                    .mechanism_properties
                    .insert("SERVICE_REALM".into(), Secret::new("")),
            )
        },
    ];
    for (case, change) in change.into_iter().enumerate() {
        let mut credential = credential(&[]);
        change(&mut credential);
        assert!(credential.validate().is_err(), "{case}");
        assert!(conversation_of(&credential).is_err(), "{case}");
    }
    let credential = Arc::new(credential(&[]));
    let conversation = Conversation::new(&credential, "a\0b", None, &mut random());
    let mut scene = Scene::new(Script::with_steps(2), &credential);
    scene.conversation = conversation.expect("the host is checked by the first step");
    let (message, _) = failed(scene.begin());
    assert!(message.contains("zero byte"), "{message}");
}
