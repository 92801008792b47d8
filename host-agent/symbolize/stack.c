/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks: see stack.h
 */

#include "symbolize/stack-context.h"
#include "symbolize/stack-thread.h"
#include "symbolize/stack.h"

struct stacks {
    struct stacks_options options;
    struct stack_tree tree;
    unsigned many;              /* nodes, with which it is spilled */
    struct stack_contexts contexts;
    struct stack_counts counts;
    const struct stack_edge *const *ahead;      /* what comes then, so many */
    size_t n_ahead;
    GArray *parked;             /* of struct stack_parked; empty */
    uint64_t over;              /* number of the stack that has just ended */
};

/* How far to look ahead for which of several stacks continues */
#define LOOK_AHEAD  1024
#define PARTS_AHEAD 8

/* The number of frames from @k on that did not return */
static unsigned skipped(const struct stack_context *c, unsigned k)
{
    unsigned n = 0;

    for (; k < c->n; k++) {
        n += !c->frames[k].inner;
    }
    return n;
}

/* Returns from frame @k. */
static void return_to(struct stacks *st, struct stack_cpu *cpu, unsigned k,
                      const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;

    st->counts.returns++;
    st->counts.nested += skipped(c, k + 1);
    stack_pop_to(&st->contexts, c, k, e);
    if (cpu->switching == k + 1 && !cpu->thread) {
        stack_switch_thread(&st->contexts, cpu, e, e->to);
    } else if (cpu->switching > k) {
        cpu->switching = 0;
    }
}

/* As stack_park(); another thread can have left @next. */
static void park(struct stacks *st, struct stack_cpu *cpu,
                 const struct stack_edge *e, const struct stack_parked *next)
{
    st->over = cpu->ctx->over ? cpu->ctx->number : 0;
    stack_park(&st->contexts, cpu, e, next);
    if (cpu->thread) {
        stack_thread_rename(&st->contexts, cpu);
    }
}

/* Keeps those whose callers return to @to after @level returns, if any. */
static void keep_returning(GArray *found, unsigned level, uint64_t to)
{
    unsigned n = 0;

    for (unsigned i = 0; i < found->len; i++) {
        struct stack_parked p = g_array_index(found, struct stack_parked, i);

        if (p.frame > level &&
            stack_returns(&p.context->frames[p.frame - 1 - level], to)) {
            g_array_index(found, struct stack_parked, n++) = p;
        }
    }
    g_array_set_size(found, n ? n : found->len);
}

/* The edges that a task takes after one that is followed, also in later parts */
struct edges_ahead {
    const struct stacks *st;
    const struct stack_edge *const *edges;
    size_t n;
    unsigned parts;
    unsigned taken;
};

/* The next one; NULL if it is not known, or too far */
static const struct stack_edge *take_ahead(struct edges_ahead *a)
{
    const struct stacks_options *o = &a->st->options;

    while (!a->n && o->next && a->parts < PARTS_AHEAD) {
        const struct stack_part *part = o->next(o->opaque, a->parts++);

        if (!part) {
            return NULL;
        }
        a->edges = part->edges;
        a->n = part->n;
    }
    if (!a->n || a->taken == LOOK_AHEAD) {
        return NULL;
    }
    a->n--;
    a->taken++;
    return *a->edges++;
}

/*
 * Schedulers leave many stacks at one place.  Where they return to then shows
 * which one continues here.  Stacks that return to the same places cannot be
 * told apart: the first one is the one that comes first.  False if more has to
 * be known of what comes then.
 */
static bool look_ahead(const struct stacks *st, GArray *found)
{
    struct edges_ahead a = { st, st->ahead, st->n_ahead };
    const struct stack_edge *e;
    unsigned depth = 0, level = 0;
    bool replaced = false;

    while (found->len > 1) {
        e = take_ahead(&a);
        if (!e) {
            return a.taken == LOOK_AHEAD;
        }
        if (e->restacks) {
            break;
        }
        if ((e->from | e->to) >= ADDRESS_SHARED) {
            continue;
        }
        if (e->kind == STACK_EDGE_CALL) {
            depth++;
        } else if (e->kind == STACK_EDGE_RET && !replaced && depth) {
            depth--;
        } else if (e->kind == STACK_EDGE_RET && !replaced) {
            keep_returning(found, level++, e->to);
        }
        replaced = e->kind == STACK_EDGE_REPLACES;
    }
    return true;
}

