//! Temporary directories that are removed with their owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// A new directory. Dropping the value removes the directory with all its files.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a directory that no other process and no other test uses.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("onionskin-{process}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                // An earlier process with the same id was killed and left this directory.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into the directory and returns its path.
    pub fn write(&self, name: &str, contents: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, contents)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Errors are ignored, because a file that is left in the temporary directory does no harm.
        drop(fs::remove_dir_all(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_is_removed_when_it_is_dropped() {
        let scratch = Scratch::new().unwrap();
        let other = Scratch::new().unwrap();
        assert_ne!(scratch.path(), other.path());
        let path = scratch.path().to_owned();
        let file = scratch.write("note", "text").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        drop(scratch);
        assert!(!path.exists());
        assert!(other.path().exists());
    }
}
