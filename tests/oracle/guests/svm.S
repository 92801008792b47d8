/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Nested virtualisation (SVM): guests in 64-bit, 32-bit and real mode that
 * branch, take interrupts and faults and exit in every way; injected events of
 * each type; nested paging; VMRUN that fails
 *
 * covers: vmrun/long vmexit/long vmexit/prot32 vmexit/real injected/long
 * covers: injected/prot32 injected/real hardware/long hardware/real
 * covers: exception/long nmi/long iret/long iret/prot32 iret/real int/real
 * covers: syscall/long sysret/long call/long call/prot32 call/real
 * covers: far_call/long far_call/prot32 far_call/real
 * vectors: 1 6 8 13 14
 * cr3: 0 0x20000 0x1000000000000000 0x1000000000038000 0x1000000000039000
 * qemu: -cpu max
 */

#include "guest.h"
#include "long.h"

#define SEG             (BASE >> 4)
#define SEG32           SEL_CODE32
#define SEG64           SEL_CODE64

#define VMCB            0x30000
#define HSAVE           0x31000
#define IO_MAP          0x32000 /* of what is intercepted: all */
#define MSR_MAP         0x35000
#define GUEST_PML4      0x38000 /* maps the same */
#define GUEST_PML4_TOO  0x39000
#define NESTED_PML4     0x3a000 /* the same, but for PAGE_NESTED */
#define NESTED_PDPT     0x3b000
#define NESTED_DIR      0x3c000
#define NESTED_TABLE    0x3d000
#define PAGE_NESTED     0x40000 /* the nested tables do not have it */
#define PAGE_NONE       0x41000 /* the guest's tables do not have it */
#define PAGE_TABLE_HOLE 0x42000 /* the guest's tables to it are not there */
#define FAR_AWAY        0x20000000      /* what is mapped by those */

#define GUEST_STACK     0x3000

#define MSR_HSAVE       0xc0010117

/* APM vol. 2, appendix B. */
#define VMCB_CR_WRITE   (VMCB + 0x02)
#define VMCB_DR_WRITE   (VMCB + 0x06)
#define VMCB_EXCEPTIONS (VMCB + 0x08)
#define VMCB_INTERCEPT  (VMCB + 0x0c)   /* exit codes 0x60 to 0x7f */
#define VMCB_INTERCEPT2 (VMCB + 0x10)   /* 0x80 on */
#define VMCB_IO_MAP     (VMCB + 0x40)
#define VMCB_MSR_MAP    (VMCB + 0x48)
#define VMCB_ASID       (VMCB + 0x58)
#define VMCB_INT_CTL    (VMCB + 0x60)
#define VMCB_INT_VECTOR (VMCB + 0x64)
#define VMCB_EXIT_CODE  (VMCB + 0x70)
#define VMCB_NESTED     (VMCB + 0x90)
#define VMCB_EVENT      (VMCB + 0xa8)
#define VMCB_EVENT_CODE (VMCB + 0xac)
#define VMCB_NESTED_CR3 (VMCB + 0xb0)
#define VMCB_ES         (VMCB + 0x400)
#define VMCB_CS         (VMCB + 0x410)
#define VMCB_SS         (VMCB + 0x420)
#define VMCB_DS         (VMCB + 0x430)
#define VMCB_GDTR       (VMCB + 0x460)
#define VMCB_IDTR       (VMCB + 0x480)
#define VMCB_EFER       (VMCB + 0x4d0)
#define VMCB_CR4        (VMCB + 0x548)
#define VMCB_CR3        (VMCB + 0x550)
#define VMCB_CR0        (VMCB + 0x558)
#define VMCB_DR7        (VMCB + 0x560)
#define VMCB_DR6        (VMCB + 0x568)
#define VMCB_RFLAGS     (VMCB + 0x570)
#define VMCB_RIP        (VMCB + 0x578)
#define VMCB_RSP        (VMCB + 0x5d8)
#define VMCB_RAX        (VMCB + 0x5f8)

#define EFER_LMA        0x400

#define V_IRQ           (1 << 8)
#define V_INTR_MASKING  (1 << 24)

#define EVENT_INTR      0x80000000
#define EVENT_RESERVED  0x80000100      /* no such type */
#define EVENT_NMI       0x80000200
#define EVENT_EXCEPTION 0x80000300
#define EVENT_SOFT      0x80000400

