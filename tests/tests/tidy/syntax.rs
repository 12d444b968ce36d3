//! The modules of a crate as syntax trees, without their tests, and the paths that they name.

use std::collections::BTreeMap;

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{Attribute, Expr, ImplItem, Item, Meta, Token, UseTree};

use crate::modules::Files;
use crate::source::code_only;
use crate::words::contains_word;

/// The segments of a path. `*` means a glob import.
pub(crate) type Segments = Vec<String>;

/// A module outside of tests. Its submodules are modules of their own.
pub(crate) struct Module {
    /// The file that contains the module.
    pub(crate) file: String,
    /// The path of the module from the root of the crate; empty for the root itself.
    pub(crate) name: Segments,
    /// The items of the module, without tests. Of a submodule only the name is used.
    pub(crate) items: Vec<Item>,
}

/// Reads a crate from its root file. Panics on text that is not Rust and on a missing file of a
/// module, because a module that is not read is not checked.
pub(crate) fn modules(files: &Files, root: &str) -> Vec<Module> {
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    let mut ahead = vec![(root.to_owned(), Segments::new())];
    while let Some((path, name)) = ahead.pop() {
        let file = syn::parse_file(&files[&path]).unwrap_or_else(|e| panic!("{path}: {e}"));
        take_module(
            &path,
            name,
            file.items,
            &mut found,
            &mut |child: &[String]| {
                let below = child.join("/");
                let candidates = [".rs", "/mod.rs"].map(|end| format!("{folder}/{below}{end}"));
                let file = candidates.into_iter().find(|path| files.contains_key(path));
                let file = file.unwrap_or_else(|| panic!("{path}: no file for `mod {below}`"));
                ahead.push((file, child.to_vec()));
            },
        );
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Adds a module and its submodules in the same file.
fn take_module(
    file: &str,
    name: Segments,
    items: Vec<Item>,
    found: &mut Vec<Module>,
    in_file: &mut dyn FnMut(&[String]),
) {
    let mut items = without_tests(items);
    for item in &mut items {
        let Item::Mod(child) = item else {
            continue;
        };
        let mut below = name.clone();
        below.push(child.ident.to_string());
        match child.content.take() {
            Some((_, items)) => take_module(file, below, items, found, in_file),
            None => in_file(&below),
        }
    }
    let file = file.to_owned();
    found.push(Module { file, name, items });
}

fn without_tests(items: Vec<Item>) -> Vec<Item> {
    let mut kept = Vec::new();
    for mut item in items {
        if is_test(attributes(&item)) {
            continue;
        }
        if let Item::Impl(block) = &mut item {
            block.items.retain(|item| match item {
                ImplItem::Fn(function) => !is_test(&function.attrs),
                ImplItem::Const(constant) => !is_test(&constant.attrs),
                _ => true,
            });
        }
        kept.push(item);
    }
    kept
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// True if the item exists in tests only, or is the private form of an item that a feature makes
/// public.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let condition = attribute.parse_args::<Meta>();
        attribute.path().is_ident("cfg") && condition.is_ok_and(|meta| needs_test(&meta))
    })
}

fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(parts) = parser.parse2(list.tokens.clone()) else {
        return false;
    };
    if list.path.is_ident("not") {
        return false;
    }
    if list.path.is_ident("all") {
        parts.iter().any(needs_test)
    } else {
        list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
    }
}

/// An import: the name in the module, or `*`, and the path as written.
pub(crate) type Import = (String, Segments);

pub(crate) fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    take_imports(tree, Segments::new(), &mut found);
    found
}

fn take_imports(tree: &UseTree, mut before: Segments, found: &mut Vec<Import>) {
    let (last, name) = match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            return take_imports(&path.tree, before, found);
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                take_imports(tree, before.clone(), found);
            }
            return;
        }
        UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
        UseTree::Rename(renamed) => (renamed.ident.to_string(), renamed.rename.to_string()),
        _ => ("*".to_owned(), "*".to_owned()),
    };
    if last == "self" && !before.is_empty() {
        let parent = before[before.len() - 1].clone();
        let name = if name == "self" { parent } else { name };
        found.push((name, before));
    } else {
        before.push(last);
        found.push((name, before));
    }
}

/// Returns the path from the root of the crate for a path that begins with `crate`, `self` or
/// `super`; `None` for any other path.
pub(crate) fn absolute(module: &[String], path: &[String]) -> Option<Segments> {
    let (first, mut rest) = path.split_first()?;
    let mut from = match first.as_str() {
        "crate" => Segments::new(),
        "self" => module.to_vec(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    while let Some((first, after)) = rest.split_first()
        && first == "super"
    {
        from.pop()?;
        rest = after;
    }
    from.extend_from_slice(rest);
    Some(from)
}

pub(crate) fn segments(path: &syn::Path) -> Segments {
    let all = path.segments.iter();
    all.map(|segment| segment.ident.to_string()).collect()
}

/// All names in a module: the paths of its imports, expressions, types and patterns.
pub(crate) struct Named {
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Segments>,
    /// The code of macros whose arguments are not expressions, without comments and strings.
    pub(crate) opaque: Vec<String>,
}

impl Named {
    pub(crate) fn of(module: &Module) -> Self {
        let mut named = Self {
            imports: Vec::new(),
            paths: Vec::new(),
            opaque: Vec::new(),
        };
        for item in &module.items {
            if !matches!(item, Item::Mod(_)) {
                named.visit_item(item);
            }
        }
        named
    }

    /// Returns the paths within the crate, from its root. `names` are the crate's modules, which
    /// are searched for in macros.
    pub(crate) fn in_crate(&self, module: &[String], names: &[String]) -> Vec<Segments> {
        let mut aliases: BTreeMap<&str, Segments> = BTreeMap::new();
        let mut found = Vec::new();
        for (name, path) in &self.imports {
            if let Some(path) = absolute(module, path) {
                aliases.insert(name, path.clone());
                found.push(path);
            }
        }
        for path in &self.paths {
            if let Some(path) = absolute(module, path) {
                found.push(path);
            } else if let Some(from) = aliases.get(path[0].as_str()) {
                found.push([from.as_slice(), &path[1..]].concat());
            }
        }
        for (text, name) in self
            .opaque
            .iter()
            .flat_map(|t| names.iter().map(move |n| (t, n)))
        {
            if contains_word(text, &format!("crate::{name}")) {
                found.push(vec![name.clone()]);
            }
        }
        found
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imports.extend(imports(&item.tree));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(segments(path));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        match expressions(item) {
            Some(all) => all.iter().for_each(|one| self.visit_expr(one)),
            None => {
                let text = code_only(&item.tokens.to_string());
                self.opaque.push(text.replace([' ', '\n'], ""));
            }
        }
    }

    // Skips attributes, such as doc comments, which can name modules that are declared below.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Returns the arguments of a macro, if all of them are expressions.
pub(crate) fn expressions(item: &syn::Macro) -> Option<Vec<Expr>> {
    let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
    let parsed = parser.parse2(item.tokens.clone()).ok()?;
    Some(parsed.into_iter().collect())
}
