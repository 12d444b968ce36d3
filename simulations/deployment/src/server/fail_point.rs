//! The command `configureFailPoint`, which makes other commands fail.

use super::{
    Member,
    commands::{self, type_name},
    connection::Request,
    document::{count_field, integer, integer_field, truth},
    fault::{Fault, bad_value, fault},
    reply::Reply,
    watch::{NOT_RESUMABLE, ends_streams},
};
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The number of equal parts into which a probability of 1 is divided.
const PROBABILITY_PARTS: u64 = 1_000_000;

/// The largest number of executions in the mode of a fail point.
const MAX_COUNT: u64 = 0x7fff_ffff;

/// The condition under which a fail point acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    AlwaysOn,
    Times(u64),
    Skip(u64),
    /// Acts with this probability, in parts of [`PROBABILITY_PARTS`].
    Probability(u64),
}

/// The fail point that makes commands fail, block or close their connection.
const FAIL_COMMAND: &str = "failCommand";

/// The fail point that makes each command with a time limit fail.
const ALWAYS_TIME_OUT: &str = "maxTimeAlwaysTimeOut";

/// The fail point that makes each `getMore` of an existing cursor fail.
const FAIL_GET_MORE: &str = "failGetMoreAfterCursorCheckout";

/// The fail point that makes a member fetch no entries of the oplog.
const STOP_PRODUCER: &str = "stopReplProducer";

/// The fail point that makes a member apply no entries of the oplog. A member here applies the
/// entries that it fetches, so its effect is that of [`STOP_PRODUCER`].
const STOP_APPLY: &str = "rsSyncApplyStop";

/// The fail point that acts on each statement of a retryable write that has changed data.
const TRANSACTIONAL_WRITE: &str = "onPrimaryTransactionalWrite";

/// The names of all fail points.
pub(super) const NAMES: [&str; 6] = [
    FAIL_COMMAND,
    ALWAYS_TIME_OUT,
    FAIL_GET_MORE,
    STOP_APPLY,
    STOP_PRODUCER,
    TRANSACTIONAL_WRITE,
];

/// A fail point that was set.
#[derive(Clone, Debug)]
pub(super) struct FailPoint {
    mode: Mode,
    data: Document,
    times_entered: i64,
}

/// The effect of a fail point on a command.
#[derive(Clone, Debug, Default)]
pub(super) struct FailEffect {
    pub(super) block: Option<Duration>,
    pub(super) close: bool,
    pub(super) fault: Option<Fault>,
    pub(super) concern: Option<Document>,
    pub(super) labels: Option<Vec<String>>,
}

impl Member {
    /// Returns the effect of the fail points on a request; `None` if none is set or acts.
    pub(super) fn fail_effect(
        &mut self,
        request: &Request,
        app: Option<&str>,
    ) -> Option<FailEffect> {
        if self.fail_points.is_empty() || request.name == "configureFailPoint" {
            return None;
        }
        // A server fails for an unknown command before it reaches the fail points.
        let release = self.program.version.release;
        if !commands::exists(&request.name, release, self.is_router()) {
            return None;
        }
        let is_limited = integer_field(&request.command, "maxTimeMS").is_some_and(|n| n > 0);
        if is_limited && self.enter(ALWAYS_TIME_OUT).is_some() {
            return Some(FailEffect {
                fault: Some(fault(50, "operation exceeded time limit")),
                ..FailEffect::default()
            });
        }
        let point = self.fail_points.get(FAIL_COMMAND)?;
        if !matches_request(&point.data, request, app) {
            return None;
        }
        self.enter(FAIL_COMMAND).map(|data| effect(&data))
    }

    /// Returns the error of a fail point for a `getMore`, if one acts. `is_limited` is true if the
    /// cursor has a time limit.
    pub(super) fn fail_get_more(&mut self, is_limited: bool) -> Option<Fault> {
        if is_limited && self.enter(ALWAYS_TIME_OUT).is_some() {
            return Some(fault(50, "operation exceeded time limit"));
        }
        self.fail_routed_get_more()
    }

    /// Returns the error of the fail point for each `getMore` of an existing cursor, if it acts.
    pub(super) fn fail_routed_get_more(&mut self) -> Option<Fault> {
        let data = self.enter(FAIL_GET_MORE)?;
        let code = integer_field(&data, "errorCode").and_then(|c| i32::try_from(c).ok());
        let text = "Hit the failGetMoreAfterCursorCheckout failpoint";
        Some(fault(code.unwrap_or(1), text))
    }

