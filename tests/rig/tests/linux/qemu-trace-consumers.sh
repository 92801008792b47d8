#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Who may want a trace, as Linux had them when it got BTS: of a CPU, its kernel
# or all that it does; of a process, what it does itself, what the kernel does
# for it, or both; and each of them from a moment on, or the last records that
# there were.  A Linux guest of our QEMU has a process that works when it is told
# to, and is traced in each of these ways: what it does in user mode is exact,
# what the kernel does is one way through its code, and there is nothing else.
#
# The producer is KVM on the emulated machine, or TCG here (../run --tcg).
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=turns.S trace-exact.c trace-way.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: tcg=yes
# rig: timeout=600
set -e
. "${ROOT:-}/bin/guest-trace"

# turns N: the process works N times more
done=0
turns() {
    n=0
    while [ "$n" -lt "$1" ]; do
        echo turn >&4
        done=$((done + 1))
        n=$((n + 1))
        told turn "$done"
        told "run $((done + 1)) ends"
    done
}

# consumer NAME OPTION...: has all of it, and the last records of it
consumer() {
    name=$1
    shift
    since "$name"
    trace "$name.btrail" "$@"
    turns 2
    end_trace
    trace "$name-last.btrail" --overflow overwrite --buffer-size 128K "$@"
    kill -STOP "$agent"
    turns 3
    made=0
    # More than there is room for; how many the kernel makes in a turn depends
    # on how many interrupts it has.
    while [ "$made" -lt 8192 ]; do
        turns 1
        execute query-branch-trace
        made=$(sed -n 's/.*"records": \([0-9]*\).*/\1/p' control)
    done
    echo "$made" >"$name-last.made"
    kill -INT "$agent"
    kill -CONT "$agent"
    wait "$agent"
}

start_runs
echo "turns_begin 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16" >&4
told "run 1 ends"
# The page tables of the process, by what it has for a turn
echo turn >&4
done=1
stop_inside turn
root=$(sed -n 's/.*CR3=\([0-9a-f]*\).*/0x\1/p' control)
echo "$root" >root
execute cont
told "run 2 ends"
told turn 1

consumer cpu-kernel --vcpus 0 --kernel
consumer cpu-all --vcpus 0
consumer process-kernel --cr3 "$root" --kernel
consumer process-user --cr3 "$root" --user
consumer process-all --cr3 "$root"
since "it ends"
end_guest

outside root ./*.made ./*.btrail <<'JUDGE'
# look FILE: "script" is what is in the trace; variables are with which index it
# begins and ends, how many records are lost, and how many there are of each kind:
# in user mode, into or out of it, in the kernel, and with another address space
# than the process has
look() {
    echo "$1:"
    backtrail script --events "$1" >script
    awk -v root="$(cut -c 3-15 root)" '
        $5 == "event" && $6 == "gap" {
            gaps++
            sub("lost=", "", $8)
            lost = $8
        }
        $5 == "event" { next }
        {
            if (!n++)
                first = $2
            last = $2
            kind[($5 ~ /^0xf/) + ($6 ~ /^0xf/)]++
            other += substr($4, 3, 13) != root
        }
        END {
            printf "gaps=%d lost=%d first=%d last=%d ", gaps, lost, first, last
            printf "user=%d across=%d kernel=%d other=%d\n", kind[0], kind[1],
                kind[2], other
            exit last - first + 1 != n
        }' script >counts
    cat counts
    . ./counts
}

# only CONSUMER: it has what it wants, and nothing else
only() {
    case $1 in
    *-kernel) [ "$user" = 0 ] && [ "$kernel" -gt 0 ] ;;
    *-user) [ "$user" -gt 0 ] && [ "$kernel" = 0 ] ;;
    *-all) [ "$kernel" -gt 0 ] ;;
    esac
    case $1 in
    process-*) [ "$other" = 0 ] ;;
    esac
}

turn=$(wc -l <"$ROOT/walk")
for consumer in cpu-kernel cpu-all process-kernel process-user process-all; do
    look "$consumer.btrail"
    only "$consumer"
    [ "$across" -gt 0 ]
    [ "$gaps" = 0 ]
    case $consumer in
    cpu-kernel) [ "$other" -gt 0 ] ;;
    cpu-all) [ "$other" -gt 0 ] && runs 2 0 ;;
    process-user | process-all) [ "$user" = $((2 * turn)) ] && runs 2 0 ;;
    esac
    [ "$consumer" = process-user ] || one_way

    # How many there are depends on how full the buffer's slabs have become, and
    # what they are, on how long nothing but timers was left to be done.
    look "$consumer-last.btrail"
    only "$consumer"
    [ "$gaps" = 1 ]
    [ "$lost" -gt 0 ]
    [ "$first" = "$lost" ]
    [ $((last + 1)) -ge "$(cat "$consumer-last.made")" ]
    if [ "$consumer" = process-user ]; then
        runs any any
    else
        one_way
    fi
    # The process has done nothing else since.
    case $consumer in
    process-user | process-all)
        awk '$5 ~ /^0x0/ && $6 ~ /^0x0/ { from = $5; to = $6 }
             END { print from, to }' script | sed 's/0x0*//g' >end
        tail -n 1 "$ROOT/walk" | cmp - end
        ;;
    esac
done
JUDGE
