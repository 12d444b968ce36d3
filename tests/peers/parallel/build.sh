#!/usr/bin/env bash
# Finds GNU parallel, which runs commands on several machines, and prints the path of the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec ../debian.sh parallel usr/bin/parallel --version
