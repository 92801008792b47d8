#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Debian's perf traces a program on the machine itself, with an unpatched
# kernel: both modes are exact
#
# rig: kernel=original
# rig: program=/usr/bin/perf
# rig: file=@linux:original/code
# rig: with=rounds.S perf-exact.sh perf-records.c kernel-way.c
set -e
perf-exact u
perf-exact k /files/code

# It would be seen if a record was missing, or another; but for a loop that
# went round once less, which is a way, too.
missed=0
for n in 100 1100 2100 3100; do
    sed "${n}d" k.data.txt | kernel-way /files/code >/dev/null &&
        missed=$((missed + 1))
    if sed "${n}s/ => .*/ => ffffffff81000000/" k.data.txt |
        kernel-way /files/code >/dev/null; then
        echo "kernel-way does not see that record $n is wrong"
        exit 1
    fi
done
echo "kernel-way misses $missed of 4 records left out"
[ "$missed" -lt 3 ]
