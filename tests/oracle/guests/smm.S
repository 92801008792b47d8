/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System management mode: SMIs from a port, from the local APIC and from its
 * timer, between any two instructions of code in 64-bit, compatibility,
 * protected and real mode, with and without paging, at privilege level 0 and
 * 3; a handler in SMRAM that continues into each mode and returns from there;
 * interrupts that wait for its end (and count as of the mode of the RSM)
 *
 * covers: smi/long smi/compat32 smi/prot32 smi/real rsm/real rsm/prot32
 * covers: rsm/long jmp/real call/real int/real iret/real exception/real
 * covers: far_jmp/real far_jmp/prot32 call/prot32 call/long int/long
 * covers: int/compat32 int/prot32 exception/long hardware/real nmi/real
 * vectors: 0 1 6 14
 * cr3: 0 0x20000 0x26000 0x8000000000027000
 */

#include "guest.h"
#include "long.h"

#define SEG             (BASE >> 4)
#define SEG32           SEL_CODE32
#define SEG64           SEL_CODE64

#define SMI_PORT        0xb2
#define PCI_ADDRESS     0xcf8
#define PCI_DATA        0xcfc
/* The host bridge's SMRAM register: enabled, and open to all or closed. */
#define PCI_SMRAM       0x80000070
#define SMRAM_OPEN      0x4a
#define SMRAM_CLOSED    0x0a
/* An SMI for each write to SMI_PORT. */
#define PCI_PM_CONTROL  0x80000b58
#define PM_APMC_ENABLE  0x02

#define SMBASE_RESET    0x30000
#define SMBASE          0xa0000
#define SMM_ENTRY       0x8000          /* from SMBASE */
#define SMM_STATE_BASE  0xff00
#define SMM_STACK       0x2ff0

#define PML4_SMM        0x26000         /* maps the same */
#define PDPT_PAE        0x27000         /* for 32-bit code */
#define PAGE_NONE       0x30000

#define ICR_SELF_SMI    0x00040200
#define ICR_SELF        0x00040000
#define TIMER_SMI       0x00000200
#define VECTOR_SOFT     0x21
#define VECTOR_APIC     0x22
#define SWEEP           90      /* instructions until the timer fires */

/* What the handler is to do. */
#define DO_NOTHING      0
#define DO_RETURN       1       /* outside of SMRAM */
#define DO_REAL         2
#define DO_PROTECTED    3
#define DO_LONG         4
#define DO_INTERRUPT    5       /* one that waits until it ends */
#define DO_NMI          6

        .macro HAPPENED
        cmpb $0, happened
        jne 9f
        FAIL 0x22
9:      movb $0, happened
        .endm

/* An SMI from a write to the port, before this kind of instruction. */
        .macro SMI what, next:vararg
        movb $\what, wanted
        out %al, $SMI_PORT
        \next
9:      HAPPENED
        .endm

        .macro SMI_EACH
        SMI DO_NOTHING, nop
        .irp what, DO_RETURN, DO_REAL, DO_PROTECTED, DO_LONG, DO_NOTHING
        SMI \what, jmp 9f
        .endr
        .endm

/* A bit of everything, in flat code of 32 or 64 bits. */
        .macro MIXTURE
        call 2f
        pushf
        jmp 1f
        nop
1:      mov $3, %ecx
        mov $buffer, %esi
        mov %esi, %edi
        rep movsb
        int $VECTOR_SOFT
        test %ecx, %ecx
        jz 1f
        nop
1:      jnz 1f
        mov $2, %ecx
1:      loop 1b
1:      popf
        .endm

/* SMIs between any two of its instructions. */
        .macro SMI_SWEEP
        movb $DO_NOTHING, wanted
        movl $1, delay
4:      mov $APIC, %ebp
        mov delay, %eax
        mov %eax, APIC_INITIAL(%ebp)
3:      MIXTURE
        cmpb $0, happened
        je 3b
        movb $0, happened
        incl delay
        cmpl $SWEEP, delay
        jne 4b
        jmp 3f
2:      ret
3:
        .endm

/* Each iteration ends in an SMI. */
        .macro SMI_REPEATED
        mov $SMI_PORT, %edx
        mov $buffer, %esi
        mov $3, %ecx
        rep outsb
        HAPPENED
        .endm

        LONG_MODE
