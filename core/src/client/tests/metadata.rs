//! Tests of the client metadata in handshakes after a driver info was appended to an existing
//! client.

use super::*;
use crate::hello::{DriverInfo, Environment};
use std::time::Duration;

const URI: &str = "mongodb://a/?directConnection=true&serverMonitoringMode=poll&maxIdleTimeMS=1";

/// The driver's own name, version and platform.
const OWN: [&str; 3] = ["onionskin", env!("CARGO_PKG_VERSION"), "Rust"];

fn info(name: &str, version: Option<&str>, platform: Option<&str>) -> DriverInfo {
    DriverInfo {
        name: name.to_owned(),
        version: version.map(str::to_owned),
        platform: platform.map(str::to_owned),
    }
}

fn library() -> DriverInfo {
    info("library", Some("1.2"), Some("Library Platform"))
}

fn framework() -> DriverInfo {
    info("framework", Some("2.0"), Some("Framework Platform"))
}

/// Returns a world with one standalone server. The client is built with this driver info.
fn world(initial: Option<DriverInfo>) -> World {
    let mut options = uri::parse(URI).expect("a connection string").options;
    options.driver_info = initial;
    let environment = Environment::default();
    let config =
        ClientConfig::with_environment(options, Seed::new([5; 32]), &environment).expect("options");
    World::with_config(config, rawdoc! { "ok": 1, "maxWireVersion": 21 })
}

/// Runs a ping on a new connection and returns the `client` document of its handshake. The function
/// waits for longer than `maxIdleTimeMS`, so the pool does not use an earlier connection.
fn sent_metadata(world: &mut World) -> Document {
    world.wait(Duration::from_millis(5));
    let (dialled, before) = (world.dialled.len(), world.messages.len());
    let after = world.perform(ping(), &rawdoc! { "ok": 1 });
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    assert_eq!(world.dialled.len(), dialled + 1, "a new connection");
    let hello = World::decoded(&world.messages[before]);
    hello.get_document("client").expect("a handshake").clone()
}

/// Splits the `client` document into the driver's name, version and platform, and the other fields.
fn split(mut client: Document) -> ([String; 3], Document) {
    let driver = client.remove("driver").expect("a driver");
    let driver = driver.as_document().expect("a document");
    let platform = client.remove("platform").expect("a platform");
    let texts = [driver.get("name"), driver.get("version"), Some(&platform)];
    let texts = texts.map(|text| {
        text.and_then(bson::Bson::as_str)
            .expect("a text")
            .to_owned()
    });
    (texts, client)
}

/// Returns the name, version and platform that new connections send: first for a client that was
/// built with `initial`, then after each of `appended`. Asserts that the other fields of the
/// `client` document do not change.
fn history(initial: Option<DriverInfo>, appended: &[DriverInfo]) -> Vec<[String; 3]> {
    let mut world = world(initial);
    let (first, rest) = split(sent_metadata(&mut world));
    let mut all = vec![first];
    for info in appended {
        world.client.append_metadata(info).expect("a valid info");
        let (texts, others) = split(sent_metadata(&mut world));
        assert_eq!(others, rest);
        all.push(texts);
    }
    all
}

/// Returns the driver's own name, version and platform, each with a suffix.
fn own(suffixes: [&str; 3]) -> [String; 3] {
    [0, 1, 2].map(|i| format!("{}{}", OWN[i], suffixes[i]))
}

/// The driver infos that the handshake prose tests U1 and U2 append after `library`, and the
/// expected metadata.
fn frameworks() -> [(DriverInfo, [String; 3]); 4] {
    let (version, platform) = (Some("2.0"), Some("Framework Platform"));
    let names = "|library|framework";
    let (versions, platforms) = ("|1.2|2.0", "|Library Platform|Framework Platform");
    [
        (framework(), own([names, versions, platforms])),
        (
            info("framework", version, None),
            own([names, versions, "|Library Platform"]),
        ),
        (
            info("framework", None, platform),
            own([names, "|1.2", platforms]),
        ),
        (
            info("framework", None, None),
            own([names, "|1.2", "|Library Platform"]),
        ),
    ]
}

#[test]
fn prose_1_the_driver_updates_metadata() {
    // A driver info (HELLO-43) can be appended later (HELLO-47). The info replaces nothing: values
    // are joined by a vertical bar (HELLO-44, HELLO-50).
    for (appended, expected) in frameworks() {
        let sent = history(Some(library()), &[appended]);
        assert_eq!(sent[0], own(["|library", "|1.2", "|Library Platform"]));
        assert_eq!(sent[1], expected);
    }
}

#[test]
fn prose_2_multiple_successive_metadata_updates() {
    // Each info is appended to the earlier ones (HELLO-47) and replaces none (HELLO-50).
    for (appended, expected) in frameworks() {
        let sent = history(None, &[library(), appended]);
        assert_eq!(sent[0], own([""; 3]));
        assert_eq!(sent[2], expected);
    }
}

