#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The trace event task:task_rename lost its field pid, and got it back.
#
# One would guess: fields of trace events are added, hardly ever removed, and
# an event that has lost a field stays without it.
#
# What is so: in Debian's 6.12.107, task:task_rename has pid, at offset 8.  In
# 6.16.12 it has not: oldcomm is at offset 8.  In 7.3.4 pid is at 8 again.
#
# Why it matters: tracers that keep the names of tasks up to date read this
# event from perf's or ftrace's buffers, raw.  A fixed layout takes four
# letters of the old name for a pid with some kernels, and new names without
# their first four letters.  A program that asks for pid and gives up without it
# works with older and newer kernels and fails with those between.
#
# How to cope: read the event's format file for each kernel; where pid is
# missing, take common_pid only if the task renames itself: a thread may also
# write another thread's name, through /proc/PID/task/TID/comm.
#
# Takes 3 minutes; fetches 200 MB; boots guests under
# TCG.

. "$(dirname "$0")/lib.sh" || exit
need timeout gzip
start_guests
say 'cat /sys/kernel/tracing/events/task/task_rename/format' >"$DIR/look"

fields='s/.*field:[^;]* ([a-z_]+)(\[16\])?;.*offset:([0-9]+);.*/\1:\3/p'

# look VERSION EXPECTED: EXPECTED is the offsets of the event's own fields
look() {
    local seen
    guest "$1" 300 <"$DIR/look" >"$DIR/format"
    seen=$(sed -nE "$fields" "$DIR/format" | grep -v '^common_' |
        paste -sd ' ')
    say "Linux $1: $seen"
    [ "$seen" = "$2" ] ||
        changed "task_rename of Linux $1 had the fields $2"
}

kernel 6.12.107 linux-image-6.12.107+deb13-cloud-amd64=6.12.107-1
look 6.12.107 'pid:8 oldcomm:12 newcomm:28 oom_score_adj:44'
from trixie-backports
kernel 6.16.12 linux-image-6.16.12+deb13-cloud-amd64=6.16.12-1~bpo13+1
look 6.16.12 'oldcomm:8 newcomm:24 oom_score_adj:40'
kernel 7.3.4 linux-binary-7.3.4+deb13-cloud-amd64=7.3.4-1~bpo13+1
look 7.3.4 'pid:8 oldcomm:12 newcomm:28 oom_score_adj:44'
say "SO IT IS: pid is in 6.12 and 7.3, and not in 6.16"
