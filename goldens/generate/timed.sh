# For scripts that run one long command after another; they set `work`, `reports` and `worst`.

# timed NAME SECONDS COMMAND...: runs it under a timeout, shows what it prints and keeps that in REPORTS/NAME.txt.
timed() {
    name=$1 limit=$2 start=$(date +%s)
    shift 2
    echo "== $name: $*"
    { timeout "$limit" "$@" 2>&1; echo $? >"$work/status"; } | tee "$reports/$name.txt"
    status=$(cat "$work/status")
    echo "== $name: exit $status, $(($(date +%s) - start)) s"
    [ "$status" -le "$worst" ] || worst=$status
    return "$status"
}
