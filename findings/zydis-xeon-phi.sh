#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Zydis decodes conditional branches that only the first Xeon Phi had, also if it
# is told to leave that CPU out.
#
# One would guess:
#   ZYDIS_DECODER_MODE_KNC, which is off unless it is turned on, decides whether
#   instructions of Knights Corner are decoded.  Bytes that raise #UD on all
#   other CPUs are no instruction without it.
# What is so:
#   - C5 78 84 and C5 78 85 with four bytes of displacement are JKZD and JKNZD,
#     of the category COND_BR, with the mode on and off.
#   - The mode decides about others: C5 F8 90 C1 is KMOVW, or KMOV.
#   - objdump and llvm-mc say that they are bad, and decode the rest of them as
#     another instruction.
#   libzydis4.0 4.0.0-1 (Debian 12), libzydis4.1 4.1.1-1 (Debian 13); binutils
#   2.44-3.
# Why it matters:
#   Whoever follows code by Zydis finds a branch, and a block of code at its
#   target, where a CPU raises an exception; a program that wants to mislead a
#   disassembler needs three bytes for it.
# How to cope:
#   Refuse instructions whose ISA extension is KNC, KNCE or KNCV.

. "$(dirname "$0")/lib.sh" || exit
need gcc

cat >"$DIR/branches.c" <<'END'
#include <stdio.h>
#include <Zydis/Zydis.h>

int main(void)
{
    static const char *const samples[] = {
        "\xc5\x78\x84\x10\x00\x00\x00", "\xc5\x78\x85\x10\x00\x00\x00",
        "\xc5\xf8\x90\xc1\x90\x90\x90",
    };

    for (int on = 0; on < 2; on++) {
        ZydisDecoder d;

        ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
        ZydisDecoderEnableMode(&d, ZYDIS_DECODER_MODE_KNC, on);
        for (int i = 0; i < 3; i++) {
            ZydisDecodedInstruction insn;

            if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&d, NULL, samples[i],
                                                          7, &insn))) {
                printf("%s: not decoded\n", on ? "on" : "off");
            } else {
                printf("%s: %s, %u bytes, %s, %s\n", on ? "on" : "off",
                       ZydisMnemonicGetString(insn.mnemonic), insn.length,
                       ZydisCategoryGetString(insn.meta.category),
                       ZydisISAExtGetString(insn.meta.isa_ext));
            }
        }
    }
    return 0;
}
END

# check SUITE LIBRARY DEVELOPMENT
check() {
    local root=$DIR/$1 lib found
    from "$1"
    get_all "$root" "$2"
    get_all "$root" "$3"
    lib=$root/usr/lib/x86_64-linux-gnu
    gcc -I "$root/usr/include" -o "$root/branches" "$DIR/branches.c" \
        -L "$lib" -Wl,-rpath-link,"$lib" -lZydis
    say "$1: $2"
    found=$(within "$root" branches)
    say "$found"
    [ "$found" = 'off: jkzd, 7 bytes, COND_BR, KNCV
off: jknzd, 7 bytes, COND_BR, KNCV
off: kmovw, 4 bytes, KMASK, AVX512VEX
on: jkzd, 7 bytes, COND_BR, KNCV
on: jknzd, 7 bytes, COND_BR, KNCV
on: kmov, 4 bytes, KNCMASK, KNC' ] || changed "$2 decodes something else"
}

check bookworm libzydis4.0=4.0.0-1 libzydis-dev=4.0.0-1
check trixie libzydis4.1=4.1.1-1 libzydis-dev=4.1.1-1
get_all "$DIR/binutils" binutils=2.44-3
printf '\305x\204\20\0\0\0' >"$DIR/bytes"
found=$(within "$DIR/binutils" usr/bin/x86_64-linux-gnu-objdump -D -b binary \
    -m i386:x86-64 "$DIR/bytes" | sed -n 's/^ *0:\t[^\t]*\t//p')
say "objdump 2.44: $found"
[ "$found" = '(bad)' ] || changed "objdump knows it"
say "SO IT IS: JKZD and JKNZD are decoded with the mode KNC on and off"
