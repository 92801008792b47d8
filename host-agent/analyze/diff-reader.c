/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sequences of edges out of a trace: see diff-reader.h
 */

#include <errno.h>
#include <string.h>

#include "analyze/diff-images.h"
#include "analyze/diff-reader.h"
#include "lib/agent/merged.h"
#include "util/entry-names.h"
#include "util/hash.h"

/* The edges that came last, close together, so that a cache has them */
#define RECENT_BITS 14

/* The space of edges in the kernel; user edges have one for each process */
#define KERNEL_SPACE    UINT32_MAX

/* In the numbers of @recent: the edge is left out; it needs a closer look */
#define LEFT_OUT    (1u << 31)
#define SPECIAL     (1u << 30)
#define NUMBER      (SPECIAL - 1)

/* How many records may wait until a vCPU has left a task */
#define MAX_HELD    (1u << 24)

/* Discontinuities in a block */
#define MAX_RUNS    DIFF_READER_BLOCK

struct recent_edges {
    uint64_t from;
    uint64_t to;
    uint64_t count;
    uint32_t space;
    uint32_t era;
    uint32_t number;
};

/**
 * struct follower - of a task
 * @task:     whose it is
 * @chosen:   it is read
 * @wanted:   its edges are wanted
 * @begun:    it has edges
 * @ended:    it has ended
 * @skipped:  this many interrupts have not returned
 * @low:      the first of them was handled by code in the lower half of the
 *            address space, as that of a firmware is
 * @back:     where it returns to
 * @entry:    its edge, with flags, and the record
 * @gaps:     as many were there when it ran last
 * @vcpu:     that runs it, or -1
 * @held:     of struct held *: its records of other vCPUs, which come too early
 */
struct follower {
    struct diff_task *task;
    bool chosen;
    bool wanted;
    bool begun;
    bool ended;
    unsigned skipped;
    bool low;
    uint64_t back;
    uint32_t entry;
    struct diff_run entry_run;
    uint64_t gaps;
    int vcpu;
    GQueue held;
};

/* Records of a task that another vCPU still runs */
struct held {
    unsigned vcpu;
    struct task task;
    struct btrail_batch part;
    struct btrail_record records[];
};

/**
 * struct diff_lane - of a vCPU
 * @follower: of the task that it runs, or NULL
 * @n, @runs: edges, and discontinuities, that wait to be handed on
 * @open:     the next edge follows the last one
 */
struct diff_lane {
    struct follower *follower;
    uint32_t n;
    uint32_t runs;
    bool open;
    uint32_t *edges;
    struct diff_run *run;
};

struct diff_reading {
    const struct diff_reader_options *options;
    struct diff_reader_result *result;
    struct stack_edges *kinds;
    GHashTable *numbers;        /* struct stack_edge -> number and flags */
    struct recent_edges *recent;
    struct diff_images *images;
    GHashTable *followers;      /* struct diff_task -> struct follower */
    struct diff_lane lanes[BTRAIL_MAX_VCPUS];
    uint64_t gaps;
    size_t held;
    size_t max_held;
};

static void count(struct diff_reading *r, uint32_t number, uint64_t n)
{
    uint32_t i = (number & NUMBER) / 2;
    GArray *counts = r->result->counts;

    if (!n) {
        return;
    }
    if (i >= counts->len) {
        g_array_set_size(counts, MAX(2 * counts->len, i + 1));
    }
    g_array_index(counts, uint64_t, i) += n;
}

static void count_recent(struct diff_reading *r, struct recent_edges *c)
{
    count(r, c->number, c->count);
    c->count = 0;
}

static void forget_recent(struct diff_reading *r)
{
    for (unsigned i = 0; i < 1u << RECENT_BITS; i++) {
        count_recent(r, &r->recent[i]);
        r->recent[i].space = 0;
        r->recent[i].from = r->recent[i].to = UINT64_MAX;
    }
}

