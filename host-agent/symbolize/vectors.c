/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts and exceptions: see vectors.h
 */

#include <string.h>

#include "symbolize/vectors.h"
#include "lib/agent/symbol-list.h"
#include "util/hash.h"
#include "util/parse.h"

/* External interrupts have the vectors from here on (SDM vol. 3, 6.2). */
#define FIRST_EXTERNAL  0x20

/*
 * The entries of external interrupts have 8 bytes each, or 16 with IBT.  There
 * are not more than 224.
 */
#define ENTRIES         "irq_entries_start"
/* What the interrupts of devices have in common */
#define COMMON          "common_interrupt"
#define SMALL           8
#define LARGE           16
#define MOST_ENTRIES    224

/**
 * struct vector
 * @name: that of its function in Linux, without asm_exc_ or asm_sysvec_ before
 *        it; Linux before 5.8 has no such prefixes
 */
struct vector {
    unsigned number;
    const char *mnemonic;
    const char *name;
    const char *old;
};

static const struct vector exceptions[] = {
    { 0, "#DE", "divide_error" },
    { 1, "#DB", "debug" },
    { 3, "#BP", "int3" },
    { 4, "#OF", "overflow" },
    { 5, "#BR", "bounds" },
    { 6, "#UD", "invalid_op" },
    { 7, "#NM", "device_not_available" },
    { 8, "#DF", "double_fault" },
    { 9, NULL, "coproc_segment_overrun", "coprocessor_segment_overrun" },
    { 10, "#TS", "invalid_tss", "invalid_TSS" },
    { 11, "#NP", "segment_not_present" },
    { 12, "#SS", "stack_segment" },
    { 13, "#GP", "general_protection" },
    { 14, "#PF", "page_fault" },
    { 16, "#MF", "coprocessor_error" },
    { 17, "#AC", "alignment_check" },
    { 18, "#MC", "machine_check" },
    { 19, "#XM", "simd_coprocessor_error" },
    { 20, "#VE", "virtualization_exception" },
    { 21, "#CP", "control_protection" },
    { 29, "#VC", "vmm_communication" },
};

/* Those with an entry of their own: <asm/irq_vectors.h> */
static const struct vector interrupts[] = {
    { 0x02, "NMI", "nmi" },
    { 0xec, NULL, "apic_timer_interrupt" },
    { 0xf0, NULL, "kvm_posted_intr_nested_ipi" },
    { 0xf1, NULL, "kvm_posted_intr_wakeup_ipi" },
    { 0xf2, NULL, "kvm_posted_intr_ipi" },
    { 0xf3, NULL, "hypervisor_callback" },
    { 0xf4, NULL, "deferred_error", "deferred_error_interrupt" },
    { 0xf6, NULL, "irq_work", "irq_work_interrupt" },
    { 0xf7, NULL, "x86_platform_ipi" },
    { 0xf8, NULL, "reboot", "reboot_interrupt" },
    { 0xf9, NULL, "threshold", "threshold_interrupt" },
    { 0xfa, NULL, "thermal", "thermal_interrupt" },
    { 0xfb, NULL, "call_function_single", "call_function_single_interrupt" },
    { 0xfc, NULL, "call_function", "call_function_interrupt" },
    { 0xfd, NULL, "reschedule_ipi", "reschedule_interrupt" },
    { 0xfe, NULL, "error_interrupt" },
    { 0xff, NULL, "spurious_apic_interrupt", "spurious_interrupt" },
};

/*
 * The name of Linux that a function has, without its prefix; NULL if it is no
 * such function
 */
static const char *entry_name(const char *function, bool *exception)
{
    static const char *const prefixes[] = { "asm_exc_", "asm_sysvec_" };

    for (unsigned i = 0; i < G_N_ELEMENTS(prefixes); i++) {
        if (g_str_has_prefix(function, prefixes[i])) {
            const char *name = function + strlen(prefixes[i]);

            *exception = !i && strcmp(name, "nmi");
            return name;
        }
    }
    return NULL;
}

/* The same of Linux before 5.8 */
static const char *old_name(const char *function, bool *exception)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(exceptions); i++) {
        if (!strcmp(function, exceptions[i].name) ||
            !g_strcmp0(function, exceptions[i].old)) {
            *exception = true;
            return exceptions[i].name;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(interrupts); i++) {
        if (!strcmp(function, interrupts[i].name) ||
            !g_strcmp0(function, interrupts[i].old)) {
            *exception = false;
            return interrupts[i].name;
        }
    }
    return NULL;
}

/* The same, of a kernel with prefixes, without, or of either kind */
static const char *name_of(const char *function, bool prefixed, bool old,
                           bool *exception)
{
    const char *name = prefixed ? entry_name(function, exception) : NULL;

    return name || !old ? name : old_name(function, exception);
}

/* Is this the vector that is wanted? */
static bool is_wanted(bool exception, const char *name, const char *function,
                      const char *wanted)
{
    const struct vector *v = exception ? exceptions : interrupts;
    unsigned n = exception ? G_N_ELEMENTS(exceptions) :
                 G_N_ELEMENTS(interrupts);
    uint64_t number;
    bool by_number = wanted && parse_text_number(wanted, NULL, &number);

    if (!wanted || !strcmp(wanted, name) || !strcmp(wanted, function)) {
        return true;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!strcmp(v[i].name, name) &&
            (by_number ? number == v[i].number :
             v[i].mnemonic && !g_ascii_strcasecmp(wanted, v[i].mnemonic))) {
            return true;
        }
    }
    return false;
}

