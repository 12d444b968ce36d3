//! The resolver of the simulated clients, which asks the name server of their seed list.

use super::{SimRuntime, executor::State};
use crate::world::{names::unanswered, report::FailureKind};
use onionskin::{Resolver, ResolverFuture, Runtime};
use onionskin_core::{
    dns::{DnsAnswer, DnsQuery, RecordKind},
    error::Error,
};
use std::{future::pending, time::Duration};

/// The time in milliseconds below which the delay of an answer is drawn.
const MAX_ANSWER_MILLIS: u64 = 500;

impl State {
    /// Returns the answer of the name server; `None` if there will be none.
    fn look_up(&mut self, client: usize, query: &DnsQuery) -> Option<Result<DnsAnswer, Error>> {
        if query.kind == RecordKind::Srv
            && let Err(what) = self.checkers[client].look_up(self.now)
        {
            self.fail(FailureKind::Correctness, format!("client {client}: {what}"));
        }
        self.network.look_up(self.now, query, &mut self.trace)
    }
}

/// The resolver of one client.
pub(super) struct SimResolver(pub(super) SimRuntime);

impl Resolver for SimResolver {
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
        let (answer, delay) = {
            let mut state = self.0.shared.lock();
            let answer = state.look_up(self.0.client, query);
            (answer, state.random.below(MAX_ANSWER_MILLIS))
        };
        Box::pin(async move {
            let Some(answer) = answer else {
                pending::<()>().await;
                return Err(unanswered());
            };
            self.0.sleep(Duration::from_millis(delay)).await;
            answer
        })
    }
}
