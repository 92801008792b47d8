#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# LOOP, LOOPE and LOOPNE are in no group of jumps of Capstone, while JRCXZ and
# XBEGIN are.
#
# One would guess:
#   The group CS_GRP_JUMP, "all jump instructions", has all conditional
#   branches; that is what it is for.  JRCXZ and LOOP, which both look at a
#   counter, are in the same groups.
# What is so:
#   - LOOP, LOOPE and LOOPNE are in the group branch_relative alone; all Jcc,
#     JRCXZ, and XBEGIN, which goes elsewhere only if a transaction fails, are
#     in jump, too.
#   - The group branch_relative is not the answer: indirect jumps are not in it,
#     and direct calls are.
#   - Zydis 4.1 has LOOP in the category of conditional branches (COND_BR).
#   Capstone 4.0.2, 5.0.7 and 5.0.9.
# Why it matters:
#   What finds the blocks of a program by CS_GRP_JUMP, CS_GRP_CALL and
#   CS_GRP_RET goes on behind LOOP as if it was no branch: a block has another
#   one within, and coverage by such blocks, or a trace that is joined with
#   them, has an edge that is in no block's end.
# How to cope:
#   Take CS_GRP_BRANCH_RELATIVE for a branch, too, as well as CS_GRP_JUMP.

. "$(dirname "$0")/lib.sh" || exit

# groups ROOT BYTES: the instruction and its groups without that of the mode
groups() {
    within "$1" usr/bin/cstool -d x64 "$2" |
        sed -n 's/^ *0  [0-9a-f ]*[0-9a-f]  *\([a-z]*\).*/\1:/p
            s/.*Groups: //p' | paste -sd ' ' | tr -s ' ' |
        sed 's/ mode64//; s/ *$//'
}

# check SUITE VERSION
check() {
    local bytes root=$DIR/$1
    from "$1"
    get_all "$root" "capstone-tool=$2"
    say "$1: Capstone $2"
    for bytes in 7400 e300 c7f800000000 e200 e100 e000 ffe0 e800000000; do
        groups "$root" "$bytes"
    done | tee "$DIR/seen"
    diff - "$DIR/seen" >&2 <<'END' || changed "Capstone $2 has other groups"
je: branch_relative jump
jrcxz: branch_relative jump
xbegin: branch_relative rtm jump
loop: branch_relative
loope: branch_relative
loopne: branch_relative
jmp: jump
call: call branch_relative
END
}

check trixie 5.0.7-1~deb13u1
get_all "$DIR/zydis" zydis-tools=4.1.1-1
for bytes in e2 e3; do
    within "$DIR/zydis" usr/bin/ZydisInfo -64 "$bytes" 00 |
        sed -n 's/\x1b\[[0-9;]*m//g
            s/.*MNEMONIC: *\([a-z]*\).*/Zydis: \1/p
            s/.*CATEGORY: *\([A-Z_]*\).*/\1/p' | paste -sd ' '
done | tee "$DIR/seen"
diff - "$DIR/seen" >&2 <<'END' || changed "Zydis has another category"
Zydis: loop COND_BR
Zydis: jrcxz COND_BR
END
check sid 5.0.9-1
check bookworm 4.0.2-5
say "SO IT IS: LOOP is not among the jumps of Capstone"
