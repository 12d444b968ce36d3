//! Tests of validators and of `$jsonSchema`.

use super::*;

fn store_with(options: Document) -> Store {
    let mut store = Store::new();
    store
        .create_collection(&namespace(), options)
        .expect("a collection");
    store
}

fn insert(store: &mut Store, document: Document) -> Option<StoreError> {
    let done = with(|e| store.insert(&namespace(), vec![document], true, e)).expect("a result");
    done.errors.into_iter().next().map(|error| error.error)
}

fn set(store: &mut Store, id: i32, fields: Document) -> Option<i32> {
    let update = Update::Document(doc! { "$set": fields });
    let statement = UpdateStatement::one(doc! { "_id": id }, update);
    let done = with(|e| store.update(&namespace(), &[statement], true, e)).expect("a result");
    done.errors.first().map(|error| error.error.code)
}

fn details(error: &StoreError) -> Document {
    assert_eq!(
        (error.code, &*error.code_name),
        (121, "DocumentValidationFailure")
    );
    assert_eq!(error.message, "Document failed validation");
    let information = error.details.get_document("errInfo").expect("errInfo");
    information
        .get_document("details")
        .expect("details")
        .clone()
}

fn matches(schema: Document, document: Document) -> bool {
    let store = filled(vec![document]);
    let find = Find {
        filter: doc! { "$jsonSchema": schema },
        ..Find::default()
    };
    !contents(&store, &find).is_empty()
}

#[test]
fn a_validator_refuses_documents_and_says_why() {
    let mut store = store_with(doc! { "validator": { "a": { "$type": "string" } } });
    assert_eq!(insert(&mut store, doc! { "_id": 1, "a": "x" }), None);
    let error = insert(&mut store, doc! { "_id": 2, "a": 1 }).expect("refused");
    let expected = doc! {
        "operatorName": "$type", "specifiedAs": { "a": { "$type": "string" } },
        "reason": "type did not match", "consideredValue": 1, "consideredType": "int",
    };
    assert_eq!(details(&error), expected);
    let information = error.details.get_document("errInfo").expect("errInfo");
    assert_eq!(information.get_i32("failingDocumentId").ok(), Some(2));
    assert_eq!(set(&mut store, 1, doc! { "a": 5 }), Some(121));
    let update = Update::Document(doc! { "$set": { "a": 1 } });
    let upsert = UpdateStatement {
        upsert: true,
        ..UpdateStatement::one(doc! { "_id": 9 }, update)
    };
    let done = with(|e| store.update(&namespace(), &[upsert], true, e)).expect("a result");
    assert_eq!(done.errors[0].error.code, 121);
    for stage in [
        doc! { "$merge": { "into": "c", "whenMatched": "replace" } },
        doc! { "$out": "c" },
    ] {
        let stages = [doc! { "$set": { "a": 1 } }, stage];
        let error = aggregate(&mut store, &stages).expect_err("refused");
        assert_eq!(error.code, 121);
    }
    assert_eq!(
        contents(&store, &Find::default()),
        [doc! { "_id": 1, "a": "x" }]
    );
}

#[test]
fn the_level_and_the_action_weaken_a_validator_and_a_command_can_bypass_it() {
    let validator = doc! { "a": 1 };
    for (option, word) in [("validationLevel", "off"), ("validationAction", "warn")] {
        let mut options = doc! { "validator": validator.clone() };
        options.insert(option, word);
        let mut store = store_with(options);
        assert_eq!(insert(&mut store, doc! { "_id": 1 }), None);
    }
    let mut store = filled(vec![doc! { "_id": 1 }, doc! { "_id": 2, "a": 1 }]);
    let options = doc! { "validator": validator, "validationLevel": "moderate" };
    store
        .modify_collection(&namespace(), &options)
        .expect("modified");
    assert_eq!(set(&mut store, 1, doc! { "b": 1 }), None);
    assert_eq!(set(&mut store, 2, doc! { "a": 2 }), Some(121));
    let bypassed = with(|e| {
        e.bypasses_validation = true;
        store.insert(&namespace(), vec![doc! { "_id": 3 }], true, e)
    });
    assert_eq!(bypassed.expect("a result").inserted, 1);
    let none = doc! { "validator": {} };
    store
        .modify_collection(&namespace(), &none)
        .expect("modified");
    assert_eq!(insert(&mut store, doc! { "_id": 4 }), None);
    let listed = store
        .list_collections("db", &doc! {}, false)
        .expect("a list");
    let options = listed[0].get_document("options").expect("options");
    assert!(!options.contains_key("validator"), "{options}");
    for malformed in [doc! { "$no": 1 }, doc! { "a": { "$no": 1 } }] {
        let options = doc! { "validator": malformed };
        assert!(store.modify_collection(&namespace(), &options).is_err());
    }
}

#[test]
fn the_report_of_a_failure_is_bounded() {
    let long = "x".repeat(1_000_000);
    let rules = vec![doc! { "maxLength": 5 }; 1000];
    let schema = doc! { "properties": { "a": { "allOf": rules } } };
    let mut store = store_with(doc! { "validator": { "$jsonSchema": schema } });
    let error = insert(&mut store, doc! { "_id": 1, "a": &long }).expect("refused");
    assert!(encoded_bytes(&details(&error)) < 100_000);
    let mut store = store_with(doc! { "validator": { "a": long.clone() + "y" } });
    let error = insert(&mut store, doc! { "_id": 1, "a": long }).expect("refused");
    assert!(encoded_bytes(&details(&error)) < 1000);
}

