//! Transactions: their options, and the operations of sessions and of the object `testRunner` that
//! concern them.

use super::{
    arm::Host,
    entities::{lock, string, sub},
    file::list,
    operations::{Answer, Done, Failure},
    stage::Stage,
};
use bson::{Bson, Document};
use onionskin::{
    ClientSession, Runtime,
    error::Error,
    options::{ReadPreference, TransactionOptions},
    transaction::TransactionState,
};
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};

/// Takes the options of a transaction and its time limit from the arguments of an operation.
pub(crate) fn options(
    arguments: &mut Document,
) -> Result<(TransactionOptions, Option<Duration>), String> {
    fn read<T: DeserializeOwned>(value: Bson) -> Result<Option<T>, String> {
        let read = bson::deserialize_from_bson(value);
        read.map(Some).map_err(|error| error.to_string())
    }
    let mut options = TransactionOptions::default();
    let mut timeout = None;
    for (key, value) in std::mem::take(arguments) {
        match key.as_str() {
            "readConcern" => options.read_concern = read(value)?,
            "writeConcern" => options.write_concern = read(as_sent(value))?,
            "readPreference" => {
                options.selection_criteria = read::<ReadPreference>(value)?.map(Into::into);
            }
            "maxCommitTimeMS" => options.max_commit_time = read(value)?.map(Duration::from_millis),
            "timeoutMS" => timeout = read(value)?.map(Duration::from_millis),
            _ => {
                arguments.insert(key, value);
            }
        }
    }
    Ok((options, timeout))
}

/// Returns a write concern with the names of the fields that servers know.
fn as_sent(concern: Bson) -> Bson {
    let Bson::Document(fields) = concern else {
        return concern;
    };
    let fields = fields.into_iter().map(|(key, value)| match key.as_str() {
        "journal" => ("j".to_owned(), value),
        "wtimeoutMS" => ("wtimeout".to_owned(), value),
        _ => (key, value),
    });
    Bson::Document(fields.collect())
}

/// Runs an operation of a session, unless it is one that has nothing to do with transactions.
pub(crate) async fn operate<R: Runtime>(
    session: &mut ClientSession<R>,
    name: &str,
    arguments: &mut Document,
) -> Result<bool, Failure> {
    let (options, timeout) = options(arguments)?;
    match name {
        "startTransaction" => session.start_transaction().with_options(options).await?,
        "commitTransaction" => {
            let mut call = session.commit_transaction();
            if let Some(timeout) = timeout {
                call = call.timeout(timeout);
            }
            call.await?;
        }
        "abortTransaction" => {
            let mut call = session.abort_transaction();
            if let Some(timeout) = timeout {
                call = call.timeout(timeout);
            }
            call.await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Runs the operations of a callback in a transaction until that succeeds.
pub(crate) async fn with_transaction<R: Host>(
    stage: &Arc<Stage<R>>,
    object: &str,
    mut arguments: Document,
) -> Done<R> {
    let slot = stage.entities.session(object)?;
    let callback = list(&arguments, "callback")?;
    arguments.remove("callback");
    let (options, timeout) = options(&mut arguments)?;
    if let Some(key) = arguments.keys().next() {
        return Err(Failure::Runner(format!("there is no argument {key}")));
    }
    let mut borrowed = slot.borrow()?;
    let session = borrowed.session();
    // During the callback the operations find the session in its slot, and this one takes its
    // place.
    let spare = session.client().start_session().await?;
    let mut run = session.start_transaction().with_options(options);
    if let Some(timeout) = timeout {
        run = run.timeout(timeout);
    }
    let context = (Arc::clone(stage), Arc::clone(&slot), callback, Some(spare));
    let result = run.and_run(context, |session, (stage, slot, callback, spare)| {
        Box::pin(async move {
            let own = std::mem::replace(session, spare.take().expect("it was put back"));
            slot.put(own);
            let result = play(stage, callback).await;
            let own = slot.take().expect("it was put there");
            *spare = Some(std::mem::replace(session, own));
            // The commit follows.
            stage
                .cuts
                .as_ref()
                .inspect(|cuts| cuts.begin("commitTransaction"));
            result
        })
    });
    let result = result.await;
    stage.cuts.as_ref().inspect(|cuts| cuts.end());
    match result {
        Ok(()) => Ok(Answer::Nothing),
        Err(error) => match error.get_custom::<String>() {
            Some(reason) => Err(Failure::Runner(reason.clone())),
            None => Err(Failure::Driver(error)),
        },
    }
}

/// Runs the operations of a callback. The error of an operation is the error of the callback, also
/// if the test expects it.
async fn play<R: Host>(stage: &Arc<Stage<R>>, callback: &[Document]) -> Result<(), Error> {
    for operation in callback {
        let done = stage.perform(operation).await;
        let failure = match &done {
            Err(Failure::Driver(error)) => Some(error.clone()),
            _ => None,
        };
        if !operation
            .get_bool("ignoreResultAndError")
            .unwrap_or_default()
        {
            stage.judge(operation, done).map_err(Error::custom)?;
        }
        if let Some(error) = failure {
            return Err(error);
        }
    }
    Ok(())
}

/// Runs an assertion about the transaction of a session.
pub(crate) fn assert<R: Host>(
    stage: &Stage<R>,
    name: &str,
    arguments: &Document,
) -> Result<(), String> {
    let slot = stage.entities.session(string(arguments, "session")?)?;
    let mut borrowed = slot.borrow()?;
    let session = borrowed.session();
    if name == "assertSessionTransactionState" {
        let found = match session.transaction_state() {
            TransactionState::None => "none",
            TransactionState::Starting => "starting",
            TransactionState::InProgress => "in_progress",
            TransactionState::Committed => "committed",
            TransactionState::Aborted => "aborted",
        };
        return match string(arguments, "state")? == found {
            true => Ok(()),
            false => Err(format!("the transaction is {found}")),
        };
    }
    let pinned = session.pinned_server();
    match (name, &pinned) {
        ("assertSessionPinned", Some(_)) | ("assertSessionUnpinned", None) => Ok(()),
        _ => Err(format!("the session is pinned to {pinned:?}")),
    }
}

/// Sets a fail point on the router to which a session is pinned.
pub(crate) async fn targeted_fail_point<R: Host>(
    stage: &Stage<R>,
    arguments: &Document,
) -> Result<(), Failure> {
    let slot = stage.entities.session(string(arguments, "session")?)?;
    let pinned = slot.borrow()?.session().pinned_server();
    let pinned = pinned.ok_or_else(|| "the session is not pinned".to_owned())?;
    let hosts = &stage.new.place.hosts;
    let host = hosts.iter().position(|host| *host == pinned.to_string());
    let host = host.ok_or_else(|| format!("{pinned} is none of {hosts:?}"))?;
    let own = stage
        .new
        .own(&format!("fail points of {host}"), Some(host))?;
    let command = sub(arguments, "failPoint");
    let fail_point = string(&command, "configureFailPoint")?.to_owned();
    lock(&stage.fail_points).push((own.clone(), fail_point));
    own.database("admin").run_command(command).await?;
    Ok(())
}
