//! Tests of the options of indexes, and of the comparison of indexes.

use std::slice;

use super::*;

/// Creates an index in an empty collection of a release, and returns its error.
fn refusal(index: &Document, release: [u16; 3]) -> (i32, String) {
    let mut store = Store::new();
    store.set_release(Release(release));
    match store.create_indexes(&namespace(), slice::from_ref(index)) {
        Ok(_) => (0, String::new()),
        Err(error) => (error.code, error.message),
    }
}

/// Returns the entry of an index with this key and this option.
fn index(key: Document, option: &str, value: impl Into<Bson>) -> Document {
    let mut index = doc! { "key": key, "name": "i" };
    index.insert(option, value);
    index
}

fn check(cases: impl IntoIterator<Item = (Document, i32, &'static str)>) {
    for (index, code, reason) in cases {
        let (found, message) = refusal(&index, [7, 0, 24]);
        assert_eq!(found, code, "{index}: {message}");
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn the_weights_of_text_indexes_are_checked() {
    let weighted = |weights: Bson| index(doc! { "a": "text" }, "weights", weights);
    check([
        (weighted(bson!(5)), 14, "must be an object"),
        (weighted(bson!("a")), 67, "must be an object"),
        (weighted(bson!([1])), 67, "must be an object"),
        (weighted(bson!({ "a": "x" })), 67, "numeric type"),
        (weighted(bson!({ "a": 0 })), 67, "(0,100000) but found: 0"),
        (weighted(bson!({ "a": 1e9 })), 67, "found: 1000000000"),
        (weighted(bson!({ "b..c": 1 })), 67, "empty path component"),
        (weighted(bson!({ "$b": 1 })), 67, "with $ prefix"),
        (weighted(bson!({ "": 1 })), 67, "on an empty field"),
        (weighted(bson!({ "b": 99_999 })), 0, ""),
        (weighted(bson!("$**")), 0, ""),
    ]);
}

#[test]
fn the_options_of_text_indexes_are_checked() {
    let text = |option: &str, value: Bson| index(doc! { "a": "text" }, option, value);
    let language = |name: &str| text("default_language", name.into());
    let field = |name: &str| text("language_override", name.into());
    let version = |version: i32| text("textIndexVersion", version.into());
    check([
        (language("spanglish"), 67, "default_language is not valid"),
        (language("ES"), 0, ""),
        (field("a.b"), 67, "language_override is not valid"),
        (field("idioma"), 0, ""),
        (version(4), 67, "bad textIndexVersion: 4"),
        (version(2), 0, ""),
        (version(1), 0, ""),
    ]);
}

#[test]
fn the_keys_of_text_indexes_are_checked() {
    let keyed = |key: Document| doc! { "key": key };
    check([
        (
            keyed(doc! { "a": "text", "b": 1, "c": "text" }),
            67,
            "must all be adjacent",
        ),
        (
            keyed(doc! { "a": "text", "b": 2 }),
            67,
            "expected value 1 or -1",
        ),
        (keyed(doc! { "_fts": "text" }), 67, "expected _ftsx after"),
        (
            keyed(doc! { "_fts": "text", "_ftsx": 1 }),
            67,
            "must specify fields",
        ),
        (
            keyed(doc! { "_ftsx": 1, "a": "text" }),
            67,
            "reserved fields",
        ),
        (keyed(doc! { "_fts": 1 }), 67, "illegal field name: '_fts'"),
    ]);
}

#[test]
fn a_text_index_has_all_options_and_is_the_only_one() {
    let mut store = Store::new();
    let mut create = |index: Document| store.create_indexes(&namespace(), &[index]);
    let partial = doc! {
        "key": { "a": "text" }, "name": "t", "weights": { "b": 2.5 },
        "partialFilterExpression": { "a": 1 },
    };
    create(partial).expect("an index");
    let same = doc! {
        "key": { "_fts": "text", "_ftsx": 1 }, "name": "t", "weights": { "a": 1, "b": 2 },
        "partialFilterExpression": { "a": 1 },
    };
    let found = create(same).expect("an index");
    assert_eq!((found.before, found.after), (2, 2));
    let error = create(doc! { "key": { "c": 1, "d": "text" } }).expect_err("refused");
    assert_eq!(error.code, 67);
    let listed = store.list_indexes(&namespace()).expect("a list");
    let expected = doc! {
        "v": 2, "key": { "_fts": "text", "_ftsx": 1 }, "name": "t", "weights": { "a": 1, "b": 2 },
        "partialFilterExpression": { "a": 1 }, "default_language": "english",
        "language_override": "language", "textIndexVersion": 3,
    };
    assert_eq!(listed[1..], [expected]);
}

#[test]
fn the_options_of_indexes_on_positions_are_checked() {
    let flat = |option: &str, value: Bson| index(doc! { "a": "2d" }, option, value);
    let sphere = |option: &str, value: Bson| index(doc! { "a": "2dsphere" }, option, value);
    let version = |value: Bson| sphere("2dsphereIndexVersion", value);
    check([
        (flat("bits", bson!(32)), 0, ""),
        (flat("bits", bson!(0)), 72, "but 0 bits were specified"),
        (flat("bits", bson!(33.5)), 72, "but 33 bits"),
        (flat("min", bson!(180)), 72, "but [180, 180] was specified"),
        (flat("max", bson!(f64::INFINITY)), 72, "positive area"),
        (flat("min", bson!(f64::NAN)), 72, "positive area"),
        (flat("max", bson!("x")), 14, "must be a number"),
        (doc! { "key": { "a": "2d", "b": "2d" } }, 16800, "2 geo"),
        (doc! { "key": { "b": 1, "a": "2d" } }, 16801, "first"),
        (version(bson!(1)), 0, ""),
        (version(bson!(4)), 67, "unsupported geo index version"),
        (version(bson!(f64::NAN)), 67, "Invalid value for geo"),
        (sphere("coarsestIndexedLevel", bson!(-1)), 16747, ""),
        (sphere("finestIndexedLevel", bson!(31)), 16748, ""),
        (sphere("coarsestIndexedLevel", bson!(20)), 16749, ""),
        (sphere("finestIndexedLevel", bson!(2.5)), 2, ""),
    ]);
    let haystack = doc! { "key": { "a": "geoHaystack", "b": 1 }, "bucketSize": 1, "name": "h" };
    let (code, text) = refusal(&haystack, [4, 4, 29]);
    assert_eq!(code, 67);
    assert!(
        text.contains("Unknown index plugin 'geoHaystack'"),
        "{text}"
    );
    assert_eq!(refusal(&haystack, [5, 0, 31]).0, 67);
}

#[test]
fn the_projections_of_wildcard_indexes_are_checked() {
    let all = |key: Document, value: Document| index(key, "wildcardProjection", value);
    let one = |value: Document| all(doc! { "$**": 1 }, value);
    let compound = |value: Document| all(doc! { "$**": 1, "x": 1 }, value);
    check([
        (one(doc! { "a": 1, "b": 0 }), 31254, "in inclusion"),
        (one(doc! { "a": 0, "b": 1 }), 31253, "in exclusion"),
        (one(doc! { "a": 1, "b": "x" }), 51271, "computed fields"),
        (one(doc! { "a": { "$add": [1] } }), 51271, "computed"),
        (one(doc! { "a": {} }), 51270, ""),
        (one(doc! { "_id": 1, "a": 0 }), 0, ""),
        (one(doc! { "_id": 0, "a": { "b": true } }), 0, ""),
        (compound(doc! { "a": 1, "a.b": 1 }), 7_246_200, "overlap"),
        (compound(doc! { "a": { "b": 1 } }), 7_246_207, "numbers"),
    ]);
    let negative = doc! { "key": { "$**": -1 } };
    assert_eq!(refusal(&negative, [6, 0, 20]).0, 67);
    assert_eq!(refusal(&negative, [7, 0, 24]).0, 0);
    assert_eq!(refusal(&index(doc! { "$**": 1 }, "v", 1), [7, 0, 24]).0, 67);
}

#[test]
fn the_error_in_an_index_names_its_specification() {
    let index = doc! { "key": { "$**": 1 }, "name": "w", "wildcardProjection": { "a": 1, "b": 0 } };
    for (release, reason) in [
        ([5, 0, 31], "Failed to parse: wildcardProjection"),
        ([7, 0, 24], "Failed to parse projection: wildcardProjection"),
    ] {
        let (code, message) = refusal(&index, release);
        let expected = format!(
            "Error in specification {{ key: {{ $**: 1 }}, name: \"w\", wildcardProjection: {{ a: \
             1, b: 0 }} }} :: caused by :: {reason} :: caused by :: Cannot do exclusion on field b \
             in inclusion projection"
        );
        assert_eq!((code, message), (31254, expected));
    }
}

/// Returns the error of an index beside two others, of which one has a projection.
fn conflict(release: [u16; 3], index: Document) -> (i32, String) {
    let mut store = Store::new();
    store.set_release(Release(release));
    let existing = [
        doc! { "key": { "a": 1 } },
        projected("w", doc! { "a.b": 1, "a.c": 1 }),
    ];
    let done = store.create_indexes(&namespace(), &existing);
    done.expect("two indexes");
    let error = store.create_indexes(&namespace(), &[index]).err();
    error.map(|e| (e.code, e.message)).unwrap_or_default()
}

fn named(name: &str, options: Document) -> Document {
    let mut index = doc! { "key": { "a": 1 }, "name": name };
    index.extend(options);
    index
}

fn projected(name: &str, projection: Document) -> Document {
    doc! { "key": { "$**": 1 }, "name": name, "wildcardProjection": projection }
}

#[test]
fn indexes_are_told_apart_by_their_signatures() {
    let renamed = "Index already exists with a different name: ";
    let other = "An equivalent index already exists with a different name and options. Requested";
    let same = "An equivalent index already exists with the same name but different options. Req";
    let taken = "An existing index has the same name as the requested index. When index names are";
    let expires = doc! { "expireAfterSeconds": 1 };
    let partial = doc! { "partialFilterExpression": { "x": 1 } };
    let unique = doc! { "unique": true };
    let sparse = doc! { "sparse": true };
    for (index, since_5_0, before) in [
        (named("b", doc! {}), (85, renamed), (85, renamed)),
        (named("b", expires.clone()), (85, other), (85, other)),
        (named("a_1", expires), (85, same), (85, same)),
        (named("a_1", unique.clone()), (86, taken), (85, same)),
        (named("b", unique), (0, ""), (85, other)),
        (named("b", sparse), (0, ""), (85, other)),
        (named("b", partial), (0, ""), (85, other)),
        (
            projected("w", doc! { "a": { "c": true, "b": 2 }, "_id": 0 }),
            (0, ""),
            (85, same),
        ),
        (
            projected("x", doc! { "a.c": true, "a.b": 1 }),
            (85, renamed),
            (85, other),
        ),
        (
            projected("x", doc! { "_id": 1, "a.b": 1, "a.c": 1 }),
            (0, ""),
            (85, other),
        ),
    ] {
        for (release, (code, text)) in [([5, 0, 31], since_5_0), ([4, 4, 29], before)] {
            let (found, message) = conflict(release, index.clone());
            assert_eq!(found, code, "{release:?}: {index}: {message}");
            assert!(message.starts_with(text), "{release:?}: {message}");
        }
    }
}

#[test]
fn filters_that_mean_the_same_are_one_filter() {
    let partial = |filter: Document| named("f", doc! { "partialFilterExpression": filter });
    let types = [
        bson!({ "a": { "$type": 1 } }),
        bson!({ "a": { "$type": 2 } }),
    ];
    let [one, two] = types.clone();
    for (existing, new, code) in [
        (
            doc! { "a": { "$gt": 0, "$lt": 9 }, "b": 1 },
            doc! { "$and": [{ "b": { "$eq": 1 } }, { "a": { "$lt": 9 } }, { "a": { "$gt": 0 } }] },
            0,
        ),
        (doc! { "a": { "$gt": 0 } }, doc! { "a": { "$gt": 1 } }, 86),
        (
            doc! { "$and": types.to_vec() },
            doc! { "$and": [two, one] },
            86,
        ),
        (
            doc! { "$or": [{ "a": 1, "b": 1 }] },
            doc! { "$or": [{ "b": 1, "a": 1 }] },
            0,
        ),
        (
            doc! { "a": { "$in": [1, 2] } },
            doc! { "a": { "$in": [2, 1, 2] } },
            0,
        ),
        (doc! { "a": { "$in": [1] } }, doc! { "a": 1 }, 0),
        (
            doc! { "a": { "$in": [1, 2] } },
            doc! { "a": { "$in": [1, 3] } },
            86,
        ),
    ] {
        let mut store = Store::new();
        let done = store.create_indexes(&namespace(), &[partial(existing)]);
        done.expect("an index");
        let again = store.create_indexes(&namespace(), &[partial(new.clone())]);
        assert_eq!(again.err().map_or(0, |e| e.code), code, "{new}");
        let mut renamed = partial(new.clone());
        renamed.insert("name", "g");
        let renamed = store.create_indexes(&namespace(), &[renamed]);
        let expected = if code == 0 { 85 } else { 0 };
        assert_eq!(renamed.err().map_or(0, |e| e.code), expected, "{new}");
    }
}

#[test]
fn filters_of_partial_indexes_have_no_operators_of_other_uses() {
    let partial = |filter: Document| doc! { "key": { "a": 1 }, "partialFilterExpression": filter };
    for (filter, release, code) in [
        (doc! { "$expr": { "$eq": ["$a", 1] } }, 7, 224),
        (doc! { "$and": [{ "$expr": true }] }, 7, 224),
        (doc! { "$jsonSchema": {} }, 7, 224),
        (doc! { "$where": "1" }, 7, 2),
        (doc! { "$text": { "$search": "a" } }, 7, 2),
        (doc! { "a": { "$near": [0, 0] } }, 7, 5_626_500),
        (doc! { "a": { "$near": [0, 0] } }, 4, 2),
        (doc! { "a": { "$ne": 1 } }, 7, 67),
    ] {
        let (found, message) = refusal(&partial(filter.clone()), [release, 0, 0]);
        assert_eq!(found, code, "{filter}: {message}");
    }
}
