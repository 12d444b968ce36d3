//! Rules about the methods that applications call.

use super::{report, rust_under, source::read};
use std::collections::{BTreeMap, BTreeSet};
use syn::{ImplItem, Item, Type, Visibility};

/// Methods of asynchronous types that blocking programs do not need, or have by another name.
const ASYNCHRONOUS: [(&str, &str); 4] = [
    ("abandon", "hidden; the drop of a blocking stream calls it"),
    ("runtime", "a blocking program has one"),
    ("stream", "`iter`"),
    ("values", "a loop over `next`, which takes the session"),
];

/// The names of methods, by their type: of public ones and, with `traits`, those of traits.
type Methods = BTreeMap<String, BTreeSet<String>>;

fn take_methods(text: &str, traits: bool, methods: &mut Methods) {
    let file = syn::parse_file(text).expect("it is Rust");
    for item in file.items {
        let Item::Impl(block) = item else { continue };
        let Type::Path(path) = *block.self_ty else {
            continue;
        };
        let of_trait = block.trait_.is_some();
        let Some(name) = path.path.segments.last().filter(|_| traits || !of_trait) else {
            continue;
        };
        let names = block.items.into_iter().filter_map(|item| match item {
            ImplItem::Fn(item) if of_trait || matches!(item.vis, Visibility::Public(_)) => {
                Some(item.sig.ident.to_string())
            }
            _ => None,
        });
        let known = methods.entry(name.ident.to_string()).or_default();
        known.extend(names);
    }
}

/// Finds methods of asynchronous types that their namesakes for blocking programs lack.
fn without_blocking_form(asynchronous: &Methods, blocking: &Methods) -> Vec<String> {
    let mut found = Vec::new();
    for (name, methods) in asynchronous {
        let Some(known) = blocking.get(name) else {
            continue;
        };
        let is_left_out = |method: &str| ASYNCHRONOUS.iter().any(|(name, _)| *name == method);
        let missing = methods.difference(known);
        let missing = missing.filter(|method| !is_left_out(method));
        found.extend(missing.map(|method| format!("{name}::{method} has no blocking form")));
    }
    found
}

#[test]
fn methods_without_a_blocking_form_are_found() {
    let parse = |text: &str, traits| {
        let mut methods = Methods::new();
        take_methods(text, traits, &mut methods);
        methods
    };
    let asynchronous = "impl<R> Cursor<R> { pub async fn next(&self) {} pub fn close(self) {} \
                        fn hidden() {} pub fn runtime(&self) {} }";
    let blocking = "impl Iterator for Cursor { fn next(&mut self) {} }";
    assert_eq!(
        without_blocking_form(&parse(asynchronous, false), &parse(blocking, true)),
        ["Cursor::close has no blocking form"]
    );
}

#[test]
fn blocking_cursors_and_streams_have_the_methods_of_asynchronous_ones() {
    let [asynchronous, mut blocking] =
        [("client", false), ("blocking", true)].map(|(crate_, traits)| {
            let mut methods = Methods::new();
            for path in rust_under(&format!("adapters/{crate_}/src/")) {
                take_methods(&read(&path), traits, &mut methods);
            }
            methods
        });
    // The blocking client dereferences to the asynchronous one, and so do calls that run closures.
    for name in ["Client", "StartTransaction"] {
        blocking.remove(name);
    }
    let both = blocking
        .keys()
        .filter(|name| asynchronous.contains_key(*name));
    assert!(both.count() >= 8, "{:?}", blocking.keys());
    report(without_blocking_form(&asynchronous, &blocking));
}
