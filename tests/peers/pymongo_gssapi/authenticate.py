"""Authenticates with PyMongo by GSSAPI, and prints the name of the user.

Usage: python authenticate.py URI
"""

import sys

from pymongo import MongoClient

with MongoClient(sys.argv[1], serverSelectionTimeoutMS=5000) as client:
    client.peer.items.find_one()
    status = client.admin.command("connectionStatus")
    print(status["authInfo"]["authenticatedUsers"][0]["user"])