/*
 * The parked stack that continues at the target of an edge: those of the same
 * thread, and those that were left first, come first.  False if there is none,
 * or if it is the one that runs, from frame @own on; -1 if that cannot be.
 */
static bool find_parked(struct stacks *st, const struct stack_cpu *cpu,
                        const struct stack_edge *e, int own,
                        struct stack_parked *next)
{
    const struct stack_parked mine = { cpu->ctx, own };
    GArray *found = st->parked;
    bool sure;

    stack_find_parked(&st->contexts, cpu, e->to, found);
    if (own >= 0) {
        g_array_append_val(found, mine);
    }
    sure = look_ahead(st, found);
    if (found->len) {
        *next = g_array_index(found, struct stack_parked, 0);
    }
    if (!sure) {
        stack_guess(next->context, next->frame);
    }
    own = !found->len || next->context == cpu->ctx;
    g_array_set_size(found, 0);
    return !own;
}

/* A jump; one that goes @far may be to anywhere. */
static void do_jump(struct stacks *st, struct stack_cpu *cpu,
                    const struct stack_edge *e, bool far)
{
    struct stack_context *c = cpu->ctx;
    struct stack_parked next;
    int k;

    if (e->to_fn == c->node->function && !(far && e->start)) {
        return;
    }
    if (e->restacks && e->start) {
        park(st, cpu, e, NULL);
        return;
    }
    if (far && !e->start) {
        k = stack_find_back(c, e->to);
        if ((k < 0 || e->restacks) && e->to < ADDRESS_SHARED &&
            find_parked(st, cpu, e, k, &next)) {
            park(st, cpu, e, &next);
            return;
        }
        if (k >= 0) {
            return_to(st, cpu, k, e);
            return;
        }
        k = stack_find_caller(c, e->to_fn);
        if (k >= 0) {
            st->counts.jumps_out++;
            st->counts.nested += skipped(c, k);
            stack_pop_to(&st->contexts, c, k, e);
            return;
        }
    }
    if (far && !e->start && e->to < ADDRESS_SHARED && e->to_fn->known) {
        c->strayed = st->contexts.strayed = st->contexts.record;
    }
    if (far && c->n) {
        /* An inner call was a call of what it has jumped to. */
        c->frames[c->n - 1].inner = false;
    }
    c->node = e->stays && c->node->function == e->from_fn ?
              stack_tree_child(&st->tree, c->node, e->to_fn) :
              stack_tree_sibling(&st->tree, c->node, e->to_fn);
    /* Where code has no symbol, an indirect jump to it is its call. */
    c->node->calls += st->contexts.counting &&
                      (e->start || (far && !e->to_fn->known));
}

/* The frame that was added last in this mode, or NULL */
static struct stack_frame *top_frame(const struct stack_context *c)
{
    return c->n > stack_bottom(c) ? &c->frames[c->n - 1] : NULL;
}

static bool returns_from(const struct stack_frame *top, uint64_t to)
{
    return top && stack_returns(top, to);
}

/*
 * The frame of the call that returns to @to, if nothing but signal handlers is
 * above it; -1 if it is another one.  They were none then, since they would
 * return to the kernel: it has let code without a symbol continue elsewhere, as
 * it does where it aborts a restartable sequence (rseq).
 */
static int find_continued(const struct stack_context *c, uint64_t to)
{
    int k = (int)c->n - 1;

    while (k >= 0 && c->frames[k].kind == STACK_FRAME_SIGNAL) {
        k--;
    }
    return k >= 0 && returns_from(&c->frames[k], to) ? k : -1;
}

