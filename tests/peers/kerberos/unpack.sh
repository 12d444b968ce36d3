#!/usr/bin/env bash
# Unpacks Debian packages and the libraries that they need into a directory. Nothing is installed,
# so the script does not need root.
#
# Usage: unpack.sh DIRECTORY PACKAGE...
#
# The packages of Kerberos are unpacked even if they are installed, because a library and its
# headers must have one version. Other packages are unpacked only if they are missing.
set -euo pipefail
root=$1
shift
wanted=("$@")

for tool in apt-get apt-cache dpkg-deb; do
    command -v $tool >/dev/null || {
        echo "${wanted[*]}: not installed, and without $tool they cannot be fetched" >&2
        exit 1
    }
done
mkdir -p "$root"
root=$(cd "$root" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

# Uses the package lists of the system, or downloads lists if the system has none.
own=()
if ! apt-cache show "${wanted[0]}" >/dev/null 2>&1; then
    mkdir -p lists/partial cache/archives/partial
    own=(-o "Dir::State::lists=$place/lists" -o "Dir::Cache=$place/cache")
    timeout 200 apt-get -qq "${own[@]}" update >&2
fi

# Prints the packages and all packages that they need.
closure() {
    apt-cache "${own[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts \
        --no-breaks --no-replaces --no-enhances "${wanted[@]}" | grep -oE '^[a-z0-9][^: ]*$'
}

installed() {
    dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q ' installed$'
}

chosen=()
for package in $(closure); do
    case $package in
        libverto-glib1) ;;
        krb5-config | krb5-locales) ;;
        krb5-* | libkrb5* | libgss* | libk5* | libkadm5* | libkdb5* | libcom-err* | comerr-dev | \
            libkeyutils* | libverto* | libev4* | libss2*) chosen+=("$package") ;;
        lib*) [[ " ${wanted[*]} " != *" $package "* ]] && installed "$package" ||
            chosen+=("$package") ;;
    esac
done
timeout 300 apt-get -qq "${own[@]}" download "${chosen[@]}" >&2
for archive in *.deb; do
    dpkg-deb -x "$archive" "$root"
done
