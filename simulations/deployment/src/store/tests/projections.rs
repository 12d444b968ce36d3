//! The fields that projections and the stages with paths of fields keep, leave out and set.

use super::*;

fn document() -> Document {
    doc! {
        "_id": 1,
        "a": { "b": 5, "c": 6, "d": [{ "e": 1, "f": 2 }] },
        "x": [1, 2, 3, 4],
        "y": [{ "z": 1 }, { "z": 2 }],
    }
}

fn project(projection: &Document, filter: Document) -> Answer<Document> {
    let store = filled(vec![document()]);
    let find = Find {
        filter,
        projection: Some(projection.clone()),
        ..Find::default()
    };
    let found = with(|e| store.find(&namespace(), &find, e))?;
    Ok(found.first().map(|d| Document::clone(d)).expect("one"))
}

fn stage(stage: Document) -> Answer<Document> {
    let mut store = filled(vec![document()]);
    Ok(aggregate(&mut store, &[stage])?.remove(0))
}

/// Compares the documents with their order of fields.
fn check(found: Answer<Document>, expected: Document, what: &Document) {
    let shown = |document: &Document| format!("{document}");
    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(shown(&found), shown(&expected), "{what}");
}

#[test]
fn nested_projections_are_as_dotted_ones() {
    let without_b = doc! { "c": 6, "d": [{ "e": 1, "f": 2 }] };
    for (projection, expected) in [
        (doc! { "a": { "b": 1 } }, doc! { "_id": 1, "a": { "b": 5 } }),
        (doc! { "a": { "b": 1 }, "_id": 0 }, doc! { "a": { "b": 5 } }),
        (
            doc! { "a": { "d": { "e": 1 } } },
            doc! { "_id": 1, "a": { "d": [{ "e": 1 }] } },
        ),
        (
            doc! { "a": { "b": 1 }, "a.c": 1 },
            doc! { "_id": 1, "a": { "b": 5, "c": 6 } },
        ),
        (
            doc! { "a": { "b": 0 }, "x": 0, "y": 0 },
            doc! { "_id": 1, "a": without_b },
        ),
        (
            doc! { "a": { "n": { "$add": [1, 2] }, "b": 1 } },
            doc! { "_id": 1, "a": { "b": 5, "n": 3 } },
        ),
        (
            doc! { "y": { "z": { "$literal": 9 } } },
            doc! { "_id": 1, "y": [{ "z": 9 }, { "z": 9 }] },
        ),
        (
            doc! { "x.n": { "$literal": 9 } },
            doc! { "_id": 1, "x": [{ "n": 9 }, { "n": 9 }, { "n": 9 }, { "n": 9 }] },
        ),
        (
            doc! { "new.n": "$a.b" },
            doc! { "_id": 1, "new": { "n": 5 } },
        ),
        (doc! { "_id": "$a.b" }, doc! { "_id": 5 }),
        (doc! { "_id": { "k": 1 } }, doc! {}),
        (doc! { "a": "text" }, doc! { "_id": 1, "a": "text" }),
    ] {
        check(project(&projection, doc! {}), expected.clone(), &projection);
        let found = stage(doc! { "$project": projection.clone() });
        check(found, expected, &projection);
    }
}

#[test]
fn find_shows_a_part_of_an_array() {
    for (projection, expected) in [
        (
            doc! { "y": { "$elemMatch": { "z": 2 } } },
            doc! { "_id": 1, "y": [{ "z": 2 }] },
        ),
        (
            doc! { "y": { "$elemMatch": { "z": 3 } } },
            doc! { "_id": 1 },
        ),
        (
            doc! { "x": { "$slice": 2 }, "_id": 1 },
            doc! { "_id": 1, "x": [1, 2] },
        ),
        (
            doc! { "x": { "$slice": [1, 2] }, "a": 0, "y": 0 },
            doc! { "_id": 1, "x": [2, 3] },
        ),
        (
            doc! { "x": { "$slice": ["$x", 1] } },
            doc! { "_id": 1, "x": [1] },
        ),
        (doc! { "y.$": 1 }, doc! { "_id": 1, "y": [{ "z": 2 }] }),
        (
            doc! { "y.z.$": 1, "a": { "b": 1 } },
            doc! { "_id": 1, "a": { "b": 5 }, "y": [{ "z": 2 }] },
        ),
    ] {
        let found = project(&projection, doc! { "y.z": 2 });
        check(found, expected, &projection);
    }
    let nested = filled(vec![doc! { "_id": 1, "a": [[3, 4]] }]);
    let find = Find {
        projection: Some(doc! { "a": { "$elemMatch": { "$gt": 1 } } }),
        ..Find::default()
    };
    assert_eq!(contents(&nested, &find), [doc! { "_id": 1 }]);
}

