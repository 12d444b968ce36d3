"""The differences between FerretDB and a MongoDB server that the cases can have."""

import re

import bson

# The codes with which FerretDB refuses what it does not implement.
NOT_IMPLEMENTED = {59, 115, 238}

# The messages with which FerretDB refuses what it does not implement under other codes. It takes
# the fields of a query in `$elemMatch` for operators.
REFUSED = re.compile(r"not supported|not implemented|unknown operator: [^$]")


def not_implemented(error):
    """True for an error because of something that FerretDB does not implement."""
    if error is None:
        return False
    code, message = error
    return code in NOT_IMPLEMENTED or bool(REFUSED.search(message))


def without_signs(value):
    """Returns the value with 0.0 for each -0.0. A 64-bit integer is written with its type, because
    its text is that of a 32-bit integer."""
    if isinstance(value, dict):
        return {name: without_signs(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_signs(item) for item in value]
    if isinstance(value, bson.Int64):
        return f"Int64({value})"
    return 0.0 if isinstance(value, float) and value == 0 else value


def same(ours, theirs):
    """True for answers that are equal apart from the sign of zero."""
    return repr(without_signs(ours)) == repr(without_signs(theirs))


def texts(value):
    """Lists the names of fields and the strings in a value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def mentions(value, *names):
    """True if a field of the value has one of the names."""
    return any(text in names for text in texts(value))


def is_unevaluated(case, theirs):
    """True if the answer has the text of an expression. FerretDB returns most expressions in arrays
    and documents as they are."""
    if "pipeline" not in case["operation"]:
        return False
    return any(text.startswith("$") for d in theirs if isinstance(d, dict) for text in texts(d))


def documents_in(value):
    """Lists all documents in a value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from documents_in(item)


# What FerretDB has of pipelines.
STAGES = {"$addFields", "$count", "$group", "$limit", "$match", "$project", "$set", "$skip"}
STAGES |= {"$sort", "$unset", "$unwind"}
OPERATORS = {"$count", "$eq", "$gt", "$gte", "$lt", "$lte", "$ne", "$sum"}


def is_claimed(case):
    """False for a case with something that FerretDB is known not to implement. It can refuse other
    cases as well."""
    operation = case["operation"]
    if "arrayFilters" in operation or any(isinstance(e, list) for e in elements(case["documents"])):
        return False
    names = (name for d in documents_in(operation.get("pipeline")) for name in d)
    operators = (name for name in names if name.startswith("$"))
    if any(name not in STAGES | OPERATORS for name in operators):
        return False
    unwound = (d["$unwind"] for d in documents_in(operation) if "$unwind" in d)
    return all(isinstance(operand, str) for operand in unwound)


def paths(case, *operators):
    """Lists the paths of the update operators."""
    update = case["operation"].get("update", {})
    return [path for operator in operators for path in update.get(operator, {})]


def values(case, operator):
    """Lists the operands of an update operator."""
    return list(case["operation"].get("update", {}).get(operator, {}).values())


def same_but(case, ours, theirs, *operators):
    """True if both servers update, and the other fields than those of the operators are equal."""
    fields = {path.split(".")[0] for path in paths(case, *operators)}
    if not fields or not all(isinstance(reply, dict) for reply, _ in (ours, theirs)):
        return False
    others = [
        [{name: value for name, value in d.items() if name not in fields} for d in documents]
        for _, documents in (ours, theirs)
    ]
    return same(*others)


def same_documents(ours, theirs):
    """True if both servers update, and only the number of modified documents differs."""
    return all(isinstance(reply, dict) for reply, _ in (ours, theirs)) and same(ours[1], theirs[1])


def hides_a_sign(case, ours, theirs):
    """True if only the number of modified documents differs, which have -0.0."""
    signs = any(str(value) == "-0.0" for value in numbers(case))
    return signs and "update" in case["operation"] and same_documents(ours, theirs)


def numbers(value):
    """Lists the numbers in a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float) else []


def wrapped(value):
    """Returns the value with the lower 32 bits of each integer."""
    if isinstance(value, dict):
        return {name: wrapped(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [wrapped(item) for item in value]
    return value % 2**32 if isinstance(value, int) and not isinstance(value, bool) else value


def overflows(case, ours, theirs):
    """True if integers differ only above their lower 32 bits."""
    return bool(paths(case, "$inc", "$mul")) and same(wrapped(ours), wrapped(theirs))


def has_internal_code(case, ours, theirs):
    """True if only the code of an error of `$rename` differs."""
    if not paths(case, "$rename") or not fails_with(theirs, 1) or not isinstance(ours[0], list):
        return False
    return ours[0][1] in theirs[0][1] and same(ours[1], theirs[1])


def adds_nothing(case, ours, theirs):
    """True if `$inc` adds zero, and only the number of modified documents differs."""
    zero = any(value == 0 for value in values(case, "$inc"))
    return zero and same_documents(ours, theirs)


def ignores_modifiers(case, ours, theirs):
    modified = mentions(values(case, "$push"), "$position", "$slice", "$sort")
    return modified and same_but(case, ours, theirs, "$push")


NEGATIONS = ("$not", "$ne", "$nin", "$exists")


def has_element_query(case, ours, theirs):
    """True for `$elemMatch` with a query on fields, or with another condition that FerretDB applies
    to the array instead of its elements."""
    if "filter" not in case["operation"]:
        return False
    filters = [d["$elemMatch"] for d in documents_in(case["operation"]) if "$elemMatch" in d]
    fields = any(not name.startswith("$") for d in filters for name in d)
    return fields or mentions(filters, *NEGATIONS, "$size", "$elemMatch")


def has_equal_element(case, ours, theirs):
    """True if an array of the documents has a document that is also an operand of the filter."""
    if "filter" not in case["operation"]:
        return False
    operands = [
        value
        for d in documents_in(case["operation"]["filter"])
        for name, value in d.items()
        if isinstance(value, dict) and name != "$elemMatch"
        if not any(inner.startswith("$") for inner in value)
    ]
    return any(element in operands for element in elements(case["documents"]))


def elements(value):
    """Lists the elements of all arrays in a value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from elements(item)
    elif isinstance(value, list):
        yield from value
        for item in value:
            yield from elements(item)


def has_negated_path(case, ours, theirs):
    """True for a dotted path with a negated condition."""
    return "filter" in case["operation"] and any(
        "." in name and isinstance(value, dict) and mentions(value, *NEGATIONS)
        for d in documents_in(case["operation"])
        for name, value in d.items()
    )


def has_several_conditions(case, ours, theirs):
    """True for several conditions on a dotted path, where one server finds a part of what the other
    finds."""
    several = "filter" in case["operation"] and any(
        "." in name and isinstance(value, dict) and len(value) > 1
        for d in documents_in(case["operation"]["filter"])
        for name, value in d.items()
    )
    return several and (all(d in ours for d in theirs) or all(d in theirs for d in ours))


def has_ignored_operator(case, ours, theirs):
    """True for `$eq` or `$ne` of a document beside another operator."""
    return "filter" in case["operation"] and any(
        len(d) > 1 and any(isinstance(d.get(name), dict) for name in ("$eq", "$ne"))
        for d in documents_in(case["operation"])
    )


def has_other_order(case, ours, theirs):
    """True if the documents differ only in the order of their fields."""
    if "projection" not in case["operation"]:
        return False
    answers = (ours, theirs)
    if not all(isinstance(d, dict) for answer in answers for d in answer):
        return False
    return same(*([sorted(d.items()) for d in answer] for answer in answers))


def loses_fields(case, ours, theirs):
    """True if FerretDB returns only `_id` and the array of an `$unwind`."""
    stages = [s["$unwind"] for s in case["operation"].get("pipeline", []) if "$unwind" in s]
    names = {s[1:].split(".")[0] for s in stages if isinstance(s, str)}
    names.add("_id")
    kept = [
        {name: value for name, value in d.items() if name in names}
        for d in ours
        if isinstance(d, dict)
    ]
    return bool(stages) and same(kept, theirs)


def counts_once(case, ours, theirs):
    """True for a `$group` with several accumulators `$count` or `$sum`."""
    return any(
        sum(mentions(value, "$count", "$sum") for value in stage["$group"].values()) > 1
        for stage in case["operation"].get("pipeline", [])
        if "$group" in stage
    )


def has_conditions(case, ours, theirs):
    conditions = any(isinstance(value, dict) for value in values(case, "$pull"))
    return conditions and same_but(case, ours, theirs, "$pull")


def fails_with(answer, *codes):
    """True for an update that fails with one of the codes."""
    return isinstance(answer[0], list) and answer[0][0] in codes


def refuses_path(case, ours, theirs):
    return bool(paths(case, "$pull", "$pullAll")) and fails_with(theirs, 2, 28)


def has_placeholder(case, ours, theirs):
    """True for a path with `$[]` that FerretDB refuses, or at which it finds nothing."""
    if not any("$[" in path for path in paths(case, *case["operation"].get("update", {}))):
        return False
    return fails_with(theirs, 2, 14, 28) or same(theirs[0], {"n": 1, "nModified": 0})


def adds_array(case, ours, theirs):
    arrays = any(isinstance(value, list) for value in values(case, "$addToSet"))
    return arrays and same_but(case, ours, theirs, "$addToSet")


def renames_element(case, ours, theirs):
    """True for `$rename` with a path through an array, which our server refuses."""
    element = any(re.search(r"\.\d", path) for path in [*paths(case, "$rename"), *targets(case)])
    return element and fails_with(ours, 2) and isinstance(theirs[0], dict)


def targets(case):
    """Lists the new paths of `$rename`."""
    return [value for value in values(case, "$rename") if isinstance(value, str)]


def unsets_element(case, ours, theirs):
    element = any(re.search(r"\.\d", path) for path in paths(case, "$unset"))
    return element and same_but(case, ours, theirs, "$unset")


# The reason of a difference, and its condition.
RULES = [
    # BSON Specification: a double is an IEEE 754 number, so -0.0 is stored as such.
    ("FerretDB stores -0.0 as 0.0", lambda case, ours, theirs: same(ours, theirs)),
    ("FerretDB changes nothing where only the sign of zero changes", hides_a_sign),
    # The server of MongoDB stores a sum or product of 32-bit integers that is too large as a 64-bit
    # integer.
    ("FerretDB lets 32-bit integers overflow", overflows),
    # Manual, "Update Results": `nModified` counts the documents that have changed.
    ("FerretDB counts $inc of 0 as a modification", adds_nothing),
    # Manual, `$push`: `$position`, `$slice` and `$sort` modify the array.
    ("FerretDB ignores the modifiers of $push", ignores_modifiers),
    # Manual, `$elemMatch`: at least one element must match the query, also a query on fields.
    ("FerretDB applies conditions of $elemMatch to the array", has_element_query),
    # Manual, "Query an Array of Embedded Documents": an equal element matches.
    ("FerretDB finds no document that is an element", has_equal_element),
    # Manual, `$not` and `$nin`: they hold if no value at the path meets the condition.
    ("FerretDB negates conditions for each element of an array on the path", has_negated_path),
    # Manual, "Query an Array of Embedded Documents": one element can meet one condition and another
    # element the other one.
    ("FerretDB wants one element that meets all conditions on a path", has_several_conditions),
    # Manual, "Query Documents": all operators of a field must hold.
    ("FerretDB ignores operators after $eq or $ne of a document", has_ignored_operator),
    # Manual, "Projection": existing fields keep their order.
    ("FerretDB returns fields of dotted paths last", has_other_order),
    # Manual, `$unwind`: the result is the input document with another value of the field.
    ("FerretDB drops the other fields in $unwind", loses_fields),
    # Manual, `$group`: each accumulator sees each document of the group.
    ("FerretDB gives documents to one accumulator only", counts_once),
    # Manual, `$pull`: a document is a condition on the elements.
    ("FerretDB takes the conditions of $pull for values", has_conditions),
    # The server of MongoDB changes nothing where `$pull` and `$pullAll` find no path.
    ("FerretDB refuses $pull and $pullAll on other values than documents", refuses_path),
    # Manual, `$[]` and `$[<identifier>]`: they stand for elements.
    ("FerretDB takes $[] for the name of a field", has_placeholder),
    # Manual, `$rename`: fields of documents in arrays cannot be renamed.
    ("FerretDB renames fields of elements", renames_element),
    # The server of MongoDB has the code 28, PathNotViable, for such a path.
    ("FerretDB has the code 1 for the path of a $rename that cannot be", has_internal_code),
    # Manual, `$addToSet`: an array is one element.
    ("FerretDB does not add an array to an array of other elements with $addToSet", adds_array),
    # Manual, `$unset`: an element of an array becomes null.
    ("FerretDB removes an element with $unset", unsets_element),
]


def explanation(case, ours, theirs):
    """Returns the reason why the answers may differ, or None if they must be equal."""
    for reason, holds in RULES:
        if holds(case, ours, theirs):
            return f"explained: {reason}"
    return None
