//! Lists of names: a command that opens a cursor, and all batches of the cursor.

use crate::{
    error::Error,
    operation::{Abandoned, Command, Cursor, Exchange, Program, Step},
};
use bson::RawDocument;
use std::sync::Arc;

/// The program of `list_collection_names` and `list_index_names`. It reads a cursor to its end, and
/// returns the field `name` of each document.
#[derive(Debug)]
pub struct Names {
    database: Arc<str>,
    /// The command that opens the cursor; `None` once it runs.
    open: Option<Result<Command, Error>>,
    cursor: Option<Cursor>,
    names: Vec<String>,
    /// True if an error of a missing namespace means that there are no names.
    may_be_missing: bool,
}

impl Names {
    /// Returns a program that runs `open` on a database, or fails with the error in it.
    #[must_use]
    pub fn new(database: Arc<str>, open: Result<Command, Error>) -> Self {
        Self {
            database,
            open: Some(open),
            cursor: None,
            names: Vec::new(),
            may_be_missing: false,
        }
    }

    /// Makes the program return no names if the server has no such collection, instead of the error
    /// (Index Management, *Enumerating Indexes*).
    #[must_use]
    pub fn of_what_may_be_missing(mut self) -> Self {
        self.may_be_missing = true;
        self
    }

    /// Reads the current batch, and returns the next step.
    fn read_batch(&mut self) -> Step<Vec<String>> {
        let Some(cursor) = &mut self.cursor else {
            return Step::Done(Ok(Vec::new()));
        };
        while let Some(next) = cursor.advance() {
            let name = next.and_then(|()| name_of(cursor.current()));
            match name {
                Ok(name) => self.names.push(name),
                Err(error) => return Step::Done(Err(error)),
            }
        }
        match cursor.start() {
            Step::Run(command) => Step::Run(command),
            _ => Step::Done(Ok(std::mem::take(&mut self.names))),
        }
    }
}

fn name_of(document: Option<&RawDocument>) -> Result<String, Error> {
    let name = document.and_then(|document| document.get_str("name").ok());
    name.map(str::to_owned)
        .ok_or_else(|| Error::protocol("an entry of the list has no text in field name"))
}

/// The code of `NamespaceNotFound`.
const NAMESPACE_NOT_FOUND: i32 = 26;

impl Program for Names {
    type Output = Vec<String>;

    fn start(&mut self) -> Step<Vec<String>> {
        match self.open.take() {
            Some(Ok(command)) => Step::Run(command),
            Some(Err(error)) => Step::Done(Err(error)),
            None => Step::Done(Err(Error::argument(
                "the operation was started already; build a new one",
            ))),
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<Vec<String>> {
        match &mut self.cursor {
            None => match Cursor::from_exchange(exchange, self.database.clone()) {
                Ok(cursor) => self.cursor = Some(cursor),
                Err(error) => return Step::Done(Err(error)),
            },
            Some(cursor) => {
                if let Step::Done(Err(error)) = cursor.handle_reply(exchange) {
                    return Step::Done(Err(error));
                }
            }
        }
        self.read_batch()
    }

    fn handle_error(&mut self, error: Error) -> Step<Vec<String>> {
        match &mut self.cursor {
            Some(cursor) => cursor.handle_failure(&error),
            None if self.may_be_missing && error.code() == Some(NAMESPACE_NOT_FOUND) => {
                return Step::Done(Ok(Vec::new()));
            }
            None => {}
        }
        Step::Done(Err(error))
    }

    fn abandon(&mut self) -> Abandoned {
        match (&mut self.cursor, self.open.take()) {
            (Some(cursor), _) => cursor.abandon(),
            (None, Some(Ok(command))) => Abandoned::Release(command.into_resources()),
            (None, _) => Abandoned::Nothing,
        }
    }
}

/// True if an error says that a collection to drop does not exist. Servers before 7.0 fail then,
/// and drivers report a success (Collection Management, *Drop Collection*).
#[must_use]
pub fn is_missing_namespace(error: &Error) -> bool {
    error.code() == Some(NAMESPACE_NOT_FOUND)
}
