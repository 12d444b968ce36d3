//! A process that has no descriptor left for another socket: that is its own trouble, and not taken
//! for a sign of an overloaded server (CMAP-46).
//!
//! Not run by the usual harness, whose other tests would have none either. The server is in another
//! process for the same reason: this program starts itself once more.

use onionskin_blocking::{
    Client, ErrorKind, Run,
    bson::{Document, doc},
    core::error::{Label, NetworkFault},
};
use onionskin_simulations::serve::{Embedded, ServeOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{env, fs::File, process::Command};

/// Tells the second process where the server is.
const URI: &str = "ONIONSKIN_DESCRIPTORS_URI";

/// How many descriptors the second process may have.
const DESCRIPTORS: u64 = 64;

fn main() {
    if let Ok(uri) = env::var(URI) {
        return run_out_of_descriptors(&uri);
    }
    let deployment = Embedded::start(ServeOptions::standalone()).expect("a server");
    let program = env::current_exe().expect("this program");
    let status = Command::new(program).env(URI, deployment.uri()).status();
    assert!(status.expect("a process").success());
}

fn run_out_of_descriptors(uri: &str) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: Some(DESCRIPTORS),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let client = Client::with_uri_str(uri).expect("a client");
    let things = client.database("app").collection::<Document>("things");
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    // The check of the server gets one, the connection for the operation none.
    taken.pop();
    let error = things.insert_one(doc! { "_id": 1 }).run();
    let error = error.expect_err("there is no socket");
    let ErrorKind::Network { fault, .. } = error.kind() else {
        panic!("{error:?}");
    };
    assert_eq!(*fault, NetworkFault::OutOfSockets, "{error:?}");
    assert!(error.server().is_some(), "{error:?}");
    for label in [Label::SystemOverloadedError, Label::RetryableError] {
        assert!(!error.has_label(&label), "{error:?}");
    }
    drop(taken);
    let inserted = things.insert_one(doc! { "_id": 1 }).run();
    inserted.expect("there are sockets again");
    client.shutdown();
}
