//! Chromium without a window, which draws pages of HTML.

use super::{Scratch, built, or_skip, print_line, run};
use std::{fs, io, path::Path, path::PathBuf, process::Command, sync::OnceLock, time::Duration};

/// The time limit of one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(120);

/// A browser that opens each page in a new process.
#[derive(Clone, Debug)]
pub struct Chromium {
    program: PathBuf,
}

/// Returns the browser. If Chromium is not installed and cannot be unpacked, prints a line that
/// begins with `SKIPPED:` and returns `None`; with `CI=true` it panics.
pub fn chromium() -> Option<Chromium> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = or_skip("Chromium", BUILT.get_or_init(|| built("chromium")).clone())?;
    print_line(&format!("PEER: Chromium {}", program.display()));
    Some(Chromium { program })
}

impl Chromium {
    /// Opens a page from a file, and returns the elements of the page as text once its scripts have
    /// run. `fragment` follows the `#` of the address.
    pub fn elements(&self, page: &Path, fragment: &str) -> io::Result<String> {
        self.open(page, fragment, &["--dump-dom"])
    }

    /// Opens a page from a file, and returns a picture of it as the bytes of a PNG file.
    pub fn screenshot(&self, page: &Path, fragment: &str) -> io::Result<Vec<u8>> {
        let scratch = Scratch::new()?;
        let file = scratch.path().join("page.png");
        let option = format!("--screenshot={}", file.display());
        self.open(page, fragment, &[&option])?;
        fs::read(file)
    }

    fn open(&self, page: &Path, fragment: &str, options: &[&str]) -> io::Result<String> {
        let profile = Scratch::new()?;
        let mut command = Command::new(&self.program);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            // The clock of the page runs ahead, so that nothing waits for timers.
            .args(["--virtual-time-budget=3000", "--window-size=1440,900"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(options)
            .arg(format!("file://{}#{fragment}", page.display()));
        let output = run(command, PAGE_TIMEOUT)?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(io::Error::other(output.stderr)),
        }
    }
}
