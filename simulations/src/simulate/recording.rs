//! Recordings of runs. A recording has the scenario, the seed and each line of the trace, so that a
//! later build can repeat the run and compare its decisions.
//!
//! A recording is a file of text, compressed by gzip. The first line is a [`Heading`], and the last
//! one an [`Ending`], both as JSON. Each line between begins with a space, and is a line of the
//! trace.

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use onionskin_core::text::printable;
use onionskin_worlds::world::{Scenario, Step, Watcher, Way, check_setup};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _},
    ops::ControlFlow,
    path::Path,
};

/// The format of recordings that this version writes, and the only one that it reads.
const FORMAT: u32 = 1;

/// The largest size of a line, in bytes. A heading has a scenario of up to 1 MiB, of which JSON can
/// write each byte with six.
const MAX_LINE_BYTES: u64 = 8 * 1024 * 1024;

/// The beginning of a recording: the run that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Heading {
    /// The format of the recording.
    format: u32,
    /// The version of the command that has made the recording.
    pub version: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The text of the scenario's file.
    definition: String,
    /// How the clients were driven.
    way: String,
    /// The seed of the run.
    pub seed: u64,
}

impl Heading {
    /// Returns the heading of a recording that is made now. `name` is that of the scenario.
    #[must_use]
    pub fn new(name: &str, scenario: &Scenario, way: Way, seed: u64) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: name.to_owned(),
            definition: super::scenarios::text(scenario),
            way: way.to_string(),
            seed,
        }
    }

    /// Returns the scenario and the way of the run.
    ///
    /// # Errors
    ///
    /// A description of a part that this version does not know, or of why the run cannot begin.
    pub fn run(&self) -> Result<(Scenario, Way), String> {
        let ways = [Way::Core, Way::Runtime];
        let way = ways.into_iter().find(|way| way.to_string() == self.way);
        let way = way.ok_or_else(|| format!("the way `{}` is unknown", printable(&self.way)))?;
        let scenario = super::scenarios::parse(&self.definition);
        let scenario = scenario.map_err(|reason| format!("the scenario in it: {reason}"))?;
        match check_setup(self.seed, way, &scenario.options(self.seed)) {
            Ok(()) => Ok((scenario, way)),
            Err(failure) => {
                let reason = printable(&failure.message);
                Err(format!("the scenario in it: {reason}"))
            }
        }
    }
}

/// The end of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// The failure of the run; `None` if it succeeded.
    pub failure: Option<String>,
    /// The SHA-256 digest of the trace, as hexadecimal digits; `None` if the run panicked.
    pub digest: Option<String>,
}

/// Writes a recording while a run goes on.
#[derive(Debug)]
pub struct Writer {
    out: GzEncoder<BufWriter<File>>,
    failed: Option<io::Error>,
}

impl Writer {
    /// Begins a recording in this file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn new(file: File, heading: &Heading) -> io::Result<Self> {
        let mut out = GzEncoder::new(BufWriter::new(file), Compression::default());
        writeln!(out, "{}", serde_json::to_string(heading)?)?;
        Ok(Self { out, failed: None })
    }

    /// Ends the recording.
    ///
    /// # Errors
    ///
    /// The file could not be written, now or at an earlier step.
    pub fn finish(mut self, ending: &Ending) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        writeln!(self.out, "{}", serde_json::to_string(ending)?)?;
        self.out.finish()?.flush()
    }
}

impl Watcher for Writer {
    fn look(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        for line in step.lines.lines() {
            if self.failed.is_none() {
                self.failed = match line.len() as u64 + 2 > MAX_LINE_BYTES {
                    true => Some(wrong("a line of the trace is too long for a recording")),
                    false => writeln!(self.out, " {line}").err(),
                };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Reads a recording, line by line.
#[derive(Debug)]
pub struct Reader {
    lines: BufReader<MultiGzDecoder<BufReader<File>>>,
}

/// A line of a recording after the heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line of the trace.
    Trace(String),
    /// The end of the recording.
    End(Ending),
}

impl Reader {
    /// Opens a recording and reads its heading.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no recording of the format that this version reads.
    pub fn open(path: &Path) -> io::Result<(Self, Heading)> {
        let file = BufReader::new(File::open(path)?);
        let lines = BufReader::new(MultiGzDecoder::new(file));
        let mut reader = Self { lines };
        let line = reader.read()?;
        /// The part of a heading that all formats have.
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        match parse::<Any>(&line)?.format {
            FORMAT => Ok((reader, parse(&line)?)),
            other => Err(wrong(&format!(
                "the recording has the format {other}; this version reads {FORMAT}"
            ))),
        }
    }

    /// Reads the next line.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is cut off or damaged, or does not end after its last line.
    pub fn next_line(&mut self) -> io::Result<Line> {
        let line = self.read()?;
        if let Some(text) = line.strip_prefix(' ') {
            return Ok(Line::Trace(text.to_owned()));
        }
        let ending = parse(&line)?;
        match self.lines.fill_buf().map_err(unreadable)?.is_empty() {
            true => Ok(Line::End(ending)),
            false => Err(wrong("something follows the end of the recording")),
        }
    }

    /// Reads the rest of the file, which shows whether the file is damaged.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is cut off or damaged.
    pub fn check_rest(mut self) -> io::Result<()> {
        io::copy(&mut self.lines, &mut io::sink()).map_err(unreadable)?;
        Ok(())
    }

    fn read(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let mut limited = self.lines.by_ref().take(MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut line).map_err(unreadable)?;
        match line.pop() {
            Some(b'\n') => {
                String::from_utf8(line).map_err(|_| wrong("the recording is not valid UTF-8"))
            }
            None => Err(wrong("the recording is cut off")),
            Some(_) => Err(wrong("the recording is cut off, or a line is too long")),
        }
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> io::Result<T> {
    serde_json::from_str(line).map_err(|error| {
        let reason = error.to_string();
        wrong(&format!("not a recording: {}", printable(&reason)))
    })
}

/// Returns the error of a recording that cannot be decompressed, or the error of its file.
fn unreadable(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("the recording is cut off"),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            wrong(&format!("not a recording, or a damaged one: {error}"))
        }
        _ => error,
    }
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests;
