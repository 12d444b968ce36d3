#!/usr/bin/env bash
# Prints the environment to build the Cargo feature `gssapi` with. If the headers of Kerberos or
# libclang are not installed, Debian's packages are unpacked into target/ beside this script.
#
# Usage: eval "$(tests/peers/kerberos/build-env.sh)"
#
# The variables are needed to build and to run, because the programs load the unpacked libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p target
exec 9>target/lock
flock 9

has_headers() {
    command -v pkg-config >/dev/null && pkg-config --exists mit-krb5-gssapi
}

# A `clang` on the PATH means that libclang is installed with its own headers.
has_libclang() {
    [[ -n ${LIBCLANG_PATH:-} ]] || command -v clang >/dev/null
}

root=$PWD/target/build
libraries=()
if ! has_headers; then
    if [[ ! -e $root/headers ]]; then
        ./unpack.sh "$root" libkrb5-dev
        touch "$root/headers"
    fi
    architecture=$(basename "$(dirname "$root"/usr/lib/*/pkgconfig)")
    libraries=("$root/usr/lib/$architecture" "$root/lib/$architecture")
    echo "export PKG_CONFIG_PATH='$root/usr/lib/$architecture/pkgconfig'"
    echo "export PKG_CONFIG_SYSROOT_DIR='$root'"
fi
if ! has_libclang; then
    if [[ ! -e $root/libclang ]]; then
        depends=$(apt-cache depends libclang-dev)
        version=$(grep -oE 'libclang-[0-9]+-dev' <<<"$depends" | grep -oE '[0-9]+')
        ./unpack.sh "$root" "libclang1-$version" "libclang-common-$version-dev"
        echo "$version" >"$root/libclang"
    fi
    version=$(<"$root/libclang")
    builtin=("$root"/usr/lib/llvm-"$version"/lib/clang/*/include)
    echo "export LIBCLANG_PATH='$root/usr/lib/llvm-$version/lib'"
    echo "export BINDGEN_EXTRA_CLANG_ARGS='-I${builtin[0]}'"
    libraries+=("$root"/usr/lib/*-linux-gnu)
fi
if ((${#libraries[@]} > 0)); then
    joined=$(printf '%s:' "${libraries[@]}")
    echo "export LD_LIBRARY_PATH='${joined%:}'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
fi
