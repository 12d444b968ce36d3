"""Compares the public callables of the official Rust driver with those of Onionskin.

    python3 tests/peers/porting/surface.py [--target DIR] [--list | --markdown]
    python3 tests/peers/porting/surface.py --ours DIR --official DIR [--list | --markdown]

The first form builds the JSON files of rustdoc in the target directory (`target/porting` by
default), the second one reads files that were built before. Prints one line with the totals. With
`--list`, every missing callable follows, grouped by type. With `--markdown`, the tables of
`docs/porting.md` are printed, and the totals go to the standard error.

The exit code is 1 if a callable is missing that has no reason in `reasons.txt`, or if a line of
that file has no effect. It is 2 if a file of rustdoc cannot be built or read.

How callables are counted
-------------------------

The official driver is the crate `mongodb` in the version of VERSION, with its default features and
`sync`. Its callables are:

1. each public function in a module that can be named from the root of the crate;
2. each public function or method in an `impl` of a type that can be named so, without traits;
3. each method that a trait declares, if the trait can be named so. The `impl`s of traits, derived
   ones among them, are not counted;
4. each setter of a builder, and `build`. `typed-builder` hides the builder types in the
   documentation, so a builder counts if a function of rule 2 returns it.

Its data are:

5. each public field of a struct that can be named so, but not those of tuples;
6. each variant of an enum that can be named so, and each field of a variant that has a name, as
   `Variant.field`.

A name counts once for each type: several `impl`s of `Find` have `run`, and each setter of a builder
is generated twice. A type with several paths counts once, under its shortest path. Constants
and macros do not count, nor do the items of other crates (`mongodb::bson`) and items that are
hidden in the documentation, except for builders.

By these rules there are 1,172 callables, 411 of them by rule 4. An older count of the same version
found 837. Its rules are not known.

How callables are found in Onionskin
------------------------------------

A callable `sync::…` is searched in the crate `onionskin-blocking`, and so is `run` of an action.
All others are searched in `onionskin-tokio`. Both are built with their default features. The
methods of a type include those of the target of its `Deref`, and those of the crate's own traits
that it implements. Only names are compared, not parameters or results.

- same: the type has the same name in the same module, and a method of that name. The type of a
  builder is not compared, because programs get it from the function `builder`.
- elsewhere: the method is there, but the type is in another module or has another name. A type of
  another name is found in two ways. `reasons.txt` names it, or a method of the same name returns
  it: the official `Collection::replace_one` returns `action::ReplaceOne`, ours `Replace`. If
  several of our types take the place of an official type, all of them need the method.
- as a method: a field that a method of the same name returns. Only fields and variants have this
  state.
- missing: none of these. `reasons.txt` gives a reason for each callable, field or variant that is
  left out or that has another form. A field or a variant has a point before its name there.
"""

import argparse
import collections
import fnmatch
import functools
import gc
import json
import os
import pathlib
import subprocess
import sys
import textwrap

VERSION = "3.9.1"
# The crate whose macros generate the actions of the official driver and their setters.
MACROS = "3.10.0"
# The number of callables of that version, and the format of rustdoc that it was counted with. If
# another format changes the number, then this program misreads that format.
TOTAL, TOTAL_DATA, FORMAT = 1172, 775, 57

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
REASONS = HERE / "reasons.txt"

OFFICIAL = "mongodb"
OURS = ["onionskin-core", "onionskin", "onionskin-tokio", "onionskin-blocking"]
ASYNC, SYNC = "onionskin_tokio", "onionskin_blocking"

MANIFEST = f"""\
[workspace]
[package]
name = "official-surface"
version = "0.0.0"
edition = "2024"
[lib]
path = "lib.rs"
[dependencies]
mongodb = {{ version = "={VERSION}", features = ["sync"] }}
mongodb-internal-macros = "={MACROS}"
"""

TYPES = ("struct", "enum", "union", "trait")


