//! A subscriber of `tracing` that collects log messages.

use serde_json::{Map, Value, json};
use std::{
    fmt::Debug,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// A log message.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) target: &'static str,
    pub(crate) level: Level,
    /// The fields of the message, including its text.
    pub(crate) fields: Map<String, Value>,
}

impl Line {
    pub(crate) fn message(&self) -> &str {
        self.fields["message"].as_str().expect("a text")
    }
}

/// Makes sure that clients on threads without a collector do not disable the messages of others.
/// Each test must call this before it builds a client.
///
/// `tracing` asks subscribers once for each callsite, and keeps the answer. As long as the process
/// has at most one subscriber, `tracing` asks only the one of the thread that is first at the
/// callsite. If that thread has none, the callsite is disabled on all threads. This function
/// installs two subscribers that are never removed, so that `tracing` asks all of them.
pub(crate) fn keep_callsites_enabled() {
    static SUBSCRIBERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
    SUBSCRIBERS.get_or_init(|| {
        let collector = Collector {
            most: LevelFilter::TRACE,
            lines: Arc::default(),
        };
        [Dispatch::new(collector.clone()), Dispatch::new(collector)]
    });
}

/// Collects the log messages of the driver, up to a level.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    most: LevelFilter,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Collector {
    pub(crate) fn new(most: impl Into<LevelFilter>) -> Self {
        keep_callsites_enabled();
        Self {
            most: most.into(),
            lines: Arc::default(),
        }
    }

    /// Collects the messages of this thread until the guard is dropped.
    pub(crate) fn install(&self) -> DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        let lines = self.lines();
        lines.iter().map(|line| line.message().to_owned()).collect()
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("onionskin::") && *metadata.level() <= self.most
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let line = Line {
            target: event.metadata().target(),
            level: *event.metadata().level(),
            fields: fields.0,
        };
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    // The driver creates no spans, so the other methods do nothing.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields(Map<String, Value>);

impl Fields {
    fn keep(&mut self, field: &Field, value: Value) {
        let twice = self.0.insert(field.name().to_owned(), value);
        assert!(twice.is_none(), "{field} came twice");
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, json!(value));
    }

    fn record_debug(&mut self, field: &Field, _: &dyn Debug) {
        panic!("{field} has no type");
    }
}
