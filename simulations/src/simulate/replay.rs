//! Replays of recorded runs: step by step, and compared with the recording.

use super::{
    printable_lines,
    recording::{Ending, Line, Reader},
};
use onionskin_core::{text::printable, time::Instant};
use onionskin_deployment::deployment::MemberState;
use onionskin_worlds::world::{Report, Span, Step, Watcher};
use std::{
    collections::VecDeque,
    fmt,
    io::{self, BufRead, Write},
    mem,
    ops::ControlFlow,
    time::Duration,
};

/// The number of lines that are shown before a stop or a difference.
const SHOWN_LINES: usize = 20;

/// The text about the commands of a session.
const HELP: &str = "\
n [NUMBER]  go on by this number of steps (default 1); so does an empty line
t TIME      go on to the first step at this virtual time or later, such as 1500ms or 1.5s
o NUMBER    go on to the step at which this operation begins, counted from 1
b [TEXT]    stop from now on at each step that has this text in a line; without a text, list the
            breakpoints
m N=STATE   stop from now on at each step after which member N has come to this state, such as
            2=primary
d           remove all breakpoints
c           go on to the next stop, or to the end
s [TEXT]    print the state, or the parts of it with this text
h           print the commands
q           end
";

/// Where a replay stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// At the end of the run. Only a session stops there.
    End,
    /// At the first step at this virtual time or later.
    Time(Instant),
    /// At the next step with this text in one of its lines.
    Text(String),
    /// At the next step after which this member, counted from 0, is in this state.
    Member(usize, MemberState),
    /// At the step at which this operation begins, or at the next one if it has begun. The
    /// operations of all clients are counted together, from 1.
    Operation(u64),
    /// After this number of steps.
    Steps(u64),
}

impl Goal {
    /// Describes a run that has ended without this goal. `None` for a goal without which a run may
    /// end.
    #[must_use]
    pub fn missed(&self) -> Option<String> {
        match self {
            Self::Text(_) => Some("no step has this text".to_owned()),
            Self::Member(member, state) => {
                Some(format!("member {member} is never {}", state.name()))
            }
            Self::Operation(number) => Some(format!("fewer than {number} operations begin")),
            Self::End | Self::Time(_) | Self::Steps(_) => None,
        }
    }
}

/// A breakpoint of a session.
#[derive(Debug)]
enum Breakpoint {
    /// Each step with this text in one of its lines.
    Text(String),
    /// Each step after which this member is in this state, and was not before.
    Member {
        member: usize,
        state: MemberState,
        was_there: bool,
    },
}

impl Breakpoint {
    /// True if the replay stops at this step. Called with each step.
    fn is_reached(&mut self, step: &Step<'_>) -> bool {
        match self {
            Self::Text(text) => step.lines.contains(&*text),
            Self::Member {
                member,
                state,
                was_there,
            } => {
                let is_there = step.member_state(*member) == Some(*state);
                !mem::replace(was_there, is_there) && is_there
            }
        }
    }
}

impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Member { member, state, .. } => write!(f, "{member}={}", state.name()),
        }
    }
}

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run was the recorded one, to its end, which the text describes.
    Same(String),
    /// The replay was ended before the end of the run. Nothing was different until then.
    Stopped,
    /// The run differs from the recorded one. The text says how.
    Different(String),
}

/// The reason why a replay cannot go on.
#[derive(Debug)]
pub enum Trouble {
    /// The recording cannot be read.
    Recording(io::Error),
    /// The run has no member of this number.
    NoMember(usize),
    /// The commands cannot be read, or nothing can be printed.
    Console(io::Error),
}

/// A replay. Without commands it ends at its goal, where it prints the last lines and the state.
pub struct Replay<'a> {
    recorded: Reader,
    goal: Goal,
    /// The breakpoints of the commands `b` and `m`.
    breakpoints: Vec<Breakpoint>,
    /// The commands of the user; `None` without a session.
    commands: Option<&'a mut dyn BufRead>,
    out: &'a mut dyn Write,
    /// The last lines, those of the current step included.
    last: VecDeque<String>,
    lines: u64,
    outcome: Option<Outcome>,
    trouble: Option<Trouble>,
}

