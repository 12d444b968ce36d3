//! Tests of the client metadata.

use super::*;
use crate::hello::OsFacts;
use bson::{RawDocument, rawdoc};
use proptest::prelude::*;

fn os() -> OsFacts {
    OsFacts {
        name: Some("Debian GNU/Linux 13".to_owned()),
        version: Some("6.12".to_owned()),
        ..OsFacts::from_target("linux", "x86_64")
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name)?;
        Some(found.1.to_owned())
    };
    Environment::from_lookup(lookup, false, os())
}

fn metadata(variables: &[(&str, &str)]) -> ClientMetadata {
    ClientMetadata::new(None, &environment(variables), &[]).expect("nothing is wrong with it")
}

fn info(name: &str, version: Option<&str>, platform: Option<&str>) -> DriverInfo {
    DriverInfo {
        name: name.to_owned(),
        version: version.map(str::to_owned),
        platform: platform.map(str::to_owned),
    }
}

/// Returns the driver's name, version and platform of a document with these libraries appended.
fn joined(infos: &[DriverInfo]) -> [String; 3] {
    let metadata = ClientMetadata::new(None, &environment(&[]), infos).expect("valid infos");
    let driver = metadata.document().get_document("driver").expect("driver");
    let text = |document: &RawDocument, key| document.get_str(key).expect("a text").to_owned();
    [
        text(driver, "name"),
        text(driver, "version"),
        text(metadata.document(), "platform"),
    ]
}

fn own(suffixes: [&str; 3]) -> [String; 3] {
    [DRIVER_NAME, DRIVER_VERSION, PLATFORM]
        .into_iter()
        .zip(suffixes)
        .map(|(own, suffix)| format!("{own}{suffix}"))
        .collect::<Vec<_>>()
        .try_into()
        .expect("three in, three out")
}

#[test]
fn the_nine_prose_test_environments_give_the_expected_env() {
    // Cases 1 to 9 of handshake prose 1 show the rules for function services (HELLO-22 to
    // HELLO-27), for Kubernetes (HELLO-29) and for both (HELLO-31).
    let long = "a".repeat(512);
    let lambda = ("AWS_EXECUTION_ENV", "AWS_Lambda_java8");
    let region = ("AWS_REGION", "us-east-2");
    let memory = ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024");
    let azure = ("FUNCTIONS_WORKER_RUNTIME", "node");
    let kubernetes = ("KUBERNETES_SERVICE_HOST", "1");
    let gcp = [
        ("K_SERVICE", "servicename"),
        ("FUNCTION_MEMORY_MB", "1024"),
        ("FUNCTION_TIMEOUT_SEC", "60"),
        ("FUNCTION_REGION", "us-central1"),
    ];
    let cases: [(&[(&str, &str)], _); 9] = [
        (
            &[lambda, region, memory],
            Some(rawdoc! { "name": "aws.lambda", "memory_mb": 1024, "region": "us-east-2" }),
        ),
        (&[azure], Some(rawdoc! { "name": "azure.func" })),
        (
            &gcp,
            Some(rawdoc! {
                "name": "gcp.func", "timeout_sec": 60, "memory_mb": 1024, "region": "us-central1",
            }),
        ),
        (
            &[("VERCEL", "1"), ("VERCEL_REGION", "cdg1")],
            Some(rawdoc! { "name": "vercel", "region": "cdg1" }),
        ),
        (&[lambda, azure], None),
        (
            &[lambda, ("AWS_REGION", &long)],
            Some(rawdoc! { "name": "aws.lambda" }),
        ),
        (
            &[lambda, ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "big")],
            Some(rawdoc! { "name": "aws.lambda" }),
        ),
        (&[("AWS_EXECUTION_ENV", "EC2")], None),
        (
            &[lambda, region, memory, kubernetes],
            Some(rawdoc! {
                "name": "aws.lambda", "memory_mb": 1024, "region": "us-east-2",
                "container": { "orchestrator": "kubernetes" },
            }),
        ),
    ];
    for (number, (variables, expected)) in cases.into_iter().enumerate() {
        let metadata = metadata(variables);
        let env = metadata.document().get_document("env").ok();
        assert_eq!(env, expected.as_deref(), "case {}", number + 1);
    }
}

#[test]
fn an_invalid_faas_number_omits_only_its_own_field() {
    // A value that is not an int32 leaves out the field of its variable alone (HELLO-27).
    let metadata = metadata(&[
        ("FUNCTION_NAME", "f"),
        ("FUNCTION_MEMORY_MB", "2147483648"),
        ("FUNCTION_TIMEOUT_SEC", "1.5"),
        ("FUNCTION_REGION", "x"),
    ]);
    let expected = rawdoc! { "name": "gcp.func", "region": "x" };
    assert_eq!(
        metadata.document().get_document("env").ok(),
        Some(&*expected)
    );
}

