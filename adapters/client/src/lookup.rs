//! DNS lookups: carries out the actions of the core's resolver, or asks the application's resolver.

use crate::{Runtime, resolver::Resolvers, shared::Shared, signal::Signal};
use onionskin_core::{
    client::{Answer, QuestionId},
    dns::{DnsAnswer, DnsQuery},
    error::{DnsFailure, Error, ErrorKind},
};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

/// Answers a question for DNS records, unless the core withdraws the question.
pub(crate) async fn run<R: Runtime>(
    shared: Arc<Shared<R>>,
    id: QuestionId,
    query: DnsQuery,
    limit: Duration,
    signal: Arc<Signal>,
) {
    let result = {
        let mut lookup = pin!(look_up(&shared, query, limit));
        poll_fn(|context| {
            signal.register(context.waker());
            if signal.take().is_some_and(|commands| commands.close) {
                return Poll::Ready(None);
            }
            lookup.as_mut().poll(context).map(Some)
        })
        .await
    };
    if let Some(result) = result {
        shared.with(|inner, now| {
            inner.lookups.remove(&id);
            inner.core.handle_answer(now, id, Answer::Records(result));
        });
    }
}

/// Looks up DNS records within `limit`.
async fn look_up<R: Runtime>(
    shared: &Shared<R>,
    query: DnsQuery,
    limit: Duration,
) -> Result<DnsAnswer, Error> {
    let Resolvers {
        application,
        #[cfg(feature = "dns")]
        stub,
    } = &shared.resolvers;
    if let Some(resolver) = application {
        let mut lookup = resolver.look_up(&query);
        let mut end = pin!(shared.runtime.sleep(limit));
        return poll_fn(|context| {
            if let Poll::Ready(result) = lookup.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            end.as_mut().poll(context).map(|()| {
                let message = format!(
                    "the lookup of {query} failed: the resolver of the application gave no answer \
                     within {} ms",
                    limit.as_millis()
                );
                Err(failure(DnsFailure::Unreachable, message))
            })
        })
        .await;
    }
    #[cfg(feature = "dns")]
    return stub
        .look_up(&shared.runtime, || shared.now(), query, limit)
        .await;
    #[cfg(not(feature = "dns"))]
    {
        let message = format!(
            "the lookup of {query} failed: onionskin was built without its feature dns; enable the \
             feature, or set a resolver"
        );
        Err(failure(DnsFailure::Refused, message))
    }
}

fn failure(failure: DnsFailure, message: String) -> Error {
    Error::from(ErrorKind::Dns { failure, message })
}
