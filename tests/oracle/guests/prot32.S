/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Protected mode: each kind of branch in 32-bit and 16-bit code, call gates,
 * changes of privilege, segments with a base, wrapped addresses
 *
 * covers: jmp/prot32 jcc/prot32 loop/prot32 jcxz/prot32 jmp_ind/prot32
 * covers: call/prot32 call_ind/prot32 ret/prot32 far_jmp/prot32
 * covers: far_call/prot32 far_ret/prot32 int/prot32 int3/prot32 into/prot32
 * covers: icebp/prot32 iret/prot32 sysenter/prot32 sysexit/prot32
 * covers: jmp/prot16 jcc/prot16 loop/prot16 jcxz/prot16 jmp_ind/prot16
 * covers: call/prot16 call_ind/prot16 ret/prot16 far_jmp/prot16
 * covers: far_call/prot16 far_ret/prot16 int/prot16 iret/prot16
 * covers: exception/prot32
 * vectors: 13
 */

#include "guest.h"
#include "prot.h"

#define SEG             SEL_CODE16
#define SEG32           SEL_CODE32

#define SEL_BASED       SEL_FREE                /* 32-bit code at BASE */
#define SEL_WRAP        (SEL_FREE + 0x08)       /* 32-bit code at -BASE */
#define SEL_GATE        (SEL_FREE + 0x10)       /* to gate_target */
#define SEL_GATE_ARGS   (SEL_FREE + 0x18)       /* with two arguments */
#define SEL_GATE16      (SEL_FREE + 0x20)       /* pushes 16-bit addresses */
#define SEL_GATE_JMP    (SEL_FREE + 0x28)       /* to jump through */
#define SEL_CONFORM     (SEL_FREE + 0x30)       /* conforming code */

        PROTECTED_MODE
main:
#include "branches32.h"

        /* 16-bit code, and back */
        mov $SEL_DATA16, %ax
        mov %ax, %ds
        ljmp $SEL_CODE16, $OFF(code16)
        .code16
code16:
#include "branches16.h"
        int $0x20
        pushf
        push %cs
        push $OFF(1f)
        iretw
1:      lcalll $SEL_CODE32, $from16     /* wider, and back by lretl */
        ljmpl $SEL_CODE32, $code32
        .code32
from16: lret
code32: mov $SEL_DATA32, %ax
        mov %ax, %ds

        /* data16 branches: EIP is cut to 16 bits */
        ljmp $SEL_BASED, $OFF(based)
based:  data16 jmp 2f
        nop
2:      .byte 0x66, 0x74, 1     /* data16 je */
        nop
        cmp %eax, %eax
        .byte 0x66, 0x74, 1
        nop
        .byte 0x66, 0x75, 0     /* to the next, not taken and taken */
        .byte 0x66, 0x74, 0
        mov $2, %ecx
        .byte 0x66, 0xe2, 0
        .byte 0x66, 0xe2, 0
        data16 call 3f
        mov $OFF(2f), %eax
        .byte 0x66, 0xff, 0xe0  /* jmp *%ax */
        nop
2:      lcall $SEL_GATE16, $0
        ljmp $SEL_CODE32, $1f
3:      .byte 0x66, 0xc3        /* ret, 16 bits */
1:
        /* flat, a data16 branch goes to the first 64 KiB */
        mov $low, %esi
        mov $OFF(low), %edi
        mov $low_end - low, %ecx
        rep movsb
        .byte 0x66, 0xe9        /* data16 jmp low */
        .word low - . - 2
low:    mov $1f, %eax
        jmp *%eax
low_end:
        FAIL 0x30
1:
        /* addresses wrap at 4 GiB: base -BASE, offset 2 * BASE and more */
        ljmp $SEL_WRAP, $wrapped + BASE
wrapped:
        jmp 1f
        nop
1:      call 1f
        jmp 2f
1:      ret
2:      cmp %eax, %eax
        je 1f
        nop
1:      ljmp $SEL_CODE32, $1f
1:
        /* call gates at the same level */
        lcall $SEL_GATE, $0
        movw $SEL_GATE, pointer32 + 4
        lcall *pointer32
        ljmp $SEL_GATE_JMP, $0
gate_jmp:
        lcall $SEL_CONFORM, $gate_target

        /* software interrupts */
        int $0x20
        int $0x21
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
1:
        mov $MSR_SYSENTER_CS, %ecx
        mov $SEL_CODE32, %eax
        xor %edx, %edx
        wrmsr
        mov $MSR_SYSENTER_ESP, %ecx
        mov $STACK_FROM_USER, %eax
        wrmsr
        mov $MSR_SYSENTER_EIP, %ecx
        mov $system_call, %eax
        wrmsr

        /* the same at level 3 */
        ENTER_USER user
        jmp 1f
        nop
1:      call 1f
        cmp %eax, %eax
        je 2f
        nop
1:      ret
2:      int $0x20
        EXPECT_TRAP 3
        int3
        EXPECT_TRAP 4
        mov $0x7f, %al
        inc %al
        into
        EXPECT_TRAP 1
        .byte 0xf1
        EXPECT 13, 1f
        int $0x21               /* not for level 3: #GP */
1:      EXPECT 13, 1f
        hlt
1:      push $0x1234
        push $0x5678
        lcall $SEL_GATE_ARGS | 3, $0
        lcall $SEL_CONFORM, $gate_target
        lcall $SEL_USER_CODE, $gate_target
        mov $1f, %edx
        mov %esp, %ecx
        sysenter
1:      mov $SEL_USER_DATA, %ax
        mov %ax, %ds
        int $0x22
end:    PASS

gate_target:
        lret
gate16_target:
        lretw
gate_args_target:
        cmpl $0x1234, 12(%esp)
        je 1f
        FAIL 0x31
1:      cmpl $0x5678, 8(%esp)
        je 1f
        FAIL 0x32
1:      lret $8
system_call:
        sysexit
handler20:
        iret
handler22:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        jmp end

        PROTECTED_GDT
        DESC base, 0xffff, D_CODE, F_4G
        .word 0xffff, 0         /* base -BASE */
        .byte -(BASE >> 16) & 0xff, D_CODE, F_4G, 0xff
        GATE gate_target, SEL_CODE32, D_CALL32
        GATE gate_args_target, SEL_CODE32, (D_CALL32 | D_USER), 2
        .word OFF(gate16_target), SEL_BASED
        .byte 0, D_CALL16
        .word 0
        GATE gate_jmp, SEL_CODE32, D_CALL32
        FLAT 0x9e, F_4G
        PROTECTED_IDT
        GATE handler20, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler20, SEL_CODE32, D_TRAP32
        GATE handler22, SEL_CODE32, (D_INTR32 | D_USER)
        PROTECTED_END
        GUEST_END
