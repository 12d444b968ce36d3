//! The operations of clients.

use super::{Answer, Arguments, Done, answer, bulk, call, changes, documents, unknown};
use bson::Document;
use onionskin::{
    Client, Runtime,
    options::{DriverInfo, DropDatabaseOptions, ListDatabasesOptions},
};

pub(super) async fn operate<R: Runtime>(
    client: &Client<R>,
    name: &str,
    mut arguments: Arguments<'_, R>,
) -> Done<R> {
    match name {
        "close" => {
            arguments.end()?;
            client.clone().shutdown().await;
            Ok(Answer::Nothing)
        }
        "listDatabases" | "listDatabaseObjects" => {
            let mut session = arguments.session()?;
            let options = arguments.options::<ListDatabasesOptions>()?;
            let all = call!(client.list_databases().with_options(options), session);
            let described = all.iter().map(bson::serialize_to_document);
            let described: Result<Vec<Document>, _> = described.collect();
            documents(described.map_err(|error| error.to_string())?)
        }
        "listDatabaseNames" => {
            let mut session = arguments.session()?;
            let options = arguments.options::<ListDatabasesOptions>()?;
            answer(&call!(
                client.list_database_names().with_options(options),
                session
            ))
        }
        "dropDatabase" => {
            let mut session = arguments.session()?;
            let database = client.database(&arguments.text("database")?);
            let options = arguments.options::<DropDatabaseOptions>()?;
            call!(database.drop().with_options(options), session);
            Ok(Answer::Nothing)
        }
        "createChangeStream" => changes::watch(client.watch(), arguments).await,
        "clientBulkWrite" => bulk::of_client(client, arguments).await,
        "appendMetadata" => {
            let options = arguments.document("driverInfoOptions")?;
            arguments.end()?;
            let text = |key| options.get_str(key).ok().map(str::to_owned);
            let mut info = DriverInfo::new(text("name").unwrap_or_default());
            info.version = text("version");
            info.platform = text("platform");
            client.append_metadata(info)?;
            Ok(Answer::Nothing)
        }
        _ => unknown("a client", name),
    }
}
