#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# usage: guest-run [QEMU-OPTION...]
#
# Runs the guest that guest-make has made, under our QEMU and KVM, with BTS, or
# without KVM if ACCEL is tcg; "serial" is what it prints.
root=${ROOT:-}
cpu=host,+ds,+dtes64,+ds-cpl
[ "${ACCEL:-kvm}" = kvm ] || cpu=max
exec qemu-system-x86_64 -L "$root/files" -accel "${ACCEL:-kvm}" \
    -cpu "$cpu" -machine pc -m 192 \
    -nodefaults -display none -no-reboot \
    -chardev file,id=serial,path=serial,append=on -serial chardev:serial \
    -kernel "$root/files/bzImage" -initrd initrd \
    -append "quiet console=ttyS0 panic=-1" "$@"
