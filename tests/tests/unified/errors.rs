//! Compares errors with those that a test expects.

use super::{
    matching::{Lookup, Place, compare},
    operations::{Failure, bulk},
};
use bson::{Bson, Document, doc};
use onionskin::error::{
    BulkWriteError, Error, ErrorKind, PartialBulkWriteResult, WriteConcernError, WriteError,
};

/// Compares the failure of an operation with `expectError`.
pub(crate) fn check(
    lookup: &dyn Lookup,
    expected: &Document,
    failure: &Failure,
) -> Result<(), String> {
    let Failure::Driver(error) = failure else {
        return Err(format!("the runner failed: {failure:?}"));
    };
    for (key, value) in expected {
        one(lookup, key, value, error).map_err(|why| format!("{key}: {why} ({error})"))?;
    }
    Ok(())
}

fn one(lookup: &dyn Lookup, key: &str, value: &Bson, error: &Error) -> Result<(), String> {
    match key {
        "isError" => Ok(()),
        "isClientError" => same(value, &Bson::Boolean(!is_of_server(error))),
        "isTimeoutError" => same(value, &Bson::Boolean(error.is_timeout())),
        "errorContains" => {
            let wanted = value.as_str().unwrap_or_default().to_lowercase();
            match messages(error)
                .iter()
                .any(|m| m.to_lowercase().contains(&wanted))
            {
                true => Ok(()),
                false => Err("it is not in the message".to_owned()),
            }
        }
        "errorCode" => compare(
            lookup,
            value,
            error.code().map(Bson::Int32).as_ref(),
            Place::Root,
        ),
        "errorCodeName" => {
            let names = code_names(error);
            match value.as_str() {
                Some(name) if names.iter().any(|known| known.eq_ignore_ascii_case(name)) => Ok(()),
                _ => Err(format!("the names are {names:?}")),
            }
        }
        "errorLabelsContain" => labels(value, error, true),
        "errorLabelsOmit" => labels(value, error, false),
        "writeErrors" => {
            let bulk = bulk_error(error)?;
            let all = bulk.write_errors.iter();
            let all: Document = all
                .map(|(i, e)| (i.to_string(), described(e).into()))
                .collect();
            let expected = value.as_document().ok_or("it is no document")?;
            if all.len() != expected.len() {
                return Err(format!("there are {all}"));
            }
            for (index, expected) in expected {
                compare(lookup, expected, all.get(index), Place::Root)?;
            }
            Ok(())
        }
        "writeConcernErrors" => {
            let all: Vec<Bson> = concern_errors(error)
                .iter()
                .map(|e| concern(e).into())
                .collect();
            compare(lookup, value, Some(&all.into()), Place::Root)
        }
        "errorResponse" => compare(lookup, value, response(error).as_ref(), Place::Root),
        "expectResult" => compare(lookup, value, partial(error).as_ref(), Place::Root),
        other => Err(format!("the runner does not know {other}")),
    }
}

fn same(expected: &Bson, actual: &Bson) -> Result<(), String> {
    match expected == actual {
        true => Ok(()),
        false => Err(format!("it is {actual}")),
    }
}

/// True if the error, or the error that ended a bulk write, comes from a reply.
fn is_of_server(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::BulkWrite(bulk) => {
            !bulk.write_errors.is_empty()
                || !bulk.write_concern_errors.is_empty()
                || std::error::Error::source(error)
                    .and_then(|cause| cause.downcast_ref::<Error>())
                    .is_some_and(is_of_server)
        }
        _ => error.code().is_some(),
    }
}

fn labels(names: &Bson, error: &Error, wanted: bool) -> Result<(), String> {
    let names = names.as_array().ok_or("it is no array")?;
    for name in names.iter().filter_map(Bson::as_str) {
        if error.contains_label(name) != wanted {
            return Err(format!("the labels are {:?}", error.labels()));
        }
    }
    Ok(())
}

/// Returns the messages of an error and of its causes.
fn messages(error: &Error) -> Vec<String> {
    let mut messages = vec![error.to_string()];
    if let ErrorKind::BulkWrite(bulk) = error.kind() {
        messages.extend(
            bulk.write_errors
                .values()
                .map(|error| error.message.clone()),
        );
        messages.extend(
            bulk.write_concern_errors
                .iter()
                .map(|error| error.message.clone()),
        );
    }
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        messages.push(error.to_string());
        cause = error.source();
    }
    messages
}

fn code_names(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::Command(command) => vec![command.code_name.clone()],
        _ => concern_errors(error)
            .iter()
            .map(|error| error.code_name.clone())
            .collect(),
    }
}

fn concern_errors(error: &Error) -> Vec<WriteConcernError> {
    match error.kind() {
        ErrorKind::BulkWrite(bulk) => bulk.write_concern_errors.clone(),
        _ => {
            let all = error.write_errors();
            let concern = all.and_then(|all| all.write_concern_error.clone());
            concern.into_iter().collect()
        }
    }
}

fn bulk_error(error: &Error) -> Result<&BulkWriteError, String> {
    match error.kind() {
        ErrorKind::BulkWrite(bulk) => Ok(bulk),
        _ => Err("it is no error of a bulk write".to_owned()),
    }
}

fn described(error: &WriteError) -> Document {
    doc! { "code": error.code, "message": &error.message }
}

fn concern(error: &WriteConcernError) -> Document {
    doc! { "code": error.code, "message": &error.message }
}

fn response(error: &Error) -> Option<Bson> {
    Some(Document::try_from(error.server_response()?).ok()?.into())
}

fn partial(error: &Error) -> Option<Bson> {
    let document = match error.kind() {
        ErrorKind::BulkWrite(bulk) => match (&bulk.partial_result, &bulk.collection_result) {
            (Some(PartialBulkWriteResult::Summary(result)), _) => bulk::summary(result),
            (Some(PartialBulkWriteResult::Verbose(result)), _) => bulk::verbose(result),
            (None, Some(result)) => bulk::of_collection_result(result),
            (None, None) => return None,
        },
        _ => {
            let partial = error.partial_insert()?;
            let ids = partial.inserted_ids.iter();
            let ids: Document = ids.map(|(i, id)| (i.to_string(), id.clone())).collect();
            doc! {
                "insertedCount": i64::try_from(ids.len()).ok()?,
                "insertedIds": ids,
                "matchedCount": 0,
                "modifiedCount": 0,
                "deletedCount": 0,
                "upsertedCount": 0,
                "upsertedIds": {},
            }
        }
    };
    Some(document.into())
}
