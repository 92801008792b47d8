/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls as kernels make them: sysenter and syscall from 64-bit and
 * compatibility mode, with swapgs and a change of address space on each way,
 * and faults on the way
 *
 * covers: sysenter/long sysexit/long sysenter/compat32 syscall/long
 * covers: sysret/long exception/compat32
 * vectors: 6 13 14
 * cr3: 0 0x20000 0x26018
 * qemu: -cpu qemu64,vendor=GenuineIntel
 */

#include "guest.h"
#include "long.h"

#define MSR_KERNEL_GS_BASE  0xc0000102

/* The user's address space does not have PAGE_SECRET. */
#define PML4_USER       0x26000
#define PAGE_SECRET     0x40000000
#define CR3_KERNEL      PML4
#define CR3_USER        (PML4_USER | 0x18)      /* with PWT and PCD */

#define PDPT_USER       0x27000

        .macro WRITE_MSR msr, value, high=0
        mov $\msr, %ecx
        mov $\value, %eax
        mov $\high, %edx
        wrmsr
        .endm

/* ENTER_KERNEL, LEAVE_KERNEL: what an entry begins and ends with */
        .macro ENTER_KERNEL
        swapgs
        mov %rax, %gs:0
        mov $CR3_KERNEL, %eax
        mov %rax, %cr3
        jmp 1f
1:      mov PAGE_SECRET, %eax
        mov %gs:0, %rax
        .endm

        .macro LEAVE_KERNEL
        mov %rax, %gs:0
        mov $CR3_USER, %eax
        mov %rax, %cr3
        jmp 1f
1:      mov %gs:0, %rax
        swapgs
        .endm

        LONG_MODE
main:
        mov $PML4_USER, %edi
        xor %eax, %eax
        mov $0x2000 / 4, %ecx
        rep stosl
        movl $PDPT_USER + 7, PML4_USER
        movl $PAGE_DIR + 7, PDPT_USER
        movl $PAGE_DIR + 7, PDPT + 8
        mov $CR3_KERNEL, %eax
        mov %rax, %cr3
        WRITE_MSR MSR_KERNEL_GS_BASE, scratch
        WRITE_MSR MSR_STAR, 0, 0x00180008
        WRITE_MSR MSR_LSTAR, entry_syscall
        WRITE_MSR MSR_SFMASK, EFL_IF
        WRITE_MSR MSR_SYSENTER_CS, SEL_CODE64
        WRITE_MSR MSR_SYSENTER_ESP, STACK_FROM_USER
        WRITE_MSR MSR_SYSENTER_EIP, entry_sysenter
        mov $CR3_USER, %eax
        mov %rax, %cr3
        ENTER_USER user64

        mov $3, %ebx
1:      syscall
        mov $2f, %edx
        sysenter
2:      call 3f
        dec %ebx
        jnz 1b
        jmp 4f
3:      ret
4:      EXPECT 14, 1f           /* it is not in this address space */
        mov PAGE_SECRET, %eax
1:      EXPECT 14, 1f
        mov $PAGE_SECRET, %eax
        jmp *%rax
1:      EXPECT 13, 1f
        mov $0x8000000000000000, %rdx
        mov $1, %esi            /* sysexit to no canonical address: #GP */
        sysenter
1:      movl $user32, far_pointer
        movw $SEL_USER_CODE32, far_pointer + 4
        ljmp *far_pointer
        .code32
user32: EXPECT 6, 1f
        syscall                 /* not in this mode, with this vendor */
1:      mov $3, %ebx
1:      mov $2f, %edx
        mov $2, %esi            /* back by sysexit to 32-bit code */
        sysenter
        nop
2:      dec %ebx
        jnz 1b
        ljmp $SEL_USER_CODE64, $1f
        .code64
1:      int $0x20
end:    PASS

entry_syscall:
        ENTER_KERNEL
        LEAVE_KERNEL
        sysretq

/* RDX: where to return to */
entry_sysenter:
        ENTER_KERNEL
        LEAVE_KERNEL
        mov $USER_STACK, %ecx
        cmp $2, %esi
        je 1f
        sysexitq
1:      sysexitl

handler20:
        ENTER_KERNEL
        jmp end

        LONG_GDT
        LONG_IDT
        GATE64 handler20, SEL_CODE64, (D_INTR32 | D_USER)
        LONG_END
        .balign 8
far_pointer:
        .quad 0
scratch:
        .quad 0
        GUEST_END
