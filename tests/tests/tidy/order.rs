//! Checks that modules of the core name only modules that are declared above them.

use std::collections::BTreeSet;

use crate::source::code_only;
use crate::syntax::{Module, Named};

/// Returns the modules in the order in which `lib.rs` declares them.
pub(crate) fn declared_modules(lib: &str) -> Vec<String> {
    let declared = |line: &str| {
        let line = line.trim();
        let rest = line.strip_prefix("pub ").unwrap_or(line);
        Some(rest.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    };
    code_only(lib).lines().filter_map(declared).collect()
}

/// Finds uses of modules that are declared below this module. Imports of everything from the root
/// of the crate are also found, because they would hide such uses.
pub(crate) fn looks_down(order: &[String], module: &Module) -> Vec<String> {
    let position = |name: &String| order.iter().position(|other| other == name);
    let Some((top, place)) = module
        .name
        .first()
        .and_then(|top| Some((top, position(top)?)))
    else {
        return Vec::new();
    };
    let mut found = BTreeSet::new();
    for path in Named::of(module).in_crate(&module.name, order) {
        let file = &module.file;
        match path.first() {
            Some(first) if first == "*" => {
                found.insert(format!(
                    "{file}: imports everything from the root of the crate"
                ));
            }
            Some(first) if position(first).is_some_and(|other| other > place) => {
                found.insert(format!(
                    "{file}: `{top}` names `{first}`, which is declared below it"
                ));
            }
            _ => {}
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::modules;

    const LIB: &str =
        "/// First.\npub mod wire;\nmod pool;\npub mod client;\npub use wire::Frame;\n";

    /// Returns the number of violations if the file of a module, or of a module within `wire`, has
    /// this text.
    fn found(file: &str, text: &str) -> usize {
        let files = [
            ("src/lib.rs", LIB),
            ("src/wire/mod.rs", "mod frame;\n#[cfg(test)]\nmod tests;"),
            ("src/wire/frame.rs", ""),
            ("src/wire/tests.rs", "use crate::pool;"),
            ("src/pool.rs", ""),
            ("src/client.rs", ""),
        ];
        let mut files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        for (path, old) in &mut files {
            if path == file {
                text.clone_into(old);
            }
        }
        let order = declared_modules(LIB);
        assert_eq!(order, ["wire", "pool", "client"]);
        let modules = modules(&files.into(), "src/lib.rs");
        modules
            .iter()
            .map(|module| looks_down(&order, module).len())
            .sum()
    }

    #[test]
    fn imports_of_modules_that_are_declared_below_are_found() {
        for text in [
            "use crate::pool::Pool;",
            "pub use crate::pool::Pool;",
            "use crate::{wire::Frame, pool::Pool};",
            "use crate::{\n    wire::{self, Frame},\n    pool::{Id, types::{Kind, Pool as P}},\n};",
            "use crate::pool as p;",
            "use crate::pool::*;",
            "use crate::{pool::{self}};",
            "use super::super::pool::Pool;",
            "use super::{super::pool::Pool, Frame};",
            "use crate as root; fn f(_: root::pool::Pool) {}",
            "use crate::*;",
            "use super::super::*;",
            "fn f() { use crate::pool::Pool; }",
            "mod inner { use super::super::super::pool::Pool; }",
            "#[cfg(test)]\nmod tests {}\nuse crate::pool::Pool;",
            "#[cfg(not(test))]\nuse crate::pool::Pool;",
            "#[cfg(any(test, unix))]\nuse crate::pool::Pool;",
        ] {
            assert_eq!(found("src/wire/frame.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn paths_to_modules_that_are_declared_below_are_found() {
        for text in [
            "fn f(_: crate::pool::Pool) {}",
            "fn f() -> Vec<Option<crate::pool::Pool>> { Vec::new() }",
            "fn f() { crate::pool::run(1) }",
            "fn f() { g::<crate::pool::Pool>() }",
            "fn f(x: u8) -> u8 { match x { crate::pool::MAX => 1, _ => 2 } }",
            "impl From<crate::pool::Pool> for Frame {}",
            "impl super::super::pool::Pool {}",
            "const N: usize = super::super::pool::MAX;",
            "fn f() { assert!(crate::pool::MAX > 1, \"{}\", 1) }",
            "fn f() { matches!(1, crate::pool::MAX) }",
            "macro_rules! m { ($a:expr) => { $crate::pool::run($a) }; }",
        ] {
            assert_eq!(found("src/wire/frame.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn permitted_imports_and_paths_are_not_reported() {
        for text in [
            "use crate::wire::Frame; use super::Frame; use std::pool::Pool;",
            "// See crate::pool.\n/// Used by [`Pool`](crate::pool::Pool).\nfn f() {}",
            "fn f() { let text = \"crate::pool\"; assert!(text == \"crate::pool\") }",
            "mod pool {} fn f() { pool::run(); self::pool::run() }",
            "#[cfg(test)]\nuse crate::pool::Pool;",
            "#[cfg(all(test, unix))]\nuse crate::pool::Pool;",
            "#[cfg(test)]\nmod tests { use crate::pool::Pool; }",
            "struct S; impl S { #[cfg(test)] fn f(_: crate::pool::Pool) {} }",
        ] {
            assert_eq!(found("src/wire/frame.rs", text), 0, "{text}");
        }
        let above = "use crate::{wire::Frame, pool};";
        assert_eq!(found("src/pool.rs", above), 0);
        assert_eq!(found("src/client.rs", above), 0);
        assert_eq!(
            found("src/lib.rs", "pub mod wire; mod pool; pub mod client;"),
            0
        );
    }
}
