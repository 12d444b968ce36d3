//! Runs the files of a suite.

use super::{
    arm::{Arm, simulated},
    file::{Test, UnifiedFile},
    setting::{Setting, settings},
    skips, unsupported,
};
use onionskin_tests::{
    report::Suite,
    specifications::{self, TestFile},
};
use std::{
    collections::BTreeMap,
    env,
    io::{Write as _, stdout},
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// The environment variable that selects files: those whose name contains its value.
const FILE: &str = "ONIONSKIN_UNIFIED_FILE";

/// The environment variable that replaces the first seed of virtual time, which is 1.
const SEED: &str = "ONIONSKIN_SEED";

/// The environment variable with the number of seeds with which each test is played. Default: 1.
const SEEDS: &str = "ONIONSKIN_SEEDS";

const OIDC: &str = "only virtual time replaces the variable and the file with the token of OIDC";

/// The outcome that the tests of a suite are expected to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Pass,
    /// Each test fails, as the files of `valid-fail` do.
    Fail,
    /// Each file is refused by its schema, as those of `invalid` are.
    Refusal,
}

/// A suite of the specifications.
pub(crate) struct Suited {
    pub(crate) title: &'static str,
    pub(crate) folders: &'static [&'static str],
    pub(crate) expected: Expected,
}

impl Suited {
    /// Runs all files of the suite and reports the results.
    pub(crate) fn run(&self) {
        let files = self
            .folders
            .iter()
            .map(|folder| specifications::files(folder));
        let Some(files) = files.collect::<Option<Vec<_>>>() else {
            return;
        };
        let arm = Arm::chosen();
        let skips = match arm {
            Arm::FerretDb => &[],
            _ => skips::of(self.title, arm != Arm::Simulated),
        };
        let mut suite = Suite::new(self.title, skips);
        let wanted = env::var(FILE).ok();
        let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| name.contains(wanted));
        let mut is_empty = true;
        for file in files.iter().flatten().filter(|file| is_wanted(&file.name)) {
            is_empty = false;
            self.run_file(&mut suite, arm, file);
        }
        count_reasons(&suite);
        match arm {
            _ if is_empty && wanted.is_some() => suite.leave(),
            Arm::FerretDb => suite.leave(),
            Arm::Tokio | Arm::AsyncStd | Arm::Smol if suite.is_set_aside(OIDC) => suite.leave(),
            _ => suite.finish(),
        }
    }

    fn run_file(&self, suite: &mut Suite, arm: Arm, file: &TestFile) {
        let read = file.content.clone();
        let read = read.and_then(|json| UnifiedFile::read(&json, &file.text));
        match (read, self.expected) {
            (Ok(_), Expected::Refusal) => {
                suite.case(&file.name, "", || Err("the schema allows it".to_owned()));
            }
            (Err(reason), Expected::Refusal | Expected::Fail)
                if reason.starts_with("the schema") =>
            {
                suite.case(&file.name, "", || Ok(()));
            }
            (Err(reason), _) => suite.unreadable(&file.name, &reason),
            (Ok(read), _) => {
                for test in &read.tests {
                    self.run_test(suite, arm, &file.name, &read, test);
                }
            }
        }
    }

    fn run_test(&self, suite: &mut Suite, arm: Arm, name: &str, file: &UnifiedFile, test: &Test) {
        if let Some(reason) = &test.skip_reason {
            return suite.set_aside(format!("the test says: {reason}"));
        }
        if let Some(reason) = unsupported::reason(file, test) {
            return suite.set_aside(reason.to_owned());
        }
        let mut settings = settings(&file.requirements, &test.requirements);
        if arm == Arm::FerretDb {
            settings.retain(Setting::is_like_ferretdb);
        }
        if arm != Arm::Simulated {
            if let Some(reason) = skips::timed(name, &test.description) {
                return suite.set_aside(reason.to_owned());
            }
            let count = settings.len();
            settings.retain(|setting| !setting.has_oidc());
            if settings.is_empty() && count > 0 {
                return suite.set_aside(OIDC.to_owned());
            }
        }
        if settings.is_empty() {
            suite.set_aside("no deployment meets the requirements".to_owned());
        }
        for setting in settings {
            let case = format!("{} on {setting}", test.description);
            suite.case(name, &case, || {
                match (self.expected, self.play(arm, &setting, name, file, test)) {
                    (Expected::Pass, played) => played,
                    (_, Err(_)) => Ok(()),
                    (_, Ok(())) => Err("it does not fail".to_owned()),
                }
            });
        }
    }

    /// Plays a test with each seed. A failure names the command that plays the file again.
    fn play(
        &self,
        arm: Arm,
        setting: &Setting,
        name: &str,
        file: &UnifiedFile,
        test: &Test,
    ) -> Result<(), String> {
        let function = self
            .title
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .replace('-', "_");
        for seed in seeds() {
            arm.run(setting, seed, file, test).map_err(|why| {
                format!(
                    "{why}\n    again: {SEED}={seed} {FILE}={name} cargo test -p onionskin-tests \
                     --test unified {function} -- --nocapture"
                )
            })?;
        }
        Ok(())
    }
}

/// Plays each test of a folder twice with the same seed. Panics if the two differ in anything, and
/// if there is no test.
pub(crate) fn play_twice(folder: &str) {
    let Some(files) = specifications::files(folder) else {
        return;
    };
    let mut count = 0;
    for file in files {
        let read = file
            .content
            .and_then(|json| UnifiedFile::read(&json, &file.text));
        let read = read.expect("a file of the format");
        for test in &read.tests {
            let settings = settings(&read.requirements, &test.requirements);
            if unsupported::reason(&read, test).is_some() {
                continue;
            }
            for setting in settings {
                let [one, two] = [(); 2].map(|()| simulated(&setting, 1, &read, test));
                assert_eq!(one, two, "{}: {} on {setting}", file.name, test.description);
                count += 1;
            }
        }
    }
    assert!(count > 0, "{folder} has no test");
}

/// Returns the seeds with which each test is played.
pub(crate) fn seeds() -> Range<u64> {
    let first = number(SEED, 1);
    first..first + number(SEEDS, 1)
}

/// Returns the number in an environment variable, or else `default`.
fn number(variable: &str, default: u64) -> u64 {
    let chosen = env::var(variable).ok();
    chosen.map_or(default, |text| text.parse().expect("a number"))
}

/// Adds the reasons of a suite's skips to those of the suites before it, and prints all.
fn count_reasons(suite: &Suite) {
    static REASONS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    let own = suite.reasons();
    if own.is_empty() {
        return;
    }
    for (reason, count) in own {
        *reasons.entry(reason).or_default() += count;
    }
    let mut text = "\nskipped in all suites that have ended so far:\n".to_owned();
    for (reason, count) in &*reasons {
        text += &format!("  {count:5} {reason}\n");
    }
    // A closed standard output must not make the suite fail.
    let _ = stdout().write_all(text.as_bytes());
}
