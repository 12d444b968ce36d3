//! An issuer of tokens for MONGODB-OIDC.
//!
//! A token has the form of a JSON Web Token: a header, claims and a signature, each in base64url.
//! The signature is HMAC-SHA-256 with a key of the issuer (`HS256`). Real issuers sign with a
//! private key instead; for clients, which do not validate tokens (AUTH-117), there is no
//! difference.

use super::lock;
use crate::deployment::Role;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use onionskin_core::{
    random::{Random, Seed},
    time::WallTime,
};
use serde_json::{Value, json};
use sha2::Sha256;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The largest number of valid keys. A rotation beyond it removes the oldest key.
const MAX_KEYS: usize = 8;

/// The largest number of refresh tokens. A further one replaces one of them.
const MAX_REFRESH_TOKENS: usize = 1_000;

/// The size in bytes of the largest token that is verified.
const MAX_TOKEN_BYTES: usize = 32 * 1024;

/// The options of a token issuer.
#[derive(Clone, Debug)]
pub struct IssuerOptions {
    /// The URL of the issuer, which is the claim `iss` of its tokens. Default:
    /// `https://issuer.test`.
    pub issuer: String,
    /// The `clientId` that the server sends to clients of the human flow. `None`: the server sends
    /// none (AUTH-122). Default: `onionskin`.
    pub client_id: Option<String>,
    /// The `requestScopes` that the server sends to clients of the human flow. Default: none.
    pub request_scopes: Vec<String>,
    /// The audience of the deployment. A token for another audience is refused. Default:
    /// `onionskin`.
    pub audience: String,
    /// The first part of the names of users and roles, before a slash. Default: `test1`.
    pub auth_name_prefix: String,
    /// The claim that lists the roles of a user. `None`: the user must exist on `$external`, and
    /// has the roles from there. Default: `groups`.
    pub authorization_claim: Option<String>,
    /// The roles that a user gets in addition to those of the authorization claim. Default: `root`.
    pub roles: Vec<Role>,
    /// True if the issuer supports the human flow. Default: true.
    pub supports_human_flows: bool,
    /// The end of the user names for which the server chooses this issuer in the human flow.
    /// `None`: all user names. Default: `None`.
    pub principal_suffix: Option<String>,
}

impl Default for IssuerOptions {
    fn default() -> Self {
        Self {
            issuer: "https://issuer.test".to_owned(),
            client_id: Some("onionskin".to_owned()),
            request_scopes: Vec::new(),
            audience: "onionskin".to_owned(),
            auth_name_prefix: "test1".to_owned(),
            authorization_claim: Some("groups".to_owned()),
            roles: vec![Role::root()],
            supports_human_flows: true,
            principal_suffix: None,
        }
    }
}

/// The claims of a token.
#[derive(Clone, Debug)]
pub struct TokenClaims {
    /// The user, which is the claim `sub`.
    pub subject: String,
    /// The claim `aud`. `None`: the audience of the issuer.
    pub audience: Option<String>,
    /// The time of issue, `iat`, in whole seconds.
    pub issued_at: WallTime,
    /// The time at which the token expires, `exp`, in whole seconds.
    pub expires_at: WallTime,
    /// The values of the authorization claim. Default: none.
    pub groups: Vec<String>,
    /// The smallest size of the token in bytes. Shorter tokens get a claim of this size. Default:
    /// 0.
    pub min_bytes: usize,
}

impl TokenClaims {
    /// Creates the claims of a token for a user.
    #[must_use]
    pub fn new(subject: &str, issued_at: WallTime, lifetime: Duration) -> Self {
        let millis = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let end = issued_at.as_unix_millis().saturating_add(millis);
        Self {
            subject: subject.to_owned(),
            audience: None,
            issued_at,
            expires_at: WallTime::from_unix_millis(end),
            groups: Vec::new(),
            min_bytes: 0,
        }
    }
}

/// An issuer of tokens. Clones are handles to the same issuer.
#[derive(Clone)]
pub struct TokenIssuer {
    options: Arc<IssuerOptions>,
    state: Arc<Mutex<State>>,
}

struct State {
    /// The valid keys, the newest one last. New tokens are signed with the newest one.
    keys: VecDeque<Key>,
    /// The number of keys so far, which is part of the id of the next key.
    next_key: u64,
    /// The subjects by refresh token.
    refresh: BTreeMap<String, String>,
    issued: u64,
    random: Random,
}

struct Key {
    id: String,
    secret: [u8; 32],
}

