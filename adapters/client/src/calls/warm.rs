//! `warm_connection_pool`.

use crate::{
    Client, Execution, Runtime, client::IgnoredReply, futures::WarmConnectionPoolFuture,
    timer::Limit,
};
use onionskin_core::operation::Single;
use std::future::IntoFuture;

/// A `warm_connection_pool` that runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct WarmConnectionPool<'a, R: Runtime> {
    client: &'a Client<R>,
}

impl<'a, R: Runtime> WarmConnectionPool<'a, R> {
    pub(crate) const fn new(client: &'a Client<R>) -> Self {
        Self { client }
    }
}

impl<R: Runtime> IntoFuture for WarmConnectionPool<'_, R> {
    type Output = ();
    type IntoFuture = WarmConnectionPoolFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.client.clone();
        WarmConnectionPoolFuture::new(self.client.clone(), warm(client))
    }
}

async fn warm<R: Runtime>(client: Client<R>) {
    let shared = client.shared().clone();
    let command = shared.with(|inner, now| {
        inner.notice_fork(&shared, now);
        inner.core.warming_command()
    });
    let limit = client.options().server_selection_timeout();
    let limit = Limit::begin(shared.clone(), limit);
    if let Some(command) = command {
        let program = Single::new(Ok(command), IgnoredReply);
        // Without a server there is no pool to fill.
        let _ = Execution::new(client.clone(), program).await;
    }
    shared.reaches_warm(limit).await;
}
