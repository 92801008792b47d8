# shellcheck shell=bash disable=SC2154 # dir is the test's
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the tests of scripts/remember and scripts/remember-program share.
# Sourced, never run; ends with done_expecting.  A test that they run adds a byte
# to $dir/runs.

number=0 failed=0
# expect TITLE RUNS STATUS COMMAND...: how many times the test has run then
expect() {
    local title=$1 runs=$2 want=$3 status=0 had
    shift 3
    "$@" >"$dir/output" 2>"$dir/errors" </dev/null || status=$?
    number=$((number + 1))
    had=$(stat -c %s "$dir/runs")
    if [ "$had" = "$runs" ] && [ "$status" = "$want" ]; then
        echo "ok $number - $title"
    else
        echo "not ok $number - $title"
        failed=1
        echo "# $had runs, status $status"
        sed 's/^/# /' "$dir/output" "$dir/errors"
    fi
}

# printed TITLE PATTERN [errors]: a line of what the last one has printed
printed() {
    local file=$dir/${3:-output}
    number=$((number + 1))
    if grep -qxE -- "$2" "$file"; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        failed=1
        sed 's/^/# /' "$file"
    fi
}

# Or scripts/remember would keep this.
done_expecting() {
    echo "1..$number"
    exit "$failed"
}
