//! `onionskin serve` with all mechanisms of authentication.

use super::{Peer, Scratch, serve};
use std::io;

/// The mechanisms that the server permits.
const MECHANISMS: &str = "SCRAM-SHA-1,SCRAM-SHA-256,MONGODB-X509,PLAIN,MONGODB-AWS,MONGODB-OIDC";

/// A server with TLS that permits all mechanisms, and the directory with its token files. It has
/// the user `ada` with the password `pencil`, and the AWS identities `AKIA1` and `ASIA2`.
#[derive(Debug)]
pub struct EveryMechanism {
    /// The server.
    pub server: Peer,
    /// The directory with a file for each token.
    pub tokens: Scratch,
}

impl EveryMechanism {
    /// Starts the server.
    pub fn start() -> io::Result<Self> {
        let tokens = Scratch::new()?;
        let directory = tokens.path().to_str();
        let directory = directory.ok_or_else(|| io::Error::other("the path is not UTF-8"))?;
        let server = serve([
            "--standalone",
            "--tls",
            "--auth",
            "ada:pencil",
            "--auth-mechanisms",
            MECHANISMS,
            "--aws-identity",
            "AKIA1:secret1",
            "--aws-identity",
            "ASIA2:secret2:token/+=",
            "--oidc-token-dir",
            directory,
        ])?;
        Ok(Self { server, tokens })
    }
}
