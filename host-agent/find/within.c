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
#include "util/hash.h"
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

/* Who runs: a task, or one in a nested guest */
struct runner {
    uint64_t thread;            /* btrail_thread() */
    uint32_t pid;
    bool known;
    bool nested;
};

/**
 * struct within
 * @ahead:    @visit is the next one
 * @stays:    of struct stay, in order
 * @stacks:   are followed from a call on, while a task is in the function; or
 *            NULL
 * @entered:  by the id of a node: a call has gone there
 * @since:    when the vCPU got below such a node; 0: it is not
 * @runner:   who is there then, or was last
 * @left:     those (struct runner) that were there when another one came
 * @batch:    what was followed last
 * @rest:     of what was read, what was not
 * @last:     clock_order_key() of its last record
 */
struct within {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    unsigned vcpu;
    struct find_target *wanted;
    struct visits *visits;
    struct visit visit;
    bool ahead;
    bool ended;
    struct clock_order *order;
    struct stack_edges *edges;
    const struct stack_edge *found[STEP];
    struct stack_run runs[STEP];
    struct btrail_cursor *cursor;
    GArray *stays;
    struct stacks *stacks;
    GByteArray *entered;
    uint64_t since;
    struct runner runner;
    GHashTable *left;
    struct btrail_batch batch;
    struct btrail_batch rest;
    uint64_t last;
};

static guint hash_runner(gconstpointer p)
{
    const struct runner *r = p;

    return btrail_hash3(r->thread, r->pid, r->nested) >> 32;
}

static gboolean equal_runners(gconstpointer a, gconstpointer b)
{
    const struct runner *x = a, *y = b;

    return x->thread == y->thread && x->pid == y->pid &&
           x->nested == y->nested;
}

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
static uint64_t key_after(struct within *s, size_t i)
{
    const struct moment at = moment_after(s->vcpu, &s->batch, i);

    return clock_order_key(s->order, &at);
}

static bool is_below(const struct within *s, const struct stack_node *node)
{
    while (node && (node->id >= s->entered->len ||
                    !s->entered->data[node->id])) {
        node = node->parent;
    }
    return node;
}

static void begin_stay(struct within *s, uint64_t begin)
{
    s->since = begin;
    g_hash_table_remove(s->left, &s->runner);
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
static bool is_other(const struct runner *a, const struct runner *b)
{
    return a->nested != b->nested ||
           (a->known && b->known && !equal_runners(a, b));
}

/* Notes who made the batch that is followed next. */
static void note_runner(struct within *s)
{
    const struct btrail_task *task = &s->batch.task;
    const struct runner now = {
        .thread = btrail_thread(task), .pid = task->pid, .known = task->known,
        .nested = s->batch.cr3 & BTRAIL_CR3_NESTED,
    };

    if (s->since && is_other(&s->runner, &now)) {
        g_hash_table_add(s->left, g_memdup2(&s->runner, sizeof(now)));
    }
    s->runner = now;
}

static void on_moved(void *opaque, unsigned vcpu, size_t record,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct within *s = opaque;
    bool below = is_below(s, to);
    /* Before the first record of a batch, it was after the one before. */
    uint64_t key = record == SIZE_MAX ? s->last : key_after(s, record);

    if (below && !s->since) {
        begin_stay(s, key);
    } else if (!below && s->since) {
        end_stay(s, key);
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
    s->entered = g_byte_array_new();
    s->left = g_hash_table_new_full(hash_runner, equal_runners, g_free, NULL);
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
        g_hash_table_unref(s->left);
        g_byte_array_unref(s->entered);
        g_array_unref(s->stays);
        g_free(s);
    }
}

/* Follows records of one batch, at most STEP. */
static void follow_step(struct within *s)
{
    struct stack_part add = { .vcpu = s->vcpu };
    struct btrail_batch part = { .count = 0 };

    note_runner(s);
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
    if (s->since) {
        /* It is where the one before was. */
        g_hash_table_remove(s->left, &s->runner);
    }
    s->last = key_after(s, s->batch.count - 1);
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

/* What is missing can be returns. */
static void stop_following(struct within *s)
{
    end_stay(s, s->last + 1);
    g_clear_pointer(&s->stacks, stacks_free);
    g_byte_array_set_size(s->entered, 0);
    g_hash_table_remove_all(s->left);
}

/* Notes that the record which was followed last goes to the function. */
static void enter(struct within *s)
{
    const struct stack_node *node = stacks_where(s->stacks, s->vcpu);
    guint n = s->entered->len;

    s->ahead = false;
    if (!node) {
        return;
    }
    if (node->id >= n) {
        g_byte_array_set_size(s->entered, MAX(node->id + 1, 2 * n));
        memset(s->entered->data + n, 0, s->entered->len - n);
    }
    s->entered->data[node->id] = true;
    if (!s->since) {
        begin_stay(s, s->last);
    }
}

/* Follows some of the records that were read. */
static void follow_records(struct within *s)
{
    uint64_t to_visit = s->ahead ? s->visit.at.index - s->rest.index :
                        UINT64_MAX;

    s->batch = btrail_batch_take(&s->rest, MIN(MIN(s->rest.count, STEP),
                                               to_visit < STEP ? to_visit + 1 :
                                               STEP));
    follow_step(s);
    if (s->batch.count > to_visit) {
        enter(s);
    }
    if (!s->since && !g_hash_table_size(s->left)) {
        stop_following(s);
    }
}

/* Continues with the next record, or to where the trace has more or no more. */
static bool go_on(struct within *s, GError **error)
{
    int ret = 0;

    if (!s->stacks) {
        ret = go_to(s, s->visit.at.index);
        s->stacks = stacks_new(&(struct stacks_options) {
            .moved = on_moved, .opaque = s,
        });
    } else if (!s->rest.count) {
        ret = next_batch(s);
    }
    if (!ret && s->rest.count) {
        follow_records(s);
    } else if (ret || s->rest.event->type == BTRAIL_EVENT_GAP) {
        stop_following(s);
    }
    if (ret && ret != -BTRAIL_ERR_END) {
        return fail(error, "the trace: %s", btrail_strerror(ret));
    }
    s->ended = ret;
    return true;
}

/* Looks for the next call, if it is not known. */
static bool look_ahead(struct within *s, GError **error)
{
    g_autoptr(GError) local = NULL;

    if (!s->ahead && s->visits) {
        s->ahead = visits_next(s->visits, &s->visit, &local);
        if (!s->ahead) {
            g_clear_pointer(&s->visits, visits_free);
        }
        if (local) {
            g_propagate_error(error, g_steal_pointer(&local));
            return false;
        }
    }
    return true;
}

/* Follows the vCPU to after a moment. */
static bool follow_to(struct within *s, uint64_t key, GError **error)
{
    while (!s->ended) {
        if (s->stays->len > 2 * KEEP) {
            g_array_remove_range(s->stays, 0, s->stays->len - KEEP);
        }
        if (!look_ahead(s, error)) {
            return false;
        }
        if (s->stacks ? s->last > key : !s->ahead ||
            clock_order_key(s->order, &s->visit.at) > key) {
            break;
        }
        if (!go_on(s, error)) {
            return false;
        }
    }
    return true;
}

bool within_has(struct within *s, uint64_t key, GError **error)
{
    if (!follow_to(s, key, error)) {
        s->ended = true;
        return false;
    }
    if (s->since && s->since <= key) {
        return true;
    }
    for (unsigned i = s->stays->len; i; i--) {
        const struct stay *stay = &g_array_index(s->stays, struct stay, i - 1);

        if (stay->begin <= key) {
            return key < stay->end;
        }
    }
    return false;
}
