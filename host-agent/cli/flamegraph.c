/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail flamegraph: writes call stacks as a flame graph, one HTML file that
 * needs no other
 */

#include <inttypes.h>
#include <string.h>

#include "cli/analysis.h"
#include "cli/result.h"
#include "util/quote.h"
#include "flamegraph-html.h"
#include "util/hash.h"

struct flame {
    FILE *out;
    const struct call_sum *sums;
    struct call_sum all;
    double min_share;
    GHashTable *names;          /* name -> its number + 1 */
    GPtrArray *list;            /* of char *, in the order of numbers */
    GString *frames;
};

static unsigned name_number(struct flame *f, const char *name)
{
    gpointer known = g_hash_table_lookup(f->names, name);

    if (!known) {
        char *copy = g_strdup(name);

        g_ptr_array_add(f->list, copy);
        known = GUINT_TO_POINTER(f->list->len);
        g_hash_table_insert(f->names, copy, known);
    }
    return GPOINTER_TO_UINT(known) - 1;
}

static bool is_large(const struct flame *f, const struct stack_node *n)
{
    const struct call_sum *s = &f->sums[n->id];

    return (s->records || s->ticks) &&
           (s->records >= f->min_share * f->all.records ||
            s->ticks >= f->min_share * f->all.ticks);
}

static gint by_name(gconstpointer a, gconstpointer b)
{
    const struct stack_node *x = *(const struct stack_node *const *)a;
    const struct stack_node *y = *(const struct stack_node *const *)b;
    char xs[256], ys[256];
    int order = strcmp(call_tree_name(x, xs, sizeof(xs)),
                       call_tree_name(y, ys, sizeof(ys)));

    return order ? order : x->id < y->id ? -1 : x->id > y->id;
}

/* Writes frames of nodes that are large; returns their number. */
static unsigned put_nodes(struct flame *f, const struct stack_node *first);

static void put_node(struct flame *f, const struct stack_node *n)
{
    const struct call_sum *s = &f->sums[n->id];
    uint64_t records = s->records, ticks = s->ticks;
    const struct stack_node *child;
    char buf[256];
    GString *below, *frames;
    unsigned count;

    for (child = n->child; child; child = child->next) {
        if (is_large(f, child)) {
            records -= f->sums[child->id].records;
            ticks -= f->sums[child->id].ticks;
        }
    }
    frames = f->frames;
    below = f->frames = g_string_new(NULL);
    count = put_nodes(f, n->child);
    f->frames = frames;
    g_string_append_printf(frames, ",%u,%u,%" PRIu64 ",%" PRIu64 ",%u%s",
                           name_number(f, call_tree_name(n, buf, sizeof(buf))),
                           !n->function ? 0 : n->function->module->kernel ?
                           2 : 1, records, ticks / STACK_TICKS, count,
                           below->str);
    g_string_free(below, TRUE);
}

static unsigned put_nodes(struct flame *f, const struct stack_node *first)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();

    for (; first; first = first->next) {
        if (is_large(f, first)) {
            g_ptr_array_add(nodes, (gpointer)first);
        }
    }
    g_ptr_array_sort(nodes, by_name);
    for (unsigned i = 0; i < nodes->len; i++) {
        put_node(f, nodes->pdata[i]);
    }
    return nodes->len;
}

/* Text that the page shows, as a string of JSON in HTML */
static void put_text(FILE *out, const char *text)
{
    g_autofree char *quoted = btrail_quote(text, "");
    g_autoptr(GString) string = g_string_new(NULL);

    btrail_quote_json(string, quoted, BTRAIL_QUOTE_STRING "<>&");
    fprintf(out, "\"%s\"", string->str);
}

/*
 * Writes the file.  A function whose share of the records and of the time is
 * smaller than @min_share (from 0 to 1) is counted as part of its caller.
 */
static void flame_write(FILE *out, const struct call_tree *t, const char *title,
                        double min_share)
{
    g_autofree struct call_sum *sums = call_tree_sums(t);
    struct flame f = { .out = out, .sums = sums, .min_share = min_share };
    const struct stack_node *n;
    unsigned i, count;

    for (n = stacks_roots(t->stacks); n; n = n->next) {
        f.all.records += sums[n->id].records;
        f.all.ticks += sums[n->id].ticks;
    }
    f.names = g_hash_table_new(btrail_str_hash, g_str_equal);
    f.list = g_ptr_array_new_with_free_func(g_free);
    f.frames = g_string_new(NULL);
    name_number(&f, "all");
    count = put_nodes(&f, stacks_roots(t->stacks));
    fputs(template_before, out);
    fputs("{\"title\":", out);
    put_text(out, title);
    fputs(",\"names\":[", out);
    for (i = 0; i < f.list->len; i++) {
        if (i) {
            fputc(',', out);
        }
        put_text(out, f.list->pdata[i]);
    }
    fprintf(out, "],\"frames\":[0,0,0,0,%u%s]}", count, f.frames->str);
    fputs(template_after, out);
    g_string_free(f.frames, TRUE);
    g_hash_table_unref(f.names);
    g_ptr_array_unref(f.list);
}

static int draw(const struct analysis *a, const char *path, double min_share)
{
    g_autofree char *name = g_path_get_basename(a->trace.path);
    struct result out;
    struct call_tree t;
    int ret = analysis_read_calls(a, &t, NULL, NULL), code = CLI_FAILED;

    if (ret) {
        return analysis_failed(a, ret);
    }
    if (result_open(&out, path)) {
        uint64_t missing = stacks_counts(t.stacks)->dropped;
        g_autofree char *what = missing ? g_strdup_printf(
            "%s, without %" PRIu64 " calls: there are too many different "
            "stacks", name, missing) : g_strdup(name);

        flame_write(out.file, &t, what, min_share / 100);
        if (result_close(&out)) {
            analysis_warn(&t);
            code = analysis_chosen(a, t.chosen, NULL) ?:
                   cli_trace_verdict(&a->trace, t.damage);
        }
    }
    call_tree_clear(&t);
    return code;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct analysis a = { NULL };
    g_autofree char *path = NULL;
    int code = CLI_USAGE;
    double min_share = 0.01;
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
          "output file (default: standard output)", "FILE" },
        ANALYSIS_CPU_ENTRY(&a),
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "count functions with a smaller share as part of their "
          "callers (default: 0.01)", "PERCENT" },
        ANALYSIS_ENTRIES(&a),
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Draw call stacks, by branches and by time, as one HTML "
                   "file for a browser.")) {
        code = CLI_USAGE;
    } else if (!(min_share >= 0 && min_share <= 100)) {
        cli_error("--min-share: %g is not between 0 and 100", min_share);
    } else if (analysis_parse(&a)) {
        code = analysis_open(&a, argv + 1, true) ?
               draw(&a, path, min_share) : CLI_FAILED;
    }
    analysis_clear(&a);
    return code;
}
