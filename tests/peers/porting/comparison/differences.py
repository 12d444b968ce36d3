"""The differences between types that both drivers have under the same path."""

import collections

from .crates import arguments, is_exhaustive, kind
from .reasons import NAMES
from .signatures import ALONE, Signatures, Type, refused

# The traits whose implementations are compared.
TRAITS = (
    *("Clone", "Copy", "Debug", "Default", "Deserialize", "Display", "Eq", "Error", "From"),
    *("FromStr", "Hash", "Into", "IntoFuture", "IntoIterator", "Iterator", "Ord", "PartialEq"),
    *("PartialOrd", "Send", "Serialize", "Stream", "Sync", "TryFrom", "Unpin"),
)

# Our types have the runtime as a parameter, which the crates for programs set.
RUNTIMES = ("R", "TokioRuntime", "BlockingRuntime")

Comparison = collections.namedtuple("Comparison", "title total rows")
# The place of a difference, what differs there, and the reason or None.
Difference = collections.namedtuple("Difference", "place detail reason", defaults=[None])


class Differences:
    """Compares what the names of callables and data do not tell."""

    def __init__(self, official, ours):
        self.official, self.ours = official, ours
        # The shortest path of each official type, and our type of any path of it.
        self.types = {paths[0]: key for key, paths in official.surface.paths.items()}
        names, our_names = {}, {}
        for key, paths in official.surface.paths.items():
            names[key] = "::".join(part for part in paths[0] if part != "sync")
            for each in filter(None, map(ours.named, paths)):
                our_names.setdefault(each, names[key])
        self.theirs = Signatures(official.crates, names)
        self.here = Signatures(ours.crates, our_names, RUNTIMES)
        self.alone = ALONE | {names[key] for key in names if not self.has_conversion(key)}
        self.common = [
            (path, key, ours.named(path))
            for path, key in sorted(self.types.items())
            if ours.named(path)
        ]

    def all(self, reasons):
        """Returns the comparisons, whose differences have their reasons."""
        comparisons = [
            ("paths", self.paths(), NAMES),
            ("types of fields", self.fields(), ["other types"]),
            ("parameters of callables", self.parameters(), ["other types"]),
            ("exhaustive types and variants", self.closed(), ["other types"]),
            ("implementations of traits", self.traits(), ["missing traits"]),
        ]
        for title, (total, found), sections in comparisons:
            rows = []
            for each in found:
                text = f"{each.place}: {each.detail}" if each.detail else each.place
                rows.append(each._replace(reason=reasons.find(text, sections)[1]))
            yield Comparison(title, total, rows)

    def paths(self):
        """Returns the paths of types, aliases, modules and other crates that are not here, without
        what is in a module that is not here.
        """
        found = {}
        for path in sorted(self.official.surface.names):
            surface, wanted = self.ours.place(path, None)
            above = (path[:length] for length in range(1, len(path)))
            if wanted and wanted not in surface.names and not any(each in found for each in above):
                found[path] = Difference("::".join(path), "")
        return len(self.official.surface.names), list(found.values())

    def fields(self):
        """Returns the fields that have another type here. `Variant.0` is the first of a tuple."""
        total, found = 0, []
        for path, key, our_key in self.common:
            ours, variants = self.ours.crates.fields(our_key), self.ours.crates.variants(our_key)
            for name, declared in self.official.crates.fields(key).items():
                # A name that is not there is a row of the data. A tuple can be shorter.
                variant, _, field = name.rpartition(".")
                if name not in ours and not (field.isdigit() and variant in variants):
                    continue
                total += 1
                one = self.theirs.type(key[0], declared, {})
                other = self.here.type(our_key[0], ours[name], {}) if name in ours else "nothing"
                if one != other:
                    place = f"{'::'.join(path)}.{name}"
                    found.append(Difference(place, f"{one}, here {other}"))
        return total, found

    def parameters(self):
        """Returns the callables that refuse a call which theirs accept."""
        total, found = 0, []
        for path, names in sorted(self.official.callables.items()):
            for name in sorted(names):
                functions = self.ours.search(path, name)[2]
                total += bool(functions)
                overloads = self.official.overloads(path, name)
                pairs = [self.refused(one, each) for one in overloads for each in functions]
                if any(pairs):
                    one, other = next(filter(None, pairs))
                    found.append(Difference("::".join((*path, name)), f"{one}, here {other}"))
        return total, found

    def refused(self, theirs, ours):
        """Returns the types of a parameter if all of our functions refuse a call."""
        wanted = self.theirs.parameters(theirs)
        # `typed-builder` declares a setter twice: the second one says that a call is repeated.
        if any("_Error_" in str(each) for each in wanted):
            return None
        results = [refused(wanted, self.here.parameters(each), self.alone) for each in ours]
        return results[0] if all(results) else None

    def traits(self):
        """Returns the implementations of TRAITS that a type does not have here."""
        total, found = 0, []
        for path, key, our_key in self.common:
            theirs = self.implemented(self.official.crates, self.theirs, key)
            ours = self.implemented(self.ours.crates, self.here, our_key)
            if "Future" in ours:
                ours.add("IntoFuture")
            total += len(theirs)
            place = "::".join(path)
            found += [Difference(place, each) for each in sorted(theirs - ours)]
        return total, found

    def implemented(self, crates, signatures, key):
        """Returns the implementations of a type. A conversion of it to a foreign type is `Into`."""
        item, found = crates.item(key), set()
        numbers = [] if kind(item) == "trait" else item["inner"][kind(item)]["impls"]
        for child in crates.children(key, numbers):
            impl = crates.item(child)["inner"]["impl"]
            if impl["trait"] is None or impl["blanket_impl"] or impl["is_negative"]:
                continue
            bound = signatures.bound(child[0], {"trait": impl["trait"]}, {})
            named = [crates.named(child[0], each) for each in arguments(impl["trait"])]
            if crates.named(child[0], impl["for"]) == key:
                # Programs cannot name the private types that some conversions start from.
                if all(each is None or self.is_public(each) for each in named):
                    found.add(bound)
            elif bound.name == "From" and named == [key]:
                target = signatures.type(child[0], impl["for"], {})
                if crates.named(child[0], impl["for"]) is None:
                    found.add(Type("Into", (target,)))
        return {str(each) for each in found if each.name in (*TRAITS, "Future")}

    def is_public(self, key):
        surfaces = [self.official.surface, *self.ours.surfaces.values()]
        return any(key in surface.paths for surface in surfaces)

    def has_conversion(self, key):
        """Returns whether another type converts to an official one."""
        found = self.implemented(self.official.crates, self.theirs, key)
        return any(each.startswith("From<") for each in found)

    def closed(self):
        """Returns the types and variants that programs can construct, or match without a rest,
        there and not here.
        """
        total, found = 0, []
        for path, key, our_key in self.common:
            pairs = [("::".join(path), key, our_key)]
            ours = self.ours.crates.variants(our_key)
            for name, variant in self.official.crates.variants(key).items():
                if name in ours:
                    pairs.append((f"{'::'.join(path)}.{name}", variant, ours[name]))
            for place, one, other in pairs:
                if self.official.crates.is_open(one):
                    total += 1
                    detail = self.closing(one, other)
                    found += [Difference(place, detail)] if detail else []
        return total, found

    def closing(self, theirs, ours):
        """Returns why programs cannot name all parts of our type or variant."""
        if not is_exhaustive(self.ours.crates.item(ours)):
            return "non_exhaustive"
        if not self.ours.crates.is_open(ours):
            return "private fields"
        more = set(self.ours.crates.parts(ours)) - set(self.official.crates.parts(theirs))
        return ", ".join(sorted(more))