/// A token that an issuer has verified.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedToken {
    pub(crate) subject: String,
    pub(crate) groups: Vec<String>,
    pub(crate) expires_at: WallTime,
    pub(crate) key: String,
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer")
            .field("issuer", &self.options.issuer)
            .finish_non_exhaustive()
    }
}

impl TokenIssuer {
    /// Creates an issuer with one key. Keys and refresh tokens are drawn from the seed.
    #[must_use]
    pub fn new(options: IssuerOptions, seed: &Seed) -> Self {
        let state = State {
            keys: VecDeque::new(),
            next_key: 1,
            refresh: BTreeMap::new(),
            issued: 0,
            random: seed.split("issuer").random(),
        };
        let issuer = Self {
            options: Arc::new(options),
            state: Arc::new(Mutex::new(state)),
        };
        issuer.rotate_keys();
        issuer
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &IssuerOptions {
        &self.options
    }

    /// Issues a token.
    pub fn issue(&self, claims: &TokenClaims) -> String {
        let mut state = lock(&self.state);
        state.issued += 1;
        let seconds = |time: WallTime| time.as_unix_millis() / 1000;
        let mut body = json!({
            "iss": self.options.issuer,
            "sub": claims.subject,
            "aud": claims.audience.as_ref().unwrap_or(&self.options.audience),
            "iat": seconds(claims.issued_at),
            "exp": seconds(claims.expires_at),
            "jti": state.issued.to_string(),
        });
        if let Some(claim) = &self.options.authorization_claim {
            body[claim] = json!(claims.groups);
        }
        if claims.min_bytes > 0 {
            // Four characters of base64 stand for three bytes.
            body["padding"] = "x".repeat(claims.min_bytes * 3 / 4).into();
        }
        let Some(key) = state.keys.back() else {
            return String::new();
        };
        let header = json!({ "alg": "HS256", "kid": key.id, "typ": "JWT" });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&body));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(&signed));
        format!("{signed}.{signature}")
    }

    /// Issues a refresh token for a user.
    pub fn issue_refresh_token(&self, subject: &str) -> String {
        let mut state = lock(&self.state);
        let mut bytes = [0; 24];
        state.random.fill(&mut bytes);
        let token = URL_SAFE_NO_PAD.encode(bytes);
        if state.refresh.len() >= MAX_REFRESH_TOKENS {
            state.refresh.pop_first();
        }
        state.refresh.insert(token.clone(), subject.to_owned());
        token
    }

    /// Issues a token for the user of a refresh token. Returns `None` if the refresh token is
    /// unknown or was revoked.
    pub fn refresh(&self, token: &str, now: WallTime, lifetime: Duration) -> Option<String> {
        let subject = lock(&self.state).refresh.get(token).cloned()?;
        Some(self.issue(&TokenClaims::new(&subject, now, lifetime)))
    }

    /// Makes all refresh tokens invalid.
    pub fn revoke_refresh_tokens(&self) {
        lock(&self.state).refresh.clear();
    }

    /// Adds a key, with which all further tokens are signed. Tokens of older keys stay valid.
    pub fn rotate_keys(&self) {
        let mut state = lock(&self.state);
        let mut secret = [0; 32];
        state.random.fill(&mut secret);
        let id = format!("key-{}", state.next_key);
        state.next_key += 1;
        state.keys.push_back(Key { id, secret });
        if state.keys.len() > MAX_KEYS {
            state.keys.pop_front();
        }
    }

    /// Adds a key and removes all older ones. Tokens of older keys become invalid, and connections
    /// that authenticated with one must authenticate again (AUTH-37).
    pub fn replace_keys(&self) {
        self.rotate_keys();
        let mut state = lock(&self.state);
        while state.keys.len() > 1 {
            state.keys.pop_front();
        }
    }

    /// Returns the number of tokens issued so far.
    #[must_use]
    pub fn issued(&self) -> u64 {
        lock(&self.state).issued
    }

    /// True if tokens that were signed with this key are valid.
    pub(crate) fn has_key(&self, id: &str) -> bool {
        lock(&self.state).keys.iter().any(|key| key.id == id)
    }

    /// Verifies a token. Returns `None` if it is malformed, expired, for another audience, of
    /// another issuer, or not signed with a valid key.
    pub(crate) fn verify(&self, token: &str, now: WallTime) -> Option<VerifiedToken> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, body) = signed.split_once('.')?;
        let (header, body) = (decoded(header)?, decoded(body)?);
        let id = header["kid"].as_str()?.to_owned();
        let state = lock(&self.state);
        let key = state.keys.iter().find(|key| key.id == id)?;
        let is_signed = URL_SAFE_NO_PAD.decode(signature).ok()? == key.sign(signed);
        let is_ours = header["alg"] == "HS256"
            && body["iss"] == self.options.issuer.as_str()
            && body["aud"] == self.options.audience.as_str();
        let expires_at = WallTime::from_unix_millis(body["exp"].as_u64()?.checked_mul(1000)?);
        if !is_signed || !is_ours || expires_at <= now {
            return None;
        }
        let groups = self.options.authorization_claim.as_ref();
        let groups = groups.and_then(|claim| body[claim].as_array());
        let groups = groups.into_iter().flatten().filter_map(Value::as_str);
        Some(VerifiedToken {
            subject: body["sub"].as_str()?.to_owned(),
            groups: groups.map(str::to_owned).collect(),
            expires_at,
            key: id,
        })
    }
}

