#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A Linux guest of our QEMU, which the host traces by BTS, has a BTS of its own,
# and the perf of its kernel traces a program with it.  The guest wins: its trace
# is exact, the host's says where it has none, and is exact but for that.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S trace-exact.c trace-way.c bts-exact.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts=1 kvm_intel.bts_trace=1
# rig: timeout=600
set -e
. /bin/guest-trace

start_runs -cpu host,+ds,+dtes64,+ds-cpl
since "the guest has begun"
trace perf.btrail
run 1
since "its perf traces"
echo bts-exact >&4
told "run 2 ends"
since "it does not any more"
run 3
end_trace
echo bts-exact >&4
told "run 4 ends"
since "it ends"
end_guest

[ "$(grep -c "2995 branches as they should be" serial)" = 2 ]
outside perf.btrail <<'JUDGE'
judge perf.btrail 2
[ "$(gaps perf.btrail | cut -d ' ' -f 2)" = guest-bts ]
JUDGE
since "it has ended"
