#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# binutils leaves a symbol of C++ that is longer than 1024 bytes mangled, and so
# do gdb and elfutils, which has libstdc++'s demangler; LLVM does not.
#
# One would guess:
#   A demangler that has a limit has one of depth, for input that is made to
#   exhaust the stack, and a plain name is demangled however long it is.
# What is so:
#   c++filt, nm -C, gdb and eu-nm take the length for the depth: of two functions
#   with plain names, f(), they demangle the one whose symbol has 1024 bytes, and
#   leave the one with 1025 as it is, without a word.  c++filt and nm have
#   --no-recurse-limit, with which both are demangled; the others have no such
#   option.  eu-nm asks libstdc++ (__cxa_demangle()), so each program that prints
#   its own backtraces by that has the limit, too.  llvm-nm demangles both.
#   binutils 2.40 and 2.44, gdb 13.1 and 16.3, elfutils 0.188 and 0.192, LLVM
#   19.1.7.
# Why it matters:
#   Symbols of templates (expression templates, parser combinators, variants of
#   many types) are longer than that every day, and are just those of which
#   nobody reads the mangled form.  A name that one tool shows is not found in
#   another one.
# How to cope:
#   Pass --no-recurse-limit where the input is trusted; where it is not, expect
#   mangled names from 1025 bytes on.
#
# Fetches 200 MB.

. "$(dirname "$0")/lib.sh" || exit
# _Z, the length in four digits, the name, and v for f()
SHORT=$(printf 's%.0s' {1..1017})
LONG=$(printf 'l%.0s' {1..1018})
{
    printf '.text\n.globl _start\n_start: nop\n'
    for name in "_Z${#SHORT}${SHORT}v" "_Z${#LONG}${LONG}v"; do
        printf '.globl %s\n.type %s, @function\n%s: nop\n.size %s, 1\n' \
            "$name" "$name" "$name" "$name"
    done
} >"$DIR/names.s"

# demangled: "short" and "long" for those of the names on standard input that
# are as in the source
demangled() {
    local text
    text=$(cat)
    ! grep -q "\(^\|[^0-9s]\)$SHORT()" <<<"$text" || printf 'short '
    ! grep -q "\(^\|[^0-9l]\)$LONG()" <<<"$text" || printf 'long '
}

# expect TOOL WANTED FOUND
expect() {
    printf '  %-26s %s\n' "$1" "$3"
    [ "$3" = "$2" ] || changed "$1 demangles ${3:-none}, not $2"
}

# check SUITE VERSION...
check() {
    local b=$DIR/$1-binutils g=$DIR/$1-gdb e=$DIR/$1-elfutils l=$DIR/$1-llvm
    local nm=usr/bin/x86_64-linux-gnu-nm
    local filt=usr/bin/x86_64-linux-gnu-c++filt
    get_tools "$@"
    local symbols
    symbols=$(within "$b" $nm -j "$DIR/names" | grep '^_Z')
    [ "$(awk '{ print length }' <<<"$symbols" | sort | xargs)" = '1024 1025' ] ||
        changed "the symbols are not as long as they should be"
    expect c++filt 'short ' "$(within "$b" $filt <<<"$symbols" | demangled)"
    expect 'c++filt --no-recurse-limit' 'short long ' \
        "$(within "$b" $filt --no-recurse-limit <<<"$symbols" | demangled)"
    expect 'nm -C' 'short ' "$(within "$b" $nm -C "$DIR/names" | demangled)"
    expect 'nm -C --no-recurse-limit' 'short long ' \
        "$(within "$b" $nm -C --no-recurse-limit "$DIR/names" | demangled)"
    expect gdb 'short ' "$(within "$g" usr/bin/gdb -nx -batch \
        -ex 'info functions' "$DIR/names" 2>/dev/null | demangled)"
    expect llvm-nm 'short long ' \
        "$(within "$l" usr/lib/llvm-19/bin/llvm-nm -C "$DIR/names" | demangled)"
    expect eu-nm 'short ' \
        "$(within "$e" usr/bin/eu-nm -C -f bsd "$DIR/names" | demangled)"
}

check bookworm 2.40-2 13.1-3 0.188-2.1 1:19.1.7-3~deb12u1
check trixie 2.44-3 16.3-1 0.192-4 1:19.1.7-3+b1
say "SO IT IS: a symbol of C++ of 1025 bytes is too long for some tools"