/* The function with which a stack of the program has begun returns. */
static void end_stack(struct stacks *st, struct stack_cpu *cpu,
                      const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    struct stack_parked next;

    c->over = true;
    if (find_parked(st, cpu, e, -1, &next)) {
        /* To a stack that was left: it was the callee's own as well. */
        park(st, cpu, e, &next);
    } else {
        c->node = stack_root_child(&st->contexts, c, e->to_fn);
    }
}

static void do_return(struct stacks *st, struct stack_cpu *cpu,
                      const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    struct stack_frame *top = top_frame(c);
    bool kernel = e->to >= ADDRESS_SHARED, parked;
    struct stack_parked next;
    bool arrives = c->n < cpu->arriving;
    int k;

    if (c->replaced) {
        c->replaced = false;
        do_jump(st, cpu, e, true);
        return;
    }
    cpu->arriving = arrives ? 0 : cpu->arriving;
    if (returns_from(top, e->to)) {
        return_to(st, cpu, c->n - 1, e);
        return;
    }
    if (arrives && kernel && e->start) {
        /* A new thread begins. */
        stack_thread_clear(&st->contexts, cpu, e->to_fn);
        return;
    }
    if (!top && (!c->n || c->entry < 0)) {
        if (c->whole && !kernel) {
            end_stack(st, cpu, e);
        } else if (cpu->thread) {
            stack_thread_return(&st->contexts, cpu, e);
        } else {
            stack_return_from_bottom(&st->contexts, cpu, e);
        }
        return;
    }
    k = top && top->kind == STACK_FRAME_SIGNAL ? find_continued(c, e->to) : -1;
    if (k >= 0) {
        stack_end(&st->contexts, c, k + 1);
        return_to(st, cpu, k, e);
        return;
    }
    if (!top || top->kind != STACK_FRAME_CALL) {
        /* A function in a handler returns to its caller there. */
        if (top) {
            top->handled = top->kind == STACK_FRAME_SIGNAL;
        }
        c->node = stack_tree_sibling(&st->tree, c->node, e->to_fn);
        return;
    }
    k = stack_find_back(c, e->to);
    if (k >= 0) {
        return_to(st, cpu, k, e);
        return;
    }
    k = arrives && kernel && cpu->thread ? stack_find_caller(c, e->to_fn) : -1;
    if (k >= 0) {
        /*
         * In a trace of one CR3, the thread has left with another one loaded:
         * how its function has called the switch was not recorded.
         */
        stack_pop_to(&st->contexts, c, k, e);
        return;
    }
    if (kernel && !cpu->thread && cpu->switching && cpu->switching <= c->n) {
        /* The kernel switches to a new thread. */
        uint64_t resume;

        c->n = cpu->switching - 1;
        c->node = c->frames[c->n].caller;
        resume = c->frames[c->n].back;
        stack_switch_thread(&st->contexts, cpu, e, resume);
        return;
    }
    if (top->inner && e->start) {
        /* A jump: the inner call's return address was replaced. */
        stack_end(&st->contexts, c, c->n - 1);
        c->node = stack_tree_sibling(&st->tree, top->caller, e->to_fn);
        return;
    }
    if (!kernel) {
        parked = find_parked(st, cpu, e, -1, &next);
        k = parked ? -1 : stack_find_caller(c, e->to_fn);
        if (k >= 0 && !e->start) {
            st->counts.nested += skipped(c, k);
            st->counts.jumps_out++;
            stack_pop_to(&st->contexts, c, k, e);
            return;
        }
        if (!parked && !e->start) {
            st->counts.unknown++;
            st->contexts.strayed = st->contexts.record;
        }
        st->counts.mistaken += stack_guessed_wrong(c);
        park(st, cpu, e, parked ? &next : NULL);
        return;
    }
    if (e->start) {
        c->node = stack_tree_sibling(&st->tree, c->node, e->to_fn);
        return;
    }
    if (cpu->thread) {
        stack_thread_return(&st->contexts, cpu, e);
        return;
    }
    st->counts.unknown++;
    stack_switch_thread(&st->contexts, cpu, e, top->back);
}