impl Key {
    fn sign(&self, text: &str) -> Vec<u8> {
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret).expect("any length is fine");
        let mac = mac.chain_update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
}

fn decoded(part: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> WallTime {
        WallTime::from_unix_millis(seconds * 1000)
    }

    fn issuer() -> TokenIssuer {
        TokenIssuer::new(IssuerOptions::default(), &Seed::new([1; 32]))
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let issuer = issuer();
        let mut claims = TokenClaims::new("eve", at(1_000), HOUR);
        claims.groups = vec!["readers".to_owned()];
        let token = issuer.issue(&claims);
        assert_eq!(token.split('.').count(), 3);
        let verified = issuer.verify(&token, at(4_599)).expect("a valid token");
        assert_eq!(
            (verified.subject.as_str(), verified.key.as_str()),
            ("eve", "key-1")
        );
        assert_eq!(verified.groups, ["readers"]);
        assert_eq!(verified.expires_at, at(4_600));
        assert!(issuer.verify(&token, at(4_600)).is_none());
        assert_eq!(issuer.issued(), 1);
    }

    #[test]
    fn tokens_of_others_and_changed_tokens_are_refused() {
        let issuer = issuer();
        let claims = TokenClaims::new("eve", at(1_000), HOUR);
        let token = issuer.issue(&claims);
        let other = TokenIssuer::new(IssuerOptions::default(), &Seed::new([2; 32]));
        assert!(issuer.verify(&other.issue(&claims), at(1_000)).is_none());
        let audience = Some("another".to_owned());
        let foreign = issuer.issue(&TokenClaims {
            audience,
            ..claims.clone()
        });
        assert!(issuer.verify(&foreign, at(1_000)).is_none());
        let large = issuer.issue(&TokenClaims {
            min_bytes: 1_000_000,
            ..claims
        });
        assert!(large.len() >= 1_000_000);
        assert!(issuer.verify(&large, at(1_000)).is_none());
        for place in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            let verified = issuer.verify(&changed, at(1_000));
            // The last character of a signature has bits without a meaning.
            assert!(verified.is_none() || place + 1 == token.len(), "{place}");
        }
        for wrong in ["", ".", "..", "a.b.c", "a.b.c.d"] {
            assert!(issuer.verify(wrong, at(1_000)).is_none());
        }
    }

    #[test]
    fn tokens_of_removed_keys_are_refused() {
        let issuer = issuer();
        let claims = TokenClaims::new("eve", at(1_000), HOUR);
        let old = issuer.issue(&claims);
        issuer.rotate_keys();
        assert!(issuer.verify(&old, at(1_000)).is_some());
        assert!(issuer.verify(&issuer.issue(&claims), at(1_000)).is_some());
        issuer.replace_keys();
        assert!(issuer.verify(&old, at(1_000)).is_none());
        assert!(!issuer.has_key("key-1") && issuer.has_key("key-3"));
    }

    #[test]
    fn a_refresh_token_gives_tokens_until_it_is_revoked() {
        let issuer = issuer();
        let refresh = issuer.issue_refresh_token("eve");
        let token = issuer.refresh(&refresh, at(5), HOUR).expect("a token");
        assert_eq!(
            issuer.verify(&token, at(5)).map(|t| t.subject).as_deref(),
            Some("eve")
        );
        assert!(issuer.refresh("other", at(5), HOUR).is_none());
        issuer.revoke_refresh_tokens();
        assert!(issuer.refresh(&refresh, at(5), HOUR).is_none());
    }
}
