/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 64-bit mode: interrupts on stacks of their own and without a usable one,
 * NMIs that nest, returns to addresses that cannot be fetched, 16-bit code at
 * privilege level 3, debug traps and breakpoints and branches with odd
 * prefixes
 *
 * covers: int/long iret/long nmi/long hardware/long exception/long icebp/long
 * covers: syscall/long sysret/long far_ret/long jmp/long jcc/long call/long
 * covers: ret/long loop/long jmp_ind/long call_ind/long
 * covers: jmp/compat16 call/compat16 ret/compat16 loop/compat16 int/compat16
 * covers: iret/compat16 far_call/compat16 far_ret/compat16 far_jmp/compat16
 * covers: exception/compat16 hardware/compat16 nmi/compat16
 * vectors: 1 6 8 12 13 14
 * cr3: 0 0x20000
 */

#include "guest.h"
#include "long.h"

#define PAGE_NONE       0x30000
#define ADDRESS16       0x2000
#define NOT_CANONICAL   0x0000800000000000

#define SEL_USER_CODE16 (SEL_FREE | 3)
#define SEL_USER_DATA16 ((SEL_FREE + 8) | 3)

#define TSS_RSP0        (tss + 4)
#define TSS_IST2        (tss + 44)
#define TSS_IST3        (tss + 52)
#define TSS_IST4        (tss + 60)
#define STACK_IST2      0x3800
#define STACK_IST3      0x3400

#define VECTOR_PLAIN    0x20
#define VECTOR_IST2     0x21
#define VECTOR_IST3     0x22
#define VECTOR_IST4     0x23            /* its stack is the guest's to choose */
#define VECTOR_TIMER    0x24
#define VECTOR_LEVEL0   0x25            /* stays at level 0 */
#define VECTOR_SYSTEM   0x80

/* DR7: breakpoint 0 is on, with this type and length */
#define DR7_EXECUTE     0x00000401
#define DR7_WRITE8      0x00090401

        .macro STEP
        pushf
        orl $EFL_TF, (%rsp)
        popf
        .endm

        .macro STEP_END
        pushf
        andl $~EFL_TF, (%rsp)
        popf
        nop
        .endm

        .macro WATCH address, type
        mov $\address, %eax
        mov %rax, %db0
        mov $\type, %eax
        mov %rax, %db7
        .endm

        LONG_MODE
main:
        movl $0, PAGE_TABLE + (PAGE_NONE >> 12) * 8
        movw $OFF(handler_nmi), idt + 2 * 16
        movb $3, idt + 2 * 16 + 4       /* IST 3 */
        movq $STACK_IST2, TSS_IST2
        movq $STACK_IST3, TSS_IST3
        mov $MSR_STAR, %ecx
        mov $0x00180008, %edx
        xor %eax, %eax
        wrmsr
        mov $MSR_LSTAR, %ecx
        mov $system_call, %eax
        xor %edx, %edx
        wrmsr
        mov $APIC, %ebp
        movl $APIC_ENABLE, APIC_SPURIOUS(%rbp)
        movl $APIC_DIVIDE_1, APIC_DIVIDE(%rbp)
        movl $VECTOR_TIMER, APIC_TIMER(%rbp)

        /* stacks within stacks */
        int $VECTOR_PLAIN
        int $VECTOR_IST2                /* takes one on IST 3 */
        mov $3, %esp                    /* not aligned: it will be */
        int $VECTOR_IST3
        mov $STACK - 5, %esp
        int $VECTOR_PLAIN
        mov $STACK, %esp

        /* an interrupt whose own stack is not there, or not canonical */
        movq $PAGE_NONE + 0x800, TSS_IST4
        EXPECT 14, 1f
        int $VECTOR_IST4
1:      mov $NOT_CANONICAL, %rax
        mov %rax, TSS_IST4
        EXPECT 12, 1f
        int $VECTOR_IST4
1:      movq $PAGE_NONE + 8, TSS_IST4   /* in part */
        EXPECT 14, 1f
        int $VECTOR_IST4
1:      mov $STACK, %esp
        /* and when the fault has no stack either */
        EXPECT 8, 1f
        mov $NOT_CANONICAL, %rsp
        int $VECTOR_PLAIN
1:      EXPECT 8, 1f
        mov $PAGE_NONE + 0x800, %esp
        ud2
1:      EXPECT 8, 1f
        mov $PAGE_NONE + 0x800, %esp
        jmp PAGE_NONE
