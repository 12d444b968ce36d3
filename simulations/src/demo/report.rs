//! The results of a demonstration.

use super::Pace;
use std::{fmt, time::Duration};

/// The results of a demonstration.
#[derive(Debug)]
pub struct Report {
    pub(super) tasks: usize,
    pub(super) duration: Duration,
    pub(super) pace: Pace,
    pub(super) lost: usize,
    pub(super) twice: usize,
    pub(super) page: Option<String>,
    pub(super) recording: Option<Vec<u8>>,
}

/// The verdict on a demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// At least one write was acknowledged. Every acknowledged write was found, no write was found
    /// twice, and every successful read returned the expected document.
    Sound,
    /// No write was acknowledged, so the demonstration shows nothing.
    NothingAcknowledged,
    /// Acknowledged writes were not found.
    Lost,
    /// Writes were found more than once.
    Doubled,
    /// Reads did not return the document of an acknowledged write.
    WrongReads,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "nothing that was acknowledged was lost",
            Self::NothingAcknowledged => {
                "no write was acknowledged, so none could be lost and nothing was shown"
            }
            Self::Lost => "acknowledged writes were lost",
            Self::Doubled => "acknowledged writes were applied twice",
            Self::WrongReads => "reads did not see what was acknowledged",
        })
    }
}

impl Report {
    /// Returns the verdict, which is the worst failure if there are several.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.lost > 0 {
            Verdict::Lost
        } else if self.twice > 0 {
            Verdict::Doubled
        } else if self.pace.wrong_reads > 0 {
            Verdict::WrongReads
        } else if self.pace.acknowledged.is_empty() {
            Verdict::NothingAcknowledged
        } else {
            Verdict::Sound
        }
    }

    /// True if the verdict is [`Verdict::Sound`].
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.verdict() == Verdict::Sound
    }

    /// Returns a page of HTML that shows the demonstration, or `None` if it was not recorded
    /// ([`DemoOptions::keep_picture`](super::DemoOptions::keep_picture)). The page leaves out
    /// operations that succeed at once in less than 50 ms.
    #[must_use]
    pub fn page(&self) -> Option<&str> {
        self.page.as_deref()
    }

    /// Returns the recording of the client, for `onionskin replay`. `None` if the client did not
    /// record itself ([`DemoOptions::recording`](super::DemoOptions::recording)).
    #[must_use]
    pub fn recording(&self) -> Option<&[u8]> {
        self.recording.as_deref()
    }

    /// Returns the number of acknowledged writes.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.pace.acknowledged.len()
    }

    /// Returns the number of acknowledged writes that were not found.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = &self.pace;
        let seconds = self.duration.as_secs_f64();
        let operations = pace.acknowledged.len() as u64 + pace.reads;
        writeln!(f, "\n  tasks                      {}", self.tasks)?;
        writeln!(
            f,
            "  operations per second      {:.0}",
            operations as f64 / seconds
        )?;
        writeln!(
            f,
            "  slowest operation          {:.0} ms",
            pace.slowest.as_secs_f64() * 1e3
        )?;
        let stall = pace.longest_stall.as_secs_f64() * 1e3;
        writeln!(f, "  longest stall of all       {stall:.0} ms")?;
        writeln!(f, "  operations that failed     {}", pace.failed)?;
        for failure in &pace.failures {
            writeln!(f, "    {failure}")?;
        }
        writeln!(
            f,
            "  reads                      {} ({} wrong)",
            pace.reads, pace.wrong_reads
        )?;
        writeln!(
            f,
            "  acknowledged writes        {}",
            pace.acknowledged.len()
        )?;
        writeln!(f, "  acknowledged and lost      {}", self.lost)?;
        writeln!(f, "  acknowledged and doubled   {}", self.twice)?;
        let verdict = self.verdict();
        let mark = if self.is_sound() { "" } else { "FAILED: " };
        writeln!(f, "  {mark}{verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demonstration_without_acknowledged_writes_fails() {
        let mut report = Report {
            tasks: 1,
            duration: Duration::from_secs(1),
            pace: Pace::default(),
            lost: 0,
            twice: 0,
            page: None,
            recording: None,
        };
        report.pace.failed = 3;
        assert_eq!(report.verdict(), Verdict::NothingAcknowledged);
        let shown = report.to_string();
        assert!(
            shown.contains("FAILED: no write was acknowledged"),
            "{shown}"
        );
        report.pace.acknowledged.insert((0, 0));
        assert_eq!(report.verdict(), Verdict::Sound);
        report.pace.wrong_reads = 1;
        assert_eq!(report.verdict(), Verdict::WrongReads);
        report.twice = 1;
        assert_eq!(report.verdict(), Verdict::Doubled);
        report.lost = 1;
        assert_eq!(report.verdict(), Verdict::Lost);
    }
}
