//! Recordings of runs. A recording has the scenario, the seed and each line of the trace, so that a
//! later build can repeat the run and compare its decisions.
//!
//! A recording is a file of text, compressed by gzip. The first line is a [`Heading`], and the last
//! one an [`Ending`], both as JSON. Each line between begins with a space, and is a line of the
//! trace.

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
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
        let way = way.ok_or_else(|| format!("the way `{}` is unknown", self.way))?;
        let scenario = super::scenarios::parse(&self.definition);
        let scenario = scenario.map_err(|reason| format!("the scenario in it: {reason}"))?;
        match check_setup(self.seed, way, &scenario.options(self.seed)) {
            Ok(()) => Ok((scenario, way)),
            Err(failure) => Err(format!("the scenario in it: {}", failure.message)),
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
    serde_json::from_str(line).map_err(|error| wrong(&format!("not a recording: {error}")))
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
mod tests {
    use super::*;
    use crate::simulate::{
        replay::{Goal, Outcome, Replay, Trouble, ending, time},
        run_with, scenarios,
    };
    use onionskin_core::time::Instant;
    use std::{fs, io::Read, path::PathBuf, time::Duration};

    /// A file that is removed at the end of a test.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            let name = format!("onionskin-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        /// Records a run of this seed.
        fn record(&self, seed: u64, way: Way) -> Scenario {
            let text = "safety = \"1s\"\nshape = \"replica-set\"\nmembers = 3\ntasks = 1";
            let scenario = scenarios::parse(text);
            let scenario = scenario.expect("a scenario");
            let file = File::create(&self.0).expect("a file");
            let heading = Heading::new("short", &scenario, way, seed);
            let mut writer = Writer::new(file, &heading).expect("written");
            let run = run_with(seed, way, &scenario, &mut writer).expect("it was not ended");
            writer.finish(&ending(&run)).expect("written");
            scenario
        }

        fn text(&self) -> String {
            let mut text = String::new();
            let file = File::open(&self.0).expect("a file");
            let read = MultiGzDecoder::new(file).read_to_string(&mut text);
            read.expect("it is compressed text");
            text
        }

        fn rewrite(&self, text: &str) {
            let file = File::create(&self.0).expect("a file");
            let mut out = GzEncoder::new(file, Compression::fast());
            out.write_all(text.as_bytes()).expect("written");
            out.finish().expect("written");
        }

        /// Replays the recording. Returns the outcome and what was printed.
        fn replay(&self, goal: Goal, commands: Option<&str>) -> (Outcome, String) {
            let (outcome, printed) = self.try_replay(goal, commands);
            (outcome.expect("it can be replayed"), printed)
        }

        fn try_replay(
            &self,
            goal: Goal,
            commands: Option<&str>,
        ) -> (Result<Outcome, Trouble>, String) {
            let (reader, heading) = Reader::open(&self.0).expect("a recording");
            let (scenario, way) = heading.run().expect("known");
            let mut commands = commands.map(str::as_bytes);
            let commands = commands.as_mut().map(|bytes| bytes as &mut dyn io::BufRead);
            let mut out = Vec::new();
            let mut replay = Replay::new(reader, goal, commands, &mut out);
            let run = run_with(heading.seed, way, &scenario, &mut replay);
            let outcome = replay.finish(run);
            (outcome, String::from_utf8(out).expect("text"))
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_recorded_run_is_repeated() {
        for way in [Way::Core, Way::Runtime] {
            let file = Temporary::new(&format!("same-{way}"));
            let scenario = file.record(7, way);
            let (_, heading) = Reader::open(&file.0).expect("a recording");
            assert_eq!(heading.run(), Ok((scenario, way)));
            let (outcome, printed) = file.replay(Goal::End, None);
            assert_eq!(outcome, Outcome::Same("succeeded".to_owned()));
            assert_eq!(printed, "");
            // The first lines are those of the client that is being made.
            assert!(
                file.text()
                    .lines()
                    .nth(1)
                    .is_some_and(|line| line.contains("opening"))
            );
        }
    }

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        let file = Temporary::new("different");
        file.record(7, Way::Core);
        let text = file.text();
        let ended: Vec<&str> = text.lines().collect();
        let changed = ended[60].replace("0", "9") + "!";
        file.rewrite(&text.replacen(ended[60], &changed, 1));
        let (outcome, _) = file.replay(Goal::End, None);
        let Outcome::Different(how) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(how.starts_with("line 60 differs"), "{how}");
        assert!(how.ends_with(&format!("\n+{}", ended[60])), "{how}");
        // A recording of a longer run, of a shorter one, and of one that failed.
        let (lines, last) = text.trim_end().rsplit_once('\n').expect("many lines");
        let shorter = lines.rsplit_once('\n').expect("many lines").0;
        for (recorded, wanted) in [
            (
                format!("{lines}\n more\n{last}\n"),
                "the recorded one goes on",
            ),
            (
                format!("{shorter}\n{last}\n"),
                "- the recorded run succeeded",
            ),
            (format!("{lines}\n{{\"failure\":\"x\"}}\n"), "failed (x)"),
        ] {
            file.rewrite(&recorded);
            let (outcome, _) = file.replay(Goal::End, None);
            let Outcome::Different(how) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(how.contains(wanted), "{how}");
        }
    }

    #[test]
    fn a_replay_stops_where_it_is_told_to_and_shows_the_state() {
        let file = Temporary::new("session");
        file.record(7, Way::Core);
        let goal = Goal::Text("is ReplicaSetWithPrimary".to_owned());
        let (outcome, printed) = file.replay(goal, None);
        assert_eq!(outcome, Outcome::Stopped);
        for part in [
            "is ReplicaSetWithPrimary",
            "server 0: ",
            "pool of member",
            "sessions: ",
        ] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        let commands = "n 2\nn x\nt 5 h\nt 300ms\ns server\nb check started\nc\n?\nq\n";
        let (outcome, printed) = file.replay(Goal::Steps(1), Some(commands));
        assert_eq!(outcome, Outcome::Stopped);
        for part in [
            "`x` is not a number",
            "`5 h` is no length of time",
            "server 2: ",
            "s [TEXT]",
        ] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        assert!(
            !printed.contains("pool of"),
            "only servers were wanted: {printed}"
        );
        // The end of the commands ends the replay.
        let (outcome, _) = file.replay(Goal::Steps(1), Some("n\n"));
        assert_eq!(outcome, Outcome::Stopped);
        let (outcome, _) = file.replay(Goal::Steps(1), Some("c\n"));
        assert_eq!(outcome, Outcome::Stopped, "it asks at the end");
    }

    #[test]
    fn times_are_read_as_they_are_shown() {
        let at = |nanos| Ok(Instant::ZERO + Duration::from_nanos(nanos));
        assert_eq!(time("48.001180s"), at(48_001_180_000));
        assert_eq!(time("1.5s"), at(1_500_000_000));
        assert_eq!(time("1500ms"), at(1_500_000_000));
        for wrong in ["1.5", "1.x5s", "-1.5s", "1.0000000001s", "s", ".s", "5 h"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_is_no_recording_is_refused() {
        let file = Temporary::new("wrong");
        file.record(7, Way::Core);
        let text = file.text();
        let bytes = fs::read(&file.0).expect("a file");
        fs::write(&file.0, &bytes[..bytes.len() / 2]).expect("written");
        let (outcome, _) = file.try_replay(Goal::End, None);
        let Err(Trouble::Recording(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(error.to_string().contains("cut off"), "{error}");
        // A damage that the checksum shows is no difference of the driver.
        let (middle, last) = (bytes.len() / 2, bytes.len() - 6);
        for damage in [last, middle] {
            let mut damaged = bytes.clone();
            damaged[damage] ^= 1;
            fs::write(&file.0, damaged).expect("written");
            let (outcome, _) = file.try_replay(Goal::End, None);
            assert!(matches!(outcome, Err(Trouble::Recording(_))), "{outcome:?}");
        }
        file.rewrite(&(text.clone() + " more\n"));
        let (outcome, _) = file.try_replay(Goal::End, None);
        assert!(matches!(outcome, Err(Trouble::Recording(_))), "{outcome:?}");
        fs::write(&file.0, "This text is not compressed.").expect("written");
        let error = Reader::open(&file.0).expect_err("it is no recording");
        assert!(error.to_string().contains("not a recording"), "{error}");
        file.rewrite(&text.replacen("\"format\":1", "\"format\":2", 1));
        let error = Reader::open(&file.0).expect_err("the format is new");
        assert!(error.to_string().contains("format 2"), "{error}");
        file.rewrite(&text.replacen("\"core\"", "\"none\"", 1));
        let (_, heading) = Reader::open(&file.0).expect("a recording");
        assert!(heading.run().is_err_and(|text| text.contains("`none`")));
        file.rewrite(&"x".repeat(2 * 1024 * 1024));
        assert!(Reader::open(&file.0).is_err_and(|e| e.to_string().contains("too long")));
    }
}
