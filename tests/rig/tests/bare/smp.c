/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two CPUs: each has its own IA32_DEBUGCTL, IA32_DS_AREA and buffer
 *
 * rig: cpus=2
 */
#include "bare.h"

#define COUNT 500

static struct ds_area ap_area;
static struct record ap_records[COUNT];
static volatile unsigned stage;

static void wait_for(unsigned value)
{
    while (stage != value) {
        asm volatile("pause");
    }
}

/* COUNT - 1 branches from the label FROM to the label TO */
#define LOOP(name) \
    extern const char name##_from[], name##_to[]; \
    static void __attribute__((noinline)) name(void) \
    { \
        uint64_t count = COUNT; \
        asm volatile("wrmsr\n" \
                     "mov %[count], %%rcx\n" \
                     #name "_to: nop\n" \
                     #name "_from: loop " #name "_to\n" \
                     "mov $0x1d9, %%ecx\n" \
                     "xor %%eax, %%eax\n" \
                     "wrmsr\n" \
                     : [count] "+r"(count) \
                     : "a"(TRACE), "d"(0), "c"(MSR_DEBUGCTL) : "memory"); \
    }
LOOP(loop0)
LOOP(loop1)

void ap_main(void)
{
    EQUAL(apic_read(APIC_ID) >> 24, 1);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    ap_area.base = ap_area.index = (uintptr_t)ap_records;
    ap_area.maximum = (uintptr_t)(ap_records + COUNT);
    ap_area.threshold = ap_area.maximum + 24;
    wrmsr(MSR_DS_AREA, (uintptr_t)&ap_area);
    stage = 1;
    wait_for(2);
    loop1();
    stage = 3;
    wait_for(4);
    /* What the other CPU has set is not here. */
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    EQUAL(rdmsr(MSR_DS_AREA), (uintptr_t)&ap_area);
    stage = 5;
    for (;;) {
        asm volatile("cli; hlt");
    }
}

static void is_all(const struct record *list, const char *from, const char *to)
{
    for (unsigned n = 0; n < COUNT - 1; n++) {
        EQUAL(list[n].from, from);
        EQUAL(list[n].to, to);
    }
}

void test(void)
{
    ap_start();
    wait_for(1);
    EQUAL(rdmsr(MSR_DS_AREA), (uintptr_t)&ds_area);
    stage = 2;
    loop0();                    /* while the other one runs loop1() */
    wait_for(3);
    EQUAL(bts_count(), COUNT - 1);
    is_all(records, loop0_from, loop0_to);
    EQUAL(ap_area.index - ap_area.base, (COUNT - 1) * 24);
    is_all(ap_records, loop1_from, loop1_to);

    /* Only one of them traces. */
    bts_reset();
    wrmsr(MSR_DEBUGCTL, TRACE);
    stage = 4;
    wait_for(5);
    wrmsr(MSR_DEBUGCTL, 0);
    EQUAL(ap_area.index - ap_area.base, (COUNT - 1) * 24);
}
