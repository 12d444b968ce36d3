//! The records of a `mongodb+srv` connection string.

use crate::{
    advice,
    drive::Clock,
    report::{Stage, Step, Value},
};
use onionskin::{
    ClientBuilder, Resolver, ResolverFuture, Runtime,
    dns::{BuiltInResolver, DnsAnswer, DnsData, DnsQuery, RecordKind, ResolverConfig},
};
use onionskin_core::error::{DnsFailure, Error, ErrorKind};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Looks up the records of a `mongodb+srv` connection string with this host. Returns the builder
/// with the servers that the records name; `None` if the lookup failed.
pub(crate) async fn look_up<R: Runtime + Clone>(
    clock: &Clock<R>,
    builder: ClientBuilder<R>,
    host: &str,
    config: Option<ResolverConfig>,
) -> (Step, Option<ClientBuilder<R>>) {
    let mut step = Step::new(Stage::Dns, None);
    let runtime = clock.runtime.clone();
    let resolver = match config {
        Some(config) => BuiltInResolver::with_config(runtime, config),
        None => BuiltInResolver::new(runtime),
    };
    if let Ok(config) = resolver.config(RecordKind::Srv) {
        let servers = config.name_servers.iter().map(ToString::to_string);
        step.fact("name servers", servers.collect::<Vec<_>>());
    }
    let answers = Answers::default();
    let recorder = Recorder {
        resolver,
        answers: answers.clone(),
    };
    let begun = clock.now();
    let resolved = builder.resolver(recorder).resolve();
    let resolved = clock.within(None, resolved).await;
    step.duration = clock.now() - begun;
    answers.describe(&mut step);
    match resolved {
        Some(Ok(builder)) => (step, Some(builder)),
        Some(Err(error)) => {
            step.fail(error.to_string(), advice::seed_list_failed(&error, host));
            (step, None)
        }
        None => {
            let message = "the time limit of the check passed before the name servers answered";
            step.fail(message, advice::silent_name_servers());
            (step, None)
        }
    }
}

/// A resolver that keeps what it was asked, and the answers.
struct Recorder<R: Runtime> {
    resolver: BuiltInResolver<R>,
    answers: Answers,
}

impl<R: Runtime> Resolver for Recorder<R> {
    fn look_up(&self, query: &DnsQuery) -> ResolverFuture<'_> {
        let (asked, answers) = (query.clone(), self.answers.clone());
        let lookup = self.resolver.look_up(query);
        Box::pin(async move {
            let result = lookup.await;
            answers.note(asked, &result);
            result
        })
    }
}

/// The answers to the queries of a client.
#[derive(Clone, Debug, Default)]
struct Answers(Arc<Mutex<Vec<Answered>>>);

/// A query with its answer.
type Answered = (DnsQuery, Result<DnsAnswer, Error>);

impl Answers {
    fn note(&self, query: DnsQuery, result: &Result<DnsAnswer, Error>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((query, result.clone()));
    }

    /// Adds the answers to a step, the SRV records first.
    fn describe(&self, step: &mut Step) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.sort_by_key(|(query, _)| std::cmp::Reverse(query.kind == RecordKind::Srv));
        for (query, result) in &*answers {
            match result {
                Ok(answer) => {
                    let records = answer.records.iter().map(record_text);
                    step.fact(query.to_string(), records.collect::<Vec<_>>());
                    if query.kind == RecordKind::Srv {
                        let ttl = answer.ttl.map_or_else(|| "unknown".to_owned(), seconds);
                        step.fact("time to live", ttl);
                    }
                }
                Err(error) => step.fact(query.to_string(), missing(error)),
            }
        }
    }
}

/// Returns the fact about records that were not found: none if the name servers said so.
fn missing(error: &Error) -> Value {
    match error.kind() {
        ErrorKind::DnsResolve {
            failure: DnsFailure::NoSuchName | DnsFailure::NoRecords,
            ..
        } => Value::List(Vec::new()),
        _ => Value::from("no answer"),
    }
}

fn record_text(data: &DnsData) -> String {
    match data {
        DnsData::Address(address) => address.to_string(),
        DnsData::Service { host, port } => format!("{host}:{port}"),
        DnsData::Text(text) => text.clone(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}
