"""Decodes and encodes documents with the bson package of PyMongo.

Usage: python documents.py FILE [EXTENDED_JSON]

FILE has documents in BSON, one after the other. Writes FILE.bson with the documents as encoded
again, and FILE.json with their canonical Extended JSON, one in each line. With EXTENDED_JSON, a
file with a line for each document, also writes FILE.parsed with the documents that were parsed from
it. Prints whether the C extension was used.
"""

import sys

import bson
from bson import json_util
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion

OPTIONS = CodecOptions(
    uuid_representation=UuidRepresentation.UNSPECIFIED,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
)
JSON_OPTIONS = json_util.JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL,
    strict_uuid=True,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    tz_aware=False,
)


def main():
    path = sys.argv[1]
    with open(path, "rb") as file:
        documents = bson.decode_all(file.read(), OPTIONS)
    with open(path + ".bson", "wb") as file:
        for document in documents:
            file.write(bson.encode(document, codec_options=OPTIONS))
    with open(path + ".json", "w", encoding="utf-8") as file:
        for document in documents:
            file.write(json_util.dumps(document, json_options=JSON_OPTIONS) + "\n")
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8", newline="\n") as file, open(
            path + ".parsed", "wb"
        ) as parsed:
            for line in file:
                document = json_util.loads(line, json_options=JSON_OPTIONS)
                parsed.write(bson.encode(document, codec_options=OPTIONS))
    print("C extension" if bson.has_c() else "no C extension", len(documents))


main()
