//! A lane of a picture: rows of spans.

use super::{SpanKind, at_micros, cut};
use onionskin_core::time::Instant;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The largest number of spans in a lane. Each further span replaces the earliest one, which is
/// counted.
const MAX_SPANS: usize = 100_000;

/// A time with a kind and a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Span {
    from: u128,
    to: u128,
    row: usize,
    kind: SpanKind,
    text: String,
}

/// An entry that has not ended.
#[derive(Clone, Debug)]
struct Open {
    row: usize,
    /// The span over the whole time in this row: its start, and the text.
    whole: (Instant, String),
    /// The start, the kind and the text of the present phase.
    phase: Option<(Instant, SpanKind, String)>,
}

/// Rows of spans. An entry has a row from its begin to its end: an operation, a connection, or the
/// server of the lane. Entries have numbers, and can have phases.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    open: BTreeMap<u64, Open>,
    rows: usize,
    /// The rows without an entry, each with the end of its last one.
    free_rows: BTreeMap<usize, Instant>,
    spans: VecDeque<Span>,
    missing: u64,
}

impl Lane {
    /// Begins the entry with this number, in the first free row.
    pub(super) fn begin(&mut self, at: Instant, number: u64, text: String) {
        self.end(at, number, None);
        let mut free = self.free_rows.iter();
        let free = free.find_map(|(row, since)| (*since <= at).then_some(*row));
        let row = free.unwrap_or_else(|| {
            self.rows += 1;
            self.rows - 1
        });
        self.free_rows.remove(&row);
        let open = Open {
            row,
            whole: (at, text),
            phase: None,
        };
        self.open.insert(number, open);
    }

    /// As [`begin`](Self::begin), but does nothing if the entry has begun.
    pub(super) fn begin_once(&mut self, at: Instant, number: u64, text: &str) {
        if !self.open.contains_key(&number) {
            self.begin(at, number, text.to_owned());
        }
    }

    /// Begins a phase of an entry, and ends the one before it. Does nothing if the entry has not
    /// begun.
    pub(super) fn enter(&mut self, at: Instant, number: u64, kind: SpanKind, text: String) {
        self.leave(at, number);
        if let Some(open) = self.open.get_mut(&number) {
            open.phase = Some((at, kind, text));
        }
    }

    /// As [`enter`](Self::enter), but begins the entry if it has not begun, and does nothing if
    /// the phase has the same kind and text.
    pub(super) fn set(&mut self, at: Instant, number: u64, kind: SpanKind, text: &str) {
        self.begin_once(at, number, "");
        let phase = self.open[&number].phase.as_ref();
        if phase.is_none_or(|(_, known, said)| (*known, said.as_str()) != (kind, text)) {
            self.enter(at, number, kind, text.to_owned());
        }
    }

    /// Ends the present phase of an entry.
    pub(super) fn leave(&mut self, at: Instant, number: u64) {
        if let Some(open) = self.open.get_mut(&number)
            && let Some((from, kind, text)) = open.phase.take()
            // After most commands that fail, the operation ends or goes on at once.
            && (kind, from) != (SpanKind::Backoff, at)
        {
            let row = open.row;
            self.push(from, at, row, kind, text);
        }
    }

    /// Ends an entry, so that its row is free. With a kind and a text, adds a span over the whole
    /// time of the entry.
    pub(super) fn end(&mut self, at: Instant, number: u64, result: Option<(SpanKind, &str)>) {
        self.leave(at, number);
        let Some(open) = self.open.remove(&number) else {
            return;
        };
        self.free_rows.insert(open.row, at);
        if let Some((kind, text)) = result {
            let (from, begun) = open.whole;
            self.push(from, at, open.row, kind, format!("{begun}{text}"));
        }
    }

    /// Ends all entries.
    pub(super) fn finish(&mut self, at: Instant) {
        while let Some((&number, _)) = self.open.first_key_value() {
            self.end(at, number, None);
        }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) const fn spans(&self) -> &VecDeque<Span> {
        &self.spans
    }

    /// Returns the number of spans that the lane has dropped.
    pub(super) const fn missing(&self) -> u64 {
        self.missing
    }

    fn push(&mut self, from: Instant, to: Instant, row: usize, kind: SpanKind, text: String) {
        if self.spans.len() >= MAX_SPANS {
            self.missing += 1;
            self.spans.pop_front();
        }
        self.spans.push_back(Span {
            from: at_micros(from),
            to: at_micros(to),
            row,
            kind,
            text: cut(text),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn a_row_has_one_entry_at_a_time() {
        let mut lane = Lane::default();
        lane.begin(at(0), 7, "find".to_owned());
        lane.begin(at(1), 8, "ping".to_owned());
        lane.enter(at(2), 7, SpanKind::Selecting, String::new());
        lane.enter(at(3), 7, SpanKind::Waiting, String::new());
        lane.end(at(5), 7, Some((SpanKind::Failed, ": no reply")));
        lane.begin(at(6), 9, "count".to_owned());
        lane.finish(at(9));
        assert_eq!(lane.rows(), 2);
        let span = |from, to, row, kind, text: &str| Span {
            from,
            to,
            row,
            kind,
            text: text.to_owned(),
        };
        assert_eq!(
            *lane.spans(),
            [
                span(2, 3, 0, SpanKind::Selecting, ""),
                span(3, 5, 0, SpanKind::Waiting, ""),
                span(0, 5, 0, SpanKind::Failed, "find: no reply"),
            ]
        );
        // The row is free again.
        lane.begin(at(10), 1, String::new());
        assert_eq!(lane.rows(), 2);
    }

    #[test]
    fn entries_that_are_noted_when_they_end_do_not_overlap() {
        let mut lane = Lane::default();
        for (number, from, to) in [(1, 0, 10), (2, 5, 12), (3, 12, 14), (4, 11, 15)] {
            lane.begin(at(from), number, String::new());
            lane.end(at(to), number, Some((SpanKind::Succeeded, "")));
        }
        let rows: Vec<_> = lane.spans().iter().map(|span| span.row).collect();
        assert_eq!(rows, [0, 1, 0, 2]);
    }

    #[test]
    fn a_state_that_does_not_change_is_one_span() {
        let mut lane = Lane::default();
        lane.set(at(0), 0, SpanKind::Primary, "term 1");
        lane.set(at(4), 0, SpanKind::Primary, "term 1");
        lane.set(at(5), 0, SpanKind::Down, "");
        lane.finish(at(9));
        let ends: Vec<_> = lane.spans().iter().map(|s| (s.from, s.to)).collect();
        assert_eq!(ends, [(0, 5), (5, 9)]);
    }

    #[test]
    fn a_lane_keeps_a_bounded_number_of_spans() {
        let mut lane = Lane::default();
        for n in 0..MAX_SPANS as u64 + 5 {
            lane.set(at(n), 0, SpanKind::Used, if n % 2 == 0 { "a" } else { "b" });
        }
        lane.finish(at(MAX_SPANS as u64 + 5));
        assert_eq!((lane.spans().len(), lane.missing()), (MAX_SPANS, 5));
        assert_eq!(lane.spans()[0].from, 5, "the end of the run is kept");
    }
}
