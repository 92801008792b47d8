/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls as they began and ended: see syscall-times.h
 */

#include <string.h>

#include "analyze/cpu-threads.h"
#include "analyze/off-cpu.h"
#include "analyze/syscall-times.h"

/*
 * What a thread or a vCPU is in: a call if @now.function is not NULL
 *
 * @of:     if it is a thread
 * @known:  is it in a call?
 * @chosen: records of the call count
 * @time:   of the last move
 * @use:    what it waits, if that is asked for; NULL for a vCPU
 */
struct syscall_caller {
    struct cpu_thread of;
    bool known;
    bool chosen;
    uint64_t time;
    struct cpu_use_thread *use;
    struct syscall_time now;
};

struct syscall_times {
    struct syscall_times_options options;
    struct syscall_caller own[BTRAIL_MAX_VCPUS];        /* vCPUs */
    struct cpu_threads *threads;        /* of struct syscall_caller */
    struct closest closest;
};

struct syscall_times *
syscall_times_new(const struct syscall_times_options *options)
{
    struct syscall_times *s = g_new0(struct syscall_times, 1);

    s->options = *options;
    s->threads = cpu_threads_new(sizeof(struct syscall_caller), NULL);
    cpu_threads_set_pauses(s->threads, options->pauses);
    s->closest = closest_to(options->name ?: "");
    return s;
}

void syscall_times_free(struct syscall_times *s)
{
    cpu_threads_free(s->threads);
    g_free(s);
}

/* The caller at a node */
static struct syscall_caller *caller_at(struct syscall_times *s, unsigned vcpu,
                                        uint64_t time,
                                        const struct stack_node *n)
{
    struct syscall_caller *c = cpu_threads_run(s->threads, vcpu, time,
                                               n->process);

    if (c && s->options.use && !c->use) {
        c->use = cpu_use_thread(s->options.use, n->process);
    }
    return c ?: &s->own[vcpu];
}

/* The system call that a node is in: the first one since user mode.  That of a
 * thread that has ended is over. */
static const struct function *syscall_at(const struct stack_node *n)
{
    const struct function *found = NULL;

    for (; n->function && n->function->module->kernel; n = n->parent) {
        if (off_cpu_ends_in(n->function)) {
            return NULL;
        }
        found = n->function->syscall ? n->function : found;
    }
    return found;
}

/* How long the call that a caller is in was paused up to its end */
static uint64_t paused_in(const struct syscall_times *s,
                          const struct syscall_caller *c)
{
    const struct pauses *p = s->options.pauses;
    const struct syscall_time *now = &c->now;
    bool vcpu = c >= s->own && c < s->own + BTRAIL_MAX_VCPUS;
    uint64_t alone;

    if (!p) {
        return 0;
    }
    alone = vcpu ? pauses_vcpu_alone(p, c - s->own, now->begin, now->end) :
            c->of.paused - now->paused;
    return MIN(now->end - now->begin,
               alone + pauses_whole_guest(p, now->begin, now->end));
}

static void end_call(struct syscall_times *s, struct syscall_caller *c,
                     uint64_t time, bool cut)
{
    c->now.end = time;
    c->now.cut = cut;
    c->now.paused = paused_in(s, c);
    if (c->now.function && c->chosen &&
        time - c->now.begin >= s->options.shortest &&
        (!s->options.name ||
         !strcmp(s->options.name, c->now.function->syscall))) {
        s->options.ended(s->options.opaque, &c->now);
    }
    c->now.function = NULL;
}

/* Is it a thread that can have made records that are missing? */
static bool has_lost(const struct syscall_times *s, unsigned vcpu,
                     const struct syscall_caller *c)
{
    return c != &s->own[vcpu] && cpu_threads_lost(s->threads, c);
}

/* Up to when a thread with missing records certainly was in its call */
static uint64_t known_until(const struct syscall_times *s,
                            const struct syscall_caller *c)
{
    return MAX(c->now.begin,
               MIN(c->time, cpu_threads_lost_since(s->threads, c)));
}

static void begin_call(struct syscall_times *s, struct syscall_caller *c,
                       const struct syscall_time *call)
{
    if (s->options.name) {
        closest_offer(&s->closest, call->function->syscall);
    }
    c->now = *call;
    /* Up to now, for paused_in() */
    c->now.paused = c->of.paused;
    c->now.use = c->use;
    c->now.waited = cpu_use_mark(c->use);
    c->chosen = false;
}

/* Can a move not change the system call that a task is in? */
static bool stays(const struct stack_node *from, const struct stack_node *to)
{
    return from && ((to->parent == from && !to->function->syscall &&
                     !off_cpu_ends_in(to->function)) ||
                    (from->parent == to && !from->function->syscall));
}

static void on_gap(void *opaque, unsigned vcpu)
{
    struct syscall_times *s = opaque;
    struct syscall_caller *own = &s->own[vcpu];

    cpu_threads_gap(s->threads, vcpu);
    if (s->options.use) {
        cpu_use_gap(s->options.use, vcpu);
    }
    end_call(s, own, own->time, true);
    own->known = false;
}

static void on_moved(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct syscall_times *s = opaque;
    struct syscall_caller *own = &s->own[vcpu], *c;
    struct syscall_time call = { .begin = time, .vcpu = vcpu };

    cpu_threads_time(s->threads, vcpu, time);
    if (!time || !to) {
        return;
    }
    c = caller_at(s, vcpu, time, to);
    if (stays(from, to) && !has_lost(s, vcpu, c)) {
        return;
    }
    if (c != own) {
        end_call(s, own, MAX(time, own->time), true);
        own->known = false;
    }
    if (has_lost(s, vcpu, c)) {
        /* It may have returned since, and called again. */
        end_call(s, c, known_until(s, c), true);
        cpu_threads_found(s->threads, c);
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
                     const struct stack_node *node, uint64_t stack,
                     uint64_t records)
{
    struct syscall_times *s = opaque;
    struct syscall_caller *c = caller_at(s, vcpu, time, node);

    cpu_threads_time(s->threads, vcpu, time);
    if (!c->known || has_lost(s, vcpu, c)) {
        on_moved(opaque, vcpu, time, NULL, node, stack);
    }
    c->time = MAX(c->time, time);
    c->chosen = true;
}

static void on_runs(void *opaque, unsigned vcpu, const struct process *process,
                    uint64_t since, uint64_t until)
{
    struct syscall_times *s = opaque;

    if (s->options.use) {
        cpu_use_runs(s->options.use, vcpu, process, since, until);
    }
}

/* Nodes are not kept. */
const struct call_tree_ops syscall_times_tree_ops = {
    .moved = on_moved, .spent = on_spent, .gap = on_gap, .runs = on_runs,
};

/* Does a thread end in the call? */
static bool ends_thread(const struct function *f)
{
    return f && (!strcmp(f->syscall, "exit") ||
                 !strcmp(f->syscall, "exit_group"));
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
    g_autoptr(GList) all = cpu_threads_all(s->threads);
    uint64_t last = last_time(trace, window);

    cpu_threads_end(s->threads, last);
    for (const GList *l = all; l; l = l->next) {
        struct syscall_caller *c = l->data;

        end_call(s, c, cpu_threads_lost(s->threads, c) ? known_until(s, c) :
                 ends_thread(c->now.function) ? c->time :
                 MAX(c->time, last), true);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        end_call(s, &s->own[i], s->own[i].time, true);
    }
}

const struct closest *
syscall_times_closest(const struct syscall_times *s)
{
    return &s->closest;
}