main:
        movl $PDPT + 7, PML4_SMM
        movl $PAGE_DIR + 1, PDPT_PAE
        movl $PAGE_DIR_APIC + 1, PDPT_PAE + 24
        movl $SEG << 16 | OFF(real_handler), VECTOR_SOFT * 4
        movl $SEG << 16 | OFF(real_fault), 0
        movl $0xffffffff, buffer
        mov $APIC, %ebp
        movl $APIC_ENABLE, APIC_SPURIOUS(%ebp)
        movl $APIC_DIVIDE_1, APIC_DIVIDE(%ebp)
        movl $TIMER_SMI, APIC_TIMER(%ebp)
        mov $MSR_STAR, %ecx
        mov $SEL_USER_CODE32 << 16 | SEL_CODE64, %edx
        xor %eax, %eax
        wrmsr
        mov $MSR_LSTAR, %ecx
        xor %edx, %edx
        mov $handler_syscall, %eax
        wrmsr
        mov $PCI_PM_CONTROL, %eax
        mov $PCI_ADDRESS, %edx
        out %eax, %dx
        mov $PM_APMC_ENABLE, %al
        mov $PCI_DATA + 3, %edx
        out %al, %dx

        /* put the handler into SMRAM, and give the CPU its address */
        mov $PCI_SMRAM, %eax
        mov $PCI_ADDRESS, %edx
        out %eax, %dx
        mov $SMRAM_OPEN, %al
        mov $PCI_DATA + 2, %edx
        out %al, %dx
        mov $smm_entry, %esi
        mov $SMBASE + SMM_ENTRY, %edi
        mov $smm_entry_end - smm_entry, %ecx
        rep movsb
        mov $SMRAM_CLOSED, %al
        out %al, %dx
        mov $smm_relocate, %esi
        mov $SMBASE_RESET + SMM_ENTRY, %edi
        mov $smm_relocate_end - smm_relocate, %ecx
        rep movsb
        out %al, $SMI_PORT
        HAPPENED
        movl $0, PAGE_TABLE + (PAGE_NONE >> 12) * 8

        /* 64-bit code */
        SMI_EACH
        SMI_SWEEP
        SMI_REPEATED
        movb $DO_NOTHING, wanted
        movl $ICR_SELF_SMI, APIC_ICR(%ebp)
        jmp 9f
        nop
9:      HAPPENED
        movl $1000, APIC_INITIAL(%ebp)
        hlt
        HAPPENED
        SMI DO_NOTHING, call 9f
        pop %rax
        SMI DO_NOTHING, int $VECTOR_SOFT
        push $9f
        SMI DO_NOTHING, ret
        EXPECT 6, 9f
        SMI DO_NOTHING, ud2
        EXPECT 14, 9f
        SMI DO_NOTHING, jmp PAGE_NONE
        /* interrupts that wait for the end of the handler */
        sti
        SMI DO_INTERRUPT, jmp 9f
        cli
        cmpl $1, interrupts
        je 1f
        FAIL 0x23
1:      EXPECT_TRAP 2
        SMI DO_NMI, jmp 9f
        /* single steps */
        EXPECT_TRAP 1
        movb $DO_REAL, wanted
        pushf
        orl $EFL_TF, (%rsp)
        popf
        out %al, $SMI_PORT
        jmp 1f
        nop
1:      pushf
        andl $~EFL_TF, (%rsp)
        popf
        HAPPENED

        /* level 3 */
        push $SEL_USER_DATA
        push $USER_STACK
        push $0x3002                    /* may do I/O */
        push $SEL_USER_CODE64
        push $user
        iretq
user:   SMI_EACH
        SMI_SWEEP
        SMI DO_NOTHING, syscall
        push $SEL_USER_CODE32
        push $user32
        lretq
        .code32
user32: SMI_EACH
        SMI_SWEEP
        int $VECTOR_SOFT + 2
        .code64
level0: push $SEL_CODE32
        push $compat
        lretq
        .code32
compat: SMI_EACH
        SMI_SWEEP
        SMI_REPEATED

        /* 32-bit code without paging, and with that of 32-bit code */
        mov %cr0, %eax
        and $~CR0_PG, %eax
        mov %eax, %cr0
        mov $MSR_EFER, %ecx
        rdmsr
        and $~EFER_LME, %eax
        wrmsr
        lidt idtr32
        SMI_EACH
        SMI_SWEEP
        SMI_REPEATED
        mov $PDPT_PAE, %eax
        mov %eax, %cr3
        mov %cr0, %eax
        or $CR0_PG, %eax
        mov %eax, %cr0
        jmp 1f
        nop
1:      SMI_EACH
        SMI_SWEEP
        SMI_REPEATED

        /* real mode; FS keeps its limit, to reach the local APIC */
        mov %cr0, %eax
        and $~CR0_PG, %eax
        mov %eax, %cr0
        ljmp $SEL_CODE16, $OFF(code16)
        .code16
code16: mov %cr0, %eax
        and $~CR0_PE, %eax
        mov %eax, %cr0
        ljmpw $SEG, $OFF(real)
real:   mov $SEG, %ax
        mov %ax, %ds
        mov %ax, %es
        xor %ax, %ax
        mov %ax, %ss
        mov $STACK, %esp
        lidtw OFF(idtr16)
        .irp what, DO_NOTHING, DO_RETURN, DO_REAL, DO_PROTECTED, DO_LONG
        movb $\what, OFF(wanted)
        out %al, $SMI_PORT
        jmp 9f
        nop
