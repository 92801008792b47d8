/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System-management mode, with and without FREEZE_WHILE_SMM
 *
 * SDM vol. 3, "IA32_DEBUGCTL MSR": with FREEZE_WHILE_SMM, an SMI clears LBR,
 * BTF, TR and BTS, and RSM restores them.  Without it, SMM is traced: with
 * records of the SMI and RSM.
 */
#include "bare.h"

    .text
    .globl test
test:
    /* Out of reset SMBASE is 0x30000 and the handler at its offset 0x8000. */
    movq    $handler, %rsi
    movl    $0x38000, %edi
    movl    $handler_end - handler, %ecx
    rep movsb
    movl    $APIC, %ebx

    movq    $0, in_smm
    TRACE_ON (TRACE | DEBUGCTL_FREEZE_SMM)
    B 1f, jmp 1f
1:  movl    $0x4200, APIC_ICR(%rbx)    /* an SMI to this CPU itself */
    nop
    B 1f, jmp 1f
1:  movl    $MSR_DEBUGCTL, %ecx
    rdmsr
    movl    %eax, %r12d
    TRACE_OFF
    CHECK "frozen"
    cmpl    $TRACE | DEBUGCTL_FREEZE_SMM, %r12d
    jne     wrong
    cmpl    $DEBUGCTL_FREEZE_SMM, in_smm
    jne     wrong

    movq    $0, in_smm
    TRACE_ON TRACE
    movl    $0x4200, APIC_ICR(%rbx)
smi_from:
    E smi_from, 0x38000
    E 0x38000+smm_jmp-handler, 0x38000+smm_jmp_to-handler
    E 0x38000+smm_rsm-handler, smi_from
    TRACE_OFF
    CHECK "not frozen"
    cmpl    $TRACE, in_smm
    jne     wrong
    ret
wrong:
    movq    $text, %rdi
    movl    in_smm, %esi
    movq    %r12, %rdx
    xorl    %eax, %eax
    call    fail

    .code16
handler:
    movl    $MSR_DEBUGCTL, %ecx
    rdmsr
    addr32 movl %eax, in_smm
smm_jmp:
    jmp     smm_jmp_to
    nop
smm_jmp_to:
    nop
smm_rsm:
    rsm
handler_end:
    .code64

    .data
text:
    .asciz  "IA32_DEBUGCTL is %x in SMM, %x after it"
in_smm:
    .quad   0
