/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU that says that it has no BTS has none
 *
 * rig: msr=0x1a0 0 00000000 00001881 00000000 00000000 00000000 00001880
 * rig: msr=0x345 0 00000000 00000000 ffffffff ffffffff 00000000 00000000
 */
#include "bare.h"

void test(void)
{
    uint64_t allowed = 0;

    EQUAL(rdmsr(MSR_MISC_ENABLE) & 1 << 11, 1 << 11);
    for (unsigned n = 0; n < 64; n++) {
        if (wrmsr_safe(MSR_DEBUGCTL, 1ull << n)) {
            allowed |= 1ull << n;
            wrmsr(MSR_DEBUGCTL, 0);
        }
    }
    EQUAL(allowed, 0x3 | 0x40 | 0x1800);
    /* The DS area is there for PEBS. */
    CHECK(wrmsr_safe(MSR_DS_AREA, 0x1000));
}
