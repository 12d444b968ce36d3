//! Rules about documents that list parts of the repository, and about examples in docs.

use super::{
    check,
    fences::{ADAPTER_LINES_MAX, BLOCKING_LINES_MAX},
    report, rust_under,
    source::{above_tests, files, read},
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

/// Returns a message for each public method, and for each struct with a builder, whose docs have no
/// example. A function that a macro names, such as a setter, has its example in the docs of its
/// type.
fn without_example(path: &str, text: &str) -> Vec<String> {
    let (mut docs, mut found) = (String::new(), Vec::new());
    for (number, line) in (1..).zip(above_tests(text).lines()) {
        let code = line.trim_start();
        if code.starts_with("///") || code.starts_with("#[") {
            docs.push_str(code);
            continue;
        }
        let public = code.strip_prefix("pub ").unwrap_or_default();
        let is_method = line != code && public.contains("fn ") && !code.contains('$');
        let is_built = code.contains(", built by ") && !code.starts_with('$');
        let is_shown = docs.contains("```") || docs.contains("#[doc(hidden)]");
        if (is_method || is_built) && !is_shown {
            found.push(format!("{path}:{number}: the docs have no example: {code}"));
        }
        // Lines between the docs and the item belong to an attribute.
        if is_method || code.ends_with(['{', '}', ';']) {
            docs.clear();
        }
    }
    found
}

#[test]
fn items_without_an_example_are_found() {
    let method = "    #[expect(\n        a::b,\n    )]\n    pub const fn f() {\n    }\n";
    for (docs, count) in [("/// A.\n", 1), ("/// ```\n", 0), ("#[doc(hidden)]\n", 0)] {
        assert_eq!(
            without_example("a.rs", &format!("    {docs}{method}")).len(),
            count
        );
    }
    let other = "    /// A.\n    pub(crate) fn f() {}\n    pub fn $field() {}\npub fn g() {}\n";
    assert!(without_example("a.rs", other).is_empty());
    let table = "    /// A.\n    Options, built by Builder => {\n";
    assert_eq!(without_example("a.rs", table).len(), 1);
}

#[test]
fn public_methods_have_an_example() {
    for folder in [
        "adapters/client/src/",
        "core/src/error/",
        "core/src/options/",
    ] {
        check(rust_under(folder), without_example);
    }
}

/// A table of options, from which a macro makes the setters of a builder, and those of calls.
struct Table {
    /// The name of the struct of options, and its docs.
    name: String,
    docs: String,
    /// The name by which calls use the table.
    list: Option<String>,
    options: Vec<String>,
}

/// Returns the letters, digits and underscores with which the text begins.
fn word(text: &str) -> String {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_part).collect()
}

fn tables(text: &str) -> Vec<Table> {
    let (mut found, mut docs, mut table) = (Vec::new(), String::new(), None);
    for line in text.lines() {
        let code = line.trim_start();
        if code.contains(", built by ") && !code.starts_with('$') {
            table = Some(Table {
                name: word(code),
                docs: std::mem::take(&mut docs),
                list: None,
                options: Vec::new(),
            });
        }
        match &mut table {
            None if code.starts_with("///") => docs.push_str(code),
            None if code.ends_with(['{', '}', ';']) => docs.clear(),
            Some(_) if line == "    }" => found.extend(table.take()),
            Some(table) if code.contains("listed by ") => {
                table.list = code.split_once("listed by ").map(|(_, name)| word(name));
            }
            Some(table) if code.contains(": ") && !code.starts_with("//") => {
                table.options.push(word(code));
            }
            _ => {}
        }
    }
    found
}

/// Returns the tables that the calls in a file use, each with the docs between the use before and
/// this one.
fn uses(text: &str) -> Vec<(String, String)> {
    let (mut found, mut docs) = (Vec::new(), String::new());
    for line in text.lines() {
        let name = ["listed by ", "onionskin_core::"]
            .into_iter()
            .find_map(|before| line.split_once(before))
            .map(|(_, name)| word(name))
            .filter(|name| name.ends_with("_options"));
        match name {
            _ if line.trim_start().starts_with("///") => docs.push_str(line),
            Some(name) => found.push((name, std::mem::take(&mut docs))),
            None => {}
        }
    }
    found
}

/// Returns the options whose setters occur in no example of the docs.
fn unused<'a>(table: &'a Table, docs: &'a str) -> impl Iterator<Item = &'a String> {
    let is_unused = move |option: &&String| !docs.contains(&format!(".{option}("));
    table.options.iter().filter(is_unused)
}

#[test]
fn setters_without_an_example_are_found() {
    let table = "    /// x.a(1)\n    Options, built by Builder, listed by f_options => {\n        \
                 /// A.\n        a: u32 => Body \"a\",\n        b: u32 => Kept \"b\",\n    }\n";
    let table = &tables(table)[0];
    assert_eq!(table.list.as_deref(), Some("f_options"));
    assert_eq!(unused(table, &table.docs).collect::<Vec<_>>(), ["b"]);
    let calls = "/// x.a(1)\nonionskin_core::f_options! {}\n/// y\nF {} listed by g_options\n";
    let calls = uses(calls);
    assert_eq!(calls[0], ("f_options".to_owned(), "/// x.a(1)".to_owned()));
    assert_eq!(calls[1], ("g_options".to_owned(), "/// y".to_owned()));
}

#[test]
fn each_setter_of_a_table_is_in_an_example_of_its_types() {
    let client = rust_under("adapters/client/src/").into_iter();
    let calls: Vec<_> = client.flat_map(|path| uses(&read(&path))).collect();
    let core = rust_under("core/src/").into_iter();
    let tables: Vec<_> = core.flat_map(|path| tables(&read(&path))).collect();
    assert!(calls.len() > 40 && tables.len() > 40, "{}", tables.len());
    let mut found = Vec::new();
    for table in &tables {
        let of_calls = calls
            .iter()
            .filter(|(list, _)| table.list.as_ref() == Some(list));
        let mut docs: Vec<_> = of_calls.map(|(_, docs)| docs).collect();
        if docs.is_empty() {
            docs.push(&table.docs);
        }
        let unused = docs.into_iter().flat_map(|docs| unused(table, docs));
        found.extend(unused.map(|option| format!("{}: no example uses {option}", table.name)));
    }
    report(found);
}
