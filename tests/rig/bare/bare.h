/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bare tests share: programs that own the emulated machine
 *
 * A test is a file NAME.c or NAME.S in ../tests/bare with a function test(),
 * called in 64-bit mode, at CPL 0, with interrupts off, and memory below 4 GiB
 * mapped as it is.  It ends by returning, or by fail().
 */
#ifndef BARE_H
#define BARE_H

#define STACK_SIZE      0x4000

/* Selectors, in the order that SYSCALL, SYSRET, SYSENTER and SYSEXIT want */
#define SEL_CODE64      0x08
#define SEL_DATA        0x10
#define SEL_USER32      0x1b
#define SEL_USER_DATA   0x23
#define SEL_USER64      0x2b
#define SEL_USER_DATA2  0x33
#define SEL_TSS         0x38
#define SEL_CODE32      0x48
#define SEL_CODE16      0x50
#define SEL_BASED32     0x58
#define BASED32         0x10000
#define SEL_FREE        0x60
#define GDT_SIZE        0x90

#define CR0_PE          0x00000001
#define CR0_NE          0x00000020
#define CR0_WP          0x00010000
#define CR0_PG          0x80000000
#define CR4_PAE         0x0020
#define CR4_VMXE        0x2000
#define MSR_EFER        0xc0000080
#define EFER_SCE        0x001
#define EFER_LME        0x100
#define EFER_NXE        0x800
#define MSR_STAR        0xc0000081
#define MSR_LSTAR       0xc0000082
#define MSR_CSTAR       0xc0000083
#define MSR_SFMASK      0xc0000084
#define MSR_SYSENTER_CS     0x174
#define MSR_SYSENTER_ESP    0x175
#define MSR_SYSENTER_EIP    0x176
#define MSR_APIC_BASE       0x1b
#define MSR_MISC_ENABLE     0x1a0
#define MSR_DEBUGCTL        0x1d9
#define MSR_DS_AREA         0x600

#define DEBUGCTL_TR         0x0040
#define DEBUGCTL_BTS        0x0080
#define DEBUGCTL_BTINT      0x0100
#define DEBUGCTL_OFF_OS     0x0200
#define DEBUGCTL_OFF_USR    0x0400
#define DEBUGCTL_FREEZE_SMM 0x4000
#define TRACE               (DEBUGCTL_TR | DEBUGCTL_BTS)

#define APIC                0xfee00000
#define APIC_ID             0x020
#define APIC_EOI            0x0b0
#define APIC_SVR            0x0f0
#define APIC_ICR            0x300
#define APIC_ICR2           0x310
#define APIC_LVTPC          0x340
#define LVT_NMI             0x00400
#define LVT_MASKED          0x10000

/* Flags of a page: writable, accessed and dirty */
#define PAGE_RW_DIRTY   0x63

#ifdef __ASSEMBLER__

#define OFF(label)      ((label) - 0x10000)

#ifndef BARE_START
/*
 * TRACE_ON FLAGS switches BTS on, with nothing in the buffer; TRACE_OFF
 * switches it off.  They use rax, rcx and rdx and take no branch while BTS is
 * on.  What is stored in between must be what B says:
 *
 *     TRACE_ON TRACE
 *     B 1f, jmp 1f             a branch from this instruction to 1f
 * 1:
 *     TRACE_OFF
 *     CHECK "jumps"            all B since TRACE_ON, in the order of the text
 *
 * E FROM, TO adds a record that no single instruction makes.
 */
    .macro TRACE_ON flags
    .pushsection .expect, "aw"
.Lexpect_\@:
    .popsection
    .set    expect_begin, .Lexpect_\@
    call    bts_reset
    TRACE_ON_AGAIN \flags
    .endm
    .macro TRACE_ON_AGAIN flags
    movl    $MSR_DEBUGCTL, %ecx
    movl    $\flags, %eax
    xorl    %edx, %edx
    wrmsr
    .endm
    .macro TRACE_OFF
    movl    $MSR_DEBUGCTL, %ecx
    xorl    %eax, %eax
    xorl    %edx, %edx
    wrmsr
    .endm
    .macro E from, to
    .pushsection .expect, "aw"
    .quad   \from, \to
    .popsection
    .endm
    .macro B to, insn:vararg
.Lfrom\@:
    \insn
    .pushsection .expect, "aw"
    .quad   .Lfrom\@, \to
    .popsection
    .endm
    .macro CHECK what
    .pushsection .expect, "aw"
.Lexpect_\@:
    .popsection
    .pushsection .rodata
.Lwhat\@:
    .asciz  "\what"
    .popsection
    movq    $.Lwhat\@, %rdi
    movq    $expect_begin, %rsi
    movq    $.Lexpect_\@, %rdx
    call    bts_check
    .endm
#endif

#else

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ds_area {
    uint64_t base, index, maximum, threshold;
    uint64_t pebs[8];
};

struct record {
    uint64_t from, to, flags;
};

struct branch {
    uint64_t from, to;
};

struct frame {
    uint64_t rip, cs, rflags, rsp, ss;
};

#define RECORDS 1024
extern struct ds_area ds_area;
extern struct record records[RECORDS];
extern uint64_t first_ds_area;          /* what IA32_DS_AREA was at first */

extern uint64_t pml4[512];
extern uint64_t gdt[];
extern uint8_t stack[], ap_stack[], event_stack[];

/* Output, and the end of a test */
void print(const char *format, ...);    /* %s %d %x (64 bits) */
void fail(const char *format, ...) __attribute__((noreturn));
void bare_pass(void) __attribute__((noreturn));
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fail("%s:%d: %s", __FILE__, __LINE__, #condition); \
        } \
    } while (0)
#define EQUAL(a, b) \
    do { \
        uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b); \
        if (a_ != b_) { \
            fail("%s:%d: %s is %x, not %x", __FILE__, __LINE__, #a, a_, b_); \
        } \
    } while (0)

/* BTS: bts_reset() empties the buffer and makes it the one of this CPU */
void bts_reset(void);
unsigned bts_count(void);
void bts_check(const char *what, const struct branch *begin,
               const struct branch *end);

/* The machine */
void set_gate(unsigned vector, const void *handler, unsigned dpl);
void map_page(uint64_t linear, uint64_t physical, uint64_t flags);
void unmap_page(uint64_t linear);
bool rdmsr_safe(uint32_t msr, uint64_t *value);
bool wrmsr_safe(uint32_t msr, uint64_t value);
void ap_start(void);                    /* the other CPU calls ap_main() */
void ap_main(void);

static inline uint64_t rdmsr(uint32_t msr)
{
    uint32_t low, high;
    asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return low | (uint64_t)high << 32;
}

static inline void wrmsr(uint32_t msr, uint64_t value)
{
    asm volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value),
                 "d"((uint32_t)(value >> 32)) : "memory");
}

static inline uint32_t apic_read(unsigned reg)
{
    return *(volatile uint32_t *)(uintptr_t)(APIC + reg);
}

static inline void apic_write(unsigned reg, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)(APIC + reg) = value;
}

static inline void outb(uint16_t port, uint8_t value)
{
    asm volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t inb(uint16_t port)
{
    uint8_t value;
    asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

#endif
#endif
