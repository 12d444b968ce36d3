"""The JSON files of rustdoc, and the items in them that programs can name."""

import collections
import functools
import gc
import json
import pathlib
import sys

TYPES = ("struct", "enum", "union", "trait")


def kind(item):
    return next(iter(item["inner"]))


def is_hidden(item):
    return any("doc(hidden" in str(attribute) for attribute in item["attrs"])


def is_exhaustive(item):
    return "non_exhaustive" not in str(item["attrs"])


def is_visible(item):
    return item["visibility"] == "public" and not is_hidden(item)


def type_path(declared):
    """Returns the part of a type that names a struct, an enum or an alias, or None."""
    return declared.get("resolved_path") if declared else None


def arguments(path):
    listed = ((path["args"] or {}).get("angle_bracketed") or {}).get("args", [])
    return [argument["type"] for argument in listed if "type" in argument]


def is_instance(found, declared):
    """Returns whether a type, such as `ListIndexes<ListNames>`, can be the type of an `impl`."""
    for one, other in zip(arguments(found), arguments(declared)):
        one, other = type_path(one), type_path(other)
        if one and other and one["path"].split("::")[-1] != other["path"].split("::")[-1]:
            return False
    return True


class Crates:
    """The JSON files of a directory. An item is named by its crate and its id in that file."""

    def __init__(self, folder):
        self.crates, self.places = {}, {}
        # The collector finds nothing in these objects, which live until the end.
        gc.disable()
        for file in sorted(pathlib.Path(folder).glob("*.json")):
            with open(file, encoding="utf-8") as opened:
                crate = json.load(opened)
            self.crates[file.stem] = crate
            for number, entry in crate["paths"].items():
                if entry["crate_id"] == 0:
                    place = (entry["kind"], *entry["path"])
                    self.places[place] = (file.stem, int(number))

    def root(self, crate):
        if crate not in self.crates:
            print(f"no file for the crate {crate}", file=sys.stderr)
            sys.exit(2)
        return crate, self.crates[crate]["root"]

    def item(self, key):
        return self.crates[key[0]]["index"][str(key[1])]

    def key(self, crate, number):
        """Returns the key of an id in its own crate, or None if there is no file for that one."""
        entry = self.crates[crate]["paths"].get(str(number))
        if entry and entry["crate_id"] != 0:
            return self.places.get((entry["kind"], *entry["path"]))
        return (crate, number) if str(number) in self.crates[crate]["index"] else None

    def named(self, crate, declared):
        """Returns the key of the struct, enum or alias that a type names, behind aliases."""
        path = type_path(declared)
        key = self.key(crate, path["id"]) if path else None
        if key and kind(self.item(key)) == "type_alias":
            return self.named(key[0], self.item(key)["inner"]["type_alias"]["type"])
        return key

    def children(self, key, numbers):
        found = (self.key(key[0], number) for number in numbers)
        return [child for child in found if child]

    def implementations(self, key):
        """Returns the key and the content of each written `impl` of a type."""
        item = self.item(key)
        if kind(item) not in TYPES or kind(item) == "trait":
            return []
        keys = self.children(key, item["inner"][kind(item)]["impls"])
        found = [(child, self.item(child)["inner"]["impl"]) for child in keys]
        return [(child, impl) for child, impl in found if not impl["is_synthetic"]]

    def functions(self, key, numbers):
        keys = self.children(key, numbers)
        return [child for child in keys if kind(self.item(child)) == "function"]

    @functools.cache
    def own(self, key):
        """Returns pairs of the type of an `impl` and a function of it, or those of a trait."""
        item = self.item(key)
        if kind(item) == "trait":
            listed = self.functions(key, item["inner"]["trait"]["items"])
            return [(None, child) for child in listed if not is_hidden(self.item(child))]
        found = []
        for child, impl in self.implementations(key):
            if impl["trait"] is None:
                functions = self.functions(child, impl["items"])
                visible = (each for each in functions if is_visible(self.item(each)))
                found += [(type_path(impl["for"]), each) for each in visible]
        return found

    def data(self, key):
        """Returns the names of the public fields of a struct, or the variants of an enum, and those
        of their fields, without the fields of tuples.
        """
        fields = {name for name in self.fields(key) if not name.split(".")[-1].isdigit()}
        return fields | set(self.variants(key))

    def variants(self, key):
        """Returns the keys of the variants of an enum by name."""
        item = self.item(key)
        if kind(item) != "enum":
            return {}
        children = self.children(key, item["inner"]["enum"]["variants"])
        named = {self.item(child)["name"]: child for child in children}
        return {name: child for name, child in named.items() if not is_hidden(self.item(child))}

    @functools.cache
    def fields(self, key):
        """Returns the types of the public fields of a struct, or of the fields of all variants."""
        item = self.item(key)
        if kind(item) == "struct":
            listed = self.listed_fields(key, item["inner"]["struct"]["kind"])
            visible = [(name, field) for name, field in listed if is_visible(field)]
            return {name: field["inner"]["struct_field"] for name, field in visible}
        found = {}
        for variant, child in self.variants(key).items():
            form = self.item(child)["inner"]["variant"]["kind"]
            for name, field in self.listed_fields(child, form):
                found[f"{variant}.{name}"] = field["inner"]["struct_field"]
        return found

    def listed_fields(self, key, form):
        """Returns the names and the items of the fields of a struct or of a variant."""
        form = form if isinstance(form, dict) else {}
        if "tuple" in form:
            keys = [self.key(key[0], number) for number in form["tuple"]]
            return [(str(place), self.item(each)) for place, each in enumerate(keys) if each]
        numbers = (form.get("plain") or form.get("struct") or {}).get("fields", [])
        return [(self.item(each)["name"], self.item(each)) for each in self.children(key, numbers)]

    def parts(self, key):
        """Returns the fields of a struct or a variant, or the variants of an enum, each with a flag
        that is set if it is private.
        """
        item = self.item(key)
        if kind(item) not in ("struct", "variant"):
            return {name: False for name in self.variants(key)}
        fields = self.listed_fields(key, item["inner"][kind(item)]["kind"])
        private = kind(item) == "struct"
        return {name: private and field["visibility"] != "public" for name, field in fields}

    def is_open(self, key):
        """Returns whether programs can name all parts of a struct, an enum or a variant."""
        is_data = kind(self.item(key)) in ("struct", "enum", "variant")
        return is_data and is_exhaustive(self.item(key)) and not any(self.parts(key).values())

    def named_functions(self, key):
        """Returns the functions of `own` by name."""
        found = collections.defaultdict(list)
        for _, function in self.own(key):
            found[self.item(function)["name"]].append(function)
        return dict(found)

    def returned(self, function):
        """Returns the type that a function returns, and its key. Both can be None."""
        output = self.item(function)["inner"]["function"]["sig"]["output"]
        return type_path(output), self.named(function[0], output)