/* From user mode to the kernel */
static void do_entry(struct stacks *st, struct stack_cpu *cpu,
                     const struct stack_edge *e)
{
    st->counts.entries++;
    stack_push(&st->contexts, cpu->ctx, STACK_FRAME_ENTRY, e);
}

/* The oldest context that entered the kernel and continues at @to, or NULL */
static struct stack_context *find_entered(struct stacks *st,
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
static void begin_handler(struct stacks *st, struct stack_context *c,
                          unsigned k, const struct stack_edge *e)
{
    st->counts.signals++;
    c->frames[k].kind = STACK_FRAME_SIGNAL;
    c->frames[k].called = c->frames[k].handled && c->frames[k].back;
    c->frames[k].handled = false;
    stack_end(&st->contexts, c, k + 1);
    st->contexts.handler = st->contexts.record;
    c->entry = -1;
    c->node = stack_tree_child(&st->tree, c->frames[k].caller, e->to_fn);
    c->node->calls += st->contexts.counting;
}

/*
 * The kernel goes to another place than that from which it was entered.  If a
 * handler has just returned, that is where it wants what it has interrupted to
 * continue, or the handler of the next signal.  Where a function starts there,
 * it may have been called: a handler can put a return address on the stack, as
 * that of Go does.  What it returns to shows which it was.
 */
static void begin_signal(struct stacks *st, struct stack_cpu *cpu,
                         const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    int k = c->entry - 1;

    if (!e->start && e->to_fn->known) {
        c->strayed = st->contexts.strayed = st->contexts.record;
    }
    if (k < 0 || c->frames[k].kind != STACK_FRAME_SIGNAL ||
        !c->frames[k].handled) {
        begin_handler(st, c, c->entry, e);
    } else if (e->start || !e->to_fn->known) {
        begin_handler(st, c, k, e);
    } else {
        stack_end(&st->contexts, c, k);
        c->entry = -1;
        c->node = c->frames[k].caller;
        c->replaced = c->frames[k].replaced;
        do_jump(st, cpu, e, true);
    }
}

/* Back to user mode, in a thread that the trace names */
static void exit_thread(struct stacks *st, struct stack_cpu *cpu,
                        const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx, *own;
    int k;

    if (c->entry >= 0 && stack_thread_same(c, cpu)) {
        c->process = cpu->process;
        k = leaves_entry(c, e) ? c->entry : find_signal(c, e);
        if (k >= 0) {
            stack_pop_to(&st->contexts, c, k, e);
        } else {
            begin_signal(st, cpu, e);
        }
        return;
    }
    own = c->entry < 0 ? stack_thread_waiting(&st->contexts, cpu) : NULL;
    if (own && own->entry >= 0 && stack_thread_same(own, cpu) &&
        leaves_entry(own, e)) {
        stack_thread_adopt(&st->contexts, cpu, own, own->entry, e);
    } else {
        /* It is new, or has started a program. */
        stack_thread_clear(&st->contexts, cpu, e->to_fn);
    }
}

/* Back to user mode */
static void do_exit(struct stacks *st, struct stack_cpu *cpu,
                    const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx, *other = NULL;
    bool mine = c->entry >= 0 && stack_same_process(c->process, cpu->process);
    int k;

    cpu->switching = 0;
    if (cpu->thread) {
        exit_thread(st, cpu, e);
        return;
    }
    if (mine && leaves_entry(c, e)) {
        stack_pop_to(&st->contexts, c, c->entry, e);
        c->sure = true;
        return;
    }
    k = mine ? find_signal(c, e) : -1;
    if (k >= 0) {
        stack_pop_to(&st->contexts, c, k, e);
        return;
    }
    if (c->candidates) {
        other = find_entered(st, cpu, c->candidates, e->to);
    }
    if (!other) {
        other = find_entered(st, cpu, st->contexts.all, e->to);
    }
    if (other) {
        if (c->entry < 0) {
            stack_adopt(&st->contexts, cpu, other, other->entry, e);
            st->counts.switches++;
        } else {
            stack_suspend(&st->contexts, cpu, 0);
            stack_run(&st->contexts, cpu, other);
            stack_pop_to(&st->contexts, other, other->entry, e);
            st->counts.resumed++;
        }
        return;
    }
    if (mine) {
        begin_signal(st, cpu, e);
        return;
    }
    if (c->entry >= 0) {
        stack_suspend(&st->contexts, cpu, 0);
        c = stack_run_fresh(&st->contexts, cpu, e);
    }
    g_clear_pointer(&c->candidates, g_ptr_array_unref);
    c->n = 0;
    c->process = cpu->process;
    c->sure = true;
    c->node = stack_root_child(&st->contexts, c, e->to_fn);
}

/* Back from an interrupt to the code in the same mode */
static void do_iret(struct stacks *st, struct stack_cpu *cpu,
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
            stack_pop_to(&st->contexts, c, k, e);
            return;
        }
    }
    if (last >= 0) {
        /* It continues elsewhere: an exception was fixed up. */
        stack_end(&st->contexts, c, last);
        c->node = c->frames[last].caller;
        c->replaced = c->frames[last].replaced;
        if (c->replaced || returns_from(top_frame(c), e->to)) {
            /* Linux does the return of srso_safe_ret() that it interrupts. */
            do_return(st, cpu, e);
            return;
        }
    }
    c->node = stack_tree_sibling(&st->tree, c->node, e->to_fn);
}

