//! What came of it.

use super::Pace;
use std::{fmt, time::Duration};

/// The figures of a demonstration.
#[derive(Debug)]
pub struct Report {
    pub(super) tasks: usize,
    pub(super) duration: Duration,
    pub(super) pace: Pace,
    pub(super) lost: usize,
    pub(super) twice: usize,
}

impl Report {
    /// True if every acknowledged write was found exactly once and every read saw what was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lost == 0
            && self.twice == 0
            && self.pace.wrong_reads == 0
            && !self.pace.acknowledged.is_empty()
    }

    /// Writes that were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.pace.acknowledged.len()
    }

    /// Acknowledged writes that were not found again.
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
        let verdict = if self.is_sound() {
            "nothing that was acknowledged was lost"
        } else {
            "SOMETHING WENT WRONG"
        };
        writeln!(f, "  {verdict}")
    }
}
