//! The name of the service, for which a client needs a ticket.

use crate::options::{CanonicalizeHostName, Credential, Kerberos, KerberosTarget, Secret};

/// The name of the service without the property `SERVICE_NAME` (AUTH-68).
const DEFAULT_SERVICE_NAME: &str = "mongodb";

/// The user and the service of a conversation, before the name of the host is made canonical.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) username: String,
    password: Option<Secret>,
    service: String,
    /// `SERVICE_HOST` (AUTH-73), or else the host of the server.
    host: String,
    realm: Option<String>,
    canonicalize: Option<CanonicalizeHostName>,
}

impl Target {
    /// Returns the target for the server at `host`.
    pub(super) fn new(credential: &Credential, host: &str) -> Self {
        let property = |name| credential.property(name).map(Secret::expose);
        let username = credential.username.clone().unwrap_or_default();
        // `SERVICE_REALM` (AUTH-73) is the realm of the service, or else the realm in the user name
        // (AUTH-75).
        let realm = property("SERVICE_REALM").or_else(|| realm_of(&username));
        Self {
            service: property("SERVICE_NAME")
                .unwrap_or(DEFAULT_SERVICE_NAME)
                .to_owned(),
            host: property("SERVICE_HOST").unwrap_or(host).to_owned(),
            realm: realm.map(str::to_owned),
            canonicalize: CanonicalizeHostName::from_property(property("CANONICALIZE_HOST_NAME")),
            password: credential.password.clone(),
            username,
        }
    }

    /// Returns the target with the canonical name of the host, if the credential requires one
    /// (AUTH-70, AUTH-71). A host without a canonical name keeps its name (AUTH-72).
    pub(super) fn resolve(self, library: &dyn Kerberos) -> Result<KerberosTarget, String> {
        let name = self
            .canonicalize
            .and_then(|mode| library.canonical_name(&self.host, mode).ok())
            .map(|name| name.trim_end_matches('.').to_lowercase())
            .filter(|name| !name.is_empty());
        let host = name.unwrap_or(self.host);
        let realm = self.realm.map(|realm| escaped(&realm));
        let service = format!(
            "{}/{}@{}",
            escaped(&self.service)?,
            escaped(&host)?,
            realm.transpose()?.unwrap_or_default()
        );
        Ok(KerberosTarget::new(self.username, self.password, service))
    }
}

/// Returns a part of a principal, with a backslash before each character that would divide the
/// principal. Fails for a part that is empty or has a zero byte, which would end the principal.
fn escaped(part: &str) -> Result<String, String> {
    if part.is_empty() || part.contains('\0') {
        return Err("a part of the service's name is empty or has a zero byte".to_owned());
    }
    let mut text = String::with_capacity(part.len());
    for character in part.chars() {
        if matches!(character, '/' | '@' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    Ok(text)
}

/// Returns the realm of a user name: the text after the first `@` that no backslash escapes. `None`
/// if that text is empty.
fn realm_of(username: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (at, character) in username.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '@' => return Some(&username[at + 1..]).filter(|realm| !realm.is_empty()),
            _ => {}
        }
    }
    None
}
