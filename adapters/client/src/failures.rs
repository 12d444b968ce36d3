//! The recording that a client writes into a file when an operation fails.

use crate::Runtime;
use onionskin_core::{client::Client as Core, time::Instant};
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The shortest time between two recordings that failures write: 10 seconds. So many failures
/// neither write without a pause nor hold the lock of the client.
pub(crate) const FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// The file for the recording after a failure.
#[derive(Debug)]
pub(crate) struct FailureFile {
    path: Arc<Path>,
    /// The time from which on the next failure is written, in nanoseconds. It changes under the
    /// lock of the client.
    next: AtomicU64,
}

impl FailureFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path: path.into(),
            next: AtomicU64::new(0),
        }
    }

    /// Returns the recording if an operation has failed and the last file is old enough.
    pub(crate) fn take(&self, core: &mut Core, now: Instant) -> Option<Vec<u8>> {
        if !core.take_failure() || now.as_nanos() < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let next = now + FAILURE_INTERVAL;
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        core.recording()
    }

    /// Writes the recording on a thread for blocking work.
    pub(crate) fn write(&self, runtime: &impl Runtime, recording: Vec<u8>) {
        let path = self.path.clone();
        runtime.spawn_blocking(move || {
            // The failure has an error of its own; the application reads the file or its absence.
            let _ = replace(&path, &recording);
        });
    }
}

/// Replaces the file at once, so that nobody reads the half of a recording. On Unix, only its owner
/// can read the file. The new file has a name of its own until it is whole, and is not written
/// through a link.
fn replace(path: &Path, recording: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{number}.part", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = match options.open(&name) {
        // A process with the same id can have left the file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&name)?;
            options.open(&name)?
        }
        opened => opened?,
    };
    let written = file.write_all(recording);
    drop(file);
    let done = written.and_then(|()| fs::rename(&name, path));
    if done.is_err() {
        let _ = fs::remove_file(&name);
    }
    done
}
