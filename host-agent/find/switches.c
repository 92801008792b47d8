/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest's kernel switches to another task, or wakes one: see
 * switches.h
 */

#include <string.h>

#include "find/clock-order.h"
#include "find/switches.h"
#include "lib/agent/thread.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)
#define fail_names(error, ...) \
    agent_fail(error, AGENT_ERROR_NAMES, __VA_ARGS__)

/**
 * struct switch_lane - a vCPU
 * @task:  that runs
 * @lost:  it is not known because records are missing
 * @found: @next is the next one
 */
struct switch_lane {
    struct btrail_cursor *cursor;
    unsigned vcpu;
    uint64_t begin;
    uint64_t end;
    struct btrail_task task;
    bool lost;
    bool found;
    bool ended;
    struct task_switch next;
};

/**
 * struct switches
 * @order:   of moments of several vCPUs
 * @names:   NULL if they are not needed
 * @named:   the trace names tasks
 * @any:     one was found
 * @unknown: see switches_unknown()
 */
struct switches {
    const struct btrail_trace *trace;
    struct switches_wanted wanted;
    char *from;
    char *to;
    struct clock_order *order;
    struct task_names *names;
    bool named;
    bool any;
    uint64_t unknown;
    struct switch_lane *lanes;
    unsigned n;
};

static bool library_failed(GError **error, int ret)
{
    return fail(error, "the trace: %s", btrail_strerror(ret));
}

static bool open_lanes(struct switches *s, GError **error)
{
    struct btrail_stream_info info;

    s->lanes = g_new0(struct switch_lane, btrail_trace_streams(s->trace) + 1);
    while (!btrail_trace_stream(s->trace, s->n, &info)) {
        struct switch_lane *lane = &s->lanes[s->n++];
        int ret = btrail_cursor_open(&lane->cursor, s->trace, info.vcpu,
                                     BTRAIL_CURSOR_EVENTS_ONLY);

        lane->vcpu = info.vcpu;
        lane->end = UINT64_MAX;
        if (ret) {
            return library_failed(error, ret);
        }
    }
    return true;
}

/* Reads what the trace says of tasks, if that is asked for. */
static bool read_names(struct switches *s, GError **error)
{
    const struct switches_wanted *w = &s->wanted;

    if (!w->wakes && !w->why) {
        return true;
    }
    s->names = task_names_new(s->trace, 0, error);
    if (!s->names) {
        return false;
    }
    if (w->wakes && !s->names->wakes) {
        return fail_names(error, "the trace does not say who is woken: it has "
                          "no WAKE events");
    }
    return w->wakes || s->names->lefts ||
           fail_names(error, "the trace does not say why tasks leave their "
                      "vCPU");
}

struct switches *switches_new(const struct btrail_trace *trace,
                              const struct switches_wanted *wanted,
                              GError **error)
{
    struct switches *s = g_new0(struct switches, 1);

    s->trace = trace;
    s->order = clock_order_of(trace);
    s->wanted = *wanted;
    s->wanted.from = s->from = g_strdup(wanted->from);
    s->wanted.to = s->to = g_strdup(wanted->to);
    if (!open_lanes(s, error) || !read_names(s, error)) {
        switches_free(s);
        return NULL;
    }
    return s;
}

void switches_free(struct switches *s)
{
    if (s) {
        for (unsigned i = 0; i < s->n; i++) {
            btrail_cursor_close(s->lanes[i].cursor);
        }
        task_names_free(s->names);
        clock_order_free(s->order);
        g_free(s->lanes);
        g_free(s->from);
        g_free(s->to);
        g_free(s);
    }
}

void switches_limit(struct switches *s, unsigned vcpu, uint64_t begin,
                    uint64_t end)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (s->lanes[i].vcpu == vcpu) {
            s->lanes[i].begin = begin;
            s->lanes[i].end = end;
        }
    }
}

/* Each chunk repeats the task that runs, and a name can change. */
static bool is_switch(const struct switch_lane *lane,
                      const struct btrail_task *to)
{
    return to->known && (!lane->task.known ||
                         btrail_thread(&lane->task) != btrail_thread(to) ||
                         lane->task.pid != to->pid);
}

/* Whether something is as it is wanted, or nobody knows */
enum answer {
    NO,
    UNKNOWN,
    YES,
};

static enum answer is_task(const char *wanted, const struct btrail_task *task)
{
    return !wanted ? YES : !task->known ? UNKNOWN :
           task_names_means(wanted, task->name, task->pid, task->tid) ? YES :
           NO;
}

static enum answer is_why(enum switch_why why, const struct btrail_left *left)
{
    bool blocked = !left->runnable && !left->dead;

    return why == SWITCH_ANY ? YES : !left->known ? UNKNOWN :
           (why == SWITCH_DEAD ? left->dead :
            why == SWITCH_PREEMPTED ? left->runnable : blocked) ? YES : NO;
}

static enum answer is_woken(const struct switches *s,
                            const struct task_switch *found)
{
    const struct btrail_wake *woken = &found->woken;

    if (!s->wanted.to) {
        return YES;
    }
    if (woken->known && task_names_means(s->wanted.to, found->name, woken->pid,
                                         woken->tid)) {
        return YES;
    }
    return woken->known && *found->name ? NO : UNKNOWN;
}

