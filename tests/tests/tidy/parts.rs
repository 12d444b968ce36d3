//! Checks that the parts of the client do not name each other.

use std::collections::BTreeSet;

use crate::source::code_only;
use crate::syntax::{Module, Named, Segments};
use crate::words::contains_word;

/// A module, as a path from the root of the crate, and the names that it and its submodules must
/// not use: modules (`pools`) and types (`Client`).
pub(crate) type Rule<'a> = (&'a str, &'a [&'a str]);

/// Finds uses of forbidden names, and rules about modules that do not exist.
///
/// A type is forbidden in every path. A module is forbidden in imports and as a part of a longer
/// path. Alone, its name can be that of a variable.
pub(crate) fn breaches(modules: &[Module], rules: &[Rule<'_>]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (part, forbidden) in rules {
        let part: Segments = part.split("::").map(str::to_owned).collect();
        let mut files = modules
            .iter()
            .filter(|module| module.name.starts_with(&part))
            .peekable();
        if files.peek().is_none() {
            found.insert(format!("`{}`: there is no such module", part.join("::")));
        }
        for module in files {
            let used = used_names(module);
            for name in forbidden.iter().filter(|name| used.contains(**name)) {
                let (file, part) = (&module.file, part.join("::"));
                found.insert(format!(
                    "{file}: `{part}` names `{name}`, which it may not know"
                ));
            }
            let text = Named::of(module).opaque.join(" ");
            for name in forbidden
                .iter()
                .filter(|name| contains_word(&code_only(&text), name))
            {
                found.insert(format!("{}: a macro names `{name}`", module.file));
            }
        }
    }
    found.into_iter().collect()
}

fn used_names(module: &Module) -> BTreeSet<String> {
    let named = Named::of(module);
    let mut used = BTreeSet::new();
    for (_, path) in named.imports {
        used.extend(path);
    }
    for path in named.paths {
        let is_variable = path.len() == 1 && !path[0].starts_with(char::is_uppercase);
        if !is_variable {
            used.extend(path);
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::modules;

    const RULES: [Rule<'_>; 2] = [
        ("client::pools", &["Client", "timers", "Timers"]),
        ("client::timers", &["Client", "pools"]),
    ];

    fn found(pools: &str, inner: &str) -> Vec<String> {
        let files = [
            ("src/lib.rs", "pub mod client;"),
            (
                "src/client/mod.rs",
                "mod pools; mod timers; use pools::Pools; struct Client;",
            ),
            ("src/client/pools.rs", pools),
            ("src/client/pools/inner.rs", inner),
            ("src/client/timers.rs", "pub(super) struct Timers;"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        breaches(&modules(&files.into(), "src/lib.rs"), &RULES)
    }

    #[test]
    fn a_client_part_that_uses_a_forbidden_name_is_found() {
        for text in [
            "use super::Client;",
            "use super::{Action, Client as Whole};",
            "use super::timers;",
            "use super::timers::Timers as T;",
            "use crate::client::{timers::{self}};",
            "impl super::Client { fn f(&self) {} }",
            "fn f(all: &mut Vec<super::Client>) {}",
            "fn f() { super::timers::run() }",
            "fn f() { assert!(super::timers::run()) }",
            "fn f() { custom!(a => Client) }",
        ] {
            assert!(!found(text, "").is_empty(), "{text}");
            let within = format!("mod within {{ {text} }}");
            assert!(!found(&within, "").is_empty(), "{within}");
            assert!(!found("mod inner;", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn comments_strings_variables_and_tests_are_not_reported() {
        for text in [
            "/// Used by [`Client`](super::Client).\nstruct Pools { timers: u8 }",
            "fn f(timers: u8) -> u8 { timers + g(timers) }",
            "use crate::client::action::Action; struct ClientId;",
            "fn f() { println!(\"Client\") }",
            "#[cfg(test)]\nmod tests { use super::super::Client; }",
        ] {
            assert!(found(text, "").is_empty(), "{text}: {:?}", found(text, ""));
        }
    }

    #[test]
    fn a_rule_about_a_missing_module_is_found() {
        let files = [("src/lib.rs".to_owned(), String::new())];
        let modules = modules(&files.into(), "src/lib.rs");
        assert_eq!(breaches(&modules, &RULES).len(), 2);
    }
}
