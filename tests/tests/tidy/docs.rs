//! Rules about documents that list parts of the repository.

use super::{
    fences::{ADAPTER_LINES_MAX, BLOCKING_LINES_MAX},
    report,
    source::{files, read},
};
use syn::Item;

/// Returns the names of the variants of an enum.
fn variants(path: &str, name: &str) -> Vec<String> {
    let file = syn::parse_file(&read(path)).expect("it is Rust");
    let found = file.items.into_iter().find_map(|item| match item {
        Item::Enum(item) if item.ident == name => Some(item.variants),
        _ => None,
    });
    let variants = found.expect("the enum is in the file").into_iter();
    variants.map(|variant| variant.ident.to_string()).collect()
}

/// Returns the entries that are not in the text.
fn missing(text: &str, entries: impl IntoIterator<Item = String>) -> Vec<String> {
    let entries = entries.into_iter();
    entries.filter(|entry| !text.contains(entry)).collect()
}

#[test]
fn missing_entries_are_found() {
    let entries = ["`Io`", "`Timeout`"].map(str::to_owned);
    assert_eq!(missing("| `Io` | Timeout |", entries), ["`Timeout`"]);
}

#[test]
fn each_kind_of_error_is_in_the_guide_to_errors() {
    let text = read("docs/errors.md");
    let kinds = variants("core/src/error/kind.rs", "ErrorKind");
    assert!(kinds.len() > 20, "{kinds:?}");
    // The row of a kind begins with it. `Limit`, for example, also occurs in rows of others.
    let kinds = kinds.into_iter().map(|kind| format!("\n| `{kind}` | "));
    let waits = variants("core/src/error/kind.rs", "Wait");
    let waits = waits.into_iter().map(|wait| format!("`Wait::{wait}`"));
    report(missing(&text, kinds.chain(waits)));
}

#[test]
fn the_readme_links_each_guide() {
    let text = read("README.md");
    let guides = files().into_iter().filter(|path| {
        let name = path.strip_prefix("docs/");
        name.is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
    });
    let guides: Vec<String> = guides.collect();
    assert!(guides.len() > 10, "{guides:?}");
    report(missing(
        &text,
        guides.iter().map(|path| format!("]({path})")),
    ));
}

/// Returns the blocks of code that rustdoc takes as Rust because nothing says what they are.
fn blocks_without_language(text: &str) -> Vec<String> {
    let (mut found, mut fenced, mut before) = (Vec::new(), false, "");
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = !fenced;
            if fenced && language.is_empty() {
                found.push(format!("a fence without a language after {before:?}"));
            }
        } else if !fenced && before.is_empty() && line.starts_with("    ") {
            found.push(format!("indented code: {line:?}"));
        }
        before = line;
    }
    found
}

#[test]
fn blocks_of_code_without_a_language_are_found() {
    let text = "Run\n\n    cargo run\n\n```sh\n\n    cargo test\n```\n\n```\nls\n```\n";
    assert_eq!(blocks_without_language(text).len(), 2);
}

#[test]
fn guides_whose_programs_are_compiled_name_the_language_of_each_block() {
    let sources = files().into_iter().filter(|path| path.ends_with(".rs"));
    let sources: String = sources.map(|path| read(&path)).collect();
    let guides = files()
        .into_iter()
        .filter(|path| path.starts_with("docs/") && sources.contains(&format!("/{path}\")]\n")));
    let guides: Vec<String> = guides.collect();
    assert!(guides.len() > 3, "{guides:?}");
    let found = guides.iter().flat_map(|path| {
        let blocks = blocks_without_language(&read(path)).into_iter();
        blocks.map(move |block| format!("{path}: {block}"))
    });
    report(found.collect());
}

#[test]
fn the_limits_of_adapters_are_documented() {
    let text = read("CONTRIBUTING.md").replace('\n', " ");
    for limit in [ADAPTER_LINES_MAX, BLOCKING_LINES_MAX] {
        assert!(text.contains(&format!("at most {limit}")), "{limit}");
    }
}
