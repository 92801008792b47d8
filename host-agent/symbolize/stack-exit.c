/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Out of the kernel, and of interrupts: see stack-exit.h
 */

#include "symbolize/stack-exit.h"
#include "symbolize/stack-thread.h"

/* The oldest context that entered the kernel and continues at @to, or NULL */
static struct stack_context *find_entered(struct stack_moves *m,
                                          const struct stack_cpu *cpu,
                                          GPtrArray *among, uint64_t to)
{
    struct stack_context *best = NULL;

    for (unsigned i = 0; i < among->len; i++) {
        struct stack_context *c = among->pdata[i];

        if (!c->running && c->entry >= 0 && !c->thread &&
            stack_goes_back(&c->frames[c->entry], to) &&
            stack_same_process(c->process, cpu->process) &&
            (!best || c->age < best->age)) {
            best = c;
        }
    }
    return best;
}

/*
 * The index of the frame of the code that a signal handler has interrupted and
 * that continues now, or -1.  The handler may have changed its address.
 */
static int find_signal(const struct stack_context *c,
                       const struct stack_edge *e)
{
    int k, likely = -1;

    for (k = c->entry - 1; k >= 0; k = stack_below(c, k)) {
        const struct stack_frame *f = &c->frames[k];

        if (f->kind != STACK_FRAME_SIGNAL) {
            continue;
        }
        if (stack_resumes(f, e->to)) {
            return k;
        }
        if (likely < 0 && !e->start && f->caller->function == e->to_fn &&
            e->to_fn->known) {
            likely = k;
        }
    }
    return likely;
}

/* Does the code that has entered the kernel continue? */
static bool leaves_entry(const struct stack_context *c,
                         const struct stack_edge *e)
{
    const struct stack_frame *f = &c->frames[c->entry];

    return !f->back || stack_resumes(f, e->to) ||
           (!e->start && e->to_fn->known && e->to_fn == f->caller->function);
}

/* The kernel starts a signal handler, with what frame @k has interrupted. */
static void begin_handler(struct stack_moves *m, struct stack_context *c,
                          unsigned k, const struct stack_edge *e)
{
    m->counts.signals++;
    c->frames[k].kind = STACK_FRAME_SIGNAL;
    c->frames[k].called = c->frames[k].handled && c->frames[k].back;
    c->frames[k].handled = false;
    stack_end(&m->contexts, c, k + 1);
    m->contexts.handler = m->contexts.record;
    c->entry = -1;
    c->node = stack_tree_child(&m->tree, c->frames[k].caller, e->to_fn);
    c->node->calls += m->contexts.counting;
}

/*
 * The kernel goes to another place than that from which it was entered.  If a
 * handler has just returned, that is where it wants what it has interrupted to
 * continue, or the handler of the next signal.  Where a function starts there,
 * it may have been called: a handler can put a return address on the stack, as
 * that of Go does.  What it returns to shows which it was.
 */
static void begin_signal(struct stack_moves *m, struct stack_cpu *cpu,
                         const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    int k = c->entry - 1;

    if (!e->start && e->to_fn->known) {
        c->strayed = m->contexts.strayed = m->contexts.record;
    }
    if (k < 0 || c->frames[k].kind != STACK_FRAME_SIGNAL ||
        !c->frames[k].handled) {
        begin_handler(m, c, c->entry, e);
    } else if (e->start || !e->to_fn->known) {
        begin_handler(m, c, k, e);
    } else {
        stack_end(&m->contexts, c, k);
        c->entry = -1;
        c->node = c->frames[k].caller;
        c->replaced = c->frames[k].replaced;
        stack_jump(m, cpu, e, true);
    }
}

/* Back to user mode, in a thread that the trace names */
static void exit_thread(struct stack_moves *m, struct stack_cpu *cpu,
                        const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx, *own;
    int k;

    if (c->entry >= 0 && stack_thread_same(c, cpu)) {
        c->process = cpu->process;
        k = leaves_entry(c, e) ? c->entry : find_signal(c, e);
        if (k >= 0) {
            stack_pop_to(&m->contexts, c, k, e);
        } else {
            begin_signal(m, cpu, e);
        }
        return;
    }
    own = c->entry < 0 ? stack_thread_waiting(&m->contexts, cpu) : NULL;
    if (own && own->entry >= 0 && stack_thread_same(own, cpu) &&
        leaves_entry(own, e)) {
        stack_thread_adopt(&m->contexts, cpu, own, own->entry, e);
    } else {
        /* It is new, or has started a program. */
        stack_thread_clear(&m->contexts, cpu, e->to_fn);
    }
}

void stack_exit(struct stack_moves *m, struct stack_cpu *cpu,
                const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx, *other = NULL;
    bool mine = c->entry >= 0 && stack_same_process(c->process, cpu->process);
    int k;

    cpu->switching = 0;
    if (cpu->thread) {
        exit_thread(m, cpu, e);
        return;
    }
    if (mine && leaves_entry(c, e)) {
        stack_pop_to(&m->contexts, c, c->entry, e);
        c->sure = true;
        return;
    }
    k = mine ? find_signal(c, e) : -1;
    if (k >= 0) {
        stack_pop_to(&m->contexts, c, k, e);
        return;
    }
    if (c->candidates) {
        other = find_entered(m, cpu, c->candidates, e->to);
    }
    if (!other) {
        other = find_entered(m, cpu, m->contexts.all, e->to);
    }
    if (other) {
        if (c->entry < 0) {
            stack_adopt(&m->contexts, cpu, other, other->entry, e);
            m->counts.switches++;
        } else {
            stack_suspend(&m->contexts, cpu, 0);
            stack_run(&m->contexts, cpu, other);
            stack_pop_to(&m->contexts, other, other->entry, e);
            m->counts.resumed++;
        }
        return;
    }
    if (mine) {
        begin_signal(m, cpu, e);
        return;
    }
    if (c->entry >= 0) {
        stack_suspend(&m->contexts, cpu, 0);
        c = stack_run_fresh(&m->contexts, cpu, e);
    }
    g_clear_pointer(&c->candidates, g_ptr_array_unref);
    c->n = 0;
    c->process = cpu->process;
    c->sure = true;
    c->node = stack_root_child(&m->contexts, c, e->to_fn);
}

void stack_iret(struct stack_moves *m, struct stack_cpu *cpu,
                const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    int k, last = -1;

    for (k = (int)c->n - 1; k >= (int)stack_bottom(c); k = stack_below(c, k)) {
        if (c->frames[k].kind != STACK_FRAME_INTERRUPT) {
            continue;
        }
        last = last < 0 ? k : last;
        if (stack_goes_back(&c->frames[k], e->to)) {
            stack_pop_to(&m->contexts, c, k, e);
            return;
        }
    }
    if (last >= 0) {
        /* It continues elsewhere: an exception was fixed up. */
        stack_end(&m->contexts, c, last);
        c->node = c->frames[last].caller;
        c->replaced = c->frames[last].replaced;
        if (c->replaced || stack_returns_from(stack_top(c), e->to)) {
            /* Linux does the return of srso_safe_ret() that it interrupts. */
            stack_return(m, cpu, e);
            return;
        }
    }
    c->node = stack_tree_sibling(&m->tree, c->node, e->to_fn);
}
