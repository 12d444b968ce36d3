#!/usr/bin/env bash
# Builds the programs with the official driver and with Onionskin into target/, and prints the path
# of the binary with Onionskin. The other binary lies in the folder `official` beside its folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# Flags and target directories of our workspace would cause needless rebuilds of this one.
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR RUSTFLAGS
for driver in official ours; do
    timeout 1200 cargo build --locked --quiet --features "$driver" --target-dir "target/$driver" >&2
done
echo "$PWD/target/ours/debug/porting-peer"
