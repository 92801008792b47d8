#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A gdb at the gdbstub of our QEMU gets the last branches of a Linux guest, which
# the host traces by BTS: those that a program has taken when it is stopped in
# its middle are exact.  The program goes on, and an agent can trace the guest.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S live-blocks.c trace-exact.c trace-way.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: tcg=yes
# rig: timeout=600
set -e
. "${ROOT:-}/bin/guest-trace"

start_runs -gdb unix:gdb,server=on,wait=off
since "the guest has begun"
mkfifo lines
live-blocks gdb 1048576 <lines >live &
gdb=$!
exec 6>lines
until grep -qs branch-trace "/proc/$guest"/task/*/comm; do
    kill -0 "$gdb"
    sleep 0.05
done
begin_run_inside
stop_inside
since "it is in the program"
echo >&6
wait "$gdb"
since "gdb has gone"
execute cont
told "run 1 ends"
since "the program has ended"
trace x.btrail
run 2
end_trace
end_guest
outside live x.btrail <<'JUDGE'
cp live script
runs 0 1
[ "$(sed -n 's/^piece 1, of \([0-9]*\) .*/\1/p' exact)" -gt 100 ]
judge x.btrail 1
JUDGE
since "it ends"