/* The instruction is not known; functions must do. */
static void do_unknown(struct stacks *st, struct stack_cpu *cpu,
                       const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;

    st->counts.no_code++;
    if (stack_find_back(c, e->to) >= 0) {
        do_return(st, cpu, e);
    } else if (e->start && (e->to_fn != e->from_fn || e->from > e->to + 64)) {
        st->counts.calls++;
        stack_push(&st->contexts, c, STACK_FRAME_CALL, e);
    } else if (e->to_fn != e->from_fn && e->to_fn->known) {
        do_return(st, cpu, e);
    } else {
        c->node = stack_tree_sibling(&st->tree, c->node, e->to_fn);
    }
}

static void follow_edge(struct stacks *st, struct stack_cpu *cpu,
                 const struct stack_edge *e)
{
    switch (e->kind) {
    case STACK_EDGE_CALL:
        st->counts.calls++;
        stack_push(&st->contexts, cpu->ctx, STACK_FRAME_CALL, e);
        if (e->switches) {
            cpu->switching = cpu->ctx->n;
            st->contexts.switched = true;
        }
        cpu->ctx->ended |= e->ends;
        break;
    case STACK_EDGE_RET:
        do_return(st, cpu, e);
        break;
    case STACK_EDGE_JUMP:
    case STACK_EDGE_JUMP_FAR:
        do_jump(st, cpu, e, e->kind == STACK_EDGE_JUMP_FAR);
        break;
    case STACK_EDGE_REPLACES:
        do_jump(st, cpu, e, false);
        cpu->ctx->replaced = true;
        break;
    case STACK_EDGE_ENTRY:
        do_entry(st, cpu, e);
        break;
    case STACK_EDGE_EXIT:
        do_exit(st, cpu, e);
        break;
    case STACK_EDGE_INTERRUPT:
        st->counts.interrupts++;
        stack_push(&st->contexts, cpu->ctx, STACK_FRAME_INTERRUPT, e);
        break;
    case STACK_EDGE_IRET:
        do_iret(st, cpu, e);
        break;
    default:
        do_unknown(st, cpu, e);
        break;
    }
}

