/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks: see stack.h
 */

#include "symbolize/stack-exit.h"
#include "symbolize/stack-thread.h"
#include "symbolize/stack.h"

/* @many: nodes, with which the tree is spilled */
struct stacks {
    struct stacks_options options;
    unsigned many;
    struct stack_moves moves;
};

/* From user mode to the kernel */
static void do_entry(struct stacks *st, struct stack_cpu *cpu,
                     const struct stack_edge *e)
{
    st->moves.counts.entries++;
    stack_push(&st->moves.contexts, cpu->ctx, STACK_FRAME_ENTRY, e);
}

/* The instruction is not known; functions must do. */
static void do_unknown(struct stacks *st, struct stack_cpu *cpu,
                       const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx;

    st->moves.counts.no_code++;
    if (stack_find_back(c, e->to) >= 0) {
        stack_return(&st->moves, cpu, e);
    } else if (e->start && (e->to_fn != e->from_fn || e->from > e->to + 64)) {
        st->moves.counts.calls++;
        stack_push(&st->moves.contexts, c, STACK_FRAME_CALL, e);
    } else if (e->to_fn != e->from_fn && e->to_fn->known) {
        stack_return(&st->moves, cpu, e);
    } else {
        c->node = stack_tree_sibling(&st->moves.tree, c->node, e->to_fn);
    }
}

static void follow_edge(struct stacks *st, struct stack_cpu *cpu,
                 const struct stack_edge *e)
{
    switch (e->kind) {
    case STACK_EDGE_CALL:
        st->moves.counts.calls++;
        stack_push(&st->moves.contexts, cpu->ctx, STACK_FRAME_CALL, e);
        if (e->switches) {
            cpu->switching = cpu->ctx->n;
            st->moves.contexts.switched = true;
        }
        cpu->ctx->ended |= e->ends;
        break;
    case STACK_EDGE_RET:
        stack_return(&st->moves, cpu, e);
        break;
    case STACK_EDGE_JUMP:
    case STACK_EDGE_JUMP_FAR:
        stack_jump(&st->moves, cpu, e, e->kind == STACK_EDGE_JUMP_FAR);
        break;
    case STACK_EDGE_REPLACES:
        stack_jump(&st->moves, cpu, e, false);
        cpu->ctx->replaced = true;
        break;
    case STACK_EDGE_ENTRY:
        do_entry(st, cpu, e);
        break;
    case STACK_EDGE_EXIT:
        stack_exit(&st->moves, cpu, e);
        break;
    case STACK_EDGE_INTERRUPT:
        st->moves.counts.interrupts++;
        stack_push(&st->moves.contexts, cpu->ctx, STACK_FRAME_INTERRUPT, e);
        break;
    case STACK_EDGE_IRET:
        stack_iret(&st->moves, cpu, e);
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
        c->node = stack_root_child(&st->moves.contexts, c, e->from_fn);
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
                stack_thread_clear(&st->moves.contexts, cpu, e->from_fn);
            }
            c->process = cpu->process;
        } else if (!stack_same_process(c->process, cpu->process)) {
            stack_suspend(&st->moves.contexts, cpu, 0);
            c = stack_run_fresh(&st->moves.contexts, cpu, NULL);
            c->node = stack_root_child(&st->moves.contexts, c, e->from_fn);
        }
        c->sure = true;
    }
    if (c->node->function != e->from_fn) {
        st->moves.counts.astray++;
        c->node = stack_tree_sibling(&st->moves.tree, c->node, e->from_fn);
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

    if (G_UNLIKELY(st->moves.over)) {
        report_move(st, vcpu, record, before->node, NULL, st->moves.over);
        st->moves.over = 0;
    }
    if (now.node != before->node || now.stack != before->stack) {
        report_move(st, vcpu, record, before->node, now.node, now.stack);
    }
}

static void spill(struct stacks *st)
{
    st->options.spill(st->options.opaque);
    for (unsigned i = 0; i < st->moves.contexts.all->len; i++) {
        const struct stack_context *c = st->moves.contexts.all->pdata[i];

        stack_tree_keep(c->node);
        for (unsigned k = 0; k < c->n; k++) {
            stack_tree_keep(c->frames[k].caller);
        }
        for (unsigned k = 0; c->guessed && k < c->n_guessed; k++) {
            stack_tree_keep(c->guessed[k].caller);
        }
    }
    stack_tree_sweep(&st->moves.tree);
    /* If much of it is kept, the next sweep is not at once. */
    st->many = MAX(st->options.many, 2 * st->moves.tree.all->len);
}

void stacks_begin(struct stacks *st)
{
    if (st->options.spill && st->moves.tree.all->len >= st->many) {
        spill(st);
    }
}

