//! The parts of a credential that are obtained outside of a connection.

use super::{aws::AwsKeys, oidc::Token};
use crate::options::{IdpInfo, Login};
use std::{fmt, sync::Arc};

/// A part of a credential that a connection needs before it can authenticate.
#[derive(Clone, Debug)]
pub enum Need {
    /// The user name and the password of the application's provider. `refused` is the login that
    /// the server refused, if the connection has tried one.
    Login {
        /// The refused login.
        refused: Option<Arc<Login>>,
    },
    /// AWS credentials.
    AwsKeys,
    /// An OpenID Connect token. `idp_info` is the identity provider that the server named to this
    /// connection, in the human flow.
    Token {
        /// The identity provider; `None` in the machine flow, and if a refresh token is used.
        idp_info: Option<Arc<IdpInfo>>,
    },
}

/// A part of a credential that was obtained.
#[derive(Clone)]
pub enum Provided {
    /// The answer to [`Need::Login`].
    Login(Arc<Login>),
    /// The answer to [`Need::AwsKeys`].
    AwsKeys(Arc<AwsKeys>),
    /// The answer to [`Need::Token`].
    Token(Arc<Token>),
}

impl fmt::Debug for Provided {
    /// Omits the content, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Login(_) => "Login(..)",
            Self::AwsKeys(_) => "AwsKeys(..)",
            Self::Token(_) => "Token(..)",
        })
    }
}
