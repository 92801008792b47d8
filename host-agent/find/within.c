/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * While a vCPU was in a function: see within.h
 */

#include <string.h>

#include "find/place.h"
#include "find/visits.h"
#include "find/within.h"
#include "lib/agent/batch.h"
#include "lib/agent/thread.h"
#include "symbolize/stack.h"
#include "util/parse.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* Records that are followed at a time */
#define STEP    4096

/* Beyond this distance, a seek to a record takes no longer than reading on. */
#define FAR     (1u << 22)

/* Stays that are kept after the last one that was asked for */
#define KEEP    1024

/* From @begin to before @end, by clock_order_key() */
struct stay {
    uint64_t begin;
    uint64_t end;
};

/**
 * struct within
 * @followed: records up to here were followed
 * @stays:    of struct stay, in order: those of the last call, and some before
 * @stacks, @node: those of the call that is followed, and its node
 * @since:    when the vCPU got below that node; 0: it is not
 * @returned: the call is over
 * @batch:    what was followed last
 * @rest:     of what was read, what was not
 * @last:     clock_order_key() of its last record
 * @task, @cr3: that have made the call
 */
struct within {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    unsigned vcpu;
    struct find_target *wanted;
    struct visits *visits;
    struct clock_order *order;
    struct stack_edges *edges;
    const struct stack_edge *found[STEP];
    struct stack_run runs[STEP];
    struct btrail_cursor *cursor;
    bool ended;
    uint64_t followed;
    GArray *stays;
    struct stacks *stacks;
    const struct stack_node *node;
    uint64_t since;
    bool returned;
    struct btrail_batch batch;
    struct btrail_batch rest;
    uint64_t last;
    struct btrail_task task;
    uint64_t cr3;
};

bool within_parse(const char *text, unsigned *vcpu, char **process,
                  char **function, GError **error)
{
    const char *rest = text;
    uint64_t number;

    *process = *function = NULL;
    if (!g_str_has_prefix(rest, "cpu ") ||
        !parse_text_number(rest + 4, &rest, &number) ||
        number >= BTRAIL_MAX_VCPUS || !g_str_has_prefix(rest, ": in ") ||
        !find_place_split(rest + 5, process, function)) {
        return fail(error, "'%s' is not like 'cpu 0: in mutex_lock' or "
                    "'cpu 0: in PROCESS:FUNCTION'", text);
    }
    *vcpu = number;
    return true;
}

/* The moment after record @i of the batch that is followed */
static uint64_t key_behind(struct within *s, size_t i)
{
    const struct moment at = moment_behind(s->vcpu, &s->batch, i);

    return clock_order_key(s->order, &at);
}

static bool is_below(const struct within *s, const struct stack_node *node)
{
    while (node && node != s->node) {
        node = node->parent;
    }
    return node;
}

static void end_stay(struct within *s, uint64_t end)
{
    struct stay stay = { s->since, end };

    if (s->since && stay.begin < stay.end) {
        g_array_append_val(s->stays, stay);
    }
    s->since = 0;
}

/* Another task runs, if the trace names both, or a nested guest, or its own. */
static bool is_other(const struct within *s)
{
    if ((s->cr3 ^ s->batch.cr3) & BTRAIL_CR3_NESTED) {
        return true;
    }
    return s->task.known && s->batch.task.known &&
           (btrail_thread(&s->task) != btrail_thread(&s->batch.task) ||
            s->task.pid != s->batch.task.pid);
}

static void on_moved(void *opaque, unsigned vcpu, size_t record,
                     const struct stack_node *from,
                     const struct stack_node *to)
{
    struct within *s = opaque;
    bool below = is_below(s, to);

    if (!s->node || s->returned || below == !!s->since) {
        return;
    }
    /* Before the first record of a batch, the last one is that before it. */
    if (below) {
        s->since = key_behind(s, record == SIZE_MAX ? 0 : record);
    } else {
        end_stay(s, key_behind(s, record == SIZE_MAX ? 0 : record));
        s->returned = !is_other(s);
    }
}

struct within *within_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, unsigned vcpu,
                          const char *process, const char *function,
                          uint64_t tick, GError **error)
{
    struct within *s = g_new0(struct within, 1);
    struct btrail_stream_info info;
    int ret = btrail_cursor_open(&s->cursor, trace, vcpu, 0);

    s->trace = trace;
    s->symbols = symbols;
    s->vcpu = vcpu;
    s->stays = g_array_new(FALSE, FALSE, sizeof(struct stay));
    s->order = clock_order_new(trace, tick);
    s->edges = stack_edges_new(symbols, 0);
    if (ret) {
        fail(error, "the trace has no vCPU %u", vcpu);
    } else {
        s->wanted = find_target_function(trace, symbols, process, function,
                                         error);
    }
    if (s->wanted) {
        s->visits = visits_new(trace, symbols, s->wanted, error);
    }
    if (!s->visits) {
        within_free(s);
        return NULL;
    }
    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (info.vcpu != vcpu) {
            visits_limit(s->visits, info.vcpu, 0, 0);
        }
    }
    return s;
}