impl<'a> Replay<'a> {
    /// Returns a replay of a recording. With `commands`, it asks for commands at its goal, at
    /// breakpoints and at the end of the run.
    pub fn new(
        recorded: Reader,
        goal: Goal,
        commands: Option<&'a mut dyn BufRead>,
        out: &'a mut dyn Write,
    ) -> Self {
        Self {
            recorded,
            goal,
            breakpoints: Vec::new(),
            commands,
            out,
            last: VecDeque::new(),
            lines: 0,
            outcome: None,
            trouble: None,
        }
    }

    /// Compares the end of the run, which is `None` if the replay has ended it, with that of the
    /// recording.
    ///
    /// # Errors
    ///
    /// The replay could not go on.
    pub fn finish(mut self, run: Option<Result<Report, String>>) -> Result<Outcome, Trouble> {
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let outcome = match (self.outcome.take(), run) {
            (Some(outcome), _) => outcome,
            (None, None) => Outcome::Stopped,
            (None, Some(run)) => self.compare_ends(&ending(&run))?,
        };
        if let Outcome::Different(_) = outcome {
            // The difference may be a damage of the file.
            self.recorded.check_rest().map_err(Trouble::Recording)?;
        }
        Ok(outcome)
    }

    fn compare_ends(&mut self, ending: &Ending) -> Result<Outcome, Trouble> {
        let lines = self.lines;
        Ok(
            match self.recorded.next_line().map_err(Trouble::Recording)? {
                Line::End(recorded) if recorded == *ending => Outcome::Same(text(ending)),
                Line::End(recorded) if recorded.failure == ending.failure => Outcome::Different(
                    "the digest of the trace differs, although its lines are equal".to_owned(),
                ),
                Line::End(recorded) => Outcome::Different(format!(
                    "after {lines} equal lines, the recorded run {}, and this one {}",
                    text(&recorded),
                    text(ending),
                )),
                Line::Trace(line) => Outcome::Different(format!(
                    "after {lines} equal lines, this run {}, and the recorded one goes on:\n- {}",
                    text(ending),
                    printable(&line),
                )),
            },
        )
    }

    fn step(&mut self, step: &Step<'_>) -> Result<ControlFlow<()>, Trouble> {
        if let Goal::Member(member, _) = self.goal
            && step.member_state(member).is_none()
        {
            return Err(Trouble::NoMember(member));
        }
        for line in step.lines.lines() {
            let recorded = self.recorded.next_line().map_err(Trouble::Recording)?;
            if recorded != Line::Trace(line.to_owned()) {
                self.outcome = Some(Outcome::Different(self.difference(&recorded, line)));
                return Ok(ControlFlow::Break(()));
            }
            self.lines += 1;
            self.keep(line);
        }
        let flow = match (self.is_reached(step), self.commands.is_some()) {
            (true, true) => self.ask(step),
            (_, true) if step.is_last => self.ask(step),
            (true, false) => self.show(step),
            (false, false) if step.is_last && self.goal != Goal::End => {
                self.goal = Goal::End;
                self.show(step).map(|_| {
                    self.outcome = None;
                    ControlFlow::Continue(())
                })
            }
            (false, _) => Ok(ControlFlow::Continue(())),
        };
        flow.map_err(Trouble::Console)
    }

    fn keep(&mut self, line: &str) {
        if self.last.len() == SHOWN_LINES {
            self.last.pop_front();
        }
        self.last.push_back(printable(line).into_owned());
    }

