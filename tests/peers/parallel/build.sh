#!/usr/bin/env bash
# Finds GNU parallel, which runs commands on several machines, and prints the path of the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
if command -v parallel >/dev/null &&
    ! parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
    echo "the installed program parallel is another one than GNU parallel" >&2
    exit 1
fi
exec ../debian.sh parallel usr/bin/parallel --version
