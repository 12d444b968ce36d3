//! The errors of the execution of commands, to which a server adds the command, and of cursors
//! whose collection has ended.

use bson::Bson;

use super::catalog::collection_uuid;
use super::error::StoreError;
use super::matcher::Matcher;
use super::projection::Projection;
use super::release::Release;
use super::sort::Sort;
use super::types::{Environment, FindAndModify, FindAndModifyResult, Modification, Namespace};
use super::update::Updater;
use super::{Answer, Store};

/// The command whose execution fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    Find,
    Aggregate,
    FindAndModify,
}

/// The codes of errors that a server finds before the execution, or that only a simulated server
/// has: of the namespace, of a time limit, of undefined variables, and refusals.
const WITHOUT_CONTEXT: [i32; 6] = [20, 50, 73, 166, 238, 17276];

/// The starts of messages of errors that a server finds before the execution.
const PLANNED: [&str; 2] = ["BSON field ", "error processing query: "];

/// Returns an error of the execution of a command with its context.
pub(crate) fn in_execution(
    error: StoreError,
    command: Execution,
    namespace: &Namespace,
    release: Release,
) -> StoreError {
    let is_planned = PLANNED.iter().any(|start| error.message.starts_with(start));
    // Older servers only do so for some of the errors of a `find`.
    let has_context = release >= Release([4, 4, 0]);
    if is_planned || !has_context || WITHOUT_CONTEXT.contains(&error.code) {
        return error;
    }
    let context = match command {
        Execution::Find if release < Release([6, 0, 0]) => {
            "Executor error during find command".to_owned()
        }
        Execution::Find => format!("Executor error during find command: {namespace}"),
        Execution::Aggregate if release < Release([8, 1, 0]) => {
            "PlanExecutor error during aggregation".to_owned()
        }
        Execution::Aggregate => {
            format!("Executor error during aggregate command on namespace: {namespace}")
        }
        Execution::FindAndModify => "Plan executor error during findAndModify".to_owned(),
    };
    error.within(&context)
}

impl Store {
    /// Returns the message of the error of a cursor whose collection was dropped or renamed. The
    /// serial number is that of the collection when the cursor was opened.
    pub(crate) fn end_of(&self, namespace: &Namespace, serial: u64) -> String {
        let uuid = collection_uuid(namespace, serial);
        let shown = match &uuid {
            Bson::Binary(binary) => hyphenated(&binary.bytes),
            _ => String::new(),
        };
        match self.collection_of_uuid(&namespace.database, &uuid) {
            Some(to) => format!("collection renamed from '{namespace}' to '{to}'. UUID {shown}"),
            None => format!("collection dropped. UUID {shown}"),
        }
    }

    /// Runs the command `findAndModify`, whose errors tell that they are of its execution.
    pub(crate) fn execute_find_and_modify(
        &mut self,
        namespace: &Namespace,
        command: &FindAndModify,
        environment: &mut Environment<'_>,
    ) -> Answer<FindAndModifyResult> {
        let done = self.find_and_modify(namespace, command, environment);
        done.map_err(|error| {
            match self.check_find_and_modify(namespace, command, environment) {
                // The error is that of a malformed command.
                Err(_) => error,
                Ok(()) => in_execution(error, Execution::FindAndModify, namespace, self.release),
            }
        })
    }

    /// Returns an error if a part of a `findAndModify` is malformed.
    fn check_find_and_modify(
        &self,
        namespace: &Namespace,
        command: &FindAndModify,
        environment: &Environment<'_>,
    ) -> Answer<()> {
        self.context(namespace, command.collation.as_ref(), environment)?;
        Matcher::new(&command.filter, self.release)?;
        if let Some(sort) = command.sort.as_ref().filter(|sort| !sort.is_empty()) {
            Sort::of_query(sort)?;
        }
        if let Some(fields) = command.projection.as_ref().filter(|p| !p.is_empty()) {
            Projection::new(fields, true, self.release)?;
        }
        if let Modification::Update {
            update,
            array_filters,
            ..
        } = &command.modification
        {
            Updater::new(update, array_filters, self.release)?;
        }
        Ok(())
    }
}

/// Returns the text of a UUID.
fn hyphenated(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
