//! Faults of a server in authentication.

use onionskin_core::random::Random;

/// A fault of a server in a SASL conversation. A fault that concerns only some mechanisms has no
/// effect on the others.
///
/// Apart from the fault, the server continues honestly where it can: a client that overlooks the
/// fault authenticates successfully, so that a test finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AuthFault {
    /// SCRAM: the iteration count is 0 (AUTH-56).
    NoIterations,
    /// SCRAM: the iteration count is 1 (AUTH-56).
    OneIteration,
    /// SCRAM: the iteration count is 2,147,483,648, which no 32-bit integer with a sign can hold.
    ManyIterations,
    /// SCRAM and MONGODB-AWS: the server's nonce does not begin with the client's (AUTH-60,
    /// AUTH-79).
    WrongNonce,
    /// SCRAM: the nonce is the client's without its end. MONGODB-AWS: the nonce has 63 bytes.
    ShortNonce,
    /// MONGODB-AWS: the nonce has 65 bytes.
    LongNonce,
    /// SCRAM: the server's signature is wrong (AUTH-60).
    WrongSignature,
    /// SCRAM: the server's last message is an error, in a reply that says that the conversation is
    /// done (AUTH-60).
    ErrorMessage,
    /// MONGODB-AWS: the host is empty (AUTH-80).
    EmptyHost,
    /// MONGODB-AWS: the host has an empty label (AUTH-80).
    EmptyLabel,
    /// MONGODB-AWS: the host has 300 bytes (AUTH-80).
    LongHost,
    /// The conversation never ends: after the last step, each reply has `done: false`.
    Endless,
    /// The first reply has `done: true`, and the server treats the client as the user `forged`
    /// (AUTH-61).
    EarlyDone,
    /// The payload is a base64 string, which a client can accept (AUTH-40).
    TextPayload,
    /// The payload is an integer.
    IntegerPayload,
    /// There is no payload.
    NoPayload,
    /// The payload has one mebibyte.
    HugePayload,
    /// The payload is cut in the middle.
    CutPayload,
    /// The payload is that of another mechanism: a BSON document for SCRAM, and text for the
    /// others.
    OtherPayload,
    /// The reply to `saslContinue` has another `conversationId` than the one before.
    OtherConversation,
    /// The server does not answer.
    Silence,
    /// The server closes the connection instead of answering.
    Close,
}

impl AuthFault {
    /// All faults.
    pub const ALL: [Self; 22] = [
        Self::NoIterations,
        Self::OneIteration,
        Self::ManyIterations,
        Self::WrongNonce,
        Self::ShortNonce,
        Self::LongNonce,
        Self::WrongSignature,
        Self::ErrorMessage,
        Self::EmptyHost,
        Self::EmptyLabel,
        Self::LongHost,
        Self::Endless,
        Self::EarlyDone,
        Self::TextPayload,
        Self::IntegerPayload,
        Self::NoPayload,
        Self::HugePayload,
        Self::CutPayload,
        Self::OtherPayload,
        Self::OtherConversation,
        Self::Silence,
        Self::Close,
    ];

    /// Draws a fault.
    pub fn drawn(random: &mut Random) -> Self {
        let place = random.below(Self::ALL.len() as u64);
        Self::ALL[usize::try_from(place).unwrap_or(0)]
    }
}
