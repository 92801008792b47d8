/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What exits of a guest cost, in instructions: the machine's time-stamp counter
 * counts them
 */
#ifndef KVM_COST_H
#define KVM_COST_H

#include "kvm.h"

/* Where the guest leaves what the cheapest exit took that KVM handles itself */
#define VM_LEAST        0x2000

/* Such exits; then those to the monitor, at label 3 */
#define VM_EXITS \
    "   movl    $100, %edi\n" \
    "1: rdtsc\n" \
    "   movl    %eax, %esi\n" \
    "   xorl    %eax, %eax\n" \
    "   cpuid\n" \
    "   rdtsc\n" \
    "   subl    %esi, %eax\n" \
    "   cmpl    0x2000, %eax\n" \
    "   jae     2f\n" \
    "   movl    %eax, 0x2000\n" \
    "2: decl    %edi\n" \
    "   jnz     1b\n" \
    "3: outb    %al, $0x10\n" \
    "   jmp     3b\n"

static inline uint64_t time_stamp(void)
{
    uint32_t low, high;

    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    return low | (uint64_t)high << 32;
}

/* Those of a guest that has come to the ones to the monitor */
static inline void measure_exits(struct vm *vm, const char *what)
{
    uint32_t inside = *(volatile uint32_t *)(vm->memory + VM_LEAST);
    uint64_t outside = -1ull;

    for (unsigned i = 0; i < 100; i++) {
        uint64_t begin = time_stamp(), took;

        CHECK(ioctl(vm->vcpu, KVM_RUN, 0) == 0);
        took = time_stamp() - begin;
        if (took < outside) {
            outside = took;
        }
        CHECK(vm->run->exit_reason == KVM_EXIT_IO);
    }
    printf("COST %s: %u %llu\n", what, inside, (unsigned long long)outside);
    fflush(stdout);
    CHECK(inside > 100 && inside < 100000);
    CHECK(outside > inside && outside < 100000);
}

#endif /* KVM_COST_H */
