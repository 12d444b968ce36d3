//! Functions that make errors, and that add facts to them.

use super::{
    Argument, Error, ErrorKind, GridFsErrorKind, IoError, Label, Labels, NetworkFault,
    PartialInsert, Wait, WriteFailure,
};
use crate::address::Address;
use std::{sync::Arc, time::Duration};

impl Error {
    /// Creates an error of this kind, without labels and without a server.
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind};
    ///
    /// let error = Error::new(ErrorKind::Shutdown);
    /// assert_eq!(error.to_string(), "the client was shut down; create another one");
    /// ```
    #[must_use]
    pub fn new(kind: ErrorKind) -> Self {
        Self {
            kind: Box::new(kind),
            fields: Arc::default(),
        }
    }

    /// Creates a network error other than a timeout.
    ///
    /// ```
    /// use onionskin_core::error::{Error, NetworkFault};
    ///
    /// let error = Error::network(NetworkFault::Closed, "connection closed");
    /// assert!(error.is_network());
    /// ```
    #[must_use]
    pub fn network(fault: NetworkFault, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Io(IoError::new(fault, message)))
    }

    /// Creates an error for bytes of a peer that violate the protocol.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Responsible};
    ///
    /// let error = Error::protocol("the reply has no field ok");
    /// assert_eq!(error.kind().responsible(), Responsible::Peer);
    /// ```
    #[must_use]
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidResponse {
            message: message.into(),
        })
    }

    /// Creates an error for the value of an option that cannot be used.
    ///
    /// ```
    /// use onionskin_core::error::Error;
    ///
    /// let error = Error::invalid_option("maxPoolSize", "it is less than minPoolSize");
    /// let text = "invalid option maxPoolSize: it is less than minPoolSize";
    /// assert_eq!(error.to_string(), text);
    /// ```
    #[must_use]
    pub fn invalid_option(option: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument {
            argument: Argument::Option(option),
            message: message.into(),
        })
    }

    /// Creates an error for an argument that cannot be used.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Responsible};
    ///
    /// let error = Error::argument("the list of documents is empty");
    /// assert_eq!(error.kind().responsible(), Responsible::Caller);
    /// ```
    #[must_use]
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument {
            argument: Argument::Call,
            message: message.into(),
        })
    }

    /// Creates an error for a call that the state of a transaction does not allow.
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind};
    ///
    /// let error = Error::transaction("no transaction started");
    /// assert!(matches!(*error.kind, ErrorKind::Transaction { .. }));
    /// ```
    #[must_use]
    pub fn transaction(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Transaction {
            message: message.into(),
        })
    }

    /// Creates an error of GridFS.
    ///
    /// ```
    /// use onionskin_core::error::{Error, GridFsErrorKind};
    ///
    /// let error = Error::gridfs(GridFsErrorKind::WriteInProgress);
    /// assert!(error.to_string().starts_with("GridFS: "));
    /// ```
    #[must_use]
    pub fn gridfs(kind: GridFsErrorKind) -> Self {
        Self::new(ErrorKind::GridFs(kind))
    }

    /// Creates an error for an async runtime that cannot run the client.
    ///
    /// ```
    /// use onionskin_core::error::{Error, ErrorKind};
    ///
    /// let error = Error::runtime("the runtime has ended");
    /// assert!(matches!(*error.kind, ErrorKind::Runtime { .. }));
    /// ```
    #[must_use]
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Runtime {
            message: message.into(),
        })
    }

    /// Creates an error for a deadline that passed during `wait`.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Wait};
    ///
    /// let error = Error::timeout(Wait::Exchange, "no reply within 2 s");
    /// assert!(error.is_timeout());
    /// ```
    #[must_use]
    pub fn timeout(wait: Wait, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Timeout {
            wait,
            message: message.into(),
        })
    }

    /// Returns this error with `label` added.
    ///
    /// ```
    /// use onionskin_core::error::{Error, Label, NetworkFault};
    ///
    /// let error = Error::network(NetworkFault::Reset, "connection reset by peer")
    ///     .with_label(Label::TransientTransactionError);
    /// assert!(error.has_label(&Label::TransientTransactionError));
    /// ```
    #[must_use]
    pub fn with_label(mut self, label: Label) -> Self {
        Arc::make_mut(&mut self.fields).labels.insert(label);
        self
    }

    /// Returns this error with `labels` added.
    ///
    /// ```
    /// use onionskin_core::error::{CommandError, Error, ErrorKind, Labels};
    ///
    /// # let reply = bson::rawdoc! { "ok": 0, "errorLabels": ["RetryableWriteError"] };
    /// let error = Error::new(ErrorKind::Command(CommandError::from_reply(&reply)))
    ///     .with_labels(&Labels::from_reply(&reply));
    /// # assert!(error.contains_label("RetryableWriteError"));
    /// ```
    #[must_use]
    pub fn with_labels(mut self, labels: &Labels) -> Self {
        if !labels.is_empty() {
            Arc::make_mut(&mut self.fields).labels.extend(labels);
        }
        self
    }

    /// Returns this error with the address of the server where it occurred. A server that was set
    /// before is kept ([RR-20]).
    ///
    /// ```
    /// use onionskin_core::{address::Address, error::{Error, NetworkFault}};
    ///
    /// let server = Address::tcp("db1.example.net", 27017);
    /// let error = Error::network(NetworkFault::Refused, "connection refused");
    /// let error = error.with_server(&server);
    /// assert_eq!(error.server(), Some(&server));
    /// ```
    ///
    /// [RR-20]: crate::requirements::retries#RR-20
    #[must_use]
    pub fn with_server(mut self, server: &Address) -> Self {
        if self.fields.server.is_none() {
            Arc::make_mut(&mut self.fields).server = Some(server.clone());
        }
        self
    }

    /// Returns this error with `cause` as its [source](std::error::Error::source).
    ///
    /// ```
    /// use onionskin_core::error::{Error, NetworkFault, Wait};
    /// use std::error::Error as _;
    ///
    /// let cause = Error::network(NetworkFault::Reset, "connection reset by peer");
    /// let error = Error::timeout(Wait::Transaction, "no commit within 2 s").with_cause(cause);
    /// assert!(error.source().is_some());
    /// ```
    #[must_use]
    pub fn with_cause(mut self, cause: Self) -> Self {
        Arc::make_mut(&mut self.fields).cause = Some(cause);
        self
    }

    /// Returns this error with the list of documents that an `insert_many` had inserted when it
    /// failed. If there are any, removes the labels of a command that has written nothing.
    ///
    /// ```
    /// use onionskin_core::error::{Error, NetworkFault, PartialInsert};
    ///
    /// let mut partial = PartialInsert::default();
    /// partial.inserted_ids.insert(0, "Ada".into());
    /// let error = Error::network(NetworkFault::Closed, "connection closed");
    /// let error = error.with_partial_insert(partial);
    /// assert!(error.partial_insert().is_some());
    /// ```
    #[must_use]
    pub fn with_partial_insert(mut self, partial: PartialInsert) -> Self {
        let fields = Arc::make_mut(&mut self.fields);
        if !partial.inserted_ids.is_empty() {
            fields.labels.remove_those_of_no_write();
        }
        fields.partial_insert = Some(Arc::new(partial));
        self
    }

    /// Returns this error with the kind [`ErrorKind::Write`] if it has the kind
    /// [`ErrorKind::InsertMany`], in which the reply to every write is read. The errors that caused
    /// this one are changed in the same way.
    pub(crate) fn of_one_write(mut self) -> Self {
        if self.fields.cause.is_some() {
            let fields = Arc::make_mut(&mut self.fields);
            fields.cause = fields.cause.take().map(Self::of_one_write);
        }
        if let ErrorKind::InsertMany(fault) = &*self.kind
            && let Some(first) = WriteFailure::first(fault)
        {
            let kind = Box::new(ErrorKind::Write(first));
            if let ErrorKind::InsertMany(all) = *std::mem::replace(&mut self.kind, kind) {
                Arc::make_mut(&mut self.fields).writes = Some(Arc::new(all));
            }
        }
        self
    }

    /// Returns this error of a retry with an earlier error as its cause, if a server has stated in
    /// that one or in its cause that it executed the command. Then removes the labels of a command
    /// that has written nothing. Otherwise changes nothing, and so for an error that states the
    /// same.
    pub(crate) fn after_execution(mut self, earlier: Self) -> Self {
        let is_executed = |error: &Self| matches!(error.kind(), ErrorKind::InsertMany(_));
        let executed = match is_executed(&earlier) {
            true => Some(earlier),
            false => earlier.fields.cause.clone().filter(is_executed),
        };
        if let Some(executed) = executed
            && !is_executed(&self)
        {
            let fields = Arc::make_mut(&mut self.fields);
            fields.labels.remove_those_of_no_write();
            fields.cause = Some(executed);
        }
        self
    }

    /// Returns this error with the namespace of the document that could not be decoded. An empty
    /// namespace changes nothing.
    ///
    /// ```
    /// use onionskin_core::error::{BsonError, Error, ErrorKind};
    ///
    /// let kind = ErrorKind::Bson(BsonError::new("expected a number", "born"));
    /// let error = Error::new(kind).with_namespace("app.people");
    /// assert_eq!(error.namespace(), Some("app.people"));
    /// ```
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        if !namespace.is_empty() {
            Arc::make_mut(&mut self.fields).namespace = Some(namespace.into());
        }
        self
    }

    /// Returns this error with the time for which the operation waited for a suitable server.
    pub(crate) fn with_waited(mut self, waited: Option<Duration>) -> Self {
        Arc::make_mut(&mut self.fields).waited = waited;
        self
    }
}
