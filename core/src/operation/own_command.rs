//! Commands of the application, which the driver sends as they are.

use super::{Command, CommandKind, Request};
use crate::{
    bson::{DocumentWriter, integer_field},
    error::Error,
};
use bson::{Document, RawDocument};
use std::sync::Arc;

/// How a command of the application is retried after errors other than overload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAs {
    /// The command is not retried ([RUN-21]).
    ///
    /// [RUN-21]: crate::requirements::messages#RUN-21
    #[default]
    Nothing,
    /// The command is retried as a read is ([RR-6]).
    ///
    /// [RR-6]: crate::requirements::retries#RR-6
    Read,
    /// The command is sent to a writable server with a transaction number, and is retried as a
    /// write of one document is ([RW-24]).
    ///
    /// [RW-24]: crate::requirements::retries#RW-24
    Write,
}

/// The fields that the driver adds to retryable writes, and those that make a command part of a
/// transaction of the application.
const OWN_FIELDS: [&str; 4] = ["txnNumber", "lsid", "startTransaction", "autocommit"];

impl Command {
    /// Returns a command of the kind [`CommandKind::Run`] with the elements of `document`. Fails if
    /// `document` is empty, because the command then has no name, if it has the field `$db`, or if
    /// it cannot be encoded, for example because a key has a zero byte.
    pub fn from_document(
        document: &Document,
        database: impl Into<Arc<str>>,
    ) -> Result<Self, Error> {
        if document.is_empty() {
            let message = "a command's document is empty, so it has no name";
            return Err(Error::argument(message));
        }
        if document.contains_key("$db") {
            return Err(Error::argument(
                "a command has the field `$db`; leave it out, because the driver adds the name of \
                 the database",
            ));
        }
        let mut command = Self::new("", database, CommandKind::Run);
        command.0.request.name = None;
        command.body().tree(document)?;
        Ok(command)
    }

    /// Sets how a command of the application is retried. Fails for a write with the field
    /// `txnNumber` or another one of sessions and transactions, which the driver adds if they are
    /// needed, and for a write with an unacknowledged write concern ([RW-9]).
    ///
    /// [RW-9]: crate::requirements::retries#RW-9
    pub fn retry_as(&mut self, retry: RetryAs) -> Result<(), Error> {
        self.0.request.kind = match retry {
            RetryAs::Nothing => CommandKind::Run,
            RetryAs::Read => CommandKind::Read,
            RetryAs::Write => {
                self.check_write()?;
                CommandKind::RetryableWrite
            }
        };
        Ok(())
    }

    fn check_write(&self) -> Result<(), Error> {
        let request = &self.0.request;
        if let Some(field) = OWN_FIELDS
            .into_iter()
            .find(|field| request.has_field(field))
        {
            return Err(Error::argument(format!(
                "a command that is retried as a write has the field `{field}`; remove it, because \
                 the driver sets such fields"
            )));
        }
        match request.is_acknowledged_by_itself() {
            true => Ok(()),
            false => Err(Error::argument(
                "a command with `w: 0` has no reply, so it cannot be retried as a write",
            )),
        }
    }
}

impl Request {
    /// True if the body has a field of this name.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        let bytes = self.body_bytes();
        let document = RawDocument::from_bytes(&bytes);
        document.is_ok_and(|document| matches!(document.get(name), Ok(Some(_))))
    }

    /// Returns the elements as a document.
    fn body_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut document = DocumentWriter::begin(&mut bytes);
        document.elements(&self.elements);
        document.end();
        bytes
    }

    /// False if the elements of a command of the application have the write concern `w: 0`.
    pub(super) fn is_acknowledged_by_itself(&self) -> bool {
        let bytes = self.body_bytes();
        let body = RawDocument::from_bytes(&bytes).ok();
        let concern = body.and_then(|body| body.get_document("writeConcern").ok());
        concern.is_none_or(|concern| integer_field(concern, "w") != Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn a_command_without_a_name_or_with_a_database_is_refused() {
        for body in [doc! {}, doc! { "ping": 1, "$db": "other" }] {
            assert!(Command::from_document(&body, "admin").is_err(), "{body}");
        }
    }

    #[test]
    fn a_command_of_the_application_gets_no_second_transaction_number() {
        for body in [
            doc! { "insert": "c", "txnNumber": 1_i64 },
            doc! { "insert": "c", "lsid": {} },
            doc! { "insert": "c", "autocommit": false },
            doc! { "insert": "c", "startTransaction": true },
            doc! { "insert": "c", "writeConcern": { "w": 0 } },
            doc! { "insert": "c", "writeConcern": { "w": 0.0 } },
        ] {
            let mut command = Command::from_document(&body, "d").expect("it has a name");
            assert!(command.retry_as(RetryAs::Write).is_err(), "{body}");
            assert_eq!(command.0.request.kind, CommandKind::Run);
            command
                .retry_as(RetryAs::Read)
                .expect("reads are not checked");
            assert_eq!(command.0.request.kind, CommandKind::Read);
        }
        let body = doc! { "insert": "c", "writeConcern": { "w": 1 } };
        let mut command = Command::from_document(&body, "d").expect("it has a name");
        assert_eq!(command.retry_as(RetryAs::Write), Ok(()));
    }
}
