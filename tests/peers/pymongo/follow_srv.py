"""Follows the SRV records of a deployment with PyMongo.

Usage: follow_srv.py URI NAME_SERVER_PORT DOMAIN

Asks the name server at this port of 127.0.0.1, at least once per second. All hosts below DOMAIN
have the address 127.0.0.1. Prints "ready" and then, after each change, the ports of the hosts that
the client knows. Reads all the time; an error ends the program.
"""

import socket
import sys
import time

import dns.resolver
from pymongo import MongoClient, common


def main():
    uri, port, domain = sys.argv[1:]
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = int(port)
    dns.resolver.default_resolver = resolver
    common.MIN_SRV_RESCAN_INTERVAL = 1

    system_getaddrinfo = socket.getaddrinfo

    def getaddrinfo(host, *rest, **options):
        if isinstance(host, str) and host.endswith(domain):
            host = "127.0.0.1"
        return system_getaddrinfo(host, *rest, **options)

    socket.getaddrinfo = getaddrinfo
    client = MongoClient(uri, heartbeatFrequencyMS=500, serverSelectionTimeoutMS=10_000)
    print("ready", flush=True)
    known = None
    while True:
        client.peer.items.find_one({})
        hosts = client.topology_description.server_descriptions()
        ports = sorted(port for _, port in hosts)
        if ports != known:
            known = ports
            print("hosts", *ports, flush=True)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
