/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads of control: see stack-context.h
 */

#include <string.h>

#include "symbolize/stack-context.h"
#include "util/cr3-pair.h"
#include "util/hash.h"

/* Programs with a usual stack of 8 MiB cannot call any deeper. */
#define MAX_FRAMES      (1u << 19)
#define MAX_CONTEXTS    4096
/* Where a frame is looked for: among so many on top, and at the bottom */
#define LOOK_FRAMES     4096
/* A parked stack continues from one of so many on top. */
#define SCHEDULER_FRAMES    16
/* Of all contexts together */
#define MAX_ALL_FRAMES  (4u << 20)

static void context_free(gpointer p)
{
    struct stack_context *c = p;

    g_clear_pointer(&c->candidates, g_ptr_array_unref);
    g_free(c->guessed);
    g_free(c->frames);
    g_free(c);
}

/* Removes @c from the candidates; only contexts that run have any. */
static void drop_candidate(struct stack_contexts *st, struct stack_context *c)
{
    for (unsigned i = 0; i < st->n_cpus; i++) {
        const struct stack_context *other = st->cpus[i].ctx;

        if (other && other->candidates) {
            g_ptr_array_remove(other->candidates, c);
        }
    }
}

/* The thread of a context no longer has it. */
static void leave_thread(struct stack_contexts *st, struct stack_context *c)
{
    if (c->thread && g_hash_table_lookup(st->threads, &c->thread) == c) {
        g_hash_table_remove(st->threads, &c->thread);
    }
}

/* What was before it is so for the one after it, or is the thread's again. */
static void unlink_context(struct stack_contexts *st, struct stack_context *c)
{
    leave_thread(st, c);
    if (c->after) {
        c->after->before = c->before;
    }
    if (c->before) {
        c->before->after = c->after;
        if (!c->after &&
            !g_hash_table_contains(st->threads, &c->before->thread)) {
            g_hash_table_insert(st->threads, &c->before->thread, c->before);
        }
    }
}

void stack_forget(struct stack_contexts *st, struct stack_context *c)
{
    unlink_context(st, c);
    drop_candidate(st, c);
    if (!c->running) {
        g_queue_unlink(&st->waiting, &c->place);
    }
    st->frames -= c->size;
    g_ptr_array_remove_fast(st->all, c);
}

/* Drops the context that has waited longest; false if all run. */
static bool drop_oldest(struct stack_contexts *st)
{
    struct stack_context *oldest = g_queue_peek_head(&st->waiting);

    if (oldest) {
        st->counts->deep += oldest->n;
        stack_forget(st, oldest);
    }
    return oldest;
}

struct stack_context *stack_context_new(struct stack_contexts *st,
                                        const struct process *process)
{
    struct stack_context *c = g_new0(struct stack_context, 1);

    if (st->all->len >= MAX_CONTEXTS) {
        drop_oldest(st);
    }
    c->process = process;
    c->entry = -1;
    c->id = c->age = st->age++;
    c->running = true;
    g_ptr_array_add(st->all, c);
    return c;
}

/* Makes room for more frames. */
static void grow(struct stack_contexts *st, struct stack_context *c)
{
    unsigned more = MAX(c->size, 16);

    while (st->frames + more > MAX_ALL_FRAMES && drop_oldest(st)) {
    }
    st->frames += more;
    c->size += more;
    c->frames = g_renew(struct stack_frame, c->frames, c->size);
}

void stack_push(struct stack_contexts *st, struct stack_context *c,
                enum stack_frame_kind kind, const struct stack_edge *e)
{
    struct stack_frame *f;

    if (c->n == MAX_FRAMES) {
        unsigned half = MAX_FRAMES / 2;

        memmove(c->frames, c->frames + half, half * sizeof(*c->frames));
        c->n -= half;
        c->entry = c->entry < (int)half ? -1 : c->entry - (int)half;
        st->counts->deep += half;
    }
    if (c->n == c->size) {
        grow(st, c);
    }
    f = &c->frames[c->n];
    *f = (struct stack_frame) {
        .from = e->from, .back = e->back, .caller = c->node,
        .record = st->record, .kind = kind, .inner = e->inner,
        .replaced = c->replaced,
    };
    c->replaced = false;
    if (kind == STACK_FRAME_ENTRY) {
        c->entry = c->n;
    }
    c->n++;
    c->node = stack_tree_child(st->tree, c->node, e->to_fn);
    c->node->calls += st->counting && !f->inner;
}