#define EXIT_WRITE_CR3  0x13
#define EXIT_WRITE_DR0  0x30
#define EXIT_EXCEPTION  0x40
#define EXIT_INTR       0x60
#define EXIT_NMI        0x61
#define EXIT_VINTR      0x64
#define EXIT_RDTSC      0x6e
#define EXIT_PUSHF      0x70
#define EXIT_POPF       0x71
#define EXIT_CPUID      0x72
#define EXIT_IRET       0x74
#define EXIT_SWINT      0x75
#define EXIT_HLT        0x78
#define EXIT_INVLPG     0x79
#define EXIT_IOIO       0x7b
#define EXIT_MSR        0x7c
#define EXIT_SHUTDOWN   0x7f
#define EXIT_VMRUN      0x80
#define EXIT_VMMCALL    0x81
#define EXIT_STGI       0x84
#define EXIT_NPF        0x400
#define EXIT_ERR        -1

#define INTERCEPT(code) (1 << ((code) & 31))

#define VECTOR_TIMER    0x20
#define VECTOR_SOFT     0x21
#define SWEEP           120     /* instructions until the timer fires */
#define FIRST_REAL      24

/* A fresh guest in this mode: long, prot or real. */
        .macro NEW mode
        call new_\mode
        .endm

/* Run it from the label; it must exit so. */
        .macro RUN label, code
        movq $\label, VMCB_RIP
        call run
        cmpq $\code, VMCB_EXIT_CODE
        je 9f
        FAIL 0x21
9:
        .endm

/* The guest exits at what stands at the label; run it again behind that. */
        .macro EXIT mode, label, code
        NEW \mode
        orl $INTERCEPT(\code), VMCB_INTERCEPT + ((\code) - 0x60) / 32 * 4
        RUN \label, \code
        .endm

        .macro EXIT_FAULT mode, label, vector
        NEW \mode
        movl $1 << \vector, VMCB_EXCEPTIONS
        RUN \label, EXIT_EXCEPTION + \vector
        .endm

        .macro INJECT mode, label, event
        NEW \mode
        movl $\event, VMCB_EVENT
        RUN \label, EXIT_VMMCALL
        .endm

/* VMRUN fails if this is in the VMCB. */
        .macro BAD field, value
        NEW long
        movl $\value, \field
        RUN bad, EXIT_ERR
        .endm

        .macro SEGMENT field, selector, attributes, base
        movl $(\selector) | (\attributes) << 16, \field
        movl $-1, \field + 4
        movq $\base, \field + 8
        .endm

        LONG_MODE
main:
        /* a VMRUN that is none */
        EXPECT 6, 1f
        mov $VMCB, %eax
        vmrun
1:
        /* the tables */
        mov $VMCB, %edi
        mov $0x13000 / 8, %ecx
        xor %eax, %eax
        rep stosq
        mov $IO_MAP, %edi
        mov $0x5000 / 8, %ecx
        dec %rax
        rep stosq
        movl $PDPT + 7, GUEST_PML4
        movl $PDPT + 7, GUEST_PML4_TOO
        movl $PAGE_TABLE_HOLE + 7, PAGE_DIR + (FAR_AWAY >> 21) * 8
        movl $NESTED_PDPT + 7, NESTED_PML4
        movl $NESTED_DIR + 7, NESTED_PDPT
        movl $NESTED_TABLE + 7, NESTED_DIR
        mov $PAGE_TABLE, %esi
        mov $NESTED_TABLE, %edi
        mov $512, %ecx
        rep movsq
        movl $0, NESTED_TABLE + (PAGE_NESTED >> 12) * 8
        movl $0, NESTED_TABLE + (PAGE_TABLE_HOLE >> 12) * 8
        movl $0, PAGE_TABLE + (PAGE_NONE >> 12) * 8
        movl $SEG << 16 | OFF(real_handler), VECTOR_TIMER * 4
        movl $SEG << 16 | OFF(real_soft), VECTOR_SOFT * 4
        mov $MSR_EFER, %ecx
        rdmsr
        or $EFER_SVME, %eax
        wrmsr
        mov $MSR_HSAVE, %ecx
        mov $HSAVE, %eax
        xor %edx, %edx
        wrmsr
        mov $MSR_STAR, %ecx
        mov $SEL_USER_CODE32 << 16 | SEL_CODE64, %edx
        xor %eax, %eax
        wrmsr
        mov $MSR_LSTAR, %ecx
        mov $guest_syscall, %eax
        xor %edx, %edx
        wrmsr
        mov $APIC, %ebp
        movl $APIC_ENABLE, APIC_SPURIOUS(%rbp)
        movl $APIC_DIVIDE_1, APIC_DIVIDE(%rbp)
        movl $VECTOR_TIMER, APIC_TIMER(%rbp)

        /* a VMRUN that faults */
        EXPECT 13, 1f
        mov $VMCB + 8, %eax
        vmrun
