//! The conversation of MONGODB-OIDC: one step with a token, or two steps in which the server first
//! names the identity provider.

use super::Token;
use crate::{
    auth::{
        caches::Caches,
        mechanism::AUTHENTICATION_FAILED,
        need::Need,
        progress::{Failure, Progress},
        sasl::{self, SaslReply},
    },
    error::pick,
    options::{Credential, IdpInfo, OidcFlow},
};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr, rawdoc};
use std::sync::Arc;

/// The maximum number of scopes that a server may name.
const MAX_SCOPES: usize = 100;

/// The origin of the token that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// The token came from the cache.
    Cached,
    /// The token was obtained with a refresh token.
    Refreshed,
    /// The token was obtained for this connection.
    Fresh,
}

#[derive(Debug)]
enum State {
    /// Nothing was sent, or the last token was refused.
    Start,
    /// A token is awaited, to be sent by `saslStart`.
    AwaitingToken {
        sent: Sent,
    },
    /// The token was sent.
    AwaitingEnd {
        token: Arc<Token>,
        sent: Sent,
    },
    /// The user name was sent. The server names its identity provider.
    AwaitingProvider,
    /// A token is awaited, to be sent by `saslContinue`.
    AwaitingHuman {
        conversation: RawBson,
    },
    Over,
}

/// The client side of one MONGODB-OIDC conversation.
#[derive(Debug)]
pub(in crate::auth) struct Oidc {
    flow: OidcFlow,
    username: Option<String>,
    /// True after the server refused a token. In the machine flow, the next refusal is final.
    is_retry: bool,
    state: State,
    /// The token that was sent last: the connection cache (AUTH-124).
    token: Option<Arc<Token>>,
}

impl Oidc {
    pub(in crate::auth) fn new(credential: &Credential) -> Self {
        Self {
            flow: credential.oidc_flow(),
            username: credential.username.clone().filter(|name| !name.is_empty()),
            is_retry: false,
            state: State::Start,
            token: None,
        }
    }

    /// Returns the token with which the connection was authenticated.
    pub(in crate::auth) fn token(&self) -> Option<&Arc<Token>> {
        self.token.as_ref()
    }

    /// Returns the command for the hello, if the cache has a token (AUTH-130).
    pub(in crate::auth) fn speculative(&mut self, caches: &Caches) -> Option<RawDocumentBuf> {
        let token = caches.tokens.access()?.clone();
        let command = sasl::start("MONGODB-OIDC", jwt(&token).as_bytes());
        self.token = Some(token);
        Some(command)
    }

    /// Handles the reply to the speculative command. `None` if authentication is not over; the
    /// token in the cache stays in any case (AUTH-130).
    pub(in crate::auth) fn on_speculative_reply(&mut self, reply: &SaslReply) -> Option<Progress> {
        reply.done.then_some(Progress::Done)
    }

    /// Begins authentication (AUTH-128, AUTH-129).
    pub(in crate::auth) fn begin(&mut self, caches: &Caches) -> Progress {
        self.token = None;
        if let Some(token) = caches.tokens.access() {
            return self.start(token.clone(), Sent::Cached);
        }
        match self.flow {
            OidcFlow::Machine => {
                self.state = State::AwaitingToken { sent: Sent::Fresh };
                Progress::Fetch(Need::Token { idp_info: None })
            }
            OidcFlow::Human if caches.tokens.refresh().is_some() => {
                let sent = Sent::Refreshed;
                self.state = State::AwaitingToken { sent };
                Progress::Fetch(Need::Token { idp_info: None })
            }
            OidcFlow::Human => {
                let mut principal = RawDocumentBuf::new();
                if let Some(name) = &self.username {
                    principal.append(cstr!("n"), name.as_str());
                }
                self.state = State::AwaitingProvider;
                Progress::Send(sasl::start("MONGODB-OIDC", principal.as_bytes()))
            }
        }
    }

