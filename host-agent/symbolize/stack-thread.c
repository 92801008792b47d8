/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks of threads: see stack-thread.h
 */

#include <stdlib.h>
#include <string.h>

#include "symbolize/stack-thread.h"

uint64_t stack_thread_number(unsigned vcpu, int64_t tid, uint16_t nested,
                             const char *name)
{
    const char *slash = nested && !tid ? strrchr(name, '/') : NULL;

    if (tid < 0) {
        return 0;
    }
    if (!tid) {
        tid = INT64_C(1) << 32 | (slash ? strtoul(slash + 1, NULL, 10) %
                                  BTRAIL_MAX_VCPUS : vcpu);
    }
    return (uint64_t)nested << 48 | (uint64_t)tid;
}

static struct stack_context *find_context(const struct stack_contexts *st,
                                          uint64_t thread)
{
    return g_hash_table_lookup(st->threads, &thread);
}

/* Forgets where the thread of a context was before gaps. */
static void forget_before(struct stack_contexts *st, struct stack_context *c)
{
    while (c->before) {
        stack_forget(st, c->before);
    }
}

/* @cpu stops to run its context. */
static void stop(struct stack_contexts *st, struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx;

    if (!c) {
        return;
    }
    if (c->thread && (c->ended || find_context(st, c->thread) != c)) {
        cpu->ctx = NULL;
        if (c->ended) {
            forget_before(st, c);
        }
        stack_forget(st, c);
    } else {
        stack_suspend(st, cpu, 0);
    }
}

/* The thread that @cpu runs gets another number. */
static void renumber(struct stack_contexts *st, struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx;
    struct stack_context *other = find_context(st, cpu->thread);

    if (other && !other->running) {
        stack_forget(st, other);
        other = NULL;
    }
    if (find_context(st, c->thread) == c) {
        g_hash_table_remove(st->threads, &c->thread);
    }
    c->thread = cpu->thread;
    if (!other) {
        g_hash_table_insert(st->threads, &c->thread, c);
    }
}

/*
 * @cpu runs a new context of its thread.  After a gap, what is known of the
 * thread may still hold, or no longer.
 */
static void run_new(struct stack_contexts *st, struct stack_cpu *cpu)
{
    struct stack_context *c = stack_context_new(st, cpu->process);
    struct stack_context *before = find_context(st, cpu->thread);

    if (before && !before->running) {
        g_hash_table_remove(st->threads, &before->thread);
        c->before = before;
        before->after = c;
    }
    stack_run(st, cpu, c);
}

/*
 * Does the thread that runs get the number of its process's first one, as exec
 * does?  A switch of tasks need not be in a filtered trace.
 */
static bool becomes_first(const struct stack_cpu *cpu, uint64_t thread)
{
    const struct process *named = cpu->ctx->named;

    return named && named->pid == cpu->process->pid &&
           named->nested == cpu->process->nested &&
           thread == stack_thread_number(0, cpu->process->pid,
                                         cpu->process->nested, "");
}

void stack_thread_run(struct stack_contexts *st, struct stack_cpu *cpu,
                      uint64_t thread)
{
    struct stack_context *c = find_context(st, thread);
    uint64_t before = cpu->thread;

    cpu->thread = thread;
    if (!thread) {
        /* It may continue with any other. */
        if (cpu->ctx) {
            cpu->ctx->named = NULL;
        }
        return;
    }
    if (!before && cpu->ctx && !cpu->switching && !c && !cpu->ctx->thread) {
        /* It gets a name while it runs. */
        cpu->ctx->thread = thread;
        g_hash_table_insert(st->threads, &cpu->ctx->thread, cpu->ctx);
        return;
    }
    if (before && cpu->ctx && !cpu->switching && st->switched &&
        becomes_first(cpu, thread)) {
        renumber(st, cpu);
        return;
    }
    stop(st, cpu);
    c = find_context(st, thread);
    if (c && !c->running && c->gaps == st->counts->gaps) {
        stack_run(st, cpu, c);
    } else {
        run_new(st, cpu);
    }
    cpu->arriving = cpu->ctx->n + 1;
}

/* No record says that a nested guest's CPU does not continue where it was. */
static void take_away(struct stack_contexts *st, const struct stack_context *c)
{
    for (unsigned i = 0; i < st->n_cpus; i++) {
        struct stack_cpu *cpu = &st->cpus[i];

        if (cpu->ctx == c && cpu->left) {
            stack_pause(st, cpu);
            cpu->thread = 0;
            break;
        }
    }
}

/* @cpu continues with another thread, and this one elsewhere. */
static void pause_thread(struct stack_contexts *st, struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx;

    if (c && c->thread && find_context(st, c->thread) != c) {
        stop(st, cpu);
    } else if (c) {
        stack_pause(st, cpu);
    }
}

