#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU's plugins are not told of what INT and exceptions write to the stack; of
# what IRET reads there they are.
#
# One would guess:
#   A callback for memory of each instruction, which is told of what QEMU's
#   helpers read and write, too, is told of all writes of a CPU of TCG.  If
#   there is one for IRET, there is one for INT n.
# What is so:
#   - INT 0x80 has no access to memory.  The IRET that ends its handler has five
#     reads, two of which are of the table of segments.
#   - The callbacks of the handler's instructions have no such write either, nor
#     those of UD2, which raises an exception.
#   - A far CALL has its writes.
#   QEMU 7.2.22, 10.0.13 and 11.1.3 with TCG.
# Why it matters:
#   What follows values through memory, or keeps a copy of it by the callbacks
#   (taint, the last writer of an address, a log of writes to replay), has old
#   contents in each frame of an exception: an IRET reads what nobody has
#   written, and the addresses to return to come from nowhere.
# How to cope:
#   At the first instruction of a handler, read the frame at the stack's pointer
#   with qemu_plugin_read_memory_vaddr(), and take it as written.
#
# Takes a minute; fetches 200 MB.

. "$(dirname "$0")/lib.sh" || exit
need gcc timeout
cat >"$DIR/plugin.c" <<'END'
#include "plugin.h"

static struct {
    uint64_t executed, reads, writes;
} counts[SIZE];

static void executed(unsigned vcpu, void *offset)
{
    counts[(size_t)offset].executed++;
}

static void accessed(unsigned vcpu, uint32_t info, uint64_t at, void *offset)
{
    if (qemu_plugin_mem_is_store(info)) {
        counts[(size_t)offset].writes++;
    } else {
        counts[(size_t)offset].reads++;
    }
}

static void translated(struct qemu_plugin_insn *insn, void *offset)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, 0, offset);
    /* Reads and writes */
    qemu_plugin_register_vcpu_mem_cb(insn, accessed, 0, 3, offset);
}

static void ended(void)
{
    for (size_t i = 0; i < SIZE; i++) {
        if (counts[i].executed) {
            printf("plugin: %zx executed %llu, reads %llu, writes %llu\n",
                   BASE + i, (unsigned long long)counts[i].executed,
                   (unsigned long long)counts[i].reads,
                   (unsigned long long)counts[i].writes);
        }
    }
}

static void register_more(uint64_t id)
{
}
END

cat >"$DIR/bare.S" <<'END'
    .macro gate number, handler
    mov $\handler, %eax
    mov %ax, idt + 8 * \number
    movw $8, idt + 8 * \number + 2
    movw $0x8e00, idt + 8 * \number + 4
    shr $16, %eax
    mov %ax, idt + 8 * \number + 6
    .endm

    .globl _start
_start:
    mov $stack, %esp
    lgdt gdtr
    ljmp $8, $1f
1:
    mov $16, %eax
    mov %eax, %ds
    mov %eax, %ss
    gate 6, at_ud_handler
    gate 0x80, at_int_handler
    lidt idtr
at_push:
    push %eax
at_call:
    call 2f
2:
at_far_call:
    lcall $8, $3f
3:
at_int:
    int $0x80
at_ud2:
    ud2
    mov $0, %al
    out %al, $0xf4

at_int_handler:
    nop
at_int_iret:
    iret
at_ud_handler:
    nop
    addl $2, (%esp)
at_ud_iret:
    iret

    .align 8
gdt:
    .quad 0, 0xcf9b000000ffff, 0xcf93000000ffff
gdtr:
    .word 23
    .long gdt
idtr:
    .word 0x7ff
    .long idt
    .bss
    .align 8
idt:
    .space 2048
    .space 4096
stack:
END
bare

# check SUITE VERSION API
check() {
    get_qemu "$1" "$2"
    plugin "$3"
    bare_qemu "$1" -plugin "$DIR/plugin-$3.so" | grep '^at_' |
        tee "$DIR/seen"
    diff - "$DIR/seen" >&2 <<'END' || changed "not so with QEMU of $1"
at_push executed 1, reads 0, writes 1
at_call executed 1, reads 0, writes 1
at_far_call executed 1, reads 2, writes 2
at_int executed 1, reads 0, writes 0
at_ud2 executed 1, reads 0, writes 0
at_int_handler executed 1, reads 0, writes 0
at_int_iret executed 1, reads 5, writes 0
at_ud_handler executed 1, reads 0, writes 0
at_ud_iret executed 1, reads 5, writes 0
END
}

check bookworm 1:7.2+dfsg-7+deb12u18+b3 1
check trixie 1:10.0.13+ds-0+deb13u1 2
check sid 1:11.1.3+ds-1 7
say "SO IT IS: plugins are not told of what INT and exceptions push"
