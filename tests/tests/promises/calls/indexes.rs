//! The options of indexes, and of the calls for them.

use super::{ANY, Calls, MINUTE, after_drop, collation, index, is, sends};
use bson::{Bson, Document, doc};
use onionskin::{
    Collection, Runtime, SearchIndexModel,
    options::{
        CommitQuorum, IndexModel, IndexOptions, IndexVersion, Sphere2DIndexVersion,
        TextIndexVersion,
    },
};
use onionskin_core::{operation::crud::IndexOptionsBuilder, options::WriteConcern};

pub(super) async fn indexes<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();
    sends!(calls, "createIndexes", CreateIndex: things.create_index(index()), {
        comment("why") => "comment" = is("why");
        commit_quorum(CommitQuorum::Majority) => "commitQuorum" = is("majority");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    let drop = || things.drop_index("a_1");
    sends!(calls, "dropIndexes", DropIndex: drop(), with |call| made(&things, call), {
        comment("why") => "comment" = is("why");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
        write_concern(WriteConcern::nodes(1)) => "writeConcern.w" = is(1);
    });
    sends!(calls, "listIndexes", ListIndexes: things.list_indexes(), {
        batch_size(3) => "cursor.batchSize" = is(3);
        comment("why") => "comment" = is("why");
        max_time(MINUTE) => "maxTimeMS" = is(60_000);
        raw_data(true) => "rawData" = is(true);
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}

/// Creates the index of a call before the call.
async fn made<R: Runtime, F: IntoFuture>(things: &Collection<R, Document>, call: F) -> F::Output {
    things.create_index(index()).await.expect("a reply");
    call.await
}

pub(super) async fn options<R: Runtime>(calls: &mut Calls<R>) {
    let indexed = calls.database.collection::<Document>("indexed");
    let create = |key: &str, kind: Bson, options: IndexOptionsBuilder| {
        let model = IndexModel::builder().keys(doc! { key: kind });
        let model = model.options(options.build()).build();
        after_drop(&indexed, indexed.create_index(model))
    };
    let new = IndexOptions::builder;
    sends!(calls, "createIndexes", IndexOptions: new(), with |o| create("a", 1.into(), o), {
        background(true) => "indexes.0.background" = is(true);
        clustered(true) => "indexes.0.clustered" = is(true);
        collation(collation()) => "indexes.0.collation.locale" = is("en");
        expire_after(MINUTE) => "indexes.0.expireAfterSeconds" = is(60);
        hidden(true) => "indexes.0.hidden" = is(true);
        name("by_a".to_owned()) => "indexes.0.name" = is("by_a");
        partial_filter_expression(doc! { "b": 1 })
            => "indexes.0.partialFilterExpression" = is(doc! { "b": 1 });
        sparse(true) => "indexes.0.sparse" = is(true);
        storage_engine(doc! { "wiredTiger": {} })
            => "indexes.0.storageEngine" = is(doc! { "wiredTiger": {} });
        unique(true) => "indexes.0.unique" = is(true);
        version(IndexVersion::V2) => "indexes.0.v" = is(2);
    });
    sends!(calls, "createIndexes", IndexOptions: new(), with |o| create("a", "2d".into(), o), {
        bits(20) => "indexes.0.bits" = is(20);
        max(90.0) => "indexes.0.max" = is(90.0);
        min(-90.0) => "indexes.0.min" = is(-90.0);
    });
    let haystack = || "geoHaystack".into();
    sends!(calls, "createIndexes", IndexOptions: new(), with |o| create("a", haystack(), o), {
        bucket_size(5) => "indexes.0.bucketSize" = is(5);
    });
    sends!(calls, "createIndexes", IndexOptions: new(), with |o| create("a", "text".into(), o), {
        default_language("german".to_owned()) => "indexes.0.default_language" = is("german");
        language_override("lang".to_owned()) => "indexes.0.language_override" = is("lang");
        text_index_version(TextIndexVersion::V3) => "indexes.0.textIndexVersion" = is(3);
        weights(doc! { "a": 5 }) => "indexes.0.weights" = is(doc! { "a": 5 });
    });
    let sphere = || "2dsphere".into();
    sends!(calls, "createIndexes", IndexOptions: new(), with |o| create("a", sphere(), o), {
        sphere_2d_index_version(Sphere2DIndexVersion::V3)
            => "indexes.0.2dsphereIndexVersion" = is(3);
    });
    sends!(calls, "createIndexes", IndexOptions: new(), with |o| create("$**", 1.into(), o), {
        wildcard_projection(doc! { "a": 1 })
            => "indexes.0.wildcardProjection" = is(doc! { "a": 1 });
    });
}

pub(super) async fn search_indexes<R: Runtime>(calls: &mut Calls<R>) {
    let things = calls.things.clone();
    let index = || SearchIndexModel::builder().build();
    let create = || things.create_search_index(index());
    sends!(calls, "createSearchIndexes", CreateSearchIndex: create(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let update = || things.update_search_index("a", doc! {});
    sends!(calls, "updateSearchIndex", UpdateSearchIndex: update(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    let drop = || things.drop_search_index("a");
    sends!(calls, "dropSearchIndex", DropSearchIndex: drop(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
    sends!(calls, "aggregate", ListSearchIndexes: things.list_search_indexes(), {
        timeout(MINUTE) => "maxTimeMS" = ANY;
    });
}
