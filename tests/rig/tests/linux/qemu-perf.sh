#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A Linux guest of our QEMU, unpatched, whose perf traces a program with the
# BTS that KVM gives the guest; while perf traces the same program on the host,
# on the same CPU.  Both are exact, in user mode and in the kernel.
#
# rig: program=@qemu/qemu-system-x86_64 /usr/bin/perf
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: file=@linux/code=host-code
# rig: with=rounds.S perf-exact.sh perf-records.c kernel-way.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts=1
# rig: timeout=1800
set -e

guest-make <<'TEST'
#!/bin/sh
nmis() {
    sed -n 's/^ *NMI: *\([0-9]*\).*/\1/p' /proc/interrupts
}
echo "guest: begins, Linux $(uname -r)"
before=$(nmis)
perf-exact u && perf-exact k /files/code && perf-exact u /files/code &&
    echo "guest: exact, with $(($(nmis) - before)) NMIs"
TEST

guest-run &
guest=$!
until grep -q "guest: begins" serial 2>/dev/null; do
    kill -0 "$guest"
    sleep 0.1
done
at_a_time=0
# intel_bts has room for 170 records until it has switched BTS off, which a slow
# kernel fills in a trace of its own.  It also has time for one trace only.
modes="u k" least=2
[ -z "${SLOW_KERNEL:-}" ] || modes=u least=1
while kill -0 "$guest" 2>/dev/null; do
    for mode in $modes; do
        perf-exact "$mode" /files/host-code
        if ! grep -q "guest: ends" serial; then
            at_a_time=$((at_a_time + 1))
        fi
    done
done
wait "$guest"
cat serial
echo "$at_a_time traces of the host while the guest traced itself"
if grep -q "complains" serial; then
    exit 1      # set -e does not see "! grep"
fi
grep -q "guest: exact, with [1-9]" serial
[ "$at_a_time" -ge "$least" ]
