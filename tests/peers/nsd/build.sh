#!/usr/bin/env bash
# Finds NSD, an authoritative name server, and prints the path of the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec ../debian.sh nsd
