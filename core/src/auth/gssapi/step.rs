//! The steps of the Kerberos library, which the shell runs.

use super::target::Target;
use crate::options::{KerberosLibrary, SecurityContext};
use std::fmt;

/// The security layer `none` in the server's offer and in the client's answer (RFC 4752, section
/// 3.1).
const NO_LAYER: u8 = 1;

/// A step of the Kerberos library for one connection, before it runs.
///
/// A step may block for as long as the key distribution center does not answer. The core therefore
/// gives the step to the shell, which runs it where it delays nothing else and passes the result
/// back.
pub struct KerberosStep(Work);

enum Work {
    Begin(KerberosLibrary, Target),
    Step(Box<dyn SecurityContext>, Vec<u8>),
    Answer {
        context: Box<dyn SecurityContext>,
        offer: Vec<u8>,
        username: String,
    },
}

impl KerberosStep {
    /// Makes a security context and its first token.
    pub(super) const fn begin(library: KerberosLibrary, target: Target) -> Self {
        Self(Work::Begin(library, target))
    }

    /// Continues a context with a token of the server.
    pub(super) fn step(context: Box<dyn SecurityContext>, token: Vec<u8>) -> Self {
        Self(Work::Step(context, token))
    }

    /// Answers the server's offer of security layers.
    pub(super) fn answer(
        context: Box<dyn SecurityContext>,
        offer: Vec<u8>,
        username: String,
    ) -> Self {
        Self(Work::Answer {
            context,
            offer,
            username,
        })
    }

    /// Runs the step. This calls the Kerberos library, so it blocks the thread, for example until
    /// the key distribution center answers. The library can be code of the application, which can
    /// panic.
    #[must_use]
    pub fn run(self) -> KerberosStepResult {
        KerberosStepResult(match self.0 {
            Work::Begin(library, target) => begin(&library, target),
            Work::Step(context, token) => advance(context, Some(&token)),
            Work::Answer {
                context,
                offer,
                username,
            } => answer(context, &offer, &username),
        })
    }
}

impl fmt::Debug for KerberosStep {
    /// Omits names and tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Work::Begin(..) => "KerberosStep(Begin)",
            Work::Step(..) => "KerberosStep(Step)",
            Work::Answer { .. } => "KerberosStep(Answer)",
        })
    }
}

/// The result of a [`KerberosStep`].
pub struct KerberosStepResult(Result<Outcome, String>);

/// The message of a step for the server.
pub(super) enum Outcome {
    /// A token; empty if the context is complete and has none.
    Token(Advanced, Vec<u8>),
    /// The answer to the offer of security layers.
    Answer(Vec<u8>),
}

/// A context after a step.
pub(super) struct Advanced {
    pub(super) context: Box<dyn SecurityContext>,
    pub(super) is_complete: bool,
}

impl KerberosStepResult {
    pub(super) fn into_result(self) -> Result<Outcome, String> {
        self.0
    }
}

impl fmt::Debug for KerberosStepResult {
    /// Omits the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KerberosStepResult")
            .field(&self.0.as_ref().map(|_| "..").map_err(|_| ".."))
            .finish()
    }
}

fn begin(library: &KerberosLibrary, target: Target) -> Result<Outcome, String> {
    let target = target.resolve(&*library.0)?;
    let refused = |reason| format!("Kerberos for the service {}: {reason}", target.service);
    let context = library.0.begin(&target).map_err(refused)?;
    advance(context, None).map_err(refused)
}

fn advance(mut context: Box<dyn SecurityContext>, token: Option<&[u8]>) -> Result<Outcome, String> {
    let next = context.step(token)?;
    let is_complete = context.is_complete();
    let token = match next {
        Some(token) => token,
        None if is_complete => Vec::new(),
        None => return Err("the Kerberos library gave no token".to_owned()),
    };
    let advanced = Advanced {
        context,
        is_complete,
    };
    Ok(Outcome::Token(advanced, token))
}

/// Answers an offer of four bytes: the first has the security layers that the server supports, the
/// others the maximum size of a message with a layer. The answer selects no layer, for which the
/// size is zero, and names the user (RFC 4752, section 3.1).
fn answer(
    mut context: Box<dyn SecurityContext>,
    offer: &[u8],
    username: &str,
) -> Result<Outcome, String> {
    let offer = context.unwrap(offer)?;
    let [layers, _, _, _] = offer[..] else {
        return Err("the server's offer of security layers has not 4 bytes".to_owned());
    };
    if layers & NO_LAYER == 0 {
        return Err("the server requires a security layer, which MongoDB does not use".to_owned());
    }
    let content = [&[NO_LAYER, 0, 0, 0], username.as_bytes()].concat();
    context.wrap(&content).map(Outcome::Answer)
}
