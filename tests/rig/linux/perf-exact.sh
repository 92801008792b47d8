#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# usage: perf-exact MODE [CODE [ARGUMENT...]]
#
# Has perf trace the program "rounds" with intel_bts, in user mode (MODE is u)
# or in the kernel (k), and fails unless the trace is exact: in user mode it
# is what ../walk says, in the kernel one way through its CODE (kernel-way).
# The arguments are for the program.  With a file /files/strict, the kernel is
# that of a guest on the strict model of BTS.
set -e
mode=$1
code=${2:-}
[ $# -lt 2 ] || shift
shift
data=/tmp/$mode.data

# The AUX area takes all of it, however slow perf is to read it, and half of it
# is filled, so that there is an interrupt.  If it takes longer, the kernel has
# more to do meanwhile.
case $mode in
u) pages=32 ;;
k) if [ $# -gt 0 ]; then pages=1024; else pages=64; fi ;;
esac
perf record --per-thread -e "intel_bts//$mode" -m ",$pages" -B -N \
    -o "$data" rounds "$@" >"$data.log" 2>&1 || { cat "$data.log"; exit 1; }
perf-records "$data" >"$data.txt"
case $mode in
u)
    # A return from the kernel begins there, which nothing else does, and a
    # call of it is none of user mode.
    awk '{
        if (length($3) == 16) {
            print "the kernel is traced: " $0
            exit 1
        }
        if (length($1) != 16) {
            print $1 " " $3
        }
    }' "$data.txt" >"$data.seen"
    if ! cmp "$data.seen" /walk; then
        diff "$data.seen" /walk | head -n 20
        exit 1
    fi
    echo "$(wc -l <"$data.seen") records of user mode are exact"
    ;;
k)
    if [ -e /files/strict ]; then
        kernel-way "$code" strict <"$data.txt" || exit 1
    else
        kernel-way "$code" <"$data.txt" || exit 1
    fi
    ;;
esac