static bool is_async(const struct stack_edge *e)
{
    switch (e->to) {
    case BTRAIL_PSEUDO_TO_KERNEL:
    case BTRAIL_PSEUDO_PAGE_FAULT:
    case BTRAIL_PSEUDO_EXCEPTION:
    case BTRAIL_PSEUDO_INTERRUPT:
        return true;
    case BTRAIL_PSEUDO_SYSCALL:
        return false;
    }
    switch (e->kind) {
    case STACK_EDGE_ENTRY:
    case STACK_EDGE_INTERRUPT:
        return e->back ? e->back == e->from : e->handler;
    case STACK_EDGE_UNKNOWN:
        return e->handler;
    default:
        return false;
    }
}

/* Does an exception depend on what the task does, and on nothing else? */
static bool is_exception(const struct stack_edge *e)
{
    const char *name = e->to_fn->name;

    if (btrail_pseudo_name(e->to)) {
        return e->to == BTRAIL_PSEUDO_EXCEPTION;
    }
    return entry_kind(name, strlen(name)) == BTRAIL_PSEUDO_EXCEPTION &&
           !g_str_has_suffix(name, "machine_check") &&
           !g_str_has_suffix(name, "device_not_available");
}

/* Is an edge in a part of the task that is compared? */
static bool is_compared(const struct diff_reading *r,
                        const struct stack_edge *e)
{
    bool user = e->from < ADDRESS_SHARED || e->to < ADDRESS_SHARED;
    bool kernel = e->from >= ADDRESS_SHARED || e->to >= ADDRESS_SHARED;

    return (r->options->user && user) || (r->options->kernel && kernel);
}

static void find_place(struct diff_reading *r, const struct process *process,
                       const struct symbolizer_where *where, uint64_t address,
                       struct place *place, struct function *function)
{
    symbolizer_place(r->options->names, process->owner, where, address, place);
    if (!btrail_pseudo_name(address)) {
        diff_images_place(r->images, process, where->cr3, address, place,
                          function);
    }
    if (place->function == function && function->known) {
        symbolizer_place_in(r->options->names, where, function->module,
                            place->address, place);
    }
}

/* The number of an edge, with flags */
static uint32_t number_of(struct diff_reading *r, const struct process *process,
                          const struct symbolizer_where *where,
                          const struct stack_edge *e)
{
    uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(r->numbers, e));
    bool async = is_async(e);
    struct function functions[2];
    struct place from, to;

    if (number) {
        return number;
    }
    find_place(r, process, where, e->from, &from, &functions[0]);
    find_place(r, process, where, e->to, &to, &functions[1]);
    /* What one end has shown may help with the other. */
    find_place(r, process, where, e->from, &from, &functions[0]);
    number = diff_edges_number(r->options->edges, e, &from, &to, async);
    if (async || e->ends) {
        number |= SPECIAL;
    }
    if ((async && !is_exception(e)) || !is_compared(r, e)) {
        number |= LEFT_OUT;
    }
    g_hash_table_insert(r->numbers, (gpointer)e, GUINT_TO_POINTER(number));
    return number;
}

static void learn(struct diff_reading *r, struct recent_edges *c,
                  const struct process *process,
                  const struct symbolizer_where *where,
                  const struct btrail_record *record, uint32_t space,
                  uint32_t era)
{
    if (stack_edges_many(r->kinds)) {
        g_hash_table_remove_all(r->numbers);
        stack_edges_reset(r->kinds);
    }
    count_recent(r, c);
    *c = (struct recent_edges) {
        .from = record->from, .to = record->to, .space = space, .era = era,
        .number = number_of(r, process, where,
                            stack_edges_get(r->kinds, process, where,
                                            record)),
    };
}

static struct follower *get_follower(struct diff_reading *r,
                                     struct diff_task *task)
{
    struct follower *f = g_hash_table_lookup(r->followers, task);

    if (!f) {
        f = g_new0(struct follower, 1);
        f->task = task;
        f->vcpu = -1;
        f->chosen = r->options->ops->chosen(r->options->opaque, task);
        f->wanted = r->options->ops->wanted(r->options->opaque, task);
        g_queue_init(&f->held);
        g_hash_table_insert(r->followers, task, f);
    }
    return f;
}

