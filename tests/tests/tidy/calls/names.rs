//! The meanings of the names in a set of modules: types with their fields, functions and methods.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Fields, ImplItem, Item, Signature, TraitItem, Type};

use super::kinds::Kind;
use crate::syntax::{Module, Segments, absolute, imports, segments};

/// The name of a type that the modules define, or of a type from elsewhere for which the modules
/// define methods. Traits count as types.
pub(super) type TypeName = String;

/// A function or method that is defined in the modules.
pub(super) struct Function<'a> {
    pub(super) module: &'a Module,
    /// The type or trait that has the method; `None` for a function without `impl` or `trait`.
    pub(super) owner: Option<TypeName>,
    pub(super) name: String,
    pub(super) signature: &'a Signature,
    pub(super) body: Option<&'a syn::Block>,
}

/// All names that a set of modules defines.
#[derive(Default)]
pub(super) struct Names<'a> {
    scopes: BTreeMap<Segments, Scope>,
    pub(super) types: BTreeSet<TypeName>,
    /// The kinds of fields, by type, variant (empty for a struct) and name or position.
    pub(super) fields: BTreeMap<(TypeName, String, String), Kind>,
    variants: BTreeSet<(TypeName, String)>,
    pub(super) functions: Vec<Function<'a>>,
    by_path: BTreeMap<Segments, usize>,
    methods: BTreeMap<(TypeName, String), Vec<usize>>,
    method_names: BTreeSet<String>,
}

#[derive(Default)]
struct Scope {
    declared: BTreeSet<String>,
    imported: BTreeMap<String, Segments>,
    globs: Vec<Segments>,
}

impl<'a> Names<'a> {
    pub(super) fn of(modules: &'a [Module]) -> Self {
        let mut names = Self::default();
        for module in modules {
            names.scopes.insert(module.name.clone(), Scope::of(module));
        }
        for module in modules {
            for item in &module.items {
                names.take_type(module, item);
            }
        }
        for module in modules {
            for item in &module.items {
                names.take_fields(module, item);
                names.take_functions(module, item);
            }
        }
        for module in modules {
            for item in &module.items {
                names.take_traits(module, item);
            }
        }
        names
    }

