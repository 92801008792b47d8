/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts between any two instructions of real mode: each comes one
 * instruction later than the one before
 *
 * covers: hardware/real iret/real nmi/real
 */

#include "guest.h"

#define SEG             (BASE >> 4)
#define SEL_CODE        0x08
#define SEL_FLAT        0x10
#define FIRST           40
#define LAST            200

start:
        /* FS gets a limit of 4 GiB, to reach the local APIC */
        cli
        mov %cs, %ax
        mov %ax, %ds
        mov %ax, %es
        lgdtl OFF(gdtr)
        mov %cr0, %eax
        or $CR0_PE, %al
        mov %eax, %cr0
        mov $SEL_FLAT, %bx
        mov %bx, %fs
        and $~CR0_PE, %al
        mov %eax, %cr0
        jmp 1f
1:      xor %ax, %ax
        mov %ax, %ss
        mov $0x7000, %sp
        movl $SEG << 16 | OFF(handler20), %ss:0x20 * 4
        movl $SEG << 16 | OFF(handler30), %ss:0x30 * 4
        movl $SEG << 16 | OFF(handler_nmi), %ss:2 * 4

        mov $APIC, %ebp
        movl $APIC_ENABLE, %fs:APIC_SPURIOUS(%ebp)
        movl $APIC_DIVIDE_1, %fs:APIC_DIVIDE(%ebp)
        movl $0x20, %fs:APIC_TIMER(%ebp)
        movl $FIRST, %fs:APIC_INITIAL(%ebp)
        sti
sweep:  jmp 1f
        nop
1:      call near
        mov $OFF(near), %ax
        call *%ax
        movw $OFF(1f), OFF(pointer)
        jmp *OFF(pointer)
        nop
1:      push %ax
        pop %ax
        cmp %ax, %ax
        je 1f
        nop
1:      jne 1f
        nop
1:      je 1f                   /* to the next */
1:      mov $3, %cx
1:      loop 1b
        jcxz 1f
        nop
1:      mov $4, %cx
        mov $OFF(source), %si
        mov $OFF(target), %di
        rep movsb
        mov $4, %cx
        mov $OFF(source), %di
        mov $3, %al
        repne scasb
        mov $4, %cx
        mov $OFF(source), %si
        rep lodsb
        int $0x30
        lcallw $SEG, $OFF(far)
        calll near32
        pushf
        push %cs
        push $OFF(1f)
        iretw
1:      cli
        nop
        sti                     /* the one behind is not interrupted */
        jmp 1f
1:      cli
        sti
        call near
        mov %ss, %ax            /* neither is the one behind this */
        mov %ax, %ss
        jmp 1f
1:      pushf
        cli
        popf
        jmp 1f
1:      hlt
        cmpl $LAST, OFF(distance)
        jb sweep
        cli

        /* NMIs: by command, before instructions that do not branch */
        movl $ICR_SELF_NMI, %fs:APIC_ICR(%ebp)
        nop
        movl $ICR_SELF_NMI, %fs:APIC_ICR(%ebp)
        mov $2, %cx
        PASS

near:   ret
near32: retl
far:    lretw
handler30:
        iretw

/* Arms the timer for the next one, until the last. */
handler20:
        push %eax
        movl $0, %fs:APIC_EOI(%ebp)
        mov OFF(distance), %eax
        cmp $LAST, %eax
        jae 1f
        inc %eax
        mov %eax, OFF(distance)
1:      mov %eax, %fs:APIC_INITIAL(%ebp)
        pop %eax
handler_nmi:
        iretw

        .balign 8
gdt:    .quad 0
        DESC base, 0xffff, D_CODE, F_16
        FLAT D_DATA, F_4G
gdtr:   .word . - gdt - 1
        .long gdt
distance:
        .long FIRST
source: .byte 1, 2, 3, 4
target: .long 0
pointer:
        .word 0
        GUEST_END
