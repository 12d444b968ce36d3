//! The trace of a run: its events in order, each with its virtual time.

use super::{
    picture::{MarkKind, Picture},
    workload::Ending,
};
use onionskin_core::{
    event::{Event, EventKind, OperationEvent},
    operation::OperationId,
    time::Instant,
};
use onionskin_deployment::deployment::Deployment;
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};

/// The number of bytes of a part of a trace. The last whole part and the one after it are kept. The
/// digest covers all lines.
const PART_BYTES: usize = 32 * 1024 * 1024;

/// Lines of text, each with its virtual time, and a digest of all lines. The trace can also keep a
/// picture of the run.
#[derive(Debug)]
pub struct Trace {
    kept: Option<Kept>,
    picture: Option<Box<Picture>>,
    line: String,
    /// The lines since the last [`take_new`](Self::take_new); `None` without a watcher.
    new: Option<String>,
    digest: Sha256,
    lines: u64,
    operations: u64,
}

/// The last lines of a trace.
#[derive(Debug, Default)]
struct Kept {
    /// The last whole part.
    whole: String,
    /// The part to which lines are added.
    last: String,
    /// The number of lines before both parts.
    missing: usize,
}

impl Kept {
    /// Adds a line. A part is whole if the line does not fit into it.
    fn push(&mut self, line: &str, part_bytes: usize) {
        if self.last.len() + line.len() > part_bytes {
            self.missing += self.whole.lines().count();
            self.whole = std::mem::take(&mut self.last);
        }
        self.last.push_str(line);
    }

    fn into_text(self) -> String {
        match self.missing {
            0 => self.whole + &self.last,
            missing => format!("({missing} lines before)\n{}{}", self.whole, self.last),
        }
    }
}

impl Trace {
    /// Creates an empty trace. Without `keep`, the trace has the digest, but keeps no lines.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self {
            kept: keep.then(Kept::default),
            picture: None,
            line: String::new(),
            new: None,
            digest: Sha256::new(),
            lines: 0,
            operations: 0,
        }
    }

    /// Keeps a picture from now on, if it did not before.
    pub fn keep_picture(&mut self) {
        self.picture.get_or_insert_default();
    }

    /// Adds an event of a client.
    pub fn observe(&mut self, now: Instant, client: usize, event: &Event) {
        self.note(now, format_args!("client {client} event {}", event.kind));
        let begins = matches!(
            event.kind,
            EventKind::Operation(OperationEvent::Started { .. })
        );
        self.operations += u64::from(begins);
        if let Some(picture) = &mut self.picture {
            picture.observe(event.at, client, &event.kind);
        }
    }

    /// Adds an event of a client to the picture only. The trace gets no line, so its digest stays
    /// the same.
    pub fn show(&mut self, at: Instant, client: usize, event: &EventKind) {
        if let Some(picture) = &mut self.picture {
            picture.observe(at, client, event);
        }
    }

    /// Adds the end of an operation to the picture only, if no event of the client has reported it.
    pub fn end_operation(
        &mut self,
        now: Instant,
        client: usize,
        operation: OperationId,
        ending: &Ending,
    ) {
        if let Some(picture) = &mut self.picture {
            picture.end_operation(now, client, operation.0, ending);
        }
    }

    /// Adds a line about a moment that concerns all lanes of the picture.
    pub fn mark(&mut self, now: Instant, kind: MarkKind, what: fmt::Arguments<'_>) {
        self.note(now, format_args!("{}: {what}", kind.name()));
        if let Some(picture) = &mut self.picture {
            picture.mark(now, kind, what.to_string());
        }
    }

    /// Adds the states of the members to the picture only.
    pub fn see_members(&mut self, now: Instant, deployment: &Deployment) {
        if let Some(picture) = &mut self.picture {
            picture.see_members(now, deployment);
        }
    }

    /// Returns the picture, if the trace keeps one.
    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_deref()
    }

    /// Takes the picture of a run that ends now.
    pub fn take_picture(&mut self, now: Instant) -> Option<Box<Picture>> {
        let mut picture = self.picture.take()?;
        picture.finish(now);
        Some(picture)
    }

    /// Adds a line.
    pub fn note(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = writeln!(self.line, "{:>12} {what}", now.as_nanos() / 1000);
        self.digest.update(self.line.as_bytes());
        self.lines += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(&self.line, PART_BYTES);
        }
        if let Some(new) = &mut self.new {
            new.push_str(&self.line);
        }
    }

    /// Collects lines for [`take_new`](Self::take_new) from now on.
    pub(super) fn collect_new(&mut self) {
        self.new.get_or_insert_default();
    }

    /// Takes the lines since the last call.
    pub(super) fn take_new(&mut self) -> String {
        self.new.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the kept lines. If the trace was longer, the first line tells how many lines before
    /// the others are missing.
    #[must_use]
    pub fn into_text(self) -> String {
        self.kept.map_or_else(String::new, Kept::into_text)
    }

    /// Returns the number of lines that were added, kept or not.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Adds a line about the start of an operation of which the client gives no event.
    pub(super) fn begin_operation(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        self.operations += 1;
        self.note(now, what);
    }

    /// Returns the number of operations whose start was added, as an event or otherwise.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the SHA-256 digest of all lines.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }
}

/// Displays bytes as their number and an FNV-1a checksum, which distinguishes messages of the same
/// length.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a>(pub &'a [u8]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for &byte in self.0 {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        write!(f, "{} bytes #{sum:016x}", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_covers_entries_that_are_not_stored() {
        let digest = |keep, text: &str| {
            let mut trace = Trace::new(keep);
            trace.note(Instant::ZERO, format_args!("{text}"));
            trace.digest()
        };
        assert_eq!(digest(true, "a"), digest(false, "a"));
        assert_ne!(digest(false, "a"), digest(false, "b"));
    }

    #[test]
    fn the_last_lines_of_a_long_trace_are_kept() {
        let text = |lines: u32| {
            let mut kept = Kept::default();
            for line in 0..lines {
                kept.push(&format!("{line}\n"), 4);
            }
            kept.into_text()
        };
        assert_eq!(text(4), "0\n1\n2\n3\n");
        assert_eq!(text(5), "(2 lines before)\n2\n3\n4\n");
        assert_eq!(text(9), "(6 lines before)\n6\n7\n8\n");
    }

    #[test]
    fn one_changed_byte_changes_the_summary() {
        assert_ne!(Summary(b"ab").to_string(), Summary(b"ac").to_string());
    }
}
