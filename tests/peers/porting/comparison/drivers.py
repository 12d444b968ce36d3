"""The callables and the data of the official driver, and where they are in Onionskin."""

import collections

from .crates import Crates, Surface, is_hidden, is_instance

OFFICIAL = "mongodb"
ASYNC, SYNC = "onionskin_tokio", "onionskin_blocking"


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

    def overloads(self, path, name):
        """Returns the functions of a callable: several `impl`s can have the same name."""
        if (*path, name) in self.surface.functions:
            return [self.surface.functions[(*path, name)]]
        if path not in self.builders:
            return self.crates.named_functions(self.surface.types[path])[name]
        owner, function = self.builders[path]
        listed = self.overloads(owner, function)
        builder = next(filter(None, (self.crates.returned(each)[1] for each in listed)))
        return self.crates.named_functions(builder)[name]

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

    def named(self, path):
        """Returns our type of the same path, or None."""
        surface, wanted = self.place(path, None)
        return surface.types.get(wanted)

    def find(self, path, name):
        """Returns the state of a callable, and the path of ours if it is elsewhere."""
        return self.search(path, name)[:2]

    def search(self, path, name):
        """Returns what `find` does, and for each of our types its functions of that name."""
        if path in self.official.builders:
            return self.search_setter(path, name)
        surface, wanted = self.place(path, name)
        if (*wanted, name) in surface.functions:
            return "same", None, [[surface.functions[(*wanted, name)]]]
        named = surface.types.get(wanted)
        types = [named] if named else []
        types += [each for each in self.returned(path, name, surface) if each not in types]
        if not types:
            types = self.elsewhere(path, surface, wanted)
        if not types or any(name not in surface.methods(each) for each in types):
            return "missing", None, []
        functions = [surface.methods(each)[name] for each in types]
        if named:
            return "same", None, functions
        paths = sorted("::".join(surface.paths[each][0]) for each in types)
        return "elsewhere", " and ".join(f"`{path}`" for path in paths), functions

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

    def search_setter(self, path, name):
        owner, function = self.official.builders[path]
        state, place, _ = self.search(owner, function)
        surface, wanted = self.place(owner, function)
        types = [surface.types[wanted]] if wanted in surface.types else None
        for each in types or self.elsewhere(owner, surface, wanted):
            declared = surface.methods(each).get(function)
            builder = self.crates.returned(declared[0])[1] if declared else None
            if builder and name in surface.methods(builder):
                return state, place, [surface.methods(builder)[name]]
        return "missing", None, []

    def returned(self, path, name, surface):
        """Returns the types that our methods return in place of this type."""
        found = []
        for owner, function, declared in self.official.sources.get(path, ()):
            origin, wanted = self.place(owner, function)
            if wanted not in origin.types or not self.official.applies(path, name, declared):
                continue
            ours = origin.methods(origin.types[wanted]).get(function)
            result = self.crates.returned(ours[0])[1] if ours else None
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
