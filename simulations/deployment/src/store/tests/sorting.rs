//! The order of documents by the values at paths, and in natural order.

use super::*;

fn ids(store: &Store, sort: Document) -> Vec<i32> {
    let find = Find {
        sort: Some(sort),
        ..Find::default()
    };
    let found = contents(store, &find);
    found.iter().filter_map(|d| d.get_i32("_id").ok()).collect()
}

fn of_values(values: impl IntoIterator<Item = Bson>) -> Store {
    let documents = (0..).zip(values);
    filled(
        documents
            .map(|(id, x)| doc! { "_id": id, "x": x })
            .collect(),
    )
}

#[test]
fn a_path_with_a_number_sorts_by_the_element_as_a_whole() {
    let table = [
        (
            vec![
                bson!([{ "b": 3 }]),
                bson!([{ "b": 2 }]),
                bson!([{ "b": 1 }]),
            ],
            "x.0.b",
            vec![2, 1, 0],
        ),
        (
            vec![bson!([[5]]), bson!([6]), bson!(["zz"]), bson!([[4]])],
            "x.0",
            vec![1, 2, 3, 0],
        ),
        (
            vec![
                bson!([{ "y": [1, 2] }]),
                bson!({ "y": 6 }),
                bson!({ "y": [4] }),
            ],
            "x.y",
            vec![0, 2, 1],
        ),
        (
            vec![bson!([[5]]), bson!(6), bson!("zz"), bson!([4])],
            "x",
            vec![3, 1, 2, 0],
        ),
        (
            vec![bson!([[]]), bson!([]), bson!([1])],
            "x.0",
            vec![0, 1, 2],
        ),
    ];
    for (values, path, expected) in table {
        let mut store = of_values(values);
        let sort = doc! { path: 1, "_id": 1 };
        assert_eq!(ids(&store, sort.clone()), expected, "{path}");
        let pipeline = [doc! { "$sort": sort.clone() }];
        let sorted = aggregate(&mut store, &pipeline).expect("documents");
        let sorted: Vec<_> = sorted
            .iter()
            .filter_map(|d| d.get_i32("_id").ok())
            .collect();
        assert_eq!(sorted, expected, "{path}");
        store
            .create_indexes(&namespace(), &[doc! { "key": { path: 1 } }])
            .expect("built");
        assert_eq!(ids(&store, sort), expected, "{path} with an index");
    }
}

#[test]
fn fields_of_one_array_are_compared_by_element() {
    let store = of_values([
        bson!([{ "b": 1, "c": 9 }, { "b": 2, "c": 0 }]),
        bson!([{ "b": 1, "c": 5 }]),
    ]);
    assert_eq!(ids(&store, doc! { "x.b": 1, "x.c": 1 }), [1, 0]);
}

#[test]
fn ambiguous_patterns_and_different_arrays_are_refused() {
    let parallel = doc! { "x.a": 1, "x.b": 1 };
    for (value, sort, code) in [
        (bson!([{ "0": 5 }]), doc! { "x.0": 1 }, Some(16746)),
        (bson!([[{ "0": 5 }]]), doc! { "x.0.0": 1 }, Some(16746)),
        (bson!([{ "1": 5 }]), doc! { "x.1": 1 }, None),
        (bson!([{ "00": 5 }]), doc! { "x.0": 1 }, None),
        (bson!({ "a": [1], "b": [2] }), parallel.clone(), Some(2)),
        (bson!([{ "a": 1, "b": 2 }]), parallel, None),
    ] {
        let store = of_values([value.clone()]);
        let find = Find {
            sort: Some(sort.clone()),
            ..Find::default()
        };
        let found = with(|e| store.find(&namespace(), &find, e));
        assert_eq!(found.err().map(|e| e.code), code, "{sort} on {value}");
    }
}

#[test]
fn natural_order_can_be_reversed_in_queries_and_not_in_stages() {
    let mut store = filled((0..3).map(|id| doc! { "_id": id }).collect());
    assert_eq!(ids(&store, doc! { "$natural": -1 }), [2, 1, 0]);
    for sort in [
        doc! { "$natural": 2 },
        doc! { "$natural": "x" },
        doc! { "$natural": 1, "a": 1 },
        doc! { "a": 1, "$natural": 1 },
    ] {
        let find = Find {
            sort: Some(sort.clone()),
            ..Find::default()
        };
        let error = with(|e| store.find(&namespace(), &find, e)).expect_err("refused");
        assert_eq!(
            (error.code, &*error.message),
            (
                2,
                "$natural sort cannot be set to a value other than -1 or 1."
            ),
            "{sort}"
        );
    }
    let hinted = |hint: Bson| {
        let find = Find {
            sort: Some(doc! { "$natural": -1 }),
            hint: Some(hint),
            ..Find::default()
        };
        let found = with(|e| store.find(&namespace(), &find, e));
        found.map(|found| found.first().and_then(|d| d.get_i32("_id").ok()))
    };
    assert_eq!(hinted(bson!({ "$natural": -1 })), Ok(Some(2)));
    for hint in [bson!({ "$natural": 1 }), bson!({ "_id": 1 }), bson!("_id_")] {
        assert_eq!(hinted(hint).expect_err("refused").code, 2);
    }
    for (sort, code) in [
        (doc! { "$natural": -1 }, 16410),
        (doc! { "a..b": 1 }, 15998),
        (doc! { "": 1 }, 40352),
        (doc! {}, 15976),
    ] {
        let error = aggregate(&mut store, &[doc! { "$sort": sort.clone() }]).expect_err("refused");
        assert_eq!(error.code, code, "{sort}");
    }
    let command = FindAndModify {
        filter: doc! {},
        sort: Some(doc! { "$natural": -1 }),
        projection: None,
        modification: Modification::Remove,
        collation: None,
    };
    let removed = with(|e| store.find_and_modify(&namespace(), &command, e)).expect("a value");
    assert_eq!(removed.value, Some(doc! { "_id": 2 }));
}
