//! Connections that break once in each operation, which a retry must hide.

use super::{
    arm::{Arm, cut},
    file::{Test, UnifiedFile, list},
    setting::settings,
    suite::seeds,
    unsupported,
};
use bson::{Bson, Document, RawBsonRef, RawDocument};
use onionskin_core::random::Random;
use onionskin_tests::{
    report::Suite,
    specifications::{self, TestFile},
};
use onionskin_worlds::world::{SimRuntime, runtime::Cut};
use std::sync::{Arc, Mutex, PoisonError};

/// The reads that are retried (RET-1), if they are calls of their own.
const READS: [&str; 7] = [
    "aggregate",
    "count",
    "distinct",
    "find",
    "listCollections",
    "listDatabases",
    "listIndexes",
];

/// The operations whose commands are never retried.
const EXCLUDED: [&str; 3] = ["createCommandCursor", "runCommand", "runCursorCommand"];

/// The operations on the test runner that do not count events or connections.
const HARMLESS: [&str; 7] = [
    "assertCollectionExists",
    "assertCollectionNotExists",
    "assertIndexExists",
    "assertIndexNotExists",
    "assertSessionTransactionState",
    "createEntities",
    "wait",
];

/// The bytes of a message before its first document: the header, the flags, and the kind of the
/// section.
const HEAD: usize = 21;

/// The flag of a message that has no reply.
const MORE_TO_COME: u8 = 2;

/// Breaks a connection once in each operation, at one of its first commands that are retried.
#[derive(Clone)]
pub(crate) struct Cuts(Arc<Mutex<Armed>>);

struct Armed {
    random: Random,
    /// The number of retried commands that arrive before the one that is cut. `None` outside of
    /// operations, and once a connection was cut.
    left: Option<u32>,
    count: u32,
}

impl Cuts {
    /// Begins to cut the connections of a runtime. If the clients have several routers, a commit is
    /// only cut after it has arrived, and if the transaction has written. Its retry goes to another
    /// router, which aborts a transaction whose commit it cannot find.
    pub(crate) fn new(runtime: &SimRuntime, has_routers: bool, random: Random) -> Self {
        let cuts = Self(Arc::new(Mutex::new(Armed {
            random,
            left: None,
            count: 0,
        })));
        let armed = Arc::clone(&cuts.0);
        runtime.cut_connections(move |message| {
            let mut armed = armed.lock().unwrap_or_else(PoisonError::into_inner);
            let left = armed.left?;
            let command = command(message);
            let command = command.filter(|command| is_retried(command))?;
            let moves = has_routers && name(command) == Some("commitTransaction");
            if moves && !has_written(command) {
                return None;
            }
            armed.left = left.checked_sub(1);
            if armed.left.is_some() {
                return None;
            }
            armed.count += 1;
            let arrives = armed.random.chance(1, 2) || moves;
            Some(if arrives { Cut::Arrived } else { Cut::Lost })
        });
        cuts
    }

    /// Begins an operation.
    pub(crate) fn begin(&self, operation: &str) {
        let mut armed = self.lock();
        // Most operations have one command.
        let left = [0, 0, 0, 1, 2][usize::try_from(armed.random.below(5)).unwrap_or_default()];
        armed.left = (!EXCLUDED.contains(&operation)).then_some(left);
    }

    /// Ends an operation.
    pub(crate) fn end(&self) {
        self.lock().left = None;
    }

