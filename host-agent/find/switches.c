/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest's kernel switches to another task: see switches.h
 */

#include <string.h>

#include "find/switches.h"
#include "lib/agent/thread.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/**
 * struct switch_lane - a vCPU
 * @task:  that runs
 * @found: @next is the next one
 */
struct switch_lane {
    struct btrail_cursor *cursor;
    unsigned vcpu;
    uint64_t begin;
    uint64_t end;
    struct btrail_task task;
    bool found;
    bool ended;
    struct task_switch next;
};

struct switches {
    char *process;
    bool named;                 /* the trace names tasks */
    struct switch_lane *lanes;
    unsigned n;
};

static bool library_failed(GError **error, int ret)
{
    return fail(error, "the trace: %s", btrail_strerror(ret));
}

struct switches *switches_new(const struct btrail_trace *trace,
                              const char *process, GError **error)
{
    struct switches *s = g_new0(struct switches, 1);
    struct btrail_stream_info info;

    s->process = g_strdup(process);
    s->lanes = g_new0(struct switch_lane, btrail_trace_streams(trace) + 1);
    while (!btrail_trace_stream(trace, s->n, &info)) {
        struct switch_lane *lane = &s->lanes[s->n++];
        int ret = btrail_cursor_open(&lane->cursor, trace, info.vcpu,
                                     BTRAIL_CURSOR_EVENTS_ONLY);

        lane->vcpu = info.vcpu;
        lane->end = UINT64_MAX;
        if (ret) {
            library_failed(error, ret);
            switches_free(s);
            return NULL;
        }
    }
    return s;
}

void switches_free(struct switches *s)
{
    if (s) {
        for (unsigned i = 0; i < s->n; i++) {
            btrail_cursor_close(s->lanes[i].cursor);
        }
        g_free(s->lanes);
        g_free(s->process);
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

static void note_task(struct switches *s, struct switch_lane *lane,
                      const struct btrail_batch *b)
{
    struct btrail_task task;
    uint64_t index = b->index ? b->index - 1 : 0;

    btrail_event_task(b->event, &task);
    task.nested = b->task.nested;
    s->named |= task.known;
    if (is_switch(lane, &task) && index >= lane->begin && index < lane->end &&
        (!s->process || !strcmp(task.name, s->process))) {
        lane->next = (struct task_switch) {
            .at = {
                .vcpu = lane->vcpu, .index = index, .icount = b->time.icount,
                .time = b->time, .task = task,
            },
            .from = lane->task,
        };
        lane->found = true;
    }
    lane->task = task;
}

/* Reads on to the next switch of a vCPU. */
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
            lane->task = (struct btrail_task) { .known = false };
        } else if (b.event->type == BTRAIL_EVENT_TASK) {
            note_task(s, lane, &b);
        } else if (b.ended) {
            lane->task = (struct btrail_task) { .known = false };
        } else if (b.event->type == BTRAIL_EVENT_KERNEL && !b.kernel.nested &&
                   b.kernel.known && !b.kernel.number) {
            lane->task = (struct btrail_task) { .known = false };
        }
        lane->ended |= b.index > lane->end;
    }
    return true;
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
        if (lane->found &&
            (!first || moment_compare(&lane->next.at, &first->next.at) < 0)) {
            first = lane;
        }
    }
    if (!first) {
        return s->named ? false :
               agent_fail(error, AGENT_ERROR_NAMES,
                          "the trace names no tasks, so it does not "
                          "show where they are switched");
    }
    *found = first->next;
    first->found = false;
    return true;
}
