"""Parses connection strings with PyMongo.

Usage: parse_uris.py FILE
FILE has a JSON list of connection strings. Prints a JSON list with an object for each of them: its
parts, or the error.
"""

import json
import sys
import warnings

from pymongo.uri_parser import parse_uri
from pymongo.uri_parser_shared import _validate_uri


def shown_host(host, port):
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# The options whose times PyMongo gives in milliseconds, as the connection string does.
MILLISECONDS = ("localthresholdms", "wtimeoutms")


def shown_value(name, value):
    if name.endswith("ms") and isinstance(value, (int, float)):
        # PyMongo gives the other times in seconds.
        return round(value if name in MILLISECONDS else value * 1000)
    return value


def parse(text):
    is_srv = text.startswith("mongodb+srv://")
    try:
        # `parse_uri` looks a mongodb+srv string up in DNS; the other function only parses it.
        parsed = _validate_uri(text, warn=True) if is_srv else parse_uri(text, warn=True)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    nodes = [(parsed["fqdn"], None)] if is_srv else parsed["nodelist"]
    database = parsed["database"]
    if parsed["collection"]:
        database = f"{database}.{parsed['collection']}"
    options = {name.lower(): value for name, value in parsed["options"].items()}
    return {
        "hosts": [shown_host(host, port) for host, port in nodes],
        "username": parsed["username"],
        "password": parsed["password"],
        "database": database,
        "options": {name: shown_value(name, value) for name, value in options.items()},
    }


def main():
    warnings.simplefilter("ignore")
    with open(sys.argv[1], encoding="utf-8") as file:
        texts = json.load(file)
    print(json.dumps([parse(text) for text in texts], default=repr))


if __name__ == "__main__":
    main()
