"""The reasons for differences."""

import collections
import fnmatch

# The sections with patterns for names that are not there, and all sections with patterns.
NAMES = ("other forms", "not there")
PATTERNS = (*NAMES, "other types", "missing traits")


class Reasons:
    """The content of `reasons.txt`, which describes its format itself."""

    def __init__(self, file):
        self.sections = collections.defaultdict(list)
        section, used = None, file.read_text(encoding="utf-8").splitlines()
        for line in (line.strip() for line in used):
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                left, _, right = line.rpartition(" -> ")
                self.sections[section].append((left.strip(), right.strip()))
        self.renamed = dict(self.sections["other names"])
        self.used = set()

    def find(self, path, sections=NAMES):
        """Returns the section and the reason of the first pattern that matches a path."""
        for section in sections:
            for pattern, reason in self.sections[section]:
                if fnmatch.fnmatchcase(path, pattern):
                    self.used.add(pattern)
                    return section, reason
        return None, None

    def stale(self, types):
        """Returns a message for each line that has no effect."""
        patterns = [each for section in PATTERNS for each in self.sections[section]]
        unused = [pattern for pattern, _ in patterns if pattern not in self.used]
        unknown = [name for name in self.renamed.values() if tuple(name.split("::")) not in types]
        return [
            *(f"no difference matches {pattern}" for pattern in unused),
            *(f"there is no type {name}" for name in unknown),
        ]

