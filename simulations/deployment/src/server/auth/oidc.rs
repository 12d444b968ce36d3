//! The server's side of MONGODB-OIDC: the client sends a token of an issuer that the server trusts.

use super::{Step, accounts::Accounts, document, payload_of, roles::Login};
use crate::{
    deployment::{AuthMechanism, EXTERNAL, Role},
    identity::{TokenIssuer, VerifiedToken},
};
use bson::{Document, doc};
use onionskin_core::time::WallTime;

/// A conversation of the human flow, after the server has told the client about the issuer.
#[derive(Debug)]
pub(in crate::server) struct Conversation {
    issuer: TokenIssuer,
    /// The user name that the client gave.
    principal: Option<String>,
}

/// The token with which a user has authenticated.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    issuer: TokenIssuer,
    key: String,
    expires_at: WallTime,
}

impl Proof {
    /// True until the token expires or the issuer removes its key.
    pub(super) fn is_valid(&self, now: WallTime) -> bool {
        now < self.expires_at && self.issuer.has_key(&self.key)
    }
}

/// Handles the client's first message: a token (AUTH-120), or the user name of the human flow
/// (AUTH-121). Returns `None` if the message or the token is not valid, or if there is not exactly
/// one issuer for the user.
pub(super) fn start(
    issuers: &[TokenIssuer],
    accounts: &Accounts,
    now: WallTime,
    payload: &[u8],
) -> Option<Step> {
    let first = document(payload)?;
    if first.contains_key("jwt") {
        return finish(issuers, accounts, now, &first);
    }
    let principal = match first.get("n") {
        None => None,
        Some(name) => Some(name.as_str()?.to_owned()),
    };
    if first.len() != usize::from(principal.is_some()) {
        return None;
    }
    let mut suitable = issuers.iter().filter(|issuer| {
        let options = issuer.options();
        let is_named = match (&principal, &options.principal_suffix) {
            (Some(name), Some(suffix)) => name.ends_with(suffix),
            _ => true,
        };
        options.supports_human_flows && is_named
    });
    let issuer = suitable
        .next()
        .filter(|_| suitable.next().is_none())?
        .clone();
    let info = issuer_info(&issuer);
    let conversation = Conversation { issuer, principal };
    let conversation = super::Conversation::Oidc(conversation);
    Some(Step::More(conversation, payload_of(&info)))
}

/// Returns the `IdpInfo` document of an issuer.
fn issuer_info(issuer: &TokenIssuer) -> Document {
    let options = issuer.options();
    let mut info = doc! { "issuer": &options.issuer };
    if let Some(id) = &options.client_id {
        info.insert("clientId", id);
    }
    if !options.request_scopes.is_empty() {
        info.insert("requestScopes", options.request_scopes.clone());
    }
    info
}

impl Conversation {
    /// Handles the client's token. Returns `None` if the token is not valid, or if it identifies
    /// another user than the client named before.
    pub(super) fn advance(
        self,
        accounts: &Accounts,
        now: WallTime,
        payload: &[u8],
    ) -> Option<Step> {
        let second = document(payload)?;
        if let Some(principal) = &self.principal {
            let token = second.get_str("jwt").ok()?;
            let verified = self.issuer.verify(token, now)?;
            if verified.subject != *principal {
                return None;
            }
        }
        finish(&[self.issuer], accounts, now, &second)
    }
}

/// Handles a message with a token, which ends each conversation.
fn finish(
    issuers: &[TokenIssuer],
    accounts: &Accounts,
    now: WallTime,
    message: &Document,
) -> Option<Step> {
    let token = message.get_str("jwt").ok().filter(|_| message.len() == 1)?;
    let verified = issuers.iter().find_map(|issuer| {
        let verified = issuer.verify(token, now)?;
        Some((issuer, verified))
    });
    let (issuer, token) = verified?;
    let mut login = login(issuer, accounts, &token)?;
    login.proof = Some(Proof {
        issuer: issuer.clone(),
        key: token.key,
        expires_at: token.expires_at,
    });
    Some(Step::Done(login, Vec::new()))
}

/// Returns the login of the user whom a token identifies.
fn login(issuer: &TokenIssuer, accounts: &Accounts, token: &VerifiedToken) -> Option<Login> {
    let options = issuer.options();
    let prefix = &options.auth_name_prefix;
    let name = format!("{prefix}/{}", token.subject);
    if options.authorization_claim.is_none() {
        let account = accounts.find(EXTERNAL, &name)?;
        let is_permitted = account.can_use(AuthMechanism::Oidc);
        return is_permitted.then(|| Login::of(&account.user));
    }
    let groups = token.groups.iter();
    let mut roles = options.roles.clone();
    roles.extend(groups.map(|group| Role::new(&format!("{prefix}/{group}"), "admin")));
    Some(Login::new(EXTERNAL, &name, roles))
}
