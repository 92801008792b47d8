/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stack at a moment: see backtrace.h
 */

#include <string.h>

#include "find/backtrace.h"
#include "lib/agent/batch.h"

/*
 * Records before a moment that are followed, and by what factor more each
 * time
 */
#define FEWEST      BACKTRACE_FEWEST
#define TIMES       16
#define MOST        (1u << 19)

/* So many records on are read rather than sought. */
#define NEAR        (1u << 22)

/* Records that are followed at a time */
#define STEP        4096

struct backtraces {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct stack_edges *edges;
    const struct stack_edge *found[STEP];
    struct stack_run runs[STEP];
    struct btrail_cursor *cursor;
    struct btrail_batch batch;  /* the last one of it, if that has records */
    struct stacks *stacks;      /* after the last moment; or NULL */
    uint64_t followed;          /* the record that it is after */
    unsigned vcpu;
    uint64_t most;
    bool goes_on;
    struct backtrace trace_back;
};

struct backtraces *backtraces_new(const struct btrail_trace *trace,
                                  struct symbolizer *symbols)
{
    struct backtraces *b = g_new0(struct backtraces, 1);

    b->trace = trace;
    b->symbols = symbols;
    b->edges = stack_edges_new(symbols, 0);
    b->most = MOST;
    b->trace_back.calls = g_array_new(FALSE, FALSE,
                                      sizeof(struct stack_call));
    return b;
}

void backtraces_free(struct backtraces *b)
{
    if (b) {
        btrail_cursor_close(b->cursor);
        stacks_free(b->stacks);
        stack_edges_free(b->edges);
        g_array_unref(b->trace_back.calls);
        g_free(b);
    }
}

void backtraces_limit(struct backtraces *b, uint64_t records)
{
    b->most = MIN(records, MOST);
    b->goes_on = true;
}

/* Does a thread begin here? */
static bool is_bottom(const struct function *f)
{
    static const char *const names[] = {
        "_start", "_dl_start_user", "start_thread", "clone", "clone3",
        "__clone", "__clone3", "ret_from_fork", "ret_from_fork_asm",
        "secondary_startup_64", "secondary_startup_64_no_verify",
        "start_secondary", "x86_64_start_kernel", "startup_64",
        "common_startup_64", NULL,
    };

    return f->known && g_strv_contains(names, f->name);
}

/*
 * Is it known how the kernel was entered?  More records would only show what
 * the program was in.
 */
static bool has_entry(const struct backtrace *found)
{
    for (unsigned i = 0; i < found->calls->len; i++) {
        const struct stack_call *c = &g_array_index(found->calls,
                                                    struct stack_call, i);

        if (c->entry && c->from < ADDRESS_SHARED) {
            return true;
        }
    }
    return false;
}

/* Follows the records of a batch up to the moment.  True if that is reached. */
static bool follow(struct backtraces *b, struct stacks *st,
                   const struct moment *at, const struct btrail_batch *batch)
{
    struct btrail_batch step, part, left =
        btrail_batch_part(batch, 0, MIN(batch->count,
                                        at->index + 1 - batch->index));
    struct stack_part add = { .vcpu = at->vcpu };

    while (left.count) {
        step = btrail_batch_take(&left, MIN(left.count, STEP));
        part.count = 0;
        if (stack_edges_many(b->edges)) {
            stack_edges_reset(b->edges);
        }
        stacks_begin(st);
        while (symbolizer_part(b->symbols, at->vcpu, &step, &part,
                               &add.task)) {
            add.first = part.index - step.index;
            add.n = part.count;
            add.edges = b->found;
            add.runs = b->runs;
            stack_edges_get_all(b->edges, add.task.process, &add.task.where,
                                part.records, part.count, b->found, b->runs);
            stacks_add(st, &add);
            b->trace_back.process = add.task.process;
        }
    }
    return left.index > at->index;
}

static void take_calls(struct backtraces *b, const struct stacks *st,
                       const struct moment *at)
{
    struct backtrace *found = &b->trace_back;
    unsigned n = stacks_calls(st, at->vcpu, NULL, 0);
    const struct stack_call *calls;

    g_array_set_size(found->calls, n);
    calls = (const struct stack_call *)found->calls->data;
    stacks_calls(st, at->vcpu, (struct stack_call *)found->calls->data, n);
    found->whole = n && is_bottom(calls[n - 1].function);
}

