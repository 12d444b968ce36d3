#!/usr/bin/env bash
# Plants bugs one after the other in a checkout of HEAD, and shows that the simulation finds them.
#
# Without arguments all bugs are planted, otherwise those named. Each is a patch in this folder,
# whose first lines say the bug, the arguments of `onionskin simulate` that must find it, and the
# exit code of that run (3 crash, 4 safety, 5 liveness). The seed that fails with the bug must
# succeed without it.
#
#     tests/planted/run.sh                    # all of them, about a minute for each
#     tests/planted/run.sh stale-resume-token # one of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=$(realpath -m "${CARGO_TARGET_DIR:-target}")/planted
tree=$root/tree
export CARGO_TARGET_DIR=$root/target CARGO_INCREMENTAL=0 RUSTFLAGS="${RUSTFLAGS:-} -A warnings"
mkdir -p "$root"

clean() {
    git worktree remove --force "$tree" 2>/dev/null || rm -rf "$tree"
}

# Prints a line of the head of a patch.
line() {
    sed -n "s/^$1: //p" "$2" | head -n 1
}

build() {
    (cd "$tree" && cargo build --quiet -p onionskin-simulations)
}

# Plants a bug. Prints the failure that it causes, or fails with the reason why it was not found.
plant() {
    local patch=$1 words code=0 found seed
    git -C "$tree" checkout --quiet . && git -C "$tree" clean -fdq
    if ! git -C "$tree" apply "$patch" || ! build; then
        echo "the patch does not apply, or the tree does not build"
        return 1
    fi
    read -ra words <<<"$(line Find "$patch")"
    found=$(timeout 600 "$CARGO_TARGET_DIR/debug/onionskin" simulate "${words[@]}" --until-failure \
        2>&1) || code=$?
    if [[ $code != "$(line Exit "$patch")" ]]; then
        echo "exit code $code: $(tail -n 1 <<<"$found" | cut -c 1-200)"
        return 1
    fi
    found=$(grep -m 1 -E '^seed [0-9]+' <<<"$found")
    seed=$(cut -d ' ' -f 2 <<<"$found" | tr -dc 0-9)
    # The last value of `--seeds` counts, so that the words before it are kept.
    if ! timeout 600 "$root/sound" simulate "${words[@]:0:${#words[@]}-1}" "$seed" >/dev/null; then
        echo "seed $seed fails without the bug as well"
        return 1
    fi
    cut -c 1-200 <<<"$found"
}

patches=()
for name in "$@"; do
    patches+=("$PWD/tests/planted/$name.patch")
done
[[ $# -gt 0 ]] || patches=("$PWD"/tests/planted/*.patch)
clean
git worktree add --quiet --force --detach "$tree" HEAD
trap clean EXIT
build
cp "$CARGO_TARGET_DIR/debug/onionskin" "$root/sound"
missed=0
for patch in "${patches[@]}"; do
    name=$(basename "$patch" .patch)
    if found=$(plant "$patch"); then
        echo "found $name: $found"
    else
        missed=$((missed + 1))
        echo "MISSED $name: $found"
    fi
done
echo "planted: ${#patches[@]}, missed: $missed"
[[ $missed == 0 ]]
