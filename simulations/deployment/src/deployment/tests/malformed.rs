//! Commands whose first element, numbers or fields of the Stable API are not those of the release.

use super::world::{of_release, send};
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

/// Sends a command to a standalone of a release. Returns the code and the message of the error, or
/// 0 for success.
fn error(release: [u16; 3], command: &Document) -> (i32, String) {
    let (mut world, conn) = of_release(release);
    let reply = send(&mut world, conn, command.clone());
    let text = reply.get_str("errmsg").unwrap_or_default().to_owned();
    (reply.get_i32("code").unwrap_or(0), text)
}

fn check(release: [u16; 3], cases: impl IntoIterator<Item = (Document, i32, &'static str)>) {
    for (command, code, text) in cases {
        let found = error(release, &command);
        assert_eq!(found, (code, text.to_owned()), "{release:?} {command}");
    }
}

#[test]
fn the_name_of_a_collection_is_a_string() {
    let uuid = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![7; 16],
    };
    let create = doc! { "createIndexes": Bson::Null, "indexes": [] };
    check(
        [7, 0, 24],
        [
            (
                doc! { "insert": 5, "documents": [{}] },
                2,
                "collection name has invalid type int",
            ),
            (
                doc! { "drop": uuid },
                2,
                "Collection name must be provided. UUID is not valid in this context",
            ),
            (create, 2, "collection name has invalid type null"),
            (
                doc! { "find": {} },
                2,
                "collection name has invalid type object",
            ),
            (
                doc! { "find": 5 },
                73,
                "collection name has invalid type int",
            ),
            (
                doc! { "explain": { "find": 5 } },
                73,
                "collection name has invalid type int",
            ),
            (
                doc! { "distinct": {}, "key": "a" },
                73,
                "collection name has invalid type object",
            ),
            (
                doc! { "killCursors": "", "cursors": [1_i64] },
                73,
                "Invalid namespace specified 'd.'",
            ),
        ],
    );
    let found = doc! { "find": true };
    check(
        [4, 4, 29],
        [(found, 73, "collection name has invalid type bool")],
    );
}

#[test]
fn an_aggregation_has_a_collection_or_the_number_1() {
    let aggregate = |name: Bson| doc! { "aggregate": name, "pipeline": [], "cursor": {} };
    let number =
        "Invalid command format: the 'aggregate' field must specify a collection name or 1";
    for release in [[4, 2, 25], [7, 0, 24]] {
        check(
            release,
            [
                (aggregate(5.into()), 9, number),
                (aggregate(1.5.into()), 9, number),
                (
                    aggregate(doc! {}.into()),
                    14,
                    "collection name has invalid type: object",
                ),
                (aggregate("".into()), 73, "Invalid namespace specified 'd.'"),
                (aggregate("c".into()), 0, ""),
            ],
        );
        // The number is accepted, but the pipeline needs a collection.
        assert_eq!(error(release, &aggregate(1_i64.into())).0, 73);
    }
}

#[test]
fn negative_numbers_have_the_errors_of_their_release() {
    let find = |field: &str| doc! { "find": "c", field: -1 };
    let sized = doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": -1 } };
    let more = doc! { "getMore": 5_i64, "collection": "c", "batchSize": -1 };
    for release in [[4, 2, 25], [4, 4, 29]] {
        check(
            release,
            [
                (
                    find("limit"),
                    2,
                    "Limit value must be non-negative, but received: -1",
                ),
                (
                    find("skip"),
                    2,
                    "Skip value must be non-negative, but received: -1",
                ),
                (
                    find("batchSize"),
                    2,
                    "BatchSize value must be non-negative, but received: -1",
                ),
                (sized.clone(), 2, "cursor.batchSize must not be negative"),
                (
                    more.clone(),
                    2,
                    "Batch size for getMore must be positive, but received: -1",
                ),
            ],
        );
    }
    for command in [find("limit"), sized, more] {
        assert_eq!(error([5, 0, 31], &command).0, 51024, "{command}");
    }
}

#[test]
fn the_stable_api_is_unknown_before_5_0() {
    let declared = |mut command: Document| {
        command.insert("apiVersion", "1");
        command
    };
    let (find, ping) = (doc! { "find": "c" }, doc! { "ping": 1 });
    for release in [[4, 2, 25], [4, 4, 29]] {
        let (code, text) = error(release, &declared(find.clone()));
        assert_eq!(code, 9, "{text}");
        assert!(text.ends_with("Unrecognized field 'apiVersion'."), "{text}");
        // Such a server does not look at the version.
        let other = doc! { "hello": 1, "apiVersion": "2", "apiStrict": true };
        assert_eq!(error(release, &other).0, 0);
    }
    for command in [find, ping] {
        assert_eq!(error([5, 0, 31], &declared(command)).0, 0);
    }
}

#[test]
fn unstable_fields_are_named_by_their_path_with_the_strict_stable_api() {
    let strict = |mut command: Document| {
        command.extend(doc! { "apiVersion": "1", "apiStrict": true });
        command
    };
    check(
        [7, 0, 24],
        [
            (
                strict(doc! { "find": "c", "tailable": true }),
                323,
                "BSON field 'FindCommandRequest.tailable' is not allowed with apiStrict:true.",
            ),
            (
                strict(doc! { "aggregate": "c", "pipeline": [], "explain": true }),
                323,
                "BSON field 'aggregate.explain' is not allowed with apiStrict:true.",
            ),
        ],
    );
}

#[test]
fn an_operation_of_a_bulk_write_has_the_fields_of_one_kind() {
    let bulk = |operation: Document| {
        doc! {
            "bulkWrite": 1, "ops": [operation], "nsInfo": [{ "ns": "d.c" }], "$db": "admin",
        }
    };
    check(
        [8, 0, 4],
        [
            (
                bulk(doc! { "insert": 0, "document": {}, "delete": 0 }),
                40415,
                "BSON field 'bulkWrite.ops.delete' is an unknown field.",
            ),
            (
                bulk(doc! { "delete": 0, "filter": {}, "updateMods": {} }),
                40415,
                "BSON field 'bulkWrite.ops.updateMods' is an unknown field.",
            ),
            (
                bulk(doc! { "update": 0, "filter": {} }),
                40414,
                "BSON field 'bulkWrite.ops.updateMods' is missing but a required field",
            ),
            (bulk(doc! { "x": 0 }), 9, "Unrecognized bulk operation"),
            (
                bulk(doc! { "delete": 0, "filter": {}, "multi": true }),
                0,
                "",
            ),
        ],
    );
}