#[test]
fn added_fields_leave_their_neighbours() {
    let expected = |a: Document| {
        let mut expected = document();
        expected.insert("a", a);
        expected
    };
    let d = || bson!([{ "e": 1, "f": 2 }]);
    for (fields, a) in [
        (doc! { "a": { "b": 9 } }, doc! { "b": 9, "c": 6, "d": d() }),
        (
            doc! { "a": { "n": { "m": "$a.b" } }, "a.c": "$$REMOVE" },
            doc! { "b": 5, "d": d(), "n": { "m": 5 } },
        ),
        (
            doc! { "a": { "d": { "e": 7 } } },
            doc! { "b": 5, "c": 6, "d": [{ "e": 7, "f": 2 }] },
        ),
        (
            doc! { "a.b": { "q": 1 } },
            doc! { "b": { "q": 1 }, "c": 6, "d": d() },
        ),
        (doc! { "a": {} }, doc! {}),
    ] {
        for name in ["$addFields", "$set"] {
            let found = stage(doc! { name: fields.clone() });
            check(found, expected(a.clone()), &fields);
        }
    }
    let mut store = filled(vec![doc! { "_id": 1, "o": { "x": 1 } }]);
    let update = Update::Pipeline(vec![doc! { "$set": { "o": { "y": 2 } } }]);
    let statement = UpdateStatement::one(doc! {}, update);
    with(|e| store.update(&namespace(), &[statement], true, e)).expect("updated");
    let expected = doc! { "_id": 1, "o": { "x": 1, "y": 2 } };
    assert_eq!(contents(&store, &Find::default()), [expected]);
}

#[test]
fn names_that_collide_or_are_malformed_are_refused() {
    let collision = |text: &str| (text.starts_with("Path collision"), text.to_owned());
    for (projection, code, message) in [
        (
            doc! { "b": 1, "b.c": 1 },
            31249,
            "Path collision at b.c remaining portion c",
        ),
        (doc! { "b.c": 1, "b": 1 }, 31250, "Path collision at b"),
        (
            doc! { "b.c": 0, "b.c.e": 0 },
            31249,
            "Path collision at b.c.e remaining portion c.e",
        ),
        (
            doc! { "b.c": 1, "b": { "d": 1 } },
            31250,
            "Path collision at b",
        ),
    ] {
        let error = project(&projection, doc! {}).expect_err("refused");
        let expected = (code, collision(message));
        assert_eq!((error.code, collision(&error.message)), expected);
        let error = stage(doc! { "$project": projection.clone() }).expect_err("refused");
        assert_eq!(error.code, code, "{projection}");
    }
    for (projection, code) in [
        (doc! { "a..b": 1 }, 15998),
        (doc! { ".a": 1 }, 15998),
        (doc! { "a.": 1 }, 40353),
        (doc! { "": 1 }, 40352),
        (doc! { "a.$b": 1 }, 16410),
        (doc! { "a": { "$b": 1, "c": 1 } }, 16410),
        (doc! { "a": { "b": {} } }, 51270),
        (doc! { "a": { "b": 1, "c": 0 } }, 31254),
        (doc! { "a": 0, "n": { "$add": [1, 2] } }, 31252),
        (doc! { "a": 0, "n": "$a" }, 31310),
        (doc! { "a": 0, "_id": "$a" }, 31310),
    ] {
        let found = project(&projection, doc! {});
        assert_eq!(found.expect_err("refused").code, code, "{projection}");
        let found = stage(doc! { "$project": projection.clone() });
        assert_eq!(found.expect_err("refused").code, code, "{projection}");
    }
    let many: Document = (0..201).fold(doc! { "a": 1 }, |inner, _| doc! { "a": inner });
    assert_eq!(project(&many, doc! {}).expect_err("deep").code, 15);
}