class Surface:
    """The types and the functions that can be named from the root of a crate, by path."""

    def __init__(self, crates, crate):
        self.crates, self.crate = crates, crate
        self.types, self.functions, self.names = {}, {}, set()
        self.walk(crates.root(crate), (), ())
        self.paths = collections.defaultdict(list)
        for path, key in sorted(self.types.items(), key=lambda entry: (len(entry[0]), entry[0])):
            self.paths[key].append(path)

    def walk(self, module, path, above):
        """Adds the items of a module, those of `use …::*` first, because other names hide them."""
        above = (*above, module)
        items = self.crates.item(module)["inner"]["module"]["items"]
        children = self.crates.children(module, items)
        is_glob = [bool(self.use(child, "is_glob")) for child in children]
        for wanted in (True, False):
            for child, glob in zip(children, is_glob):
                if glob == wanted and is_visible(self.crates.item(child)):
                    self.add(child, path, above, None)

    def use(self, key, field):
        item = self.crates.item(key)
        return item["inner"]["use"][field] if kind(item) == "use" else None

    def add(self, key, path, above, name):
        item = self.crates.item(key)
        inner = item["inner"][kind(item)]
        here = (*path, name or item["name"])
        if kind(item) == "use":
            target = self.crates.key(key[0], inner["id"]) if inner["id"] is not None else None
            if target is None and not inner["is_glob"]:
                self.names.add((*path, inner["name"]))
            if target is None or is_hidden(self.crates.item(target)):
                return
            if not inner["is_glob"]:
                self.add(target, path, above, inner["name"])
            elif target not in above and kind(self.crates.item(target)) == "module":
                self.walk(target, path, above)
        elif kind(item) == "module" and key not in above:
            self.names.add(here)
            self.walk(key, here, above)
        elif kind(item) == "type_alias":
            self.names.add(here)
            target = self.crates.named(key[0], inner["type"])
            # An alias hides a type of the same name that `use …::*` brought to this path.
            self.types.pop(here, None)
            if target:
                self.types[here] = target
        elif kind(item) in TYPES:
            self.names.add(here)
            self.types[here] = key
        elif kind(item) == "function":
            self.functions[here] = key

    @functools.cache
    def methods(self, key):
        """Returns the functions of a type by name, also those of its traits and its `Deref`. A name
        can have several, one in each `impl`.
        """
        found, futures = self.crates.named_functions(key), []
        for child, impl in self.crates.implementations(key):
            if impl["trait"] is None or impl["blanket_impl"]:
                continue
            items = self.crates.children(child, impl["items"])
            associated = {self.crates.item(each)["name"]: each for each in items}
            if impl["trait"]["path"].split("::")[-1] == "Deref":
                declared = self.crates.item(associated["Target"])["inner"]["assoc_type"]["type"]
                target = self.crates.named(child[0], declared)
                found = {**(self.methods(target) if target else {}), **found}
            elif impl["trait"]["path"].split("::")[-1] == "IntoFuture":
                declared = self.crates.item(associated["IntoFuture"])["inner"]["assoc_type"]["type"]
                futures.append(self.crates.named(child[0], declared))
            elif self.crates.key(child[0], impl["trait"]["id"]) in self.paths:
                trait = self.crates.key(child[0], impl["trait"]["id"])
                found = {**self.crates.named_functions(trait), **found}
        for trait, needed in self.blanket_traits():
            if any(future in needed for future in futures):
                found = {**self.crates.named_functions(trait), **found}
        return found

    @functools.cache
    def blanket_traits(self):
        """Returns our traits for all types whose `IntoFuture::IntoFuture` implements another trait,
        each with the types that implement the other trait.
        """
        found = []
        for trait in self.paths:
            item = self.crates.item(trait)
            if trait[0] != self.crate or kind(item) != "trait":
                continue
            for child in self.crates.children(trait, item["inner"]["trait"]["implementations"]):
                impl = self.crates.item(child)["inner"]["impl"]
                if "generic" in impl["for"]:
                    needed = [self.implementors(bound) for bound in future_bounds(impl)]
                    found += [(trait, types) for types in needed]
        return found

    def implementors(self, number):
        listed = self.crates.item((self.crate, number))["inner"]["trait"]["implementations"]
        keys = self.crates.children((self.crate, None), listed)
        impls = [self.crates.item(child)["inner"]["impl"] for child in keys]
        return {self.crates.named(self.crate, impl["for"]) for impl in impls}


def future_bounds(impl):
    """Returns the ids of the traits in the bounds `C: IntoFuture<IntoFuture: …>` of an `impl`."""
    bounds = []
    for parameter in impl["generics"]["params"]:
        bounds += parameter["kind"].get("type", {}).get("bounds", [])
    for predicate in impl["generics"]["where_predicates"]:
        bounds += predicate.get("bound_predicate", {}).get("bounds", [])
    found = []
    for trait in (bound["trait_bound"]["trait"] for bound in bounds if "trait_bound" in bound):
        listed = ((trait["args"] or {}).get("angle_bracketed") or {}).get("constraints", [])
        for constraint in listed:
            inner = constraint["binding"].get("constraint", [])
            found += [each["trait_bound"]["trait"]["id"] for each in inner]
    return found
