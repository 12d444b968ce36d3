//! Replays of recorded runs: step by step, and compared with the recording.

use super::recording::{Ending, Line, Reader};
use onionskin_core::time::Instant;
use onionskin_worlds::world::{Report, Span, Step, Watcher};
use std::{
    collections::VecDeque,
    io::{self, BufRead, Write},
    ops::ControlFlow,
};

/// The number of lines that are shown before a stop or a difference.
const SHOWN_LINES: usize = 20;

/// The text about the commands of a session.
const HELP: &str = "\
n [NUMBER]  go on by this number of steps (default 1); so does an empty line
t TIME      go on to this virtual time, such as 1500ms
b TEXT      stop from now on at each step that has this text in a line
c           go on to the next stop, or to the end
s [TEXT]    print the state: servers and clients, or the parts whose headings have this text
q           end
";

/// Where a replay goes on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The end of the run.
    End,
    /// The first step at this virtual time or later.
    Time(Instant),
    /// The next step with this text in one of its lines.
    Text(String),
    /// This number of steps.
    Steps(u64),
}

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run was the recorded one, to its end.
    Same,
    /// The user ended the replay, or its goal was reached. Nothing was different until then.
    Stopped,
    /// The run differs from the recorded one. The text says how.
    Different(String),
}

/// A replay. Without commands it ends at its goal, where it prints the last lines and the state.
pub struct Replay<'a> {
    recorded: Reader,
    goal: Goal,
    /// The texts of the command `b`.
    breaks: Vec<String>,
    /// The commands of the user; `None` without a session.
    commands: Option<&'a mut dyn BufRead>,
    out: &'a mut dyn Write,
    last: VecDeque<String>,
    lines: u64,
    outcome: Option<Outcome>,
    failed: Option<io::Error>,
}

impl<'a> Replay<'a> {
    /// Returns a replay of a recording. With `commands`, it stops at once and asks for commands.
    pub fn new(
        recorded: Reader,
        goal: Goal,
        commands: Option<&'a mut dyn BufRead>,
        out: &'a mut dyn Write,
    ) -> Self {
        Self {
            recorded,
            goal,
            breaks: Vec::new(),
            commands,
            out,
            last: VecDeque::new(),
            lines: 0,
            outcome: None,
            failed: None,
        }
    }

