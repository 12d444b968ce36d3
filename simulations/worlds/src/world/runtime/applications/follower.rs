//! A change stream that follows the lists.

use super::{
    Application, Left, SimRuntime, database_of,
    lists::{self, Lists},
};
use crate::world::{report::FailureKind, workload::DATABASE};
use bson::{Bson, Document, Timestamp};
use onionskin::{
    ChangeStream, Runtime as _,
    change_stream::event::{ChangeStreamEvent, OperationType, ResumeToken},
};
use onionskin_core::{error::Error, time::Instant};
use std::{collections::BTreeMap, time::Duration};

/// The time for which the server waits for an event.
const AWAIT: Duration = Duration::from_millis(500);

/// The number of empty answers after which a follower has seen all events, once nobody writes.
const EMPTY: u32 = 4;

/// The number of failures after healing that a follower may see.
const LATE_FAILURES: u32 = 8;

/// The events that a follower has seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// The time at which the stream was open.
    opened: Instant,
    /// The values that were appended, in the order of the events.
    values: BTreeMap<i64, Vec<i64>>,
    /// The latest time of an event.
    latest: Option<Timestamp>,
    /// The lists that began after the stream was opened; `None` if the follower ended early.
    whole: Option<Vec<i64>>,
}

impl Seen {
    /// Checks that the events were those of the lists, each once and in their order.
    pub(super) fn check(&self, lists: &Lists) -> Result<(), String> {
        for (list, seen) in &self.values {
            let stored = lists.get(list).map(Vec::as_slice).unwrap_or_default();
            let is_part = stored.windows(seen.len()).any(|part| part == seen);
            let is_to_the_end = self.whole.is_none() || stored.ends_with(seen);
            if !is_part || !is_to_the_end {
                return Err(format!(
                    "a change stream saw {seen:?} of list {list}, which is {stored:?}"
                ));
            }
        }
        let whole = self.whole.iter().flatten();
        for list in whole.filter(|list| lists.contains_key(list)) {
            if self.values.get(list) != lists.get(list) {
                return Err(format!(
                    "a change stream saw {:?} of list {list}, which is {:?}",
                    self.values.get(list),
                    lists.get(list),
                ));
            }
        }
        Ok(())
    }

    /// Returns the number of values that were seen.
    pub(super) fn events(&self) -> usize {
        self.values.values().map(Vec::len).sum()
    }

    /// Adds an event. Returns what is wrong with it.
    fn add(&mut self, event: &ChangeStreamEvent<Document>) -> Result<(), String> {
        if event.cluster_time < self.latest {
            return Err("is older than the one before".to_owned());
        }
        self.latest = event.cluster_time;
        let key = event.document_key.as_ref();
        let list = key
            .and_then(|key| key.get_i64("_id").ok())
            .ok_or("has no key")?;
        let new = match event.operation_type {
            OperationType::Insert => event.full_document.as_ref().map(appended),
            OperationType::Update => {
                let update = event.update_description.as_ref();
                update.map(|update| appended(&update.updated_fields))
            }
            _ => None,
        };
        match new {
            Some(new) if !new.is_empty() => {
                self.values.entry(list).or_default().extend(new);
                Ok(())
            }
            _ => Err("tells no value".to_owned()),
        }
    }
}

/// Returns the values in a new list (`values`), or those in the fields of an update (`values.3`).
fn appended(fields: &Document) -> Vec<i64> {
    let of_field = |(name, value): (&String, &Bson)| match (name.as_str(), value) {
        ("values", Bson::Array(values)) => values.iter().filter_map(Bson::as_i64).collect(),
        (name, Bson::Int64(value)) if name.starts_with("values.") => vec![*value],
        _ => Vec::new(),
    };
    fields.iter().flat_map(of_field).collect()
}

type Stream = ChangeStream<SimRuntime, ChangeStreamEvent<Document>>;