#[test]
fn a_container_is_reported_without_a_faas_service() {
    // All five fields of `client` are present (HELLO-13), with free text in `platform` (HELLO-20).
    // The file `.dockerenv` gives the runtime (HELLO-28), and the variable of Kubernetes gives the
    // orchestrator (HELLO-29). Without both, `env.container` would be absent (HELLO-30).
    let lookup = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "::1".to_owned());
    let environment = Environment::from_lookup(lookup, true, OsFacts::default());
    let metadata = ClientMetadata::new(Some("app"), &environment, &[]).expect("valid");
    let expected = rawdoc! {
        "application": { "name": "app" },
        "driver": { "name": DRIVER_NAME, "version": DRIVER_VERSION },
        "os": { "type": "unknown" },
        "platform": PLATFORM,
        "env": { "container": { "runtime": "docker", "orchestrator": "kubernetes" } },
    };
    assert_eq!(metadata.document(), &*expected);
}

#[test]
fn oversized_metadata_is_truncated_in_the_specified_order() {
    // The order of shortening (HELLO-34) is: all of `env` but its name, all of `os` but its type,
    // `env`, then the platform.
    let build = |region: usize, os_name: usize, platform: usize| {
        let region = "r".repeat(region);
        let variables = [("VERCEL", "1"), ("VERCEL_REGION", region.as_str())];
        let lookup = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(found.1.to_owned())
        };
        let os = OsFacts {
            name: Some("n".repeat(os_name)),
            ..os()
        };
        let environment = Environment::from_lookup(lookup, false, os);
        let infos = [info("lib", None, Some(&"p".repeat(platform)))];
        let metadata = ClientMetadata::new(None, &environment, &infos).expect("valid");
        let document = metadata.document();
        let env = document.get_document("env").ok();
        let platform = document.get_str("platform").expect("a platform");
        (
            env.is_some_and(|env| env.get_str("region").is_ok()),
            document
                .get_document("os")
                .expect("os")
                .get_str("name")
                .is_ok(),
            env.is_some(),
            platform.len() - PLATFORM.len() - 1,
        )
    };
    assert_eq!(build(10, 10, 10), (true, true, true, 10));
    assert_eq!(build(500, 10, 10), (false, true, true, 10));
    assert_eq!(build(500, 500, 10), (false, false, true, 10));
    let whole_platform = (350..450).filter(|&n| build(10, 10, n) == (false, false, false, n));
    // The platform is truncated only if it does not fit after the removal of `env`. So the number
    // of lengths at which it is whole without `env` is the number of bytes that `env` occupied.
    let env = rawdoc! { "env": { "name": "vercel" } }.as_bytes().len() - 5;
    assert_eq!(whole_platform.count(), env);
    let (_, _, env, left) = build(10, 10, 600);
    assert!(!env && (300..600).contains(&left), "{left}");
}

#[test]
fn the_application_name_is_limited_in_bytes() {
    // The limit of 128 bytes counts bytes and not characters (HELLO-33).
    let build = |name: &str| ClientMetadata::new(Some(name), &environment(&[]), &[]);
    assert!(build(&"ä".repeat(64)).is_ok());
    assert!(build(&"ä".repeat(65)).is_err());
    let without = build("").expect("empty means none");
    assert!(without.document().get_document("application").is_err());
}

#[test]
fn each_driver_info_is_appended_after_a_bar_without_unset_fields() {
    // Handshake prose U1 and U2: each value is appended after a separator (HELLO-44), and the
    // values before it stay (HELLO-50).
    let library = info("library", Some("1.2"), Some("Library Platform"));
    for (second, suffixes) in [
        (
            info("framework", Some("2.0"), Some("Framework Platform")),
            [
                "|library|framework",
                "|1.2|2.0",
                "|Library Platform|Framework Platform",
            ],
        ),
        (
            info("framework", Some("2.0"), None),
            ["|library|framework", "|1.2|2.0", "|Library Platform"],
        ),
        (
            info("framework", None, Some("Framework Platform")),
            [
                "|library|framework",
                "|1.2",
                "|Library Platform|Framework Platform",
            ],
        ),
        (
            info("framework", None, None),
            ["|library|framework", "|1.2", "|Library Platform"],
        ),
    ] {
        assert_eq!(joined(&[library.clone(), second]), own(suffixes));
    }
}

#[test]
fn a_driver_info_is_dropped_only_if_equal_to_an_earlier_one() {
    // Handshake prose U3 to U6: an info is dropped only if name, version and platform equal those
    // of an earlier one (HELLO-49).
    let library = info("library", Some("1.2"), Some("Library Platform"));
    let once = own(["|library", "|1.2", "|Library Platform"]);
    assert_eq!(joined(&[library.clone(), library.clone()]), once);
    let framework = info("framework", Some("1.2"), Some("Library Platform"));
    let both = own([
        "|library|framework",
        "|1.2|1.2",
        "|Library Platform|Library Platform",
    ]);
    let pair = [library.clone(), framework.clone()];
    assert_eq!(joined(&pair), both);
    assert_eq!(joined(&[library.clone(), framework, library.clone()]), both);
    for (name, version, platform) in [
        ("library", "2.0", "Library Platform"),
        ("library", "1.2", "Other"),
        ("Library", "1.2", "Library Platform"),
    ] {
        let suffixes = [
            format!("|library|{name}"),
            format!("|1.2|{version}"),
            format!("|Library Platform|{platform}"),
        ];
        let other = info(name, Some(version), Some(platform));
        let expected = own(suffixes.each_ref().map(String::as_str));
        assert_eq!(joined(&[library.clone(), other]), expected);
    }
}

