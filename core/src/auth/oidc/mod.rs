//! MONGODB-OIDC: the client authenticates with an access token of OpenID Connect.

mod cache;
mod conversation;
mod hosts;
mod source;

pub use cache::Token;
pub(super) use cache::TokenCache;
pub(super) use conversation::Oidc;
pub(super) use hosts::check_host;
pub(super) use source::TokenSource;