/* Makes the context that of the part's task. */
static struct stack_cpu *begin_task(struct stacks *st,
                                    const struct stack_part *part)
{
    const struct place_before before =
        place_now(stack_cpu_now(&st->moves.contexts, part->vcpu));
    bool nested = part->task.where.cr3 & BTRAIL_CR3_NESTED;
    bool enters;
    struct stack_cpu *cpu = stack_cpu_run(&st->moves.contexts, part->vcpu,
                                          nested, &enters);
    uint64_t thread = stack_thread_number(part->vcpu, part->task.tid,
                                          part->task.nested,
                                          part->task.process->comm);

    cpu->process = part->task.process;
    if (thread != cpu->thread && nested && enters) {
        stack_thread_enter(&st->moves.contexts, cpu, thread);
    } else if (thread != cpu->thread) {
        stack_thread_run(&st->moves.contexts, cpu, thread);
    }
    if (!cpu->ctx) {
        cpu->ctx = stack_context_new(&st->moves.contexts, cpu->process);
    }
    if (thread) {
        stack_thread_rename(&st->moves.contexts, cpu);
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
    st->moves.contexts.record = part->first + i + 1;
    st->moves.contexts.counting = !part->counts || part->counts[i];
    if (st->moves.contexts.counting) {
        st->moves.counts.likely += BTRAIL_LIKELY == (
            e->from < ADDRESS_SHARED ? part->task.user : part->task.kernel);
        node->records++;
        node->ticks += part->ticks;
    }
    /* After VMRUN or #VMEXIT, the thread continues where it was. */
    if (!part->task.where.leaves &&
        (e->kind != STACK_EDGE_JUMP || e->to_fn != e->from_fn)) {
        st->moves.ahead = part->edges + i + 1;
        st->moves.n_ahead = part->n - i - 1;
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
    st->moves.counts.no_code += run->unknown;
    for (size_t k = 1; part->counts && k <= run->n; k++) {
        n -= !part->counts[i + k];
    }
    st->moves.counts.likely += BTRAIL_LIKELY == (
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

static const struct stack_context *context_now(const struct stacks *st,
                                               unsigned vcpu)
{
    return stack_cpu_now(&st->moves.contexts, vcpu)->ctx;
}

void stacks_wait(struct stacks *st, unsigned vcpu, uint64_t ticks)
{
    const struct stack_context *c = context_now(st, vcpu);

    if (c && c->node) {
        c->node->ticks += ticks;
    }
}

void stacks_left(struct stacks *st, const struct stack_node *node,
                 uint64_t ticks)
{
    struct stack_node *n = st->moves.tree.all->pdata[node->id];

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
        struct stack_context *fresh = stack_context_new(&st->moves.contexts,
                                                        c->process);

        /* It may continue where it was, or in one of its callers. */
        stack_suspend(&st->moves.contexts, cpu, 0);
        fresh->candidates = g_ptr_array_new();
        g_ptr_array_add(fresh->candidates, c);
        cpu->ctx = fresh;
    }
}

void stacks_gap(struct stacks *st, unsigned vcpu)
{
    const struct stack_node *before = stacks_where(st, vcpu);

    for (unsigned nested = 0; nested < 2; nested++) {
        lose_place(st, &st->moves.contexts.cpus[2 * vcpu + nested]);
    }
    st->moves.counts.gaps++;
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
    stack_tree_init(&st->moves.tree, options->by_command, &st->moves.counts);
    stack_contexts_init(&st->moves.contexts, &st->moves.tree,
                        &st->moves.counts);
    st->moves.next = options->next;
    st->moves.opaque = options->opaque;
    st->moves.parked = g_array_new(FALSE, FALSE, sizeof(struct stack_parked));
    return st;
}

void stacks_free(struct stacks *st)
{
    if (st) {
        stack_contexts_clear(&st->moves.contexts);
        g_array_unref(st->moves.parked);
        stack_tree_clear(&st->moves.tree);
        g_free(st);
    }
}

const struct stack_node *stacks_where(const struct stacks *st, unsigned vcpu)
{
    const struct stack_context *c = context_now(st, vcpu);

    return c ? c->node : NULL;
}

uint64_t stacks_stack(const struct stacks *st, unsigned vcpu)
{
    return place_now(stack_cpu_now(&st->moves.contexts, vcpu)).stack;
}

struct stack_state stacks_state(const struct stacks *st, unsigned vcpu)
{
    const struct stack_contexts *all = &st->moves.contexts;
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
    const struct stack_context *c = context_now(st, vcpu);
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
    return st->moves.tree.roots;
}

unsigned stacks_nodes(const struct stacks *st)
{
    return st->moves.tree.all->len;
}

void stacks_count(struct stacks *st)
{
    st->moves.counts = (struct stack_counts) {
        .gaps = st->moves.counts.gaps, .dropped = st->moves.counts.dropped,
        .deep = st->moves.counts.deep,
    };
}

const struct stack_counts *stacks_counts(const struct stacks *st)
{
    return &st->moves.counts;
}
