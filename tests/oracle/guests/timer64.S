/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and NMIs between any two instructions of 64-bit and
 * compatibility mode: each comes one instruction later than the one before
 *
 * covers: hardware/long nmi/long hardware/compat32 nmi/compat32 iret/long
 * covers: syscall/long sysret/long
 * cr3: 0 0x20000 0x26000
 */

#include "guest.h"
#include "long.h"

#define PML4_OTHER      0x26000         /* maps the same */

/* Instructions between two interrupts: from the first to the last. */
#define FIRST           40
#define LAST            200

/* BODY: branches and other instructions that both levels may execute */
        .macro BODY
        jmp 1f
        nop
1:      call 2f
        jmp 3f
2:      ret
3:      mov $2b, %eax
        call *%rax
        lea 1f(%rip), %rax
        jmp *%rax
        nop
1:      push %rax
        pop %rax
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
        lock incl target
        .endm

        .macro SWEEP lvt
        movl $FIRST, distance
        movl $\lvt, APIC_TIMER(%rbp)
        movl $FIRST, APIC_INITIAL(%rbp)
        .endm

        .macro SWEEP32 lvt
        movl $FIRST, distance
        movl $\lvt, APIC + APIC_TIMER
        movl $FIRST, APIC + APIC_INITIAL
        .endm

/* The same in 32-bit code. */
        .macro BODY32
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
1:      mov $3, %ecx
1:      loop 1b
        mov $4, %ecx
        mov $source, %esi
        mov $target, %edi
        rep movsb
        int $0x30
        ljmp $SEL_USER_CODE32, $1f
1:
        .endm

        .macro REPEAT label
        cmpl $LAST, distance
        jb \label
        .endm

        LONG_MODE
main:
        mov $PML4, %esi
        mov $PML4_OTHER, %edi
        mov $512, %ecx
        rep movsq
        mov $MSR_STAR, %ecx
        mov $0x00180008, %edx
        xor %eax, %eax
        wrmsr
        mov $MSR_LSTAR, %ecx
        mov $system_call, %eax
        xor %edx, %edx
        wrmsr
        mov $MSR_SFMASK, %ecx
        xor %eax, %eax          /* interrupts stay on */
        wrmsr
        movw $OFF(handler_nmi), idt + 2 * 16
        movb $1, idt + 2 * 16 + 4       /* IST */
        mov $APIC, %ebp
        movl $APIC_ENABLE, APIC_SPURIOUS(%rbp)
        movl $APIC_DIVIDE_1, APIC_DIVIDE(%rbp)

        SWEEP 0x20
        sti
first:  BODY
        push $SEL_DATA
        push $STACK
        pushf
        push $SEL_CODE64
        push $1f
        iretq
1:      cli
        nop
        sti                     /* the one behind is not interrupted */
        jmp 1f
1:      cli
        sti
        call 2f
        cli
        sti
        jmp 1f
2:      ret
1:      mov %ss, %eax           /* neither is the one behind this */
        mov %eax, %ss
        jmp 1f
1:      mov $PML4_OTHER, %eax
        mov %rax, %cr3
        jmp 1f
1:      mov $PML4, %eax
        mov %rax, %cr3
        hlt
        REPEAT first
        cli
        SWEEP 0x400
second: BODY
        mov $PML4_OTHER, %eax
        mov %rax, %cr3
        mov $PML4, %eax
        mov %rax, %cr3
        hlt
        REPEAT second

        movl $LAST, distance
        sti
        ENTER_USER user
        mov $APIC, %ebp
        SWEEP 0x20
third:  BODY
        syscall
        nop
        REPEAT third
        SWEEP 0x400
fourth: BODY
        syscall
        jmp 1f
1:      REPEAT fourth

        movl $compat, far_pointer
        movw $SEL_USER_CODE32, far_pointer + 4
        ljmp *far_pointer
        .code32
compat: SWEEP32 0x20
fifth:  BODY32
        REPEAT fifth
        SWEEP32 0x400
sixth:  BODY32
        REPEAT sixth
        ljmp $SEL_USER_CODE64, $1f
        .code64
1:      int $0x31
handler31:
        cmpl $3 * (LAST - FIRST), interrupts
        jae 1f
        FAIL 0x30
1:      PASS

system_call:
        jmp 1f
1:      sysretq
handler30:
        iretq

/* Arms the timer for the next one, until the last. */
handler20:
        push %rbp
        mov $APIC, %ebp
        movl $0, APIC_EOI(%rbp)
        incl interrupts
        jmp 1f
handler_nmi:
        push %rbp
        mov $APIC, %ebp
1:      push %rax
        mov distance, %eax
        cmp $LAST, %eax
        jae 1f
        inc %eax
        mov %eax, distance
        mov %eax, APIC_INITIAL(%rbp)
1:      pop %rax
        pop %rbp
        iretq

        LONG_GDT
        LONG_IDT
        GATE64 handler20, SEL_CODE64, D_INTR32
        .rept 15
        .quad 0, 0
        .endr
        GATE64 handler30, SEL_CODE64, (D_INTR32 | D_USER)
        GATE64 handler31, SEL_CODE64, (D_INTR32 | D_USER)
        LONG_END
        .balign 8
far_pointer:
        .quad 0
distance:
        .long 0
interrupts:
        .long 0
source: .byte 1, 2, 3, 4
target: .long 0
        GUEST_END
