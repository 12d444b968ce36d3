#!/usr/bin/env bash
# Builds the FerretDB that go.mod pins into target/ and prints the path of the binary.
#
# FerretDB refuses to start when `version.txt` is missing from its main module, and neither `go
# install` nor a build as a dependency writes that file. So the script copies the source, whose
# checksum is in go.sum, out of the module cache. It builds the copy as the main module, with the
# copy's own go.sum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p target
exec 9>target/lock
flock 9

version=$(sed -n 's/^require .*FerretDB \(v[0-9.]*\)$/\1/p' go.mod)
binary=$PWD/target/ferretdb-$version
if [[ ! -x $binary ]]; then
    if ! command -v go >/dev/null; then
        echo "go is not installed, and without it FerretDB cannot be built" >&2
        exit 1
    fi
    source=$(timeout 300 go mod download -json github.com/FerretDB/FerretDB |
        sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf target/source
    cp -r "$source" target/source
    chmod -R u+w target/source
    echo "$version" >target/source/build/version/version.txt
    CGO_ENABLED=0 timeout 900 go build -C target/source -buildvcs=false \
        -o "$binary.partial" ./cmd/ferretdb >&2
    rm -rf target/source
    mv "$binary.partial" "$binary"
fi
echo "$binary"
