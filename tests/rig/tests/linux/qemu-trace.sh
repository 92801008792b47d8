#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# "backtrail record" traces a Linux guest, unpatched, of our QEMU under KVM,
# which the host traces by BTS.  The branches of a program in user mode are
# exact, those of the kernel are one way through its code, and the instructions
# before them are the program's and the kernel's.  Who runs, waits and wakes is
# not in the trace, which readers say.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S trace-exact.c trace-way.c trace-insn.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: tcg=yes
# rig: timeout=1800
set -e
. "${ROOT:-}/bin/guest-trace"

start_runs
since "the guest has begun"
trace x.btrail
since "it is traced"
run 1
run 2
run 3
since "it has run the program"
end_trace
since "it is not traced any more"
end_guest
backtrail info x.btrail
outside x.btrail <<'JUDGE'
[ -z "$(gaps x.btrail)" ]
# says WORDS COMMAND...: it fails, and that is why
says() {
    words=$1
    shift
    if backtrail "$@" x.btrail 2>said; then
        exit 1
    fi
    grep -q "$words" said || { cat said; exit 1; }
}
says "names no tasks, .*nobody knows what threads waited for" why --boot
says "does not say who is woken" find wake
says "names no tasks" report --tasks
judge x.btrail 3
first=$(sed -n 's/^run 1 begins at record \([0-9]*\),.*/\1/p' exact)
backtrail script --insn --events --index "$first..$((first + 4000))" x.btrail |
    trace-insn ${BTS_STRICT:+strict} "$ROOT/code" "$ROOT/files/guest-code"
JUDGE
since "it ends"
