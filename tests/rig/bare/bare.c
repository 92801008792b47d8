/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bare tests share: output, descriptors, pages, and the BTS buffer
 */
#include <stdarg.h>
#include "bare.h"

/* Bochs writes what comes to the one to its standard output, and ends when it
   sees "Shutdown" on the other. */
#define PORT_OUTPUT     0xe9
#define PORT_SHUTDOWN   0x8900

struct ds_area ds_area;
uint64_t first_ds_area;
struct record records[RECORDS];

struct gate {
    uint16_t offset0, selector;
    uint8_t ist, type;
    uint16_t offset1;
    uint32_t offset2, reserved;
};

static struct gate idt[256] __attribute__((aligned(16)));
static uint32_t tss[26] __attribute__((aligned(16)));
static uint64_t tables[16][512] __attribute__((aligned(4096)));
static unsigned tables_used;

extern const void *const unexpected_table[32];
extern const char safe_gp[], ap_trampoline[], ap_trampoline_end[];
extern struct {
    uint16_t limit;
    uint64_t base;
} __attribute__((packed)) idt_pointer, gdt_pointer;

void bare_init(void);
void bare_unexpected(unsigned vector, uint64_t error, uint64_t rip,
                     uint64_t cr2) __attribute__((noreturn));
void *memset(void *to, int byte, size_t size);
void *memcpy(void *to, const void *from, size_t size);

/* What the compiler may call */
void *memset(void *to, int byte, size_t size)
{
    void *begin = to;

    asm volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
    return begin;
}

void *memcpy(void *to, const void *from, size_t size)
{
    void *begin = to;

    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return begin;
}

/* Output --------------------------------------------------------------- */

static void print_number(uint64_t number, unsigned base)
{
    char text[24];
    unsigned n = 0;

    do {
        text[n++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    while (n) {
        outb(PORT_OUTPUT, text[--n]);
    }
}

static void print_list(const char *format, va_list list)
{
    for (; *format; format++) {
        if (*format != '%') {
            outb(PORT_OUTPUT, *format);
            continue;
        }
        switch (*++format) {
        case 's':
            print(va_arg(list, const char *));
            break;
        case 'd':
            print_number(va_arg(list, unsigned), 10);
            break;
        case 'x':
            print("0x");
            print_number(va_arg(list, uint64_t), 16);
            break;
        }
    }
}

void print(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print_list(format, list);
    va_end(list);
}

static void __attribute__((noreturn)) shut_down(void)
{
    const char *word;

    for (word = "Shutdown"; *word; word++) {
        outb(PORT_SHUTDOWN, *word);
    }
    for (;;) {
        asm volatile("cli; hlt");
    }
}

void fail(const char *format, ...)
{
    va_list list;

    wrmsr(MSR_DEBUGCTL, 0);
    print("RIG: FAIL ");
    va_start(list, format);
    print_list(format, list);
    va_end(list);
    print("\n");
    shut_down();
}

void bare_pass(void)
{
    print("RIG: PASS\n");
    shut_down();
}

void bare_unexpected(unsigned vector, uint64_t error, uint64_t rip,
                     uint64_t cr2)
{
    fail("exception %d, error code %x, at %x, cr2 %x", vector, error, rip,
         cr2);
}

/* The machine ---------------------------------------------------------- */

void set_gate(unsigned vector, const void *handler, unsigned dpl)
{
    uint64_t offset = (uintptr_t)handler;

    idt[vector] = (struct gate) {
        .offset0 = offset,
        .selector = SEL_CODE64,
        .type = 0x8e | dpl << 5,
        .offset1 = offset >> 16,
        .offset2 = offset >> 32,
    };
}

static uint64_t *table_of(uint64_t *entry)
{
    if (!(*entry & 1)) {
        if (tables_used == sizeof(tables) / sizeof(tables[0])) {
            fail("no more page tables");
        }
        *entry = (uintptr_t)tables[tables_used++] | 0x67;
    }
    return (uint64_t *)(uintptr_t)(*entry & ~0xfffull);
}

/* Only where nothing is mapped yet: from 4 GiB on */
void map_page(uint64_t linear, uint64_t physical, uint64_t flags)
{
    uint64_t *table = pml4;
    int shift;

    for (shift = 39; shift > 12; shift -= 9) {
        table = table_of(&table[linear >> shift & 511]);
    }
    table[linear >> 12 & 511] = physical | flags;
    asm volatile("invlpg (%0)" : : "r"(linear) : "memory");
}

void unmap_page(uint64_t linear)
{
    map_page(linear, 0, 0);
}

void ap_start(void)
{
    unsigned n;

    memcpy((void *)0x8000, ap_trampoline, ap_trampoline_end - ap_trampoline);
    apic_write(APIC_ICR2, 1u << 24);
    apic_write(APIC_ICR, 0x4500);       /* INIT */
    for (n = 0; n < 10000; n++) {       /* the other CPU takes its turn */
        asm volatile("pause");
    }
    apic_write(APIC_ICR2, 1u << 24);
    apic_write(APIC_ICR, 0x4608);       /* start-up, at 0x8000 */
}

void bare_init(void)
{
    uint64_t base = (uintptr_t)tss;
    unsigned n;

    /* A TSS, for the stack of CPL 0 */
    tss[1] = (uintptr_t)event_stack + STACK_SIZE;
    gdt[SEL_TSS / 8] = 0x890000000067 | (base & 0xffffff) << 16 |
                       (base >> 24 & 0xff) << 56;
    gdt[SEL_TSS / 8 + 1] = base >> 32;
    asm volatile("lgdt %0; ltr %w1" : : "m"(gdt_pointer), "r"(SEL_TSS));
    for (n = 0; n < 32; n++) {
        set_gate(n, unexpected_table[n], 0);
    }
    set_gate(13, safe_gp, 0);
    idt_pointer.limit = sizeof(idt) - 1;
    idt_pointer.base = (uintptr_t)idt;
    asm volatile("lidt %0" : : "m"(idt_pointer));
    apic_write(APIC_SVR, 0x1ff);
    first_ds_area = rdmsr(MSR_DS_AREA);
    bts_reset();
}

/* BTS ------------------------------------------------------------------ */

void bts_reset(void)
{
    memset(records, 0, sizeof(records));
    ds_area.base = ds_area.index = (uintptr_t)records;
    ds_area.maximum = (uintptr_t)(records + RECORDS);
    ds_area.threshold = ds_area.maximum + sizeof(struct record);
    wrmsr(MSR_DS_AREA, (uintptr_t)&ds_area);
}

unsigned bts_count(void)
{
    uint64_t size = ds_area.index - ds_area.base;

    if (size % sizeof(struct record) || ds_area.index > ds_area.maximum) {
        fail("index is %x, base %x", ds_area.index, ds_area.base);
    }
    return size / sizeof(struct record);
}

void bts_check(const char *what, const struct branch *begin,
               const struct branch *end)
{
    unsigned count = bts_count(), expected = end - begin, n;
    bool same = count == expected;

    for (n = 0; n < count && n < expected; n++) {
        same = same && records[n].from == begin[n].from &&
               records[n].to == begin[n].to &&
               (records[n].flags & ~0x10ull) == 0;
    }
    if (same) {
        print("%s: %d records\n", what, count);
        return;
    }
    for (n = 0; n < count || n < expected; n++) {
        if (n < expected) {
            print("expected %x -> %x  ", begin[n].from, begin[n].to);
        }
        if (n < count) {
            print("stored %x -> %x flags %x", records[n].from, records[n].to,
                  records[n].flags);
        }
        print("\n");
    }
    fail("%s: the records are not as expected", what);
}
