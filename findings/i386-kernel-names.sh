#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Debian's 32-bit kernels name no data, and have no BTF.
#
# One would guess: the 686-pae kernel of Debian 12 has the same kallsyms and
# the same BTF as the amd64 kernel of the same version, built from one source.
#
# What is so: of 6.1.176, amd64 has CONFIG_KALLSYMS_ALL and
# CONFIG_DEBUG_INFO_BTF; 686-pae has neither.  Its kallsyms lacks linux_banner,
# init_task and sys_call_table, and its vmlinux has no section .BTF.
#
# Why it matters: debuggers, tracers and introspection that start from
# init_task's address and BTF's offsets find neither in such a guest; only
# functions have names.  A look-up of data by "the nearest symbol below" can give
# the name of a function.
#
# How to cope: name functions only, and say what is missing.  The structures'
# layout must come from elsewhere (System.map and debug symbols of the package).
#
# Takes a minute; fetches 120 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3

# look NAME EXPECTED
look() {
    local seen all
    seen="$(grep -cx 'CONFIG_KALLSYMS_ALL=y' "$DIR/$1.config" || :)"
    seen+=" $(grep -cx 'CONFIG_DEBUG_INFO_BTF=y' "$DIR/$1.config" || :)"
    seen+=" $(python3 - "$HERE" "$DIR/$1.vmlinuz" <<'EOF'
import sys

sys.path.insert(0, sys.argv[1])
import kernel_image

image = kernel_image.unpack(sys.argv[2])
tables = kernel_image.Kallsyms(image)
names = {name[1:] for name in tables.symbols}
print(tables.count, int(".BTF" in kernel_image.sections(image)),
      *(int(name in names) for name in
        ("vfs_read", "linux_banner", "init_task", "sys_call_table")))
EOF
    )"
    read -ra all <<<"$seen"
    set -- "$1" "$2" "${all[@]}"
    say "Linux 6.1.176 $1: $5 symbols; CONFIG_KALLSYMS_ALL $3," \
        "CONFIG_DEBUG_INFO_BTF $4, section .BTF $6, names of vfs_read $7," \
        "linux_banner $8, init_task $9, sys_call_table ${10} (1: is there)"
    [ "$3 $4 $6 $7 $8 $9 ${10}" = "$2" ] ||
        changed "Linux 6.1.176 $1 had $2 in this order"
}

from bookworm
kernel amd64 linux-image-6.1.0-50-amd64=6.1.176-1
look amd64 '1 1 1 1 1 1 1'
from bookworm i386
kernel 686-pae linux-image-6.1.0-50-686-pae=6.1.176-1
look 686-pae '0 0 0 1 0 0 0'
say "SO IT IS: the 32-bit kernel has names of functions, and no BTF"
