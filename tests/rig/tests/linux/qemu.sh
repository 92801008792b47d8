#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Our QEMU runs a guest under KVM
#
# rig: program=@qemu/qemu-system-x86_64
# rig: memory=1024
set -e

# The guest is a ROM: from the reset vector to its beginning, where it writes
# "KVM" to the debug console and 0x10 to the port that ends QEMU.
head -c 65520 /dev/zero >rom
printf '\352\000\000\000\360\000\000\000\000\000\000\000\000\000\000\000' >>rom
printf '\260K\346\351\260V\346\351\260M\346\351\260\020\346\364\364' |
    dd of=rom conv=notrunc 2>/dev/null

status=0
qemu-system-x86_64 -accel kvm -cpu host -machine pc -m 16 -nodefaults \
    -display none -bios rom -chardev file,id=out,path=out \
    -device isa-debugcon,iobase=0xe9,chardev=out \
    -device isa-debug-exit,iobase=0xf4 || status=$?
echo "QEMU ended with status $status, and the guest said $(cat out)"
[ "$status" = 33 ]
[ "$(cat out)" = KVM ]
