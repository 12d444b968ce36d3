//! The keys of documents in indexes, and queries that use an index.

use super::*;

fn indexed(keys: &[Document], documents: Vec<Document>) -> Result<Store, StoreError> {
    let mut store = Store::new();
    let indexes: Vec<Document> = keys.iter().map(|key| doc! { "key": key.clone() }).collect();
    store.create_indexes(&namespace(), &indexes)?;
    let outcome = with(|e| store.insert(&namespace(), documents, true, e))?;
    match outcome.errors.into_iter().next() {
        None => Ok(store),
        Some(error) => Err(error.error),
    }
}

#[test]
fn fields_of_one_array_are_combined_per_element() {
    let mut store = Store::new();
    let unique = doc! { "key": { "a.b": 1, "a.c": 1 }, "unique": true };
    store
        .create_indexes(&namespace(), &[unique])
        .expect("built");
    let a = |id: i32, pairs: &[(i32, i32)]| {
        let items = pairs.iter().map(|(b, c)| bson!({ "b": *b, "c": *c }));
        vec![doc! { "_id": id, "a": items.collect::<Vec<_>>() }]
    };
    let mut insert = |documents| {
        let outcome = with(|e| store.insert(&namespace(), documents, true, e)).expect("a result");
        outcome.errors.first().map(|error| error.error.code)
    };
    assert_eq!(insert(a(1, &[(1, 2), (3, 4)])), None);
    assert_eq!(insert(a(2, &[(1, 4), (3, 2)])), None, "other pairs");
    assert_eq!(insert(a(3, &[(5, 6), (3, 4)])), Some(11000));
}

#[test]
fn a_document_without_keys_is_refused() {
    for (key, document, code) in [
        (doc! { "a": 1, "b": 1 }, doc! { "a": [1, 2], "b": [1] }, 171),
        (
            doc! { "a.b": 1, "a.c": 1 },
            doc! { "a": { "b": [1], "c": [2] } },
            171,
        ),
        (doc! { "a.0": 1 }, doc! { "a": [{ "0": 1 }] }, 16746),
        (
            doc! { "a": 1 },
            doc! { "a": (0..100_001).collect::<Vec<_>>() },
            201,
        ),
    ] {
        let error = indexed(&[key], vec![document]).expect_err("no keys");
        assert_eq!(error.code, code, "{error:?}");
    }
    let error = indexed(
        &[doc! { "x.a": 1, "x.b": 1 }],
        vec![doc! { "x": { "a": [1], "b": [2] } }],
    );
    let message = error.expect_err("two arrays").message;
    assert_eq!(message, "cannot index parallel arrays [b] [a]");
}

/// Generates the value of a field.
fn value() -> impl Strategy<Value = Bson> {
    let scalar = prop_oneof![
        (0..4_i32).prop_map(Bson::Int32),
        (0..4_i32).prop_map(|n| Bson::Double(f64::from(n) + 0.5)),
        Just(Bson::Double(f64::NAN)),
        Just(Bson::Null),
        "[ab]".prop_map(Bson::String),
    ];
    let inner = (scalar.clone(), scalar.clone());
    let document = inner.prop_map(|(b, c)| bson!({ "b": b, "0": c }));
    let leaf = prop_oneof![scalar, document.clone(), Just(bson!({ "c": 1 }))];
    prop_oneof![
        leaf.clone(),
        proptest::collection::vec(leaf, 0..3).prop_map(Bson::Array),
    ]
}

/// Generates a condition on a field.
fn condition() -> impl Strategy<Value = Bson> {
    let operand = prop_oneof![
        (0..4_i32).prop_map(Bson::Int32),
        "[ab]".prop_map(Bson::String),
        Just(Bson::Null),
    ];
    let operator = prop_oneof![
        Just("$eq"),
        Just("$lt"),
        Just("$lte"),
        Just("$gt"),
        Just("$gte")
    ];
    let one = (operator, operand);
    proptest::collection::vec(one, 1..3).prop_map(|parts| {
        let condition: Document = parts.into_iter().map(|(o, v)| (o.to_owned(), v)).collect();
        Bson::Document(condition)
    })
}

proptest! {
    #[test]
    fn a_query_finds_the_same_documents_with_and_without_indexes(
        values in proptest::collection::vec((value(), value()), 0..12),
        path in prop_oneof![Just("a"), Just("a.b"), Just("a.0"), Just("a.0.b"), Just("d")],
        condition in condition(),
        sparse in any::<bool>(),
    ) {
        let (mut plain, mut store) = (Store::new(), Store::new());
        let key = doc! { path: 1, "d": -1 };
        let key = if path == "d" { doc! { "d": 1 } } else { key };
        let index = doc! { "key": key, "sparse": sparse };
        store.create_indexes(&namespace(), &[index]).expect("built");
        for (id, (a, d)) in (0..).zip(values) {
            let document = doc! { "_id": id, "a": a, "d": d };
            let insert = |store: &mut Store| {
                let documents = vec![document.clone()];
                with(|e| store.insert(&namespace(), documents, true, e)).expect("a result").inserted
            };
            // An index can refuse a document.
            if insert(&mut store) == 1 {
                insert(&mut plain);
            }
        }
        let find = Find { filter: doc! { path: condition }, ..Find::default() };
        // As text, because a NaN is not equal to itself.
        let found = |store: &Store| format!("{:?}", contents(store, &find));
        prop_assert_eq!(found(&store), found(&plain));
        let collection = store.collection(&namespace()).expect("created");
        prop_assert_eq!(collection.check_indexes(), Ok(()));
        let with_it = with(|e| store.delete(&namespace(), &[DeleteStatement {
            filter: Document::new(), limit: 0, hint: None, collation: None,
        }], true, e));
        prop_assert!(with_it.is_ok());
        let collection = store.collection(&namespace()).expect("kept");
        prop_assert_eq!(collection.memory(), 0);
    }
}
