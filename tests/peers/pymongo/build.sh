#!/usr/bin/env bash
# Makes a virtual environment with PyMongo in target/ and prints the path of its interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p target
exec 9>target/lock
flock 9

done_mark=target/venv/requirements.txt
if ! cmp --silent requirements.txt "$done_mark"; then
    rm -rf target/venv
    timeout 120 python3 -m venv target/venv >&2
    timeout 300 target/venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --requirement requirements.txt >&2
    cp requirements.txt "$done_mark"
fi
echo "$PWD/target/venv/bin/python"
