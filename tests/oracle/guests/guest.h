/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all guests of the oracle have in common
 *
 * A guest is a ROM of 64 KiB that stands in for the BIOS, so that the trace
 * holds nothing but what the guest does.  From the reset vector it copies
 * itself to RAM at BASE and goes to its label "start", in real mode with
 * CS = BASE >> 4.  Everything is in one section linked at BASE: flat code
 * uses labels as they are, 16-bit code and descriptors use OFF(label).
 *
 * RAM below BASE and from 0x20000 on is free for stacks and tables.
 *
 * tests/oracle/run reads from a guest's first comment what to expect:
 *
 *     covers: KIND/MODE...     records there must be
 *     vectors: N...            exceptions there must be
 *     cr3: N...                address spaces that there must be, and no other
 *     qemu: ARGUMENT...        more arguments for QEMU
 *     resets: N                times the guest resets itself
 */

#define BASE            0x10000
#define OFF(label)      ((label) - base)

/* isa-debug-exit ends QEMU with status (value << 1) | 1. */
#define EXIT_PORT       0xf4
#define EXIT_PASS       0x10

#define CR0_PE          0x00000001
#define CR0_MP          0x00000002
#define CR0_EM          0x00000004
#define CR0_TS          0x00000008
#define CR0_NE          0x00000020
#define CR0_WP          0x00010000
#define CR0_PG          0x80000000
#define CR4_VME         0x0001
#define CR4_DE          0x0008
#define CR4_PSE         0x0010
#define CR4_PAE         0x0020
#define CR4_OSFXSR      0x0200
#define EFL_TF          0x0100
#define EFL_IF          0x0200
#define EFL_NT          0x4000
#define EFL_RF          0x10000
#define EFL_VM          0x20000
#define EFL_AC          0x40000

#define MSR_SYSENTER_CS     0x174
#define MSR_SYSENTER_ESP    0x175
#define MSR_SYSENTER_EIP    0x176
#define MSR_EFER            0xc0000080
#define MSR_STAR            0xc0000081
#define MSR_LSTAR           0xc0000082
#define MSR_CSTAR           0xc0000083
#define MSR_SFMASK          0xc0000084
#define EFER_SCE            0x001
#define EFER_LME            0x100
#define EFER_SVME           0x1000

/* The local APIC; its timer counts nanoseconds, so instructions. */
#define APIC            0xfee00000
#define APIC_EOI        0x0b0
#define APIC_SPURIOUS   0x0f0
#define APIC_ICR        0x300
#define APIC_TIMER      0x320
#define APIC_INITIAL    0x380
#define APIC_CURRENT    0x390
#define APIC_DIVIDE     0x3e0
#define APIC_ENABLE     0x1ff
#define APIC_DIVIDE_1   0xb
#define ICR_SELF_NMI    0x00040400

/* Access bytes of descriptors, present. */
#define D_CODE          0x9b
#define D_DATA          0x93
#define D_USER          0x60
#define D_TSS32         0x89
#define D_CALL32        0x8c
#define D_CALL16        0x84
#define D_TASK          0x85
#define D_INTR32        0x8e
#define D_TRAP32        0x8f
#define D_INTR16        0x86
/* Flags of descriptors. */
#define F_4G            0xcf    /* 32-bit, limit in pages */
#define F_32            0x40
#define F_16            0x00
#define F_64            0xaf

        .text
        .code16
base:

/* DESC address, limit, access, flags: a segment inside our own 64 KiB. */
        .macro DESC address, limit, access, flags
        .word \limit, OFF(\address)
        .byte BASE >> 16, \access, \flags, 0
        .endm

/* FLAT access, flags: a segment with base 0 and the largest limit. */
        .macro FLAT access, flags
        .word 0xffff, 0
        .byte 0, \access, \flags, 0
        .endm

/* GATE label, selector, access: a gate to our own code, 8 bytes. */
        .macro GATE label, selector, access, count=0
        .word OFF(\label), \selector
        .byte \count, \access
        .word BASE >> 16
        .endm

/* GATE64: the same for 64-bit mode, with an IST index. */
        .macro GATE64 label, selector, access, ist=0
        .word OFF(\label), \selector
        .byte \ist, \access
        .word BASE >> 16
        .long 0, 0
        .endm

/* The end of the test, in any mode at privilege level 0. */
        .macro PASS
        mov $EXIT_PASS, %al
        out %al, $EXIT_PORT
        cli
        hlt
        .endm

        .macro FAIL code
        mov $\code, %al
        out %al, $EXIT_PORT
        cli
        hlt
        .endm

/* From real mode to flat 32-bit code; GDT selectors are the guest's. */
        .macro ENTER_PROTECTED gdtr, cs, ss, label
        cli
        lgdtl %cs:OFF(\gdtr)
        mov %cr0, %eax
        or $CR0_PE | CR0_NE, %eax
        mov %eax, %cr0
        ljmpl $\cs, $\label
        .code32
\label:
        mov $\ss, %ax
        mov %ax, %ds
        mov %ax, %es
        mov %ax, %ss
        mov %ax, %fs
        mov %ax, %gs
        .endm

/* The last thing in a guest: how it gets into RAM. */
        .macro GUEST_END
        .balign 4
payload_end:
        .org base + 0xff80
        .code16
boot:
        mov $0xf000, %ax
        mov %ax, %ds
        mov $BASE >> 4, %ax
        mov %ax, %es
        xor %si, %si
        xor %di, %di
        mov $(payload_end - base) / 4, %cx
        cld
        rep movsl
        ljmpw $BASE >> 4, $OFF(start)
        .org base + 0xfff0
        ljmpw $0xf000, $OFF(boot)
        .org base + 0x10000
        .endm