#[test]
fn operators_at_wrong_places_of_projections_are_refused() {
    for (projection, code) in [
        (doc! { "y": { "$elemMatch": 5 } }, 31274),
        (doc! { "a.d": { "$elemMatch": { "e": 1 } } }, 31275),
        (doc! { "a": { "d": { "$elemMatch": { "e": 1 } } } }, 31275),
        (
            doc! { "y.$": 1, "x": { "$elemMatch": { "$gt": 1 } } },
            31255,
        ),
        (
            doc! { "x": { "$elemMatch": { "$gt": 1 } }, "y.$": 1 },
            31256,
        ),
        (doc! { "y.$": 1, "x.$": 1 }, 31276),
        (doc! { "y.$": 0 }, 31395),
        (doc! { "y.$": "text" }, 31308),
        (doc! { "y.$": { "$add": [1, 2] } }, 31271),
        (doc! { "y.$.z": 1 }, 31394),
        (doc! { "x": { "$slice": "text" } }, 28667),
        (doc! { "x.$": 1 }, 51246),
    ] {
        let found = project(&projection, doc! { "_id": 1 });
        assert_eq!(found.expect_err("refused").code, code, "{projection}");
    }
    let error = stage(doc! { "$project": { "x.$": 1 } }).expect_err("refused");
    assert_eq!(error.code, 31324);
}

#[test]
fn stages_with_names_of_fields_refuse_collisions() {
    for (given, code) in [
        (doc! { "$unset": ["a", "a.b"] }, 31249),
        (doc! { "$unset": ["a.b", "a"] }, 31250),
        (doc! { "$unset": ["a", "a"] }, 31250),
        (doc! { "$unset": "" }, 40352),
        (doc! { "$unset": [] }, 31119),
        (doc! { "$unset": ["a", 1] }, 31120),
        (doc! { "$unset": 5 }, 31002),
        (doc! { "$addFields": { "a": 1, "a.q": 1 } }, 40176),
        (doc! { "$addFields": { "a.q": 1, "a": 1 } }, 40176),
        (doc! { "$addFields": { "a": { "b": 1 }, "a.b": 1 } }, 40176),
        (doc! { "$addFields": { "a": { "b.c": 1 } } }, 40183),
        (
            doc! { "$addFields": { "a": { "$add": [1], "c": 1 } } },
            40181,
        ),
        (doc! { "$set": { "a..b": 1 } }, 15998),
    ] {
        let error = stage(given.clone()).expect_err("refused");
        assert_eq!(error.code, code, "{given}: {error}");
    }
    let error = stage(doc! { "$set": { "a": { "b": 1 }, "a.b": 1 } }).expect_err("refused");
    let text = "Invalid $set :: caused by :: specification contains two conflicting paths. Cannot \
                specify both 'a.b' and 'a.b': { a: { b: 1 }, a.b: 1 }";
    assert_eq!(error.message, text);
    let error = stage(doc! { "$addFields": { "n": { "$foo": 1 } } }).expect_err("refused");
    let text = "Invalid $addFields :: caused by :: Unrecognized expression '$foo'";
    assert_eq!((error.code, &*error.message), (168, text));
}

#[test]
fn a_projection_with_many_long_names_is_parsed_in_little_time() {
    let inner: Document = (0..20_000).map(|n| (format!("f{n}"), 1.into())).collect();
    let projection = doc! { "x".repeat(1_000_000): inner };
    assert_eq!(project(&projection, doc! {}), Ok(doc! { "_id": 1 }));
    let many: Document = (0..100_000).map(|n| (format!("f{n}"), 1.into())).collect();
    assert_eq!(project(&many, doc! {}), Ok(doc! { "_id": 1 }));
}
