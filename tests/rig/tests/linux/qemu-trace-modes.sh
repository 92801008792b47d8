#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Linux guests of our QEMU, which the host traces by BTS, with what changes how
# their kernel switches page tables: page-table isolation (pti), PCID, page
# tables of five levels, and two vCPUs.  The branches of a program in user mode
# are exact, on each vCPU, those of the kernel are one way through its code, and
# with page-table isolation each is labelled with the page tables that the kernel
# has for it.
#
# tests/rig/run --set MODES=all qemu-trace-modes runs all combinations, and
# --set MODES=on.off.5.1 those with this for pti, PCID, levels and vCPUs.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux-guest:original/bzImage @linux-guest:original/code=guest-code
# rig: with=rounds.S trace-exact.c trace-way.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: features=la57
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: tcg=yes
# rig: timeout=900
set -e
. "${ROOT:-}/bin/guest-trace"

# mode PTI PCID LEVELS VCPUS: traces a guest that has each of the first two or
# not (on, off), 4 or 5 levels, and so many vCPUs
mode() {
    name=pti-$1.pcid-$2.levels-$3.vcpus-$4
    la57=off
    flags=
    if [ "$3" = 5 ]; then
        la57=on
        flags=" la57"
    fi
    # TCG has no PCID.
    [ "$2" = off ] || [ "$model" = max ] || flags="$flags pcid"
    [ "$1" = off ] || flags="$flags pti"
    since "$name"
    mkdir "$name"
    cd "$name"
    start_runs -smp "$4" -cpu "$model,pcid=$2,la57=$la57" \
        -append "quiet console=ttyS0 panic=-1 pti=$1"
    echo mode >&4
    told "run 1 ends"
    grep "mode is$flags $4" serial
    trace trace.btrail
    runs=1
    for mask in 1 2 1 2; do
        [ "$mask" -le "$4" ] || continue
        echo "taskset $mask rounds" >&4
        runs=$((runs + 1))
        told "run $runs ends"
        since "run $runs"
    done
    end_trace
    end_guest
    cd ..
}

modes=${MODES:-on.on.4.1}
if [ "$modes" = all ]; then
    modes=
    for vcpus in 1 2; do
        for pti in on off; do
            for pcid in on off; do
                modes=$modes,$pti.$pcid.4.$vcpus,$pti.$pcid.5.$vcpus
            done
        done
    done
fi
for mode in $(echo "$modes" | tr , ' '); do
    # shellcheck disable=SC2046
    mode $(echo "$mode" | tr . ' ')
done

outside pti-* <<'JUDGE'
for mode in pti-*; do
    echo "$mode:"
    cd "$mode"
    [ -z "$(gaps trace.btrail)" ]
    for vcpu in 0 1; do
        [ "$vcpu" -lt "${mode##*-}" ] || break
        backtrail script --vcpu "$vcpu" --events trace.btrail >script
        runs 2 0
        case $mode in
        pti-on*) one_way pti ;;
        *) one_way ;;
        esac
    done
    cd ..
done
JUDGE
