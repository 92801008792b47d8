#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# From Linux 7.0 on, kallsyms has no base, and its tables are 4-aligned.
#
# One would guess: kallsyms_offsets[i] is an offset from the one address in
# kallsyms_relative_base, as it was for ten years (since 4.6), and the tables
# start at multiples of 8.
#
# What is so: Debian's 6.19.14 is so.  7.0.13 and 7.3.4 have no
# kallsyms_relative_base.  An entry is relative to the place where the entry
# itself is: address = address of kallsyms_offsets[i] + kallsyms_offsets[i].
# Tables start at multiples of 4 only.
#
# Why it matters: whoever finds names in a memory dump or in a guest's RAM (by
# the text of VMCOREINFO or by looking for the tables) needs to know which of
# the two it is.  A fixed base does not fail loudly: it gives addresses near
# the right ones, wrong by 4 bytes for each symbol before.
#
# How to cope: VMCOREINFO of 7.0 and later has no
# SYMBOL(kallsyms_relative_base); without it, take offsets as place-relative.
# When searching, step by 4.  Check what you got: by the right formula the
# addresses ascend; by the other one they do not.
#
# Takes a minute; fetches 40 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3 zstd
from trixie-backports
for version in 6.19.14 7.0.13 7.3.4; do
    kernel "$version" \
        "linux-binary-$version+deb13-cloud-amd64=$version-1~bpo13+1"
    python3 - "$HERE" "$DIR/$version.vmlinuz" "$version" <<'EOF' ||
import sys

sys.path.insert(0, sys.argv[1])
import kernel_image

image = kernel_image.unpack(sys.argv[2])
tables = kernel_image.Kallsyms(image)
sections = kernel_image.sections(image)
old = sys.argv[3].startswith("6.")
fail = []

# The offsets follow token_index.
start, count = tables.token_index_end, tables.count
offsets = tables.words(start, "i", count)
place = [start + 4 * i + offset for i, offset in enumerate(offsets)]
base = tables.words(start + 4 * count + 7 & ~7, "Q", 1)[0]
text = sections[".text"].address
if old:
    addresses = [base + offset for offset in offsets]
else:
    addresses = place
    # What the base would have to be for the first symbol to be right
    base = place[0] - offsets[0]
based = [base + offset for offset in offsets]

print(f"Linux {sys.argv[3]}: {count} symbols")
for name in ("names", "markers", "token_table", "token_index"):
    print(f"  {name:12} at {getattr(tables, name):#x}, "
          f"{getattr(tables, name) % 8} after a multiple of 8")
has = any(name[1:] == "kallsyms_relative_base" for name in tables.symbols)
print(f"  a symbol kallsyms_relative_base: {'yes' if has else 'no'}")
print("  addresses that are lower than the one before: "
      f"{sum(a > b for a, b in zip(based, based[1:]))} with one base "
      f"({base:#x}), {sum(a > b for a, b in zip(place, place[1:]))} "
      "place-relative")

# What the ELF headers say of the same places
known = {"_text": ".text", "__start_rodata": ".rodata", "__start_BTF": ".BTF"}
seen = 0
for i, name in enumerate(tables.symbols):
    if name[1:] in known:
        seen += 1
        right = sections[known[name[1:]]].address
        print(f"  {name[1:]:14} is at {right:#x} by the ELF header, "
              f"{based[i]:#x} with one base, {place[i]:#x} place-relative")
        if addresses[i] != right:
            fail.append(f"{name[1:]} is not where it was")
if seen != len(known):
    fail.append("symbols of the sections are missing")
if addresses != sorted(addresses) or addresses[0] < text:
    fail.append("the addresses do not ascend")
if has != old:
    fail.append("the symbol kallsyms_relative_base came or went")
if old and base != text:
    fail.append("the base is not the start of the kernel")
if not old and based == sorted(based):
    fail.append("the addresses ascend with one base, too")
aligned = all(getattr(tables, name) % 8 == 0 for name in
              ("names", "markers", "token_table", "token_index"))
if aligned != old:
    fail.append("the tables' alignment is another one")
for sentence in fail:
    print(f"  not as found before: {sentence}")
sys.exit(bool(fail))
EOF
        changed "kallsyms of Linux $version are not as they were found"
done
say "SO IT IS: one base up to 6.19, each entry relative to its place from 7.0"
