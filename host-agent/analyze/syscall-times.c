/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls as they began and ended: see syscall-times.h
 */

#include <string.h>

#include "analyze/syscall-times.h"
#include "util/hash.h"
#include "util/search.h"

/*
 * What a thread or a vCPU is in: a call if @now.function is not NULL
 *
 * @number: in the order in which they came
 * @known:  is it in a call?
 * @gaps:   up to now that it has not missed
 * @chosen: records of the call count
 * @time:   of the last move
 */
struct syscall_caller {
    unsigned number;
    bool known;
    bool chosen;
    uint64_t gaps;
    uint64_t time;
    struct syscall_time now;
};

/* @process is the task that ran last, and @thread what it is in. */
struct cpu_caller {
    struct syscall_caller own;
    const struct process *process;
    struct syscall_caller *thread;
};

struct syscall_times {
    struct syscall_times_options options;
    struct cpu_caller cpus[BTRAIL_MAX_VCPUS];
    GHashTable *threads;        /* pid and tid -> struct syscall_caller */
    uint64_t gaps;
    struct closest closest;
};

struct syscall_times *
syscall_times_new(const struct syscall_times_options *options)
{
    struct syscall_times *s = g_new0(struct syscall_times, 1);

    s->options = *options;
    s->threads = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                       g_free, g_free);
    s->closest = closest_to(options->name ?: "");
    return s;
}

void syscall_times_free(struct syscall_times *s)
{
    g_hash_table_unref(s->threads);
    g_free(s);
}

/* The caller at a node */
static struct syscall_caller *caller_at(struct syscall_times *s, unsigned vcpu,
                                        const struct stack_node *n)
{
    struct cpu_caller *cpu = &s->cpus[vcpu];
    const struct process *p = n->process;
    uint64_t key[2] = { (uint64_t)p->nested << 32 | (uint32_t)p->pid, p->tid };

    if (p->owner == p || p->tid <= 0) {
        /* The thread before can go on elsewhere. */
        cpu->process = NULL;
        cpu->thread = NULL;
        return &cpu->own;
    }
    if (cpu->process == p) {
        return cpu->thread;
    }
    cpu->process = p;
    cpu->thread = g_hash_table_lookup(s->threads, key);
    if (!cpu->thread) {
        cpu->thread = g_new0(struct syscall_caller, 1);
        cpu->thread->number = g_hash_table_size(s->threads);
        cpu->thread->gaps = s->gaps;
        g_hash_table_insert(s->threads, g_memdup2(key, sizeof(key)),
                            cpu->thread);
    }
    return cpu->thread;
}

/* The system call that a node is in: the first one since user mode */
static const struct function *syscall_at(const struct stack_node *n)
{
    const struct function *found = NULL;

    for (; n->function && n->function->module->kernel; n = n->parent) {
        found = n->function->syscall ? n->function : found;
    }
    return found;
}

static void end_call(struct syscall_times *s, struct syscall_caller *c,
                     uint64_t time,
                     bool cut)
{
    c->now.end = time;
    c->now.cut = cut;
    if (c->now.function && c->chosen &&
        time - c->now.begin >= s->options.shortest &&
        (!s->options.name ||
         !strcmp(s->options.name, c->now.function->syscall))) {
        s->options.ended(s->options.opaque, &c->now);
    }
    c->now.function = NULL;
}

static void begin_call(struct syscall_times *s, struct syscall_caller *c,
                       const struct syscall_time *call)
{
    if (s->options.name) {
        closest_offer(&s->closest, call->function->syscall);
    }
    c->now = *call;
    c->chosen = false;
}

/* Can a move not change the system call that a task is in? */
static bool stays(const struct stack_node *from, const struct stack_node *to)
{
    return from && ((to->parent == from && !to->function->syscall) ||
                    (from->parent == to && !from->function->syscall));
}

/* Records are missing.  Threads that other vCPUs run have not made them. */
static void on_gap(void *opaque, unsigned vcpu)
{
    struct syscall_times *s = opaque;

    s->gaps++;
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        struct cpu_caller *cpu = &s->cpus[i];

        if (i != vcpu && cpu->thread) {
            cpu->thread->gaps = s->gaps;
        }
    }
    end_call(s, &s->cpus[vcpu].own, s->cpus[vcpu].own.time, true);
    s->cpus[vcpu].own.known = false;
    s->cpus[vcpu].process = NULL;
    s->cpus[vcpu].thread = NULL;
}

static void on_moved(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *from,
                     const struct stack_node *to)
{
    struct syscall_times *s = opaque;
    struct syscall_caller *own = &s->cpus[vcpu].own, *c;
    struct syscall_time call = { .begin = time, .vcpu = vcpu };

    if (!time || !to || stays(from, to)) {
        return;
    }
    c = caller_at(s, vcpu, to);
    if (c != own) {
        end_call(s, own, MAX(time, own->time), true);
        own->known = false;
    }
    if (c != own && c->gaps != s->gaps) {
        /* It may have returned since, and called again. */
        end_call(s, c, c->time, true);
        c->gaps = s->gaps;
        from = NULL;
    }
    /* Two vCPUs can run a thread in another order than their clocks say. */
    c->time = call.begin = time = MAX(time, c->time);
    c->known = true;
    call.process = to->process;
    call.function = syscall_at(to);
    if (call.function == c->now.function) {
        return;
    }
    call.late = !from || to->function != call.function ||
                from->process != to->process;
    end_call(s, c, time, c == own && from && from->process != to->process);
    if (call.function) {
        begin_call(s, c, &call);
    }
}

/* Records count, and so does the call that they are in. */
static void on_spent(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *node, uint64_t records)
{
    struct syscall_caller *c = caller_at(opaque, vcpu, node);

    if (!c->known) {
        on_moved(opaque, vcpu, time, NULL, node);
    }
    c->time = MAX(c->time, time);
    c->chosen = true;
}

/* Nodes are not kept. */
const struct call_tree_ops syscall_times_tree_ops = {
    on_moved, on_spent, on_gap,
};

static gint by_number(gconstpointer a, gconstpointer b)
{
    const struct syscall_caller *x = a, *y = b;

    return BTRAIL_COMPARE(x->number, y->number);
}

/* The last time that the trace knows of */
static uint64_t last_time(const struct btrail_trace *trace,
                          const struct window *window)
{
    struct btrail_stream_info info;
    uint64_t time = 0;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        time = MAX(time, info.last_time);
    }
    return window->end == UINT64_MAX ? time :
           MIN(time, window->start + window->end);
}

void syscall_times_end(struct syscall_times *s,
                       const struct btrail_trace *trace,
                       const struct window *window)
{
    g_autoptr(GList) all = g_list_sort(g_hash_table_get_values(s->threads),
                                       by_number);
    uint64_t last = last_time(trace, window);

    for (GList *l = all; l; l = l->next) {
        struct syscall_caller *c = l->data;

        end_call(s, c, c->gaps == s->gaps ? MAX(c->time, last) : c->time, true);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        end_call(s, &s->cpus[i].own, s->cpus[i].own.time, true);
    }
}

const struct closest *
syscall_times_closest(const struct syscall_times *s)
{
    return &s->closest;
}