bool stack_goes_back(const struct stack_frame *f, uint64_t to)
{
    if (f->back) {
        return f->back == to;
    }
    /* Nearly all near calls have two to eight bytes. */
    return to > f->from + 1 && to <= f->from + 8;
}

void stack_end(struct stack_contexts *st, struct stack_context *c, unsigned k)
{
    if (k < c->n) {
        st->ended.first = c->frames[k].record;
        st->ended.by = st->record;
        c->n = k;
    }
}

void stack_pop_to(struct stack_contexts *st, struct stack_context *c,
                  unsigned k, const struct stack_edge *e)
{
    stack_end(st, c, k);
    c->replaced = c->frames[k].replaced;
    if (c->entry >= (int)k) {
        c->entry = -1;
    }
    c->node = stack_tree_sibling(st->tree, c->frames[k].caller, e->to_fn);
}

unsigned stack_bottom(const struct stack_context *c)
{
    return c->entry + 1;
}

int stack_below(const struct stack_context *c, int k)
{
    return k == (int)c->n - LOOK_FRAMES && k > LOOK_FRAMES ? LOOK_FRAMES :
           k - 1;
}

/* The same as stack_find_back(), not below frame @last */
static int find_back_to(const struct stack_context *c, uint64_t to, int last)
{
    for (int k = (int)c->n - 1; k >= last; k = stack_below(c, k)) {
        if (c->frames[k].kind == STACK_FRAME_CALL &&
            stack_goes_back(&c->frames[k], to)) {
            return k;
        }
    }
    return -1;
}

int stack_find_back(const struct stack_context *c, uint64_t to)
{
    return find_back_to(c, to, stack_bottom(c));
}

int stack_find_caller(const struct stack_context *c,
                      const struct function *function)
{
    for (int k = (int)c->n - 1; k >= (int)stack_bottom(c);
         k = stack_below(c, k)) {
        if (c->frames[k].caller->function == function && function->known) {
            return k;
        }
    }
    return -1;
}

bool stack_same_process(const struct process *a, const struct process *b)
{
    if (a == b) {
        return true;
    }
    if (a->kernel || b->kernel) {
        return false;
    }
    return a->owner == b->owner ||
           (a->cr3 != b->cr3 &&
            cr3_pair(a->cr3) == cr3_pair(b->cr3) &&
            !(a->owner->known && b->owner->known));
}

void stack_pause(struct stack_contexts *st, struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx;

    cpu->ctx = NULL;
    c->running = false;
    c->place.data = c;
    g_queue_push_tail_link(&st->waiting, &c->place);
    c->resume = 0;
    c->switching = cpu->switching;
    c->arriving = cpu->arriving;
    c->gaps = st->counts->gaps;
    c->age = st->age++;
    g_clear_pointer(&c->candidates, g_ptr_array_unref);
    g_clear_pointer(&c->guessed, g_free);
}

void stack_suspend(struct stack_contexts *st, struct stack_cpu *cpu,
                   uint64_t resume)
{
    struct stack_context *c = cpu->ctx;

    stack_pause(st, cpu);
    c->resume = resume;
    c->switching = 0;
    c->arriving = c->n + 1;
    if (!c->n) {
        stack_forget(st, c);
    }
}

/* @cpu continues a context, which is its thread's if that has no other. */
static void set_context(struct stack_contexts *st, struct stack_cpu *cpu,
                        struct stack_context *c)
{
    if (!c->running) {
        g_queue_unlink(&st->waiting, &c->place);
    }
    c->running = true;
    c->parked = false;
    cpu->ctx = c;
    cpu->switching = 0;
    c->named = NULL;
    if (cpu->thread && c->thread != cpu->thread) {
        leave_thread(st, c);
        c->thread = cpu->thread;
    }
    if (c->thread && !g_hash_table_contains(st->threads, &c->thread)) {
        g_hash_table_insert(st->threads, &c->thread, c);
    }
}

