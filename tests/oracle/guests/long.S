/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 64-bit and compatibility mode: each kind of branch, system calls, changes
 * of mode and of privilege, faults, interrupt stacks
 *
 * covers: jmp/long jcc/long loop/long jcxz/long jmp_ind/long call/long
 * covers: call_ind/long ret/long far_jmp/long far_call/long far_ret/long
 * covers: int/long int3/long icebp/long iret/long syscall/long sysret/long
 * covers: exception/long
 * covers: jmp/compat32 jcc/compat32 loop/compat32 jcxz/compat32
 * covers: jmp_ind/compat32 call/compat32 call_ind/compat32 ret/compat32
 * covers: far_jmp/compat32 far_call/compat32 far_ret/compat32 int/compat32
 * covers: int3/compat32 into/compat32 icebp/compat32 iret/compat32
 * covers: syscall/compat32 exception/compat32
 * covers: jmp/compat16 jcc/compat16 loop/compat16 jcxz/compat16
 * covers: jmp_ind/compat16 call/compat16 call_ind/compat16 ret/compat16
 * covers: far_jmp/compat16 far_call/compat16 far_ret/compat16 int/compat16
 * vectors: 0 6 8 11 12 13 14
 * cr3: 0 0x20000
 */

#include "guest.h"
#include "long.h"

#define SEG             SEL_CODE16
#define SEG32           SEL_CODE32
#define SEG64           SEL_CODE64

#define PAGE_NONE       0x30000
#define PAGE_KERNEL     0x31000

#define SEL_GATE        SEL_FREE                /* 64-bit call gate */
#define SEL_GATE_USER   (SEL_FREE + 0x10)       /* for level 3 */
#define SEL_ABSENT      (SEL_FREE + 0x20)
#define SEL_DATA16      (SEL_FREE + 0x28)
#define SEL_ABSENT_DATA (SEL_FREE + 0x30)

        LONG_MODE
main:
        andl $~1, PAGE_TABLE + (PAGE_NONE >> 12) * 8
        andl $~4, PAGE_TABLE + (PAGE_KERNEL >> 12) * 8
        mov $MSR_STAR, %ecx
        mov $0x00180008, %edx
        xor %eax, %eax
        wrmsr
        mov $MSR_LSTAR, %ecx
        mov $system_call, %eax
        xor %edx, %edx
        wrmsr
        mov $MSR_CSTAR, %ecx
        mov $system_call32, %eax
        wrmsr
        mov $MSR_SFMASK, %ecx
        mov $EFL_TF | EFL_IF, %eax
        wrmsr

#include "branches64.h"
        int $0x20
        EXPECT_TRAP 3
        int3
        EXPECT_TRAP 1
        .byte 0xf1
        push $SEL_DATA
        push $STACK
        pushf
        push $SEL_CODE64
        push $1f
        iretq
1:      movl $0, far_pointer
        movw $SEL_GATE, far_pointer + 4
        lcall *far_pointer

        /* faults */
        EXPECT 0, 1f
        xor %ecx, %ecx
        div %rcx
1:      EXPECT 6, 1f
        ud2
1:      EXPECT 6, 1f
        .byte 0x9a, 0, 0, 0, 0, 0, 0    /* no direct far call */
1:      EXPECT 14, 1f
        mov PAGE_NONE, %rax
1:      EXPECT 14, 1f
        jmp *PAGE_NONE
1:      EXPECT 14, 1f
        mov $PAGE_NONE, %eax
        jmp *%rax
1:      EXPECT 14, 1f
        call *%rax
1:      pop %rcx
        EXPECT 14, 1f
        push %rax
        ret
1:      EXPECT 13, 1f
        mov $0x8000000000000000, %rax
        mov (%rax), %rcx
1:      EXPECT 13, 1f
        jmp *%rax               /* not canonical */
1:      EXPECT 13, 1f
        push %rax
        ret
1:      mov $STACK, %esp
        EXPECT 12, 1f
        mov $SEL_ABSENT_DATA, %ax
        mov %ax, %ss
1:      mov $STACK, %esp
        EXPECT 11, 1f
        movl $1f, far_pointer
        movw $SEL_ABSENT, far_pointer + 4
        lcall *far_pointer
1:      EXPECT 13, 1f
        movw $SEL_CODE32 + 0x2000, far_pointer + 4
        ljmp *far_pointer