1:
        /* branches of each kind inside */
        NEW long
        RUN guest64, EXIT_VMMCALL
        NEW prot
        RUN guest32, EXIT_VMMCALL
        NEW real
        RUN OFF(guest16), EXIT_VMMCALL

        /* exits by instructions */
        EXIT long, at_cpuid, EXIT_CPUID
        EXIT long, jmp_cpuid, EXIT_CPUID
        EXIT long, at_hlt, EXIT_HLT
        EXIT long, at_rdtsc, EXIT_RDTSC
        EXIT long, at_pushf, EXIT_PUSHF
        EXIT long, at_popf, EXIT_POPF
        EXIT long, at_iret, EXIT_IRET
        EXIT long, at_int, EXIT_SWINT
        EXIT long, at_int3, EXIT_SWINT
        EXIT long, at_invlpg, EXIT_INVLPG
        EXIT long, at_io, EXIT_IOIO
        EXIT long, at_msr, EXIT_MSR
        EXIT long, at_vmrun, EXIT_VMRUN
        EXIT long, at_stgi, EXIT_STGI
        EXIT prot, at_cpuid_32, EXIT_CPUID
        EXIT prot, at_hlt_32, EXIT_HLT
        EXIT prot, at_int_32, EXIT_SWINT
        EXIT real, OFF(at_cpuid_16), EXIT_CPUID
        EXIT real, OFF(at_hlt_16), EXIT_HLT
        EXIT real, OFF(at_int_16), EXIT_SWINT
        EXIT real, OFF(at_iret_16), EXIT_IRET
        NEW long
        movw $1 << 3, VMCB_CR_WRITE
        RUN at_cr3, EXIT_WRITE_CR3
        NEW long
        movw $1, VMCB_DR_WRITE
        RUN at_dr0, EXIT_WRITE_DR0

        /* exits by faults */
        EXIT_FAULT long, at_ud, 6
        EXIT_FAULT long, at_div, 0
        EXIT_FAULT long, at_gp, 13
        EXIT_FAULT long, at_pf, 14
        EXIT_FAULT long, at_pf_fetch, 14
        EXIT_FAULT long, PAGE_NONE, 14
        EXIT_FAULT long, at_pf_call, 14
        EXIT_FAULT long, at_pf_int, 14  /* while it is delivered */
        EXIT_FAULT long, at_step, 1
        EXIT_FAULT long, at_step_jmp, 1
        EXIT_FAULT prot, at_ud_32, 6
        EXIT_FAULT prot, at_gp_32, 13
        EXIT_FAULT prot, at_step_32, 1
        EXIT_FAULT real, OFF(at_ud_16), 6
        EXIT_FAULT real, OFF(at_div_16), 0
        NEW long                        /* nothing but triple faults */
        movw $0, VMCB_IDTR + 4
        RUN at_ud, EXIT_SHUTDOWN

        /* faults and traps that stay inside */
        NEW long
        RUN inner_faults, EXIT_VMMCALL

        /* a guest that changes its CR3 */
        NEW long
        RUN inner_cr3, EXIT_VMMCALL
        NEW long
        movl $GUEST_PML4_TOO, VMCB_CR3
        RUN jmp_vmmcall, EXIT_VMMCALL

        /* level 3 inside */
        NEW long
        RUN inner_user, EXIT_VMMCALL
        NEW long
        orl $INTERCEPT(EXIT_CPUID), VMCB_INTERCEPT
        RUN enter_cpuid_user, EXIT_CPUID

        /* events */
        movl $VECTOR_SOFT, expected
        INJECT long, jmp_vmmcall, (EVENT_INTR | VECTOR_SOFT)
        INJECT long, jmp_vmmcall, (EVENT_SOFT | VECTOR_SOFT)
        EXPECT_TRAP 2
        INJECT long, jmp_vmmcall, (EVENT_NMI | 2)
        EXPECT_TRAP 6
        INJECT long, jmp_vmmcall, (EVENT_EXCEPTION | 6)
        EXPECT_TRAP 1
        INJECT long, jmp_vmmcall, (EVENT_EXCEPTION | 1)
        EXPECT_TRAP 3
        INJECT long, jmp_vmmcall, (EVENT_SOFT | 3)
        NEW long
        EXPECT 14, vmmcall64
        movl $EVENT_EXCEPTION | 1 << 11 | 14, VMCB_EVENT
        movl $2, VMCB_EVENT_CODE
        RUN PAGE_NONE, EXIT_VMMCALL
        INJECT prot, jmp_vmmcall_32, (EVENT_INTR | VECTOR_SOFT)
        INJECT prot, jmp_vmmcall_32, (EVENT_SOFT | VECTOR_SOFT)
        INJECT prot, jmp_vmmcall_32, (EVENT_NMI | 2)
        INJECT prot, jmp_vmmcall_32, (EVENT_EXCEPTION | 6)
        INJECT real, OFF(jmp_vmmcall_16), (EVENT_INTR | VECTOR_SOFT)
        INJECT real, OFF(jmp_vmmcall_16), (EVENT_SOFT | VECTOR_SOFT)
        /* that cannot be delivered */
        NEW long
        movl $EVENT_EXCEPTION | 6, VMCB_EVENT
        movw $0, VMCB_IDTR + 4
        RUN jmp_vmmcall, EXIT_SHUTDOWN
        NEW long
        movl $EVENT_SOFT | VECTOR_SOFT, VMCB_EVENT
        movl $PAGE_NONE + 0x100, VMCB_RSP
        movl $1 << 14, VMCB_EXCEPTIONS
        RUN jmp_vmmcall, EXIT_EXCEPTION + 14
        NEW long
        movl $EVENT_INTR | VECTOR_SOFT, VMCB_EVENT
        movl $PAGE_NONE + 0x100, VMCB_RSP
        movl $1 << 14, VMCB_EXCEPTIONS
        RUN jmp_vmmcall, EXIT_EXCEPTION + 14
        /* whose handler cannot be fetched */
        NEW long
        movl $EVENT_INTR | VECTOR_SOFT + 2, VMCB_EVENT
        movl $1 << 14, VMCB_EXCEPTIONS
        RUN jmp_vmmcall, EXIT_EXCEPTION + 14

        /* virtual interrupts */
        NEW long
        orl $V_IRQ | 0x000f0000, VMCB_INT_CTL
        movl $VECTOR_SOFT, VMCB_INT_VECTOR
        orl $EFL_IF, VMCB_RFLAGS
        RUN jmp_vmmcall, EXIT_VMMCALL
        NEW long
        orl $V_IRQ | 0x000f0000, VMCB_INT_CTL
        movl $VECTOR_SOFT, VMCB_INT_VECTOR
        RUN sti_jmp_vmmcall, EXIT_VMMCALL
        NEW real
        orl $V_IRQ | 0x000f0000, VMCB_INT_CTL
        movl $VECTOR_SOFT, VMCB_INT_VECTOR
        RUN OFF(sti_vmmcall_16), EXIT_VMMCALL
        NEW long
        orl $V_IRQ | 0x000f0000, VMCB_INT_CTL
        movl $VECTOR_SOFT, VMCB_INT_VECTOR
        orl $INTERCEPT(EXIT_VINTR), VMCB_INTERCEPT
        RUN sti_jmp_vmmcall, EXIT_VINTR

        /* timer interrupts of the host at each instruction, then inside */
        movl $1, delay