#[test]
fn a_schema_that_is_not_satisfied_is_reported_by_rule() {
    let schema = doc! {
        "title": "person", "required": ["name", "age"],
        "properties": {
            "name": { "bsonType": "string", "description": "a string" },
            "age": { "minimum": 0 },
        },
    };
    let mut store = store_with(doc! { "validator": { "$jsonSchema": schema } });
    let error = insert(&mut store, doc! { "_id": 1, "name": 5 }).expect("refused");
    let expected = doc! {
        "operatorName": "$jsonSchema",
        "title": "person",
        "schemaRulesNotSatisfied": [
            {
                "operatorName": "required", "specifiedAs": { "required": ["name", "age"] },
                "missingProperties": ["age"],
            },
            {
                "operatorName": "properties",
                "propertiesNotSatisfied": [{
                    "propertyName": "name", "description": "a string",
                    "details": [{
                        "operatorName": "bsonType", "specifiedAs": { "bsonType": "string" },
                        "reason": "type did not match", "consideredValue": 5,
                        "consideredType": "int",
                    }],
                }],
            },
        ],
    };
    assert_eq!(details(&error), expected);
    let mut both = store_with(doc! { "validator": { "a": 1, "b": 2 } });
    let error = insert(&mut both, doc! { "_id": 1, "a": 1, "b": 3 }).expect("refused");
    let expected = doc! {
        "operatorName": "$and",
        "clausesNotSatisfied": [{ "index": 1, "details": {
            "operatorName": "$eq", "specifiedAs": { "b": 2 }, "reason": "comparison failed",
            "consideredValue": 3,
        } }],
    };
    assert_eq!(details(&error), expected);
}

fn check_rules(table: impl IntoIterator<Item = (Document, Bson, Bson)>) {
    let on_a = |rule: Document| doc! { "properties": { "a": rule } };
    for (rule, good, bad) in table {
        for (value, expected) in [(good, true), (bad, false)] {
            let document = doc! { "_id": 1, "a": value };
            assert_eq!(
                matches(on_a(rule.clone()), document.clone()),
                expected,
                "{rule} {document}"
            );
        }
        assert!(
            matches(on_a(rule.clone()), doc! { "_id": 1 }),
            "{rule} without the field"
        );
    }
}

#[test]
fn the_keywords_for_scalars_and_arrays_have_their_effect() {
    check_rules([
        (
            doc! { "bsonType": ["int", "string"] },
            bson!(1),
            bson!(true),
        ),
        (doc! { "type": "number" }, bson!(1.5), bson!("1")),
        (doc! { "enum": [1, "x"] }, bson!("x"), bson!(2)),
        (
            doc! { "minimum": 2, "exclusiveMinimum": true },
            bson!(3),
            bson!(2),
        ),
        (doc! { "maximum": 2 }, bson!(2), bson!(2.5)),
        (doc! { "multipleOf": 3 }, bson!(9), bson!(8)),
        (doc! { "minLength": 2 }, bson!("áb"), bson!("á")),
        (doc! { "maxLength": 2 }, bson!("ab"), bson!("abc")),
        (doc! { "pattern": "^a" }, bson!("ab"), bson!("ba")),
        (
            doc! { "items": { "type": "string" } },
            bson!(["x"]),
            bson!(["x", 1]),
        ),
        (
            doc! { "items": [{ "type": "string" }] },
            bson!(["x", 1]),
            bson!([1]),
        ),
        (doc! { "minItems": 1 }, bson!([1]), bson!([])),
        (doc! { "maxItems": 1 }, bson!([1]), bson!([1, 2])),
        (doc! { "uniqueItems": true }, bson!([1, 2]), bson!([1, 1.0])),
    ]);
}

#[test]
fn the_keywords_for_objects_and_of_logic_have_their_effect() {
    check_rules([
        (
            doc! { "required": ["x"] },
            bson!({ "x": 1 }),
            bson!({ "y": 1 }),
        ),
        (doc! { "minProperties": 1 }, bson!({ "x": 1 }), bson!({})),
        (
            doc! { "properties": { "x": {} }, "additionalProperties": false },
            bson!({ "x": 1 }),
            bson!({ "y": 1 }),
        ),
        (
            doc! { "additionalProperties": { "type": "string" } },
            bson!({ "x": "1" }),
            bson!({ "y": 1 }),
        ),
        (
            doc! { "allOf": [{ "minimum": 1 }, { "maximum": 2 }] },
            bson!(1),
            bson!(3),
        ),
        (
            doc! { "anyOf": [{ "type": "string" }, { "minimum": 2 }] },
            bson!(2),
            bson!(1),
        ),
        (
            doc! { "oneOf": [{ "minimum": 1 }, { "minimum": 2 }] },
            bson!(1),
            bson!(2),
        ),
        (doc! { "not": { "type": "string" } }, bson!(1), bson!("x")),
    ]);
}

#[test]
fn malformed_schemas_are_refused() {
    for (schema, code) in [
        (doc! { "unknown": 1 }, 9),
        (doc! { "$ref": "x" }, 9),
        (doc! { "required": [] }, 9),
        (doc! { "required": "a" }, 14),
        (doc! { "type": "integer" }, 2),
        (doc! { "dependencies": {} }, 9),
    ] {
        let find = Find {
            filter: doc! { "$jsonSchema": schema.clone() },
            ..Find::default()
        };
        let error = with(|e| Store::new().find(&namespace(), &find, e)).expect_err("refused");
        assert_eq!(error.code, code, "{schema}");
    }
}
