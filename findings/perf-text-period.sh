#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The Firefox Profiler counts the samples of perf script, and not their periods.
#
# One would guess:
#   A line of perf script has the period of its sample, the number of events
#   that it stands for.  A profiler that imports the text weighs samples by it,
#   as perf report does, and stackcollapse-perf.pl of FlameGraph.
# What is so:
#   The Firefox Profiler takes name, thread, time and stack of a sample, and
#   leaves out the number.  A sample of 1000 events and one of 1 event have
#   half of a profile each.
#   @firefox-devtools/profiler-cli 0.10.0, which has the importers of the page.
# Why it matters:
#   Where perf samples by frequency, periods vary from the beginning on.  What
#   is rare there has as much of the profile as what is not, and nothing says
#   so.
# How to cope:
#   Give such readers samples of one period (perf record -c), or stacks with
#   counts, in the format of stackcollapse.
#
# Fetches 420 KB; needs node 20 or newer, and npm.

. "$(dirname "$0")/lib.sh" || exit
need npm node python3
PACKAGE=@firefox-devtools/profiler-cli@0.10.0

(cd "$DIR" && npm pack --silent "$PACKAGE") >"$DIR/log" 2>&1 ||
    skip "$PACKAGE is not to be had any more"
tar -xzf "$DIR"/*.tgz -C "$DIR"

# sample SECONDS PERIOD FUNCTION: as perf script prints one
sample() {
    printf 'prog     7 [000] %15s: %10s cycles:\n' "$1" "$2"
    printf '\t          %x %s+0x0 (/prog)\n' $((0x401000)) "$3" \
        $((0x402000)) main
    echo
}
{
    sample 1.000001 1 rare
    sample 1.000002 1000 often
} >"$DIR/text"

export PROFILER_CLI_SESSION_DIR=$DIR/sessions PROFILER_CLI_NO_SYMBOLICATE=1
ask() {
    node "$DIR/package/dist/profiler-cli.js" "$@"
}
# It starts a process of its own, for which it waits half a second only.
ask load "$DIR/text" >"$DIR/log" 2>&1 || :
trap 'ask stop >/dev/null 2>&1 || :; rm -rf "$DIR"' EXIT
for ((i = 0; i < 60; i++)); do
    ! ask thread functions --json >"$DIR/json" 2>"$DIR/log" || break
    sleep 1
done
python3 - "$DIR/json" >"$DIR/counts" <<'END' || changed "it does not load"
import json, sys
for f in json.load(open(sys.argv[1]))['functions']:
    print(f['name'], f['selfSamples'], f"{f['selfPercentage']:g}%")
END
cat "$DIR/text" "$DIR/counts"
grep -qx 'rare 1 50%' "$DIR/counts" || changed "rare() has another share"
grep -qx 'often 1 50%' "$DIR/counts" || changed "often() has another share"
say "SO IT IS"
