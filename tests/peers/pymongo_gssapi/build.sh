#!/usr/bin/env bash
# Makes a virtual environment with PyMongo and its extra for GSSAPI in target/, and prints the path
# of a program that runs its interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p target
exec 9>target/lock
flock 9

done_mark=target/venv/requirements.txt
if ! cmp --silent requirements.txt "$done_mark"; then
    rm -rf target/venv
    environment=$(../kerberos/build-env.sh)
    eval "$environment"
    root=${PKG_CONFIG_SYSROOT_DIR:-}
    if [[ -n $root ]]; then
        # The package finds the compiler's options by this program.
        export PATH=$root/usr/bin:$PATH CFLAGS="-I$root/usr/include"
        export LDFLAGS="-L${PKG_CONFIG_PATH%/pkgconfig}"
    fi
    timeout 120 python3 -m venv target/venv >&2
    timeout 300 target/venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --requirement requirements.txt >&2
    printf '#!/usr/bin/env bash\n%s\nexec %q "$@"\n' "$environment" \
        "$PWD/target/venv/bin/python" >target/python
    chmod +x target/python
    cp requirements.txt "$done_mark"
fi
echo "$PWD/target/python"
