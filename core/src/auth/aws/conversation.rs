//! The conversation of MONGODB-AWS: two BSON messages of the client, one of the server.

use super::{AwsKeys, signature::sign};
use crate::{
    auth::{
        caches::Caches,
        need::Need,
        progress::{Failure, Progress},
        sasl::{self, SaslReply},
    },
    error::pick,
    options::Secret,
    random::Random,
    time::Instant,
};
use bson::{RawBson, RawDocument, cstr, rawdoc};
use std::sync::Arc;

/// The length of the client's nonce in bytes. The server's nonce begins with it, and is twice as
/// long (AUTH-77, AUTH-79).
const NONCE_BYTES: usize = 32;

/// The gs2 flag for "no channel binding": the letter `n` (AUTH-78).
const NO_CHANNEL_BINDING: i32 = 110;

enum State {
    /// The first message can be sent, or the AWS credentials are awaited.
    First,
    /// The first message was sent.
    AwaitingNonce {
        keys: Arc<AwsKeys>,
    },
    /// The signed request was sent.
    AwaitingEnd {
        conversation: RawBson,
    },
    Over,
}

/// The client side of one MONGODB-AWS conversation.
pub(in crate::auth) struct Aws {
    nonce: [u8; NONCE_BYTES],
    state: State,
    /// The credentials of the conversation, once they are known.
    keys: Option<Arc<AwsKeys>>,
}

impl Aws {
    pub(in crate::auth) fn new(random: &mut Random) -> Self {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce);
        Self {
            nonce,
            state: State::First,
            keys: None,
        }
    }

    /// Returns the secrets of the conversation.
    pub(in crate::auth) fn secrets(&self) -> Vec<&Secret> {
        let keys = self.keys.iter();
        keys.flat_map(|keys| std::iter::once(&keys.secret).chain(&keys.token))
            .collect()
    }

    /// Begins the conversation with cached credentials, or asks for credentials.
    pub(in crate::auth) fn begin(&mut self, now: Instant, caches: &Caches) -> Progress {
        match caches.aws.find(caches.wall_time(now)) {
            Some(keys) => self.on_keys(keys),
            None => Progress::Fetch(Need::AwsKeys),
        }
    }

    /// Begins the conversation with these credentials. The first message has the client's nonce and
    /// the gs2 flag.
    pub(in crate::auth) fn on_keys(&mut self, keys: Arc<AwsKeys>) -> Progress {
        self.keys = Some(keys.clone());
        self.state = State::AwaitingNonce { keys };
        let message = rawdoc! { "r": sasl::binary(&self.nonce), "p": NO_CHANNEL_BINDING };
        Progress::Send(sasl::start("MONGODB-AWS", message.as_bytes()))
    }

    /// Handles the reply to the last command.
    pub(in crate::auth) fn on_reply(
        &mut self,
        now: Instant,
        reply: &SaslReply,
        caches: &Caches,
    ) -> Result<Progress, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::AwaitingNonce { keys } => {
                if reply.done {
                    return Err("the server ended the conversation before the signature".to_owned());
                }
                let wall = caches.wall_time(now);
                let wall = wall.ok_or("the calendar time is not known")?;
                let (nonce, host) = self.challenge(&reply.payload)?;
                let signed = sign(&keys, wall, &host, &nonce)?;
                let mut message = rawdoc! { "a": signed.authorization, "d": signed.date };
                // Only temporary credentials have a token (AUTH-81).
                if let Some(token) = &keys.token {
                    message.append(cstr!("t"), token.expose());
                }
                let command = sasl::next(&reply.conversation, message.as_bytes());
                self.state = State::AwaitingEnd {
                    conversation: reply.conversation.clone(),
                };
                Ok(Progress::Send(command))
            }
            State::AwaitingEnd { conversation } => {
                sasl::same_conversation(&conversation, reply)?;
                match reply.done {
                    true => Ok(Progress::Done),
                    false => Err("the server does not end the conversation".to_owned()),
                }
            }
            State::First | State::Over => Err("the conversation is over".to_owned()),
        }
    }

    /// Reads the server's nonce and the host of STS from its message (AUTH-79, AUTH-80).
    fn challenge(&self, payload: &[u8]) -> Result<(Vec<u8>, String), Failure> {
        let document = RawDocument::from_bytes(payload);
        let document = document.map_err(|_| "the server's message is not BSON".to_owned())?;
        let [nonce, host] = pick(document, ["s", "h"]);
        let nonce = nonce.and_then(|value| value.as_binary());
        let nonce = nonce.ok_or("the server's message has no nonce")?.bytes;
        if nonce.len() != 2 * NONCE_BYTES || !nonce.starts_with(&self.nonce) {
            return Err("the server's nonce does not continue the client's".to_owned());
        }
        let host = host.and_then(|value| value.as_str());
        let host = host.ok_or("the server's message has no STS host")?;
        Ok((nonce.to_vec(), host.to_owned()))
    }

    #[cfg(test)]
    pub(in crate::auth) fn set_nonce(&mut self, nonce: [u8; NONCE_BYTES]) {
        self.nonce = nonce;
    }
}