/* Has the next batch be one from a record on.  To read on is quicker than to
 * seek, which decodes from the begin of a chunk on. */
static bool go_to(struct backtraces *b, uint64_t since)
{
    if (!b->batch.count || b->batch.index > since ||
        since - b->batch.index > NEAR) {
        b->batch.count = 0;
        return !btrail_cursor_seek(b->cursor, since);
    }
    while (b->batch.index + b->batch.count <= since) {
        do {
            if (btrail_cursor_next(b->cursor, &b->batch)) {
                b->batch.count = 0;
                return false;
            }
            if (b->batch.event && b->batch.event->type == BTRAIL_EVENT_GAP) {
                /* Nothing is near. */
                b->batch.count = 0;
                return !btrail_cursor_seek(b->cursor, since);
            }
        } while (!b->batch.count);
    }
    return true;
}

/* The next batch after go_to() */
static bool next_batch(struct backtraces *b, uint64_t since, bool *first,
                       struct btrail_batch *batch)
{
    if (*first && b->batch.count) {
        size_t before = since > b->batch.index ? since - b->batch.index : 0;

        *batch = btrail_batch_part(&b->batch, before,
                                   b->batch.count - before);
    } else {
        if (btrail_cursor_next(b->cursor, &b->batch)) {
            b->batch.count = 0;
            return false;
        }
        *batch = b->batch;
    }
    *first = false;
    return true;
}

/* Follows records from @since on up to the moment, with the stacks that there
 * are. */
static bool follow_to(struct backtraces *b, const struct moment *at,
                      uint64_t since)
{
    struct btrail_batch batch;
    bool done = false, first = true;

    if (!go_to(b, since)) {
        return false;
    }
    while (!done && next_batch(b, since, &first, &batch) &&
           batch.index <= at->index) {
        if (!batch.event) {
            done = follow(b, b->stacks, at, &batch);
        } else if (batch.event->type == BTRAIL_EVENT_GAP) {
            stacks_gap(b->stacks, at->vcpu);
            b->trace_back.since = batch.index;
        }
    }
    if (done) {
        b->followed = at->index;
        take_calls(b, b->stacks, at);
    } else {
        g_clear_pointer(&b->stacks, stacks_free);
    }
    return done;
}

/* The stack, as it is known from a record on */
static bool find_from(struct backtraces *b, const struct moment *at,
                      uint64_t since)
{
    g_clear_pointer(&b->stacks, stacks_free);
    b->stacks = stacks_new(&(struct stacks_options) { 0 });
    b->trace_back.since = since;
    return follow_to(b, at, since);
}

/* Follows on from the moment before, if that is near. */
static bool find_on(struct backtraces *b, const struct moment *at)
{
    return b->goes_on && b->stacks && at->index > b->followed &&
           at->index - b->followed <= FEWEST &&
           follow_to(b, at, b->followed + 1);
}

/* Does it say enough, or is there no more? */
static bool is_enough(const struct backtraces *b)
{
    return b->trace_back.whole || has_entry(&b->trace_back) ||
           !b->trace_back.since;
}

bool backtraces_at(struct backtraces *b, const struct moment *at,
                   const struct backtrace **found)
{
    uint64_t size = FEWEST;
    bool ok;

    if (!b->cursor || b->vcpu != at->vcpu) {
        btrail_cursor_close(b->cursor);
        b->cursor = NULL;
        b->batch.count = 0;
        g_clear_pointer(&b->stacks, stacks_free);
        b->vcpu = at->vcpu;
        if (btrail_cursor_open(&b->cursor, b->trace, at->vcpu, 0)) {
            return false;
        }
    }
    *found = &b->trace_back;
    if (find_on(b, at) && (is_enough(b) || b->most == FEWEST)) {
        return true;
    }
    do {
        ok = find_from(b, at, at->index - MIN(at->index, size));
        size *= TIMES;
    } while (ok && !is_enough(b) && size <= b->most);
    return ok;
}
