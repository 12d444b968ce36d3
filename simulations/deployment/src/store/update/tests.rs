use bson::{bson, doc};

use super::*;

fn update(
    document: &Document,
    filter: &Document,
    update: &Document,
    filters: &[Document],
) -> Answer<Document> {
    let matcher = Matcher::new(filter)?;
    let updater = Updater::new(&Update::Document(update.clone()), filters)?;
    updater.apply(
        document,
        matcher.position(document, &EvaluationContext::default()),
        false,
        &EvaluationContext::default(),
    )
}

#[test]
fn updates_of_fields_match_the_server() {
    let none = doc! {};
    check_table([
        (
            doc! { "a": 1 },
            none.clone(),
            doc! { "$set": { "b.c": 2 } },
            bson!({ "a": 1, "b": { "c": 2 } }),
        ),
        (
            doc! { "a": [1] },
            none.clone(),
            doc! { "$set": { "a.2": 3 } },
            bson!({ "a": [1, null, 3] }),
        ),
        (
            doc! { "a": 1, "b": 2 },
            none.clone(),
            doc! { "$unset": { "a": "" } },
            bson!({ "b": 2 }),
        ),
        (
            doc! { "a": [1, 2] },
            none.clone(),
            doc! { "$unset": { "a.0": 1 } },
            bson!({ "a": [null, 2] }),
        ),
        (
            doc! { "a": 1 },
            none.clone(),
            doc! { "$inc": { "a": 2, "b": 5 } },
            bson!({ "a": 3, "b": 5 }),
        ),
        (
            doc! { "a": 3 },
            none.clone(),
            doc! { "$mul": { "a": 2, "b": 5 } },
            bson!({ "a": 6, "b": 0 }),
        ),
        (
            doc! { "a": 3 },
            none.clone(),
            doc! { "$min": { "a": 2 } },
            bson!({ "a": 2 }),
        ),
    ]);
}

#[test]
fn updates_of_fields_and_arrays_match_the_server() {
    let none = doc! {};
    check_table([
        (
            doc! { "a": 3 },
            none.clone(),
            doc! { "$max": { "a": 2, "b": 1 } },
            bson!({ "a": 3, "b": 1 }),
        ),
        (
            doc! { "a": 3 },
            none.clone(),
            doc! { "$rename": { "a": "b.c" } },
            bson!({ "b": { "c": 3 } }),
        ),
        (
            doc! { "a": 3 },
            none.clone(),
            doc! { "$setOnInsert": { "a": 4 } },
            bson!({ "a": 3 }),
        ),
        (
            doc! {},
            none.clone(),
            doc! { "$push": { "a": 1 } },
            bson!({ "a": [1] }),
        ),
        (
            doc! { "a": [5, 1] },
            none.clone(),
            doc! { "$push": { "a": { "$each": [3, 4], "$sort": -1, "$slice": 3 } } },
            bson!({ "a": [5, 4, 3] }),
        ),
        (
            doc! { "a": [1, 2] },
            none.clone(),
            doc! { "$push": { "a": { "$each": [9], "$position": -1 } } },
            bson!({ "a": [1, 9, 2] }),
        ),
        (
            doc! { "a": [1] },
            none.clone(),
            doc! { "$addToSet": { "a": { "$each": [1, 2, 2] } } },
            bson!({ "a": [1, 2] }),
        ),
    ]);
}

#[test]
fn updates_of_elements_and_replacements_match_the_server() {
    let none = doc! {};
    check_table([
        (
            doc! { "a": [1, 5, 9] },
            none.clone(),
            doc! { "$pull": { "a": { "$gt": 4 } } },
            bson!({ "a": [1] }),
        ),
        (
            doc! { "a": [{ "b": 1, "c": 2 }, { "b": 2 }] },
            none.clone(),
            doc! { "$pull": { "a": { "b": 1 } } },
            bson!({ "a": [{ "b": 2 }] }),
        ),
        (
            doc! { "a": [1, 2, 1] },
            none.clone(),
            doc! { "$pullAll": { "a": [1] } },
            bson!({ "a": [2] }),
        ),
        (
            doc! { "a": [1, 2, 3] },
            none.clone(),
            doc! { "$pop": { "a": -1 } },
            bson!({ "a": [2, 3] }),
        ),
        (
            doc! { "a": 13 },
            none.clone(),
            doc! { "$bit": { "a": { "and": 10 } } },
            bson!({ "a": 8 }),
        ),
        (
            doc! { "a": [1, 2] },
            doc! { "a": 2 },
            doc! { "$set": { "a.$": 7 } },
            bson!({ "a": [1, 7] }),
        ),
        (
            doc! { "a": [{ "b": 1 }, { "b": 2 }] },
            none.clone(),
            doc! { "$inc": { "a.$[].b": 1 } },
            bson!({ "a": [{ "b": 2 }, { "b": 3 }] }),
        ),
        (
            doc! { "a": [1, 8, 9] },
            none.clone(),
            doc! { "$set": { "a.$[x]": 0 } },
            bson!({ "a": [1, 0, 0] }),
        ),
        (
            doc! { "_id": 1, "a": 3 },
            none,
            doc! { "z": 4 },
            bson!({ "_id": 1, "z": 4 }),
        ),
    ]);
}

fn check_table(table: impl IntoIterator<Item = (Document, Document, Document, Bson)>) {
    for (document, filter, change, expected) in table {
        let uses_filter = change.to_string().contains("[x]");
        let filters = if uses_filter {
            vec![doc! { "x": { "$gte": 8 } }]
        } else {
            vec![]
        };
        let result = update(&document, &filter, &change, &filters).expect("an update");
        assert_eq!(Bson::Document(result), expected, "{change} on {document}");
    }
}

#[test]
fn invalid_updates_fail_with_the_servers_codes() {
    let table = [
        (doc! { "$foo": { "a": 1 } }, 9),
        (doc! { "$set": { "a": 1, "a.b": 2 } }, 40),
        (doc! { "$set": { "_id": 2 } }, 66),
        (doc! { "_id": 2 }, 66),
        (doc! { "$inc": { "s": 1 } }, 14),
        (doc! { "$inc": { "n": "x" } }, 14),
        (doc! { "$set": { "n.b": 1 } }, 28),
        (doc! { "$push": { "n": 1 } }, 2),
        (doc! { "$set": { "a.$": 1 } }, 2),
        (doc! { "$set": { "": 1 } }, 56),
        (doc! { "a": 1, "$set": 1 }, 52),
    ];
    let document = doc! { "_id": 1, "s": "text", "n": 1 };
    for (change, code) in table {
        let error = update(&document, &doc! {}, &change, &[]).expect_err("refused");
        assert_eq!(error.code, code, "{change}: {error}");
    }
}

#[test]
fn an_upsert_starts_with_the_equality_conditions_of_its_filter() {
    let matcher =
        Matcher::new(&doc! { "a.b": 1, "$and": [{ "c": { "$eq": 2 } }], "d": { "$gt": 1 } });
    let base = upsert_base(&matcher.expect("a filter"), false, &Budget::default()).expect("a base");
    assert_eq!(base, doc! { "a": { "b": 1 }, "c": 2 });
}
