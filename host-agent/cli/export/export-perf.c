/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perf: samples with call chains, as perf script
 * prints them
 *
 * Readers count samples, or the time between them, and few read periods.  So
 * each sample stands for the same number of branches, its period: it is where a
 * vCPU has made as many since its last one.  This number grows while the trace
 * is read, so that there are not too many.
 */

#include <inttypes.h>

#include "cli/export/export.h"
#include "util/hash.h"
#include "util/quote.h"
#include "util/search.h"

/* When there are as many, every other one goes. */
#define MAX_SAMPLES (1u << 15)

/* The same of what their stacks are made of, while the trace is read */
#define MAX_FRAMES  (1u << 20)

/*
 * A node of a tree of stacks that stays when the trace's own tree is spilled:
 * @function is NULL for the process.
 */
struct perf_frame {
    struct perf_frame *parent;
    const struct process *process;
    const struct function *function;
    bool used;
};

/**
 * struct perf_sample
 * @node:  its stack, up to the next spill
 * @frame: the same afterwards
 */
struct perf_sample {
    uint64_t time;
    const struct stack_node *node;
    struct perf_frame *frame;
    unsigned vcpu;
};

/**
 * struct perf_lane - a vCPU
 * @records: that it has made
 * @moved:   when it came to the function that it is in
 */
struct perf_lane {
    uint64_t records;
    uint64_t moved;
};

/**
 * struct perf_writer
 * @samples: of each vCPU in order, and all of them
 * @frames:  a set of struct perf_frame
 */
struct perf_writer {
    const struct export *e;
    struct perf_lane lanes[BTRAIL_MAX_VCPUS];
    uint64_t period;
    GArray *samples;
    GHashTable *frames;
};

static guint hash_frame(gconstpointer p)
{
    const struct perf_frame *f = p;

    return btrail_hash3((uintptr_t)f->parent, (uintptr_t)f->process,
                        (uintptr_t)f->function) >> 32;
}

static gboolean equal_frames(gconstpointer a, gconstpointer b)
{
    const struct perf_frame *x = a, *y = b;

    return x->parent == y->parent && x->process == y->process &&
           x->function == y->function;
}

static struct perf_sample *sample_at(const struct perf_writer *w, size_t i)
{
    return &g_array_index(w->samples, struct perf_sample, i);
}

/* The frame of a node.  @known has those of others: the tree is at most
 * STACK_MAX_DEPTH deep. */
static struct perf_frame *keep_stack(struct perf_writer *w, GHashTable *known,
                                     const struct stack_node *n)
{
    struct perf_frame key, *frame = n ? g_hash_table_lookup(known, n) : NULL;

    if (!n || frame) {
        return frame;
    }
    key = (struct perf_frame) {
        keep_stack(w, known, n->parent), n->process, n->function, false,
    };
    frame = g_hash_table_lookup(w->frames, &key);
    if (!frame) {
        frame = g_memdup2(&key, sizeof(key));
        g_hash_table_add(w->frames, frame);
    }
    g_hash_table_insert(known, (gpointer)n, frame);
    return frame;
}

static void keep_stacks(struct perf_writer *w)
{
    g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);

    for (size_t i = 0; i < w->samples->len; i++) {
        struct perf_sample *s = sample_at(w, i);

        if (s->node) {
            s->frame = keep_stack(w, known, s->node);
            s->node = NULL;
        }
    }
}

static gboolean is_unused(gpointer p, gpointer value, gpointer opaque)
{
    struct perf_frame *frame = p;
    bool used = frame->used;

    frame->used = false;
    return !used;
}

/* Keeps every other sample of each vCPU. */
static void thin_out(struct perf_writer *w)
{
    bool odd[BTRAIL_MAX_VCPUS] = { false };
    size_t n = 0;

    w->period *= 2;
    for (size_t i = 0; i < w->samples->len; i++) {
        struct perf_sample *s = sample_at(w, i);

        odd[s->vcpu] ^= true;
        if (!odd[s->vcpu]) {
            for (struct perf_frame *f = s->frame; f && !f->used;
                 f = f->parent) {
                f->used = true;
            }
            *sample_at(w, n++) = *s;
        }
    }
    g_array_set_size(w->samples, n);
    g_hash_table_foreach_remove(w->frames, is_unused, NULL);
}

