//! The command `openssl`, which makes RSA keys and answers OCSP requests.

use super::or_skip;
use super::print_line;
use rcgen::KeyPair;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the command `openssl`. If it cannot be run, prints a line that begins with `SKIPPED:`
/// and returns `None`; with `CI=true` it panics.
pub fn openssl() -> Option<PathBuf> {
    let program = PathBuf::from("openssl");
    let found = Command::new(&program).arg("version").output();
    let found = match found {
        Ok(output) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout);
            print_line(&format!("PEER: {}", version.trim()));
            Ok(program)
        }
        Ok(output) => Err(format!("openssl version: {}", output.status)),
        Err(error) => Err(format!("openssl cannot be run: {error}")),
    };
    or_skip("openssl", found)
}

/// Returns a new RSA key of 2048 bits, which `ring` cannot make.
pub fn rsa_key(openssl: &Path) -> Result<KeyPair, String> {
    let mut command = Command::new(openssl);
    command.args(["genpkey", "-algorithm", "RSA"]);
    command.args(["-pkeyopt", "rsa_keygen_bits:2048"]);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    KeyPair::from_pem(&text).map_err(|error| error.to_string())
}
