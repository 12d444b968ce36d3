//! Token files for clients that read a token from a file, with the names that the scripts of
//! drivers-evergreen-tools give them.

use crate::setup::named;
use onionskin_core::time::WallTime;
use onionskin_deployment::identity::{TokenClaims, TokenIssuer};
use std::{fs, io, path::Path, time::Duration};

/// The lifetime of the tokens in files.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The names of the files, which are also the subjects of the tokens.
const NAMES: [&str; 3] = ["test_user1", "test_user2", "test_machine"];

/// Writes one token of the issuer for each name into the directory, and an expired one into the
/// file `test_expired`.
pub(super) fn write(issuer: &TokenIssuer, directory: &Path, now: WallTime) -> io::Result<()> {
    let named = |error| named(directory, error);
    fs::create_dir_all(directory).map_err(named)?;
    for name in NAMES {
        let token = issuer.issue(&TokenClaims::new(name, now, LIFETIME));
        fs::write(directory.join(name), token).map_err(named)?;
    }
    let expired = issuer.issue(&TokenClaims::new("test_expired", now, Duration::ZERO));
    fs::write(directory.join("test_expired"), expired).map_err(named)
}