static void flush(struct diff_reading *r, struct diff_lane *l)
{
    const struct diff_reader_options *o = r->options;

    if (l->n && l->follower->wanted) {
        o->ops->block(o->opaque, l->follower->task,
                      diff_block_new(l->edges, l->n, l->run, l->runs));
    }
    l->n = l->runs = 0;
    l->open = false;
}

/* The next edge is of this record. */
static void open_run(struct diff_lane *l, unsigned vcpu, uint64_t index)
{
    l->run[l->runs++] = (struct diff_run) { l->n, index, vcpu };
    l->open = true;
}

static void add_edge(struct diff_reading *r, struct diff_lane *l,
                     uint32_t number,
                     unsigned vcpu, uint64_t index)
{
    if (l->n == DIFF_READER_BLOCK) {
        flush(r, l);
    }
    open_run(l, vcpu, index);
    l->edges[l->n++] = number;
    l->open = false;
}

/* The task has ended while an exception was handled: that has killed it. */
static void end_task(struct diff_reading *r, struct diff_lane *l,
                     struct follower *f)
{
    if (f->skipped && !f->ended && (f->entry & LEFT_OUT)) {
        add_edge(r, l, f->entry & NUMBER, f->entry_run.vcpu,
                 f->entry_run.index);
        count(r, f->entry, 1);
    }
    f->ended = true;
    g_hash_table_add(r->result->ended, f->task);
}

/* Follows an edge of the kernel while an interrupt is handled. */
static bool skip(struct follower *f, const struct diff_edge *e,
                 const struct btrail_record *record)
{
    bool back;

    switch (e->kind) {
    case STACK_EDGE_EXIT:
        /* A trace of the kernel only does not say where in user mode. */
        back = record->to == (f->back == BTRAIL_PSEUDO_FROM_USER ?
                              BTRAIL_PSEUDO_TO_USER : f->back);
        f->skipped = 0;
        return back;
    case STACK_EDGE_IRET:
        /* The kernel executes one to serialize, which goes right after it. */
        f->skipped -= e->from_fn != e->to_fn || e->to != e->back;
        return true;
    case STACK_EDGE_INTERRUPT:
        f->skipped++;
        return true;
    default:
        f->skipped += e->async;
        return true;
    }
}

/* Is an edge that needs a closer look left out? */
static bool is_left_out(struct diff_reading *r, struct diff_lane *l,
                        struct follower *f,
                        uint32_t number, const struct btrail_record *record,
                        unsigned vcpu, uint64_t index)
{
    const struct diff_edge *e = diff_edges_get(r->options->edges,
                                               number & NUMBER);

    if ((number & SPECIAL) && e->kind == STACK_EDGE_CALL) {
        end_task(r, l, f);
    }
    if (f->skipped && (!e->user || f->low)) {
        if (skip(f, e, record)) {
            return true;
        }
    } else if (e->async) {
        f->skipped = 1;
        f->low = record->to < ADDRESS_SHARED;
        f->back = record->from;
        f->entry = number;
        f->entry_run = (struct diff_run) { 0, index, vcpu };
    } else {
        f->skipped = 0;
    }
    return number & LEFT_OUT;
}

static void read_records(struct diff_reading *r, unsigned vcpu,
                         struct follower *f,
                         const struct task *task,
                         const struct btrail_batch *b)
{
    struct diff_lane *l = &r->lanes[vcpu];
    const uint32_t id = task->process->owner->id;
    struct recent_edges *recent = r->recent;

    for (size_t i = 0; i < b->count; i++) {
        const struct btrail_record *record = &b->records[i];
        uint64_t from = record->from, to = record->to;
        uint32_t space = (from & to) >> 63 ? KERNEL_SPACE : id;
        uint32_t era = (from | to) >> 63 ? task->era : 0;
        struct recent_edges *c = &recent[btrail_hash3(from, to, space) >>
                                         (64 - RECENT_BITS)];

        if (G_UNLIKELY(c->from != from || c->to != to || c->space != space ||
                       c->era != era)) {
            const struct symbolizer_where where = symbolizer_at(vcpu, b, i);

            learn(r, c, task->process, &where, record, space, era);
        }
        if (G_UNLIKELY((c->number & (LEFT_OUT | SPECIAL)) || f->skipped) &&
            is_left_out(r, l, f, c->number, record, vcpu, b->index + i)) {
            l->open = false;
            continue;
        }
        if (G_UNLIKELY(l->n == DIFF_READER_BLOCK)) {
            flush(r, l);
        }
        if (G_UNLIKELY(!l->open)) {
            open_run(l, vcpu, b->index + i);
        }
        l->edges[l->n++] = c->number & NUMBER;
        c->count++;
    }
}