1:      NEW long
        orl $INTERCEPT(EXIT_INTR), VMCB_INTERCEPT
        orl $EFL_IF, VMCB_RFLAGS
        call set_timer
        RUN endless, EXIT_INTR
        sti
        stgi
        nop
        clgi
        cli
        incl delay
        cmpl $SWEEP, delay
        jne 1b
        movl $1, delay
1:      NEW long
        orl $EFL_IF, VMCB_RFLAGS
        call set_timer
        RUN until_tick, EXIT_VMMCALL
        incl delay
        cmpl $SWEEP, delay
        jne 1b
        /* not before the first: the log has no CS base then */
        movl $FIRST_REAL, delay
1:      NEW real
        orl $INTERCEPT(EXIT_INTR), VMCB_INTERCEPT
        orl $EFL_IF, VMCB_RFLAGS
        call set_timer
        RUN OFF(endless_16), EXIT_INTR
        sti
        stgi
        nop
        clgi
        cli
        incl delay
        cmpl $SWEEP, delay
        jne 1b
        /* the host's flag decides */
        NEW long
        orl $INTERCEPT(EXIT_INTR), VMCB_INTERCEPT
        orl $V_INTR_MASKING, VMCB_INT_CTL
        movl $40, delay
        call set_timer
        stgi
        sti
        RUN endless, EXIT_INTR
        stgi
        nop
        cli

        /* an NMI that exits, one inside */
        EXPECT_TRAP 2
        NEW long
        orl $INTERCEPT(EXIT_NMI), VMCB_INTERCEPT
        RUN send_nmi, EXIT_NMI
        stgi
        nop
        NEW long
        RUN send_nmi, EXIT_VMMCALL

        /* nested paging */
        .macro NESTED label, code
        NEW long
        movl $1, VMCB_NESTED
        movl $NESTED_PML4, VMCB_NESTED_CR3
        RUN \label, \code
        .endm
        NESTED guest64, EXIT_VMMCALL
        NESTED at_nested, EXIT_NPF
        NESTED at_nested_write, EXIT_NPF
        NESTED at_nested_fetch, EXIT_NPF
        NESTED at_nested_call, EXIT_NPF
        NESTED at_nested_int, EXIT_NPF
        NESTED at_nested_table, EXIT_NPF
        NESTED PAGE_NESTED, EXIT_NPF
        NEW long
        movl $1, VMCB_NESTED
        movl $NESTED_PML4, VMCB_NESTED_CR3
        movl $EVENT_INTR | VECTOR_SOFT, VMCB_EVENT
        movl $PAGE_NESTED + 0x100, VMCB_RSP
        RUN jmp_vmmcall, EXIT_NPF

        /* VMRUN that fails: no record */
        BAD VMCB_ASID, 0
        BAD VMCB_INTERCEPT2, 0
        BAD VMCB_CR0 + 4, 1
        BAD VMCB_CR0, 0x20000001
        BAD VMCB_CR3 + 4, 0x80000000
        BAD VMCB_CR4, 0x80000000
        BAD VMCB_DR7 + 4, 1
        BAD VMCB_DR6 + 4, 1
        BAD VMCB_EFER, 0
        BAD VMCB_MSR_MAP + 4, -1
        BAD VMCB_EVENT, (EVENT_EXCEPTION | 2)
        BAD VMCB_EVENT, EVENT_RESERVED
        BAD VMCB_EVENT, (EVENT_EXCEPTION | 31)

        /* the host steps over VMRUN: a trap right after the exit */
        EXPECT_TRAP 1
        NEW long
        movq $jmp_vmmcall, VMCB_RIP
        mov $VMCB, %eax
        pushf
        orl $EFL_TF, (%rsp)
        popf
        vmrun
        nop
        pushf
        andl $~EFL_TF, (%rsp)
        popf
        nop

        /* level 3 must not */
        ENTER_USER user
        EXPECT 13, 1f
        mov $VMCB, %eax
        vmrun