    /// Handles a token that was obtained.
    pub(in crate::auth) fn on_token(&mut self, token: Arc<Token>) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::AwaitingToken { sent } => Ok(self.start(token, sent)),
            State::AwaitingHuman { conversation } => {
                let command = sasl::next(&conversation, jwt(&token).as_bytes());
                self.sent(token, Sent::Fresh);
                Ok(Progress::Send(command))
            }
            _ => Err("a token arrived that was not asked for".to_owned()),
        }
    }

    /// Handles the reply to the last command.
    pub(in crate::auth) fn on_reply(&mut self, reply: &SaslReply) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::AwaitingEnd { .. } if reply.done => Ok(Progress::Done),
            State::AwaitingEnd { .. } => Err("the server does not end the conversation".to_owned()),
            State::AwaitingProvider if reply.done => {
                Err("the server ended the conversation before it got a token".to_owned())
            }
            State::AwaitingProvider => {
                let idp_info = Some(Arc::new(idp_info(&reply.payload)?));
                self.state = State::AwaitingHuman {
                    conversation: reply.conversation.clone(),
                };
                Ok(Progress::Fetch(Need::Token { idp_info }))
            }
            _ => Err("the conversation is over".to_owned()),
        }
    }

    /// Handles the refusal of the last command with this error code. `None` if the error is final.
    pub(in crate::auth) fn on_refused(
        &mut self,
        code: Option<i32>,
        caches: &mut Caches,
    ) -> Option<Progress> {
        let state = std::mem::replace(&mut self.state, State::Over);
        let State::AwaitingEnd { token, sent } = state else {
            return None;
        };
        // Only this error permits another token (AUTH-128).
        if code != Some(AUTHENTICATION_FAILED) || sent == Sent::Fresh {
            return None;
        }
        if self.flow == OidcFlow::Machine && self.is_retry {
            return None;
        }
        self.is_retry = true;
        caches.tokens.invalidate(&token);
        if sent == Sent::Refreshed {
            caches.tokens.drop_refresh(&token);
        }
        Some(self.begin(caches))
    }

    fn start(&mut self, token: Arc<Token>, sent: Sent) -> Progress {
        let command = sasl::start("MONGODB-OIDC", jwt(&token).as_bytes());
        self.sent(token, sent);
        Progress::Send(command)
    }

    fn sent(&mut self, token: Arc<Token>, sent: Sent) {
        self.token = Some(token.clone());
        self.state = State::AwaitingEnd { token, sent };
    }
}

/// Returns the payload with a token.
fn jwt(token: &Token) -> RawDocumentBuf {
    rawdoc! { "jwt": token.access.expose() }
}

/// Reads the identity provider in a server's message (AUTH-121). A missing `clientId` is no error
/// (AUTH-122).
fn idp_info(payload: &[u8]) -> Result<IdpInfo, Failure> {
    let document = RawDocument::from_bytes(payload);
    let document = document.map_err(|_| "the server's message is not BSON".to_owned())?;
    let [issuer, client_id, scopes] = pick(document, ["issuer", "clientId", "requestScopes"]);
    let text = |value: RawBsonRef<'_>| value.as_str().map(str::to_owned);
    let issuer = issuer.and_then(text).filter(|issuer| !issuer.is_empty());
    let issuer = issuer.ok_or("the server names no issuer")?;
    let client_id = match client_id {
        None | Some(RawBsonRef::Null) => None,
        Some(value) => Some(text(value).ok_or("the server's clientId is no text")?),
    };
    let request_scopes = match scopes {
        None | Some(RawBsonRef::Null) => Vec::new(),
        Some(RawBsonRef::Array(scopes)) => {
            let scopes = scopes.into_iter().take(MAX_SCOPES + 1);
            let scopes = scopes.map(|scope| scope.ok().and_then(text));
            let scopes: Option<Vec<_>> = scopes.collect();
            scopes.ok_or("a scope that the server names is no text")?
        }
        Some(_) => return Err("the server's requestScopes is no array".to_owned()),
    };
    if request_scopes.len() > MAX_SCOPES {
        return Err(format!("the server names more than {MAX_SCOPES} scopes"));
    }
    Ok(IdpInfo::new(issuer, client_id, request_scopes))
}
