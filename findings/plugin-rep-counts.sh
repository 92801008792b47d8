#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A string instruction that repeats is as many instructions as it has iterations
# for plugins of QEMU 7.2, and one for those of QEMU 10.0, but not with -icount.
#
# One would guess:
#   A plugin that counts instructions has the same counts with each release of
#   QEMU and with each way to run it, as what the guest executes is the same.
#   With one-insn-per-tb each block is one step of the guest.
# What is so:
#   - The callback of REP STOSB with ECX = 1000 is called 1001 times by QEMU
#     7.2.22: once for each iteration, and when ECX is 0.
#   - QEMU 10.0.13 and 11.1.3 call it once, also with one-insn-per-tb.
#   - They call it 1001 times with -icount, where each iteration is an
#     instruction of the clock, too.  An option that sets the clock changes what
#     is counted.
#   - Those of REPNE SCASB are the same: 501 or one.
#   - valgrind 3.24's callgrind counts 1000, without the last one.
#   A CPU's counter of instructions has one.
# Why it matters:
#   Counts of instructions that were made with different releases, or with and
#   without -icount, are not those of one thing: a kernel that clears its memory
#   by REP STOSB has a multiple of its instructions.  A position in a recording,
#   which is one by -icount, is not what a plugin has counted without it.
# How to cope:
#   Count an instruction that comes after itself, without a branch between,
#   once; or compare only counts with -icount.
#
# Takes a minute; fetches 200 MB.

. "$(dirname "$0")/lib.sh" || exit
need gcc timeout
cat >"$DIR/plugin.c" <<'END'
#include "plugin.h"

static uint64_t counts[SIZE];

static void executed(unsigned vcpu, void *offset)
{
    counts[(size_t)offset]++;
}

static void translated(struct qemu_plugin_insn *insn, void *offset)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, 0, offset);
}

static void ended(void)
{
    for (size_t i = 0; i < SIZE; i++) {
        if (counts[i]) {
            printf("plugin: %zx %llu\n", BASE + i,
                   (unsigned long long)counts[i]);
        }
    }
}

static void register_more(uint64_t id)
{
}
END

# The same for callgrind, which runs programs of Linux
cat >"$DIR/bare.S" <<'END'
    .globl _start
_start:
    mov $buffer, %edi
    mov $1000, %ecx
    xor %eax, %eax
rep_stosb:
    rep stosb
    mov $buffer, %edi
    mov $500, %ecx
    inc %eax
repne_scasb:
    repne scasb
    mov $0, %al
    out %al, $0xf4
    .bss
buffer: .space 1000
END
cat >"$DIR/linux.S" <<'END'
    .globl _start
_start:
    mov $buffer, %edi
    mov $1000, %ecx
    xor %eax, %eax
    rep stosb
    jmp 1f
1:  mov $60, %eax
    xor %edi, %edi
    syscall
    .bss
buffer: .space 1000
END
bare

# check COUNT-OF-STOSB COUNT-OF-SCASB SUITE API OPTION...
check() {
    local seen
    [ -e "$DIR/plugin-$4.so" ] || plugin "$4"
    seen=$(bare_qemu "$3" -plugin "$DIR/plugin-$4.so" "${@:5}" |
        sed -n 's/^rep/&/p' | paste -sd ' ')
    say "$3 ${*:5}: $seen"
    [ "$seen" = "rep_stosb $1 repne_scasb $2" ] ||
        changed "other counts with QEMU of $3 ${*:5}"
}

get_qemu bookworm 1:7.2+dfsg-7+deb12u18+b3
check 1001 501 bookworm 1
check 1001 501 bookworm 1 -icount shift=3
get_qemu trixie 1:10.0.13+ds-0+deb13u1
check 1 1 trixie 2
check 1 1 trixie 2 -accel tcg,one-insn-per-tb=on
check 1001 501 trixie 2 -icount shift=3
get "$DIR/valgrind" valgrind=1:3.24.0-3
get_qemu sid 1:11.1.3+ds-1
check 1 1 sid 7
check 1 1 sid 7 -accel tcg,one-insn-per-tb=on
check 1001 501 sid 7 -icount shift=3

as -o "$DIR/linux.o" "$DIR/linux.S"
ld -o "$DIR/linux" "$DIR/linux.o"
VALGRIND_LIB=$DIR/valgrind/usr/libexec/valgrind \
    "$DIR/valgrind/usr/bin/valgrind" --tool=callgrind --dump-instr=yes \
    --callgrind-out-file="$DIR/callgrind" "$DIR/linux" >"$DIR/log" 2>&1 || {
    cat "$DIR/log" >&2
    skip "callgrind does not run here"
}
# A line of an instruction is its address, its line and its count.
counts=$(sed -n 's/^\(0x[0-9a-f]*\|+[0-9]*\|\*\) [^ ]* //p' \
    "$DIR/callgrind" |
    paste -sd ' ')
say "callgrind, instruction by instruction: $counts"
[[ " $counts " == *" 1000 "* ]] || changed "callgrind counts otherwise"
say "SO IT IS: the release and -icount decide what REP STOSB counts as"