/* Takes what a lane has found, if it is wanted. */
static void take(struct switches *s, struct switch_lane *lane,
                 const struct task_switch *found, enum answer answer)
{
    const uint64_t index = found->at.index;

    if (answer != NO && index >= lane->begin && index < lane->end) {
        lane->next = *found;
        lane->found = answer == YES;
        s->unknown += answer == UNKNOWN;
    }
}

static struct moment moment_at(const struct switch_lane *lane,
                               const struct btrail_batch *b)
{
    return (struct moment) {
        .vcpu = lane->vcpu, .index = b->index ? b->index - 1 : 0,
        .icount = b->time.icount, .time = b->time, .kernel = b->kernel,
        /* Before the first record, it is not when that is over. */
        .clock = b->index ? 0 : b->time.host,
    };
}

static void note_task(struct switches *s, struct switch_lane *lane,
                      const struct btrail_batch *b)
{
    struct task_switch found = {
        .at = moment_at(lane, b), .from = lane->task,
    };
    struct btrail_task *task = &found.at.task;
    enum answer answers[] = { NO, NO, NO };

    btrail_event_task(b->event, task);
    btrail_event_left(b->event, &found.left);
    task->nested = b->task.nested;
    s->named |= task->known;
    if (!s->wanted.wakes && is_switch(lane, task)) {
        answers[0] = is_task(s->wanted.to, task);
        /* Where a vCPU begins, nobody leaves it. */
        answers[1] = s->wanted.from && !lane->task.known && !lane->lost ? NO :
                     is_task(s->wanted.from, &lane->task);
        answers[2] = is_why(s->wanted.why, &found.left);
        if (s->wanted.why && !lane->task.known && !lane->lost) {
            answers[2] = NO;
        }
        take(s, lane, &found, MIN(MIN(answers[0], answers[1]), answers[2]));
    }
    lane->task = *task;
    lane->lost = false;
}

static void note_wake(struct switches *s, struct switch_lane *lane,
                      const struct btrail_batch *b)
{
    struct task_switch found = { .at = moment_at(lane, b) };
    const char *name = NULL;

    found.at.task = lane->task;
    btrail_event_wake(b->event, &found.woken);
    if (found.woken.known && !b->kernel.nested) {
        name = task_names_at(s->names, b->kernel.known ? b->kernel.number : 0,
                             found.woken.pid, found.woken.tid, b->time.host);
    }
    g_strlcpy(found.name, name ?: "", sizeof(found.name));
    take(s, lane, &found, MIN(is_woken(s, &found),
                              is_task(s->wanted.from, &lane->task)));
}

static void forget(struct switch_lane *lane)
{
    lane->lost |= lane->task.known;
    lane->task = (struct btrail_task) { .known = false };
}

/* Reads on to the next one of a vCPU. */
static bool advance(struct switches *s, struct switch_lane *lane,
                    GError **error)
{
    struct btrail_batch b;
    int ret;

    while (!lane->found && !lane->ended) {
        ret = btrail_cursor_next(lane->cursor, &b);
        if (ret) {
            lane->ended = true;
            return ret == -BTRAIL_ERR_END || library_failed(error, ret);
        }
        if (b.event->type == BTRAIL_EVENT_GAP) {
            forget(lane);
        } else if (b.event->type == BTRAIL_EVENT_TASK) {
            note_task(s, lane, &b);
        } else if (b.event->type == BTRAIL_EVENT_WAKE && s->wanted.wakes) {
            note_wake(s, lane, &b);
        } else if (b.ended) {
            forget(lane);
        } else if (b.event->type == BTRAIL_EVENT_KERNEL && !b.kernel.nested &&
                   b.kernel.known && !b.kernel.number) {
            forget(lane);
        }
        lane->ended |= b.index > lane->end;
    }
    return true;
}

/* Says why there is none at all, if that is not because it did not happen. */
static bool check_names(struct switches *s, GError **error)
{
    const struct switches_wanted *w = &s->wanted;

    if (!s->named) {
        return fail_names(error, "the trace names no tasks, so it does not "
                          "show where they are switched");
    }
    if (!s->names && (w->from || w->to)) {
        s->names = task_names_new(s->trace, 0, error);
    }
    return (!w->from && !w->to) ||
           (s->names && (!w->to || task_names_check(s->names, w->to, error)) &&
            (!w->from || task_names_check(s->names, w->from, error)));
}

bool switches_next(struct switches *s, struct task_switch *found,
                   GError **error)
{
    struct switch_lane *first = NULL;

    for (unsigned i = 0; i < s->n; i++) {
        struct switch_lane *lane = &s->lanes[i];

        if (!advance(s, lane, error)) {
            return false;
        }
        if (lane->found && s->n > 1) {
            clock_order_stamp(s->order, &lane->next.at);
        }
        if (lane->found &&
            (!first || moment_compare(&lane->next.at, &first->next.at) < 0)) {
            first = lane;
        }
    }
    if (!first) {
        if (!s->any) {
            check_names(s, error);
        }
        return false;
    }
    *found = first->next;
    first->found = false;
    s->any = true;
    return true;
}

uint64_t switches_unknown(const struct switches *s)
{
    return s->unknown;
}
