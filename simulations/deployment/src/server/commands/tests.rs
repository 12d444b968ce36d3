//! Tests of the table itself. `deployment/tests/commands.rs` tries each row on a server.

mod forms;

use super::{Field, Kind, check, rows};
use crate::{
    server::{connection::Request, fail_point},
    store::{EXPRESSIONS, GIVEN, Name, Place, STAGES, UPDATES},
};
use bson::{Bson, doc};
use std::collections::BTreeSet;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/simulated-server.md"
);

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
            Kind::ArrayOf(Kind::Tagged(variants)) => {
                variants.iter().for_each(|(_, inner)| assert_fields(inner));
            }
            _ => {}
        }
    }
}

#[test]
fn each_command_and_each_field_is_in_the_table_once() {
    assert_distinct(rows().flat_map(|row| row.names.iter().copied()));
    rows().for_each(|row| assert_fields(row.fields));
}

#[test]
fn a_field_of_a_find_that_is_null_counts_as_missing_in_each_release() {
    let row = rows().find(|row| row.names.contains(&"find"));
    for field in row.expect("a row").fields {
        for release in [[4, 2, 25], [4, 4, 29], [5, 0, 31], [7, 0, 12]] {
            let request = Request {
                id: 1,
                bytes: 100,
                compressor: None,
                legacy: false,
                reply_wanted: true,
                exhaust: false,
                name: "find".to_owned(),
                database: "d".to_owned(),
                command: doc! { "find": "c", field.name: Bson::Null, "$db": "d" },
                progress: None,
                checked: None,
            };
            let [major, minor, _] = release;
            let is_known = field.exists((major, minor));
            let found = check(&request, release).is_ok();
            assert_eq!(found, is_known, "{} {release:?}", field.name);
        }
    }
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names = names.into_iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns a table of the commands whose fields are checked.
fn commands() -> String {
    let mut text = "| command | fields | not simulated |\n|---|---|---|\n".to_owned();
    for row in rows() {
        let (refused, accepted): (Vec<&Field>, Vec<&Field>) =
            row.fields.iter().partition(|field| field.refused);
        let list = |fields: Vec<&Field>| quoted(fields.into_iter().map(|field| field.name));
        let names = quoted(row.names.iter().copied());
        text += &format!("| {names} | {} | {} |\n", list(accepted), list(refused));
    }
    text
}

/// Returns names as lines of at most 100 columns.
fn wrapped(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    names.sort_by_key(|name| name.replace('`', ""));
    let (mut text, mut line) = (String::new(), String::new());
    for item in names {
        if !line.is_empty() && line.len() + item.len() + 2 > 100 {
            text += &format!("{line}\n");
            line.clear();
        }
        let gap = if line.is_empty() { "" } else { " " };
        line += &format!("{gap}{item}");
    }
    text + &line + "\n"
}

/// With `ONIONSKIN_UPDATE_PAGES=1`, writes the page instead of comparing it.
#[test]
fn the_page_of_the_server_lists_what_the_tables_have() {
    let page = std::fs::read_to_string(PAGE).expect("the page is in the repository");
    let mut expected = page.clone();
    let stages = STAGES
        .iter()
        .filter(|stage| stage.meaning != Place::Refused && stage.name != GIVEN);
    // An operator that has changed is listed once.
    let expressions = EXPRESSIONS.chunk_by(|a, b| a.name == b.name);
    let expressions = expressions.map(|entries| &entries[0]);
    let expressions = expressions.filter(|entry| entry.meaning.is_known());
    let quote = |name: &&str| format!("`{name}`");
    for (part, list) in [
        ("commands", commands()),
        ("stages", wrapped(stages.map(Name::shown))),
        ("expressions", wrapped(expressions.map(Name::shown))),
        ("updates", wrapped(UPDATES.iter().map(quote))),
        ("fail points", wrapped(fail_point::NAMES.iter().map(quote))),
    ] {
        let (start, end) = (
            format!("<!-- {part} -->\n"),
            format!("<!-- end of {part} -->"),
        );
        let (before, rest) = expected.split_once(&start).expect(part);
        let (_, after) = rest.split_once(&end).expect(part);
        expected = format!("{before}{start}\n{list}\n{end}{after}");
    }
    if std::env::var_os("ONIONSKIN_UPDATE_PAGES").is_some() {
        return std::fs::write(PAGE, expected).expect("the page can be written");
    }
    let differs = page
        .lines()
        .zip(expected.lines())
        .find(|(found, wanted)| found != wanted);
    let advice = "run this test with ONIONSKIN_UPDATE_PAGES=1";
    assert_eq!(differs, None, "{advice}");
    assert_eq!(page.len(), expected.len(), "{advice}");
}