/* Entries of external interrupts, one for each vector */
static void add_external(const struct btrail_symbol *symbol,
                         const struct btrail_symbol_era *era,
                         const char *wanted, GArray *starts)
{
    uint64_t bytes = symbol->end - symbol->address, number;
    unsigned size = bytes > MOST_ENTRIES * SMALL ? LARGE : SMALL;
    bool by_number = wanted && parse_text_number(wanted, NULL, &number);

    if (wanted && !by_number) {
        return;
    }
    for (uint64_t i = 0; i < MIN(bytes / size, MOST_ENTRIES); i++) {
        uint64_t address = symbol->address + i * size;

        if (!wanted || number == FIRST_EXTERNAL + i) {
            kernel_start_add(starts, address, era);
        }
    }
}

/* The pseudo-address for the kernel's code in a trace of user mode */
static void add_pseudo(bool exceptions_wanted, const char *name,
                       GArray *starts)
{
    static const uint64_t all[] = {
        BTRAIL_PSEUDO_PAGE_FAULT, BTRAIL_PSEUDO_EXCEPTION,
        BTRAIL_PSEUDO_INTERRUPT,
    };
    bool fault = exceptions_wanted &&
                 is_wanted(true, "page_fault", "asm_exc_page_fault", name);

    /* Others are not distinguished. */
    if (fault) {
        kernel_start_add(starts, all[0], NULL);
    }
    if (!name) {
        kernel_start_add(starts, all[exceptions_wanted ? 1 : 2], NULL);
    }
}

/* Is a symbol code of the kernel itself?  Its entries are. */
static bool is_own(const struct btrail_symbol *symbol,
                   const struct btrail_symbol_era *era, uint32_t owns)
{
    return !symbol->module && era->own < owns &&
           btrail_symbol_is_code(symbol->type);
}

/* Which of the kernels that the trace has symbols of are Linux 5.8 or later? */
static bool *find_prefixed(const struct btrail_names *names, uint32_t owns)
{
    bool *prefixed = g_new0(bool, owns + 1), exception;
    struct btrail_symbol_era era;
    struct btrail_symbol symbol;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &symbol, &era);
         i++) {
        if (is_own(&symbol, &era, owns)) {
            prefixed[era.own] |= !!entry_name(symbol.name, &exception);
        }
    }
    return prefixed;
}

/* Calls a function with each symbol of kernels; @name: that of the interrupt or
 * exception which it takes, or NULL. */
typedef void own_fn(void *opaque, const struct btrail_symbol *symbol,
                    const struct btrail_symbol_era *era, const char *name,
                    bool exception);

static void each_own(const struct btrail_names *names, own_fn *fn, void *opaque)
{
    uint32_t owns = btrail_names_owns(names);
    g_autofree bool *prefixed = find_prefixed(names, owns);
    struct btrail_symbol_era era;
    struct btrail_symbol symbol;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &symbol, &era);
         i++) {
        bool exception = false;

        if (is_own(&symbol, &era, owns)) {
            const char *name = name_of(symbol.name, prefixed[era.own],
                                       !prefixed[era.own], &exception);

            fn(opaque, &symbol, &era, name, exception);
        }
    }
}

struct vector_search {
    bool exceptions;
    const char *name;
    GArray *starts;
};

static void add_wanted(void *opaque, const struct btrail_symbol *symbol,
                       const struct btrail_symbol_era *era, const char *name,
                       bool exception)
{
    const struct vector_search *v = opaque;

    if (name && exception == v->exceptions &&
        is_wanted(exception, name, symbol->name, v->name)) {
        kernel_start_add(v->starts, symbol->address, era);
    }
    if (!v->exceptions && !strcmp(symbol->name, ENTRIES)) {
        add_external(symbol, era, v->name, v->starts);
    }
}

void vectors_find(const struct btrail_names *names, bool exceptions_wanted,
                  const char *name, GArray *starts)
{
    struct vector_search v = { exceptions_wanted, name, starts };

    each_own(names, add_wanted, &v);
    add_pseudo(exceptions_wanted, name, starts);
}

static void free_entry(gpointer p)
{
    struct vector_entry *e = p;

    g_free((char *)e->name);
    g_free(e);
}

static void add_interrupt(void *opaque, const struct btrail_symbol *symbol,
                          const struct btrail_symbol_era *era, const char *name,
                          bool exception)
{
    GHashTable *entries = opaque;
    struct vector_entry *e;

    if (!strcmp(symbol->name, ENTRIES)) {
        name = COMMON;
    }
    if (!name || exception || g_hash_table_contains(entries, symbol->name)) {
        return;
    }
    e = g_new(struct vector_entry, 1);
    e->number = -1;
    e->name = g_strdup(name);
    for (unsigned i = 0; i < G_N_ELEMENTS(interrupts); i++) {
        if (!strcmp(interrupts[i].name, name)) {
            e->number = interrupts[i].number;
        }
    }
    g_hash_table_insert(entries, g_strdup(symbol->name), e);
}

GHashTable *vectors_entries(const struct btrail_names *names)
{
    GHashTable *entries = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                                g_free, free_entry);

    each_own(names, add_interrupt, entries);
    return entries;
}

const char *vectors_interrupt(const char *function)
{
    static const char *const common[] = {
        COMMON, "asm_common_interrupt", "__common_interrupt",
        "do_IRQ", "ret_from_intr", ENTRIES, NULL,
    };
    bool exception = false;
    const char *name;

    if (g_strv_contains(common, function)) {
        return COMMON;
    }
    if (g_str_has_prefix(function, "sysvec_")) {
        return function + strlen("sysvec_");
    }
    name = name_of(function, true, true, &exception);
    return exception ? NULL : name;
}
