//! The options that handles pass on to their calls.

use super::{ANY, Calls, MINUTE, is, secondary, sends};
use bson::{Document, doc};
use onionskin::{
    Runtime,
    options::{CollectionOptions, DatabaseOptions, SelectionCriteria},
};
use onionskin_core::{
    operation::crud::{CollectionOptionsBuilder, DatabaseOptionsBuilder},
    options::{ReadConcern, WriteConcern},
};

pub(super) async fn options<R: Runtime>(calls: &mut Calls<R>) {
    let (client, database) = (calls.sent.client.clone(), calls.database.clone());
    let of_collection = |options: CollectionOptionsBuilder| {
        database.collection_with_options::<Document>("things", options.build())
    };
    let find = async |options| of_collection(options).find_one(doc! {}).await;
    let insert = async |options| of_collection(options).insert_one(doc! {}).await;
    sends!(calls, "find", CollectionOptions: CollectionOptions::builder(), with find, {
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(SelectionCriteria::from(secondary()))
            => "$readPreference.mode" = is("secondary");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "insert", CollectionOptions: CollectionOptions::builder(), with insert, {
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let of_database = |options: DatabaseOptionsBuilder| {
        let database = client.database_with_options("promises", options.build());
        database.collection::<Document>("things")
    };
    let find = async |options| of_database(options).find_one(doc! {}).await;
    let insert = async |options| of_database(options).insert_one(doc! {}).await;
    sends!(calls, "find", DatabaseOptions: DatabaseOptions::builder(), with find, {
        read_concern(ReadConcern::local()) => "readConcern.level" = is("local");
        selection_criteria(SelectionCriteria::from(secondary()))
            => "$readPreference.mode" = is("secondary");
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "insert", DatabaseOptions: DatabaseOptions::builder(), with insert, {
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
}
