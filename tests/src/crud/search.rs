//! Tests of the calls for search indexes. The simulated server refuses them as a server outside of
//! Atlas does, so the tests check the commands and the errors.

use super::{Bench, DATABASE, in_turn, report, within};
use bson::{Document, doc};
use onionskin::{
    Collection, Runtime, SearchIndexModel, SearchIndexType,
    options::{AggregateOptions, CollectionOptions, ReadConcern, WriteConcern},
};

/// The code with which servers outside of Atlas refuse the commands of search indexes.
const ONLY_WITH_ATLAS: i32 = 31_082;

/// Runs all tests of search indexes, and prints their number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, uri: &str) {
    let bench = Bench::<R>::new(uri);
    let passed = within::<R, _>(async {
        in_turn!(
            &bench,
            [
                search_indexes_are_created_and_updated_without_concerns,
                search_indexes_are_listed_without_concerns,
                dropping_a_search_index_of_no_collection_succeeds,
            ]
        )
    })
    .await;
    report("search indexes", name, passed);
    within::<R, _>(bench.client.shutdown()).await;
}

/// Returns a collection whose handle has concerns.
fn films<R: Runtime>(b: &Bench<R>) -> Collection<R, Document> {
    let options = CollectionOptions::builder()
        .read_concern(ReadConcern::majority())
        .write_concern(WriteConcern::majority());
    let database = b.client.database(DATABASE);
    database.collection_with_options("films", options.build())
}

fn assert_without_concerns(command: &Document) {
    let concern = ["readConcern", "writeConcern"]
        .iter()
        .find(|key| command.contains_key(**key));
    assert_eq!(concern, None, "{command}");
}

async fn search_indexes_are_created_and_updated_without_concerns<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let films = films(b);
    let text = SearchIndexModel::builder().definition(doc! { "mappings": {} });
    let plot = SearchIndexModel::builder()
        .name("plot".to_owned())
        .definition(doc! { "fields": [] })
        .index_type(SearchIndexType::VectorSearch);
    b.watch().await.clear();
    let one = films.create_search_index(text.clone().build()).await;
    let code = one.expect_err("only Atlas has them").code();
    assert_eq!(code, Some(ONLY_WITH_ATLAS));
    let two = films.create_search_indexes([text.build(), plot.build()]);
    let code = two.await.expect_err("only Atlas has them").code();
    assert_eq!(code, Some(ONLY_WITH_ATLAS));
    let update = films.update_search_index("plot", doc! { "fields": [1] });
    let code = update.await.expect_err("only Atlas has them").code();
    assert_eq!(code, Some(ONLY_WITH_ATLAS));
    let none = films.create_search_indexes([]).await;
    let code = none.expect_err("only Atlas has them").code();
    assert_eq!(code, Some(ONLY_WITH_ATLAS));

    let sent = b.watch().await.of("createSearchIndexes");
    assert_eq!(sent.len(), 3, "a server decides about an empty list");
    let first = doc! { "definition": { "mappings": {} } };
    let second = doc! { "definition": { "fields": [] }, "name": "plot", "type": "vectorSearch" };
    for (sent, indexes) in sent.iter().zip([vec![first.clone()], vec![first, second]]) {
        assert_without_concerns(&sent.command);
        let name = sent.command.get_str("createSearchIndexes");
        assert_eq!(name.ok(), Some("films"));
        assert_eq!(sent.command.get("indexes"), Some(&indexes.into()));
    }
    let sent = b.watch().await.of("updateSearchIndex");
    assert_eq!(sent.len(), 1, "such a command is not retried");
    assert_without_concerns(&sent[0].command);
    assert_eq!(sent[0].command.get_str("name").ok(), Some("plot"));
    let definition = sent[0].command.get_document("definition");
    assert_eq!(definition.ok(), Some(&doc! { "fields": [1] }));
}

async fn search_indexes_are_listed_without_concerns<R: Runtime + Default>(b: &Bench<R>) {
    let films = films(b);
    b.watch().await.clear();
    let all = films.list_search_indexes().await;
    let error = all.expect_err("only Atlas has the stage");
    error.code().expect("the error is of the server");
    let options = AggregateOptions::builder()
        .batch_size(7)
        .read_concern(ReadConcern::local())
        .write_concern(WriteConcern::nodes(1));
    // A causally consistent session sends a read concern with other aggregations.
    let mut session = b.client.start_session().await.expect("a session");
    let found = films.find_one(doc! {}).session(&mut session).await;
    found.expect("a reply");
    let one = films.list_search_indexes().name("plot");
    let one = one.aggregate_options(options.build());
    let one = one.session(&mut session).await;
    one.expect_err("only Atlas has the stage");
    let sent = b.watch().await.of("aggregate");
    let stages = sent.iter().map(|s| {
        assert_without_concerns(&s.command);
        let pipeline = s.command.get_array("pipeline").expect("a pipeline");
        assert_eq!(pipeline.len(), 1);
        pipeline[0].clone()
    });
    let expected = [doc! {}, doc! { "name": "plot" }];
    let expected = expected.map(|stage| doc! { "$listSearchIndexes": stage }.into());
    assert_eq!(stages.collect::<Vec<_>>(), expected);
    let cursor = sent[1].command.get_document("cursor").expect("options");
    assert_eq!(cursor, &doc! { "batchSize": 7_i64 });
}

async fn dropping_a_search_index_of_no_collection_succeeds<R: Runtime + Default>(b: &Bench<R>) {
    // Index Management, *NamespaceNotFound Errors*.
    let films = films(b);
    let error = films.drop_search_index("plot").await;
    let code = error.expect_err("only Atlas has them").code();
    assert_eq!(code, Some(ONLY_WITH_ATLAS));
    let missing = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 },
        "data": { "failCommands": ["dropSearchIndex"], "errorCode": 26 },
    };
    let admin = b.client.database("admin");
    admin.run_command(missing).await.expect("a fail point");
    b.watch().await.clear();
    films.drop_search_index("plot").await.expect("no error");
    let sent = b.watch().await.of("dropSearchIndex");
    assert_without_concerns(&sent[0].command);
    assert_eq!(sent[0].command.get_str("name").ok(), Some("plot"));
}
