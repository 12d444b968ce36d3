//! Counts the cases of a test suite and prints a report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{Write, stdout},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A case that is not expected to pass.
#[derive(Clone, Copy, Debug)]
pub struct Skip {
    /// The path of the file below the suite's folder, for example `rs/discovery.json`.
    pub file: &'static str,
    /// The description of the case, with or without the deployment on which it runs (` on ...`);
    /// empty for every case of the file.
    pub case: &'static str,
    /// The reason why the case cannot pass.
    pub reason: &'static str,
}

/// The results of a suite while it runs.
///
/// A skipped case is run, too. If the case passes, the suite fails, because its [`Skip`] is out of
/// date. The suite also fails if a `Skip` names a case that does not exist in a file that was run,
/// if no case passed, and if results are dropped without [`finish`](Self::finish).
///
/// ```
/// use onionskin_tests::report::Suite;
///
/// let mut suite = Suite::new("example", &[]);
/// suite.case("a.json", "one is one", || Ok(()));
/// suite.case("a.json", "one is two", || Err("it is not".to_owned()));
/// assert_eq!(suite.to_string(), "example: 1 passed, 1 failed, 0 skipped");
/// assert!(std::panic::catch_unwind(|| suite.finish()).is_err());
/// ```
#[derive(Debug)]
pub struct Suite {
    name: &'static str,
    skips: &'static [Skip],
    passed: u32,
    failed: Vec<String>,
    skipped: u32,
    /// The number of cases of each skip.
    used: BTreeMap<usize, u32>,
    files: BTreeSet<String>,
    not_attempted: Vec<String>,
    set_aside: BTreeMap<String, u32>,
    is_finished: bool,
}

impl Suite {
    /// Creates a suite without results.
    #[must_use]
    pub const fn new(name: &'static str, skips: &'static [Skip]) -> Self {
        Self {
            name,
            skips,
            passed: 0,
            failed: Vec::new(),
            skipped: 0,
            used: BTreeMap::new(),
            files: BTreeSet::new(),
            not_attempted: Vec::new(),
            set_aside: BTreeMap::new(),
            is_finished: false,
        }
    }

    /// Runs one case and counts the result. A panic is a failure of this case only.
    pub fn case(&mut self, file: &str, case: &str, run: impl FnOnce() -> Result<(), String>) {
        self.files.insert(file.to_owned());
        let skip = self
            .skips
            .iter()
            .position(|skip| skip.file == file && is_of(case, skip.case));
        let outcome = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic))));
        match (skip, outcome) {
            (None, Ok(())) => self.passed += 1,
            (None, Err(reason)) => self.failed.push(format!("{file}: {case}: {reason}")),
            (Some(skip), Err(_)) => {
                *self.used.entry(skip).or_default() += 1;
                self.skipped += 1;
            }
            (Some(skip), Ok(())) => {
                *self.used.entry(skip).or_default() += 1;
                let reason = self.skips[skip].reason;
                self.failed
                    .push(format!("{file}: {case}: passes, but is skipped: {reason}"));
            }
        }
    }

    /// Counts a file that the suite cannot interpret as a failure.
    pub fn unreadable(&mut self, file: &str, reason: &str) {
        self.failed.push(format!("{file}: {reason}"));
    }

    /// Counts a case that cannot run as skipped, for a reason that the content of the case gives.
    pub fn set_aside(&mut self, reason: String) {
        self.skipped += 1;
        *self.set_aside.entry(reason).or_default() += 1;
    }

    /// Adds a part of the suite that does not run yet to the report.
    pub fn not_attempted(&mut self, what: String) {
        self.not_attempted.push(what);
    }

    /// Returns the reasons for which cases were skipped, with the number of cases.
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<String, u32> {
        let mut reasons = self.set_aside.clone();
        for (skip, count) in &self.used {
            *reasons
                .entry(self.skips[*skip].reason.to_owned())
                .or_default() += count;
        }
        reasons
    }

    /// True if all cases were set aside for this reason.
    #[must_use]
    pub fn is_set_aside(&self, reason: &str) -> bool {
        let count = self.set_aside.get(reason).copied();
        self.passed == 0 && self.failed.is_empty() && count == Some(self.skipped)
    }

    /// Prints the report, and ignores failures.
    pub fn leave(mut self) {
        self.is_finished = true;
        // A closed standard output must not make the suite fail.
        let _ = stdout().write_all(self.text().as_bytes());
    }

    /// Prints the report on standard output, without libtest's capturing. Panics if a failure was
    /// counted or no case passed.
    pub fn finish(mut self) {
        self.is_finished = true;
        for (index, skip) in self.skips.iter().enumerate() {
            if self.files.contains(skip.file) && !self.used.contains_key(&index) {
                let entry = format!(
                    "{}: {}: is skipped, but does not exist",
                    skip.file, skip.case
                );
                self.failed.push(entry);
            }
        }
        let text = self.text();
        // A closed standard output must not make the suite fail.
        let _ = stdout().write_all(text.as_bytes());
        assert!(self.failed.is_empty(), "{text}");
        assert!(self.passed > 0, "{} ran no case", self.name);
    }

    fn text(&self) -> String {
        let mut text = format!("\n{self}\n");
        for (reason, count) in &self.set_aside {
            text += &format!("  skipped: {count}, because {reason}\n");
        }
        for what in &self.not_attempted {
            text += &format!("  not attempted: {what}\n");
        }
        for failure in &self.failed {
            text += &format!("  failed: {failure}\n");
        }
        text
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped);
        let name = self.name;
        write!(
            f,
            "{name}: {passed} passed, {failed} failed, {skipped} skipped"
        )
    }
}