/* Corrects the context if it is not where the record begins. */
static void follow_start(struct stacks *st, struct stack_cpu *cpu,
                  const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;

    if (!c->node) {
        c->process = cpu->process;
        c->node = stack_root_child(&st->contexts, c, e->from_fn);
        return;
    }
    if (e->from < ADDRESS_SHARED) {
        if (c->entry >= 0) {
            /* The kernel was not recorded. */
            c->n = c->entry;
            c->node = c->frames[c->n].caller;
            c->entry = -1;
        }
        if (cpu->thread) {
            if (!stack_thread_same(c, cpu)) {
                stack_thread_clear(&st->contexts, cpu, e->from_fn);
            }
            c->process = cpu->process;
        } else if (!stack_same_process(c->process, cpu->process)) {
            stack_suspend(&st->contexts, cpu, 0);
            c = stack_run_fresh(&st->contexts, cpu, NULL);
            c->node = stack_root_child(&st->contexts, c, e->from_fn);
        }
        c->sure = true;
    }
    if (c->node->function != e->from_fn) {
        st->counts.astray++;
        c->node = stack_tree_sibling(&st->tree, c->node, e->from_fn);
    }
}

static inline void report_move(const struct stacks *st, unsigned vcpu,
                               size_t record, const struct stack_node *from,
                               const struct stack_node *to, uint64_t stack)
{
    if (st->options.moved) {
        st->options.moved(st->options.opaque, vcpu, record, from, to, stack);
    }
}

/* Where a vCPU is */
struct place_before {
    const struct stack_node *node;
    uint64_t stack;
};

static struct place_before place_now(const struct stack_cpu *cpu)
{
    const struct stack_context *c = cpu->ctx;

    return (struct place_before) { c ? c->node : NULL, c ? c->number : 0 };
}

/* Reports that a vCPU has moved, if it has. */
static inline void report_after(struct stacks *st, const struct stack_cpu *cpu,
                                unsigned vcpu, size_t record,
                                const struct place_before *before)
{
    struct place_before now = place_now(cpu);

    if (G_UNLIKELY(st->over)) {
        report_move(st, vcpu, record, before->node, NULL, st->over);
        st->over = 0;
    }
    if (now.node != before->node || now.stack != before->stack) {
        report_move(st, vcpu, record, before->node, now.node, now.stack);
    }
}

static void spill(struct stacks *st)
{
    st->options.spill(st->options.opaque);
    for (unsigned i = 0; i < st->contexts.all->len; i++) {
        const struct stack_context *c = st->contexts.all->pdata[i];

        stack_tree_keep(c->node);
        for (unsigned k = 0; k < c->n; k++) {
            stack_tree_keep(c->frames[k].caller);
        }
        for (unsigned k = 0; c->guessed && k < c->n_guessed; k++) {
            stack_tree_keep(c->guessed[k].caller);
        }
    }
    stack_tree_sweep(&st->tree);
    /* If much of it is kept, the next sweep is not at once. */
    st->many = MAX(st->options.many, 2 * st->tree.all->len);
}

void stacks_begin(struct stacks *st)
{
    if (st->options.spill && st->tree.all->len >= st->many) {
        spill(st);
    }
}

/* Makes the context that of the part's task. */
static struct stack_cpu *begin_task(struct stacks *st,
                                    const struct stack_part *part)
{
    const struct place_before before =
        place_now(stack_cpu_now(&st->contexts, part->vcpu));
    bool nested = part->task.where.cr3 & BTRAIL_CR3_NESTED;
    bool enters;
    struct stack_cpu *cpu = stack_cpu_run(&st->contexts, part->vcpu, nested,
                                          &enters);
    uint64_t thread = stack_thread_number(part->vcpu, part->task.tid,
                                          part->task.nested,
                                          part->task.process->comm);

    cpu->process = part->task.process;
    if (thread != cpu->thread && nested && enters) {
        stack_thread_enter(&st->contexts, cpu, thread);
    } else if (thread != cpu->thread) {
        stack_thread_run(&st->contexts, cpu, thread);
    }
    if (!cpu->ctx) {
        cpu->ctx = stack_context_new(&st->contexts, cpu->process);
    }
    if (thread) {
        stack_thread_rename(&st->contexts, cpu);
    }
    if (before.node) {
        report_after(st, cpu, part->vcpu, part->first - 1, &before);
    }
    return cpu;
}

