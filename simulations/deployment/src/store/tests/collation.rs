//! Tests of collations.

use super::*;

fn english(strength: i32) -> Document {
    doc! { "locale": "en", "strength": strength }
}

fn words() -> Store {
    let words = ["b", "A", "a", "B", "á"];
    filled(
        (0..)
            .zip(words)
            .map(|(n, w)| doc! { "_id": n, "w": w })
            .collect(),
    )
}

fn found(store: &Store, filter: Document, collation: Document) -> Vec<i32> {
    let find = Find {
        filter,
        collation: Some(collation),
        ..Find::default()
    };
    let documents = contents(store, &find);
    documents
        .iter()
        .map(|d| d.get_i32("_id").expect("an _id"))
        .collect()
}

fn collection_with(collation: Document) -> Store {
    let mut store = Store::new();
    let options = doc! { "collation": collation };
    store
        .create_collection(&namespace(), options)
        .expect("a collection");
    store
}

fn failure(collation: Document) -> i32 {
    let find = Find {
        collation: Some(collation),
        ..Find::default()
    };
    let error = with(|e| Store::new().find(&namespace(), &find, e));
    error.map_or_else(|error| error.code, |_| 0)
}

#[test]
fn filters_compare_strings_by_the_collation() {
    let store = words();
    for (filter, strength, expected) in [
        (doc! { "w": "a" }, 3, vec![2]),
        (doc! { "w": "a" }, 2, vec![1, 2]),
        (doc! { "w": "a" }, 1, vec![1, 2, 4]),
        (doc! { "w": { "$in": ["B", "x"] } }, 1, vec![0, 3]),
        (doc! { "w": { "$gt": "a" } }, 1, vec![0, 3]),
        (doc! { "w": { "$ne": "B" } }, 2, vec![1, 2, 4]),
        (doc! { "$expr": { "$eq": ["$w", "A"] } }, 2, vec![1, 2]),
        (doc! { "$expr": { "$in": ["$w", ["A"]] } }, 1, vec![1, 2, 4]),
        (doc! { "w": { "$regex": "a" } }, 1, vec![2]),
    ] {
        assert_eq!(
            found(&store, filter.clone(), english(strength)),
            expected,
            "{filter}"
        );
    }
    let simple = doc! { "locale": "simple" };
    assert_eq!(found(&store, doc! { "w": "a" }, simple), [2]);
}

#[test]
fn the_options_of_a_collation_change_the_order() {
    let sorted = |words: &[&str], collation: Document| -> Vec<String> {
        let store = filled(words.iter().map(|w| doc! { "w": *w }).collect());
        let find = Find {
            sort: Some(doc! { "w": 1 }),
            collation: Some(collation),
            ..Find::default()
        };
        let documents = contents(&store, &find);
        documents
            .iter()
            .map(|d| d.get_str("w").expect("a word").to_owned())
            .collect()
    };
    let en = |field: &str, value: Bson| {
        let mut collation = doc! { "locale": "en" };
        collation.insert(field, value);
        collation
    };
    for (words, collation, expected) in [
        (["B", "a", "b"], doc! { "locale": "en" }, ["a", "b", "B"]),
        (
            ["b", "a", "B"],
            en("caseFirst", "upper".into()),
            ["a", "B", "b"],
        ),
        (
            ["10", "9", "1"],
            en("numericOrdering", true.into()),
            ["1", "9", "10"],
        ),
        (
            ["a c", "ab", "a-d"],
            en("alternate", "shifted".into()),
            ["ab", "a c", "a-d"],
        ),
        (["ö", "z", "o"], doc! { "locale": "sv" }, ["o", "z", "ö"]),
        (["ö", "z", "o"], doc! { "locale": "de" }, ["o", "ö", "z"]),
        (
            ["ch", "d", "cz"],
            doc! { "locale": "es@collation=traditional" },
            ["cz", "ch", "d"],
        ),
        (
            ["coté", "côte", "cote"],
            doc! { "locale": "fr_CA" },
            ["cote", "côte", "coté"],
        ),
    ] {
        assert_eq!(sorted(&words, collation.clone()), expected, "{collation}");
    }
}