static void read_part(struct diff_reading *r, unsigned vcpu, struct follower *f,
                      const struct task *task, const struct btrail_batch *b)
{
    struct diff_lane *l = &r->lanes[vcpu];

    if (f->gaps != r->gaps) {
        f->skipped = 0;
        f->gaps = r->gaps;
        if (f->begun) {
            add_edge(r, l, DIFF_EDGE_GAP, vcpu, b->index);
        }
    }
    f->begun = true;
    read_records(r, vcpu, f, task, b);
}

static void enter(struct diff_reading *r, unsigned vcpu, struct follower *f)
{
    struct diff_lane *l = &r->lanes[vcpu];

    if (f->vcpu >= 0) {
        /* It runs there, too, and what it has done there comes first. */
        flush(r, &r->lanes[f->vcpu]);
    }
    if (!l->edges) {
        l->edges = g_new(uint32_t, DIFF_READER_BLOCK);
        l->run = g_new(struct diff_run, MAX_RUNS);
    }
    l->follower = f;
    l->open = false;
    f->vcpu = vcpu;
}

/* Reads what was held of a task, now that no vCPU runs it. */
static void read_held(struct diff_reading *r, struct follower *f)
{
    struct held *h;

    while ((h = g_queue_pop_head(&f->held))) {
        struct diff_lane mine = r->lanes[h->vcpu];

        /* The vCPU may run something else by now. */
        r->lanes[h->vcpu] = (struct diff_lane) { 0 };
        enter(r, h->vcpu, f);
        h->part.records = h->records;
        read_part(r, h->vcpu, f, &h->task, &h->part);
        flush(r, &r->lanes[h->vcpu]);
        g_free(r->lanes[h->vcpu].edges);
        g_free(r->lanes[h->vcpu].run);
        r->lanes[h->vcpu] = mine;
        f->vcpu = mine.follower == f ? (int)h->vcpu : -1;
        r->held -= h->part.count;
        g_free(h);
    }
}

/* A vCPU runs another task, or none that is known. */
static void leave(struct diff_reading *r, unsigned vcpu)
{
    struct diff_lane *l = &r->lanes[vcpu];
    struct follower *f = l->follower;

    if (!f) {
        return;
    }
    flush(r, l);
    l->follower = NULL;
    if (f->vcpu == (int)vcpu) {
        f->vcpu = -1;
        read_held(r, f);
    }
}

static void hold(struct diff_reading *r, unsigned vcpu, struct follower *f,
                 const struct task *task, const struct btrail_batch *part)
{
    size_t size = part->count * sizeof(*part->records);
    struct held *h = g_malloc(sizeof(*h) + size);

    *h = (struct held) { .vcpu = vcpu, .task = *task, .part = *part };
    memcpy(h->records, part->records, size);
    g_queue_push_tail(&f->held, h);
    r->held += part->count;
}

/*
 * Clocks are coarse, so a vCPU can seem to run a task that another one has not
 * left yet.  Of tasks that no event names, several can be meant.
 */
static bool is_elsewhere(const struct follower *f, unsigned vcpu,
                         const struct task *task)
{
    return task->tid > 0 && f->vcpu >= 0 && f->vcpu != (int)vcpu;
}