    /// True if a fail point was set and not turned off.
    pub(super) fn has_fail_points(&self) -> bool {
        !self.fail_points.is_empty()
    }

    /// Handles a statement of a retryable write that has changed data. If the fail point
    /// `onPrimaryTransactionalWrite` acts, closes the connection of the command, unless
    /// `closeConnection` is false, and returns the error of `failBeforeCommitExceptionCode`. The
    /// statement must then be undone.
    pub(super) fn fail_retryable_write(&mut self) -> Option<Fault> {
        let data = self.enter(TRANSACTIONAL_WRITE)?;
        if data.get_bool("closeConnection").unwrap_or(true)
            && let Some(conn) = self.running
        {
            self.close(conn);
        }
        let code = integer_field(&data, "failBeforeCommitExceptionCode");
        let code = i32::try_from(code?).ok()?;
        let text = "Failing write due to failpoint. The write must not be reflected.";
        Some(fault(code, text))
    }

    /// Counts an execution of the place of a fail point. Returns its data if it acts.
    fn enter(&mut self, name: &str) -> Option<Document> {
        let draw = match self.fail_points.get(name)?.mode {
            Mode::Probability(_) => self.random.below(PROBABILITY_PARTS),
            _ => 0,
        };
        let point = self.fail_points.get_mut(name)?;
        match &mut point.mode {
            Mode::Off => return None,
            Mode::AlwaysOn => {}
            Mode::Times(n) => {
                *n -= 1;
                if *n == 0 {
                    point.mode = Mode::Off;
                }
            }
            Mode::Skip(0) => {}
            Mode::Skip(n) => {
                *n -= 1;
                return None;
            }
            Mode::Probability(parts) => {
                if draw >= *parts {
                    return None;
                }
            }
        }
        point.times_entered += 1;
        Some(point.data.clone())
    }

    /// Executes the command `configureFailPoint`.
    pub(super) fn configure_fail_point(&mut self, command: &Document) -> Result<Reply, Fault> {
        let name = command.get_str("configureFailPoint").unwrap_or_default();
        let Some(name) = NAMES.into_iter().find(|known| *known == name) else {
            return Err(fault(266, format!("unable to find fail point: {name}")));
        };
        let mode = mode_of(command.get("mode"))?;
        let stops = [STOP_APPLY, STOP_PRODUCER];
        if stops.contains(&name) && !matches!(mode, Mode::Off | Mode::AlwaysOn) {
            let text = format!("{name} can only be `off` or `alwaysOn`");
            return Err(bad_value(text));
        }
        if self.is_router() && !matches!(name, FAIL_COMMAND | ALWAYS_TIME_OUT | FAIL_GET_MORE) {
            let text = format!("{name} has no effect on a router");
            return Err(fault(266, text));
        }
        let data = command.get_document("data").cloned().unwrap_or_default();
        let point = FailPoint {
            mode,
            data,
            times_entered: 0,
        };
        let before = match mode {
            Mode::Off => self.fail_points.remove(name),
            _ => self.fail_points.insert(name, point),
        };
        let count = before.map_or(0, |point| point.times_entered);
        // A member either fetches entries or does not, so there is nothing to count.
        let is_on = |name| {
            self.fail_points
                .get(name)
                .is_some_and(|p| p.mode == Mode::AlwaysOn)
        };
        let is_stopped = stops.into_iter().any(is_on);
        self.replica.set_producing(!is_stopped);
        Ok(doc! { "count": count }.into())
    }

    /// Returns the time until which a command is blocked: the fail point's time, or its time limit
    /// if that is shorter.
    pub(super) fn blocked_until(now: Instant, request: &Request, block: Duration) -> Instant {
        now + time_limit(request).map_or(block, |limit| block.min(limit))
    }
}

