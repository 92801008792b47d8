/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Returns and jumps: see stack-return.h
 */

#include "symbolize/stack-return.h"
#include "symbolize/stack-thread.h"

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
static void return_to(struct stack_moves *m, struct stack_cpu *cpu, unsigned k,
                      const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;

    m->counts.returns++;
    m->counts.nested += skipped(c, k + 1);
    stack_pop_to(&m->contexts, c, k, e);
    if (cpu->switching == k + 1 && !cpu->thread) {
        stack_switch_thread(&m->contexts, cpu, e, e->to);
    } else if (cpu->switching > k) {
        cpu->switching = 0;
    }
}

/* As stack_park(); another thread can have left @next. */
static void park(struct stack_moves *m, struct stack_cpu *cpu,
                 const struct stack_edge *e, const struct stack_parked *next)
{
    m->over = cpu->ctx->over ? cpu->ctx->number : 0;
    stack_park(&m->contexts, cpu, e, next);
    if (cpu->thread) {
        stack_thread_rename(&m->contexts, cpu);
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

/* What a task takes after the edge that is followed, also in later parts */
struct edges_ahead {
    const struct stack_moves *m;
    const struct stack_edge *const *edges;
    size_t n;
    unsigned parts;
    unsigned taken;
};

/* The next one; NULL if it is not known, or too far */
static const struct stack_edge *take_ahead(struct edges_ahead *a)
{
    const struct stack_moves *m = a->m;

    while (!a->n && m->next && a->parts < PARTS_AHEAD) {
        const struct stack_part *part = m->next(m->opaque, a->parts++);

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
static bool look_ahead(const struct stack_moves *m, GArray *found)
{
    struct edges_ahead a = { m, m->ahead, m->n_ahead };
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
static bool find_parked(struct stack_moves *m, const struct stack_cpu *cpu,
                        const struct stack_edge *e, int own,
                        struct stack_parked *next)
{
    const struct stack_parked mine = { cpu->ctx, own };
    GArray *found = m->parked;
    bool sure;

    stack_find_parked(&m->contexts, cpu, e->to, found);
    if (own >= 0) {
        g_array_append_val(found, mine);
    }
    sure = look_ahead(m, found);
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

void stack_jump(struct stack_moves *m, struct stack_cpu *cpu,
                const struct stack_edge *e, bool far)
{
    struct stack_context *c = cpu->ctx;
    struct stack_parked next;
    int k;

    if (e->to_fn == c->node->function && !(far && e->start)) {
        return;
    }
    if (e->restacks && e->start) {
        park(m, cpu, e, NULL);
        return;
    }
    if (far && !e->start) {
        k = stack_find_back(c, e->to);
        if ((k < 0 || e->restacks) && e->to < ADDRESS_SHARED &&
            find_parked(m, cpu, e, k, &next)) {
            park(m, cpu, e, &next);
            return;
        }
        if (k >= 0) {
            return_to(m, cpu, k, e);
            return;
        }
        k = stack_find_caller(c, e->to_fn);
        if (k >= 0) {
            m->counts.jumps_out++;
            m->counts.nested += skipped(c, k);
            stack_pop_to(&m->contexts, c, k, e);
            return;
        }
    }
    if (far && !e->start && e->to < ADDRESS_SHARED && e->to_fn->known) {
        c->strayed = m->contexts.strayed = m->contexts.record;
    }
    if (far && c->n) {
        /* An inner call was a call of what it has jumped to. */
        c->frames[c->n - 1].inner = false;
    }
    c->node = e->stays && c->node->function == e->from_fn ?
              stack_tree_child(&m->tree, c->node, e->to_fn) :
              stack_tree_sibling(&m->tree, c->node, e->to_fn);
    /* Where code has no symbol, an indirect jump to it is its call. */
    c->node->calls += m->contexts.counting &&
                      (e->start || (far && !e->to_fn->known));
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
    return k >= 0 && stack_returns_from(&c->frames[k], to) ? k : -1;
}

/* The function with which a stack of the program has begun returns. */
static void end_stack(struct stack_moves *m, struct stack_cpu *cpu,
                      const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    struct stack_parked next;

    c->over = true;
    if (find_parked(m, cpu, e, -1, &next)) {
        /* To a stack that was left: it was the callee's own as well. */
        park(m, cpu, e, &next);
    } else {
        c->node = stack_root_child(&m->contexts, c, e->to_fn);
    }
}

void stack_return(struct stack_moves *m, struct stack_cpu *cpu,
                  const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    struct stack_frame *top = stack_top(c);
    bool kernel = e->to >= ADDRESS_SHARED, parked;
    struct stack_parked next;
    bool arrives = c->n < cpu->arriving;
    int k;

    if (c->replaced) {
        c->replaced = false;
        stack_jump(m, cpu, e, true);
        return;
    }
    cpu->arriving = arrives ? 0 : cpu->arriving;
    if (stack_returns_from(top, e->to)) {
        return_to(m, cpu, c->n - 1, e);
        return;
    }
    if (arrives && kernel && e->start) {
        /* A new thread begins. */
        stack_thread_clear(&m->contexts, cpu, e->to_fn);
        return;
    }
    if (!top && (!c->n || c->entry < 0)) {
        if (c->whole && !kernel) {
            end_stack(m, cpu, e);
        } else if (cpu->thread) {
            stack_thread_return(&m->contexts, cpu, e);
        } else {
            stack_return_from_bottom(&m->contexts, cpu, e);
        }
        return;
    }
    k = top && top->kind == STACK_FRAME_SIGNAL ? find_continued(c, e->to) : -1;
    if (k >= 0) {
        stack_end(&m->contexts, c, k + 1);
        return_to(m, cpu, k, e);
        return;
    }
    if (!top || top->kind != STACK_FRAME_CALL) {
        /* A function in a handler returns to its caller there. */
        if (top) {
            top->handled = top->kind == STACK_FRAME_SIGNAL;
        }
        c->node = stack_tree_sibling(&m->tree, c->node, e->to_fn);
        return;
    }
    k = stack_find_back(c, e->to);
    if (k >= 0) {
        return_to(m, cpu, k, e);
        return;
    }
    k = arrives && kernel && cpu->thread ? stack_find_caller(c, e->to_fn) : -1;
    if (k >= 0) {
        /*
         * In a trace of one CR3, the thread has left with another one loaded:
         * how its function has called the switch was not recorded.
         */
        stack_pop_to(&m->contexts, c, k, e);
        return;
    }
    if (kernel && !cpu->thread && cpu->switching && cpu->switching <= c->n) {
        /* The kernel switches to a new thread. */
        uint64_t resume;

        c->n = cpu->switching - 1;
        c->node = c->frames[c->n].caller;
        resume = c->frames[c->n].back;
        stack_switch_thread(&m->contexts, cpu, e, resume);
        return;
    }
    if (top->inner && e->start) {
        /* A jump: the inner call's return address was replaced. */
        stack_end(&m->contexts, c, c->n - 1);
        c->node = stack_tree_sibling(&m->tree, top->caller, e->to_fn);
        return;
    }
    if (!kernel) {
        parked = find_parked(m, cpu, e, -1, &next);
        k = parked ? -1 : stack_find_caller(c, e->to_fn);
        if (k >= 0 && !e->start) {
            m->counts.nested += skipped(c, k);
            m->counts.jumps_out++;
            stack_pop_to(&m->contexts, c, k, e);
            return;
        }
        if (!parked && !e->start) {
            m->counts.unknown++;
            m->contexts.strayed = m->contexts.record;
        }
        m->counts.mistaken += stack_guessed_wrong(c);
        park(m, cpu, e, parked ? &next : NULL);
        return;
    }
    if (e->start) {
        c->node = stack_tree_sibling(&m->tree, c->node, e->to_fn);
        return;
    }
    if (cpu->thread) {
        stack_thread_return(&m->contexts, cpu, e);
        return;
    }
    m->counts.unknown++;
    stack_switch_thread(&m->contexts, cpu, e, top->back);
}
