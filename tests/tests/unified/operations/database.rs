//! The operations of databases.

use super::{
    Answer, Arguments, Done, answer, call, changes, collection_name, cursor::drained, open, unknown,
};
use bson::Document;
use onionskin::options::{
    AggregateOptions, CreateCollectionOptions, DropCollectionOptions, DropDatabaseOptions,
    ListCollectionsOptions, RunCommandOptions, RunCursorCommandOptions,
};
use onionskin::{Database, Runtime};

pub(super) async fn operate<R: Runtime>(
    database: &Database<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "aggregate" => {
            let slot = arguments.slot()?;
            let pipeline = arguments.documents("pipeline")?;
            let options = arguments.options::<AggregateOptions>()?;
            drained(open!(
                database.aggregate(pipeline).with_options(options),
                slot
            ))
            .await
        }
        "createCollection" => {
            let mut session = arguments.session()?;
            let collection = collection_name(&mut arguments)?;
            let options = arguments.options::<CreateCollectionOptions>()?;
            let call = database
                .create_collection(&collection)
                .with_options(options);
            call!(call, session);
            Ok(Answer::Collection(database.collection(&collection)))
        }
        "dropCollection" => {
            let mut session = arguments.session()?;
            let collection = collection_name(&mut arguments)?;
            let options = arguments.options::<DropCollectionOptions>()?;
            let collection = database.collection::<Document>(&collection);
            call!(collection.drop().with_options(options), session);
            Ok(Answer::Nothing)
        }
        "dropDatabase" => {
            let mut session = arguments.session()?;
            let options = arguments.options::<DropDatabaseOptions>()?;
            call!(database.drop().with_options(options), session);
            Ok(Answer::Nothing)
        }
        "createChangeStream" => changes::watch(database.watch(), arguments).await,
        _ => command(database, name, arguments).await,
    }
}

/// Runs a command of the test, or one that the driver has no call for.
async fn command<R: Runtime>(
    database: &Database<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "runCommand" => {
            arguments.take("commandName");
            let mut session = arguments.session()?;
            let command = arguments.document("command")?;
            let options = arguments.options::<RunCommandOptions>()?;
            let call = database.run_command(command).with_options(options);
            Ok(Answer::Value(call!(call, session).into()))
        }
        "runCursorCommand" | "createCommandCursor" => {
            arguments.take("commandName");
            let slot = arguments.slot()?;
            let command = arguments.document("command")?;
            let options = arguments.options::<RunCursorCommandOptions>()?;
            let cursor = open!(
                database.run_cursor_command(command).with_options(options),
                slot
            );
            match name {
                "runCursorCommand" => drained(cursor).await,
                _ => Ok(Answer::Cursor(Box::new(cursor))),
            }
        }
        "modifyCollection" => {
            let mut session = arguments.session()?;
            let mut command = Document::new();
            command.insert("collMod", collection_name(&mut arguments)?);
            command.extend(std::mem::take(&mut arguments.left));
            call!(database.run_command(command), session);
            Ok(Answer::Nothing)
        }
        _ => list(database, name, arguments).await,
    }
}

/// Lists collections.
async fn list<R: Runtime>(
    database: &Database<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "listCollections" | "listCollectionObjects" => {
            let slot = arguments.slot()?;
            let options = arguments.options::<ListCollectionsOptions>()?;
            let call = database.list_collections().with_options(options);
            let found: Vec<_> = match slot {
                None => call.await?.into_vec().await?,
                Some(slot) => {
                    let mut borrowed = slot.borrow()?;
                    let mut cursor = call.session(borrowed.session()).await?;
                    let mut found = Vec::new();
                    while let Some(one) = cursor.next(borrowed.session()).await {
                        found.push(one?);
                    }
                    found
                }
            };
            answer(&found)
        }
        "listCollectionNames" => {
            let mut session = arguments.session()?;
            let options = arguments.options::<ListCollectionsOptions>()?;
            answer(&call!(
                database.list_collection_names().with_options(options),
                session
            ))
        }
        _ => unknown("a database", name),
    }
}