static void take_part(struct diff_reading *r, unsigned vcpu,
                      const struct task *task,
                      const struct btrail_batch *part)
{
    struct diff_task *t = diff_tasks_find(r->options->tasks, vcpu, task);
    struct diff_lane *l = &r->lanes[vcpu];
    struct follower *f;

    if (!t) {
        leave(r, vcpu);
        return;
    }
    f = get_follower(r, t);
    if (l->follower != f) {
        leave(r, vcpu);
    }
    if (!f->chosen) {
        return;
    }
    if (is_elsewhere(f, vcpu, task)) {
        if (r->held < r->max_held) {
            hold(r, vcpu, f, task, part);
            return;
        }
        leave(r, f->vcpu);
    }
    if (f->vcpu != (int)vcpu) {
        enter(r, vcpu, f);
    }
    read_part(r, vcpu, f, task, part);
}

static void take_batch(struct diff_reading *r, unsigned vcpu,
                       const struct btrail_batch *b)
{
    const struct follower *f = r->lanes[vcpu].follower;
    struct btrail_batch part = { .count = 0 };
    struct task task;

    if (b->event) {
        if (b->event->type == BTRAIL_EVENT_GAP) {
            leave(r, vcpu);
            r->gaps++;
        } else if (f && b->event->type == BTRAIL_EVENT_TASK &&
                   (!b->task.known || b->task.tid != f->task->tid)) {
            leave(r, vcpu);
        } else if (f && b->event->type == BTRAIL_EVENT_KERNEL) {
            leave(r, vcpu);
        }
        return;
    }
    while (symbolizer_part(r->options->names, vcpu, b, &part, &task)) {
        take_part(r, vcpu, &task, &part);
    }
}

static int read_all(struct diff_reading *r, struct btrail_merged *merged,
                    const gint *stop)
{
    const struct window *window = &r->options->window;
    struct btrail_batch b;
    unsigned vcpu;
    int ret = 0;

    if (window->begin) {
        btrail_merged_seek_time(merged, window->start + window->begin);
    }
    while (!g_atomic_int_get(stop) &&
           !(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
        if (window_past(window, b.time.host)) {
            btrail_merged_end_stream(merged);
        } else if (b.event || window_has(window, b.time.host)) {
            take_batch(r, vcpu, &b);
        }
    }
    r->result->damage += btrail_merged_damage(merged);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static void free_follower(gpointer p)
{
    struct follower *f = p;

    g_queue_clear_full(&f->held, g_free);
    g_free(f);
}

int diff_reader_read(struct diff_reader_result *result,
                     const struct diff_reader_options *options,
                     const gint *stop)
{
    struct diff_reading *r = g_new0(struct diff_reading, 1);
    struct btrail_merged *merged;
    int ret = btrail_merged_open(&merged, options->trace, NULL, 0, 0,
                                 BTRAIL_MERGED_GRAIN);
    int error;

    *result = (struct diff_reader_result) {
        .counts = g_array_new(FALSE, TRUE, sizeof(uint64_t)),
        .ended = g_hash_table_new(NULL, NULL),
    };
    r->options = options;
    r->result = result;
    r->max_held = options->max_held ? options->max_held : MAX_HELD;
    r->kinds = stack_edges_new(options->names, 0);
    r->numbers = g_hash_table_new(NULL, NULL);
    r->recent = g_new0(struct recent_edges, 1u << RECENT_BITS);
    r->images = diff_images_new();
    r->followers = g_hash_table_new_full(NULL, NULL, NULL, free_follower);
    forget_recent(r);
    if (!ret) {
        ret = read_all(r, merged, stop);
    }
    error = errno;
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        leave(r, i);
        g_free(r->lanes[i].edges);
        g_free(r->lanes[i].run);
    }
    forget_recent(r);
    btrail_merged_close(merged);
    g_hash_table_unref(r->followers);
    g_hash_table_unref(r->numbers);
    diff_images_free(r->images);
    stack_edges_free(r->kinds);
    g_free(r->recent);
    g_free(r);
    errno = error;
    return ret;
}

void diff_reader_result_clear(struct diff_reader_result *r)
{
    g_clear_pointer(&r->counts, g_array_unref);
    g_clear_pointer(&r->ended, g_hash_table_unref);
}
