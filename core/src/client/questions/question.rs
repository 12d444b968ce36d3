//! Questions, and their answers.

use crate::{
    auth::{DerivedKeys, Finding, Inquiry, KerberosStep, KerberosStepResult, KeyDerivation},
    dns::{DnsAnswer, DnsQuery},
    error::Error,
};
use std::time::Duration;

/// The core's id of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// A question of the client to its shell.
#[derive(Debug)]
pub enum Question {
    /// Derive these keys ([`KeyDerivation::derive`]) and answer with [`Answer::Keys`]. This may
    /// take seconds, and must not delay anything else.
    DeriveKeys(KeyDerivation),
    /// Run this step of the Kerberos library ([`KerberosStep::run`]) on a thread that may block,
    /// and answer with [`Answer::KerberosStep`]. Answer also if the step takes longer than the
    /// connection waits, because only [`MAX_KERBEROS_STEPS`](crate::client::MAX_KERBEROS_STEPS)
    /// steps without an answer are permitted. The question is withdrawn only when the client is
    /// closed or its process has forked.
    KerberosStep(KerberosStep),
    /// Look up these DNS records and answer with [`Answer::Records`].
    /// [`dns::Lookup`](crate::dns::Lookup) is a resolver that does this.
    LookUp {
        /// The name and the type of the records.
        query: DnsQuery,
        /// The time limit of the lookup.
        limit: Duration,
    },
    /// Find the answer to this inquiry and answer with [`Answer::Found`]. The question is withdrawn
    /// when its time limit passes, except a call of a provider that may block and the reading of a
    /// file, which occupy a thread. Answer such a question also after its limit, because no other
    /// inquiry for credentials is made before.
    Inquire(Inquiry),
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub enum Answer {
    /// The derived keys.
    Keys(DerivedKeys),
    /// The result of a step of the Kerberos library.
    KerberosStep(KerberosStepResult),
    /// The records of a lookup, or the reason why there are none.
    Records(Result<DnsAnswer, Error>),
    /// The answer to an inquiry, or the reason why there is none. The reason becomes part of an
    /// error message, so it must not contain secrets.
    Found(Result<Finding, String>),
    /// There will be no answer, because the work panicked or was given up.
    None,
}
