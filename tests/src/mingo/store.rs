//! Runs cases with the store of the simulated server.

use super::{Case, Kind};
use bson::{Bson, DateTime, Document, Timestamp, oid::ObjectId};
use onionskin_deployment::store::{
    Environment, Find, Namespace, Parts, Store, StoreError, Update, UpdateStatement,
};

const DATABASE: &str = "d";
const COLLECTION: &str = "c";

type Answer<T> = Result<T, StoreError>;

fn with<T>(run: impl FnOnce(&mut Environment<'_>) -> T) -> T {
    run(&mut Environment {
        now: DateTime::from_millis(0),
        timestamp: Timestamp {
            time: 1,
            increment: 1,
        },
        ids: &mut || ObjectId::from_bytes([9; 12]),
        seed: 0,
        variables: Document::new(),
        bypasses_validation: false,
        keeps_empty_timestamps: false,
        max_steps: None,
        parts: Parts::default(),
    })
}

fn namespace(collection: &str) -> Namespace {
    Namespace::new(DATABASE, collection)
}

fn documents_in(value: Option<&Bson>) -> Vec<Document> {
    let items = value.and_then(Bson::as_array);
    let documents = items.into_iter().flatten().filter_map(Bson::as_document);
    documents.cloned().collect()
}

fn fill(store: &mut Store, collection: &str, documents: Vec<Document>) -> Answer<()> {
    let result = with(|e| store.insert(&namespace(collection), documents, true, e))?;
    assert_eq!(result.errors, [], "all documents are valid");
    Ok(())
}

fn find(store: &Store, find: &Find) -> Answer<Vec<Document>> {
    let found = with(|e| store.find(&namespace(COLLECTION), find, e))?;
    Ok(found.iter().map(|found| Document::clone(found)).collect())
}

pub(super) fn run(case: &Case) -> Answer<Vec<Document>> {
    let mut store = Store::new();
    fill(&mut store, COLLECTION, case.documents.clone())?;
    let given = |name: &str| case.operation.get_document(name).ok().cloned();
    let number = |name: &str| {
        case.operation
            .get_i32(name)
            .unwrap_or(0)
            .unsigned_abs()
            .into()
    };
    match case.kind {
        Kind::Filter | Kind::Find => find(
            &store,
            &Find {
                filter: given("filter").unwrap_or_default(),
                sort: given("sort"),
                projection: given("projection"),
                skip: number("skip"),
                limit: number("limit"),
                ..Find::default()
            },
        ),
        Kind::Update => {
            let update = case.operation.get("update").cloned().unwrap_or(Bson::Null);
            let filter = given("filter").unwrap_or_default();
            let statement = UpdateStatement {
                multi: true,
                array_filters: documents_in(case.operation.get("arrayFilters")),
                ..UpdateStatement::one(filter, Update::from_bson(update)?)
            };
            let result = with(|e| store.update(&namespace(COLLECTION), &[statement], true, e))?;
            match result.errors.into_iter().next() {
                Some(failed) => Err(failed.error),
                None => find(&store, &Find::default()),
            }
        }
        Kind::Expression | Kind::Pipeline => {
            fill(
                &mut store,
                "other",
                documents_in(case.operation.get("other")),
            )?;
            let pipeline = documents_in(case.operation.get("pipeline"));
            let found =
                with(|e| store.aggregate(DATABASE, Some(COLLECTION), &pipeline, None, None, e))?;
            Ok(found.iter().map(|found| Document::clone(found)).collect())
        }
    }
}