void stack_run(struct stack_contexts *st, struct stack_cpu *cpu,
               struct stack_context *c)
{
    drop_candidate(st, c);
    set_context(st, cpu, c);
    st->counts->switches++;
}

void stack_resume(struct stack_contexts *st, struct stack_cpu *cpu,
                  struct stack_context *c)
{
    stack_run(st, cpu, c);
    cpu->switching = c->switching;
    cpu->arriving = c->arriving;
}

struct stack_node *stack_root_child(struct stack_contexts *st,
                                    const struct stack_context *c,
                                    const struct function *function)
{
    return stack_tree_child(st->tree, stack_tree_root(st->tree, c->process),
                            function);
}

struct stack_context *stack_run_fresh(struct stack_contexts *st,
                                      struct stack_cpu *cpu,
                                      const struct stack_edge *e)
{
    struct stack_context *c = stack_context_new(st, cpu->process);

    c->node = e ? stack_root_child(st, c, e->to_fn) : NULL;
    stack_run(st, cpu, c);
    return c;
}

void stack_adopt(struct stack_contexts *st, struct stack_cpu *cpu,
                 struct stack_context *c, unsigned k,
                 const struct stack_edge *e)
{
    struct stack_context *fresh = cpu->ctx;

    drop_candidate(st, c);
    stack_forget(st, fresh);
    set_context(st, cpu, c);
    stack_pop_to(st, c, k, e);
    st->counts->resumed++;
}

void stack_switch_thread(struct stack_contexts *st, struct stack_cpu *cpu,
                         const struct stack_edge *e, uint64_t resume)
{
    struct stack_context *old = cpu->ctx, *c;

    stack_suspend(st, cpu, resume);
    c = stack_run_fresh(st, cpu, e);
    c->candidates = g_ptr_array_new();
    for (unsigned i = 0; i < st->all->len; i++) {
        struct stack_context *other = st->all->pdata[i];

        if (!other->running && other != old && other->resume == e->to &&
            other->n && (!other->sure ||
                         stack_same_process(other->process, cpu->process))) {
            g_ptr_array_add(c->candidates, other);
        }
    }
}

void stack_return_from_bottom(struct stack_contexts *st,
                              struct stack_cpu *cpu,
                              const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;
    GPtrArray *left = g_ptr_array_new();
    struct stack_context *found = NULL;
    int k = -1;

    for (unsigned i = 0; c->candidates && i < c->candidates->len; i++) {
        struct stack_context *other = c->candidates->pdata[i];

        if (c->level < other->n &&
            other->frames[other->n - 1 - c->level].kind == STACK_FRAME_CALL &&
            stack_goes_back(&other->frames[other->n - 1 - c->level], e->to)) {
            g_ptr_array_add(left, other);
        }
    }
    if (left->len == 1) {
        found = left->pdata[0];
        k = found->n - 1 - c->level;
    }
    /* After a gap, frames may be missing as well. */
    for (unsigned i = 0; !left->len && !found && c->candidates &&
         i < c->candidates->len; i++) {
        k = stack_find_back(c->candidates->pdata[i], e->to);
        found = k >= 0 ? c->candidates->pdata[i] : NULL;
    }
    if (found) {
        g_ptr_array_unref(left);
        stack_adopt(st, cpu, found, k, e);
        return;
    }
    st->counts->unknown += !left->len;
    g_ptr_array_unref(c->candidates ? c->candidates : left);
    if (c->candidates) {
        c->candidates = left;
    }
    c->level++;
    c->node = stack_root_child(st, c, e->to_fn);
}

bool stack_resumes(const struct stack_frame *f, uint64_t to)
{
    return f->back == to || (f->back && f->back == to + 2);
}

bool stack_returns(const struct stack_frame *f, uint64_t to)
{
    return f->kind == STACK_FRAME_CALL ? stack_goes_back(f, to) :
           f->called && stack_resumes(f, to);
}

