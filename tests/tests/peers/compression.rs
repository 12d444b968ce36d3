//! Compressed messages of drivers that other people wrote, with the simulated servers.
//!
//! The servers compress with code of their own, so that these tests show that the client, which is
//! tested with the same servers, uses the formats of other drivers (COMP-31).

use onionskin_core::options::Compressor;
use onionskin_deployment::deployment::CompressedReplies;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::peers;
use std::{path::Path, process::Command, time::Duration};

/// The time limit of one run of a driver.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a driver with this compressor. Checks that the messages of both sides were compressed, and
/// that no command was that must not be (COMP-18).
fn run(driver: &impl Fn(&str) -> Command, compressor: Compressor, replies: CompressedReplies) {
    let mut options = ServeOptions::standalone();
    options.compression.replies = replies;
    let server = Embedded::start(options).expect("a server");
    let name = compressor.name();
    let uri = format!("mongodb://{}/?compressors={name}", server.addresses()[0]);
    let output = peers::run(driver(&uri), RUN_TIMEOUT).expect("the driver runs");
    assert!(output.status.success(), "{name}: {output:?}");
    assert!(output.stdout.contains("read: 60"), "{name}: {output:?}");
    let counts = server.status().expect("it runs").compression;
    assert!(counts.requests_by(compressor) > 8, "{name}: {counts:?}");
    match replies {
        CompressedReplies::Never => assert_eq!(counts.replies, [0; 4], "{name}"),
        _ => assert!(counts.replies_by(compressor) > 8, "{name}: {counts:?}"),
    }
    assert_eq!(counts.forbidden, 0, "{name}");
    println!("SUITE: {name}: {counts:?}");
}

fn run_all(driver: impl Fn(&str) -> Command, compressors: &[Compressor]) {
    for compressor in compressors {
        for replies in [CompressedReplies::AsRequested, CompressedReplies::Never] {
            run(&driver, *compressor, replies);
        }
    }
}

#[test]
fn pymongo_exchanges_compressed_messages() {
    let Some(interpreter) = peers::python_with_pymongo() else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pymongo/compressed.py");
    let driver = |uri: &str| {
        let mut command = Command::new(&interpreter);
        command.arg(Path::new(script)).arg(uri);
        command
    };
    run_all(driver, &Compressor::ALL);
}

/// The Node.js driver takes zstd from a package that downloads a binary while it is installed. Such
/// scripts do not run here, so that zstd is left out.
#[test]
fn the_node_driver_exchanges_compressed_messages() {
    let Some(script) = peers::node_driver_script() else {
        return;
    };
    let script = script.with_file_name("compressed.js");
    let driver = |uri: &str| {
        let mut command = Command::new("node");
        command.arg(&script).arg(uri);
        command
    };
    run_all(driver, &[Compressor::Snappy, Compressor::Zlib]);
}
