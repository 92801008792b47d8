/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rr-guest: a guest that is up at once
 *
 * Ten times a second of its time it writes a line with the number of the beat
 * and the seconds of its clock, which are the host's.  In between it computes,
 * and is interrupted by its timer.  It answers what somebody types, and takes a
 * time for it that depends on what that is.  Its command line is the number of beats
 * after which it powers itself off; without one it runs for ever.
 *
 * A kernel by the Multiboot specification.
 */

#include <stdint.h>

#define MULTIBOOT_LOADED    0x2badb002  /* what it gets in %eax */
#define MULTIBOOT_CMDLINE   (1 << 2)

#define HZ                  100
#define TICKS_PER_BEAT      10
#define PIT_HZ              1193182
#define TIMER_VECTOR        32
#define CODE                8       /* selectors */
#define DATA                16

#define SERIAL              0x3f8
#define SERIAL_STATUS       (SERIAL + 5)
#define SERIAL_RECEIVED     0x01
#define SERIAL_EMPTY        0x20
#define PM_CONTROL          0x604   /* where the firmware puts it */
#define PM_SLEEP            0x2000

asm(".text\n"
    ".balign 4\n"
    ".long 0x1badb002, 0, -0x1badb002\n"
    ".globl _start\n"
    "_start:\n"
    "movl $stack + 4096, %esp\n"
    "pushl %ebx\n"
    "pushl %eax\n"
    "call run\n"
    "interrupted:\n"
    "pushl %eax\n"
    "incl ticks\n"
    "movb $0x20, %al\n"             /* end of interrupt */
    "outb %al, $0x20\n"
    "popl %eax\n"
    "iret\n");

struct multiboot {
    uint32_t flags;
    uint32_t memory[2];
    uint32_t boot_device;
    uint32_t command_line;
};

struct table {
    uint16_t limit;
    const void *base;
} __attribute__((packed));

extern const char interrupted[];
void run(uint32_t magic, const struct multiboot *info);

char stack[4096];
volatile uint32_t ticks;
static volatile uint32_t sum;

static void out8(uint16_t port, uint8_t value)
{
    asm volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static void out16(uint16_t port, uint16_t value)
{
    asm volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}

static uint8_t in8(uint16_t port)
{
    uint8_t value;

    asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static void put(char c)
{
    while (!(in8(SERIAL_STATUS) & SERIAL_EMPTY)) {
    }
    out8(SERIAL, c);
}

static void put_text(const char *text)
{
    while (*text) {
        put(*text++);
    }
}

static void put_number(uint32_t n)
{
    if (n >= 10) {
        put_number(n / 10);
    }
    put('0' + n % 10);
}

/* The last word of the command line; the first one is the kernel's path. */
static uint32_t beats_wanted(uint32_t magic, const struct multiboot *info)
{
    const char *c;
    uint32_t n = 0;

    if (magic != MULTIBOOT_LOADED || !(info->flags & MULTIBOOT_CMDLINE)) {
        return 0;
    }
    for (c = (const char *)info->command_line; *c; c++) {
        n = *c >= '0' && *c <= '9' ? n * 10 + *c - '0' : 0;
    }
    return n;
}

static void answer(void)
{
    uint8_t typed = in8(SERIAL);

    for (unsigned i = 0; i < typed; i++) {
        sum += i;
    }
    put_text("BT: typed ");
    put_number(typed);
    put('\n');
}

static void start_timer(void)
{
    static const uint64_t segments[] = {
        0, UINT64_C(0x00cf9b000000ffff), UINT64_C(0x00cf93000000ffff),
    };
    static uint64_t gates[TIMER_VECTOR + 1];
    const struct table gdt = { sizeof(segments) - 1, segments };
    const struct table idt = { sizeof(gates) - 1, gates };
    uint32_t at = (uint32_t)interrupted;

    gates[TIMER_VECTOR] = (uint64_t)(at >> 16) << 48 |
                          UINT64_C(0x8e00) << 32 | CODE << 16 | (at & 0xffff);
    asm volatile("lgdt %0\n"
                 "lidt %1\n"
                 "ljmp %2, $1f\n"
                 "1:\n"
                 "movl %3, %%ds\n"
                 "movl %3, %%es\n"
                 "movl %3, %%ss\n"
                 : : "m"(gdt), "m"(idt), "i"(CODE), "r"(DATA) : "memory");
    /* Interrupt controller: edges, vectors, only the timer */
    out8(0x20, 0x11);
    out8(0x21, TIMER_VECTOR);
    out8(0x21, 4);
    out8(0x21, 1);
    out8(0x21, 0xfe);
    out8(0x43, 0x34);
    out8(0x40, PIT_HZ / HZ & 0xff);
    out8(0x40, PIT_HZ / HZ >> 8);
    asm volatile("sti");
}

void run(uint32_t magic, const struct multiboot *info)
{
    uint32_t wanted = beats_wanted(magic, info);

    start_timer();
    for (uint32_t beat = 0; !wanted || beat < wanted; beat++) {
        put_text("BT: beat ");
        put_number(beat);
        out8(0x70, 0);
        put_text(" at ");
        put_number(in8(0x71));
        put('\n');
        if (in8(SERIAL_STATUS) & SERIAL_RECEIVED) {
            answer();
        }
        for (uint32_t next = ticks + TICKS_PER_BEAT; ticks != next;) {
            sum += ticks;
        }
    }
    put_text("BT: end\n");
    out16(PM_CONTROL, PM_SLEEP);
    for (;;) {
        asm volatile("hlt");
    }
}
