#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# gdb, objdump, addr2line and eu-addr2line each have another name for one address.
#
# One would guess:
#   Where several symbols are at one address, the tools that people put beside
#   each other name it alike: the global one before the local and the weak one,
#   or the first of the symbol table.
# What is so:
#   Of a function with the names __prefixed, another, local_one, plain (the one
#   that was defined) and weak_one, in a program without debug information, gdb
#   and llvm-symbolizer say weak_one, addr2line local_one, objdump __prefixed,
#   eu-addr2line another, and none says plain.  gdb 13.1 and 16.3, binutils 2.40
#   and 2.44, elfutils 0.188 and 0.192, LLVM 19.1.7.
# Why it matters:
#   Reports of two tools about one run cannot be compared by names, nor can a
#   test of a symbolizer use one of these as its oracle.  Linux has thousands of
#   such addresses, and its own kallsyms has yet another rule: the first one of
#   its table.
# How to cope:
#   Compare addresses; or take all names of an address from the symbol table, and
#   ask whether a tool's name is one of them.
#
# Fetches 200 MB.

. "$(dirname "$0")/lib.sh" || exit
cat >"$DIR/names.s" <<'EOF'
        .text
        .globl _start, plain, another, __prefixed
        .weak weak_one
        .type plain, @function
        .type another, @function
        .type __prefixed, @function
        .type weak_one, @function
        .type local_one, @function
_start: call plain
        hlt
plain:  lea 1(%rdi), %rax
        ret
        .size plain, . - plain
        .set another, plain
        .set __prefixed, plain
        .set weak_one, plain
        .set local_one, plain
        .size another, . - plain
        .size __prefixed, . - plain
        .size weak_one, . - plain
        .size local_one, . - plain
EOF

# expect TOOL NAME FOUND
expect() {
    say "  $1: $3"
    [ "$3" = "$2" ] || changed "$1 names it $3, not $2"
}

# tools SUITE BINUTILS GDB ELFUTILS LLVM: their versions
tools() {
    local at binutils=$DIR/$1-binutils gdb=$DIR/$1-gdb
    local elfutils=$DIR/$1-elfutils llvm=$DIR/$1-llvm
    get_tools "$@"
    at=0x$(within "$binutils" usr/bin/x86_64-linux-gnu-nm "$DIR/names" |
        awk '$3 == "plain" { print $1 }')
    expect gdb weak_one "$(within "$gdb" usr/bin/gdb -nx -batch \
        -ex "info symbol $at" "$DIR/names" 2>/dev/null |
        sed -n 's/ in section.*//p')"
    expect addr2line local_one "$(within "$binutils" \
        usr/bin/x86_64-linux-gnu-addr2line -f -e "$DIR/names" "$at" |
        head -n 1)"
    expect objdump __prefixed "$(within "$binutils" \
        usr/bin/x86_64-linux-gnu-objdump -d "$DIR/names" |
        sed -n "s/^0*${at#0x0*} <\\(.*\\)>:/\\1/p")"
    expect eu-addr2line another "$(within "$elfutils" usr/bin/eu-addr2line -f \
        -e "$DIR/names" "$at" | head -n 1)"
    expect llvm-symbolizer weak_one "$(within "$llvm" \
        usr/lib/llvm-19/bin/llvm-symbolizer -e "$DIR/names" "$at" |
        head -n 1)"
}

tools bookworm 2.40-2 13.1-3 0.188-2.1 1:19.1.7-3~deb12u1
tools trixie 2.44-3 16.3-1 0.192-4 1:19.1.7-3+b1
say "SO IT IS: the tools have four names for one address"