void stack_guess(struct stack_context *c, unsigned k)
{
    g_free(c->guessed);
    c->n_guessed = k + 1;
    c->guessed = g_memdup2(c->frames, c->n_guessed * sizeof(*c->frames));
}

bool stack_guessed_wrong(struct stack_context *c)
{
    if (c->guessed) {
        c->n = c->n_guessed;
        c->entry = -1;
        memcpy(c->frames, c->guessed, c->n * sizeof(*c->frames));
        c->node = c->frames[c->n - 1].caller;
    }
    return c->guessed;
}

/* Threads have stacks of their own, but can pass them on to others. */
static gint compare_parked(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const struct stack_context *x = ((const struct stack_parked *)a)->context;
    const struct stack_context *y = ((const struct stack_parked *)b)->context;
    const struct stack_cpu *cpu = opaque;
    int own = (y->thread == cpu->thread) - (x->thread == cpu->thread);

    return own ?: x->age < y->age ? -1 : 1;
}

void stack_find_parked(struct stack_contexts *st, const struct stack_cpu *cpu,
                       uint64_t to, GArray *found)
{
    for (unsigned i = 0; i < st->all->len; i++) {
        struct stack_context *c = st->all->pdata[i];
        int k;

        if (!c->parked || c->running || !c->n ||
            !stack_same_process(c->process, cpu->process)) {
            continue;
        }
        k = find_back_to(c, to, MAX((int)c->n - SCHEDULER_FRAMES, 0));
        if (k >= 0) {
            const struct stack_parked p = { c, k };

            g_array_append_val(found, p);
        }
    }
    g_array_sort_with_data(found, compare_parked, (gpointer)cpu);
}

void stack_park(struct stack_contexts *st, struct stack_cpu *cpu,
                const struct stack_edge *e, const struct stack_parked *next)
{
    struct stack_context *c = cpu->ctx;
    uint64_t number = c->number;
    bool sure = c->sure;

    if (c->over) {
        cpu->ctx = NULL;
        stack_forget(st, c);
    } else {
        c->parked = true;
        leave_thread(st, c);
        stack_suspend(st, cpu, 0);
    }
    if (next) {
        stack_run(st, cpu, next->context);
        next->context->doubted = st->record;
        stack_pop_to(st, next->context, next->frame, e);
        st->counts->resumed++;
    } else {
        stack_run_fresh(st, cpu, e);
        /* Otherwise it may be the same one. */
        cpu->ctx->number = e->start ? ++st->numbers : number;
        cpu->ctx->whole = e->start;
        cpu->ctx->node->calls += e->start && st->counting;
    }
    cpu->ctx->sure = sure;
}

void stack_contexts_init(struct stack_contexts *st, struct stack_tree *tree,
                         struct stack_counts *counts)
{
    memset(st, 0, sizeof(*st));
    st->tree = tree;
    st->counts = counts;
    g_queue_init(&st->waiting);
    st->all = g_ptr_array_new_with_free_func(context_free);
    st->threads = g_hash_table_new(btrail_int64_hash, g_int64_equal);
    for (unsigned i = 1; i < G_N_ELEMENTS(st->cpus); i += 2) {
        st->cpus[i].left = true;
    }
}

struct stack_cpu *stack_cpu_run(struct stack_contexts *st, unsigned vcpu,
                                bool nested, bool *enters)
{
    struct stack_cpu *cpu = &st->cpus[2 * vcpu + nested];

    st->n_cpus = MAX(st->n_cpus, 2 * vcpu + 2);
    if (st->nested[vcpu] != nested) {
        st->cpus[2 * vcpu + !nested].left = true;
        st->nested[vcpu] = nested;
    }
    *enters = cpu->left;
    cpu->left = false;
    return cpu;
}

const struct stack_cpu *stack_cpu_now(const struct stack_contexts *st,
                                      unsigned vcpu)
{
    return &st->cpus[2 * vcpu + st->nested[vcpu]];
}

void stack_contexts_clear(struct stack_contexts *st)
{
    g_hash_table_unref(st->threads);
    g_ptr_array_unref(st->all);
}