1:      mov $STACK, %esp

        /* returns to what cannot be fetched */
        .irp target, NOT_CANONICAL, PAGE_NONE
        mov $\target, %r8
        .if \target == PAGE_NONE
        movl $14, expected
        .else
        movl $13, expected
        .endif
        movl $1f, resume
        push $SEL_DATA
        push $STACK
        pushf
        push $SEL_CODE64
        push %r8
        iretq
1:      movl $1f, resume
        push $SEL_CODE64
        push %r8
        lretq
1:      mov $STACK, %esp
        movl $1f, resume
        push %r8
        ret $16
1:      mov $STACK, %esp
        movl $1f, resume
        call *%r8
1:      movl $1f, resume
        push $SEL_USER_DATA
        push $USER_STACK
        pushf
        push $SEL_USER_CODE64
        push %r8
        iretq
1:      int $VECTOR_LEVEL0              /* resumed at level 3 */
        movl $1f, resume
        mov %r8, %rcx
        mov $2, %r11d
        sysretq
1:      int $VECTOR_LEVEL0
        .endr

        /* NMIs: one that comes during another waits for its iretq */
        movl $2, nmis
        movl $ICR_SELF_NMI, APIC_ICR(%rbp)
        jmp 1f
        nop
1:      cmpl $0, nmis
        je 1f
        FAIL 0x30
1:
        /* a timer's, on IST 2, at level 0 and 3 */
        movl $0, ticks
        movl $20, APIC_INITIAL(%rbp)
        sti
1:      cmpl $1, ticks
        jne 1b
        movl $30, APIC_INITIAL(%rbp)
        ENTER_USER ticked
        jmp 1f
1:      cmpl $2, ticks
        jne 1b
        int $VECTOR_LEVEL0

        /* single steps, over changes of level as well */
        EXPECT_TRAP 1
        STEP
        jmp 1f
        nop
1:      call near
        mov $near, %eax
        call *%rax
        mov $2, %ecx
1:      loop 1b
        cmp %eax, %eax
        je 1f
        nop
1:      jne 1f
1:      int $VECTOR_PLAIN
        .byte 0xf1
        push $SEL_CODE64
        push $1f
        lretq
        nop
1:      mov $3, %ecx
        mov $buffer, %edi
        rep stosb
        mov $SEL_DATA, %eax
        mov %eax, %ss                   /* no trap between these two */
        nop
        push $SEL_USER_DATA
        push $USER_STACK
        pushf
        push $SEL_USER_CODE64
        push $1f
        iretq
1:      jmp 1f
        nop
1:      syscall                         /* steps on inside */
        jmp 1f
        nop
1:      int $VECTOR_PLAIN
        call near
        STEP_END
        int $VECTOR_LEVEL0

        /* breakpoints: on an instruction a fault, on data a trap */
        EXPECT 1, 1f
        WATCH near, DR7_EXECUTE
        call near
1:      mov $STACK, %esp
        xor %eax, %eax
        mov %rax, %db7
        EXPECT_TRAP 1
        WATCH buffer, DR7_WRITE8
        movl $1, buffer
        jmp 1f
        nop
1:      mov $buffer + 8, %esp           /* by the push of a call */
        mov $1f, %eax
        call *%rax
        nop
1:      mov $buffer + 8, %esp
        call 1f
        nop
1:      mov $STACK, %esp
        mov $3, %ecx
        mov $buffer, %edi
        rep stosb
        movb $1, buffer
        mov %esp, buffer
        xor %eax, %eax
        mov %rax, %db7

        /* prefixes */
        .byte 0x66, 0xeb, 1             /* jmp */
        nop
        .byte 0x66, 0xe9
        .long 1
        nop
        cmp %eax, %eax
        .byte 0x66, 0x74, 1             /* je */
        nop
        .byte 0x66, 0x0f, 0x84
        .long 1
        nop
        .byte 0x66, 0x75, 1             /* jne: not taken */
        nop
        mov $1f, %eax
        .byte 0x66, 0xff, 0xe0          /* jmp *%rax */
        nop
1:      mov $near_data16, %eax
        mov $1f, %r9d
        .byte 0x66, 0xff, 0xd0          /* call *%rax, pushes 16 bits */
1:      mov $1f, %r9d
        .byte 0x66, 0xe8                /* call, pushes 16 bits */
        .long near_data16 - . - 4
1:      movl $0xe1ff41, ADDRESS16       /* jmp *%r9 */
        mov $1f, %r9d
        pushw $ADDRESS16
        .byte 0x66, 0xc3                /* ret, pops 16 bits */
