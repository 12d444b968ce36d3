use bson::{bson, doc};

use super::*;

fn update(
    document: &Document,
    filter: &Document,
    update: &Document,
    filters: &[Document],
) -> Answer<Document> {
    let matcher = Matcher::new(filter, Release::default())?;
    let updater = Updater::new(
        &Update::Document(update.clone()),
        filters,
        Release::default(),
    )?;
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
fn arithmetic_with_zero_keeps_its_sign() {
    let change = doc! { "$mul": { "a": -2 } };
    let result = update(&doc! { "a": -0.0 }, &doc! {}, &change, &[]).expect("an update");
    let kept = result.get_f64("a").expect("a double");
    assert!(kept.is_sign_negative(), "{kept}");
}

#[test]
fn a_position_can_be_of_an_array_in_an_array() {
    check_table([(
        doc! { "a": [[40, 50], [60, 20]] },
        doc! { "a": { "$elemMatch": { "0": 60 } } },
        doc! { "$push": { "a.$": 30 } },
        bson!({ "a": [[40, 50], [60, 20, 30]] }),
    )]);
    let refused = [
        (doc! { "a": { "$ne": 5 } }, doc! { "a.$": 9 }),
        (doc! { "a": 1 }, doc! { "a.$.b.$": 9 }),
    ];
    for (filter, set) in refused {
        let change = doc! { "$set": set };
        let error = update(&doc! { "a": [1] }, &filter, &change, &[]).expect_err("refused");
        assert_eq!(error.code, 2, "{change}");
    }
}

#[test]
fn a_rename_into_or_out_of_an_array_is_refused() {
    let document = doc! {
        "_id": 1, "a": [1, 2, 3], "s": "text", "w": { "b": 1 }, "deep": { "n": [{ "a": 1 }] },
    };
    let source = "The source field cannot be an array element, 'deep.n.0.a' in doc with _id: 1 has \
                  an array field called 'n'";
    let destination = "The destination field cannot be an array element, 'a.0' in doc with _id: 1 \
                       has an array field called 'a'";
    let same_path =
        "The source and target field for $rename must not be on the same path: s: \"s.t\"";
    let traversed = "cannot use the part (s of s.x) to traverse the element ({s: \"text\"})";
    let dynamic =
        |side: &str, path: &str| format!("The {side} field for $rename may not be dynamic: {path}");
    for (rename, code, message) in [
        (doc! { "deep.n.0.a": "y" }, 2, source.to_owned()),
        (doc! { "s": "a.0" }, 2, destination.to_owned()),
        (doc! { "a.$[].b": "y" }, 2, dynamic("source", "a.$[].b")),
        (doc! { "s": "a.$" }, 2, dynamic("destination", "a.$")),
        (doc! { "s": "s.t" }, 2, same_path.to_owned()),
        (doc! { "s.x": "y" }, 28, traversed.to_owned()),
    ] {
        let change = doc! { "$rename": rename };
        let error = update(&document, &doc! {}, &change, &[]).expect_err("refused");
        assert_eq!((error.code, error.message), (code, message), "{change}");
    }
    for rename in [
        doc! { "a.9": "y" },
        doc! { "nope": "a.0" },
        doc! { "w.0": "w.1" },
    ] {
        let change = doc! { "$rename": rename };
        let result = update(&document, &doc! {}, &change, &[]);
        assert_eq!(result.as_ref(), Ok(&document), "{change}");
    }
}

#[test]
fn operands_and_paths_that_a_server_refuses_are_refused() {
    let pushed = |sort: Bson| doc! { "$push": { "a": { "$each": [], "$sort": sort } } };
    let document = doc! { "a": ["green"], "s": "text" };
    for (change, code) in [
        (doc! { "$pop": { "a.-1": 1 } }, 28),
        (doc! { "$pop": { "s.x": 1 } }, 28),
        (
            doc! { "$currentDate": { "n": { "$type": "date", "x": 1 } } },
            2,
        ),
        (pushed(bson!({})), 2),
        (pushed(bson!({ "x.": 1 })), 2),
        (pushed(bson!({ "": 1 })), 2),
        (pushed(bson!({ "x": 2 })), 2),
        (pushed(bson!({ "x": "y" })), 2),
        (pushed(bson!(2)), 2),
    ] {
        let error = update(&document, &doc! {}, &change, &[]).expect_err("refused");
        assert_eq!(error.code, code, "{change}: {error}");
    }
    for nothing in [
        doc! { "$pop": { "a.9": 1 } },
        doc! { "$pop": { "no.x": 1 } },
    ] {
        let result = update(&document, &doc! {}, &nothing, &[]);
        assert_eq!(result.as_ref(), Ok(&document), "{nothing}");
    }
}

#[test]
fn a_push_sorts_by_the_whole_value_of_a_field() {
    let sort = doc! { "$each": [], "$sort": { "x": 1 } };
    check_table([(
        doc! { "a": [{ "x": [1] }, { "x": 7 }, {}] },
        doc! {},
        doc! { "$push": { "a": sort } },
        bson!({ "a": [{}, { "x": 7 }, { "x": [1] }] }),
    )]);
}

#[test]
fn array_filters_are_on_one_name() {
    let change = doc! { "$set": { "a.$[q]": 0 } };
    for (filter, code) in [
        (doc! { "q": 1, "p": 1 }, 9),
        (doc! { "$or": [{ "q": 1 }, { "p": 1 }] }, 9),
        (doc! {}, 9),
        (doc! { "1x": 1 }, 2),
        (doc! { "Q": 1 }, 2),
        (doc! { "q_": 1 }, 2),
    ] {
        let filters = std::slice::from_ref(&filter);
        let error = update(&doc! { "a": [1] }, &doc! {}, &change, filters).expect_err("refused");
        assert_eq!(error.code, code, "{filter}: {error}");
    }
    let filter = doc! { "$or": [{ "q": 1 }, { "q": 3 }] };
    let result = update(&doc! { "a": [1, 2, 3] }, &doc! {}, &change, &[filter]);
    assert_eq!(result, Ok(doc! { "a": [0, 2, 0] }));
}

#[test]
fn an_upsert_takes_the_fields_of_its_filter_in_the_order_of_their_paths() {
    let base = |filter: Document| {
        let matcher = Matcher::new(&filter, Release::default()).expect("a filter");
        upsert_base(&matcher, false, &Budget::default())
    };
    let ordered = base(doc! { "b": 1, "c.y": 2, "a": 3, "c.x": 4 }).expect("a base");
    let expected = doc! { "a": 3, "b": 1, "c": { "x": 4, "y": 2 } };
    assert_eq!(
        ordered.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    assert_eq!(ordered, expected);
    for filter in [
        doc! { "$and": [{ "a": 1 }, { "a": 1 }] },
        doc! { "a": { "$all": [1, 2] } },
        doc! { "a": {}, "a.b": 1 },
    ] {
        assert_eq!(
            base(filter.clone()).expect_err("twice").code,
            54,
            "{filter}"
        );
    }
}

#[test]
fn an_upsert_starts_with_the_equality_conditions_of_its_filter() {
    let matcher = Matcher::new(
        &doc! { "a.b": 1, "$and": [{ "c": { "$eq": 2 } }], "d": { "$gt": 1 } },
        Release::default(),
    );
    let base = upsert_base(&matcher.expect("a filter"), false, &Budget::default()).expect("a base");
    assert_eq!(base, doc! { "a": { "b": 1 }, "c": 2 });
}
