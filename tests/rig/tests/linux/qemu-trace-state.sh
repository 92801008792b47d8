#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A Linux guest of our QEMU, which the host traces by BTS, is stopped, saved,
# restored, reset and migrated in the middle of a program.  It goes on as if it
# was not traced; what is recorded is exact; and whenever it stands, or is not
# traced any more, nothing of the trace is in its page tables.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: program=@qemu/qemu-img
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S trace-exact.c trace-way.c trace-entries.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1536
# rig: linux=kvm_intel.bts_trace=1
# rig: timeout=1800
set -e
. /bin/guest-trace

qemu-img create -q -f qcow2 disk 64M
options="-object memory-backend-file,id=ram,size=192M,share=on,mem-path=ram
    -machine memory-backend=ram -drive file=disk,if=none,id=disk
    -action reboot=reset"
# shellcheck disable=SC2086
start_runs $options
no_entries
since "it is stopped"
trace state.btrail
run 1
[ "$(entries)" -gt 0 ]
begin_long_run
stop_inside
no_entries
say cont
told "run 2$"
[ "$(entries)" -gt 0 ]

since "it is saved"
begin_long_run
stop_inside
say "savevm here"
answered "here  *[0-9]" "info snapshots"
no_entries
say cont
told "run 3$"

since "it is restored, in the middle of what it has not done then"
begin_long_run
stop_inside
say "loadvm here"
answered paused "info status"
no_entries
say cont
told "run 3$" 2
run 4
[ "$(entries)" -gt 0 ]
end_trace
no_entries
run 5

since "it is reset"
trace reset.btrail
run 6
begin_long_run
stop_inside
say system_reset
say cont
told begins 2
since "it has begun again"
run 1 2
[ "$(entries)" -gt 1 ]
end_trace
no_entries
run 2 2

since "it is migrated"
trace migrated.btrail
run 3 3
begin_long_run
stop_inside
say "migrate -d file:saved"
answered postmigrate "info status"
wait "$agent"
no_entries
echo quit >&3
exec 3>&-
wait "$guest"
# shellcheck disable=SC2086
start_traceable $options -incoming file:saved
since "it goes on elsewhere"
until grep -q "VM status: running" monitor; do
    say "info status"
    say cont
done
told "run 4$" 2
no_entries
trace elsewhere.btrail
run 5 2
[ "$(entries)" -gt 0 ]
end_trace
no_entries
since "it ends"
end_guest

judge state.btrail 4 2
[ "$(gaps state.btrail)" = "1 restored" ]
backtrail script --events reset.btrail >script
trace-exact 2 1 <script
gaps reset.btrail
gaps reset.btrail | grep -q "^1 reset"
gaps reset.btrail | grep -q "^1 mode"
judge migrated.btrail 1 1
[ -z "$(gaps migrated.btrail)" ]
judge elsewhere.btrail 1
[ -z "$(gaps elsewhere.btrail)" ]
since "the traces are judged"
