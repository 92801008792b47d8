#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# At a stop for new libraries, gdb judges no breakpoint, and forgets those in
# what is gone without removing them.
#
# One would guess:
#   A remote target that says "T05library" has its list of libraries read
#   (qXfer:libraries:read), and is told of each breakpoint that shall not be
#   there any more (z0).  If the process stands at a breakpoint then, gdb stops
#   there.
# What is so:
#   - gdb for GNU/Linux reads qXfer:libraries-svr4:read at such a stop, also if
#     nothing there looks like a dynamic linker.  For qXfer:libraries:read,
#     which the same stop is documented for, it never asks.  It is the other
#     way round if the target describes its registers, as QEMU and others do,
#     and Linux's own (orig_rax) are not among them, although gdb says that the
#     OS ABI is GNU/Linux then, too.
#   - Where it connects, it reads the list, but no symbols of what is in it,
#     until somebody says "sharedlibrary".
#   - Of breakpoints in a library that the list has no more it sends no z0: to
#     gdb they are gone with it.  A target that keeps them stops at them in
#     whatever is mapped there then.
#   - At that stop it looks at no breakpoint, and lets the target go on.  If
#     the target says, without having moved, that it is at one, that is a hit, of a
#     breakpoint that was set again by then, with the new symbols.
#   gdb 13.1 and 16.3.
# Why it matters:
#   Who debugs a kernel or a hypervisor's guest from outside sees many programs
#   at the same addresses, and gdb has one list of symbols.
# How to cope:
#   Change the list where another program runs; say "T05library" first, and the
#   stop itself when gdb lets the target go on; drop breakpoints in what is
#   gone, and look whether gdb has set one again where the target is.
#
# Fetches 60 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3

# program NAME: at the same addresses as others, with a function of its own
program() {
    cat >"$DIR/$1.s" <<EOF
.text
.globl _start, here, only_$1
.type here, @function
.type only_$1, @function
_start: nop
here: nop; nop; nop
only_$1: nop; nop; nop; nop
EOF
    within "$DIR/binutils" usr/bin/x86_64-linux-gnu-as -o "$DIR/$1.o" \
        "$DIR/$1.s"
    within "$DIR/binutils" usr/bin/x86_64-linux-gnu-ld -o "$DIR/$1" "$DIR/$1.o"
}

cat >"$DIR/commands" <<'EOF'
set confirm off
set architecture i386:x86-64
target remote :PORT
info symbol $pc
sharedlibrary
info symbol $pc
break only_one
continue
continue
info symbol $pc
info breakpoints
show osabi
EOF

# debug LIST [described]: has gdb debug the stub; what it prints is in $DIR/out
debug() {
    local port stub
    coproc STUB { exec python3 "$HERE/gdb_stub.py" "$1" "$DIR/log" \
        "$DIR/one" "$DIR/two" "${@:2}"; }
    stub=$STUB_PID
    read -r port <&"${STUB[0]}"
    sed "s/:PORT/127.0.0.1:$port/" "$DIR/commands" >"$DIR/now"
    within "$DIR/gdb" usr/bin/gdb -nx -q -batch -x "$DIR/now" \
        >"$DIR/out" 2>&1 </dev/null || :
    wait "$stub" || :
}

# expect WHAT WANTED FOUND
expect() {
    [ "$3" = "$2" ] || changed "$1: $3"
}

# check SUITE GDB
check() {
    from "$1"
    rm -rf "$DIR/gdb"
    get_all "$DIR/gdb" "gdb-minimal=$2"
    say "gdb $2"
    debug libraries
    expect "of qXfer:libraries:read" 'continue T05library continue W00' \
        "$(grep -v '^[Zz]' "$DIR/log" | uniq | xargs)"
    debug libraries-svr4
    sed 's/^/  /' "$DIR/log"
    expect "of breakpoints and lists" "$(xargs <<'EOF'
qXfer:libraries-svr4:read
Z0,401004,1 continue T05swbreak z0,401004,1
step T05 Z0,401004,1 continue T05library
qXfer:libraries-svr4:read continue T05library
qXfer:libraries-svr4:read Z0,401004,1 continue T05swbreak z0,401004,1
EOF
    )" "$(xargs <"$DIR/log")"
    expect "symbols where it connects" 'No symbol matches $pc.' \
        "$(grep -m 1 'symbol' "$DIR/out")"
    expect "symbols that are asked for" 2 \
        "$(grep -cE '^(here|only_one) in section .text' "$DIR/out")"
    expect "hits" 'breakpoint already hit 2 times' \
        "$(grep 'already hit' "$DIR/out" | xargs)"
    debug libraries-svr4 described
    expect "of qXfer:libraries-svr4:read without Linux's registers" \
        'continue T05library continue W00' \
        "$(grep -v '^[Zz]' "$DIR/log" | uniq | xargs)"
    debug libraries described
    sed 's/^/  /' "$DIR/log"
    expect "of qXfer:libraries:read without Linux's registers" 3 \
        "$(grep -c '^qXfer:libraries:read' "$DIR/log")"
    expect "hits without Linux's registers" 'breakpoint already hit 2 times' \
        "$(grep 'already hit' "$DIR/out" | xargs)"
    say "OS ABI: $(grep -o 'currently "[^"]*"' "$DIR/out")"
}

from trixie
get_all "$DIR/binutils" binutils=2.44-3
program one
program two
check bookworm 13.1-3
check trixie 16.3-1
say "SO IT IS: gdb looks at its breakpoints after the libraries, not with them"
