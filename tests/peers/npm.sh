#!/usr/bin/env bash
# Installs the npm packages of package-lock.json into node_modules/ of the current directory, and
# prints the path of a script there.
#
# Usage: npm.sh SCRIPT
set -euo pipefail

mkdir -p target
exec 9>target/lock
flock 9

done_mark=node_modules/.onionskin-package-lock.json
if ! cmp --silent package-lock.json "$done_mark"; then
    timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    cp package-lock.json "$done_mark"
fi
echo "$PWD/$1"
