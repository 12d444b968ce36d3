//! The kind of a value: the part of the value's type that the call graph knows.

use std::collections::BTreeSet;

use syn::{FnArg, GenericArgument, PathArguments, ReturnType, Type, TypeParamBound};

use super::names::{Function, Names, TypeName};
use crate::syntax::{Module, segments};

/// Wrappers, which have the kind of the type within them.
const TRANSPARENT: [&str; 4] = ["Box", "Arc", "Rc", "RefMut"];

/// The known part of the type of a value. Only types that the modules define count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kind {
    /// The type of the value, if the modules define it.
    pub(super) exact: Option<TypeName>,
    /// The types of values that can be taken from this value, such as from a map or an option.
    pub(super) within: BTreeSet<TypeName>,
    /// True if nothing is known of the type.
    pub(super) is_unknown: bool,
}

impl Kind {
    pub(super) fn unknown() -> Self {
        Self {
            is_unknown: true,
            ..Self::default()
        }
    }

    pub(super) fn exactly(name: TypeName) -> Self {
        Self {
            exact: Some(name),
            ..Self::default()
        }
    }

    /// Returns the kind of a value that is taken from a value of this kind.
    pub(super) fn loose(&self) -> Self {
        let within = self.all().cloned().collect();
        Self {
            exact: None,
            within,
            is_unknown: self.is_unknown,
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &TypeName> {
        self.exact.iter().chain(&self.within)
    }

    /// Returns the kind of a value that has one kind or the other.
    pub(super) fn or(self, other: Self) -> Self {
        if self == other || other == Self::default() {
            return self;
        }
        if self == Self::default() {
            return other;
        }
        if self.exact == other.exact {
            let within = self.within.union(&other.within).cloned().collect();
            let is_unknown = self.is_unknown && other.is_unknown;
            return Self {
                exact: self.exact,
                within,
                is_unknown,
            };
        }
        let within = self.all().chain(other.all()).cloned().collect();
        Self {
            exact: None,
            within,
            is_unknown: self.is_unknown && other.is_unknown,
        }
    }
}

impl Names<'_> {
    /// Returns the [`Kind`] of the values of the type `written`. Names in it are resolved as in
    /// `module`, and `Self` means `own`.
    pub(super) fn kind(&self, module: &Module, own: Option<&str>, written: &Type) -> Kind {
        match written {
            Type::Reference(inner) => self.kind(module, own, &inner.elem),
            Type::Paren(inner) => self.kind(module, own, &inner.elem),
            Type::Group(inner) => self.kind(module, own, &inner.elem),
            Type::Slice(inner) => self.kind(module, own, &inner.elem).loose(),
            Type::Array(inner) => self.kind(module, own, &inner.elem).loose(),
            Type::Tuple(inner) => {
                let kinds = inner.elems.iter().map(|part| self.kind(module, own, part));
                kinds.fold(Kind::default(), Kind::or).loose()
            }
            Type::ImplTrait(inner) => self.bounds(module, own, &inner.bounds),
            Type::TraitObject(inner) => self.bounds(module, own, &inner.bounds),
            Type::Path(path) => self.kind_of_path(module, own, &path.path),
            _ => Kind::default(),
        }
    }

    /// Returns the kind of a value of which only traits are known.
    pub(super) fn bounds<'b>(
        &self,
        module: &Module,
        own: Option<&str>,
        bounds: impl IntoIterator<Item = &'b TypeParamBound>,
    ) -> Kind {
        let mut kind = Kind::default();
        for bound in bounds {
            if let TypeParamBound::Trait(bound) = bound {
                kind = kind.or(self.kind_of_path(module, own, &bound.path));
            }
        }
        kind
    }

    fn kind_of_path(&self, module: &Module, own: Option<&str>, path: &syn::Path) -> Kind {
        let Some(last) = path.segments.last() else {
            return Kind::default();
        };
        if let (Some(own), true) = (own, path.is_ident("Self")) {
            return Kind::exactly(own.to_owned());
        }
        let mut inner = Kind::default();
        match &last.arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(list) => {
                for argument in &list.args {
                    let kind = match argument {
                        GenericArgument::Type(inner) => self.kind(module, own, inner),
                        GenericArgument::AssocType(inner) => self.kind(module, own, &inner.ty),
                        _ => Kind::default(),
                    };
                    if TRANSPARENT.contains(&last.ident.to_string().as_str()) {
                        return kind;
                    }
                    inner = inner.or(kind);
                }
            }
            PathArguments::Parenthesized(list) => {
                for input in &list.inputs {
                    inner = inner.or(self.kind(module, own, &input.ty));
                }
                inner = inner.or(self.returned(module, own, &list.output));
            }
        }
        let name = self.type_name(module, &segments(path));
        let mut kind = inner.loose();
        kind.exact = self.types.contains(&name).then_some(name);
        kind
    }

    fn returned(&self, module: &Module, own: Option<&str>, output: &ReturnType) -> Kind {
        match output {
            ReturnType::Default => Kind::default(),
            ReturnType::Type(_, written) => self.kind(module, own, written),
        }
    }

    /// Returns the kind of a function's result.
    pub(super) fn result(&self, function: usize) -> Kind {
        let Function {
            module,
            owner,
            signature,
            ..
        } = &self.functions[function];
        self.returned(module, owner.as_deref(), &signature.output)
    }

    /// Returns the kind of a value of any parameter of a function, except `self`. The call graph
    /// assumes that the function passes such values to the closures among its arguments.
    pub(super) fn inputs(&self, function: usize) -> Kind {
        let Function {
            module,
            owner,
            signature,
            ..
        } = &self.functions[function];
        let mut all = Kind::default();
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input {
                all = all.or(self.kind(module, owner.as_deref(), &input.ty));
            }
        }
        all.loose()
    }

    pub(super) fn field(&self, of: &Kind, name: &str) -> Kind {
        let key = |owner: &TypeName| (owner.clone(), String::new(), name.to_owned());
        if let Some(owner) = &of.exact {
            return self.fields.get(&key(owner)).cloned().unwrap_or_default();
        }
        let mut found = of
            .within
            .iter()
            .filter_map(|owner| self.fields.get(&key(owner)));
        let Some(first) = found.next() else {
            // The value is a tuple, or it has a type of another crate that contains types of the
            // modules.
            return of.loose();
        };
        found.fold(first.clone(), |kind, next| kind.or(next.clone()))
    }

    pub(super) fn part(&self, (owner, variant): &(TypeName, String), name: &str) -> Kind {
        let key = (owner.clone(), variant.clone(), name.to_owned());
        self.fields.get(&key).cloned().unwrap_or_default()
    }
}
