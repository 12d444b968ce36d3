//! The server's side of MONGODB-AWS: the client signs a request to the AWS Security Token Service,
//! and the server verifies the signature instead of sending the request.

use super::{Step, accounts::Accounts, binary, document, payload_of, roles::Login};
use crate::{
    deployment::{AuthFault, AuthMechanism, EXTERNAL},
    identity::{AwsIdentities, AwsIdentity, SignedRequest, parse_compact, user_name},
};
use bson::{Document, doc};
use onionskin_core::{random::Random, time::WallTime};

/// The number of bytes of the client's nonce, and of the bytes that the server appends (AUTH-77).
const NONCE_BYTES: usize = 32;

/// The flag for no channel binding, the character `n` (AUTH-78).
const NO_CHANNEL_BINDING: i32 = 110;

/// The largest difference between the signed date and the server's time, in milliseconds. The
/// service refuses requests that are five minutes old.
const MAX_SKEW_MILLIS: u64 = 5 * 60 * 1000;

/// A conversation after the server's first message.
#[derive(Debug)]
pub(in crate::server) struct Conversation {
    host: String,
    nonce: Vec<u8>,
}

/// Handles the client's first message. Returns `None` if the message is not valid.
pub(super) fn start(
    host: &str,
    fault: Option<AuthFault>,
    payload: &[u8],
    random: &mut Random,
) -> Option<Step> {
    let first = document(payload)?;
    let [mut nonce, own] = [client_nonce(&first)?, drawn(random)];
    if first.len() != 2 || first.get_i32("p").ok()? != NO_CHANNEL_BINDING {
        return None;
    }
    nonce.extend(own);
    match fault {
        Some(AuthFault::WrongNonce) => nonce.rotate_left(NONCE_BYTES),
        Some(AuthFault::ShortNonce) => _ = nonce.pop(),
        Some(AuthFault::LongNonce) => nonce.push(0),
        _ => {}
    }
    let host = match fault {
        Some(AuthFault::EmptyHost) => String::new(),
        Some(AuthFault::EmptyLabel) => "sts..com".to_owned(),
        Some(AuthFault::LongHost) => format!("sts.{}", "a".repeat(296)),
        _ => host.to_owned(),
    };
    let reply = doc! { "s": binary(nonce.clone()), "h": &host };
    let conversation = super::Conversation::Aws(Conversation { host, nonce });
    Some(Step::More(conversation, payload_of(&reply)))
}

fn client_nonce(first: &Document) -> Option<Vec<u8>> {
    let nonce = first.get_binary_generic("r").ok()?;
    (nonce.len() == NONCE_BYTES).then(|| nonce.clone())
}

fn drawn(random: &mut Random) -> Vec<u8> {
    let mut own = vec![0; NONCE_BYTES];
    random.fill(&mut own);
    own
}

/// The client's second message: the header `Authorization`, the date and the session token.
struct ClientSecond {
    authorization: String,
    date: String,
    token: Option<String>,
}

impl ClientSecond {
    fn parse(payload: &[u8]) -> Option<Self> {
        let second = document(payload)?;
        let text = |key: &str| Some(second.get_str(key).ok()?.to_owned());
        let token = match second.contains_key("t") {
            true => Some(text("t")?),
            false => None,
        };
        let fields = 2 + usize::from(token.is_some());
        (second.len() == fields).then_some(Self {
            authorization: text("a")?,
            date: text("d")?,
            token,
        })
    }
}

impl Conversation {
    /// Handles the client's second message. Returns `None` if the signature, the date or the
    /// credentials are not valid, or if the user is unknown.
    pub(super) fn advance(
        &self,
        identities: &AwsIdentities,
        accounts: &Accounts,
        now: WallTime,
        payload: &[u8],
    ) -> Option<Step> {
        let second = ClientSecond::parse(payload)?;
        let identity = self.verify(identities, now, &second)?;
        let account = accounts.find(EXTERNAL, &user_name(&identity.user_arn))?;
        let is_permitted = account.can_use(AuthMechanism::Aws);
        is_permitted.then(|| Step::Done(Login::of(&account.user), Vec::new()))
    }

    /// Signs the request with the credentials of the named access key, and compares the results.
    fn verify(
        &self,
        identities: &AwsIdentities,
        now: WallTime,
        second: &ClientSecond,
    ) -> Option<AwsIdentity> {
        let (_, credential) = second.authorization.split_once(" Credential=")?;
        let identity = identities.find(credential.split('/').next()?)?;
        if identity.session_token != second.token || identity.expires_at.is_some_and(|at| at <= now)
        {
            return None;
        }
        let date = parse_compact(&second.date)?.as_unix_millis();
        if date.abs_diff(now.as_unix_millis()) > MAX_SKEW_MILLIS {
            return None;
        }
        let request = SignedRequest {
            access_key_id: &identity.access_key_id,
            secret_access_key: &identity.secret_access_key,
            session_token: identity.session_token.as_deref(),
            date: &second.date,
            host: &self.host,
            server_nonce: &self.nonce,
        };
        let is_signed = request.authorization()? == second.authorization;
        is_signed.then_some(identity)
    }
}
