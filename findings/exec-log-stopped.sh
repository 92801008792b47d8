#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A line "Trace" in QEMU's -d exec log does not say that the block ran.
#
# One would guess:
#   With -d exec,nochain each line "Trace" is a block that was executed, so that
#   coverage, counts of calls and comparisons with other tracers can be made of
#   these lines alone.
# What is so:
#   QEMU writes the line before it enters the block.  If somebody wants the CPU
#   (a timer, a device, the end of a time slice), the block is left before its
#   first instruction: "Stopped execution of TB chain before" follows, with the
#   same address, and the block has another "Trace" when it does run.  That is
#   so with -icount, without, and with several CPUs.  QEMU 10.0.13.
# Why it matters:
#   Who counts lines has blocks, and calls, that did not happen, a few in a
#   second of the host, at other places in each run: two logs of one deterministic
#   guest differ, and a tracer that is right seems to miss something.
# How to cope:
#   Drop the "Trace" before each "Stopped".  With several CPUs "Stopped" does not
#   say whose it is, and lines of others can be between the two: drop the last
#   "Trace" that has the same address.
#
# Takes half a minute; fetches 60 MB.

. "$(dirname "$0")/lib.sh" || exit
need pkill python3
from trixie
get_all "$DIR/qemu" qemu-system-x86=1:10.0.13+ds-0+deb13u1
cat >"$DIR/read.py" <<'EOF'
import re
import sys

last = {}
stopped = None
blocks = stops = wrong = again = 0
with open(sys.argv[1], encoding='ascii', errors='replace') as log:
    for line in log:
        if match := re.match(r'Trace (\d+): \S+ \[[0-9a-f]+/([0-9a-f]+)/', line):
            blocks += 1
            again += match[2] == stopped
            last[match[1]], stopped = match[2], None
        elif match := re.match(r'Stopped execution .*\[([0-9a-f]+)\]', line):
            stops += 1
            wrong += match[1] not in last.values()
            stopped = match[1]
print(blocks, stops, wrong, again)
EOF

# run OPTION...: the firmware, which waits for a disk at the end
run() {
    local share=$DIR/qemu/usr/share pid blocks stops wrong again
    within "$DIR/qemu" usr/bin/qemu-system-x86_64 -L "$share/qemu" \
        -L "$share/seabios" -nodefaults -display none -accel tcg "$@" \
        -d exec,nochain -D "$DIR/log" &
    pid=$!
    sleep 5
    end_within "$pid"
    read -r blocks stops wrong again < <(python3 "$DIR/read.py" "$DIR/log")
    say "${*:-no options}: $blocks lines Trace, $stops of them of a block that did" \
        "not run then; $again of these ran next"
    ((blocks > 10000)) || skip "the firmware did not run"
    ((stops > 0)) || changed "all lines are of blocks that ran"
    ((wrong == 0)) || changed "Stopped is not of the last Trace"
    ((again > 0)) || changed "none of them ran next"
}

run
run -icount shift=3
run -smp 2
say "SO IT IS: a line Trace does not say that the block ran"