    pub(crate) fn count(&self) -> u32 {
        self.lock().count
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Armed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the command in a message that has a reply.
fn command(message: &[u8]) -> Option<&RawDocument> {
    let flags = message.get(16).copied().unwrap_or_default();
    let length = message
        .get(HEAD..HEAD + 4)
        .and_then(|bytes| bytes.first_chunk());
    let length = length.map_or(0, |length| {
        i32::from_le_bytes(*length).unsigned_abs() as usize
    });
    let document = message.get(HEAD..HEAD + length)?;
    let command = RawDocument::from_bytes(document).ok();
    command.filter(|_| flags & MORE_TO_COME == 0)
}

fn name(command: &RawDocument) -> Option<&str> {
    let (name, _) = command.iter().next()?.ok()?;
    Some(name.as_str())
}

/// True if another router can find out how the transaction of a commit has ended.
fn has_written(commit: &RawDocument) -> bool {
    let token = commit.get_document("recoveryToken");
    token.is_ok_and(|token| matches!(token.get("recoveryShardId"), Ok(Some(_))))
}

/// True if the driver must retry a command after a network error.
fn is_retried(command: &RawDocument) -> bool {
    let name = name(command).unwrap_or_default();
    if ["commitTransaction", "abortTransaction"].contains(&name) {
        return true;
    }
    let has = |key| matches!(command.get(key), Ok(Some(_)));
    let writes = name == "aggregate" && writes(command);
    !has("autocommit") && (has("txnNumber") || (READS.contains(&name) && !writes))
}

/// True if the pipeline of an aggregate writes.
fn writes(command: &RawDocument) -> bool {
    let Ok(Some(RawBsonRef::Array(pipeline))) = command.get("pipeline") else {
        return false;
    };
    let mut stages = pipeline.into_iter().filter_map(Result::ok);
    stages.any(|stage| {
        let stage = stage.as_document();
        let mut names = stage.into_iter().flatten().filter_map(Result::ok);
        names.any(|(name, _)| ["$out", "$merge"].contains(&name.as_str()))
    })
}

/// True if a test has the same results when connections break: it has no faults of its own,
/// counts nothing, and its clients retry.
fn is_fit(file: &UnifiedFile, test: &Test) -> bool {
    let retries = |client: &Document| {
        let options = client.get_document("uriOptions").cloned();
        options.unwrap_or_default().iter().all(|(key, value)| {
            let key = key.to_lowercase();
            let is_off = ["retryreads", "retrywrites"].contains(&key.as_str())
                && *value == Bson::Boolean(false);
            !is_off && !key.contains("timeout")
        })
    };
    let is_fit = |operation: &Document| {
        let name = operation.get_str("name").unwrap_or_default();
        let on_runner = operation.get_str("object").ok() == Some("testRunner");
        !on_runner || HARMLESS.contains(&name)
    };
    let created = test.operations.iter().flat_map(|operation| {
        let arguments = operation.get_document("arguments").cloned();
        list(&arguments.unwrap_or_default(), "entities").unwrap_or_default()
    });
    let mut created = created.filter_map(|entity| entity.get_document("client").cloned().ok());
    file.clients().all(retries)
        && created.all(|client| retries(&client))
        && test.operations.iter().all(is_fit)
}

/// Plays the tests of these folders with cut connections, and asserts that their results are the
/// same as without.
pub(crate) fn play(folders: &[&str]) {
    let Some(files) = folders
        .iter()
        .map(|folder| specifications::files(folder))
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    if Arm::chosen() != Arm::Simulated {
        return;
    }
    let mut suite = Suite::new("connections that break once", &[]);
    for (folder, files) in folders.iter().zip(&files) {
        let count = play_folder(&mut suite, files);
        assert!(count > 4, "{folder}: only {count} connections were cut");
        eprintln!("{folder}: {count} connections were cut");
    }
    suite.finish();
}

/// Plays the files of a folder. Returns the number of cuts.
fn play_folder(suite: &mut Suite, files: &[TestFile]) -> u32 {
    let mut count = 0;
    for file in files {
        let read = file.content.clone();
        let read = match read.and_then(|json| UnifiedFile::read(&json, &file.text)) {
            Ok(read) => read,
            Err(reason) => {
                suite.unreadable(&file.name, &reason);
                continue;
            }
        };
        for test in &read.tests {
            let is_skipped = test.skip_reason.is_some()
                || unsupported::reason(&read, test).is_some()
                || !is_fit(&read, test);
            if is_skipped {
                continue;
            }
            for setting in settings(&read.requirements, &test.requirements) {
                let case = format!("{} on {setting}", test.description);
                for seed in seeds() {
                    suite.case(&file.name, &case, || {
                        let (played, cuts) = cut(&setting, seed, &read, test)?;
                        count += cuts;
                        played.map_err(|why| format!("seed {seed}: {why}"))
                    });
                }
            }
        }
    }
    count
}
