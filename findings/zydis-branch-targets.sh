#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Zydis 4.1 cuts the target of a branch to the size of the instruction's
# addresses, which a prefix makes smaller; Zydis 4.0 does not.
#
# One would guess:
#   JECXZ in 64-bit code is JRCXZ with the prefix 67.  The prefix says which
#   register counts, so both are printed with the same target.
# What is so:
#   - At 0xffffffff81000000, Zydis 4.0.0 prints "jecxz 0xFFFFFFFF81000005", and
#     Zydis 4.1.1 "jecxz 0x81000005": where 4.0 took the width of the stack to
#     print a target, 4.1 takes the width of addresses.  LOOP is the same, and so
#     is a branch that has the prefix without any meaning.
#   - ZydisCalcAbsoluteAddress() has the whole target in both.
#   libzydis4.0 4.0.0-1 (Debian 12), libzydis4.1 4.1.1-1 (Debian 13).
# Why it matters:
#   Who reads the disassembly of a kernel, or looks the printed target up in a
#   list of symbols, is led to user space.  A program that widens stack_width to
#   have 16-bit targets printed as linear addresses does it for nothing with 4.1.
# How to cope:
#   Set address_width, too, to that of the mode before the instruction is
#   formatted; or print the target by ZydisCalcAbsoluteAddress().

. "$(dirname "$0")/lib.sh" || exit
need gcc

cat >"$DIR/print.c" <<'END'
#include <inttypes.h>
#include <stdio.h>
#include <Zydis/Zydis.h>

#define AT 0xffffffff81000000

static void print(const char *bytes, size_t n)
{
    ZydisDisassembledInstruction insn;
    ZyanU64 target;

    if (ZYAN_FAILED(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, AT,
                                          bytes, n, &insn)) ||
        ZYAN_FAILED(ZydisCalcAbsoluteAddress(&insn.info, insn.operands, AT,
                                             &target))) {
        puts("not decoded");
        return;
    }
    printf("%s, calculated 0x%" PRIX64 "\n", insn.text, target);
}

int main(void)
{
    print("\xe3\x03", 2);
    print("\x67\xe3\x02", 3);
    print("\x67\xe2\x02", 3);
    print("\x67\xe9\2\0\0\0", 6);
    return 0;
}
END

# printed SUITE LIBRARY DEVELOPMENT: what its Zydis prints
printed() {
    local root=$DIR/$1 lib
    from "$1"
    get_all "$root" "$2"
    get_all "$root" "$3"
    lib=$root/usr/lib/x86_64-linux-gnu
    gcc -I "$root/usr/include" -o "$DIR/print" "$DIR/print.c" -L "$lib" \
        -Wl,-rpath-link,"$lib" -lZydis
    mv "$DIR/print" "$root"
    within "$root" print
}

# check SUITE LIBRARY DEVELOPMENT WANTED
check() {
    local found
    say "$1: $2"
    found=$(printed "$1" "$2" "$3")
    say "$found"
    [ "$found" = "$4" ] || changed "$2 prints something else"
}

check bookworm libzydis4.0=4.0.0-1 libzydis-dev=4.0.0-1 \
'jrcxz 0xFFFFFFFF81000005, calculated 0xFFFFFFFF81000005
jecxz 0xFFFFFFFF81000005, calculated 0xFFFFFFFF81000005
loop 0xFFFFFFFF81000005, calculated 0xFFFFFFFF81000005
jmp 0xFFFFFFFF81000008, calculated 0xFFFFFFFF81000008'
check trixie libzydis4.1=4.1.1-1 libzydis-dev=4.1.1-1 \
'jrcxz 0xFFFFFFFF81000005, calculated 0xFFFFFFFF81000005
jecxz 0x81000005, calculated 0xFFFFFFFF81000005
loop 0x81000005, calculated 0xFFFFFFFF81000005
jmp 0x81000008, calculated 0xFFFFFFFF81000008'
say "SO IT IS: Zydis 4.1 prints a part of a target after the prefix 67"