9:      cmpb $0, OFF(happened)
        jne 9f
        FAIL 0x24
9:      movb $0, OFF(happened)
        .endr
        movb $DO_NOTHING, OFF(wanted)
        movl $1, OFF(delay)
4:      mov $APIC, %ebp
        mov OFF(delay), %eax
        mov %eax, %fs:APIC_INITIAL(%ebp)
3:      call 2f
        pushf
        jmp 1f
        nop
1:      mov $3, %cx
        mov $OFF(buffer), %si
        mov %si, %di
        rep movsb
        int $VECTOR_SOFT
        test %cx, %cx
        jz 1f
        nop
1:      jnz 1f
        mov $2, %cx
1:      loop 1b
        ljmpw $SEG, $OFF(1f)
1:      popf
        cmpb $0, OFF(happened)
        je 3b
        movb $0, OFF(happened)
        incl OFF(delay)
        cmpl $SWEEP, OFF(delay)
        jne 4b
        PASS
2:      ret

/* The first handler: the next one is in SMRAM. */
smm_relocate:
        mov $SMBASE_RESET + SMM_STATE_BASE, %ebx
        movl $SMBASE, (%ebx)
        mov $happened, %ebx
        movb $1, (%ebx)
        rsm
smm_relocate_end:

/* The handler in SMRAM; its data segments are flat, its stack is not set. */
smm_entry:
        mov $happened, %ebx
        movb $1, (%ebx)
        mov $wanted, %ebx
        cmpb $DO_NOTHING, (%ebx)
        jne 1f
        rsm
1:      mov $SMM_STACK, %esp
        call 2f
        ljmpw $SEG, $OFF(smm_more)
2:      ret
smm_entry_end:

smm_more:
        mov (%ebx), %al
        dec %al                         /* DO_RETURN */
        jz smm_return
        mov $APIC, %ebx
        cmp $DO_INTERRUPT - 1, %al
        jne 1f
        movl $ICR_SELF | VECTOR_APIC, APIC_ICR(%ebx)
        rsm
1:      cmp $DO_NMI - 1, %al
        jne 1f
        movl $ICR_SELF_NMI, APIC_ICR(%ebx)
        nop
        nop
        rsm
1:      mov %al, %dl
        mov $SEG, %ax
        mov %ax, %ds
        mov %ax, %es
        lidtw OFF(idtr16)
        cmp $DO_REAL - 1, %dl
        je smm_real
        ENTER_PROTECTED gdtr, SEL_CODE32, SEL_DATA, smm_protected
        cmpb $DO_PROTECTED, wanted
        jne smm_long
#include "branches32.h"
        rsm
smm_long:
        mov $PML4_SMM, %eax
        mov %eax, %cr3
        mov $CR4_PAE | CR4_OSFXSR, %eax
        mov %eax, %cr4
        mov $MSR_EFER, %ecx
        rdmsr
        or $EFER_LME, %eax
        wrmsr
        mov %cr0, %eax
        or $CR0_PG, %eax
        mov %eax, %cr0
        ljmp $SEL_CODE64, $smm_code64
        .code64
smm_code64:
        lidt idtr
#include "branches64.h"
        mov expected, %r8
        int $VECTOR_SOFT
        EXPECT 14, 1f
        jmp PAGE_NONE
1:      mov %r8, expected
        rsm

        .code16
smm_real:
#include "branches16.h"
        int $VECTOR_SOFT
        xor %cx, %cx
        div %cx
        rsm
smm_return:
        rsm
/* Steps over a division. */
real_fault:
        push %bp
        mov %sp, %bp
        addw $2, 2(%bp)
        pop %bp
real_handler:
        iretw

        .code64
handler_level0:
        jmp level0
handler_syscall:
        sysretq
handler_apic:
        incl interrupts
        mov $APIC, %ebp
        movl $0, APIC_EOI(%ebp)
handler_soft:
        iretq
        .code32
handler32:
        iret

        LONG_GDT
        LONG_IDT
        .quad 0, 0
        GATE64 handler_soft, SEL_CODE64, (D_INTR32 | D_USER)
        GATE64 handler_apic, SEL_CODE64, D_INTR32
        GATE64 handler_level0, SEL_CODE64, (D_INTR32 | D_USER)
        LONG_END
        .balign 8
idt32:  .rept VECTOR_SOFT + 1
        GATE handler32, SEL_CODE32, D_INTR32
        .endr
idt32_end:
idtr32: .word idt32_end - idt32 - 1
        .long idt32
idtr16: .word 0x3ff
        .long 0
        .balign 4
delay:  .long 0
interrupts:
        .long 0
buffer: .quad 0
wanted: .byte 0
happened:
        .byte 0
        GUEST_END
