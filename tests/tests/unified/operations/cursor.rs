//! The operations of cursors and change streams.

use super::{Answer, Arguments, Done, Failure, unknown};
use crate::{
    entities::{Open, lock},
    special::whole,
};
use bson::Document;
use onionskin::Runtime;
use std::{sync::Mutex, time::Duration};

pub(super) async fn operate<R: Runtime>(
    slot: &Mutex<Option<Open<R>>>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    let limit = match (name, arguments.take("timeoutMS")) {
        ("close", Some(millis)) => Some(Duration::from_millis(
            whole(&millis).ok_or_else(|| format!("timeoutMS is {millis}"))?,
        )),
        (_, None) => None,
        (_, Some(_)) => return Err("there is no argument timeoutMS".to_owned().into()),
    };
    arguments.end()?;
    let taken = lock(slot).take();
    let mut cursor = taken.ok_or_else(|| "the cursor is closed".to_owned())?;
    match name {
        "close" => {
            close(cursor, limit).await;
            Ok(Answer::Nothing)
        }
        "iterateUntilDocumentOrError" => {
            let next = next(&mut cursor).await;
            *lock(slot) = Some(cursor);
            let next = next?.ok_or_else(|| "the cursor has ended".to_owned())?;
            Ok(Answer::Value(next.into()))
        }
        "iterateOnce" => {
            let next = match &mut cursor {
                Open::Plain(cursor) => cursor.next_if_any().await,
                Open::InSession(cursor, session) => {
                    cursor.next_if_any(session.borrow()?.session()).await
                }
                Open::Changes(stream) => stream.next_if_any().await,
                Open::ChangesInSession(stream, session) => {
                    stream.next_if_any(session.borrow()?.session()).await
                }
            };
            *lock(slot) = Some(cursor);
            Ok(next?.map_or(Answer::Nothing, |document| Answer::Value(document.into())))
        }
        _ => unknown("a cursor", name),
    }
}

async fn next<R: Runtime>(cursor: &mut Open<R>) -> Result<Option<Document>, Failure> {
    let next = match cursor {
        Open::Plain(cursor) => cursor.next().await,
        Open::InSession(cursor, slot) => cursor.next(slot.borrow()?.session()).await,
        Open::Changes(stream) => stream.next().await,
        Open::ChangesInSession(stream, slot) => {
            return Ok(stream.next(slot.borrow()?.session()).await?);
        }
    };
    Ok(next.transpose()?)
}

async fn close<R: Runtime>(cursor: Open<R>, limit: Option<Duration>) {
    let close = match cursor {
        Open::Plain(cursor) => cursor.close(),
        Open::InSession(cursor, _) => cursor.close(),
        Open::Changes(stream) => stream.close(),
        Open::ChangesInSession(stream, _) => stream.close(),
    };
    match limit {
        Some(limit) => close.timeout(limit).await,
        None => close.await,
    }
}

/// Returns all documents of a cursor. Closes the cursor after an error, because the drop of a
/// cursor closes it in the background, which the test does not wait for.
pub(super) async fn drained<R: Runtime>(mut cursor: Open<R>) -> Done<R> {
    let mut documents = Vec::new();
    loop {
        match next(&mut cursor).await {
            Ok(Some(document)) => documents.push(document),
            Ok(None) => return super::documents(documents),
            Err(failure) => {
                close(cursor, None).await;
                return Err(failure);
            }
        }
    }
}