/* Follows record @i of a part. */
static void follow_record(struct stacks *st, struct stack_cpu *cpu,
                          const struct stack_part *part, size_t i)
{
    const struct stack_edge *e = part->edges[i];
    struct place_before before = place_now(cpu);
    struct stack_node *node = cpu->ctx->node;

    if (G_UNLIKELY(!node || node->function != e->from_fn ||
                   (e->from < ADDRESS_SHARED &&
                    (cpu->ctx->entry >= 0 ||
                     cpu->ctx->process != cpu->process)))) {
        follow_start(st, cpu, e);
        report_after(st, cpu, part->vcpu, part->first + i - 1, &before);
        before = place_now(cpu);
        node = cpu->ctx->node;
    }
    st->contexts.record = part->first + i + 1;
    st->contexts.counting = !part->counts || part->counts[i];
    if (st->contexts.counting) {
        st->counts.likely += BTRAIL_LIKELY == (
            e->from < ADDRESS_SHARED ? part->task.user : part->task.kernel);
        node->records++;
        node->ticks += part->ticks;
    }
    /* After VMRUN or #VMEXIT, the thread continues where it was. */
    if (!part->task.where.leaves &&
        (e->kind != STACK_EDGE_JUMP || e->to_fn != e->from_fn)) {
        st->ahead = part->edges + i + 1;
        st->n_ahead = part->n - i - 1;
        follow_edge(st, cpu, e);
    }
    report_after(st, cpu, part->vcpu, part->first + i, &before);
}

/*
 * Counts the records of a run after record @i all at once; false if they are
 * to be followed one by one.
 */
static bool count_run(struct stacks *st, struct stack_cpu *cpu,
                      const struct stack_part *part, size_t i,
                      const struct stack_run *run)
{
    bool user = part->edges[i]->to < ADDRESS_SHARED;
    struct stack_context *c = cpu->ctx;
    size_t n = run->n;

    if (!c->node || c->node->function != part->edges[i]->to_fn ||
        (user && (c->entry >= 0 || c->process != cpu->process)) ||
        (run->unknown && c->n > stack_bottom(c))) {
        return false;
    }
    st->counts.no_code += run->unknown;
    for (size_t k = 1; part->counts && k <= run->n; k++) {
        n -= !part->counts[i + k];
    }
    st->counts.likely += BTRAIL_LIKELY == (
        user ? part->task.user : part->task.kernel) ? n : 0;
    c->node->records += n;
    c->node->ticks += n * part->ticks;
    return true;
}

void stacks_add(struct stacks *st, const struct stack_part *part)
{
    struct stack_cpu *cpu = begin_task(st, part);
    const struct stack_run *run = part->runs;

    for (size_t i = 0, end; i < part->n; run++) {
        follow_record(st, cpu, part, i);
        end = i + 1 + run->n;
        if (run->n && !count_run(st, cpu, part, i, run)) {
            for (i++; i < end; i++) {
                follow_record(st, cpu, part, i);
            }
        }
        i = end;
    }
    cpu->left = part->task.where.leaves;
}

void stacks_wait(struct stacks *st, unsigned vcpu, uint64_t ticks)
{
    const struct stack_context *c = stack_cpu_now(&st->contexts, vcpu)->ctx;

    if (c && c->node) {
        c->node->ticks += ticks;
    }
}

void stacks_left(struct stacks *st, const struct stack_node *node,
                 uint64_t ticks)
{
    struct stack_node *n = st->tree.all->pdata[node->id];

    n->records++;
    n->ticks += ticks;
}

static void lose_place(struct stacks *st, struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx;

    cpu->switching = 0;
    cpu->thread = 0;
    if (!c || !c->n) {
        if (c) {
            c->node = NULL;
        }
    } else {
        struct stack_context *fresh = stack_context_new(&st->contexts,
                                                        c->process);

        /* It may continue where it was, or in one of its callers. */
        stack_suspend(&st->contexts, cpu, 0);
        fresh->candidates = g_ptr_array_new();
        g_ptr_array_add(fresh->candidates, c);
        cpu->ctx = fresh;
    }
}