    /// Compares the end of the run, which is `None` if the replay has ended it, with that of the
    /// recording.
    ///
    /// # Errors
    ///
    /// The recording could not be read, or nothing could be printed.
    pub fn finish(mut self, run: Option<Result<Report, String>>) -> io::Result<Outcome> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(outcome) = self.outcome {
            return Ok(outcome);
        }
        let Some(run) = run else {
            return Ok(Outcome::Stopped);
        };
        let ending = ending(&run);
        Ok(match self.recorded.next_line()? {
            Line::End(recorded) if recorded == ending => Outcome::Same,
            Line::End(recorded) => Outcome::Different(format!(
                "after {} equal lines, the recorded run {}, and this one {}",
                self.lines,
                text(&recorded),
                text(&ending),
            )),
            Line::Trace(line) => Outcome::Different(format!(
                "after {} equal lines, this run {}, and the recorded one goes on:\n{line}",
                self.lines,
                text(&ending),
            )),
        })
    }

    fn step(&mut self, step: &Step<'_>) -> io::Result<ControlFlow<()>> {
        for line in step.lines.lines() {
            let recorded = self.recorded.next_line()?;
            if recorded != Line::Trace(line.to_owned()) {
                self.outcome = Some(Outcome::Different(self.difference(&recorded, line)));
                return Ok(ControlFlow::Break(()));
            }
            self.lines += 1;
            self.last.truncate(SHOWN_LINES);
            self.last.push_front(line.to_owned());
        }
        if !self.is_reached(step) {
            return Ok(ControlFlow::Continue(()));
        }
        if self.commands.is_some() {
            write!(self.out, "{}", step.lines)?;
            return self.ask(step);
        }
        for line in self.last.iter().rev() {
            writeln!(self.out, "{line}")?;
        }
        write!(self.out, "\n{}", step.state())?;
        self.outcome = Some(Outcome::Stopped);
        Ok(ControlFlow::Break(()))
    }

    fn is_reached(&mut self, step: &Step<'_>) -> bool {
        let has_break = self.breaks.iter().any(|text| step.lines.contains(text));
        has_break
            || match &mut self.goal {
                Goal::End => false,
                Goal::Time(time) => step.at >= *time,
                Goal::Text(text) => step.lines.contains(&*text),
                Goal::Steps(steps) => {
                    *steps = steps.saturating_sub(1);
                    *steps == 0
                }
            }
    }

    /// Reads commands until one of them goes on or ends the replay.
    fn ask(&mut self, step: &Step<'_>) -> io::Result<ControlFlow<()>> {
        loop {
            write!(self.out, "{} > ", step.at)?;
            self.out.flush()?;
            let mut line = String::new();
            let read = match &mut self.commands {
                Some(commands) => commands.read_line(&mut line)?,
                None => 0,
            };
            let (command, rest) = match line.trim().split_once(' ') {
                Some((command, rest)) => (command, rest.trim()),
                None => (line.trim(), ""),
            };
            match (command, rest) {
                _ if read == 0 => return Ok(self.stop()),
                ("q", "") => return Ok(self.stop()),
                ("", _) => self.goal = Goal::Steps(1),
                ("n", steps) => match steps.parse() {
                    _ if steps.is_empty() => self.goal = Goal::Steps(1),
                    Ok(steps @ 1..) => self.goal = Goal::Steps(steps),
                    _ => {
                        writeln!(self.out, "`{steps}` is no number of steps")?;
                        continue;
                    }
                },
                ("t", time) => match Span::try_from(time.to_owned()) {
                    Ok(Span(time)) => self.goal = Goal::Time(Instant::ZERO + time),
                    Err(reason) => {
                        writeln!(self.out, "{reason}")?;
                        continue;
                    }
                },
                ("c", "") => self.goal = Goal::End,
                ("b", text) if !text.is_empty() => {
                    self.breaks.push(text.to_owned());
                    continue;
                }
                ("s", wanted) => {
                    write!(self.out, "{}", parts(&step.state(), wanted))?;
                    continue;
                }
                _ => {
                    write!(self.out, "{HELP}")?;
                    continue;
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
    }

    fn stop(&mut self) -> ControlFlow<()> {
        self.outcome = Some(Outcome::Stopped);
        ControlFlow::Break(())
    }

    fn difference(&self, recorded: &Line, line: &str) -> String {
        let mut text = format!("line {} differs, after these:\n", self.lines + 1);
        for line in self.last.iter().rev() {
            text += &format!("  {line}\n");
        }
        text + &match recorded {
            Line::Trace(recorded) => format!("- {recorded}\n+ {line}"),
            Line::End(ending) => format!("- the recorded run {}\n+ {line}", self::text(ending)),
        }
    }
}

impl Watcher for Replay<'_> {
    fn look(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        self.step(step).unwrap_or_else(|error| {
            self.failed = Some(error);
            ControlFlow::Break(())
        })
    }
}

/// Returns the end of a recording of this run. An `Err` has the text of a panic.
#[must_use]
pub fn ending(run: &Result<Report, String>) -> Ending {
    let failure = match run {
        Ok(report) => report.failure.as_ref().map(ToString::to_string),
        Err(text) => Some(format!("panic: {text}")),
    };
    Ending { failure }
}

fn text(ending: &Ending) -> String {
    match &ending.failure {
        None => "succeeded".to_owned(),
        Some(failure) => format!("failed ({failure})"),
    }
}

/// Returns the parts of a state whose headings contain `wanted`. A heading is a line that is not
/// indented, and the lines after it that are indented belong to it.
fn parts(state: &str, wanted: &str) -> String {
    let mut is_wanted = false;
    let mut text = String::new();
    for line in state.lines() {
        if !line.starts_with(' ') {
            is_wanted = line.contains(wanted);
        }
        if is_wanted {
            text += line;
            text.push('\n');
        }
    }
    text
}
