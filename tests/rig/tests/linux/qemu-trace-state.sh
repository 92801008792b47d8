#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A Linux guest of our QEMU, which the host traces by BTS, is stopped, saved,
# restored, migrated and reset in the middle of a program.  It goes on as if it
# was not traced; what is recorded is exact, and says where something is missing;
# and whenever the guest stands, or is not traced any more, nothing of the trace
# is in its page tables.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S trace-exact.c trace-way.c trace-entries.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1536
# rig: linux=kvm_intel.bts_trace=1
# rig: timeout=600
set -e
. /bin/guest-trace

# start_here COMMAND OPTION...: starts the guest, by start_runs or the like
start_here() {
    "$@" -action reboot=reset \
        -object memory-backend-file,id=ram,size=192M,share=on,mem-path=ram \
        -machine memory-backend=ram
}

# traced: something of the trace is there
traced() {
    [ "$(entries)" -gt 0 ]
}

start_here start_runs
no_entries
# This kernel does not lock files.
: >disk
execute blockdev-add '"driver": "file", "node-name": "file", "filename": "disk",
    "locking": "off"'
job blockdev-create '"options": {"driver": "qcow2", "file": "file",
    "size": 1048576}'
execute blockdev-add '"driver": "qcow2", "node-name": "disk", "file": "file"'
snapshot='"tag": "here", "vmstate": "disk", "devices": ["disk"]'

since "it is saved"
trace state.btrail
run 1
traced
begin_run 1 2 3
stop_inside
no_entries
job snapshot-save "$snapshot"
no_entries
execute cont
told "run 2 ends"
traced

since "it is restored, in the middle of what it has not done then"
begin_run 1 2 3
stop_inside
job snapshot-load "$snapshot"
no_entries
execute cont
told "run 2 ends" 2
run 3
traced
end_trace
no_entries

since "it is migrated"
trace migrated.btrail
begin_run 1 2 3
stop_inside
execute migrate '"uri": "file:saved"'
status postmigrate
wait "$agent"
no_entries
quit
start_here start_traceable -incoming file:saved
status paused
since "it goes on elsewhere"
no_entries
trace elsewhere.btrail
execute cont
told "run 4 ends"
run 5
traced
end_trace
no_entries

# records: how many there are
records() {
    execute query-branch-trace
    sed -n 's/.*"records": \([0-9]*\).*/\1/p' control
}

since "it is reset"
trace reset.btrail
begin_run 1 2 3
stop_inside
before=$(records)
execute system_reset
execute cont
# In firmware there are none; all of a boot would take minutes.
until [ "$(records)" -gt $((before + 10000)) ]; do
    sleep 0.1
done
traced
since "it begins again"
end_trace
no_entries
told begins 2
trace again.btrail
run 1 2
end_trace
no_entries
since "it ends"
end_guest

outside state.btrail migrated.btrail elsewhere.btrail reset.btrail \
    again.btrail <<'JUDGE'
# but FILE REASON...: these are its gaps, each once or more; none is for a page of
# the window, although KVM forgets all when the guest's memory comes and goes
but() {
    gaps "$1" >gaps
    echo "gaps: $(xargs <gaps)"
    shift
    [ "$(sed 's/.* //' gaps | xargs)" = "$*" ]
}

judge state.btrail any any
but state.btrail reset restored
# Before it is restored two runs and a piece of one, and then more than a run
at=$(sed -n 's/^0 \([0-9]*\) .* event gap reason=restored .*/\1/p' script)
awk -v at="$at" -v run="$(wc -l <"$ROOT/walk")" '
    $1 == "run" { n = run; begin = $6 + 0 }
    $1 == "piece" { n = $4; begin = $9 + 0 }
    $1 == "run" || $1 == "piece" {
        branches[begin >= at] += n
    }
    END {
        print branches[0] " branches before, and " branches[1] " after"
        exit branches[0] <= 2 * run || branches[1] <= run
    }' exact
judge migrated.btrail 0 1
grep ^piece exact >pieces
but migrated.btrail
backtrail info migrated.btrail | grep " migrated$"
judge elsewhere.btrail 1 1
grep ^piece exact >>pieces
[ "$(awk '{ n += $4 } END { print n }' pieces)" = "$(wc -l <"$ROOT/walk")" ]
but elsewhere.btrail
# Firmware and what unpacks the kernel are in no page tables of before.
exact reset.btrail 0 1
# A kernel that begins may take the window out of its page tables.
gaps reset.btrail | grep -q unmapped && may=unmapped || may=
# shellcheck disable=SC2086
but reset.btrail mode reset smm $may
judge again.btrail 1
but again.btrail
JUDGE
since "it has ended"
