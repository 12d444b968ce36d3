//! DNS lookups: carries out the actions of the core's resolver, or asks the application's resolver.

use crate::{HostResolver, Runtime, resolver::Resolvers, shared::Shared, signal::Signal};
use onionskin_core::{
    client::{Answer, QuestionId},
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

/// The time limit of the lookup of a host if the client has none: `connectTimeoutMS` is 0.
const HOST_LIMIT: Duration = Duration::from_secs(30);

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

/// Returns the addresses of a host, by the resolver that the client uses for hosts.
pub(crate) async fn addresses<R: Runtime>(
    shared: &Shared<R>,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, LookupError> {
    if shared.resolvers.hosts == HostResolver::System {
        let addresses = shared.runtime.resolve(host, port).await;
        return addresses.map_err(LookupError::System);
    }
    let limit = shared.resolvers.limit.unwrap_or(HOST_LIMIT);
    let mut lookups = [RecordKind::Aaaa, RecordKind::A].map(|kind| {
        let query = DnsQuery::new(host, kind);
        (Box::pin(look_up(shared, query, limit)), None)
    });
    poll_fn(|context| {
        for (lookup, result) in &mut lookups {
            if result.is_none()
                && let Poll::Ready(found) = lookup.as_mut().poll(context)
            {
                *result = Some(found);
            }
        }
        match lookups.iter().all(|(_, result)| result.is_some()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    let (mut addresses, mut failure) = (Vec::new(), None);
    for result in lookups.into_iter().filter_map(|(_, result)| result) {
        match result {
            Ok(answer) => addresses.extend(answer.records.iter().filter_map(|data| match data {
                DnsData::Address(address) => Some(SocketAddr::new(*address, port)),
                _ => None,
            })),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if addresses.is_empty() => Err(LookupError::Dns(error)),
        _ => Ok(addresses),
    }
}

/// The error of the lookup of a host.
pub(crate) enum LookupError {
    System(io::Error),
    Dns(Error),
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
        ..
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
