"""Authenticates with PyMongo by each mechanism.

Usage: python authenticate.py URI TOKEN_DIRECTORY

The URI has no user, and the option tlsCAFile; client.pem is beside that file. Prints one JSON
object with the result of each case: the name of the user, or the code of the error.
"""

import json
import os
import sys
import threading
from urllib.parse import parse_qs, urlsplit

from pymongo import MongoClient
from pymongo.auth_oidc import OIDCCallback, OIDCCallbackResult
from pymongo.errors import OperationFailure

URI, TOKENS = sys.argv[1:]
AUTHORITY = parse_qs(urlsplit(URI).query)["tlsCAFile"][0]
AWS_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def token(name):
    with open(os.path.join(TOKENS, name), encoding="ascii") as file:
        return file.read()


class Callback(OIDCCallback):
    """Returns the token of a user, and counts its calls."""

    def __init__(self, name):
        self.name = name
        self.calls = 0
        self.issuers = []

    def fetch(self, context):
        self.calls += 1
        self.issuers.append(context.idp_info and context.idp_info.issuer)
        return OIDCCallbackResult(access_token=token(self.name))


def log_in(before=None, **options):
    """Returns the name of the user, or the code of the error."""
    try:
        with MongoClient(URI, serverSelectionTimeoutMS=5000, **options) as client:
            if before:
                before(client)
            client.peer.items.find_one()
            status = client.admin.command("connectionStatus")
            return status["authInfo"]["authenticatedUsers"][0]["user"]
    except OperationFailure as error:
        return error.code


def password(mechanism, right="pencil"):
    options = {"authMechanism": mechanism} if mechanism else {}
    return log_in(username="ada", password=right, **options)


def aws(*values):
    for name, value in zip(AWS_VARIABLES, values + (None,) * 3):
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return log_in(authMechanism="MONGODB-AWS")


def oidc(before=None, username=None, **properties):
    options = {"username": username} if username else {}
    return log_in(
        before, authMechanism="MONGODB-OIDC", authMechanismProperties=properties, **options
    )


def from_file(name):
    os.environ["OIDC_TOKEN_FILE"] = os.path.join(TOKENS, name)
    return oidc(ENVIRONMENT="test")


def demand_reauthentication(client):
    data = {"failCommands": ["find"], "errorCode": 391}
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)


def main():
    certificate = os.path.join(os.path.dirname(AUTHORITY), "client.pem")
    machine, human = Callback("test_machine"), Callback("test_user1")
    again = Callback("test_user2")
    results = {
        "negotiated": password(None),
        "negotiated wrong": password(None, "chalk"),
        "x509": log_in(authMechanism="MONGODB-X509", tlsCertificateKeyFile=certificate),
        "aws": aws("AKIA1", "secret1"),
        "aws token": aws("ASIA2", "secret2", "token/+="),
        "aws wrong": aws("AKIA1", "secret2"),
        "aws without token": aws("ASIA2", "secret2"),
        "oidc file": from_file("test_user1"),
        "oidc expired": from_file("test_expired"),
        "oidc machine": oidc(OIDC_CALLBACK=machine),
        "oidc human": oidc(username="test_user1", OIDC_HUMAN_CALLBACK=human),
        "oidc human issuer": human.issuers[0],
        "oidc again": oidc(demand_reauthentication, OIDC_CALLBACK=again),
        "oidc again calls": again.calls,
    }
    for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN"):
        results[mechanism] = password(mechanism)
        results[f"{mechanism} wrong"] = password(mechanism, "chalk")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    # A hanging run fails with a message of its own.
    threading.Timer(50, lambda: os._exit(3)).start()
    main()
    sys.stdout.flush()
    os._exit(0)
