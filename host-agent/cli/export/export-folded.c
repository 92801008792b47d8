/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format folded: one line per stack, as flamegraph.pl and
 * others read them
 */

#include <inttypes.h>
#include <string.h>

#include "cli/away-frames.h"
#include "cli/export/export.h"
#include "util/quote.h"

#define DIGITS  "0123456789"
#define US      (UINT64_C(1000) * STACK_TICKS)

/* @rest: ticks, less than a microsecond, that no line has yet */
struct folded {
    const struct export *e;
    uint64_t rest;
};

/*
 * Each line has whole microseconds, and some the rest of those before: then the
 * lines of any function and of all that it has called, which follow each other,
 * add up to its time, however short each of them is.
 */
static uint64_t microseconds(struct folded *f, uint64_t ticks)
{
    uint64_t rest = f->rest + ticks % US;

    f->rest = rest % US;
    return ticks / US + rest / US;
}

/* flamegraph.pl takes a number at the end of a stack for another count. */
static bool ends_in_number(const char *name)
{
    const char *blank = strrchr(name, ' ');
    const char *end = blank ? blank + 1 + strspn(blank + 1, DIGITS) : NULL;

    if (!blank || end == blank + 1) {
        return false;
    }
    end += *end == '.' ? 1 + strspn(end + 1, DIGITS) : 0;
    return !*end;
}

static void put_frame(GString *line, const struct stack_node *n)
{
    const char *name;
    char buf[256];

    if (line->len) {
        g_string_append_c(line, ';');
    }
    name = call_tree_name(n, buf, sizeof(buf));
    btrail_quote_append(line, name, ends_in_number(name) ? " ;" : ";");
    if (n->function && n->function->module->kernel) {
        g_string_append(line, "_[k]");
    }
}

/* The tree is at most STACK_MAX_DEPTH deep. */
static void put_stacks(struct folded *f, const struct stack_node *n,
                       GString *line)
{
    size_t len = line->len;

    for (; n; n = n->next) {
        uint64_t value = f->e->by_time ? microseconds(f, n->ticks) :
                         n->records;

        put_frame(line, n);
        if (value) {
            fprintf(f->e->out, "%s %" PRIu64 "\n", line->str, value);
        }
        put_stacks(f, n->child, line);
        g_string_truncate(line, len);
    }
}

static void put_path(GString *line, const struct stack_node *n)
{
    if (n->parent) {
        put_path(line, n->parent);
    }
    put_frame(line, n);
}

/* Puts for how many microseconds tasks did not run, by where, and who woke
 * them. */
static void put_away(struct folded *f, const struct call_tree *t)
{
    g_autoptr(GString) line = g_string_new(NULL);
    const struct off_cpu_sum *sum;

    for (size_t i = 0; (sum = off_cpu_sums_get(t->away, i)); i++) {
        g_autoptr(GArray) frames = away_frames(sum);
        uint64_t us = microseconds(f, sum->ticks);

        g_string_truncate(line, 0);
        put_path(line, sum->node);
        for (guint k = 0; k < frames->len; k++) {
            const struct away_frame *on = &g_array_index(
                frames, struct away_frame, k);

            if (on->node) {
                put_frame(line, on->node);
            } else {
                g_string_append_printf(line, ";%s", on->text);
            }
        }
        if (us) {
            fprintf(f->e->out, "%s %" PRIu64 "\n", line->str, us);
        }
    }
}

/* A stack can have several lines, the numbers of which are to be added. */
static void put_tree(void *opaque, const struct call_tree *t)
{
    g_autoptr(GString) line = g_string_new(NULL);

    put_stacks(opaque, stacks_roots(t->stacks), line);
}

int export_folded(struct export *e)
{
    static const struct call_tree_ops ops = { .spill = put_tree };
    struct folded f = { e, 0 };
    struct call_tree t;
    bool off_cpu = e->in.off_cpu;
    int ret;

    if (off_cpu && !analysis_check_off_cpu(&e->in, "--off-cpu")) {
        return EXPORT_FAILED;
    }
    if (!(off_cpu ? analysis_leave_out_pauses :
          analysis_leave_out_waits)(&e->in)) {
        return EXPORT_FAILED;
    }
    ret = analysis_read_calls(&e->in, &t, off_cpu ? NULL : &ops, &f);
    if (ret) {
        return ret;
    }
    if (off_cpu && !t.tasks) {
        cli_error("%s: --off-cpu: the trace names no tasks; see backtrail "
                  "info", e->in.trace.path);
        ret = EXPORT_FAILED;
    } else if (off_cpu) {
        put_away(&f, &t);
    } else {
        put_tree(&f, &t);
    }
    export_end_calls(e, &t);
    return ret;
}
