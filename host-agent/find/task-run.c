/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task continues: see task-run.h
 */

#include <glib.h>

#include "find/task-run.h"
#include "lib/agent/thread.h"

/* Events of a vCPU that are read for one run */
#define MAX_EVENTS  (1u << 20)

/* More than the time between two TIME events */
#define MARGIN      UINT64_C(100000000)

/* The time of the next TIME event; UINT64_MAX if there is none */
static uint64_t next_time(struct btrail_cursor *cursor)
{
    struct btrail_batch b;

    while (!btrail_cursor_next(cursor, &b)) {
        if (b.event->type == BTRAIL_EVENT_TIME) {
            return b.time.host;
        }
    }
    return UINT64_MAX;
}

static bool starts(const struct btrail_batch *b, uint64_t thread)
{
    return b->event->type == BTRAIL_EVENT_TASK && b->task.known &&
           btrail_thread(&b->task) == thread;
}

static struct btrail_cursor *open_events(const struct btrail_trace *trace,
                                         unsigned vcpu)
{
    struct btrail_cursor *cursor;

    return btrail_cursor_open(&cursor, trace, vcpu,
                              BTRAIL_CURSOR_EVENTS_ONLY) ? NULL : cursor;
}

bool task_run_at(const struct btrail_trace *trace, unsigned vcpu,
                 const struct btrail_batch *b, struct task_run *run)
{
    struct btrail_cursor *cursor = open_events(trace, vcpu);
    bool ok = cursor && !btrail_cursor_seek(cursor, b->index + 1);

    if (ok) {
        *run = (struct task_run) {
            vcpu, b->index, b->time.host, next_time(cursor),
        };
    }
    btrail_cursor_close(cursor);
    return ok;
}

/**
 * struct task_search
 * @run:   the task's last run
 * @next:  the first run that was found
 * @found: there is one
 * @sure:  no other one can be the first
 * @known_until: events after this time are missing
 */
struct task_search {
    uint64_t thread;
    const struct task_run *run;
    struct task_run *next;
    bool found;
    bool sure;
    uint64_t known_until;
};

/* A run that begins on a vCPU; false if it was before the task's last one. */
static bool take_run(struct task_search *s, const struct task_run *run)
{
    bool own = run->vcpu == s->run->vcpu;

    if (!own && run->before <= s->run->after) {
        return false;
    }
    /* A task runs on one vCPU at a time. */
    s->sure &= own || run->after >= s->run->before;
    if (s->found) {
        s->sure &= run->before <= s->next->after ||
                   s->next->before <= run->after;
    }
    if (!s->found || run->before <= s->next->after) {
        *s->next = *run;
    }
    s->found = true;
    return true;
}

/* Searches a vCPU for the first run. */
static void search_vcpu(struct task_search *s, struct btrail_cursor *cursor,
                        unsigned vcpu)
{
    struct btrail_batch b;

    for (unsigned i = 0; i < MAX_EVENTS; i++) {
        int ret = btrail_cursor_next(cursor, &b);

        if (ret) {
            s->sure &= ret == -BTRAIL_ERR_END;
            return;
        }
        if (s->found && b.time.host >= s->next->before) {
            return;
        }
        if (b.event->type == BTRAIL_EVENT_GAP) {
            break;
        }
        if (starts(&b, s->thread)) {
            struct task_run run = { vcpu, b.index, b.time.host };

            run.before = next_time(cursor);
            if (take_run(s, &run)) {
                return;
            }
        }
    }
    s->known_until = MIN(s->known_until, b.time.host);
}

bool task_run_next(const struct btrail_trace *trace, uint64_t thread,
                   const struct task_run *run, uint64_t left,
                   struct task_run *next)
{
    struct task_search s = {
        .thread = thread, .run = run, .next = next, .sure = (uint32_t)thread,
        .known_until = UINT64_MAX,
    };
    struct btrail_stream_info info;

    for (unsigned i = 0; s.sure && !btrail_trace_stream(trace, i, &info);
         i++) {
        struct btrail_cursor *cursor = open_events(trace, info.vcpu);
        int ret = -BTRAIL_ERR_MEMORY;

        if (cursor && info.vcpu == run->vcpu) {
            ret = btrail_cursor_seek(cursor, left);
        } else if (cursor) {
            ret = btrail_cursor_seek_time(cursor, run->after -
                                          MIN(run->after, MARGIN));
        }
        s.sure &= !ret;
        if (s.sure) {
            search_vcpu(&s, cursor, info.vcpu);
        }
        btrail_cursor_close(cursor);
    }
    return s.found && s.sure && next->before <= s.known_until;
}