1:      int $VECTOR_SOFT + 3
end:    PASS

run:    mov $VMCB, %eax
        vmrun
        ret

set_timer:
        movl $0, ticks
        mov delay, %eax
        mov $APIC, %ebp
        mov %eax, APIC_INITIAL(%rbp)
        ret

/* A guest in 64-bit mode with the host's tables but for its own CR3. */
new_long:
        mov $VMCB, %edi
        mov $0xc0 / 8, %ecx     /* what controls it; the rest is set below */
        xor %eax, %eax
        rep stosq
        movl $INTERCEPT(EXIT_SHUTDOWN), VMCB_INTERCEPT
        movl $INTERCEPT(EXIT_VMRUN) | INTERCEPT(EXIT_VMMCALL), VMCB_INTERCEPT2
        movl $IO_MAP, VMCB_IO_MAP
        movl $MSR_MAP, VMCB_MSR_MAP
        movl $1, VMCB_ASID
        SEGMENT VMCB_ES, SEL_DATA, 0xc93, 0
        SEGMENT VMCB_CS, SEL_CODE64, 0xa9b, 0
        SEGMENT VMCB_SS, SEL_DATA, 0xc93, 0
        SEGMENT VMCB_DS, SEL_DATA, 0xc93, 0
        movl $gdt_end - gdt - 1, VMCB_GDTR + 4
        movq $gdt, VMCB_GDTR + 8
        movl $idt_end - idt - 1, VMCB_IDTR + 4
        movq $idt, VMCB_IDTR + 8
        movq $EFER_SVME | EFER_LME | EFER_LMA | EFER_SCE, VMCB_EFER
        movq $CR4_PAE | CR4_OSFXSR, VMCB_CR4
        movq $GUEST_PML4, VMCB_CR3
        mov $CR0_PG | CR0_WP | CR0_NE | CR0_PE | 0x10, %eax
        mov %rax, VMCB_CR0
        movq $0x400, VMCB_DR7
        mov $0xffff0ff0, %eax
        mov %rax, VMCB_DR6
        movq $2, VMCB_RFLAGS
        movq $GUEST_STACK, VMCB_RSP
        ret

