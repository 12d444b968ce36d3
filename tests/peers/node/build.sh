#!/usr/bin/env bash
# Installs the Node.js driver into node_modules/ and prints the path of the script that uses it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec ../npm.sh follow_step_down.js