1:      EXPECT 13, 1f
        push $0
        push $0
        pushf
        push $SEL_USER_CODE64
        push $1f
        iretq                   /* no stack segment for level 3 */
1:      EXPECT 13, 1f
        int $0xf0               /* beyond the IDT */
1:      mov $STACK, %esp
        /* the stack is gone: #DF, on a stack of its own */
        EXPECT 8, 1f
        mov $0x8000000000000000, %rax
        mov %rax, %rsp
        push %rax
1:      mov $STACK, %esp
        EXPECT 8, 1f
        mov $PAGE_NONE, %esp
        call near_64            /* the push faults, and the delivery of that */
1:      mov $STACK, %esp

        /* to compatibility mode at level 0, 32-bit and 16-bit, and back */
        movl $compat, far_pointer
        movw $SEL_CODE32, far_pointer + 4
        ljmp *far_pointer
        .code32
compat:
        mov $SEL_DATA, %ax
        mov %ax, %ss
#include "branches32.h"
        int $0x20
        EXPECT_TRAP 3
        int3
        EXPECT_TRAP 4
        mov $0x7f, %al
        inc %al
        into
        xor %al, %al
        into                    /* not taken */
        EXPECT_TRAP 1
        .byte 0xf1
        pushf
        push %cs
        push $1f
        iret
1:      lcall $SEL_GATE, $0
        lcall $SEL_CODE64, $from_compat
        ljmp $SEL_CODE16, $OFF(code16)
        .code16
code16: mov $SEL_DATA16, %ax
        mov %ax, %ds
#include "branches16.h"
        int $0x20
        ljmpl $SEL_CODE64, $back64
        .code64
from_compat:
        lretl
back64: mov $SEL_DATA, %ax
        mov %ax, %ds
        mov %ax, %ss

        /* level 3, 64-bit */
        ENTER_USER user64
        jmp 1f
        nop
1:      call near_64
        int $0x20
        EXPECT_TRAP 3
        int3
        syscall
        syscall
1:      EXPECT 13, 1f
        hlt
1:      EXPECT 14, 1f
        mov PAGE_KERNEL, %eax
1:      EXPECT 14, 1f
        mov $PAGE_KERNEL, %eax
        jmp *%rax
1:      EXPECT 14, 1f
        mov $PAGE_NONE + 8, %esp
        call near_64            /* the push faults */
1:      mov $USER_STACK, %esp
        EXPECT 13, 1f
        mov $0x8000000000000000, %rax
        jmp *%rax
1:      movl $0, far_pointer
        movw $SEL_GATE_USER | 3, far_pointer + 4
        lcall *far_pointer
        /* 32-bit code at level 3 */
        movl $user32, far_pointer
        movw $SEL_USER_CODE32, far_pointer + 4
        ljmp *far_pointer
        .code32
user32: jmp 1f
        nop
1:      call near_32
        int $0x20
        EXPECT_TRAP 4
        mov $0x7f, %al
        inc %al
        into
        syscall                 /* returns here, by sysretl */
        EXPECT 14, 1f
        mov PAGE_KERNEL, %eax
1:      EXPECT 14, 1f
        jmp PAGE_KERNEL
1:      EXPECT 13, 1f
        cli
1:      lcall $SEL_GATE_USER | 3, $0
        ljmp $SEL_USER_CODE64, $1f
        .code64
1:      int $0x21
end:    PASS

gate_target:
        lretq
system_call:
        sysretq
system_call32:
        sysretl
handler20:
        iretq
handler21:
        jmp end

        .macro CALL_GATE64 label, access
        GATE \label, SEL_CODE64, \access
        .quad 0
        .endm

        LONG_GDT
        CALL_GATE64 gate_target, D_CALL32
        CALL_GATE64 gate_target, (D_CALL32 | D_USER)
        .word 0xffff, 0
        .byte 0, D_CODE & 0x7f, F_64, 0
        DESC base, 0xffff, D_DATA, F_16
        .word 0xffff, 0
        .byte 0, D_DATA & 0x7f, F_4G, 0
        LONG_IDT
        GATE64 handler20, SEL_CODE64, (D_INTR32 | D_USER)
        GATE64 handler21, SEL_CODE64, (D_INTR32 | D_USER)
        LONG_END
        .balign 8
far_pointer:
        .quad 0, 0
        GUEST_END