1:      mov $2, %ecx
1:      .byte 0x66, 0xe2, -3            /* loop */
        .byte 0x48, 0xeb, 1             /* jmp */
        nop
        .byte 0x2e, 0x3e, 0x65, 0x4f, 0xe9
        .long 1
        nop
        mov $1f, %eax
        .byte 0x48, 0xff, 0xe0
        nop
1:      .byte 0xf3, 0xeb, 1
        nop
        .byte 0x67, 0xeb, 1
        nop
        mov $1f, %r15d
        .byte 0xf2, 0x66, 0x41, 0xff, 0xe7      /* jmp *%r15 */
        nop
1:
        /* level 3 in 16-bit code, with its own stack and interrupts */
        movl $40, APIC_INITIAL(%rbp)
        push $SEL_USER_DATA16
        push $USER_STACK
        push $EFL_IF | 0x3002
        push $SEL_USER_CODE16
        push $OFF(user16)
        iretq
        .code16
user16: jmp 1f
        nop
1:      call near16
        mov $20, %cx
1:      loop 1b
        int $VECTOR_SYSTEM
        int $VECTOR_IST2
        pushf
        push %cs
        push $OFF(1f)
        iretw
        nop
1:      lcallw $SEL_USER_CODE16, $OFF(far16)
        lcalll $SEL_USER_CODE32, $from16
        mov $SEL_USER_DATA16, %ax
        mov %ax, %ds
        movl $6, OFF(expected)
        movl $OFF(1f), OFF(resume)
        ud2
1:      movl $13, OFF(expected)
        movl $OFF(1f), OFF(resume)
        hlt
1:      movl $2, OFF(expected)
        movl $0, OFF(resume)
        ljmpl $SEL_USER_CODE64, $1f
        .code64
1:      movl $1, nmis
        push $SEL_USER_CODE16
        push $OFF(send16)
        lretq
        .code16
send16: mov $SEL_USER_DATA, %ax
        mov %ax, %ds
        mov $APIC, %ebx         /* EBP would be in the stack segment */
        movl $ICR_SELF_NMI, APIC_ICR(%ebx)
        jmp 1f
        nop
1:      ljmpl $SEL_USER_CODE64, $1f
        .code64
        /* the stack for level 0 is not there: #DF on its own */
1:      movq $PAGE_NONE + 0x800, TSS_RSP0
        EXPECT 8, 1f
        int $VECTOR_PLAIN
1:      EXPECT 8, 1f
        hlt
1:      int $VECTOR_IST2
        movq $STACK_FROM_USER, TSS_RSP0
        int $VECTOR_LEVEL0
        cmpl $3, ticks
        jne 2f
        cmpl $0, nmis
        je 1f
2:      FAIL 0x31
1:      PASS

near:   ret
near_data16:
        add $2, %rsp
        jmp *%r9
system_call:
        jmp 1f
        nop
1:      sysretq
handler_ist2:
        int $VECTOR_IST3
handler_plain:
        iretq
handler_level0:
        mov (%rsp), %rax
        mov $STACK, %esp
        jmp *%rax
handler_timer:
        push %rbp
        incl ticks
        mov $APIC, %ebp
        movl $0, APIC_EOI(%rbp)
        pop %rbp
        iretq
handler_nmi:
        push %rbp
        mov $APIC, %ebp
        decl nmis
        jz 1f
        movl $ICR_SELF_NMI, APIC_ICR(%rbp)
        jmp 1f
        nop
1:      pop %rbp
        iretq

        .code32
from16: jmp 1f
        nop
1:      lret
        .code16
near16: ret
far16:  lretw

        LONG_GDT
        DESC base, 0xffff, (D_CODE | D_USER), F_16
        DESC base, 0xffff, (D_DATA | D_USER), F_16
        LONG_IDT
        GATE64 handler_plain, SEL_CODE64, (D_INTR32 | D_USER)
        GATE64 handler_ist2, SEL_CODE64, (D_INTR32 | D_USER), 2
        GATE64 handler_plain, SEL_CODE64, (D_INTR32 | D_USER), 3
        GATE64 handler_plain, SEL_CODE64, (D_INTR32 | D_USER), 4
        GATE64 handler_timer, SEL_CODE64, D_INTR32, 2
        GATE64 handler_level0, SEL_CODE64, (D_INTR32 | D_USER)
        .rept VECTOR_SYSTEM - VECTOR_LEVEL0 - 1
        .quad 0, 0
        .endr
        GATE64 handler_plain, SEL_CODE64, (D_TRAP32 | D_USER)
        LONG_END
        .balign 8
ticks:  .long 0
nmis:   .long 0
        .balign 16
        .fill 64
buffer: .quad 0, 0
        GUEST_END
