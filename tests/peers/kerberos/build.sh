#!/usr/bin/env bash
# Finds MIT's key distribution center and its tools, and prints the path of `krb5kdc`. The tools
# `kdb5_util`, `kadmin.local`, `kinit` and `klist` are beside it, and the file `plugins` names the
# directory of the database plugins. Missing programs are unpacked from Debian's packages into
# target/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p target
exec 9>target/lock
flock 9

tools=(krb5kdc kdb5_util kadmin.local kinit klist)
programs=$PWD/target/programs
if [[ ! -e $programs/plugins ]]; then
    search=$PATH:/usr/local/sbin:/usr/sbin
    root=
    for tool in "${tools[@]}"; do
        PATH=$search command -v "$tool" >/dev/null || root=$PWD/target/kdc
    done
    if [[ -n $root ]]; then
        ./unpack.sh "$root" krb5-kdc krb5-admin-server krb5-user
        search=$root/usr/sbin:$root/usr/bin
    fi
    libraries=$(printf "%s:" "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu)
    libraries=${libraries%:}
    mkdir -p "$programs"
    for tool in "${tools[@]}"; do
        path=$(PATH=$search:$PATH command -v "$tool")
        printf '#!/usr/bin/env bash\n%sexec %q "$@"\n' \
            "${root:+export LD_LIBRARY_PATH=$libraries
}" "$path" >"$programs/$tool"
        chmod +x "$programs/$tool"
    done
    plugins=("${root:-}"/usr/lib/*/krb5/plugins/kdb)
    echo "${plugins[0]}" >"$programs/plugins"
fi
echo "$programs/krb5kdc"
