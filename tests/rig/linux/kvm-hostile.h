/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests of hostile guests share: chance that is the same in each run, and
 * a signal that only interrupts KVM_RUN
 */
#ifndef KVM_HOSTILE_H
#define KVM_HOSTILE_H

#include <stdint.h>

static inline void nothing(int number)
{
    (void)number;
}

static inline uint64_t dice(void)
{
    static uint64_t state = 88172645463325252ull;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#endif
