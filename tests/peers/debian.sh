#!/usr/bin/env bash
# Finds a program and prints its path. If the program is not installed, Debian's package is unpacked
# into target/ of the current directory, with the libraries that the system lacks. Nothing is
# installed, so the script does not need root.
#
# Usage: debian.sh PACKAGE [PROGRAM [ARGUMENT [FILES...]]]
#
# PROGRAM is the path of the program in the package, by default usr/sbin/PACKAGE. ARGUMENT makes the
# program print its version, by default -v; with an empty one, the program is not tried. FILES are
# further packages whose files the program reads.
set -euo pipefail
package_name=$1
place=${2:-usr/sbin/$1}
version_argument=${3--v}
file_packages=("${@:4}")
program_name=${place##*/}

# The PATH of a user who is not root often lacks the sbin directories.
installed=$(PATH=$PATH:/usr/local/sbin:/usr/sbin command -v "$program_name" || true)
if [[ -n $installed ]]; then
    echo "$installed"
    exit
fi

mkdir -p target
exec 9>target/lock
flock 9

program=$PWD/target/$program_name
root=$PWD/target/root/$program_name

# Prints the directories of the unpacked libraries, for LD_LIBRARY_PATH. libpulse0 keeps a library
# in a directory of its own.
libraries() {
    printf '%s:' "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu "$root"/usr/lib \
        "$root"/usr/lib/*-linux-gnu/pulseaudio
}

# Prints the libraries that the program needs and that the dynamic linker does not find.
missing() {
    LD_LIBRARY_PATH=$(libraries) ldd "$root/$place" |
        sed -n 's/^\t\(.*\) => not found$/\1/p'
}

# Downloads a package into the current directory. Uses the package lists of the system, or downloads
# lists of its own if that fails.
own=(-o "Dir::State::lists=$PWD/target/packages/lists" -o "Dir::Cache=$PWD/target/packages/cache")
fetch() {
    if [[ ! -d lists ]]; then
        if timeout 120 apt-get -qq download "$1"; then
            return
        fi
        mkdir -p lists/partial cache/archives/partial
        timeout 200 apt-get -qq "${own[@]}" update
    fi
    timeout 120 apt-get -qq "${own[@]}" download "$1"
}

# Prints the packages that a package depends on and that are not installed. Of alternatives only the
# first counts.
lacking() {
    local package
    for package in $(dpkg-deb -f "$1" Pre-Depends Depends | sed 's/^[A-Za-z-]*: //' | tr ',' '\n' |
        sed -E 's/^ *([^ :|(]+).*$/\1/'); do
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' ||
            echo "$package"
    done
}

if [[ ! -x $program ]]; then
    for tool in apt-get dpkg-deb; do
        command -v $tool >/dev/null || {
            echo "$program_name is not installed, and without $tool it cannot be fetched" >&2
            exit 1
        }
    done
    rm -rf target/packages "$root"
    mkdir -p target/packages "$root"
    cd target/packages
    for package in "$package_name" "${file_packages[@]}"; do
        fetch "$package" >&2
        dpkg-deb -x "$package"_*.deb "$root"
    done
    # Libraries may need other libraries, so this takes up to three rounds.
    for _ in 1 2 3; do
        [[ -n $(missing) ]] || break
        for archive in *.deb; do
            for package in $(lacking "$archive"); do
                # The program needs only the files of library packages. Their install scripts do not
                # run.
                [[ $package == lib* ]] || continue
                compgen -G "${package}_*.deb" >/dev/null || fetch "$package" >&2
            done
        done
        for archive in lib*.deb; do
            dpkg-deb -x "$archive" "$root"
        done
    done
    if [[ -n $(missing) ]]; then
        echo "$package_name lacks the libraries $(missing | tr '\n' ' ')" >&2
        echo "install $package_name, or make these packages available to apt-get" >&2
        exit 1
    fi
    cd ../..
    rm -rf target/packages
    printf '#!/usr/bin/env bash\nLD_LIBRARY_PATH=%q exec %q "$@"\n' \
        "$(libraries)" "$root/$place" >"$program.partial"
    chmod +x "$program.partial"
    mv "$program.partial" "$program"
fi
if [[ -n $version_argument ]]; then
    "$program" "$version_argument" >&2
fi
echo "$program"
