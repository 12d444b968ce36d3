//! The server's side of GSSAPI (RFC 4752), by the GSSAPI library of the system.
//!
//! The library reads the keys of the service from the keytab that the environment variable
//! `KRB5_KTNAME` names. This reads files and asks no one else.

use super::{Step, accounts::Accounts, roles::Login};
use crate::deployment::{AuthMechanism, EXTERNAL};
use libgssapi::context::{SecurityContext as _, ServerCtx};
use std::fmt;

/// The offer of no security layer, the only one that MongoDB supports. The maximum size of a
/// message is zero.
const OFFER: [u8; 4] = [1, 0, 0, 0];

/// A conversation whose next message the client sends.
pub(in crate::server) struct Conversation {
    context: ServerCtx,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The client sends a token.
    Token,
    /// The client acknowledges the last token with an empty message.
    Acknowledgement,
    /// The client answers the offer of security layers.
    Choice,
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

/// Handles the client's first message. Returns `None` if the library refuses the token.
pub(super) fn start(accounts: &Accounts, payload: &[u8]) -> Option<Step> {
    let conversation = Conversation {
        context: ServerCtx::new(None),
        stage: Stage::Token,
    };
    conversation.advance(accounts, payload)
}

impl Conversation {
    /// Handles a message of the client. Returns `None` if the message is not valid, or if the user
    /// may not log in.
    pub(super) fn advance(mut self, accounts: &Accounts, payload: &[u8]) -> Option<Step> {
        match self.stage {
            Stage::Token => {
                let token = self.context.step(payload, None).ok()?;
                if !self.context.is_complete() {
                    return Some(self.more(Stage::Token, token?.to_vec()));
                }
                match token {
                    Some(token) => Some(self.more(Stage::Acknowledgement, token.to_vec())),
                    None => self.offer(),
                }
            }
            Stage::Acknowledgement if payload.is_empty() => self.offer(),
            Stage::Acknowledgement => None,
            Stage::Choice => self.finish(accounts, payload),
        }
    }

    fn offer(mut self) -> Option<Step> {
        let offer = self.context.wrap(false, &OFFER).ok()?.to_vec();
        Some(self.more(Stage::Choice, offer))
    }

    /// Checks the client's choice: no security layer, and the principal of the ticket as the user,
    /// or none.
    fn finish(mut self, accounts: &Accounts, payload: &[u8]) -> Option<Step> {
        let choice = self.context.unwrap(payload).ok()?;
        let user = choice.strip_prefix(&OFFER)?;
        let principal = self.context.source_name().ok()?.display_name().ok()?;
        if !(user.is_empty() || *user == *principal) {
            return None;
        }
        let name = std::str::from_utf8(&principal).ok()?;
        let account = accounts.find(EXTERNAL, name)?;
        let is_permitted = account.can_use(AuthMechanism::Gssapi);
        is_permitted.then(|| Step::Done(Login::of(&account.user), Vec::new()))
    }

    fn more(self, stage: Stage, payload: Vec<u8>) -> Step {
        let conversation = Self { stage, ..self };
        Step::More(super::Conversation::Gssapi(conversation), payload)
    }
}