#[test]
fn malformed_collations_are_refused() {
    for (collation, code) in [
        (doc! { "locale": "en" }, 0),
        (doc! { "locale": "en_US" }, 0),
        (doc! { "locale": "en_US_POSIX" }, 0),
        (doc! { "locale": "sr_Latn" }, 0),
        (doc! { "locale": "simple" }, 0),
        (doc! { "locale": "simple", "strength": 1 }, 9),
        (doc! { "strength": 1 }, 40414),
        (doc! { "locale": 1 }, 14),
        (doc! { "locale": "" }, 2),
        (doc! { "locale": "xx" }, 2),
        (doc! { "locale": "en", "strength": 6 }, 2),
        (doc! { "locale": "en", "strength": "1" }, 14),
        (doc! { "locale": "en", "caseFirst": "middle" }, 2),
        (
            doc! { "locale": "en", "caseFirst": "upper", "strength": 2 },
            2,
        ),
        (doc! { "locale": "en", "backwards": true, "strength": 1 }, 2),
        (doc! { "locale": "en", "backwards": true }, 238),
        (doc! { "locale": "en", "caseLevel": "yes" }, 14),
        (doc! { "locale": "en", "version": "58.2" }, 161),
        (doc! { "locale": "en", "other": 1 }, 40415),
    ] {
        assert_eq!(failure(collation.clone()), code, "{collation}");
    }
}

