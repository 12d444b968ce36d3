//! Tests of the table itself. `deployment/tests/commands.rs` tries each row on a server.

use super::{Field, Kind, rows};
use std::collections::BTreeSet;

fn assert_distinct(names: impl Iterator<Item = &'static str>) {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(name), "{name} is there twice");
    }
}

fn assert_fields(fields: &'static [Field]) {
    assert_distinct(fields.iter().map(|field| field.name));
    for field in fields {
        match field.kind {
            Kind::Nested(inner) => assert_fields(inner),
            Kind::ArrayOf(Kind::Nested(inner)) => assert_fields(inner),
            _ => {}
        }
    }
}

#[test]
fn each_command_and_each_field_is_in_the_table_once() {
    assert_distinct(rows().flat_map(|row| row.names.iter().copied()));
    rows().for_each(|row| assert_fields(row.fields));
}