impl Application {
    pub(super) async fn follow(mut self) {
        // The stream, and the time limit of each of its calls.
        let mut stream: Option<(Stream, Duration)> = None;
        let mut token: Option<ResumeToken> = None;
        let mut place = None;
        let (mut empty, mut failures) = (0, 0);
        while empty < EMPTY {
            let is_late = match stream {
                Some(_) => self.now() >= self.late_from,
                None => self.pause().await,
            };
            let Some((open, limit)) = &mut stream else {
                // Shorter limits than that of an answer would only delay the events.
                let limit = self.limit(is_late) + 4 * AWAIT;
                let opening = self.open(token.clone(), limit);
                match self.attempt("a watch", limit, is_late, opening).await {
                    Ok(opened) => {
                        token = opened.resume_token().or(token);
                        stream = Some((opened, limit));
                        place.get_or_insert_with(|| self.begin_following());
                    }
                    Err(Left::Closed) => return,
                    Err(left) => failures += self.count_failure(&left, is_late, failures),
                }
                continue;
            };
            let event = if self.streams_end && !is_late {
                // Only an event, an error or the end of the stream ends this call.
                let next = async { open.next().await.transpose() };
                self.attempt("a next", *limit, is_late, next).await
            } else {
                let next = open.next_if_any();
                self.attempt("a next", *limit, is_late, next).await
            };
            token = open.resume_token().or(token);
            match event {
                Ok(Some(event)) => {
                    empty = 0;
                    self.see(place, &event);
                    // The token is that of the event, also within a batch.
                    if self.random.chance(1, 16) {
                        stream = None;
                    }
                }
                Ok(None) if !open.is_alive() => stream = None,
                Ok(None) => {
                    empty += u32::from(is_late && self.has_no_writers());
                    // A stream that never waits must not stop the time.
                    self.runtime.sleep(Duration::from_millis(1)).await;
                }
                Err(Left::Closed) => return,
                Err(left) => {
                    empty = 0;
                    failures += self.count_failure(&left, is_late, failures);
                    if !open.is_alive() || self.random.chance(1, 8) {
                        stream = None;
                    }
                }
            }
        }
        let mut state = self.runtime.shared.lock();
        let records = &mut state.applications;
        if let Some(place) = place {
            let seen: &mut Seen = &mut records.followers[place];
            let lists = records.lists.begun_after(seen.opened);
            let of_stream = lists.filter(|list| database_of(self.has_shards, *list) == DATABASE);
            seen.whole = Some(of_stream.collect());
        }
    }

    fn open(
        &self,
        token: Option<ResumeToken>,
        limit: Duration,
    ) -> impl Future<Output = Result<Stream, Error>> + Send + use<> {
        let database = self.client.database(DATABASE);
        let lists = database.collection::<Document>(lists::COLLECTION);
        async move {
            let watch = lists.watch().max_await_time(AWAIT).timeout(limit);
            match token {
                Some(token) => watch.resume_after(token).await,
                None => watch.await,
            }
        }
    }

    fn begin_following(&self) -> usize {
        let mut state = self.runtime.shared.lock();
        let opened = state.now;
        let followers = &mut state.applications.followers;
        followers.push(Seen {
            opened,
            values: BTreeMap::new(),
            latest: None,
            whole: None,
        });
        followers.len() - 1
    }

    fn see(&self, place: Option<usize>, event: &ChangeStreamEvent<Document>) {
        let mut state = self.runtime.shared.lock();
        let seen = place.and_then(|place| state.applications.followers.get_mut(place));
        if let Some(Err(what)) = seen.map(|seen| seen.add(event)) {
            let message = format!("an event {what}: client {}: {event:?}", self.number);
            state.fail(FailureKind::Correctness, message);
        }
    }

    fn has_no_writers(&self) -> bool {
        self.runtime.shared.lock().applications.writers == 0
    }

    /// Returns 1 for a failure after healing, of which few may happen.
    fn count_failure(&self, left: &Left, is_late: bool, failures: u32) -> u32 {
        let is_failure = is_late && matches!(left, Left::Failed(_));
        if is_failure && failures == LATE_FAILURES {
            self.goes_on(left, is_late);
        }
        u32::from(is_failure)
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{
        Disaster, Rates, Scenario, Scheduled, Span, Way, Workload, WorldShape, run_seed,
    };
    use std::time::Duration;

    #[test]
    fn followers_miss_nothing_when_servers_end_their_streams() {
        let span = |seconds| Span(Duration::from_secs(seconds));
        let ends = [10, 14, 18].map(|seconds| Scheduled {
            at: span(seconds),
            event: Disaster::EndStreams,
        });
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(2),
            tasks: Some(3),
            workload: Some(Workload::Applications),
            election_timeout: Some(span(2)),
            safety: Some(span(22)),
            rates: Some(Rates::default()),
            schedule: Some(ends.to_vec()),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        let report = run_seed(1, Way::Runtime, scenario.options(1));
        assert!(report.failure.is_none(), "{report}");
        assert!(report.void_events.is_empty(), "{report}");
        assert!(report.achieved.events > 10, "{report}");
    }
}
