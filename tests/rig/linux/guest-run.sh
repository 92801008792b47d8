#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# usage: guest-run [QEMU-OPTION...]
#
# Runs the guest that guest-make has made, under our QEMU and KVM, with BTS;
# "serial" is what it prints.
exec qemu-system-x86_64 -L /files -accel kvm \
    -cpu host,+ds,+dtes64,+ds-cpl -machine pc -m 192 \
    -nodefaults -display none -no-reboot \
    -chardev file,id=serial,path=serial,append=on -serial chardev:serial \
    -kernel /files/bzImage -initrd initrd \
    -append "quiet console=ttyS0 panic=-1" "$@"
