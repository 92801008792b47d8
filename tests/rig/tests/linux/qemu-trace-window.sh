#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A Linux guest whose module maps the window of a trace itself (guest-tools/
# module), since nobody may write into its page tables.  Without the module
# there are no records; with it, programs are exact on each of two vCPUs, and
# what the kernel of each does is one way through its code.  While the guest is
# traced, the module is loaded again and again, beside a program that runs
# meanwhile, and told that the machine sleeps, and a program says that the
# window is elsewhere: there are gaps, and the guest does not notice.  A guest
# with page-table isolation refuses the module, and so does one that is offered
# no window.
#
# tests/rig/run --set RELOADS=200 qemu-trace-window loads it as often as that.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux-guest:original/bzImage @linux-guest:original/code=guest-code
# rig: file=@linux-guest:original/backtrail-window.ko
# rig: with=rounds.S trace-entries.c trace-exact.c trace-way.c window-liar.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: timeout=900
set -e
. "${ROOT:-}/bin/guest-trace"

# window NAME PTI: starts a guest, in a folder of that name, that has page-table
# isolation or not (on, off)
window() {
    since "$1"
    mkdir "$1"
    cd "$1"
    runs=0
    start_runs -smp 2 -append "quiet console=ttyS0 panic=-1 pti=$2" \
        -object memory-backend-file,id=ram,size=192M,share=on,mem-path=ram \
        -machine memory-backend=ram
}

# does COMMAND...: the guest has done it
does() {
    echo "$*" >&4
    runs=$((runs + 1))
    told "run $runs ends"
    since "$*"
}

# end: the guest does
end() {
    end_guest
    rm ram
    cd ..
}

# shellcheck disable=SC2034
mapped=kvm-guest-window=on
window mapped off
trace none.btrail
does rounds
end_trace

does load
trace mapped.btrail
does taskset 1 rounds
does taskset 2 rounds
no_entries
does taskset 1 rounds
end_trace

trace reloads.btrail
does rounds
does reload_beside "${RELOADS:-5}"
does rounds
does doze
does rounds
does window-liar 1000
does rounds
no_entries
end_trace
does unload
does rounds
end

# refused WHY: the module has said so, to the guest
refused() {
    does refuse
    grep "guest: refused: $1" serial
}

# When records are stored, which the strict model says, matters to none of these.
if [ -z "${BTS_STRICT:-}" ]; then
    window isolated on
    refused "page-table isolation"
    does rounds
    end

    # shellcheck disable=SC2034
    mapped=kvm-root-entry=260
    window not-offered off
    refused "the host offers no window"
    end
fi

cd mapped
outside none.btrail mapped.btrail reloads.btrail <<'JUDGE'
[ -z "$(backtrail script none.btrail)" ]
[ "$(gaps none.btrail | cut -d " " -f 2)" = address-space ]
exact mapped.btrail 3
[ -z "$(gaps mapped.btrail)" ]
for vcpu in 0 1; do
    backtrail script --vcpu "$vcpu" --events mapped.btrail >script
    one_way
done
# Of the program beside which the module was loaded there are pieces.
exact reloads.btrail 4 any
grep "^piece" exact
gaps reloads.btrail
gaps reloads.btrail | cut -d " " -f 2 | sort -u >reasons
grep -x address-space reasons
# Some of the lies are addresses that this kind of paging has not got.
[ -z "$(grep -vxE "address-space|mode" reasons)" ]
JUDGE
since "it ends"