void stack_thread_enter(struct stack_contexts *st, struct stack_cpu *cpu,
                        uint64_t thread)
{
    struct stack_context *c = find_context(st, thread);

    if (c) {
        take_away(st, c);
    }
    if (!thread || (!cpu->thread && cpu->ctx)) {
        stack_thread_run(st, cpu, thread);
        return;
    }
    pause_thread(st, cpu);
    cpu->thread = thread;
    if (c && !c->running && c->gaps == st->counts->gaps) {
        stack_resume(st, cpu, c);
    } else {
        run_new(st, cpu);
        cpu->arriving = 1;
    }
}

/* The node with the path of @node below another root; @done has some. */
static struct stack_node *move_node(struct stack_tree *t,
                                    struct stack_node *node,
                                    const struct stack_node *last,
                                    struct stack_node *root, GHashTable *done)
{
    struct stack_node *moved;

    if (!node->parent || node == last) {
        return root;
    }
    moved = g_hash_table_lookup(done, node);
    if (!moved) {
        /* The tree is at most STACK_MAX_DEPTH deep. */
        moved = stack_tree_child(t, move_node(t, node->parent, last, root,
                                              done), node->function);
        g_hash_table_insert(done, node, moved);
    }
    return moved;
}

/*
 * Moves all that is on a stack below another root, or only what is in the
 * kernel.
 */
static void move_stack(struct stack_contexts *st, struct stack_context *c,
                       struct stack_node *root, bool kernel)
{
    g_autoptr(GHashTable) done = g_hash_table_new(NULL, NULL);
    const struct stack_node *last = NULL;

    if (kernel && c->entry >= 0) {
        /* The program that has called the kernel is gone. */
        last = c->frames[c->entry].caller;
        c->n -= c->entry;
        memmove(c->frames, c->frames + c->entry, c->n * sizeof(*c->frames));
        c->entry = 0;
    }
    for (unsigned k = 0; k < c->n; k++) {
        c->frames[k].caller = move_node(st->tree, c->frames[k].caller, last,
                                        root, done);
    }
    c->node = move_node(st->tree, c->node, last, root, done);
}

bool stack_thread_same(const struct stack_context *c,
                       const struct stack_cpu *cpu)
{
    return c->process->cr3 == cpu->process->cr3 ||
           stack_same_process(c->process, cpu->process);
}

static struct stack_node *root_of(struct stack_contexts *st,
                                  const struct stack_cpu *cpu)
{
    return stack_tree_root(st->tree, cpu->process);
}

void stack_thread_rename(struct stack_contexts *st, struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx;
    struct stack_node *root = c->node && c->named != cpu->process ?
                              root_of(st, cpu) : NULL;

    c->named = cpu->process;
    if (root && c->node->process != root->process) {
        move_stack(st, c, root, !stack_thread_same(c, cpu));
    }
}

struct stack_context *stack_thread_waiting(struct stack_contexts *st,
                                           const struct stack_cpu *cpu)
{
    struct stack_context *c = cpu->ctx->before ?:
                              find_context(st, cpu->thread);

    return c && c != cpu->ctx && !c->running ? c : NULL;
}

void stack_thread_adopt(struct stack_contexts *st, struct stack_cpu *cpu,
                        struct stack_context *c, unsigned k,
                        const struct stack_edge *e)
{
    stack_adopt(st, cpu, c, k, e);
    stack_thread_rename(st, cpu);
}

void stack_thread_return(struct stack_contexts *st, struct stack_cpu *cpu,
                         const struct stack_edge *e)
{
    struct stack_context *c = cpu->ctx, *own = stack_thread_waiting(st, cpu);
    unsigned bottom = stack_bottom(c);
    int k = own && !c->n ? stack_find_back(own, e->to) : -1;

    if (k >= 0) {
        stack_thread_adopt(st, cpu, own, k, e);
        return;
    }
    st->counts->unknown++;
    st->strayed = c->n > bottom ? st->record : st->strayed;
    c->n = bottom;
    c->node = bottom ? stack_tree_child(st->tree, c->frames[c->entry].caller,
                                        e->to_fn) :
              stack_tree_child(st->tree, root_of(st, cpu), e->to_fn);
}

void stack_thread_clear(struct stack_contexts *st, struct stack_cpu *cpu,
                        const struct function *function)
{
    struct stack_context *c = cpu->ctx, *own;

    forget_before(st, c);
    own = stack_thread_waiting(st, cpu);
    if (own) {
        stack_forget(st, own);
        g_hash_table_insert(st->threads, &c->thread, c);
    }
    c->n = 0;
    c->entry = -1;
    c->number = 0;
    c->whole = false;
    c->process = cpu->process;
    c->node = stack_root_child(st, c, function);
}
