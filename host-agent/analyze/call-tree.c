/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stacks of a whole trace: see call-tree.h
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/call-tree.h"
#include "util/hash.h"
#include "analyze/pace.h"

G_STATIC_ASSERT(PACE_TICKS == STACK_TICKS);

/* How far apart vCPUs may be when merged, in ns; finer than clocks are */
#define GRAIN       10000

/* No stream that is merged is further ahead of the others, in ns. */
#define MAX_AHEAD   10000000

/* How many records are filtered at a time */
#define STEP        4096

/* What the filter said about an edge, so that it is asked once */
struct asked {
    const struct process *process;
    uint64_t class;
    uint64_t from;
    uint64_t to;
    bool chosen;
    bool used;
};
#define ASKED_SIZE  (1u << 16)

struct call_stream {
    struct paces *paces;
    uint64_t index;             /* of the batch in stacks_records() */
    const struct pace *pace;
    const struct stack_node *node;
    uint64_t since;             /* first record in that node */
};

struct call_walk {
    const struct call_tree_options *options;
    struct call_tree *tree;
    struct call_stream streams[BTRAIL_MAX_VCPUS];
    struct asked *asked;
    bool *counts;
    bool follows;               /* the user wants to know of each move */
};

static uint64_t time_of(const struct call_stream *s, uint64_t index)
{
    if (!s->pace || index < s->pace->begin) {
        return 0;
    }
    return s->pace->time + (index - s->pace->begin) * s->pace->ticks /
           PACE_TICKS;
}

/* Number of records from @s->since to @end, in the last batch, that count */
static uint64_t count_chosen(const struct call_walk *w,
                             const struct call_stream *s,
                             uint64_t end)
{
    uint64_t i, n = 0;

    if (!w->counts) {
        return end - s->since;
    }
    for (i = s->since; i < end; i++) {
        n += w->counts[i - s->index];
    }
    return n;
}

static void spend(struct call_walk *w, unsigned vcpu, uint64_t end)
{
    struct call_stream *s = &w->streams[vcpu];
    const struct call_tree_ops *ops = w->options->ops;
    uint64_t n = s->node && ops->spent && end > s->since ?
                 count_chosen(w, s, end) : 0;

    if (n) {
        ops->spent(w->options->opaque, vcpu, time_of(s, end), s->node, n);
    }
    s->since = end;
}

static void on_moved(void *opaque, unsigned vcpu, size_t record,
                  const struct stack_node *from, const struct stack_node *to)
{
    struct call_walk *w = opaque;
    struct call_stream *s = &w->streams[vcpu];
    uint64_t end = s->index + record + 1;

    if (!s->node) {
        s->node = from;
    }
    spend(w, vcpu, end);
    s->node = to;
    if (w->options->ops->moved) {
        w->options->ops->moved(w->options->opaque, vcpu, time_of(s, end),
                               from, to);
    }
}

static void on_spill(void *opaque)
{
    struct call_walk *w = opaque;

    if (w->options->ops->spill) {
        w->options->ops->spill(w->options->opaque, w->tree);
    }
}

static bool chosen(struct call_walk *w, uint64_t class,
                   const struct filter_record *r, struct place *from,
                   struct place *to)
{
    size_t hash = btrail_hash3(r->from, r->to,
                               class ^ (uintptr_t)r->process) >> 48;
    struct asked *a = &w->asked[hash % ASKED_SIZE];

    if (!a->used || a->process != r->process || a->class != class ||
        a->from != r->from || a->to != r->to) {
        symbolizer_place(w->options->names, r->process, r->from, from);
        symbolizer_place(w->options->names, r->process, r->to, to);
        *a = (struct asked) { r->process, class, r->from, r->to,
                              filter_chooses(w->options->filter, class, r),
                              true };
    }
    return a->chosen;
}

/* Finds which records of one task the filter chooses, for @counts. */
static void choose_part(struct call_walk *w, unsigned vcpu,
                        const struct task *task, const struct btrail_batch *b,
                        bool *counts)
{
    const struct filter *filter = w->options->filter;
    struct place from, to;
    struct filter_record r = {
        .vcpu = vcpu, .index = b->index, .from_place = &from,
        .to_place = &to, .lines = w->options->names,
        .process = task->process,
        .time = window_time(&w->options->window, b->time.host),
    };
    uint64_t class = filter_class(filter, &r);

    for (size_t i = 0; i < b->count; i++) {
        if (filter_uses_index(filter)) {
            r.index = b->index + i;
            class = filter_class(filter, &r);
        }
        r.from = b->records[i].from;
        r.to = b->records[i].to;
        counts[i] = filter_may_choose(filter, class) &&
                    chosen(w, class, &r, &from, &to);
    }
}

static void choose(struct call_walk *w, unsigned vcpu,
                   const struct btrail_batch *b)
{
    struct btrail_batch part = { .count = 0 };
    struct task task;

    while (symbolizer_part(w->options->names, vcpu, b, &part, &task)) {
        choose_part(w, vcpu, &task, &part, w->counts + (part.index -
                                                        b->index));
    }
}