static void on_spill(void *opaque, const struct call_tree *t)
{
    struct perf_writer *w = opaque;

    keep_stacks(w);
    while (g_hash_table_size(w->frames) > MAX_FRAMES) {
        thin_out(w);
    }
}

static void on_moved(void *opaque, unsigned vcpu, uint64_t time,
                     const struct stack_node *from,
                     const struct stack_node *to, uint64_t stack)
{
    struct perf_writer *w = opaque;

    w->lanes[vcpu].moved = time;
}

static void add_records(void *opaque, unsigned vcpu, uint64_t time,
                        const struct stack_node *node, uint64_t stack,
                        uint64_t records)
{
    struct perf_writer *w = opaque;
    struct perf_lane *lane = &w->lanes[vcpu];
    uint64_t begin = lane->records, end = begin + records, next;
    uint64_t ns = time > lane->moved ? time - lane->moved : 0;

    lane->records = end;
    while ((next = (begin / w->period + 1) * w->period) <= end) {
        const struct perf_sample s = {
            .time = time - (uint64_t)((double)ns * (end - next) / records),
            .node = node, .vcpu = vcpu,
        };

        g_array_append_val(w->samples, s);
        begin = next;
        if (w->samples->len == MAX_SAMPLES) {
            thin_out(w);
        }
    }
    lane->moved = time;
}

static gint compare_samples(gconstpointer a, gconstpointer b)
{
    const struct perf_sample *x = a, *y = b;

    return BTRAIL_COMPARE(x->time, y->time);
}

/*
 * The name of a process, to be freed.  Readers take the first number after a
 * space for that of the thread, and a line that begins with # for a comment; a
 * stack in which a semicolon separates functions begins with it.  As with perf,
 * ":TID" stands for no name.
 */
static char *command_text(const char *comm, int64_t tid)
{
    bool misleads = *comm == ' ' || *comm == '#';

    for (const char *p = comm; *p; p++) {
        misleads |= *p == ' ' && g_ascii_isdigit(p[1]);
    }
    return *comm ? btrail_quote(comm, misleads ? " #;" : ";") :
           g_strdup_printf(":%" PRId64, tid);
}

static void put_sample(const struct perf_writer *w, const struct perf_sample *s)
{
    uint64_t start = w->e->in.trace.start;
    uint64_t time = s->time > start ? s->time - start : 0;
    const struct process *process = s->frame->process;
    int64_t tid = MAX(process->tid >= 0 ? process->tid : process->pid, 0);
    g_autofree char *comm = command_text(process->comm, tid);

    fprintf(w->e->out, "%s %7" PRId64 " [%03u] %5" PRIu64 ".%09u: %10" PRIu64
            " branches:\n", comm, tid, s->vcpu, time / 1000000000,
            (unsigned)(time % 1000000000), w->period);
    for (const struct perf_frame *n = s->frame; n->function; n = n->parent) {
        const struct function *f = n->function;
        g_autofree char *path = btrail_quote(f->module->path, " ");

        cli_fprintf(w->e->out, "\t%16" PRIx64 " %s%s (", f->known ? f->start :
                    0, f->name, f->known ? "+0x0" : "");
        fprintf(w->e->out, "%s)\n", path);
    }
    fputc('\n', w->e->out);
}

static void put_samples(struct perf_writer *w)
{
    keep_stacks(w);
    g_array_sort(w->samples, compare_samples);
    for (size_t i = 0; i < w->samples->len; i++) {
        put_sample(w, sample_at(w, i));
    }
    if (w->period > 1) {
        cli_error("%s: each sample stands for %" PRIu64 " branches",
                  w->e->in.trace.path, w->period);
    }
}

int export_perf(struct export *e)
{
    static const struct call_tree_ops ops = {
        .moved = on_moved, .spent = add_records, .spill = on_spill,
    };
    struct perf_writer *w = g_new0(struct perf_writer, 1);
    struct call_tree t;
    int ret;

    w->e = e;
    w->period = 1;
    w->samples = g_array_new(FALSE, FALSE, sizeof(struct perf_sample));
    w->frames = g_hash_table_new_full(hash_frame, equal_frames, g_free, NULL);
    ret = analysis_read_calls(&e->in, &t, &ops, w);
    if (!ret) {
        put_samples(w);
        export_end_calls(e, &t);
    }
    g_array_unref(w->samples);
    g_hash_table_unref(w->frames);
    g_free(w);
    return ret;
}
