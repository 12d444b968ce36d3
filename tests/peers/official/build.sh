#!/usr/bin/env bash
# Builds the program that uses the official driver into target/ and prints the path of the binary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# Flags and target directories of our workspace would cause needless rebuilds of this one.
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR RUSTFLAGS
timeout 1200 cargo build --locked --quiet --target-dir target >&2
echo "$PWD/target/debug/official-driver-peer"
