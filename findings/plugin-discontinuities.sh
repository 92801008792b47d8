#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU 11.1's plugins are told of each exception of an x86 guest twice, and at
# the wrong instruction if it is not the first one of its block.
#
# One would guess:
#   The callback of discontinuities (qemu_plugin_register_vcpu_discon_cb) is
#   called once for each interrupt, exception and INT n, with its type; "from"
#   is the instruction that caused the exception, "to" the next one that
#   executes, the handler's first.  So says qemu-plugin.h.
# What is so:
#   - An exception has two calls: one of the type exception, whose "to" is its
#     "from", and then one of the type interrupt, whose "to" is the handler.
#     INT n has the same two, of the same types.
#   - When a helper of QEMU finds the exception in the middle of a block (DIV by
#     0, LLDT of a bad selector), the "from" of the call "exception" is the
#     first instruction of the block, which has been executed.  That of the call
#     "interrupt" is the one that has failed.
#   - A hardware interrupt has one call.  IRET has none.
#   QEMU 11.1.3; the callback is new, and 10.0 does not have it.
# Why it matters:
#   A plugin that counts interrupts counts all page faults, divisions by 0 and
#   INT n with them.  One that joins a flow of instructions over its exceptions,
#   which is what the callback is for, finds a way from an instruction to
#   itself, and blames another one for it.
# How to cope:
#   Take "from" and "to" of the call "interrupt" alone; it is an exception if
#   the same vCPU has had a call "exception" since it last executed an
#   instruction.
#
# Takes half a minute; fetches 70 MB.

. "$(dirname "$0")/lib.sh" || exit
need gcc timeout
cat >"$DIR/plugin.c" <<'END'
#include "plugin.h"

static void broken(unsigned vcpu, int type, uint64_t from, uint64_t to,
                   void *opaque)
{
    if (from >= BASE && from < BASE + SIZE) {
        printf("plugin: %s %llx %llx\n", type == 1 ? "interrupt" :
               type == 2 ? "exception" : "other",
               (unsigned long long)from, (unsigned long long)to);
    }
}

static void translated(struct qemu_plugin_insn *insn, void *offset)
{
}

static void ended(void)
{
}

static void register_more(uint64_t id)
{
    qemu_plugin_register_vcpu_discon_cb(id, -1, broken, NULL);
}
END

# The handlers of exceptions return to the second instruction after the one that
# failed: an offset from the address that the CPU has pushed.
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
    gate 0, handler_de
    gate 6, handler_ud
    gate 13, handler_gp
    gate 0x20, handler_irq
    gate 0x80, handler_int
    lidt idtr
    xor %ecx, %ecx
    jmp int_80
int_80:
    int $0x80
    jmp ud2
ud2:
    ud2
    jmp before_div
before_div:
    nop
    nop
div:
    div %ecx
    jmp before_lldt
before_lldt:
    nop
    nop
lldt:
    lldt selector
    /* The first interrupt controller's line 0 is vector 0x20, and no other */
    mov $0x11, %al
    out %al, $0x20
    mov $0x20, %al
    out %al, $0x21
    mov $4, %al
    out %al, $0x21
    mov $1, %al
    out %al, $0x21
    mov $0xfe, %al
    out %al, $0x21
    /* The timer fires once */
    mov $0x30, %al
    out %al, $0x43
    mov $0xff, %al
    out %al, $0x40
    out %al, $0x40
    sti
    hlt
after_hlt:
    mov $0, %al
    out %al, $0xf4

handler_int:
    iret
handler_ud:
    addl $2, (%esp)
    iret
handler_de:
    addl $2, (%esp)
    iret
handler_gp:
    addl $7, 4(%esp)
    add $4, %esp
    iret
handler_irq:
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
selector:
    .word 0x17
    .bss
    .align 8
idt:
    .space 2048
    .space 4096
stack:
END
bare
plugin 7
get_qemu sid 1:11.1.3+ds-1
bare_qemu sid -plugin "$DIR/plugin-7.so" | tee "$DIR/seen"
diff - "$DIR/seen" >&2 <<'END' || changed "plugins are told otherwise"
exception int_80 int_80
interrupt int_80 handler_int
exception ud2 ud2
interrupt ud2 handler_ud
exception before_div before_div
interrupt div handler_de
exception before_lldt before_lldt
interrupt lldt handler_gp
interrupt after_hlt handler_irq
END
say "SO IT IS: an exception is told twice, and first of another instruction"
