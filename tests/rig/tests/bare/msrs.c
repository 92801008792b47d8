/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What can be written into the MSRs of BTS, and when BTS is there
 *
 * SDM vol. 4, IA32_DEBUGCTL, IA32_DS_AREA, IA32_MISC_ENABLE; vol. 2, WRMSR:
 * reserved bits and addresses that are not canonical are a #GP.
 */
#include "bare.h"

void test(void)
{
    uint64_t value, allowed = 0, bit;
    uint32_t eax = 1, ebx, ecx = 0, edx;

    asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    CHECK(edx & 1 << 21);               /* DS */
    CHECK(ecx & 1 << 2);                /* DTES64 */
    CHECK(ecx & 1 << 4);                /* DS-CPL */
    CHECK(rdmsr_safe(MSR_MISC_ENABLE, &value));
    EQUAL(value & 1 << 11, 0);          /* BTS unavailable */
    CHECK(wrmsr_safe(MSR_MISC_ENABLE, value | 1 << 11));
    EQUAL(rdmsr(MSR_MISC_ENABLE), value);       /* is read-only */

    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    for (unsigned n = 0; n < 64; n++) {
        bit = 1ull << n;
        if (wrmsr_safe(MSR_DEBUGCTL, bit)) {
            EQUAL(rdmsr(MSR_DEBUGCTL), bit);
            wrmsr(MSR_DEBUGCTL, 0);
            allowed |= bit;
        } else {
            EQUAL(rdmsr(MSR_DEBUGCTL), 0);
        }
    }
    /* LBR, BTF; TR, BTS, BTINT, BTS_OFF_OS, BTS_OFF_USR; freezing on PMI; in
       SMM; this CPU has no RTM. */
    EQUAL(allowed, 0x3 | 0x7c0 | 0x1800 | 0x4000);
    CHECK(!wrmsr_safe(MSR_DEBUGCTL, allowed | 1 << 2));
    CHECK(!wrmsr_safe(MSR_DEBUGCTL, allowed | 1ull << 32));
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);

    for (unsigned n = 0; n < 64; n++) {
        bit = 1ull << n;
        wrmsr(MSR_DS_AREA, 0);
        EQUAL(wrmsr_safe(MSR_DS_AREA, bit), n < 47);
        EQUAL(rdmsr(MSR_DS_AREA), n < 47 ? bit : 0);
    }
    CHECK(wrmsr_safe(MSR_DS_AREA, 0xffff800000000000));
    EQUAL(rdmsr(MSR_DS_AREA), 0xffff800000000000);
    CHECK(!wrmsr_safe(MSR_DS_AREA, 0xffff000000000000));
    EQUAL(rdmsr(MSR_DS_AREA), 0xffff800000000000);
}
