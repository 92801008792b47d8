/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A reset clears IA32_DEBUGCTL and IA32_DS_AREA; INIT leaves them
 *
 * SDM vol. 3, "Processor State After Reset"
 *
 * rig: cpus=2
 */
#include "bare.h"

/* Memory that neither a reset nor start.S touches */
#define MAGIC (*(volatile uint64_t *)0x600)
#define MAGIC_VALUE 0x7465736572666f

#define PORT_RESET 0xcf9

static volatile unsigned stage;

static void wait_for(unsigned value)
{
    while (stage != value) {
        asm volatile("pause");
    }
}

static void is_clear(void)
{
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    EQUAL(rdmsr(MSR_DS_AREA), 0);
}

void ap_main(void)
{
    switch (stage) {
    case 0:
        is_clear();
        wrmsr(MSR_DS_AREA, 0x12345678);
        wrmsr(MSR_DEBUGCTL, DEBUGCTL_BTS | DEBUGCTL_OFF_OS);
        stage = 1;
        break;
    case 2:
        EQUAL(rdmsr(MSR_DEBUGCTL), DEBUGCTL_BTS | DEBUGCTL_OFF_OS);
        EQUAL(rdmsr(MSR_DS_AREA), 0x12345678);
        stage = 3;
        break;
    }
    for (;;) {
        asm volatile("cli; hlt");
    }
}

void test(void)
{
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    EQUAL(first_ds_area, 0);
    ap_start();
    wait_for(1);
    if (MAGIC == MAGIC_VALUE) {
        return;
    }
    stage = 2;
    ap_start();
    wait_for(3);

    MAGIC = MAGIC_VALUE;
    wrmsr(MSR_DEBUGCTL, TRACE);
    outb(PORT_RESET, 2);
    outb(PORT_RESET, 6);
    for (;;) {
        asm volatile("hlt");
    }
}
