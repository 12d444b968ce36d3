//! Explains step by step why a client can or cannot use a MongoDB deployment.
//!
//! [`check`] takes a connection string and goes the way of a client: it parses the string, asks
//! DNS, connects to each address of each server, does the TLS handshake, sends `hello` and
//! authenticates. Then it starts a client, and reports the deployment that the client discovers and
//! the servers that each read preference selects. A failed step has a cause and hints.
//!
//! The command `onionskin check` is this function, with the report on the terminal. An application
//! can offer it as well, for example behind an option `--diagnose`:
//!
//! ```no_run
//! use onionskin_check::{CheckOptions, check};
//! use onionskin_tokio::TokioRuntime;
//!
//! # #[tokio::main]
//! # async fn main() {
//! let uri = "mongodb://db1.example.net,db2.example.net/?replicaSet=rs0";
//! let report = check(TokioRuntime::default(), uri, &CheckOptions::default()).await;
//! print!("{}", report.to_text(false));
//! if !report.is_usable {
//!     std::process::exit(report.exit_code().into());
//! }
//! # }
//! ```
//!
//! # What is sent
//!
//! A check sends what a client sends: `hello`, a `ping` and, if the connection string has a
//! credential, the conversation of authentication. It authenticates only with servers that its
//! client uses: those that belong to the deployment after the client has checked each server.
//! Without a credential, it reads once from a collection that need not exist, to learn whether the
//! server requires authentication. It writes nothing.
//!
//! To find the cause of a failure, the check can connect once more to the same server: with TLS but
//! without verifying the certificate, or without TLS. These connections send a `hello` at most,
//! without a credential and without the name of the application.

#![forbid(unsafe_code)]

mod advice;
mod authentication;
mod awaited;
mod certificate;
mod deployment;
mod derivations;
mod diagnosis;
mod drive;
mod hello;
mod report;
mod seeds;
mod server;
mod settings;
mod text;
mod walk;

pub use report::{Fact, Problem, Report, Stage, Status, Step, Value};
pub use walk::{CheckOptions, DEFAULT_TIMEOUT, MAX_SERVERS, check, check_with};