/// Panics if the results of the suite were not reported, so that no failure is lost.
impl Drop for Suite {
    fn drop(&mut self) {
        let has_results = self.passed > 0 || self.skipped > 0 || !self.failed.is_empty();
        let is_lost = has_results && !self.is_finished && !std::thread::panicking();
        assert!(!is_lost, "{self}, but the suite was not finished");
    }
}

/// True if the case has the name `skipped`. The name of a deployment after ` on ` counts only if
/// `skipped` has one, too.
fn is_of(case: &str, skipped: &str) -> bool {
    let rest = case.strip_prefix(skipped);
    skipped.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" on "))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKIPS: &[Skip] = &[Skip {
        file: "a.json",
        case: "hard",
        reason: "not possible",
    }];

    #[test]
    fn a_skipped_case_that_fails_is_skipped() {
        let mut suite = Suite::new("s", SKIPS);
        suite.case("a.json", "easy", || Ok(()));
        suite.case("a.json", "hard", || Err("no".to_owned()));
        assert_eq!(suite.to_string(), "s: 1 passed, 0 failed, 1 skipped");
        suite.finish();
    }

    #[test]
    #[should_panic(expected = "passes, but is skipped: not possible")]
    fn a_skipped_case_that_passes_fails_the_suite() {
        let mut suite = Suite::new("s", SKIPS);
        suite.case("a.json", "hard", || Ok(()));
        suite.finish();
    }

    #[test]
    #[should_panic(expected = "is skipped, but does not exist")]
    fn a_skip_without_its_case_fails_the_suite() {
        let mut suite = Suite::new("s", SKIPS);
        suite.case("a.json", "easy", || Ok(()));
        suite.finish();
    }

    #[test]
    #[should_panic(expected = "s ran no case")]
    fn a_suite_without_a_case_fails() {
        Suite::new("s", SKIPS).finish();
    }

    #[test]
    #[should_panic(expected = "1 failed, 0 skipped, but the suite was not finished")]
    fn a_suite_that_is_not_finished_fails() {
        let mut suite = Suite::new("s", &[]);
        suite.unreadable("a.json", "it is missing");
        drop(suite);
    }

    #[test]
    #[should_panic(expected = "panicked: oh")]
    fn a_panic_fails_its_case_and_the_next_one_runs() {
        let mut suite = Suite::new("s", &[]);
        suite.case("a.json", "bad", || panic!("oh"));
        suite.case("a.json", "good", || Ok(()));
        assert_eq!(suite.to_string(), "s: 1 passed, 1 failed, 0 skipped");
        suite.finish();
    }
}
