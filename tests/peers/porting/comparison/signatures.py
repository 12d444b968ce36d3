"""Types and parameters in a form that does not depend on a crate, and which calls they accept."""

import collections

from .crates import kind


class Type(collections.namedtuple("Type", "name arguments", defaults=[()])):
    """A type or a bound. An `impl` has its bounds as arguments, and `_` is one without bounds."""

    def __str__(self):
        listed = [str(each) for each in self.arguments]
        if self.name in ("impl", "dyn"):
            return f"{self.name} {' + '.join(listed)}" if listed else "_"
        if self.name in ("&", "&mut "):
            return self.name + listed[0]
        if self.name.startswith("::"):
            return listed[0] + self.name
        if self.name.endswith("="):
            return f"{self.name[:-1]} = {listed[0]}"
        if self.name.endswith("()"):
            *inputs, output = listed or ["()"]
            return f"{self.name[:-2]}({', '.join(inputs)}) -> {output}"
        if self.name in ("(", "["):
            return f"{self.name}{', '.join(listed)}{')' if self.name == '(' else ']'}"
        return f"{self.name}<{', '.join(listed)}>" if listed else self.name


ANY = Type("impl")
STRINGS = [
    Type("impl", (Type("Into", (Type("String"),)),)),
    Type("impl", (Type("AsRef", (Type("str"),)),)),
]
# Types into which no other type converts, so that `impl Into<T>` accepts no more than `T`.
ALONE = {"bool", "Document"}


class Signatures:
    """Brings the types of a directory of JSON files into a common form.

    `names` has the official paths of the types of these files. Other types keep the last part of
    their path, such as `HashMap`. Aliases are replaced by their targets. Lifetimes and bounds such
    as `'static` and `?Sized` are left out, and so are the arguments of `dropped`.
    """

    def __init__(self, crates, names, dropped=()):
        self.crates, self.names, self.dropped = crates, names, dropped

    def type(self, crate, declared, generics):
        """Returns the common form of a type. `generics` has those of the type parameters."""
        if declared is None:
            return Type("(")
        form, inner = next(iter(declared.items()))

        def each(listed):
            return tuple(self.type(crate, one, generics) for one in listed)

        if form == "resolved_path":
            return self.path(crate, inner, generics)
        if form == "generic":
            return Type("Self") if inner == "Self" else generics.get(inner, ANY)
        if form == "borrowed_ref":
            return Type("&mut " if inner["is_mutable"] else "&", each([inner["type"]]))
        if form == "qualified_path":
            (owner,) = each([inner["self_type"]])
            is_element = (owner.name, inner["name"]) == ("Vec", "Item")
            return owner.arguments[0] if is_element else Type(f"::{inner['name']}", (owner,))
        if form == "impl_trait":
            return self.bounded(crate, inner, generics)
        if form == "dyn_trait":
            found = [self.bound(crate, one, generics) for one in inner["traits"]]
            return Type("dyn", tuple(sorted(found, key=str)))
        if form == "function_pointer":
            inputs = [one for _, one in inner["sig"]["inputs"]]
            return Type("fn()", each([*inputs, inner["sig"]["output"]]))
        if form == "tuple":
            return Type("(", each(inner))
        if form in ("slice", "array"):
            return Type("[", each([inner if form == "slice" else inner["type"]]))
        return Type(inner if form == "primitive" else form)

    def path(self, crate, path, generics):
        key = self.crates.key(crate, path["id"])
        listed = tuple(self.arguments(crate, path, generics))
        if key and kind(self.crates.item(key)) == "type_alias":
            alias = self.crates.item(key)["inner"]["type_alias"]
            given = {}
            for each in alias["generics"]["params"]:
                if "type" in each["kind"]:
                    default = each["kind"]["type"]["default"]
                    given[each["name"]] = self.type(key[0], default, {}) if default else ANY
            given.update(zip(given, listed))
            return self.type(key[0], alias["type"], given)
        name = self.names.get(key) or self.foreign(crate, path)
        if name == "BoxFuture":
            traits = (Type("Future", (Type("Output=", listed),)), Type("Send"))
            return Type("Pin", (Type("Box", (Type("dyn", traits),)),))
        return Type(name, listed)

    def foreign(self, crate, path):
        """Returns the last part of a path, or `io::Error`, because several crates have an `Error`.
        """
        entry = self.crates.crates[crate]["paths"].get(str(path["id"]))
        parts = [part for part in entry["path"] if part != "error"] if entry else []
        if parts[1:] and parts[-1] == "Error":
            return "::".join(parts[-2:])
        return path["path"].split("::")[-1]

    def arguments(self, crate, path, generics):
        """Yields the common forms of the type arguments of a path, and `Item = …`."""
        given = path["args"] or {}
        for one in (given.get("angle_bracketed") or {}).get("args", []):
            declared = one.get("type")
            named = next(iter((declared or {}).values()), None)
            name = named.get("path") if isinstance(named, dict) else named
            if declared and (not isinstance(name, str) or name.split("::")[-1] not in self.dropped):
                yield self.type(crate, declared, generics)
        for one in (given.get("angle_bracketed") or {}).get("constraints", []):
            if "equality" in one["binding"]:
                value = self.type(crate, one["binding"]["equality"].get("type"), generics)
            else:
                value = self.bounded(crate, one["binding"]["constraint"], generics)
            yield Type(f"{one['name']}=", (value,))
        if "parenthesized" in given:
            for one in [*given["parenthesized"]["inputs"], given["parenthesized"]["output"]]:
                yield self.type(crate, one, generics)

    def bound(self, crate, bound, generics):
        trait = bound["trait"]
        name = trait["path"].split("::")[-1]
        name += "()" if "parenthesized" in (trait["args"] or {}) else ""
        return Type(name, tuple(self.arguments(crate, trait, generics)))

    def bounded(self, crate, bounds, generics):
        listed = [each["trait_bound"] for each in bounds if "trait_bound" in each]
        plain = [each for each in listed if each["modifier"] == "none"]
        found = {self.bound(crate, each, generics) for each in plain}
        return Type("impl", tuple(sorted(found, key=str)))

    def parameters(self, function):
        """Returns the common forms of the parameters of a function, `self` among them."""
        declared = self.crates.item(function)["inner"]["function"]
        bounds = collections.defaultdict(list)
        for each in declared["generics"]["params"]:
            bounds[each["name"]] += each["kind"].get("type", {}).get("bounds", [])
        for each in declared["generics"]["where_predicates"]:
            predicate = each.get("bound_predicate", {"type": {}, "bounds": []})
            # Those of a type parameter of the `impl` do not count, because they can be there.
            if predicate["type"].get("generic") in bounds:
                bounds[predicate["type"]["generic"]] += predicate["bounds"]
        generics = {}
        # A bound can name another parameter: `F: Fn() -> G, G: Future<Output = T>, T: Into<U>`.
        for _ in range(3):
            generics = {
                name: self.bounded(function[0], listed, generics)
                for name, listed in bounds.items()
            }
        inputs = declared["sig"]["inputs"]
        return [self.type(function[0], each, generics) for _, each in inputs]


