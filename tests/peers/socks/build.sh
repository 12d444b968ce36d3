#!/usr/bin/env bash
# Finds two SOCKS5 proxies, microsocks and Dante, and prints the path of a directory's file
# `microsocks`. The file `danted` is beside it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
microsocks=$(../debian.sh microsocks usr/bin/microsocks '')
danted=$(../debian.sh dante-server usr/sbin/danted)
mkdir -p target/programs
ln -sf "$microsocks" target/programs/microsocks
ln -sf "$danted" target/programs/danted
echo "$PWD/target/programs/microsocks"
