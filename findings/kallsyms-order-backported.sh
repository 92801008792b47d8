#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# An update of Linux 6.1 moved its tables of symbols apart, as 6.2 had done.
#
# One would guess: kernels of one stable series have their tables of symbols in
# the same order.  In 6.1 kallsyms_token_table follows kallsyms_markers, as it
# did before; kallsyms_seqs_of_names, between the two, is new in 6.2.
#
# What is so: Debian's 6.1.176 has 3 bytes for each symbol between
# kallsyms_markers and kallsyms_token_table: the numbers of the symbols in the
# order of their names, with the highest byte first.  In 6.12.107 they are
# elsewhere, and token_table follows the markers.
#
# Why it matters: whoever finds the tables in memory by their form, from one to
# the next, fails with a 6.1 that has the update, and not with 6.12.  The kernel's
# version does not say which it is.  VMCOREINFO does, but a kernel that
# boots has none yet.
#
# How to cope: go by the contents.  If no markers end where token_table begins,
# look for those that end 3 bytes a symbol before.
#
# Takes a minute or two; fetches 100 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3 zstd

# look VERSION BYTES: how many there are for each symbol between the two
look() {
    python3 - "$HERE" "$DIR/$1.vmlinuz" "$1" "$2" <<'EOF' ||
import sys

sys.path.insert(0, sys.argv[1])
import kernel_image

tables = kernel_image.Kallsyms(kernel_image.unpack(sys.argv[2]))
each = int(sys.argv[4])
gap = tables.token_table - tables.markers_end
print(f"Linux {sys.argv[3]}: {tables.count} symbols, {gap} bytes between "
      "kallsyms_markers and kallsyms_token_table")
if not 0 <= gap - each * tables.count < 8:
    sys.exit(f"  not as found before: these are not {each} for each symbol")
if each:
    data = tables.words(tables.markers_end, "B", 3 * tables.count)
    order = [data[i] << 16 | data[i + 1] << 8 | data[i + 2]
             for i in range(0, len(data), 3)]
    names = [tables.symbols[i][1:] for i in order
             if i < tables.count]
    print(f"  as numbers of symbols: {names[0]}, {names[1]}, ... {names[-1]}")
    if sorted(order) != list(range(tables.count)) or names != sorted(names):
        sys.exit("  not as found before: they are not the order of the names")
EOF
        changed "kallsyms of Linux $1 is not as it was found"
}

from bookworm
kernel 6.1.176 linux-image-6.1.0-50-amd64=6.1.176-1
look 6.1.176 3
from trixie
kernel 6.12.107 linux-image-6.12.107+deb13-cloud-amd64=6.12.107-1
look 6.12.107 0
say "SO IT IS: 6.1.176 has the order of its symbols before kallsyms_token_table"
