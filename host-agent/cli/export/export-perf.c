/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format perf: samples with call chains, as perf script
 * prints them
 *
 * A sample stands for the branches that a vCPU made in one stack within a tick
 * of the session; its period is their number.
 */

#include <inttypes.h>

#include "cli/export/export.h"
#include "util/quote.h"

struct perf_writer {
    const struct export *e;
    GHashTable *counts[BTRAIL_MAX_VCPUS];   /* node -> records */
    GPtrArray *order[BTRAIL_MAX_VCPUS];     /* nodes, as they were seen */
    uint64_t since[BTRAIL_MAX_VCPUS];
    uint64_t last[BTRAIL_MAX_VCPUS];
};

#define TICK    1000000

/*
 * The name of a process, to be freed.  Readers take the first number after a
 * space for that of the thread.  As with perf, ":TID" stands for no name.
 */
static char *command_text(const char *comm, int64_t tid)
{
    bool misleads = *comm == ' ';

    for (const char *p = comm; *p; p++) {
        misleads |= *p == ' ' && g_ascii_isdigit(p[1]);
    }
    return *comm ? btrail_quote(comm, misleads ? " " : "") :
           g_strdup_printf(":%" PRId64, tid);
}

static void put_sample(const struct perf_writer *w, unsigned vcpu,
                       const struct stack_node *n, uint64_t records)
{
    uint64_t time = w->last[vcpu] > w->e->in.trace.start ?
                    w->last[vcpu] - w->e->in.trace.start : 0;
    int64_t tid = MAX(n->process->tid >= 0 ? n->process->tid :
                      n->process->pid, 0);
    g_autofree char *comm = command_text(n->process->comm, tid);

    fprintf(w->e->out, "%s %7" PRId64 " [%03u] %5" PRIu64 ".%06u: %10" PRIu64
            " branches:\n", comm, tid, vcpu, time / 1000000000,
            (unsigned)(time % 1000000000 / 1000), records);
    for (; n->function; n = n->parent) {
        const struct function *f = n->function;

        cli_fprintf(w->e->out, "\t%16" PRIx64 " %s%s (%s)\n",
                    f->known ? f->start : 0, f->name, f->known ? "+0x0" : "",
                    f->module->path);
    }
    fputc('\n', w->e->out);
}

static void put_samples(struct perf_writer *w, unsigned vcpu)
{
    GPtrArray *order = w->order[vcpu];

    for (unsigned i = 0; order && i < order->len; i++) {
        put_sample(w, vcpu, order->pdata[i], GPOINTER_TO_SIZE(
                       g_hash_table_lookup(w->counts[vcpu],
                                           order->pdata[i])));
    }
    if (order) {
        g_ptr_array_set_size(order, 0);
        g_hash_table_remove_all(w->counts[vcpu]);
    }
}

static void add_records(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *node, uint64_t records)
{
    struct perf_writer *w = opaque;
    gsize count;

    if (!w->order[vcpu]) {
        w->order[vcpu] = g_ptr_array_new();
        w->counts[vcpu] = g_hash_table_new(NULL, NULL);
    }
    if (time - w->since[vcpu] >= TICK) {
        put_samples(w, vcpu);
        w->since[vcpu] = time;
    }
    count = GPOINTER_TO_SIZE(g_hash_table_lookup(w->counts[vcpu], node));
    if (!count) {
        g_ptr_array_add(w->order[vcpu], (gpointer)node);
    }
    g_hash_table_insert(w->counts[vcpu], (gpointer)node,
                        GSIZE_TO_POINTER(count + records));
    w->last[vcpu] = time;
}

static void put_all_samples(void *opaque, const struct call_tree *t)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        put_samples(opaque, i);
    }
}

int export_perf(struct export *e)
{
    static const struct call_tree_ops ops = {
        .spent = add_records, .spill = put_all_samples,
    };
    struct perf_writer *w = g_new0(struct perf_writer, 1);
    struct call_tree t;
    int ret;

    w->e = e;
    ret = analysis_read_calls(&e->in, &t, &ops, w);
    if (!ret) {
        put_all_samples(w, &t);
        export_end_calls(e, &t);
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (w->order[i]) {
            g_ptr_array_unref(w->order[i]);
            g_hash_table_unref(w->counts[i]);
        }
    }
    g_free(w);
    return ret;
}