def build(folder, target, packages):
    """Builds the JSON files of the packages, and returns the directory with them."""
    # Private items include the builders that no module exports. Visibility is checked below.
    flags = ["--output-format=json", "--document-hidden-items", "--document-private-items"]
    environment = {
        **os.environ,
        "RUSTC_BOOTSTRAP": "1",
        "RUSTDOCFLAGS": " ".join(["-Zunstable-options", "--cap-lints=allow", *flags]),
    }
    # One command for all packages, so that each has the features that the others need of it.
    command = ["cargo", "doc", "--quiet", "--lib", "--no-deps", "--target-dir", target]
    for package in packages:
        command += ["--package", package]
    if subprocess.run(command, cwd=folder, env=environment, check=False).returncode != 0:
        print(f"cannot build the files of {', '.join(packages)}", file=sys.stderr)
        sys.exit(2)
    return target / "doc"


def build_official(target):
    folder = target / "crate"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(MANIFEST, encoding="utf-8")
    (folder / "lib.rs").write_text("", encoding="utf-8")
    return build(folder, target, [OFFICIAL])


def kind(item):
    return next(iter(item["inner"]))


def is_hidden(item):
    return any("doc(hidden" in str(attribute) for attribute in item["attrs"])


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
        of their fields.
        """
        item = self.item(key)
        inner = item["inner"][kind(item)]
        if kind(item) == "struct":
            return {name for name, field in self.fields(key, inner["kind"]) if is_visible(field)}
        found = set()
        if kind(item) == "enum":
            for child in self.children(key, inner["variants"]):
                variant = self.item(child)
                if not is_hidden(variant):
                    found.add(variant["name"])
                    fields = self.fields(child, variant["inner"]["variant"]["kind"])
                    found |= {f"{variant['name']}.{name}" for name, _ in fields}
        return found

    def fields(self, key, form):
        """Returns the names and the items of the fields of a struct or of a variant."""
        form = form if isinstance(form, dict) else {}
        numbers = (form.get("plain") or form.get("struct") or {}).get("fields", [])
        found = [self.item(child) for child in self.children(key, numbers)]
        return [(item["name"], item) for item in found]

    def returned(self, function):
        """Returns the type that a function returns, and its key. Both can be None."""
        output = self.item(function)["inner"]["function"]["sig"]["output"]
        return type_path(output), self.named(function[0], output)


class Surface:
    """The types and the functions that can be named from the root of a crate, by path."""

    def __init__(self, crates, crate):
        self.crates, self.crate = crates, crate
        self.types, self.functions = {}, set()
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
            if target is None or is_hidden(self.crates.item(target)):
                return
            if not inner["is_glob"]:
                self.add(target, path, above, inner["name"])
            elif target not in above and kind(self.crates.item(target)) == "module":
                self.walk(target, path, above)
        elif kind(item) == "module" and key not in above:
            self.walk(key, here, above)
        elif kind(item) == "type_alias":
            target = self.crates.named(key[0], inner["type"])
            # An alias hides a type of the same name that `use …::*` brought to this path.
            self.types.pop(here, None)
            if target:
                self.types[here] = target
        elif kind(item) in TYPES:
            self.types[here] = key
        elif kind(item) == "function":
            self.functions.add(here)

    @functools.cache
    def methods(self, key):
        """Returns the functions of a type by name, also those of its traits and its `Deref`."""
        found = {self.crates.item(child)["name"]: child for _, child in self.crates.own(key)}
        futures = []
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
                found = {**self.trait_methods(trait), **found}
        for trait, needed in self.blanket_traits():
            if any(future in needed for future in futures):
                found = {**self.trait_methods(trait), **found}
        return found

    def trait_methods(self, trait):
        return {self.crates.item(child)["name"]: child for _, child in self.crates.own(trait)}

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


class Official:
    """The callables of the official driver: for each type, the names of its callables."""

    def __init__(self, folder):
        self.crates = Crates(folder)
        self.surface = Surface(self.crates, OFFICIAL)
        self.callables = collections.defaultdict(set)
        self.data = {}
        # For each builder, the function that returns it. For each other type, the functions with
        # their results, which tell how the type is called in Onionskin.
        self.builders, self.sources = {}, collections.defaultdict(list)
        for path in self.surface.functions:
            self.callables[path[:-1]].add(path[-1])
        for key, paths in self.surface.paths.items():
            for _, function in self.crates.own(key):
                self.add(paths[0], function)
            self.data[paths[0]] = self.crates.data(key)

    def add(self, owner, function):
        name = self.crates.item(function)["name"]
        self.callables[owner].add(name)
        declared, result = self.crates.returned(function)
        if result is None:
            return
        if is_hidden(self.crates.item(result)):
            builder = (*owner[:-1], self.crates.item(result)["name"])
            self.builders[builder] = (owner, name)
            self.callables[builder] |= self.names(result)
        elif result in self.surface.paths and owner not in self.surface.paths[result]:
            path = self.surface.paths[result][0]
            self.sources[path].append((owner, name, declared))

    def names(self, key):
        return {self.crates.item(function)["name"] for _, function in self.crates.own(key)}

    def applies(self, path, name, declared):
        """Returns whether the method of a type is declared for this form of the type."""
        own = self.crates.own(self.surface.types[path])
        named = [impl for impl, each in own if self.crates.item(each)["name"] == name]
        return any(impl is None or is_instance(declared, impl) for impl in named)


class Ours:
    """Finds callables of the official driver in Onionskin."""

    def __init__(self, folder, official, renamed):
        self.crates = Crates(folder)
        self.surfaces = {name: Surface(self.crates, name) for name in (ASYNC, SYNC)}
        self.official, self.renamed = official, renamed

    def place(self, path, name):
        """Returns the surface to search in, and the path of the type there."""
        if path[:1] == ("sync",):
            return self.surfaces[SYNC], path[1:]
        is_run = path[:1] == ("action",) and name == "run"
        return self.surfaces[SYNC if is_run else ASYNC], path

    def find(self, path, name):
        """Returns the state of a callable, and the path of ours if it is elsewhere."""
        if path in self.official.builders:
            return self.find_setter(path, name)
        surface, wanted = self.place(path, name)
        if (*wanted, name) in surface.functions:
            return "same", None
        named = surface.types.get(wanted)
        types = [named] if named else []
        types += [each for each in self.returned(path, name, surface) if each not in types]
        if not types:
            types = self.elsewhere(path, surface, wanted)
        if not types or any(name not in surface.methods(each) for each in types):
            return "missing", None
        if named:
            return "same", None
        paths = sorted("::".join(surface.paths[each][0]) for each in types)
        return "elsewhere", " and ".join(f"`{path}`" for path in paths)

    def find_data(self, path, name):
        """Returns the state of a field or a variant, and the path of ours if it is elsewhere."""
        surface, wanted = self.place(path, name)
        named = surface.types.get(wanted)
        for each in [named] if named else self.elsewhere(path, surface, wanted):
            if name in self.crates.data(each):
                place = f"`{'::'.join(surface.paths[each][0])}`"
                return ("same", None) if named else ("elsewhere", place)
            if name in surface.methods(each):
                return "as a method", None
        return "missing", None

    def find_setter(self, path, name):
        owner, function = self.official.builders[path]
        state, place = self.find(owner, function)
        surface, wanted = self.place(owner, function)
        types = [surface.types[wanted]] if wanted in surface.types else None
        for each in types or self.elsewhere(owner, surface, wanted):
            declared = surface.methods(each).get(function)
            builder = self.crates.returned(declared)[1] if declared else None
            if builder and name in surface.methods(builder):
                return state, place
        return "missing", None

    def returned(self, path, name, surface):
        """Returns the types that our methods return in place of this type."""
        found = []
        for owner, function, declared in self.official.sources.get(path, ()):
            origin, wanted = self.place(owner, function)
            if wanted not in origin.types or not self.official.applies(path, name, declared):
                continue
            ours = origin.methods(origin.types[wanted]).get(function)
            result = self.crates.returned(ours)[1] if ours else None
            if result in surface.paths and result not in found:
                found.append(result)
        return found

    def elsewhere(self, path, surface, wanted):
        """Returns our type of another name, or of the same name in another module."""
        if "::".join(path) in self.renamed:
            other = tuple(self.renamed["::".join(path)].split("::"))
            return [surface.types[other]] if other in surface.types else []
        # A type that a function returns is found by that function only. So our `Find` does not
        # take the place of `action::gridfs::Find`.
        if not wanted or path in self.official.sources:
            return []
        found = [paths[0] for paths in surface.paths.values() if paths[0][-1] == wanted[-1]]
        return [surface.types[min(found, key=len)]] if found else []


class Reasons:
    """The content of `reasons.txt`, which describes its format itself."""

    def __init__(self, file):
        self.sections = collections.defaultdict(list)
        section, used = None, file.read_text(encoding="utf-8").splitlines()
        for line in (line.strip() for line in used):
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                left, right = (part.strip() for part in line.split("->"))
                self.sections[section].append((left, right))
        self.renamed = dict(self.sections["other names"])
        self.used = set()

    def find(self, callable_path):
        """Returns the section and the reason of the first pattern that matches a callable."""
        for section in ("other forms", "not there"):
            for pattern, reason in self.sections[section]:
                if fnmatch.fnmatchcase(callable_path, pattern):
                    self.used.add(pattern)
                    return section, reason
        return None, None

    def stale(self, types):
        """Returns a message for each line that has no effect."""
        patterns = [*self.sections["other forms"], *self.sections["not there"]]
        unused = [pattern for pattern, _ in patterns if pattern not in self.used]
        unknown = [name for name in self.renamed.values() if tuple(name.split("::")) not in types]
        return [
            *(f"no missing callable matches {pattern}" for pattern in unused),
            *(f"there is no type {name}" for name in unknown),
        ]


Row = collections.namedtuple("Row", "path name state detail")


def compare(listed, find, separator, reasons):
    """Returns a row for each name. A missing one with a reason has the section as its state."""
    rows = []
    for path, names in sorted(listed.items()):
        for name in sorted(names):
            state, detail = find(path, name)
            if state == "missing":
                section, detail = reasons.find("::".join(path) + separator + name)
                state = section or state
            rows.append(Row("::".join(path), name, state, detail))
    return rows


def totals(rows, what):
    counts = collections.Counter(row.state for row in rows)
    method = f" as a method {counts['as a method']}," if counts["as a method"] else ""
    reasoned = counts["other forms"] + counts["not there"]
    return (
        f"{what}: same {counts['same']}, elsewhere {counts['elsewhere']},{method} missing with a"
        f" reason {reasoned}, missing {counts['missing']}, of {len(rows)}"
    )


def by_type(rows):
    grouped = collections.defaultdict(list)
    for row in rows:
        grouped[row.path].append(row)
    return grouped


def print_list(rows):
    reasoned = ["other forms", "not there"]
    for title, states in [("missing", ["missing"]), ("missing with a reason", reasoned)]:
        found = [row for row in rows if row.state in states]
        print(f"\n{title}: {len(found)}")
        for path, group in by_type(found).items():
            print(f"\n{path} ({len(group)})")
            for row in group:
                print(f"    {row.name}" + (f" ({row.detail})" if row.detail else ""))


def cell(rows, total):
    """Returns the names of the rows, grouped by their details."""
    details = collections.defaultdict(list)
    for row in rows:
        details[row.detail].append(f"`{row.name}`")
    parts = []
    for detail, names in details.items():
        text = f"all {total}" if len(names) == total > 1 else ", ".join(names)
        parts.append(f"{text}: {detail}" if detail else text)
    return "; ".join(parts)


def print_data(rows):
    """Prints a table of the types whose fields or variants differ."""
    print("\n| official | as methods | differs and why | not there |\n|---|---|---|---|")
    for path, group in by_type(rows).items():
        columns = [["as a method"], ["elsewhere", "other forms"], ["not there", "missing"]]
        chosen = [[row for row in group if row.state in column] for column in columns]
        if any(chosen):
            print(f"| `{path}` | {' | '.join(cell(each, len(group)) for each in chosen)} |")


def print_markdown(rows, data, reasons):
    """Prints a table of the types that differ in part, one of their fields and variants, one of the
    types that are not there, and the types without a difference.
    """
    print("| official | same | differs and why | not there |\n|---|---|---|---|")
    absent, alike = collections.defaultdict(list), []
    for path, group in by_type(rows).items():
        states = {(row.state, row.detail if row.state == "not there" else "") for row in group}
        state, reason = min(states)
        if len(states) == 1 and state == "same":
            alike.append(f"`{path}`")
        elif len(states) == 1 and state == "not there":
            absent[reason].append(f"`{path}`")
        else:
            columns = [["same"], ["elsewhere", "other forms"], ["not there", "missing"]]
            chosen = ([row for row in group if row.state in column] for column in columns)
            cells = " | ".join(cell(each, len(group)) for each in chosen)
            other = f", ours `{reasons.renamed[path]}`" if path in reasons.renamed else ""
            print(f"| `{path}`{other} | {cells} |")
    print_data(data)
    print("\n| not there | official |\n|---|---|")
    for reason, paths in absent.items():
        print(f"| {reason} | {', '.join(paths)} |")
    for feature, content in reasons.sections["not compared"]:
        print(f"| the feature `{feature}`, which was not compared | {content} |")
    print("\nWithout a difference:\n")
    print(textwrap.fill(", ".join(alike) + ".", 100, break_on_hyphens=False))


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target" / "porting")
    parser.add_argument("--ours", type=pathlib.Path, help="directory of our JSON files")
    parser.add_argument("--official", type=pathlib.Path, help="directory of the official one")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--list", action="store_true", help="print each missing callable")
    shown.add_argument("--markdown", action="store_true", help="print tables")
    return parser.parse_args()


def main():
    chosen = options()
    target = chosen.target.resolve()
    official = Official(chosen.official or build_official(target / "official"))
    reasons = Reasons(REASONS)
    ours = Ours(chosen.ours or build(ROOT, target / "ours", OURS), official, reasons.renamed)
    rows = compare(official.callables, ours.find, "::", reasons)
    data = compare(official.data, ours.find_data, ".", reasons)
    if (len(rows), len(data)) != (TOTAL, TOTAL_DATA):
        form = official.crates.crates[OFFICIAL]["format_version"]
        print(
            f"mongodb {VERSION} has {len(rows)} callables and {len(data)} fields and variants in"
            f" format {form}, not {TOTAL} and {TOTAL_DATA} as in format {FORMAT}: build its file as"
            " `build` does, or correct this program",
            file=sys.stderr,
        )
        sys.exit(2)
    for listed, what in [(rows, "callables"), (data, "fields and variants")]:
        print(totals(listed, what), file=sys.stderr if chosen.markdown else sys.stdout)
    if chosen.markdown:
        print_markdown(rows, data, reasons)
    if chosen.list:
        print_list(rows + data)
    stale = reasons.stale(ours.surfaces[ASYNC].types)
    for message in stale:
        print(f"{REASONS.name}: {message}", file=sys.stderr)
    has_missing = any(row.state == "missing" for row in rows + data)
    sys.exit(1 if has_missing or stale else 0)


if __name__ == "__main__":
    main()