void within_free(struct within *s)
{
    if (s) {
        stacks_free(s->stacks);
        visits_free(s->visits);
        find_target_free(s->wanted);
        stack_edges_free(s->edges);
        clock_order_free(s->order);
        btrail_cursor_close(s->cursor);
        g_array_unref(s->stays);
        g_free(s);
    }
}

/* Follows records of one batch, at most STEP. */
static void follow_step(struct within *s)
{
    struct stack_part add = { .vcpu = s->vcpu };
    struct btrail_batch part = { .count = 0 };

    if (stack_edges_many(s->edges)) {
        stack_edges_reset(s->edges);
    }
    stacks_begin(s->stacks);
    while (symbolizer_part(s->symbols, s->vcpu, &s->batch, &part, &add.task)) {
        add.first = part.index - s->batch.index;
        add.n = part.count;
        add.edges = s->found;
        add.runs = s->runs;
        stack_edges_get_all(s->edges, add.task.process, &add.task.where,
                            part.records, part.count, s->found, s->runs);
        stacks_add(s->stacks, &add);
    }
    s->followed = s->batch.index + s->batch.count;
    s->last = key_behind(s, s->batch.count - 1);
}

static int next_batch(struct within *s)
{
    int ret = btrail_cursor_next(s->cursor, &s->rest);

    if (ret) {
        s->rest.count = 0;
    }
    return ret;
}

/* Reads on to a record.  A seek would decode its chunk from the start. */
static int go_to(struct within *s, uint64_t index)
{
    int ret = 0;

    if (!s->rest.count || index < s->rest.index ||
        index - s->rest.index > FAR) {
        s->rest.count = s->rest.index = 0;
        ret = btrail_cursor_seek(s->cursor, index);
    }
    while (!ret && (s->rest.event || s->rest.index + s->rest.count <= index)) {
        ret = next_batch(s);
    }
    if (!ret && index > s->rest.index) {
        btrail_batch_take(&s->rest, index - s->rest.index);
    }
    return ret;
}

/* Follows the records of the batch that was read, until the call is over. */
static void follow_batch(struct within *s)
{
    while (!s->returned && s->rest.count) {
        s->batch = btrail_batch_take(&s->rest, s->node ?
                                     MIN(s->rest.count, STEP) : 1);
        follow_step(s);
        if (!s->node) {
            s->node = stacks_where(s->stacks, s->vcpu);
            s->since = s->last;
        }
    }
}

/*
 * Follows a call, whose first record goes to the function, to its end, or to
 * the end of the trace.
 */
static bool follow_call(struct within *s, const struct visit *visit,
                        GError **error)
{
    int ret = go_to(s, visit->at.index);

    stacks_free(s->stacks);
    s->stacks = stacks_new(&(struct stacks_options) {
        .moved = on_moved, .opaque = s,
    });
    s->node = NULL;
    s->since = 0;
    s->returned = false;
    s->task = visit->at.task;
    s->cr3 = visit->cr3;
    while (!ret) {
        follow_batch(s);
        ret = s->returned ? 0 : next_batch(s);
        /* What is missing can be its return. */
        if (s->returned || ret || (s->rest.event &&
                                   s->rest.event->type ==
                                   BTRAIL_EVENT_GAP)) {
            break;
        }
    }
    end_stay(s, s->last + 1);
    if (ret && ret != -BTRAIL_ERR_END) {
        return fail(error, "the trace: %s", btrail_strerror(ret));
    }
    return true;
}

/* Finds more stays. */
static bool find_more(struct within *s, GError **error)
{
    g_autoptr(GError) local = NULL;
    struct visit visit;

    if (s->stays->len > 2 * KEEP) {
        g_array_remove_range(s->stays, 0, s->stays->len - KEEP);
    }
    if (!visits_next(s->visits, &visit, &local)) {
        s->ended = true;
        if (local) {
            g_propagate_error(error, g_steal_pointer(&local));
        }
        return !error || !*error;
    }
    /* A call within the one before is part of it. */
    return visit.at.index < s->followed || follow_call(s, &visit, error);
}

bool within_has(struct within *s, uint64_t key, GError **error)
{
    while (!s->ended &&
           (!s->stays->len ||
            g_array_index(s->stays, struct stay, s->stays->len - 1).begin <=
            key)) {
        if (!find_more(s, error)) {
            s->ended = true;
            return false;
        }
    }
    for (unsigned i = s->stays->len; i; i--) {
        const struct stay *stay = &g_array_index(s->stays, struct stay, i - 1);

        if (stay->begin <= key && key < stay->end) {
            return true;
        }
    }
    return false;
}
