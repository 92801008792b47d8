#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The exchange of RAX with APX's R16, as GNU as and LLVM assemble it, is a NOP
# for the disassembler of each.
#
# One would guess:
#   What an assembler makes of an instruction, the disassembler of the same
#   release prints as that instruction; where one has it wrong, the other
#   toolchain has it right.
# What is so:
#   - XCHG of RAX with another register is the byte 90 and its number in the
#     prefix; without a number in the prefix it is NOP.  GNU as 2.44 and LLVM 19
#     encode XCHG %r16, %rax as D5 18 90: the prefix REX2 with the highest bit of
#     the number, and without the one that REX has.
#   - objdump 2.44, gdb 16.3 and llvm-mc 19 print D5 18 90 as a NOP.  For R17 and
#     R24, whose numbers have other bits, too, each prints the XCHG.
#   binutils 2.44-3, gdb 16.3-1, LLVM 19.1.7-3 (Debian 13).  The same with
#   binutils 2.47.50.20261021-1 and LLVM 21 of unstable.
# Why it matters:
#   Whoever disassembles a program for APX and looks where a value comes from,
#   finds two registers that nothing has written.  What is disassembled and
#   assembled again is another program.
# How to cope:
#   Read the bytes: D5, a second byte with bit 4 set, 90 exchanges RAX with R16.

. "$(dirname "$0")/lib.sh" || exit

cat >"$DIR/xchg.s" <<'END'
xchg %r16, %rax
xchg %r17, %rax
xchg %r24, %rax
END

# check NAME FOUND WANTED
check() {
    say "$1:"
    say "$2"
    [ "$2" = "$3" ] || changed "$1 prints something else"
}

from trixie
get_all "$DIR/binutils" binutils=2.44-3
get_all "$DIR/gdb" gdb-minimal=16.3-1
get_all "$DIR/llvm" llvm-19=1:19.1.7-3+b1

within "$DIR/binutils" usr/bin/x86_64-linux-gnu-as -o "$DIR/xchg.o" \
    "$DIR/xchg.s"
check "GNU as, objdump" "$(within "$DIR/binutils" \
    usr/bin/x86_64-linux-gnu-objdump -d "$DIR/xchg.o" |
    sed -n 's/^ *[0-9a-f]*:\t\([^\t]*[^ ]\) *\t/\1: /p' | tr -s ' ')" \
'd5 18 90: {rex2 0x18} nop
d5 18 91: xchg %rax,%r17
d5 19 90: xchg %rax,%r24'
check "gdb" "$(within "$DIR/gdb" usr/bin/gdb -q -nx -batch -ex 'x/3i 0' \
    "$DIR/xchg.o" | sed 's/.*:\t//' | tr -s ' ')" \
'{rex2 0x18} nop
xchg %rax,%r17
xchg %rax,%r24'

llvm() {
    within "$DIR/llvm" usr/lib/llvm-19/bin/llvm-mc --triple=x86_64 \
        --mattr=+egpr "$@"
}

check "LLVM's assembler" "$(llvm --show-encoding "$DIR/xchg.s" |
    sed -n 's/.*encoding: //p')" \
'[0xd5,0x18,0x90]
[0xd5,0x18,0x91]
[0xd5,0x19,0x90]'
check "LLVM's disassembler" "$(echo '0xd5 0x18 0x90 0xd5 0x18 0x91 0xd5 0x19 0x90' |
    llvm --disassemble | tail -n 3 | sed 's/^\t//' | tr '\t' ' ')" \
'nop
xchgq %r17, %rax
xchgq %r24, %rax'
say "SO IT IS: XCHG of RAX with R16 is assembled, and disassembled as NOP"