#[test]
fn prose_3_updates_with_duplicate_data() {
    // An info is a duplicate only if name, version and platform are all equal (HELLO-49).
    let (version, platform) = (Some("1.2"), Some("Library Platform"));
    for second in [
        library(),
        info("framework", version, platform),
        info("library", Some("2.0"), platform),
        info("library", version, Some("Framework Platform")),
        info("framework", Some("2.0"), platform),
        info("framework", version, Some("Framework Platform")),
        info("library", Some("2.0"), Some("Framework Platform")),
    ] {
        let sent = history(None, &[library(), second.clone()]);
        let first = &sent[1];
        if second == library() {
            assert_eq!(sent[2], *first);
            continue;
        }
        let texts = [&second.name, second.version.as_ref().expect("one"), {
            second.platform.as_ref().expect("one")
        }];
        let expected = [0, 1, 2].map(|i| format!("{}|{}", first[i], texts[i]));
        assert_eq!(sent[2], expected);
    }
}

#[test]
fn prose_4_a_duplicate_after_another_info_adds_nothing() {
    // A duplicate is not appended, even after another info (HELLO-49).
    let sent = history(None, &[library(), framework(), library()]);
    assert_eq!(sent[2], frameworks()[0].1);
    assert_eq!(sent[3], sent[2]);
}

#[test]
fn prose_5_and_6_metadata_that_is_identical_to_the_initial_one_is_not_appended() {
    // A duplicate of an initial info is not appended (HELLO-49).
    let sent = history(Some(library()), &[library()]);
    assert_eq!(sent[1], sent[0]);
    let sent = history(Some(library()), &[framework(), library()]);
    assert_eq!(sent[1], frameworks()[0].1);
    assert_eq!(sent[2], sent[1]);
}

#[test]
fn prose_7_and_8_empty_strings_are_unset() {
    // An empty string counts as unset (HELLO-46).
    let (version, platform) = (Some("1.2"), Some("Library Platform"));
    for (unset, empty) in [
        (
            info("library", None, platform),
            info("library", Some(""), platform),
        ),
        (
            info("library", version, None),
            info("library", version, Some("")),
        ),
    ] {
        for (first, second) in [(&unset, &empty), (&empty, &unset)] {
            let appended = [first.clone(), second.clone()];
            let sent = history(None, &appended);
            assert_ne!(sent[1], sent[0]);
            assert_eq!(sent[2], sent[1]);
            let sent = history(appended.first().cloned(), &appended[1..]);
            assert_eq!(sent[1], sent[0]);
        }
    }
}

#[test]
fn appending_metadata_sends_nothing_and_opens_or_closes_no_connection() {
    // Appended metadata applies to new connections only (HELLO-48), as in the official test
    // `metadata-not-propagated`.
    let mut world = World::new(
        "mongodb://a/?directConnection=true&serverMonitoringMode=poll",
        rawdoc! { "ok": 1, "maxWireVersion": 21 },
    );
    world.perform(ping(), &rawdoc! { "ok": 1 });
    let counts = |world: &World| {
        (
            world.dialled.len(),
            world.messages.len(),
            world.closed.len(),
        )
    };
    let before = counts(&world);
    world
        .client
        .append_metadata(&framework())
        .expect("a valid info");
    assert!(harness::next(&mut world).is_none());
    world.run();
    world.perform(ping(), &rawdoc! { "ok": 1 });
    assert_eq!(counts(&world), before);
}

#[test]
fn invalid_driver_info_is_refused() {
    // A string with the separator is an error (HELLO-45), and so is an empty name.
    let mut world = world(Some(library()));
    let before = sent_metadata(&mut world);
    for bad in [info("a|b", None, None), info("", Some("1"), None)] {
        world.client.append_metadata(&bad).expect_err("not valid");
    }
    assert_eq!(sent_metadata(&mut world), before);
}

#[test]
fn appended_metadata_is_truncated_to_512_bytes() {
    // The `client` document has at most 512 bytes (HELLO-32) and is shortened if needed (HELLO-34),
    // also after an info was appended (HELLO-47).
    let mut world = world(None);
    for index in 0..60 {
        let platform = format!("platform number {index}");
        let info = info(&format!("l{index}"), None, Some(&platform));
        world.client.append_metadata(&info).expect("a valid info");
    }
    let client = sent_metadata(&mut world);
    let bytes = RawDocumentBuf::try_from(&client).expect("BSON");
    assert!(bytes.as_bytes().len() <= 512);
    let name = client
        .get_document("driver")
        .and_then(|d| d.get_str("name"));
    let name = name.expect("a name");
    assert!(
        name.starts_with("onionskin|l0|l1|") && name.ends_with("|l59"),
        "{name}"
    );
}