static void call_records(struct call_walk *w, unsigned vcpu,
                         const struct btrail_batch *b)
{
    struct call_stream *s = &w->streams[vcpu];
    size_t done, n;

    for (done = 0; done < b->count; done += n) {
        struct btrail_batch part = *b;

        part.index += done;
        part.records += done;
        while (s->pace && part.index >= s->pace->end) {
            stacks_wait(w->tree->stacks, vcpu, s->pace->wait);
            s->pace = paces_next(s->paces);
        }
        if (!s->pace) {
            s->pace = paces_at(s->paces, part.index);
        }
        n = MIN(b->count - done, s->pace->end - part.index);
        n = w->counts ? MIN(n, STEP) : n;
        part.count = n;
        s->index = part.index;
        if (!s->node) {
            s->since = part.index;
        }
        if (w->counts) {
            choose(w, vcpu, &part);
        }
        stacks_records(w->tree->stacks, vcpu, &part, s->pace->ticks,
                       w->counts);
        if (w->follows) {
            s->node = s->node ? s->node : stacks_where(w->tree->stacks, vcpu);
            spend(w, vcpu, part.index + n);
        }
    }
    w->tree->records += b->count;
}

static void call_event(struct call_walk *w, unsigned vcpu,
                       const struct btrail_batch *b)
{
    struct call_stream *s = &w->streams[vcpu];

    w->tree->damage += b->synthetic;
    if (b->event->type == BTRAIL_EVENT_GAP) {
        s->index = b->index - 1;
        stacks_gap(w->tree->stacks, vcpu);
        s->node = NULL;
    }
}

static int read_all(struct call_walk *w, const struct btrail_trace *trace)
{
    const struct window *window = &w->options->window;
    struct btrail_merged *merged;
    struct btrail_batch b;
    unsigned vcpu;
    int ret = btrail_merged_open(&merged, trace, NULL, 0, 0, GRAIN);

    if (ret) {
        return ret;
    }
    if (window->begin) {
        btrail_merged_seek_time(merged, window->start + window->begin);
    }
    while (!(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
        if (window_past(window, b.time.host)) {
            /* Other streams may not have reached the end yet. */
            if (window_past(window, b.time.host - MAX_AHEAD)) {
                ret = -BTRAIL_ERR_END;
                break;
            }
            continue;
        }
        if (b.event) {
            call_event(w, vcpu, &b);
        } else {
            call_records(w, vcpu, &b);
        }
    }
    w->tree->damage += btrail_merged_bad_chunks(merged);
    btrail_merged_close(merged);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

int call_tree_read(struct call_tree *t, const struct btrail_trace *trace,
                   const struct call_tree_options *options)
{
    struct call_walk *w = g_new0(struct call_walk, 1);
    struct btrail_stream_info info;
    int ret = 0, error;

    memset(t, 0, sizeof(*t));
    w->options = options;
    w->tree = t;
    if (options->filter) {
        w->asked = g_new0(struct asked, ASKED_SIZE);
        w->counts = g_new(bool, STEP);
    }
    w->follows = options->ops && (options->ops->moved || options->ops->spent);
    t->stacks = stacks_new(options->names, &(struct stacks_options) {
        .by_command = !w->follows,
        .many = options->many,
        .moved = w->follows ? on_moved : NULL,
        .spill = options->ops ? on_spill : NULL,
        .opaque = w,
    });
    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = paces_open(&w->streams[info.vcpu].paces, trace, info.vcpu,
                         options->tick);
    }
    if (!ret) {
        ret = read_all(w, trace);
    }
    error = errno;
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        paces_close(w->streams[i].paces);
    }
    g_free(w->asked);
    g_free(w->counts);
    g_free(w);
    if (ret) {
        call_tree_clear(t);
    }
    errno = error;
    return ret;
}

void call_tree_clear(struct call_tree *t)
{
    stacks_free(t->stacks);
    t->stacks = NULL;
}

static void add_sums(struct call_sum *sums, const struct stack_node *n)
{
    for (; n; n = n->next) {
        struct call_sum *mine = &sums[n->id];

        mine->records += n->records;
        mine->ticks += n->ticks;
        /* The tree is at most STACK_MAX_DEPTH deep. */
        add_sums(sums, n->child);
        if (n->parent) {
            sums[n->parent->id].records += mine->records;
            sums[n->parent->id].ticks += mine->ticks;
        }
    }
}

struct call_sum *call_tree_sums(const struct call_tree *t)
{
    struct call_sum *sums = g_new0(struct call_sum,
                                   stacks_nodes(t->stacks) + 1);

    add_sums(sums, stacks_roots(t->stacks));
    return sums;
}

const char *call_tree_name(const struct stack_node *n, char *buf, size_t size)
{
    if (n->function) {
        if (n->function->known) {
            return n->function->name;
        }
        g_snprintf(buf, size, "[%s]", n->function->module->name);
        return strcmp(n->function->module->name, NAME_UNKNOWN) &&
               *n->function->module->name != '[' ? buf :
               n->function->module->name;
    }
    if (n->process->pid < 0) {
        return n->process->comm;
    }
    g_snprintf(buf, size, "%s %" PRId64, n->process->comm, n->process->pid);
    if (n->process->tid >= 0 && n->process->tid != n->process->pid) {
        size_t len = strlen(buf);

        g_snprintf(buf + len, size - len, "/%" PRId64, n->process->tid);
    }
    return buf;
}
