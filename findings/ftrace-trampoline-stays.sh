#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The function tracer's trampoline stays in kallsyms when the tracer is off.
#
# One would guess: the page that ftrace makes for the function tracer, listed in
# /proc/kallsyms as ftrace_trampoline [__builtin__ftrace], goes away with
# `echo nop >current_tracer`, since no function calls it any more.
#
# What is so: with Debian's 6.12.107 and 7.3.4 it is not there before the tracer
# is used first; afterwards it stays, at the same address, while
# enabled_functions is empty.
#
# Why it matters: who looks at a kernel from outside and takes this symbol for a
# sign that functions are being traced (or that a rootkit hooks them) is wrong;
# and who counts such pages when tracing starts and stops waits for ever.
#
# How to cope: whether functions are traced is said by enabled_functions, and in
# memory by the calls at the functions' entries, not by this symbol.
#
# Takes 2 minutes; fetches 150 MB; boots guests under TCG.

. "$(dirname "$0")/lib.sh" || exit
need timeout gzip
start_guests
cat >"$DIR/look" <<'EOF'
cd /sys/kernel/tracing
look() {
    echo "$1: $(grep -F '[__builtin__ftrace]' /proc/kallsyms | tr '\t' ' ')"
}
look before
echo function >current_tracer
look on
grep -q . enabled_functions && echo functions are traced
echo nop >current_tracer
sleep 2
look off
grep -q . enabled_functions || echo no function is traced
EOF

look() {
    local address
    say "Linux $1:"
    guest "$1" 300 <"$DIR/look" | tee "$DIR/seen"
    address=$(sed -n 's/^on: \([0-9a-f]*\) t ftrace_trampoline .*/\1/p' \
        "$DIR/seen")
    [ "${#address}" = 16 ] || changed "no trampoline is listed while it is on"
    cmp -s "$DIR/seen" <<EOF ||
before: 
on: $address t ftrace_trampoline [__builtin__ftrace]
functions are traced
off: $address t ftrace_trampoline [__builtin__ftrace]
no function is traced
EOF
        changed "Linux $1 listed its trampoline in another way"
}

kernel 6.12.107 linux-image-6.12.107+deb13-cloud-amd64=6.12.107-1
look 6.12.107
from trixie-backports
kernel 7.3.4 linux-binary-7.3.4+deb13-cloud-amd64=7.3.4-1~bpo13+1
look 7.3.4
say "SO IT IS: the trampoline is listed for good once the tracer was on"
