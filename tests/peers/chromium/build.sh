#!/usr/bin/env bash
# Finds Chromium or its headless shell and prints the path of the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for program in chromium chromium-headless-shell; do
    if command -v "$program"; then
        exit
    fi
done
# The headless shell needs less than half of Chromium's libraries.
exec ../debian.sh chromium-headless-shell usr/lib/chromium/chromium-headless-shell \
    --version chromium-common
