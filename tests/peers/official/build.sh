#!/usr/bin/env bash
# Builds the programs that use the official driver into target/ and prints the path of the one that
# follows a step-down. The programs of ../porting lie beside it: `porting-official`, and
# `porting-peer` with Onionskin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# Flags and target directories of our workspace would cause needless rebuilds of this one, and so
# would the variables with which GSSAPI is built (../kerberos/build-env.sh).
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR RUSTFLAGS
unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS
timeout 1200 cargo build --locked --quiet --target-dir target --workspace >&2
echo "$PWD/target/debug/official-driver-peer"
