//! Callbacks that provide OpenID Connect tokens.

use super::*;
use crate::driver::options::oidc::{Callback, CallbackContext, IdpServerResponse};
use futures::future::FutureExt;
use std::time::Instant;

/// An access token, its end and a refresh token.
type Tokens = (String, Option<Instant>, Option<String>);

async fn log_in(context: CallbackContext) -> Result<Tokens> {
    let end = Instant::now() + Duration::from_secs(60 * u64::from(context.version));
    Ok(("access".to_string(), Some(end), Some("refresh".to_string())))
}

pub(super) async fn callbacks() -> Result<()> {
    let uri = "mongodb://localhost:1/?authMechanism=MONGODB-OIDC&serverSelectionTimeoutMS=5";
    let mut options = ClientOptions::parse(uri).await?;
    options.credential.as_mut().unwrap().oidc_callback =
        Callback::human(move |context: CallbackContext| {
            async move {
                let (access_token, expires, refresh_token) = log_in(context).await?;
                Ok(IdpServerResponse::builder()
                    .access_token(access_token)
                    .expires(expires)
                    .refresh_token(refresh_token)
                    .build())
            }
            .boxed()
        });
    let client = Client::with_options(options)?;
    println!("{}", client.list_database_names().await.is_err());
    Ok(())
}