/* In 32-bit mode without paging. */
new_prot:
        call new_long
        SEGMENT VMCB_CS, SEL_CODE32, 0xc9b, 0
        movl $idt32_end - idt32 - 1, VMCB_IDTR + 4
        movq $idt32, VMCB_IDTR + 8
        movl $EFER_SVME, VMCB_EFER
        movl $0, VMCB_CR4
        movl $0, VMCB_CR3
        movl $CR0_NE | CR0_PE | 0x10, VMCB_CR0
        ret

/* In real mode. */
new_real:
        call new_prot
        SEGMENT VMCB_ES, SEG, 0x093, BASE
        SEGMENT VMCB_CS, SEG, 0x09b, BASE
        SEGMENT VMCB_SS, 0, 0x093, 0
        SEGMENT VMCB_DS, SEG, 0x093, BASE
        movl $0x3ff, VMCB_IDTR + 4
        movq $0, VMCB_IDTR + 8
        movl $CR0_NE | 0x10, VMCB_CR0
        ret

handler_timer:
        incl ticks
        mov $APIC, %ebp
        movl $0, APIC_EOI(%rbp)
handler_soft:
        iretq
handler_end:
        jmp end

/* What runs in 64-bit guests. */
guest64:
#include "branches64.h"
        int $VECTOR_SOFT
jmp_vmmcall:
        jmp vmmcall64
        nop
vmmcall64:
        vmmcall
        FAIL 0x30
bad:    FAIL 0x31
sti_jmp_vmmcall:
        sti
        jmp vmmcall64
        nop

        .macro AT name, code:vararg
\name:  \code
        vmmcall
        .endm
        AT at_cpuid, cpuid
jmp_cpuid:
        jmp at_cpuid
        AT at_hlt, hlt
        AT at_rdtsc, rdtsc
        AT at_pushf, pushf
        AT at_popf, popf
        AT at_iret, iretq
        AT at_int, int $VECTOR_SOFT
        AT at_int3, int3
        AT at_invlpg, invlpg BASE
        AT at_io, in $0x80, %al
at_msr: mov $MSR_STAR, %ecx
        rdmsr
        AT at_vmrun, vmrun
        AT at_stgi, stgi
        AT at_cr3, mov %rax, %cr3
        AT at_dr0, mov %rax, %db0
        AT at_ud, ud2
at_div: xor %ecx, %ecx
        div %ecx
at_gp:  mov $0xf000, %ax
        mov %ax, %es
        AT at_pf, mov PAGE_NONE, %eax
at_pf_fetch:
        cmp %eax, %eax
        je PAGE_NONE
at_pf_call:
        mov $PAGE_NONE + 0x100, %esp
        call vmmcall64
at_pf_int:
        mov $PAGE_NONE + 0x100, %esp
        int $VECTOR_SOFT
at_step:
        pushf
        orl $EFL_TF, (%rsp)
        popf
        nop
        vmmcall
at_step_jmp:
        pushf
        orl $EFL_TF, (%rsp)
        popf
        jmp vmmcall64
at_nested:
        mov PAGE_NESTED, %eax
at_nested_write:
        movl $1, PAGE_NESTED - 2        /* straddles */
at_nested_fetch:
        mov $PAGE_NESTED, %eax
        jmp *%rax
at_nested_call:
        mov $PAGE_NESTED + 0x100, %esp
        call vmmcall64
at_nested_int:
        mov $PAGE_NESTED + 0x100, %esp
        int $VECTOR_SOFT
at_nested_table:
        mov FAR_AWAY, %eax

inner_faults:
        EXPECT 6, 1f
        ud2
1:      EXPECT 13, 1f
        mov $0xf000, %ax
        mov %ax, %es
