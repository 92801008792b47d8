#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A Linux guest of our QEMU is saved to a file while BTS traces a program for
# its perf, and goes on in another QEMU: twice in a trace of user mode, once in
# one of the kernel.  Both traces are exact.
#
# rig: program=@qemu/qemu-system-x86_64 /usr/bin/perf
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S perf-exact.sh perf-records.c kernel-way.c saved-debugctl.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts=1
# rig: timeout=1800
set -e

# Slow enough for somebody to look in, now and then, what runs
guest-make <<'TEST'
#!/bin/sh
echo "guest: traces user mode"
perf-exact u - 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 &&
    echo "guest: user mode is exact"
echo "guest: traces the kernel"
perf-exact k /files/code 1 2 3 4 5 6 7 8 &&
    echo "guest: the kernel is exact"
TEST

# say COMMAND: to the monitor; what it answers is added to "monitor"
say() {
    kill -0 "$guest"
    echo "$1" >&3
    sleep 0.02
}

# go OPTION...: starts QEMU with a monitor that reads from a pipe
go() {
    rm -f monitor.in monitor.out
    mkfifo monitor.in monitor.out
    : >monitor
    cat <monitor.out >>monitor &
    guest-run -chardev pipe,id=monitor,path=monitor -mon monitor "$@" &
    guest=$!
    exec 3>monitor.in
}

# told LINE: waits until the guest has said this
told() {
    until grep -q "guest: $1" serial 2>/dev/null; do
        kill -0 "$guest"
        sleep 0.1
    done
}

# stop_inside: stops the guest in the program; nobody else is at that address
stop_inside() {
    until grep -q "stopped here" monitor; do
        say stop
        : >monitor
        say "info registers"
        if grep -q "RIP=0000000020001[01]" monitor; then
            echo "stopped here" >>monitor
        else
            say cont
        fi
    done
}

# elsewhere BITS: the guest stops in the program and goes on in another QEMU;
# of TR, BTS, BTS_OFF_OS and BTS_OFF_USR it has these set in DEBUGCTL
elsewhere() {
    stop_inside
    say "migrate -d file:state"
    until grep -q "postmigrate" monitor; do
        say "info status"
    done
    echo quit >&3
    exec 3>&-
    wait "$guest"
    debugctl=$(saved-debugctl state)
    echo "DEBUGCTL is $debugctl"
    [ $((debugctl & 0x6c0)) = $(($1)) ]

    go -incoming file:state
    # The state is that of a guest that stands still.
    until grep -q "VM status: running" monitor; do
        say "info status"
        say cont
    done
}

go
told "traces user mode"
elsewhere 0x2c0
# On a slow kernel, the program has ended before it is found a second time.
[ -n "${SLOW_KERNEL:-}" ] || elsewhere 0x2c0
told "traces the kernel"
elsewhere 0x4c0
wait "$guest"
cat serial
if grep -q "complains" serial; then
    exit 1      # set -e does not see "! grep"
fi
grep -q "guest: user mode is exact" serial
grep -q "guest: the kernel is exact" serial
