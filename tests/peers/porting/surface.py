"""Compares the public surface of the official Rust driver with that of Onionskin.

    python3 tests/peers/porting/surface.py [--target DIR] [--list | --markdown]
    python3 tests/peers/porting/surface.py --ours DIR --official DIR [--list | --markdown]

The first form builds the JSON files of rustdoc in the target directory (`target/porting` by
default), the second one reads files that were built before. Prints one line with the totals of
each comparison. With `--list`, every missing callable and every other difference follows. With
`--markdown`, the sections of `docs/porting.md` from the first table on are printed, and the totals
go to the standard error.

The exit code is 1 if a callable is missing or a type differs without a reason in `reasons.txt`, or
if a line of that file has no effect. It is 2 if a file of rustdoc cannot be built or read.

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
that it implements. Here only names are compared.

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

What else is compared
---------------------

The other comparisons are about what both drivers have. For types that means the same path, not
another name. Each difference needs a reason, which a pattern of `reasons.txt` can give to many.

- paths: each path of a type, an alias, a module or another crate exists here.
- types of fields: public fields, and those of variants, have the same type. Aliases are replaced by
  what they stand for, and a type of both drivers has its official path. Types of other crates are
  equal if the last parts of their paths are.
- parameters of callables: one of our functions of that name accepts what each official one accepts.
  `impl Into<String>` and `impl AsRef<str>` count as equal. `impl Into<T>` does not take the place
  of `T`, because the type of `value.into()` would be unknown. Results are not compared, nor are
  bounds of the type parameters of an `impl`.
- exhaustive types and variants: what programs can construct with all its fields, or match without
  `..`, has neither `non_exhaustive` nor further parts here.
- implementations of traits: each official one of TRAITS, with the same arguments. Conversions from
  private types do not count. Conditions of generic implementations are not compared.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys

from comparison.differences import Differences
from comparison.drivers import ASYNC, OFFICIAL, Official, Ours
from comparison.output import difference_totals, print_differences, print_list, print_markdown
from comparison.output import totals
from comparison.reasons import Reasons

VERSION = "3.9.1"
# The crate whose macros generate the actions of the official driver and their setters.
MACROS = "3.10.0"
# The number of callables of that version, and the format of rustdoc that it was counted with. If
# another format changes the number, then this program misreads that format.
TOTAL, TOTAL_DATA, FORMAT = 1172, 775, 57

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
REASONS = HERE / "reasons.txt"

OURS = ["onionskin-core", "onionskin", "onionskin-tokio", "onionskin-blocking"]

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
    differences = Differences(official, ours)
    comparisons = list(differences.all(reasons))
    lines = [totals(rows, "callables"), totals(data, "fields and variants")]
    for line in lines + [difference_totals(each) for each in comparisons]:
        print(line, file=sys.stderr if chosen.markdown else sys.stdout)
    if chosen.markdown:
        types = {"::".join(path) for path, _, _ in differences.common}
        types |= {row.path for row in rows if row.state == "same"}
        print_markdown(rows, data, comparisons, types, reasons)
    if chosen.list:
        print_list(rows + data)
        print_differences(comparisons)
    stale = reasons.stale(ours.surfaces[ASYNC].types)
    for message in stale:
        print(f"{REASONS.name}: {message}", file=sys.stderr)
    has_missing = any(row.state == "missing" for row in rows + data) or any(
        row.reason is None for comparison in comparisons for row in comparison.rows
    )
    sys.exit(1 if has_missing or stale else 0)


if __name__ == "__main__":
    main()
