#!/usr/bin/env bash
# Builds the programs with Onionskin into target/ and prints the path of the binary. Those with the
# official driver are built by `../official/build.sh`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../official/build.sh >/dev/null
# Flags and target directories of our workspace would cause needless rebuilds of this one, and so
# would the variables with which GSSAPI is built (../kerberos/build-env.sh).
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR RUSTFLAGS
unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS
timeout 1200 cargo build --locked --quiet --features ours --target-dir target >&2
echo "$PWD/target/debug/porting-peer"
