#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# c++filt and nm -C, of one version of binutils, demangle a symbol of Rust
# differently, and so do two versions of gdb; elfutils leaves Rust v0 as it is.
#
# One would guess:
#   A tool that demangles has one name for a symbol, and c++filt prints the one
#   that nm -C, objdump -C and addr2line -C print: it is the same library.
# What is so:
#   - c++filt has the hash of a legacy name and the disambiguator of a v0 name in
#     its output (foo::bar::h0123..., foo[3c1c0]::bar); nm -C and addr2line -C do
#     not (foo::bar).  gdb 13.1 prints what c++filt does, gdb 16.3 what nm -C does.
#   - LLVM is the other way about: the hash of a legacy name stays, the
#     disambiguator of a v0 name does not.
#   - The suffix .llvm.NUMBER of a v0 name is dropped by binutils and gdb; LLVM
#     keeps it in parentheses.  GCC's suffixes are kept by all, as "[clone
#     .isra.0]" or "(.isra.0)".
#   - eu-nm, which takes libstdc++'s demangler, knows no Rust v0 and no D; that of
#     binutils 2.40 knows no D unless it is asked for it, that of 2.44 does.
#   binutils 2.40 and 2.44, gdb 13.1 and 16.3, elfutils 0.188 and 0.192, LLVM
#   19.1.7.
# Why it matters:
#   Who types the name that one tool has shown into another one finds nothing.  A
#   crate that is linked twice, in two versions, has one name in half of the
#   tools.
# How to cope:
#   Keep mangled names; search by what both forms share, without hash,
#   disambiguator and suffix; show the long form where two symbols share a short
#   one.
#
# Fetches 200 MB.

. "$(dirname "$0")/lib.sh" || exit
LEGACY=_ZN3foo3bar17h0123456789abcdefE
V0=_RNvCs1234_3foo3bar
SUFFIX=$V0.llvm.77
CLONE=_Z3foov.isra.0
D=_D3foo3barFZv
{
    printf '.text\n.globl _start\n_start: nop\n'
    for name in $LEGACY $V0 $SUFFIX $CLONE $D; do
        printf '.type "%s", @function\n"%s": nop\n.size "%s", 1\n' \
            "$name" "$name" "$name"
    done
} >"$DIR/names.s"

# expect TOOL NAME WANTED FOUND
expect() {
    printf '  %-10s %-34s %s\n' "$1" "$2" "$4"
    [ "$4" = "$3" ] || changed "$1 makes $4 of $2, not $3"
}

# symbol NM-OUTPUT NAME: the name at the address that NAME has
symbol() {
    sed -n "s/^$(address "$2") . //p" <<<"$1"
}

address() {
    awk -v name="$1" '$3 == name { print $1 }' <<<"$plain"
}

# check SUITE GDB-LEGACY GDB-V0 D VERSION...: what differs between releases
check() {
    local gdb_legacy=$2 gdb_v0=$3 d=$4 name nm eu llvm
    local b=$DIR/$1-binutils g=$DIR/$1-gdb e=$DIR/$1-elfutils l=$DIR/$1-llvm
    get_tools "$1" "${@:5}"
    plain=$(within "$b" usr/bin/x86_64-linux-gnu-nm "$DIR/names")
    nm=$(within "$b" usr/bin/x86_64-linux-gnu-nm -C "$DIR/names")
    llvm=$(within "$l" usr/lib/llvm-19/bin/llvm-nm -C "$DIR/names")
    eu=$(within "$e" usr/bin/eu-nm -C -f bsd "$DIR/names")

    filt() {
        within "$b" usr/bin/x86_64-linux-gnu-c++filt "$1"
    }
    in_gdb() {
        within "$g" usr/bin/gdb -nx -batch -ex "info symbol 0x$(address "$1")" \
            "$DIR/names" 2>/dev/null | sed 's/ in section.*//'
    }
    expect c++filt $LEGACY foo::bar::h0123456789abcdef "$(filt $LEGACY)"
    expect 'nm -C' $LEGACY foo::bar "$(symbol "$nm" $LEGACY)"
    expect gdb $LEGACY "$gdb_legacy" "$(in_gdb $LEGACY)"
    expect llvm-nm $LEGACY foo::bar::h0123456789abcdef \
        "$(symbol "$llvm" $LEGACY)"
    expect c++filt $V0 'foo[3c1c0]::bar' "$(filt $V0)"
    expect 'nm -C' $V0 foo::bar "$(symbol "$nm" $V0)"
    expect gdb $V0 "$gdb_v0" "$(in_gdb $V0)"
    expect llvm-nm $V0 foo::bar "$(symbol "$llvm" $V0)"
    expect eu-nm $V0 $V0 "$(symbol "$eu" $V0)"
    expect 'nm -C' $SUFFIX foo::bar "$(symbol "$nm" $SUFFIX)"
    expect llvm-nm $SUFFIX 'foo::bar (.llvm.77)' "$(symbol "$llvm" $SUFFIX)"
    expect 'nm -C' $CLONE 'foo() [clone .isra.0]' "$(symbol "$nm" $CLONE)"
    expect llvm-nm $CLONE 'foo() (.isra.0)' "$(symbol "$llvm" $CLONE)"
    expect 'nm -C' $D "$d" "$(symbol "$nm" $D)"
    expect gdb $D 'foo.bar()' "$(in_gdb $D)"
    expect eu-nm $D $D "$(symbol "$eu" $D)"
}

check bookworm foo::bar::h0123456789abcdef 'foo[3c1c0]::bar' $D \
    2.40-2 13.1-3 0.188-2.1 1:19.1.7-3~deb12u1
check trixie foo::bar foo::bar 'foo.bar()' \
    2.44-3 16.3-1 0.192-4 1:19.1.7-3+b1
say "SO IT IS: a symbol of Rust has as many names as there are tools"
