#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# First program of a Linux guest that guest-make makes: sets up what perf
# needs, runs /test, says if the kernel complains, and switches the guest off.
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
cd /tmp || exit
/test
# PEBS of format 0 is what Linux sees in a DS without anything else.
if dmesg | grep -E 'PEBS fmt0|BUG:|WARNING:|Oops|unchecked MSR|unknown reason|stall'; then
    echo "guest: the kernel complains"
fi
echo "guest: ends"
# The serial line is slower than the end.
sleep 1
poweroff -f