/// Returns the mode of a fail point.
fn mode_of(mode: Option<&Bson>) -> Result<Mode, Fault> {
    let options = match mode {
        None => {
            let text = "When setting a failpoint, you must supply a 'mode'";
            return Err(fault(20, text));
        }
        Some(Bson::String(word)) => {
            return match word.as_str() {
                "off" => Ok(Mode::Off),
                "alwaysOn" => Ok(Mode::AlwaysOn),
                word => Err(bad_value(format!("unknown mode: {word}"))),
            };
        }
        Some(Bson::Document(options)) => options,
        Some(_) => return Err(fault(14, "'mode' must be a string or JSON object")),
    };
    if let Some(times) = options.get("times") {
        return Ok(match count_of("times", times)? {
            0 => Mode::Off,
            times => Mode::Times(times),
        });
    }
    if let Some(skip) = options.get("skip") {
        return count_of("skip", skip).map(Mode::Skip);
    }
    let share = match options.get("activationProbability") {
        Some(Bson::Double(share)) => *share,
        Some(Bson::Int32(share)) => f64::from(*share),
        Some(_) => {
            let text = "the 'activationProbability' option to 'mode' must be a double between 0 \
                        and 1";
            return Err(fault(14, text));
        }
        None => {
            return Err(bad_value(
                "'mode' must be one of 'off', 'alwaysOn', 'times', and 'skip'",
            ));
        }
    };
    if !(0.0..=1.0).contains(&share) {
        let text = format!("activationProbability must be between 0.0 and 1.0; found {share}");
        return Err(bad_value(text));
    }
    Ok(Mode::Probability((share * PROBABILITY_PARTS as f64) as u64))
}

/// Returns a number of executions in the mode of a fail point.
fn count_of(name: &str, value: &Bson) -> Result<u64, Fault> {
    let is_number = matches!(
        value,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)
    );
    if !is_number {
        let kind = type_name(value);
        let text = format!("Expected field \"{name}\" to have numeric type, but found {kind}");
        return Err(fault(14, text));
    }
    match integer(value).map(u64::try_from) {
        Some(Ok(count)) if count <= MAX_COUNT => Ok(count),
        Some(Err(_)) => Err(bad_value(format!(
            "'{name}' option to 'mode' must be positive"
        ))),
        _ => Err(bad_value(format!("'{name}' option to 'mode' is too large"))),
    }
}

/// Returns the time limit of a command, `maxTimeMS`. In a `getMore` the field is the time for which
/// the server waits for new documents, not a limit.
pub(super) fn time_limit(request: &Request) -> Option<Duration> {
    let millis = integer_field(&request.command, "maxTimeMS");
    let millis = millis
        .and_then(|n| u64::try_from(n).ok())
        .filter(|&n| n > 0);
    millis
        .filter(|_| request.name != "getMore")
        .map(Duration::from_millis)
}

fn matches_request(data: &Document, request: &Request, app: Option<&str>) -> bool {
    let named = data.get_array("failCommands").is_ok_and(|names| {
        names.iter().any(|n| {
            n.as_str()
                .is_some_and(|n| n.eq_ignore_ascii_case(&request.name) || is_hello(n, request))
        })
    });
    let app_matches = match data.get_str("appName") {
        Ok(wanted) => app == Some(wanted),
        Err(_) => true,
    };
    let namespace_matches = match data.get_str("namespace") {
        Ok(wanted) => {
            let collection = request.command.get_str(&request.name).unwrap_or_default();
            wanted == format!("{}.{collection}", request.database)
        }
        Err(_) => true,
    };
    named && app_matches && namespace_matches
}

/// True if `name` and the request's name are both names of hello: fail points treat `hello` and
/// `isMaster` as one command.
fn is_hello(name: &str, request: &Request) -> bool {
    let hello = |n: &str| n == "hello" || n.eq_ignore_ascii_case("ismaster");
    hello(name) && hello(&request.name)
}

fn effect(data: &Document) -> FailEffect {
    let labels: Option<Vec<String>> = data.get_array("errorLabels").ok().map(|labels| {
        let texts = labels.iter().filter_map(Bson::as_str);
        texts.map(str::to_owned).collect()
    });
    let error = integer_field(data, "errorCode").and_then(|c| i32::try_from(c).ok());
    let of_code = |code| ends_streams(code).then(|| vec![NOT_RESUMABLE.to_owned()]);
    let fault = error.map(|code| Fault {
        labels: labels.clone().or_else(|| of_code(code)),
        ..fault(code, "Failing command via 'failCommand' failpoint")
    });
    let block = truth(data.get("blockConnection"))
        .then(|| Duration::from_millis(count_field(data, "blockTimeMS")));
    FailEffect {
        block,
        close: truth(data.get("closeConnection")),
        fault,
        concern: data.get_document("writeConcernError").ok().cloned(),
        labels,
    }
}
