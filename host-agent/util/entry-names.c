/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of entries of Linux: see entry-names.h
 */

#include <glib.h>
#include <string.h>

#include "backtrail/trace.h"
#include "util/entry-names.h"

struct entry_name {
    const char *name;           /* * stands for any rest */
    uint64_t kind;
    bool table;
};

static const struct entry_name known[] = {
    { "entry_SYSCALL_64", BTRAIL_PSEUDO_SYSCALL },
    { "entry_SYSCALL_64_trampoline", BTRAIL_PSEUDO_SYSCALL },
    { "entry_SYSCALL_compat", BTRAIL_PSEUDO_SYSCALL },
    { "entry_SYSENTER_compat", BTRAIL_PSEUDO_SYSCALL },
    { "entry_INT80_compat", BTRAIL_PSEUDO_SYSCALL },
    { "asm_int80_emulation", BTRAIL_PSEUDO_SYSCALL },
    { "asm_exc_page_fault", BTRAIL_PSEUDO_PAGE_FAULT },
    { "page_fault", BTRAIL_PSEUDO_PAGE_FAULT },
    { "async_page_fault", BTRAIL_PSEUDO_PAGE_FAULT },
    { "asm_exc_nmi", BTRAIL_PSEUDO_INTERRUPT },
    { "nmi", BTRAIL_PSEUDO_INTERRUPT },
    { "asm_exc_*", BTRAIL_PSEUDO_EXCEPTION },
    { "divide_error", BTRAIL_PSEUDO_EXCEPTION },
    { "debug", BTRAIL_PSEUDO_EXCEPTION },
    { "int3", BTRAIL_PSEUDO_EXCEPTION },
    { "overflow", BTRAIL_PSEUDO_EXCEPTION },
    { "bounds", BTRAIL_PSEUDO_EXCEPTION },
    { "invalid_op", BTRAIL_PSEUDO_EXCEPTION },
    { "device_not_available", BTRAIL_PSEUDO_EXCEPTION },
    { "double_fault", BTRAIL_PSEUDO_EXCEPTION },
    { "coprocessor_*", BTRAIL_PSEUDO_EXCEPTION },
    { "simd_coprocessor_error", BTRAIL_PSEUDO_EXCEPTION },
    { "invalid_TSS", BTRAIL_PSEUDO_EXCEPTION },
    { "segment_not_present", BTRAIL_PSEUDO_EXCEPTION },
    { "stack_segment", BTRAIL_PSEUDO_EXCEPTION },
    { "general_protection", BTRAIL_PSEUDO_EXCEPTION },
    { "alignment_check", BTRAIL_PSEUDO_EXCEPTION },
    { "machine_check", BTRAIL_PSEUDO_EXCEPTION },
    { "irq_entries_start", BTRAIL_PSEUDO_INTERRUPT, true },
    { "spurious_entries_start", BTRAIL_PSEUDO_INTERRUPT, true },
    { "asm_sysvec_*", BTRAIL_PSEUDO_INTERRUPT },
    { "apic_timer_interrupt", BTRAIL_PSEUDO_INTERRUPT },
    { "reschedule_interrupt", BTRAIL_PSEUDO_INTERRUPT },
    { "call_function_interrupt", BTRAIL_PSEUDO_INTERRUPT },
    { "call_function_single_interrupt", BTRAIL_PSEUDO_INTERRUPT },
    { "irq_work_interrupt", BTRAIL_PSEUDO_INTERRUPT },
    { "hypervisor_callback_vector", BTRAIL_PSEUDO_INTERRUPT },
};

static const struct entry_name *find(const char *name, size_t size)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        const char *k = known[i].name;
        size_t n = strlen(k);

        if (k[n - 1] == '*' ? size >= n - 1 && !memcmp(name, k, n - 1) :
            size == n && !memcmp(name, k, n)) {
            return &known[i];
        }
    }
    return NULL;
}

uint64_t entry_kind(const char *name, size_t size)
{
    const struct entry_name *found = find(name, size);

    return found ? found->kind : 0;
}

bool entry_is_table(const char *name, size_t size)
{
    const struct entry_name *found = find(name, size);

    return found && found->table;
}