1:      EXPECT 14, 1f
        mov PAGE_NONE, %eax
1:      EXPECT 14, 1f
        jmp PAGE_NONE
1:      EXPECT 8, 1f
        andb $0x7f, idt + 13 * 16 + 5
        int $0xff
1:      orb $0x80, idt + 13 * 16 + 5
        EXPECT_TRAP 1
        pushf
        orl $EFL_TF, (%rsp)
        popf
        call 1f
1:      pop %rax
        jmp 1f
        nop
1:      pushf
        andl $~EFL_TF, (%rsp)
        popf
        vmmcall

inner_cr3:
        jmp 1f
        nop
1:      mov $GUEST_PML4_TOO, %eax
        mov %rax, %cr3
        jmp 1f
        nop
1:      mov $GUEST_PML4, %eax
        mov %rax, %cr3
        jmp 1f
        nop
1:      mov $GUEST_PML4_TOO, %eax
        mov %rax, %cr3
        vmmcall

inner_user:
        ENTER_USER guest_user
        syscall
        int $VECTOR_SOFT + 1
guest_syscall:
        sysretq
enter_cpuid_user:
        push $SEL_USER_DATA
        push $USER_STACK
        pushf
        push $SEL_USER_CODE64
        push $cpuid_user
        iretq
cpuid_user:
        cpuid
handler_user:
        vmmcall

send_nmi:
        mov $APIC, %ebp
        movl $ICR_SELF_NMI, APIC_ICR(%rbp)
        jmp vmmcall64

/* A loop with a bit of everything: endless, and until a timer interrupt. */
        .macro MIXTURE
        call 2f
        push %rax
        jmp 1f
        nop
1:      mov $3, %ecx
        mov $buffer, %esi
        mov %esi, %edi
        rep movsb
        test %ecx, %ecx
        jz 1f
        nop
1:      jnz 1f
        xor %eax, %eax
1:      pop %rdx
        .endm
endless:
        MIXTURE
        jmp endless
until_tick:
3:      MIXTURE
        cmpl $0, ticks
        je 3b
        vmmcall
2:      ret

/* What runs in 32-bit guests. */
        .code32
guest32:
#include "branches32.h"
        int $VECTOR_SOFT
jmp_vmmcall_32:
        jmp 1f
        nop
1:      vmmcall
        AT at_cpuid_32, cpuid
        AT at_hlt_32, hlt
        AT at_int_32, int $VECTOR_SOFT
        AT at_ud_32, ud2
at_gp_32:
        mov $0xf000, %ax
        mov %ax, %es
at_step_32:
        pushf
        orl $EFL_TF, (%esp)
        popf
        jmp 1f
        nop
1:      vmmcall
handler32:
        iret

/* What runs in real-mode guests. */
        .code16
guest16:
#include "branches16.h"
        int $VECTOR_SOFT
jmp_vmmcall_16:
        jmp 1f
        nop
1:      vmmcall
sti_vmmcall_16:
        sti
        jmp 1f
        nop
1:      vmmcall
        AT at_cpuid_16, cpuid
        AT at_hlt_16, hlt
        AT at_int_16, int $VECTOR_SOFT
        AT at_iret_16, iret
        AT at_ud_16, ud2
at_div_16:
        xor %cx, %cx
        div %cx
endless_16:
        call 2f
        jmp 1f
        nop
1:      mov $3, %cx
        mov $OFF(buffer), %si
        mov %si, %di
        rep movsb
        loop 1f
1:      ljmpw $SEG, $OFF(endless_16)
2:      ret
real_handler:
real_soft:
        iretw

        LONG_GDT
        LONG_IDT
        GATE64 handler_timer, SEL_CODE64, D_INTR32
        GATE64 handler_soft, SEL_CODE64, D_INTR32
        GATE64 handler_user, SEL_CODE64, (D_INTR32 | D_USER)
        .word PAGE_NONE & 0xffff, SEL_CODE64
        .byte 0, D_INTR32
        .word PAGE_NONE >> 16
        .long 0, 0
        GATE64 handler_end, SEL_CODE64, (D_INTR32 | D_USER)
        LONG_END
        .balign 8
idt32:  .rept VECTOR_SOFT + 1
        GATE handler32, SEL_CODE32, D_INTR32
        .endr
idt32_end:
delay:  .long 0
ticks:  .long 0
buffer: .quad 0
        GUEST_END
