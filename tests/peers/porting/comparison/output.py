"""What the comparison prints."""

import collections
import textwrap


def totals(rows, what):
    counts = collections.Counter(row.state for row in rows)
    method = f" as a method {counts['as a method']}," if counts["as a method"] else ""
    reasoned = counts["other forms"] + counts["not there"]
    return (
        f"{what}: same {counts['same']}, elsewhere {counts['elsewhere']},{method} missing with a"
        f" reason {reasoned}, missing {counts['missing']}, of {len(rows)}"
    )


def difference_totals(comparison):
    found = len(comparison.rows)
    reasoned = sum(row.reason is not None for row in comparison.rows)
    return (
        f"{comparison.title}: same {comparison.total - found}, different with a reason {reasoned},"
        f" different {found - reasoned}, of {comparison.total}"
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


def print_differences(comparisons):
    for comparison in comparisons:
        print(f"\n{comparison.title}: {len(comparison.rows)}\n")
        for row in sorted(comparison.rows, key=lambda row: row.reason is not None):
            detail = f": {row.detail}" if row.detail else ""
            print(f"    {row.place}{detail} ({row.reason or 'no reason'})")


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


TITLES = {
    "paths": "Paths of types that exist in another form:",
    "types of fields": "Fields that have another type:",
    "parameters of callables": "Callables that refuse a call which the official one accepts:",
    "exhaustive types and variants": "Types that programs cannot construct or match in full:",
    "implementations of traits": "Implementations of traits that are not there:",
}


def fill(text, indent=""):
    print(textwrap.fill(text, 100, break_on_hyphens=False, subsequent_indent=indent))


def few(traits):
    """Returns the names of traits, without their arguments if there are many."""
    short = collections.Counter(each.partition("<")[0] for each in traits)
    if len(traits) > 8 > len(short):
        return ", ".join(f"`{name}` of {count} types" for name, count in short.items())
    return ", ".join(f"`{each}`" for each in traits)


def print_reasons(comparisons, absent):
    """Prints the differences that have a reason, grouped by it."""
    print("\n## Other differences")
    for comparison in comparisons:
        grouped = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in comparison.rows:
            # A type that is not there is in the table of those, if it has callables.
            is_listed = comparison.title == "paths" and row.reason in absent
            if row.reason and not is_listed:
                grouped[row.reason][row.place].append(row.detail)
        if grouped:
            print(f"\n{TITLES[comparison.title]}\n")
        for reason, places in grouped.items():
            is_named = comparison.title == "implementations of traits"
            listed = [
                f"`{place}`" + (f" ({few(details)})" if is_named else "")
                for place, details in places.items()
            ]
            fill(f"- {reason}: {', '.join(listed)}", "  ")


def print_alike(paths):
    """Prints the names of types, grouped by module."""
    print("\n## Types without a difference\n")
    modules = collections.defaultdict(list)
    for path in sorted(paths):
        module, _, name = path.rpartition("::")
        modules[module].append(f"`{name}`")
    for module, names in sorted(modules.items()):
        fill(f"- {f'`{module}`' if module else 'the root'}: {', '.join(names)}", "  ")


def print_markdown(rows, data, comparisons, types, reasons):
    """Prints a table of the types that differ in part, one of their fields and variants, and one of
    the types that are not there. The other differences follow, and those of `types` without one.
    """
    print("## Types with a difference\n")
    print("| official | same | differs and why | not there |\n|---|---|---|---|")
    absent = collections.defaultdict(list)
    for path, group in by_type(rows).items():
        states = {(row.state, row.detail if row.state == "not there" else "") for row in group}
        state, reason = min(states)
        if len(states) == 1 and state == "not there":
            absent[reason].append(f"`{path}`")
        elif len(states) > 1 or state != "same":
            columns = [["same"], ["elsewhere", "other forms"], ["not there", "missing"]]
            chosen = ([row for row in group if row.state in column] for column in columns)
            cells = " | ".join(cell(each, len(group)) for each in chosen)
            other = f", ours `{reasons.renamed[path]}`" if path in reasons.renamed else ""
            print(f"| `{path}`{other} | {cells} |")
    print("\n## Fields and variants with a difference")
    print_data(data)
    print("\n## Left out\n\n| not there | official |\n|---|---|")
    for reason, paths in absent.items():
        print(f"| {reason} | {', '.join(paths)} |")
    for feature, content in reasons.sections["not compared"]:
        print(f"| the feature `{feature}`, which was not compared | {content} |")
    print_reasons(comparisons, absent)
    differing = {row.path for row in rows + data if row.state != "same"}
    for row in (row for comparison in comparisons for row in comparison.rows):
        owner = row.place.partition(".")[0]
        differing |= {owner, owner.rpartition("::")[0]}
    print_alike(types - differing)