#[test]
fn writes_distinct_and_pipelines_compare_by_the_collation() {
    let mut store = words();
    let find = Find {
        collation: Some(english(1)),
        ..Find::default()
    };
    let distinct = with(|e| store.distinct(&namespace(), "w", &find, e)).expect("values");
    assert_eq!(distinct, [bson!("A"), bson!("b")]);
    let stages = [
        doc! { "$group": { "_id": "$w", "n": { "$sum": 1 }, "all": { "$addToSet": "$w" } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let strength = english(1);
    let rows = with(|e| store.aggregate("db", Some("c"), &stages, Some(&strength), None, e));
    let rows: Vec<_> = rows
        .expect("rows")
        .iter()
        .map(|d| Document::clone(d))
        .collect();
    let expected = [
        doc! { "_id": "A", "n": 3, "all": ["A"] },
        doc! { "_id": "b", "n": 2, "all": ["b"] },
    ];
    assert_eq!(rows, expected);
    let update = Update::Document(doc! { "$addToSet": { "s": { "$each": ["x", "X"] } } });
    let statement = UpdateStatement {
        multi: true,
        collation: Some(english(2)),
        ..UpdateStatement::one(doc! { "w": "B" }, update)
    };
    let updated = with(|e| store.update(&namespace(), &[statement], true, e)).expect("a result");
    assert_eq!(updated.modified, 2);
    let first = contents(&store, &Find::default()).remove(0);
    assert_eq!(first.get_array("s").ok(), Some(&vec![bson!("x")]));
    let delete = DeleteStatement {
        filter: doc! { "w": "a" },
        limit: 0,
        hint: None,
        collation: Some(english(1)),
    };
    let deleted = with(|e| store.delete(&namespace(), &[delete], true, e)).expect("a result");
    assert_eq!(deleted.deleted, 3);
}

#[test]
fn a_collection_gives_its_collation_to_queries_and_indexes() {
    let mut store = collection_with(english(2));
    store
        .create_indexes(&namespace(), &[doc! { "key": { "w": 1 }, "unique": true }])
        .expect("an index");
    let documents = vec![doc! { "_id": "a", "w": "a" }, doc! { "_id": "A", "w": "b" }];
    let inserted = with(|e| store.insert(&namespace(), documents, true, e)).expect("a result");
    assert_eq!(inserted.errors[0].error.code, 11000);
    let document = vec![doc! { "_id": "b", "w": "A" }];
    let inserted = with(|e| store.insert(&namespace(), document, true, e)).expect("a result");
    let error = &inserted.errors[0].error;
    assert!(
        error.message.contains("collation: { locale: \"en\""),
        "{error}"
    );
    assert!(error.message.contains("{ w: \"CollationKey(0x"), "{error}");
    let find = Find {
        filter: doc! { "w": "A", "_id": "A" },
        ..Find::default()
    };
    assert_eq!(contents(&store, &find).len(), 1);
    let binary = Find {
        collation: Some(doc! { "locale": "simple" }),
        ..find
    };
    assert_eq!(contents(&store, &binary).len(), 0);
    let full = doc! {
        "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 2,
        "numericOrdering": false, "alternate": "non-ignorable", "maxVariable": "punct",
        "normalization": false, "backwards": false, "version": "57.1",
    };
    let listed = store
        .list_collections("db", &doc! {}, false)
        .expect("a list");
    let options = listed[0].get_document("options").expect("options");
    assert_eq!(options.get_document("collation").ok(), Some(&full));
    for index in store.list_indexes(&namespace()).expect("a list") {
        assert_eq!(index.get_document("collation").ok(), Some(&full), "{index}");
    }
}

#[test]
fn indexes_of_other_collations_are_other_indexes_and_find_no_strings() {
    let mut store = words();
    let index = |name: &str, collation: Document| {
        doc! { "key": { "w": 1 }, "name": name, "collation": collation }
    };
    let indexes = [index("one", english(1)), index("two", english(2))];
    let created = store
        .create_indexes(&namespace(), &indexes)
        .expect("indexes");
    assert_eq!(created.after, 3);
    assert_eq!(found(&store, doc! { "w": "a" }, english(1)), [1, 2, 4]);
    assert_eq!(found(&store, doc! { "w": "a" }, english(2)), [1, 2]);
    let plain = Find {
        filter: doc! { "w": "a" },
        ..Find::default()
    };
    assert_eq!(contents(&store, &plain).len(), 1);
    let by_key = store.drop_indexes(&namespace(), &bson!({ "w": 1 }));
    assert_eq!(by_key.expect_err("two indexes").code, 181);
    let other_id = doc! { "key": { "_id": 1 }, "name": "_id_", "collation": english(1) };
    let error = store.create_indexes(&namespace(), &[other_id]);
    assert_eq!(error.expect_err("another collation").code, 2);
    let collection = store.collection(&namespace()).expect("a collection");
    assert_eq!(collection.check_indexes(), Ok(()));
}

#[test]
fn a_view_keeps_its_own_collation() {
    let mut store = words();
    let view = Namespace::new("db", "v");
    let options = doc! { "viewOn": "c", "pipeline": [], "collation": english(1) };
    store.create_collection(&view, options).expect("a view");
    let find = |collation: Option<Document>| Find {
        filter: doc! { "w": "a" },
        collation,
        ..Find::default()
    };
    let own = with(|e| store.find(&view, &find(None), e)).expect("documents");
    assert_eq!(own.len(), 3);
    let error = with(|e| store.find(&view, &find(Some(english(2))), e));
    assert_eq!(error.expect_err("another collation").code, 167);
}

#[test]
fn comparisons_of_long_strings_are_bounded() {
    let long = |c: &str| c.repeat(900_000);
    let store = filled(vec![doc! { "l": vec![long("a"); 10] }]);
    let filter = doc! { "l": { "$nin": vec![long("b"); 100] } };
    let find = Find {
        filter,
        collation: Some(english(3)),
        ..Find::default()
    };
    let error = with(|e| store.find(&namespace(), &find, e)).expect_err("much work");
    assert_eq!(error.code, 50);
}
