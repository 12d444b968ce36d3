"""Writes and reads documents with compressed messages.

Usage: compressed.py URI
"""

import sys

import pymongo


def text(number):
    """Returns a text whose length grows with the number."""
    return "onion " * (number * number)


def main():
    with pymongo.MongoClient(sys.argv[1], serverSelectionTimeoutMS=10_000) as client:
        client.admin.command("ping")
        things = client.app.things
        things.insert_many([{"_id": n, "text": text(n)} for n in range(60)])
        found = list(things.find({}, batch_size=7).sort("_id", 1))
        assert [each["_id"] for each in found] == list(range(60))
        assert all(each["text"] == text(each["_id"]) for each in found)
        things.drop()
    print("read: 60")


main()
