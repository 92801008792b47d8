/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and NMIs between any two instructions of protected mode and
 * virtual-8086 mode: each comes one instruction later than the one before
 *
 * covers: hardware/prot32 hardware/prot16 hardware/vm86 nmi/prot32 nmi/prot16
 * covers: nmi/vm86 iret/prot32
 */

#include "guest.h"
#include "prot.h"

#define SEG             (BASE >> 4)
#define SEL_USER_CODE16 (SEL_FREE | 3)
#define SEL_USER_DATA16 (SEL_FREE + 0x08 | 3)

/* Instructions between two interrupts: from the first to the last. */
#define FIRST           40
#define LAST            240

/* BODY cs: branches and other instructions, in flat code */
        .macro BODY cs
        jmp 1f
        nop
1:      call 2f
        jmp 3f
2:      ret
3:      mov $2b, %eax
        call *%eax
        push %eax
        pop %eax
        cmp %eax, %eax
        je 1f
        nop
1:      jne 1f
        nop
1:      je 1f                   /* to the next */
1:      mov $3, %ecx
1:      loop 1b
        mov $4, %ecx
        mov $source, %esi
        mov $target, %edi
        rep movsb
        mov $4, %ecx
        mov $source, %edi
        mov $3, %al
        repne scasb
        int $0x30
        lcall $\cs, $far_return
        pushf
        push $\cs
        push $1f
        iret
1:      incl target
        xchg %eax, target
        .endm

/* SWEEP label, vector: from now on interrupts come by themselves. */
        .macro SWEEP vector
        movl $FIRST, distance
        movl $\vector, APIC + APIC_TIMER
        movl $FIRST, APIC + APIC_INITIAL
        .endm

/* REPEAT label: until the sweep is over */
        .macro REPEAT label
        cmpl $LAST, distance
        jb \label
        .endm

        PROTECTED_MODE
main:
        movl $APIC_ENABLE, APIC + APIC_SPURIOUS
        movl $APIC_DIVIDE_1, APIC + APIC_DIVIDE
        movw $OFF(handler_nmi), idt + 2 * 8

        /* at level 0, where they can be turned off and waited for */
        SWEEP 0x20
        sti
first:  BODY SEL_CODE32
        cli
        nop
        sti                     /* the one behind is not interrupted */
        jmp 1f
1:      cli
        sti
        call 1f
        cli
        sti
        jmp 2f
1:      ret
2:      mov %ss, %ax            /* neither is the one behind this */
        mov %ax, %ss
        jmp 1f
1:      pushf
        cli
        popf
        jmp 1f
1:      hlt
        hlt
        sti
        hlt
        REPEAT first
        cli

        /* NMIs do not care */
        SWEEP 0x400
second: BODY SEL_CODE32
        mov %ss, %ax
        mov %ax, %ss
        jmp 1f
1:      hlt
        REPEAT second
        /* one after the other: at once */
        movl $ICR_SELF_NMI, APIC + APIC_ICR
        jmp 1f
1:      movl $ICR_SELF_NMI, APIC + APIC_ICR
        nop

        /* at level 3 */
        movl $LAST, distance
        sti
        ENTER_USER user
        SWEEP 0x20
third:  BODY SEL_USER_CODE
        REPEAT third
        SWEEP 0x400
fourth: BODY SEL_USER_CODE
        REPEAT fourth

        /* in 16-bit code */
        mov $SEL_USER_DATA16, %ax
        mov %ax, %ds
        ljmp $SEL_USER_CODE16, $OFF(code16)
        .code16
        .macro BODY16
1:      jmp 1f
        nop
1:      call 2f
        jmp 3f
2:      ret
3:      mov $OFF(2b), %ax
        call *%ax
        mov $3, %cx
1:      loop 1b
        mov $4, %cx
        mov $OFF(source), %si
        mov $OFF(target), %di
        rep lodsb
        cmp %al, %al
        je 1f
        nop
1:      int $0x30
        push %cs
        call far_return16
        .endm
code16: movl $FIRST, OFF(distance)
        mov $APIC, %ebx
        movl $0x20, %es:APIC_TIMER(%ebx)
        movl $FIRST, %es:APIC_INITIAL(%ebx)
fifth:  BODY16
        cmpl $LAST, OFF(distance)
        jb fifth
        movl $FIRST, OFF(distance)
        movl $0x400, %es:APIC_TIMER(%ebx)
        movl $FIRST, %es:APIC_INITIAL(%ebx)
sixth:  BODY16
        cmpl $LAST, OFF(distance)
        jb sixth
        int $0x31
        .code32
handler31:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        mov %ax, %es

        /* virtual-8086 mode */
        SWEEP 0x20
        .irp n, 0, 0, SEG, SEG, 0, USER_STACK, EFL_VM | 0x3202, SEG
        push $\n
        .endr
        push $OFF(seventh)
        iret
        .code16
seventh:
        BODY16
        cmpl $LAST, OFF(distance)
        jb seventh
        movl $FIRST, OFF(distance)
        int $0x32               /* arms the NMI */
eighth: BODY16
        cmpl $LAST, OFF(distance)
        jb eighth
        int $0x33
        .code32
handler33:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        cmpl $4 * (LAST - FIRST), interrupts
        jae 1f
        FAIL 0x30
1:      PASS

far_return:
        lret
        .code16
far_return16:
        lret
        .code32
handler30:
        iret
handler32:
        movl $0x400, %ss:APIC + APIC_TIMER
        movl $FIRST, %ss:APIC + APIC_INITIAL
        iret

/* Arms the timer for the next one, until the last. */
handler20:
        movl $0, %ss:APIC + APIC_EOI
        incl %ss:interrupts
handler_nmi:
        push %eax
        mov %ss:distance, %eax
        cmp $LAST, %eax
        jae 1f
        inc %eax
        mov %eax, %ss:distance
        mov %eax, %ss:APIC + APIC_INITIAL
1:      pop %eax
        iret

        PROTECTED_GDT
        DESC base, 0xffff, (D_CODE | D_USER), F_16
        DESC base, 0xffff, (D_DATA | D_USER), F_16
        PROTECTED_IDT
        GATE handler20, SEL_CODE32, D_INTR32
        .rept 15
        .quad 0
        .endr
        GATE handler30, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler31, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler32, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler33, SEL_CODE32, (D_INTR32 | D_USER)
        PROTECTED_END
distance:
        .long 0
interrupts:
        .long 0
source: .byte 1, 2, 3, 4
target: .long 0
        GUEST_END
