#!/usr/bin/env bash
# Finds HAProxy and prints the path of the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec ../debian.sh haproxy
