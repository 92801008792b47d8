/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which interrupt a vCPU is in: see interrupted.h
 */

#include <string.h>

#include "find/interrupted.h"
#include "symbolize/vectors.h"

/* What every interrupt calls before the code that it is for */
static bool is_general(const char *name)
{
    static const char *const prefixes[] = {
        "asm_", "sysvec_", "__sysvec_", "smp_", "__irq_", "irq_exit",
        "irq_enter", "do_softirq", "__do_softirq", "handle_softirqs",
        "invoke_softirq", "run_irq_on_irqstack", "run_on_irqstack",
        "call_on_irqstack", "handle_irq", "__handle_irq", "generic_handle_",
        "handle_edge_irq", "handle_fasteoi_irq", "handle_level_irq",
        "handle_simple_irq", "handle_percpu", "common_interrupt",
        "__common_interrupt", "do_IRQ", "local_apic_timer_interrupt",
        "hrtimer_interrupt", "__hrtimer_run_queues", "call_irq_handler",
        "instr_", "irq_entries_start", "ret_from_intr", "interrupt_entry",
        "error_entry", "sync_regs", "try_to_wake_up", "wake_up_process",
        "wakeup_softirqd", "raise_softirq",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(prefixes); i++) {
        if (g_str_has_prefix(name, prefixes[i])) {
            return true;
        }
    }
    return false;
}

static bool in_kernel(const struct function *f)
{
    return f->known && f->module->kernel;
}

/* The interrupt whose code a function is, or NULL */
static const char *interrupt_of(const struct function *f)
{
    return in_kernel(f) ? vectors_interrupt(f->symbol) : NULL;
}

/* The functions between the interrupt, @outer, and what it has led to */
static const char *handler_of(const struct stack_call *calls, unsigned outer)
{
    for (unsigned i = outer; i-- > 0;) {
        const struct function *f = calls[i].function;

        if (in_kernel(f) && !is_general(f->symbol)) {
            return f->name;
        }
    }
    return NULL;
}

char *interrupted_by(const struct stack_call *calls, unsigned n)
{
    const char *name = NULL, *handler;
    unsigned outer = 0;

    for (unsigned i = 0; i < n && !calls[i].entry; i++) {
        const char *found = interrupt_of(calls[i].function);

        if (found) {
            name = found;
            outer = i;
        }
    }
    if (!name) {
        return NULL;
    }
    handler = handler_of(calls, outer);
    return handler ? g_strdup_printf("%s: %s", name, handler) : g_strdup(name);
}