void stacks_gap(struct stacks *st, unsigned vcpu)
{
    const struct stack_node *before = stacks_where(st, vcpu);

    for (unsigned nested = 0; nested < 2; nested++) {
        lose_place(st, &st->contexts.cpus[2 * vcpu + nested]);
    }
    st->counts.gaps++;
    if (before) {
        report_move(st, vcpu, 0, before, NULL, 0);
    }
}

struct stacks *stacks_new(const struct stacks_options *options)
{
    struct stacks *st = g_new0(struct stacks, 1);

    st->options = *options;
    st->options.many = options->many ? options->many : STACK_MANY_NODES;
    st->many = st->options.many;
    stack_tree_init(&st->tree, options->by_command, &st->counts);
    stack_contexts_init(&st->contexts, &st->tree, &st->counts);
    st->parked = g_array_new(FALSE, FALSE, sizeof(struct stack_parked));
    return st;
}

void stacks_free(struct stacks *st)
{
    if (st) {
        stack_contexts_clear(&st->contexts);
        g_array_unref(st->parked);
        stack_tree_clear(&st->tree);
        g_free(st);
    }
}

const struct stack_node *stacks_where(const struct stacks *st, unsigned vcpu)
{
    const struct stack_context *c = stack_cpu_now(&st->contexts, vcpu)->ctx;

    return c ? c->node : NULL;
}

uint64_t stacks_stack(const struct stacks *st, unsigned vcpu)
{
    return place_now(stack_cpu_now(&st->contexts, vcpu)).stack;
}

struct stack_state stacks_state(const struct stacks *st, unsigned vcpu)
{
    const struct stack_contexts *all = &st->contexts;
    const struct stack_context *c = stack_cpu_now(all, vcpu)->ctx;
    const struct stack_frame *top = c && c->n ? &c->frames[c->n - 1] : NULL;
    struct stack_state s = { .replaced = c && c->replaced };

    if (c) {
        s.stack = c->id + 1;
        s.guessed = c->doubted;
        s.depth = c->n;
        s.whole = c->whole;
    }
    if (top && top->record > c->strayed) {
        s.call = top->record;
    }
    s.handler = top && top->kind == STACK_FRAME_SIGNAL && !top->handled;
    s.begins = s.handler && all->handler == all->record;
    s.strays = all->strayed == all->record;
    if (all->ended.by == all->record && !s.begins &&
        (!c || all->ended.first > c->strayed)) {
        s.ended = all->ended.first;
    }
    return s;
}

unsigned stacks_calls(const struct stacks *st, unsigned vcpu,
                      struct stack_call *calls, unsigned most)
{
    const struct stack_context *c = stack_cpu_now(&st->contexts, vcpu)->ctx;
    unsigned n = 0;

    if (!c || !c->node || !c->node->function) {
        return 0;
    }
    if (n < most) {
        calls[n] = (struct stack_call) { c->node->function };
    }
    n++;
    for (unsigned k = c->n; k; k--) {
        const struct stack_frame *f = &c->frames[k - 1];

        if (!f->caller->function || f->inner) {
            continue;
        }
        if (n < most) {
            calls[n] = (struct stack_call) {
                f->caller->function, f->from, f->kind != STACK_FRAME_CALL,
            };
        }
        n++;
    }
    return n;
}

const struct stack_node *stacks_roots(const struct stacks *st)
{
    return st->tree.roots;
}

unsigned stacks_nodes(const struct stacks *st)
{
    return st->tree.all->len;
}

void stacks_count(struct stacks *st)
{
    st->counts = (struct stack_counts) {
        .gaps = st->counts.gaps, .dropped = st->counts.dropped,
        .deep = st->counts.deep,
    };
}

const struct stack_counts *stacks_counts(const struct stacks *st)
{
    return &st->counts;
}