    /// Prints the last lines and the state, and ends the replay.
    fn show(&mut self, step: &Step<'_>) -> io::Result<ControlFlow<()>> {
        let own = step.lines.lines().count();
        for line in self.last.iter().take(self.last.len().saturating_sub(own)) {
            writeln!(self.out, "{line}")?;
        }
        let (lines, state) = (printable_lines(step.lines), step.state());
        write!(self.out, "{lines}\n{}", printable_lines(&state))?;
        self.outcome = Some(Outcome::Stopped);
        Ok(ControlFlow::Break(()))
    }

    fn is_reached(&mut self, step: &Step<'_>) -> bool {
        // Each breakpoint sees each step, because it compares two of them.
        let mut is_breakpoint = false;
        for point in &mut self.breakpoints {
            is_breakpoint |= point.is_reached(step);
        }
        is_breakpoint
            || match &mut self.goal {
                Goal::End => false,
                Goal::Time(time) => step.at >= *time,
                Goal::Text(text) => step.lines.contains(&*text),
                Goal::Member(member, state) => step.member_state(*member) == Some(*state),
                Goal::Operation(number) => step.operations >= *number,
                Goal::Steps(steps) => {
                    *steps = steps.saturating_sub(1);
                    *steps == 0
                }
            }
    }

    /// Prints a step, and reads commands until one of them goes on or ends the replay.
    fn ask(&mut self, step: &Step<'_>) -> io::Result<ControlFlow<()>> {
        write!(self.out, "{}", printable_lines(step.lines))?;
        if step.is_last {
            writeln!(self.out, "The run ends here.")?;
        }
        loop {
            write!(self.out, "{} > ", step.at)?;
            self.out.flush()?;
            let mut line = Vec::new();
            if let Some(commands) = &mut self.commands {
                commands.read_until(b'\n', &mut line)?;
            }
            if line.is_empty() {
                return Ok(self.stop());
            }
            let line = String::from_utf8_lossy(&line);
            let (command, rest) = match line.trim().split_once(' ') {
                Some((command, rest)) => (command, rest.trim()),
                None => (line.trim(), ""),
            };
            match (command, rest) {
                ("q", "") => return Ok(self.stop()),
                ("c", "") => self.goal = Goal::End,
                ("", _) | ("n", "") => self.goal = Goal::Steps(1),
                ("n" | "t" | "o", _) => match goal(command, rest) {
                    Ok(goal) => self.goal = goal,
                    Err(reason) => {
                        writeln!(self.out, "{reason}")?;
                        continue;
                    }
                },
                _ => {
                    self.answer(command, rest, step)?;
                    continue;
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
    }

    /// Carries out a command that stays at the step.
    fn answer(&mut self, command: &str, rest: &str, step: &Step<'_>) -> io::Result<()> {
        match (command, rest) {
            ("b", "") => {
                for point in &self.breakpoints {
                    writeln!(self.out, "{point}")?;
                }
                Ok(())
            }
            ("b", text) => {
                self.breakpoints.push(Breakpoint::Text(text.to_owned()));
                Ok(())
            }
            ("m", text) => match member(text) {
                Ok((member, state)) => match step.member_state(member) {
                    None => writeln!(self.out, "there is no member {member}"),
                    Some(present) => {
                        self.breakpoints.push(Breakpoint::Member {
                            member,
                            state,
                            was_there: present == state,
                        });
                        Ok(())
                    }
                },
                Err(reason) => writeln!(self.out, "{reason}"),
            },
            ("d", "") => {
                self.breakpoints.clear();
                Ok(())
            }
            ("s", wanted) => match parts(&step.state(), wanted) {
                text if text.is_empty() => {
                    writeln!(self.out, "no part of the state has the text `{wanted}`")
                }
                text => write!(self.out, "{}", printable_lines(&text)),
            },
            _ => write!(self.out, "{HELP}"),
        }
    }

    fn stop(&mut self) -> ControlFlow<()> {
        self.outcome = Some(Outcome::Stopped);
        ControlFlow::Break(())
    }

    fn difference(&self, recorded: &Line, line: &str) -> String {
        let line = printable(line);
        let mut text = format!("line {} differs:\n", self.lines + 1);
        for line in &self.last {
            text += &format!("  {line}\n");
        }
        text + &match recorded {
            Line::Trace(recorded) => format!("- {}\n+ {line}", printable(recorded)),
            Line::End(ending) => format!("- the recorded run {}\n+ {line}", self::text(ending)),
        }
    }
}

impl Watcher for Replay<'_> {
    fn look(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        self.step(step).unwrap_or_else(|trouble| {
            self.trouble = Some(trouble);
            ControlFlow::Break(())
        })
    }
}

/// Reads the goal of the commands `n`, `t` and `o`.
fn goal(command: &str, text: &str) -> Result<Goal, String> {
    match (command, text.parse()) {
        ("n", Ok(steps @ 1..)) => Ok(Goal::Steps(steps)),
        ("n", _) => Err(format!("`{text}` is not a number of steps")),
        ("o", Ok(number @ 1..)) => Ok(Goal::Operation(number)),
        ("o", _) => Err(format!(
            "`{text}` is not the number of an operation, from 1"
        )),
        _ => time(text).map(Goal::Time),
    }
}

/// Reads a virtual time: a number with a unit, as in scenarios, or seconds with a fraction.
///
/// # Errors
///
/// The text is neither.
pub fn time(text: &str) -> Result<Instant, String> {
    let seconds = text.strip_suffix('s').and_then(|text| text.split_once('.'));
    let exact = seconds.and_then(|(whole, fraction)| {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_exact = is_number(whole) && is_number(fraction) && fraction.len() <= 9;
        let nanos = format!("{fraction:0<9}")
            .parse()
            .ok()
            .filter(|_| is_exact)?;
        Some(Duration::new(whole.parse().ok()?, nanos))
    });
    match exact {
        Some(time) => Ok(Instant::ZERO + time),
        None => Span::try_from(text.to_owned()).map(|Span(time)| Instant::ZERO + time),
    }
}

/// Reads a member and its state, such as `2=primary`. Members count from 0.
///
/// # Errors
///
/// The text is not of this form, or the state is unknown. The error lists the states.
pub fn member(text: &str) -> Result<(usize, MemberState), String> {
    let parsed = text.split_once('=').and_then(|(member, wanted)| {
        let mut states = MemberState::ALL.into_iter();
        let state = states.find(|state| state.name() == wanted)?;
        Some((member.parse().ok()?, state))
    });
    parsed.ok_or_else(|| {
        let names = MemberState::ALL.map(MemberState::name).join(", ");
        format!("`{text}` is no state of a member: write 2=primary, or another one of {names}")
    })
}

/// Returns the end of a recording of this run. An `Err` has the text of a panic.
#[must_use]
pub fn ending(run: &Result<Report, String>) -> Ending {
    match run {
        Ok(report) => Ending {
            failure: report.failure.as_ref().map(ToString::to_string),
            digest: Some(
                report
                    .digest
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            ),
        },
        Err(text) => Ending {
            failure: Some(format!("panic: {text}")),
            digest: None,
        },
    }
}

fn text(ending: &Ending) -> String {
    match &ending.failure {
        None => "succeeded".to_owned(),
        Some(failure) => format!("failed ({})", printable(failure)),
    }
}

/// Returns the parts of a state with this text: the lines with it, each with the heading of its
/// part, or the whole part if its heading has the text. A heading is a line that is not indented.
fn parts(state: &str, wanted: &str) -> String {
    let mut text = String::new();
    let (mut heading, mut is_whole) = ("", false);
    for line in state.lines() {
        let has_text = line.contains(wanted);
        if !line.starts_with(' ') {
            (heading, is_whole) = (line, has_text);
        } else if has_text && !is_whole && !heading.is_empty() {
            text += &format!("{heading}\n");
            heading = "";
        }
        if is_whole || has_text {
            text += &format!("{line}\n");
        }
    }
    text
}
