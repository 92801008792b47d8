#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# usage: guest-make <TEST
#
# Makes "initrd" of the programs and libraries that are here, for a Linux guest
# that runs the shell script TEST (see guest-init).  "guest-run" starts it.
set -e
root=${ROOT:-}
mkdir -p guest/bin guest/dev guest/files guest/proc guest/sys guest/tmp
cp "$root/bin/busybox" guest/bin
for program in rounds turns bts-exact window-liar; do
    [ ! -e "$root/bin/$program" ] || cp "$root/bin/$program" guest/bin
done
[ ! -e "$root/walk" ] || cp "$root/walk" guest
module=$root/files/backtrail-window.ko
[ ! -e "$module" ] || cp "$module" guest/files
if [ -e /bin/perf-exact ]; then
    # The machine has libraries of other programs, too.
    for library in $(/lib64/ld-linux-x86-64.so.2 --list /bin/perf |
        sed -n 's/.* \(\/[^ ]*\) (0x.*/\1/p') /lib64/ld-linux-x86-64.so.2; do
        mkdir -p "guest${library%/*}"
        cp "$library" "guest$library"
    done
    cp /bin/perf /bin/perf-exact /bin/perf-records guest/bin
fi
ln -s busybox guest/bin/sh
if [ -e /bin/kernel-way ]; then
    cp /bin/kernel-way guest/bin
    cp /files/guest-code guest/files/code
    [ -z "${BTS_STRICT:-}" ] || : >guest/files/strict
fi
cp "$root/bin/guest-init" guest/init
cat >guest/test
chmod 755 guest/test
(cd guest && find . | cpio -o -H newc >../initrd)
rm -r guest