#[test]
fn an_empty_driver_info_field_counts_as_unset() {
    // Handshake prose U7 and U8: an empty text counts as unset (HELLO-46).
    for (first, second) in [
        ((None, Some("p")), (Some(""), Some("p"))),
        ((Some("1"), None), (Some("1"), Some(""))),
        ((Some(""), None), (None, Some(""))),
    ] {
        let first = info("library", first.0, first.1);
        let second = info("library", second.0, second.1);
        let one = joined(std::slice::from_ref(&first));
        assert_eq!(joined(&[first, second]), one);
    }
}

#[test]
fn a_driver_info_with_a_separator_or_without_a_name_is_refused() {
    // A string with the separator is an error (HELLO-45), and so is an empty name.
    for bad in [
        info("a|b", None, None),
        info("a", Some("|"), None),
        info("a", None, Some("x|y")),
        info("", Some("1"), None),
    ] {
        assert!(ClientMetadata::new(None, &environment(&[]), &[bad]).is_err());
    }
}

#[test]
fn the_drivers_own_name_and_version_are_never_truncated() {
    // The name and the version of the library are truncated, and those of the driver stay
    // (HELLO-17).
    let long = info(&"n".repeat(600), Some(&"v".repeat(600)), None);
    let metadata = ClientMetadata::new(None, &environment(&[]), &[long]).expect("valid");
    let driver = metadata.document().get_document("driver").expect("driver");
    let name = driver.get_str("name").expect("a name");
    assert!(name.starts_with("onionskin|nnn"), "{name}");
    assert_eq!(driver.get_str("version").ok(), Some(DRIVER_VERSION));
    assert_eq!(metadata.document().as_bytes().len(), MAX_METADATA_BYTES);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zä€😀]{0,40}", "[a-zä€😀]{0,600}", Just(String::new())]
}

proptest! {
    #[test]
    fn client_metadata_never_exceeds_the_size_limit(
        app_name in "[a-zä]{0,64}",
        system in (text(), text(), text(), text()),
        variables in prop::collection::vec((0_usize..10, text()), 0..10),
        infos in prop::collection::vec((text(), text(), text()), 0..5),
        docker: bool,
    ) {
        const NAMES: [&str; 10] = [
            "AWS_LAMBDA_RUNTIME_API", "AWS_REGION", "FUNCTIONS_WORKER_RUNTIME", "K_SERVICE",
            "FUNCTION_REGION", "FUNCTION_MEMORY_MB", "VERCEL", "VERCEL_REGION",
            "KUBERNETES_SERVICE_HOST", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        ];
        let lookup = |name: &str| {
            let found = variables.iter().find(|(index, _)| NAMES[*index] == name)?;
            Some(found.1.clone())
        };
        let os = OsFacts {
            kind: system.0,
            name: Some(system.1),
            architecture: Some(system.2),
            version: Some(system.3),
        };
        let environment = Environment::from_lookup(lookup, docker, os);
        let infos: Vec<_> = infos
            .iter()
            .map(|(name, version, platform)| {
                info(&format!("l{name}"), Some(version), Some(platform))
            })
            .collect();
        let metadata = ClientMetadata::new(Some(&app_name), &environment, &infos)
            .expect("no text is refused");
        let document = metadata.document();
        prop_assert!(document.as_bytes().len() <= MAX_METADATA_BYTES);
        prop_assert!(bson::Document::try_from(document).is_ok());
        let driver = document.get_document("driver").expect("required");
        prop_assert!(driver.get_str("name").is_ok_and(|name| name.starts_with("onionskin")));
        let os = document.get_document("os").expect("required");
        prop_assert!(os.get_str("type").is_ok_and(|kind| !kind.is_empty()));
    }
}

#[test]
fn a_driver_info_beyond_the_maximum_number_is_ignored() {
    let mut metadata = ClientMetadata::new(None, &Environment::default(), &[]).expect("it fits");
    for number in 0..MAX_DRIVER_INFOS {
        let info = DriverInfo::new(format!("library{number}"));
        assert_eq!(metadata.append(&info), Ok(true));
    }
    let before = metadata.document().to_owned();
    let info = DriverInfo::new("one too many");
    assert_eq!(metadata.append(&info), Ok(false));
    assert_eq!(metadata.document(), &*before);
}