    fn take_type(&mut self, module: &Module, item: &Item) {
        let own = match item {
            Item::Struct(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Impl(item) => {
                if let Type::Path(path) = &*item.self_ty {
                    self.types
                        .insert(self.type_name(module, &segments(&path.path)));
                }
                return;
            }
            _ => return,
        };
        self.types
            .insert(self.type_name(module, &[own.to_string()]));
    }

    fn take_fields(&mut self, module: &Module, item: &Item) {
        match item {
            Item::Struct(item) => {
                let owner = self.type_name(module, &[item.ident.to_string()]);
                self.take_variant(module, &owner, "", &item.fields);
            }
            Item::Enum(item) => {
                let owner = self.type_name(module, &[item.ident.to_string()]);
                for variant in &item.variants {
                    let name = variant.ident.to_string();
                    self.take_variant(module, &owner, &name, &variant.fields);
                    self.variants.insert((owner.clone(), name));
                }
            }
            _ => {}
        }
    }

    fn take_variant(&mut self, module: &Module, owner: &str, variant: &str, fields: &Fields) {
        for (place, field) in fields.iter().enumerate() {
            let name = field
                .ident
                .as_ref()
                .map_or_else(|| place.to_string(), ToString::to_string);
            let kind = self.kind(module, Some(owner), &field.ty);
            self.fields
                .insert((owner.to_owned(), variant.to_owned(), name), kind);
        }
    }

    fn take_functions(&mut self, module: &'a Module, item: &'a Item) {
        match item {
            Item::Fn(item) => {
                let mut path = module.name.clone();
                path.push(item.sig.ident.to_string());
                self.by_path.insert(path, self.functions.len());
                self.add(module, None, &item.sig, Some(&item.block));
            }
            Item::Impl(block) => {
                let Type::Path(path) = &*block.self_ty else {
                    return;
                };
                let owner = self.type_name(module, &segments(&path.path));
                for item in &block.items {
                    if let ImplItem::Fn(item) = item {
                        self.add(module, Some(owner.clone()), &item.sig, Some(&item.block));
                    }
                }
            }
            Item::Trait(item) => {
                let owner = self.type_name(module, &[item.ident.to_string()]);
                for item in &item.items {
                    if let TraitItem::Fn(item) = item {
                        self.add(
                            module,
                            Some(owner.clone()),
                            &item.sig,
                            item.default.as_ref(),
                        );
                    }
                }
            }
            _ => {}
        }
    }

    fn add(
        &mut self,
        module: &'a Module,
        owner: Option<TypeName>,
        signature: &'a Signature,
        body: Option<&'a syn::Block>,
    ) {
        let name = signature.ident.to_string();
        if let Some(owner) = &owner {
            let key = (owner.clone(), name.clone());
            self.methods
                .entry(key)
                .or_default()
                .push(self.functions.len());
            self.method_names.insert(name.clone());
        }
        self.functions.push(Function {
            module,
            owner,
            name,
            signature,
            body,
        });
    }

    /// Adds the methods of an `impl` of a trait to the functions that a call of the trait's method
    /// can reach. A type whose `impl` lacks a method gets the functions that are recorded for the
    /// trait so far: the default method and those of earlier `impl`s.
    fn take_traits(&mut self, module: &Module, item: &Item) {
        let Item::Impl(block) = item else {
            return;
        };
        let (Some((path, _)), Type::Path(own)) = (&block.trait_, &*block.self_ty) else {
            return;
        };
        let general = self.type_name(module, &segments(path));
        let owner = self.type_name(module, &segments(&own.path));
        let of_trait = self.methods.keys().filter(|(name, _)| *name == general);
        let of_trait: Vec<String> = of_trait.map(|(_, method)| method.clone()).collect();
        for method in of_trait {
            let given = self.methods.get(&(owner.clone(), method.clone())).cloned();
            let default = self.methods[&(general.clone(), method.clone())].clone();
            match given {
                Some(given) => {
                    self.methods
                        .entry((general.clone(), method))
                        .or_default()
                        .extend(given);
                }
                None => {
                    self.methods.insert((owner.clone(), method), default);
                }
            }
        }
    }

    /// Returns the name of a type. For a type that the modules do not define, this is the last
    /// segment of the path.
    pub(super) fn type_name(&self, module: &Module, path: &[String]) -> TypeName {
        match self.resolve(module, path) {
            Some(path) if self.is_ours(&path) => path.join("::"),
            Some(path) => path.last().cloned().unwrap_or_default(),
            None => path.last().cloned().unwrap_or_default(),
        }
    }

    fn is_ours(&self, path: &[String]) -> bool {
        let parent = path
            .split_last()
            .and_then(|(_, parent)| self.scopes.get(parent));
        parent.is_some()
    }

    /// Returns the meaning of a path in a module, as a path from the root of the crate; `None` for
    /// local names and for other crates.
    pub(super) fn resolve(&self, module: &Module, path: &[String]) -> Option<Segments> {
        if let Some(path) = absolute(&module.name, path) {
            return Some(self.follow(path));
        }
        let (first, rest) = path.split_first()?;
        let found = self.find(&module.name, first, 0)?;
        Some(self.follow([found.as_slice(), rest].concat()))
    }

    /// Returns the meaning of a name in a module, which can be an import.
    fn find(&self, module: &[String], name: &str, depth: usize) -> Option<Segments> {
        let scope = self.scopes.get(module).filter(|_| depth < 8)?;
        if scope.declared.contains(name) {
            return Some([module, &[name.to_owned()]].concat());
        }
        if let Some(path) = scope.imported.get(name) {
            return match absolute(module, path) {
                Some(path) => Some(path),
                None if path[0] == *name => None,
                None => {
                    let first = self.find(module, &path[0], depth + 1)?;
                    Some([first.as_slice(), &path[1..]].concat())
                }
            };
        }
        scope.globs.iter().find_map(|from| {
            let from = absolute(module, from)?;
            self.find(&from, name, depth + 1)
        })
    }

    /// Replaces re-exports in a path by the items that they name.
    fn follow(&self, mut path: Segments) -> Segments {
        for _ in 0..8 {
            let split = (1..path.len())
                .rev()
                .find(|&at| self.scopes.contains_key(&path[..at]));
            let Some(split) = split else {
                break;
            };
            match self.find(&path[..split], &path[split], 0) {
                Some(found) if found[..] != path[..=split] => {
                    path = [found.as_slice(), &path[split + 1..]].concat();
                }
                _ => break,
            }
        }
        path
    }

    /// Returns the functions or methods that a path can mean.
    pub(super) fn function(
        &self,
        module: &Module,
        own: Option<&str>,
        path: &[String],
    ) -> Vec<usize> {
        if let Some(found) = self
            .resolve(module, path)
            .and_then(|path| self.by_path.get(&path))
        {
            return vec![*found];
        }
        let Some((name, owner)) = path.split_last() else {
            return Vec::new();
        };
        let owner = match (own, owner) {
            (_, []) => return Vec::new(),
            (Some(own), [only]) if only == "Self" => own.to_owned(),
            _ => self.type_name(module, owner),
        };
        self.methods
            .get(&(owner, name.clone()))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the methods that a call on a value can reach.
    pub(super) fn method(&self, receiver: &Kind, name: &str) -> Vec<usize> {
        let of = |owner: &TypeName| self.methods.get(&(owner.clone(), name.to_owned()));
        match &receiver.exact {
            Some(owner) => of(owner).cloned().unwrap_or_default(),
            None => receiver
                .within
                .iter()
                .filter_map(of)
                .flatten()
                .copied()
                .collect(),
        }
    }

    pub(super) fn is_method(&self, name: &str) -> bool {
        self.method_names.contains(name)
    }

    pub(super) fn field_count(&self, owner: &str) -> usize {
        self.fields
            .keys()
            .filter(|(name, ..)| name == owner)
            .count()
    }

    /// Returns the type, and the variant or an empty string, of a pattern or a struct literal.
    pub(super) fn variant(
        &self,
        module: &Module,
        own: Option<&str>,
        path: &[String],
    ) -> Option<(TypeName, String)> {
        let type_of = |path: &[String]| match (own, path) {
            (Some(own), [only]) if only == "Self" => own.to_owned(),
            _ => self.type_name(module, path),
        };
        let whole = type_of(path);
        if self.types.contains(&whole) {
            return Some((whole, String::new()));
        }
        let (name, owner) = path.split_last().filter(|(_, owner)| !owner.is_empty())?;
        let found = (type_of(owner), name.clone());
        self.variants.contains(&found).then_some(found)
    }
}

impl Scope {
    fn of(module: &Module) -> Self {
        let mut scope = Self::default();
        for item in &module.items {
            let name = match item {
                Item::Const(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Fn(item) => &item.sig.ident,
                Item::Mod(item) => &item.ident,
                Item::Static(item) => &item.ident,
                Item::Struct(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Use(item) => {
                    for (name, path) in imports(&item.tree) {
                        if name == "*" {
                            scope.globs.push(path[..path.len() - 1].to_vec());
                        } else {
                            scope.imported.insert(name, path);
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            scope.declared.insert(name.to_string());
        }
        scope
    }
}
