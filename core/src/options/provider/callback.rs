//! Callbacks, and calls of them that the shell makes.

use super::{AwsCredentials, Login, OidcTokens};
use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc};

/// The error of a callback. Its text becomes part of the error of the operation, so the text must
/// not contain secrets.
pub type CallbackError = Box<dyn Error + Send + Sync>;

/// The future of a callback.
pub type CallbackFuture<T> = Pin<Box<dyn Future<Output = Result<T, CallbackError>> + Send>>;

/// A callback of the application that takes an `I` and returns a `T`.
pub(super) enum Callback<I, T> {
    /// The callback returns a future, which the shell polls in a task.
    Future(Arc<dyn Fn(I) -> CallbackFuture<T> + Send + Sync>),
    /// The callback blocks its thread, which the shell runs where it delays no task.
    Blocking(Arc<dyn Fn(I) -> Result<T, CallbackError> + Send + Sync>),
}

impl<I: Send + 'static, T: 'static> Callback<I, T> {
    pub(super) fn future<F, U>(callback: impl Fn(I) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<U, CallbackError>> + Send + 'static,
        U: Into<T> + 'static,
    {
        Self::Future(Arc::new(move |input| {
            Box::pin(map_result(Box::pin(callback(input)), U::into))
        }))
    }

    pub(super) fn blocking(
        callback: impl Fn(I) -> Result<T, CallbackError> + Send + Sync + 'static,
    ) -> Self {
        Self::Blocking(Arc::new(callback))
    }

    /// Returns a call of the callback, which has not begun. `wrap` makes the result of the call.
    pub(super) fn call(&self, input: I, wrap: fn(T) -> Supplied) -> ProviderCall {
        match self.clone() {
            Self::Future(callback) => ProviderCall::Future(Box::new(move || {
                let future = callback(input);
                Box::pin(map_result(future, wrap))
            })),
            Self::Blocking(callback) => {
                ProviderCall::Blocking(Box::new(move || callback(input).map(wrap)))
            }
        }
    }
}

/// Applies `wrap` to the result of a future.
fn map_result<T, U>(
    mut future: Pin<Box<impl Future<Output = Result<T, CallbackError>> + Send + ?Sized>>,
    wrap: fn(T) -> U,
) -> impl Future<Output = Result<U, CallbackError>> + Send {
    std::future::poll_fn(move |context| future.as_mut().poll(context).map(|done| done.map(wrap)))
}

impl<I, T> Clone for Callback<I, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Future(callback) => Self::Future(callback.clone()),
            Self::Blocking(callback) => Self::Blocking(callback.clone()),
        }
    }
}

/// Two callbacks are equal only if one is a clone of the other.
impl<I, T> PartialEq for Callback<I, T> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Future(one), Self::Future(other)) => Arc::ptr_eq(one, other),
            (Self::Blocking(one), Self::Blocking(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<I, T> fmt::Debug for Callback<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback(..)")
    }
}

/// A call of a [`CredentialProvider`](super::CredentialProvider) that has not begun.
///
/// Code of the application runs when the function is called and when the future is polled or
/// dropped, so the shell does that outside of its lock, and catches panics.
pub enum ProviderCall {
    /// Call the function in a task, and poll the future that it returns.
    Future(Box<dyn FnOnce() -> CallbackFuture<Supplied> + Send>),
    /// Call the function on a thread that may block.
    Blocking(Box<dyn FnOnce() -> Result<Supplied, CallbackError> + Send>),
}

impl fmt::Debug for ProviderCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderCall(..)")
    }
}

/// The result of a [`ProviderCall`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Supplied {
    /// A user name and a password.
    Login(Login),
    /// AWS credentials.
    Aws(AwsCredentials),
    /// OpenID Connect tokens.
    Oidc(OidcTokens),
}
