#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# "backtrail record" traces a Linux guest, unpatched, of our QEMU under KVM,
# which the host traces by BTS.  The branches of a program in user mode are
# exact.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage
# rig: with=rounds.S
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: timeout=1800
set -e

guest-make <<'TEST'
#!/bin/sh
echo "guest: begins"
for i in 1 2 3 4 5 6; do
    sleep 1
    rounds
done
TEST

guest-run -cpu host -device branch-trace,kvm-root-entry=260 \
    -qmp unix:qmp,server=on,wait=off &
guest=$!
until grep -q "guest: begins" serial 2>/dev/null; do
    kill -0 "$guest"
    sleep 0.1
done
backtrail record --qmp qmp --names off -o x.btrail
wait "$guest"
cat serial
backtrail info x.btrail
backtrail script --events-only x.btrail | grep ' gap ' || true
if grep -q complains serial; then
    exit 1
fi

# The branches from user mode to user mode, by address space.  A process can get
# the page tables of one that has ended, so one space can have several.
backtrail script x.btrail | awk '
    { from = $5; to = $6; sub(/^0x0*/, "", from); sub(/^0x0*/, "", to) }
    from !~ /^ffff/ && to !~ /^ffff/ { print from " " to > ("cr3-" $4) }'

# From its first branch on, they are all that the program makes.
awk '
    BEGIN { i = 0 }
    NR == FNR { walk[n++] = $0; next }
    FNR == 1 && i { bad = 1; exit }
    i || $0 == walk[0] {
        if ($0 != walk[i]) {
            print FILENAME ":" FNR ": " $0 " and not " walk[i]
            bad = 1
            exit
        }
        if (++i == n) {
            runs++
            i = 0
        }
    }
    END {
        print runs + 0 " runs of the program are exact"
        exit bad || i || runs != 6
    }' /walk cr3-*
