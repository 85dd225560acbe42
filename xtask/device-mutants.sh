#!/bin/sh
# Shows on a GPU that the cases notice wrong forms of the port: a program that holds them all, each switched on by an
# environment variable, is run on the cases of each.
#
#   sh xtask/device-mutants.sh MUSIC3 LIST
#
# In the root of the tree that `cargo xtask mutants --switched` wrote. MUSIC3 is the program built there, LIST the
# mutants.tsv beside it. BACKEND is `cuda` unless the environment says otherwise, JOBS how many programs run at once (6).
# Without a mutation every case must be green; then, for each mutation, every case that must notice it has to be red.
# A case that stopped instead of computing something else is neither.
set -u
music3=$(realpath "$1") list=$(realpath "$2")
backend=${BACKEND:-cuda} jobs=${JOBS:-6}
work=$(mktemp -d) start=$(date +%s)
trap 'rm -rf "$work"' EXIT
tab=$(printf '\t')

# check NAME CASES...: runs the cases, with what the program says in $work/NAME.txt; compiled kernels in $work/NAME
check() {
    name=$1
    shift
    mkdir -p "$work/$name"
    XDG_CACHE_HOME="$work/$name" MUSIC3_MUTANT="$name" timeout 300 "$music3" check --backend "$backend" "$@" \
        >"$work/$name.txt" 2>&1
    echo $? >"$work/$name.rc"
}

# state NAME CASE: green, red, stopped or missing
state() {
    awk -v case="$2" '
        index($0, "pass " case " ") == 1 { state = "green" }
        index($0, "FAIL " case " ") == 1 { getline; state = /^  output / ? "red" : "stopped" }
        END { print state ? state : "missing" }' "$work/$1.txt"
}

cases=$(cut -f 3,4 "$list" | tr '\t ' '\n\n' | grep -v '^-$' | sort -u)
check none $cases
for case in $cases; do
    if [ "$(state none "$case")" != green ]; then
        echo "$case is $(state none "$case") without a mutation, so that nothing can be shown:"
        tail -n 20 "$work/none.txt"
        exit 1
    fi
done
echo "no mutation: all $(echo "$cases" | wc -l) cases green, $(($(date +%s) - start)) s"

running=0
while IFS=$tab read -r name place must also; do
    [ "$also" = - ] && also=
    # A kernel that was compiled and kept is found by its name, which a mutation of it does not change.
    [ "$place" = host ] && cp -r "$work/none" "$work/$name"
    check "$name" $must $also &
    running=$((running + 1))
    if [ "$running" -ge "$jobs" ]; then
        wait
        running=0
    fi
done <"$list"
wait

bad=0
while IFS=$tab read -r name place must also; do
    [ "$also" = - ] && also=
    verdict=red
    for case in $must; do
        [ "$(state "$name" "$case")" = red ] || verdict='NOT RED'
    done
    [ "$verdict" = red ] || bad=$((bad + 1))
    printf '%-8s%s (%s)\n' "$verdict" "$name" "$place"
    for case in $must; do
        printf '          must %-8s%s\n' "$(state "$name" "$case")" "$case"
    done
    for case in $also; do
        printf '          also %-8s%s\n' "$(state "$name" "$case")" "$case"
    done
    [ "$verdict" = red ] || tail -n 5 "$work/$name.txt"
done <"$list"
echo "$(wc -l <"$list") mutations, $bad not red, $(($(date +%s) - start)) s"
[ "$bad" = 0 ]
