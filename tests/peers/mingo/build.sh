#!/usr/bin/env bash
# Installs the npm package mingo into node_modules/ and prints the path of the script that uses it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p target
exec 9>target/lock
flock 9

done_mark=node_modules/.onionskin-package-lock.json
if ! cmp --silent package-lock.json "$done_mark"; then
    timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    cp package-lock.json "$done_mark"
fi
echo "$PWD/answer.js"
