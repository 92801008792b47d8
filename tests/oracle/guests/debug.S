/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Debug exceptions: single step over branches of all sorts, breakpoints on
 * instructions (faults), data and I/O (traps), and what happens when several
 * meet
 *
 * covers: exception/prot32 icebp/prot32 iret/prot32 int/prot32 call/prot32
 * vectors: 1
 */

#include "guest.h"
#include "prot.h"

/* DR7: breakpoint 0 is on, with this type and length */
#define DR7_EXEC        0x00000001
#define DR7_WRITE4      0x000d0001
#define DR7_IO          0x00020001
#define DR7_ACCESS1     0x00030001
#define DR7_ACCESS4     0x000f0001
#define DR7_GD          0x00002000

/* WATCH address, type: set breakpoint 0 */
        .macro WATCH address, type
        mov $\address, %eax
        mov %eax, %dr0
        mov $\type, %eax
        mov %eax, %dr7
        .endm

        .macro UNWATCH
        xor %eax, %eax
        mov %eax, %dr7
        .endm

/* HITS n: so many debug exceptions there must have been since the last */
        .macro HITS n
        cmpl $\n, %cs:faults
        je 1f
        FAIL 0x30
1:      movl $0, %ss:faults
        .endm

/* STEP cs: branches of all sorts; single step is on when it begins */
        .macro STEP cs
        nop
        jmp 1f
        nop
1:      call 2f
        jmp 3f
2:      ret
3:      mov $2b, %eax
        call *%eax
        cmp %eax, %eax
        je 1f
        nop
1:      jne 1f
1:      je 1f                   /* to the next */
1:      mov $3, %ecx
1:      loop 1b
        mov $3, %ecx
        mov $data, %edi
        rep stosb
        mov $3, %ecx
        mov $data, %edi
        repne scasb
        int $0x20
        .byte 0xf1
        lcall $\cs, $far_return
        ljmp $\cs, $1f
1:      mov %ss, %ax
        mov %ax, %ss            /* no trap behind this */
        nop
        pushf
        pop %eax
        pushf
        push $\cs
        push $1f
        iret                    /* with TF in the image */
1:
        .endm

        .macro TRACE_ON
        pushf
        orl $EFL_TF, (%esp)
        popf
        .endm

        .macro TRACE_OFF
        pushf
        andl $~EFL_TF, (%esp)
        popf
        .endm

        PROTECTED_MODE
main:
        EXPECT_TRAP 1
        TRACE_ON
        STEP SEL_CODE32
        mov %dr7, %eax
        TRACE_OFF
        /* TF comes with iret, and goes with it */
        pushf
        orl $EFL_TF, (%esp)
        push $SEL_CODE32
        push $1f
        iret
1:      jmp 1f
1:      pushf
        andl $~EFL_TF, (%esp)
        push $SEL_CODE32
        push $1f
        iret
1:      movl $0, faults

        /* breakpoints on instructions: before they run */
        WATCH on_nop, DR7_EXEC
        EXPECT 1, 1f
on_nop: nop
        FAIL 0x31
1:      HITS 1
        WATCH on_target, DR7_EXEC
        EXPECT 1, 1f
        jmp on_target           /* taken branch, then the fault */
        nop
on_target:
        jmp on_target
1:      HITS 1
        EXPECT 1, 1f
        call on_target
1:      pop %eax
        EXPECT 1, 1f
        push $on_target
        ret
1:      EXPECT 1, 1f
        ljmp $SEL_CODE32, $on_target
1:      EXPECT 1, 1f
        cmp %eax, %eax
        je on_target
1:      EXPECT 1, 1f
        pushf
        push $SEL_CODE32
        push $on_target
        iret
1:      HITS 5
        /* RF lets it pass */
        EXPECT_TRAP 1
        WATCH on_branch, DR7_EXEC
        pushf
        orl $EFL_RF, (%esp)
        push $SEL_CODE32
        push $on_branch
        iret
        nop
on_branch:
        jmp 1f
        nop
1:      HITS 0
        /* on an interrupt instruction, on a handler */
        WATCH on_int, DR7_EXEC
        EXPECT 1, 1f
on_int: int $0x20
1:      HITS 1
        WATCH handler20, DR7_EXEC
        EXPECT 1, 1f
        int $0x20
1:      HITS 1
        mov $STACK, %esp

        /* on data: behind the instruction */
        EXPECT_TRAP 1
        WATCH data, DR7_WRITE4
        mov data, %eax
        HITS 0
        incl data
        HITS 1
        movl $0, data
        jmp 1f
        nop
1:      mov $2, %ecx
        mov $data, %edi
        rep stosb
        HITS 3
        WATCH data, DR7_ACCESS4
        mov data, %eax
        HITS 1
        pushl data
        pop data
        HITS 2
        movl $1f, data
        jmp *data               /* taken, then the trap */
        nop
1:      HITS 2
        movl $2f, data
        call *data
        jmp 3f
2:      ret
3:      HITS 2
        mov $2, %ecx
        mov $data, %esi
        rep lodsb
        HITS 2
        UNWATCH

        /* I/O */
        mov %cr4, %eax
        or $CR4_DE, %eax
        mov %eax, %cr4
        WATCH 0x80, DR7_IO
        out %al, $0x80
        in $0x80, %al
        out %al, $0x84
        HITS 2
        UNWATCH

        /* access to the debug registers themselves: a fault */
        EXPECT 1, 1f
        mov $DR7_GD, %eax
        mov %eax, %dr7
        mov %dr0, %eax
1:      HITS 1
        UNWATCH

        /* several at once: step onto a breakpoint, from a watched access */
        EXPECT_TRAP 1
        mov $after, %eax
        mov %eax, %dr1
        WATCH data, (DR7_WRITE4 + 4)
        TRACE_ON
        incl data
after:  TRACE_OFF
        UNWATCH
        movl $0, faults

        /* at level 3 */
        EXPECT_TRAP 1
        ENTER_USER user
        TRACE_ON
        STEP SEL_USER_CODE
        TRACE_OFF
        int $0x21
step_end:
        movl $0, faults
        movw $OFF(handler22), idt + 0x21 * 8
        WATCH (USER_STACK - 4), DR7_ACCESS4
        ENTER_USER watched
        call 2f                 /* the push is watched */
        jmp 3f
2:      ret
3:      HITS 2
        mov $2b, %eax
        call *%eax
        HITS 2
        lcall $SEL_USER_CODE, $far_return
        HITS 2
        push $1f
        ret
1:      HITS 2
        pushf
        push $SEL_USER_CODE
        push $1f
        iret
1:      HITS 2
        pusha
        popa
        enter $0, $0
        leave
        HITS 4
        int $0x20               /* not on this stack */
        HITS 0
        int $0x21
end:    PASS

far_return:
        lret
handler20:
        iret
handler21:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        jmp step_end
handler22:
        jmp end

        PROTECTED_GDT
        PROTECTED_IDT
        GATE handler20, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler21, SEL_CODE32, (D_INTR32 | D_USER)
        PROTECTED_END
        .balign 4
data:   .long 0
        GUEST_END
