//! The assessment of a reply: its errors and its cluster time. One pass over the fields of the
//! reply finds both.

use super::{ClusterTime, CommandKind, Exchange, ReplyTimes};
use crate::{
    bson::integer,
    error::{CommandError, Error, ErrorKind, InsertManyError, Labels},
};
use bson::{RawBsonRef, RawDocument};
use onionskin_bson::fields;

/// The result of a command, an error for the topology, and a new cluster time, as the reply states
/// them.
#[derive(Debug)]
pub(crate) struct Assessment {
    /// `Ok` if the command succeeded. Otherwise the error that the reply reports, or a protocol
    /// error if the reply is not valid BSON.
    pub(crate) result: Result<(), Error>,
    /// An error to report to the topology although the operation succeeded (SDAM-93).
    pub(crate) for_topology: Option<Error>,
    /// The cluster time of the reply, if it is later than that of the command; `None` otherwise.
    pub(crate) cluster_time: Option<ClusterTime>,
    /// The times of the reply; `None` without a session that the application has started.
    pub(crate) times: Option<Box<ReplyTimes>>,
}

impl Assessment {
    /// Reads the reply to a command of this kind. `known` is the `$clusterTime` of the command.
    pub(crate) fn new(reply: &RawDocument, kind: CommandKind, known: Option<&ClusterTime>) -> Self {
        let mut ok = false;
        let mut reports_writes = false;
        // The loop keeps references only, so that repeated keys in a reply cause no further copies.
        let mut label_names = None;
        let mut newest = None;
        for field in fields(reply) {
            let Ok(field) = field else {
                return Self::malformed("the reply is not valid BSON");
            };
            let name = field.name_bytes();
            // The values of other fields are not read.
            match name {
                b"ok" | b"errorLabels" | b"$clusterTime" => {}
                b"writeErrors" | b"writeConcernError" => {
                    reports_writes = true;
                    continue;
                }
                _ => continue,
            }
            let Ok(value) = field.value() else {
                return Self::malformed("the reply is not valid BSON");
            };
            match (name, value) {
                // Servers send this value.
                (b"ok", RawBsonRef::Double(1.0)) => ok = true,
                (b"ok", value) => ok = integer(value) == Some(1) || value.as_bool() == Some(true),
                (b"errorLabels", RawBsonRef::Array(names)) => label_names = Some(names),
                (b"$clusterTime", RawBsonRef::Document(time))
                    if ClusterTime::is_newer(time, known) =>
                {
                    newest = Some(time);
                }
                _ => {}
            }
        }
        let labels = || label_names.map(Labels::from_array).unwrap_or_default();
        let mut for_topology = None;
        let result = if !ok {
            let fault = CommandError::from_reply(reply);
            Err(Error::new(ErrorKind::Command(fault)).with_labels(&labels()))
        } else if reports_writes {
            let error = |fault| Error::new(ErrorKind::InsertMany(fault)).with_labels(&labels());
            match InsertManyError::from_reply(reply).map(|fault| fault.map(error)) {
                Ok(Some(error)) | Err(error) if kind.has_write_errors() => Err(error),
                // The operation succeeds with this reply, so the error goes to the topology only.
                Ok(error) => {
                    for_topology = error;
                    Ok(())
                }
                Err(_) => Ok(()),
            }
        } else {
            Ok(())
        };
        Self {
            result,
            for_topology,
            cluster_time: newest.and_then(ClusterTime::from_document),
            times: None,
        }
    }

    /// Adds the times of the reply, if the command ran in a session of the application.
    #[inline]
    pub(crate) fn with_times(mut self, reply: &RawDocument, is_explicit: bool) -> Self {
        if is_explicit {
            self.times = Some(Box::new(ReplyTimes::read(reply)));
        }
        self
    }

    pub(crate) fn malformed(message: &str) -> Self {
        Self {
            result: Err(Error::protocol(message)),
            for_topology: None,
            cluster_time: None,
            times: None,
        }
    }
}

impl Exchange {
    /// Returns the error of the reply if it is one of write errors or of a write concern.
    pub(crate) fn write_error(&self) -> Option<&Error> {
        let assessment = self.operation.exchange.assessment.as_ref()?;
        let error = assessment.result.as_ref().err();
        error.filter(|error| matches!(error.kind(), ErrorKind::InsertMany(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Label, MAX_FIELDS};
    use bson::rawdoc;

    fn assess(reply: &RawDocument, kind: CommandKind) -> Assessment {
        Assessment::new(reply, kind, None)
    }

    #[test]
    fn a_reply_without_ok_is_an_error() {
        let error = assess(&rawdoc! { "n": 1 }, CommandKind::Run).result;
        assert!(matches!(
            error.map_err(|e| e.kind().clone()),
            Err(ErrorKind::Command(_))
        ));
        assert!(
            assess(&rawdoc! { "ok": 1.0 }, CommandKind::Run)
                .result
                .is_ok()
        );
    }

    #[test]
    fn error_labels_are_read_from_the_reply_in_any_field_order() {
        let reply = rawdoc! { "errorLabels": ["RetryableWriteError", "X"], "ok": 0, "code": 91 };
        let error = assess(&reply, CommandKind::Write)
            .result
            .expect_err("ok is 0");
        assert!(error.has_label(&Label::RetryableWriteError));
        assert!(error.has_label(&Label::from_name("X")));
        assert_eq!(error.code(), Some(91));
    }

    #[test]
    fn errors_of_a_write_that_cannot_be_read_fail_it() {
        let errors = || bson::RawArrayBuf::from_iter([rawdoc! { "index": 0, "code": 11_000 }]);
        let mut late = rawdoc! { "ok": 1 };
        for _ in 0..MAX_FIELDS {
            late.append(bson::cstr!("x"), 1);
        }
        late.append(bson::cstr!("writeErrors"), errors());
        let error = assess(&late, CommandKind::Write).result;
        assert_eq!(error.expect_err("it failed").code(), Some(11_000));
        let mut twice = rawdoc! { "ok": 1, "writeErrors": [] };
        twice.append(bson::cstr!("writeErrors"), errors());
        for reply in [
            rawdoc! { "ok": 1, "writeErrors": {} },
            rawdoc! { "ok": 1, "writeErrors": [5] },
            rawdoc! { "ok": 1, "writeConcernError": "x" },
            twice,
        ] {
            for kind in [CommandKind::Write, CommandKind::RetryableWrite] {
                let error = assess(&reply, kind).result.expect_err("it is malformed");
                let is_protocol = matches!(error.kind(), ErrorKind::InvalidResponse { .. });
                assert!(is_protocol, "{error:?}");
            }
            // The application reads the reply to its own command.
            assert!(assess(&reply, CommandKind::Run).result.is_ok());
        }
    }

    #[test]
    fn a_write_concern_error_fails_writes_and_is_reported_to_the_topology() {
        // A write concern error beside `ok: 1` fails a write (RW trap 1). With other commands the
        // error is reported to the topology only (SDAM-93).
        let reply = rawdoc! { "ok": 1, "writeConcernError": { "code": 91, "errmsg": "bye" } };
        let write = assess(&reply, CommandKind::RetryableWrite)
            .result
            .expect_err("not confirmed");
        assert_eq!(write.code(), Some(91));
        let run = assess(&reply, CommandKind::Run);
        assert!(run.result.is_ok());
        assert_eq!(run.for_topology.and_then(|e| e.code()), Some(91));
    }
}