def single_bound(declared, name):
    """Returns `T` of `impl Into<T>`, if the bound has this name."""
    if declared.name == "impl" and len(declared.arguments) == 1:
        bound = declared.arguments[0]
        return bound.arguments[0] if bound.name == name else None
    return None


def accepts(theirs, ours, alone):
    """Returns whether our type of a parameter accepts what theirs accepts.

    `impl Into<T>` does not take the place of `T`, because the type of `value.into()` would be
    unknown. It takes that of `impl Into<U>` if `alone` has the name of U, and U is T or T is
    `Option<U>`.
    """
    if theirs == ours:
        return True
    if ours in STRINGS:
        return theirs in (*STRINGS, Type("&", (Type("str"),)))
    if theirs.name == "&" and single_bound(ours, "AsRef") == theirs.arguments[0]:
        return True
    wanted = single_bound(theirs, "Into")
    if wanted and (wanted.name in alone or wanted.name == "&mut "):
        option = Type("impl", (Type("Into", (Type("Option", (wanted,)),)),))
        return ours in (wanted, option)
    if theirs.name == ours.name == "impl":
        return set(ours.arguments) <= set(theirs.arguments)
    return False


def refused(theirs, ours, alone):
    """Returns the first pair of parameters of which ours refuses a call, or None."""
    if len(theirs) != len(ours):
        return Type("(", tuple(theirs)), Type("(", tuple(ours))
    for one, other in zip(theirs, ours):
        if not accepts(one, other, alone):
            return one, other
    return None
