//! The machines that obtain a part of a credential outside of a connection: from environment
//! variables, files, endpoints over HTTP, or a provider of the application.
//!
//! A fetch asks one inquiry after the other, and the shell finds the answers. The fetch decides
//! which inquiry comes next, and what the answers mean.

use super::{
    aws,
    need::{Need, Provided},
    oidc,
};
use crate::{
    http::HttpRequest,
    options::{
        Credential, CredentialProvider, Login, PasswordRequest, ProviderCall, Secret, Supplied,
    },
    text::is_unprintable,
};
use std::{fmt, sync::Arc, time::Duration};

/// The time limit of one inquiry to an endpoint: 10 seconds (AUTH-94). The same limit applies to
/// files and environment variables.
pub(super) const ENDPOINT_LIMIT: Duration = Duration::from_secs(10);

/// The maximum length of a file with a token, in bytes: 128 KiB.
pub const MAX_FILE_BYTES: usize = 128 * 1024;

/// The maximum length of a text in an error message that an endpoint chose, in characters.
const MAX_QUOTED_CHARS: usize = 300;

/// A request to the shell for environment variables, a file, an HTTP response, or the result of a
/// provider.
#[derive(Debug)]
pub enum Inquiry {
    /// Read these environment variables. An empty value counts as a missing variable.
    Environment(&'static [&'static str]),
    /// Read this file, whose content is text of at most [`MAX_FILE_BYTES`].
    File(String),
    /// Send this request and read the response, without following redirects.
    Http(HttpRequest),
    /// Call a provider of the application.
    Call(ProviderCall),
}

impl Inquiry {
    /// True if the work for the answer occupies a thread that cannot be stopped.
    pub(crate) const fn occupies_thread(&self) -> bool {
        matches!(self, Self::File(_) | Self::Call(ProviderCall::Blocking(_)))
    }
}

/// The answer to an [`Inquiry`].
#[derive(Clone)]
pub enum Finding {
    /// The values of the variables, in the order of the names; `None` for a variable that is not
    /// set.
    Environment(Vec<Option<Secret>>),
    /// The content of the file.
    File(Secret),
    /// The response.
    Http(crate::http::HttpResponse),
    /// The result of the provider.
    Supplied(Supplied),
}

impl fmt::Debug for Finding {
    /// Omits the content, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment(_) => "Environment(..)",
            Self::File(_) => "File(..)",
            Self::Http(_) => "Http(..)",
            Self::Supplied(_) => "Supplied(..)",
        })
    }
}

/// The next step of a fetch.
#[derive(Debug)]
pub(crate) enum FetchStep {
    /// Ask this, and pass the answer to [`Fetch::handle_finding`] within the time limit.
    Ask(Inquiry, Duration),
    /// The fetch succeeded.
    Done(Provided),
    /// The fetch failed, with a reason that contains no secret.
    Failed(String),
}

/// The time limits of the calls of providers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// The limit of a callback in the machine flow, and of other providers (AUTH-115).
    pub(crate) machine: Duration,
}

/// The limit of a callback in the machine flow without `timeoutMS`: 1 minute (AUTH-115).
const MACHINE_LIMIT: Duration = Duration::from_secs(60);

impl CallLimits {
    /// Returns the limits for these values of `connectTimeoutMS` and `timeoutMS`.
    pub(crate) fn new(connect: Option<Duration>, timeout: Option<Duration>) -> Self {
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let machine = match (timeout, connect) {
            (Some(timeout), Some(connect)) => timeout.min(connect),
            (Some(timeout), None) => timeout,
            (None, _) => MACHINE_LIMIT,
        };
        Self { machine }
    }
}

/// One fetch of a part of a credential.
#[derive(Debug)]
pub(crate) enum Fetch {
    Login,
    Aws(aws::Sources),
    Token(oidc::TokenSource),
}

impl Fetch {
    /// Begins a fetch. `session_name` is a random name, for sources that need one.
    pub(crate) fn begin(
        need: &Need,
        credential: &Credential,
        caches: &super::Caches,
        limits: CallLimits,
        session_name: String,
    ) -> (Self, FetchStep) {
        match need {
            Need::Login { refused } => {
                let refused = refused.as_ref().map(|login| Login::clone(login));
                let step = match &credential.provider {
                    Some(CredentialProvider::Password(provider)) => {
                        let request = PasswordRequest::new(limits.machine, refused);
                        let call = provider.call(request);
                        FetchStep::Ask(Inquiry::Call(call), limits.machine)
                    }
                    _ => FetchStep::Failed("the credential has no password provider".to_owned()),
                };
                (Self::Login, step)
            }
            Need::AwsKeys => {
                let origin = caches.aws.origin();
                let (sources, step) = aws::Sources::begin(credential, origin, limits, session_name);
                (Self::Aws(sources), step)
            }
            Need::Token { idp_info } => {
                let idp_info = idp_info.clone();
                let (source, step) =
                    oidc::TokenSource::begin(credential, idp_info, &caches.tokens, limits);
                (Self::Token(source), step)
            }
        }
    }

    /// Handles the answer to the last inquiry, or the reason why there is none.
    pub(crate) fn handle_finding(&mut self, finding: Result<Finding, String>) -> FetchStep {
        match self {
            Self::Login => match finding {
                Ok(Finding::Supplied(Supplied::Login(login))) if login.username.is_empty() => {
                    FetchStep::Failed("the password provider returned no user name".to_owned())
                }
                Ok(Finding::Supplied(Supplied::Login(login))) => {
                    FetchStep::Done(Provided::Login(Arc::new(login)))
                }
                Ok(_) => FetchStep::Failed(WRONG_KIND.to_owned()),
                Err(reason) => FetchStep::Failed(format!("the password provider failed: {reason}")),
            },
            Self::Aws(sources) => sources.handle_finding(finding),
            Self::Token(source) => source.handle_finding(finding),
        }
    }

    /// True for a fetch of a token. Such fetches begin at least 100 ms apart (AUTH-126).
    pub(crate) fn is_spaced(&self) -> bool {
        matches!(self, Self::Token(_))
    }
}

/// The reason of a failure that only a fault of the shell can cause.
pub(super) const WRONG_KIND: &str = "the answer is not one to the inquiry";

/// Returns a text that an endpoint chose in a form for messages: bounded, and without unprintable
/// characters.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    let mut quoted: String = text
        .chars()
        .take(MAX_QUOTED_CHARS)
        .map(|c| if is_unprintable(c) { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX_QUOTED_CHARS).is_some() {
        quoted.push('…');
    }
    quoted
}
