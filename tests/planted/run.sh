#!/usr/bin/env bash
# Plants bugs one after the other in a copy of the tree, and shows that the simulation finds them.
#
# Without arguments all bugs are planted, otherwise those named. Each is a patch in this folder,
# whose first lines say the bug, the arguments of `onionskin simulate` that must find it, and the
# exit code that these must have (3 crash, 4 safety, 5 liveness).
#
#     tests/planted/run.sh                  # all of them, about a minute for each
#     tests/planted/run.sh lost-increments  # one of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=${CARGO_TARGET_DIR:-$PWD/target}/planted
tree=$root/tree
export CARGO_TARGET_DIR=$root/target CARGO_INCREMENTAL=0 RUSTFLAGS="${RUSTFLAGS:-} -A warnings"
mkdir -p "$root"
git worktree remove --force "$tree" 2>/dev/null || true
git worktree prune
git worktree add --quiet --detach "$tree" HEAD
trap 'git worktree remove --force "$tree"' EXIT

# Prints a line of the head of a patch.
line() {
    sed -n "s/^$1: //p" "$2" | head -n 1
}

patches=()
for name in "$@"; do
    patches+=("$PWD/tests/planted/$name.patch")
done
[[ $# -gt 0 ]] || patches=("$PWD"/tests/planted/*.patch)
missed=0
for patch in "${patches[@]}"; do
    name=$(basename "$patch" .patch)
    git -C "$tree" checkout --quiet .
    git -C "$tree" apply "$patch"
    (cd "$tree" && cargo build --quiet -p onionskin-simulations)
    read -ra words <<<"$(line Find "$patch")"
    code=0
    found=$(timeout 600 "$CARGO_TARGET_DIR/debug/onionskin" simulate "${words[@]}" --until-failure \
        2>&1) || code=$?
    wanted=$(line Exit "$patch")
    if [[ $code == "$wanted" ]]; then
        echo "found $name: $(grep -m 1 -E '^(seed|replay)|(Crash|Liveness|Correctness) at' \
            <<<"$found" | cut -c 1-200)"
    else
        missed=$((missed + 1))
        echo "MISSED $name: exit code $code, not $wanted: $(tail -n 1 <<<"$found" | cut -c 1-200)"
    fi
done
echo "planted: ${#patches[@]}, missed: $missed"
[[ $missed == 0 ]]
