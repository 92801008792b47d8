/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail flamegraph: writes call stacks as a flame graph, one HTML file that
 * needs no other
 */

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "cli/analysis.h"
#include "cli/away-frames.h"
#include "cli/between.h"
#include "cli/complete.h"
#include "cli/result.h"
#include "flamegraph-html.h"
#include "util/hash.h"
#include "util/quote.h"

/* The traces of a picture: the one that is drawn, and one to compare with */
enum { AFTER, BEFORE, TRACES };

/* A function, by name, as called along a path */
struct frame {
    unsigned name;
    unsigned kind;              /* 0: command, 1: user, 2: kernel, 3: text */
    uint64_t records[TRACES];   /* without those of the frames in it */
    uint64_t ticks[TRACES];
    GPtrArray *frames;          /* that it called */
};

/* @timed: something took time */
struct flame {
    FILE *out;
    bool compares;
    bool off_cpu;
    bool timed;
    double min_share;
    GHashTable *names;          /* name -> its number + 1 */
    GPtrArray *list;            /* of char *, in the order of numbers */
    GHashTable *frames;         /* frame around, name and kind -> frame */
    GPtrArray *notes;           /* of char * */
};

/* A trace that is added.  @frames: of nodes, by their ids, or NULL */
struct flame_trace {
    struct flame *flame;
    unsigned which;
    const struct call_sum *sums;
    struct frame **frames;
    struct call_sum all;
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

static void free_frame(gpointer p)
{
    struct frame *frame = p;

    g_ptr_array_unref(frame->frames);
    g_free(frame);
}

static struct frame *new_frame(unsigned name, unsigned kind)
{
    struct frame *frame = g_new0(struct frame, 1);

    frame->name = name;
    frame->kind = kind;
    frame->frames = g_ptr_array_new_with_free_func(free_frame);
    return frame;
}

static struct frame *frame_named(struct flame *f, struct frame *around,
                                 const char *text, unsigned kind)
{
    unsigned name = name_number(f, text);
    uint64_t key[2] = { (uintptr_t)around, (uint64_t)name << 2 | kind };
    struct frame *frame = g_hash_table_lookup(f->frames, key);

    if (!frame) {
        frame = new_frame(name, kind);
        g_ptr_array_add(around->frames, frame);
        g_hash_table_insert(f->frames, g_memdup2(key, sizeof(key)), frame);
    }
    return frame;
}

/* The frame of a node in another frame */
static struct frame *frame_in(struct flame *f, struct frame *around,
                              const struct stack_node *n)
{
    unsigned kind = !n->function ? 0 : n->function->module->kernel ? 2 : 1;
    char buf[256];

    return frame_named(f, around, call_tree_name(n, buf, sizeof(buf)), kind);
}

static bool is_large(const struct flame_trace *t, const struct stack_node *n)
{
    const struct call_sum *s = &t->sums[n->id];
    double min_share = t->flame->min_share;

    return (s->records || s->ticks) &&
           (s->records >= min_share * t->all.records ||
            s->ticks >= min_share * t->all.ticks);
}

/* Adds the nodes that are large.  The tree is at most STACK_MAX_DEPTH deep. */
static void add_nodes(struct flame_trace *t, struct frame *around,
                      const struct stack_node *n)
{
    for (; n; n = n->next) {
        const struct call_sum *s = &t->sums[n->id];
        uint64_t records = s->records, ticks = s->ticks;
        const struct stack_node *child;
        struct frame *frame;

        if (!is_large(t, n)) {
            continue;
        }
        for (child = n->child; child; child = child->next) {
            if (is_large(t, child)) {
                records -= t->sums[child->id].records;
                ticks -= t->sums[child->id].ticks;
            }
        }
        frame = frame_in(t->flame, around, n);
        frame->records[t->which] += records;
        frame->ticks[t->which] += ticks;
        if (t->frames) {
            t->frames[n->id] = frame;
        }
        add_nodes(t, frame, n->child);
    }
}

/* Moves what tasks were away from a function to what stands on it. */
static void add_away(struct flame_trace *t, const struct off_cpu_sum *sum)
{
    g_autoptr(GArray) frames = away_frames(sum);
    struct frame *frame = t->frames[sum->node->id];

    if (!frame || sum->ticks < t->flame->min_share * t->all.ticks) {
        return;
    }
    frame->records[t->which] -= sum->times;
    frame->ticks[t->which] -= sum->ticks;
    for (guint i = 0; i < frames->len; i++) {
        const struct away_frame *on = &g_array_index(frames, struct away_frame,
                                                     i);

        frame = on->node ? frame_in(t->flame, frame, on->node) :
                frame_named(t->flame, frame, on->text, 3);
    }
    frame->records[t->which] += sum->times;
    frame->ticks[t->which] += sum->ticks;
}

static gint by_name(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const struct frame *x = *(const struct frame *const *)a;
    const struct frame *y = *(const struct frame *const *)b;
    const struct flame *f = opaque;

    return strcmp(f->list->pdata[x->name], f->list->pdata[y->name]) ?:
           (int)x->kind - (int)y->kind;
}

static void put_frame(const struct flame *f, const struct frame *frame)
{
    fprintf(f->out, "%u,%u", frame->name, frame->kind);
    for (unsigned i = 0; i < (f->compares ? TRACES : 1); i++) {
        fprintf(f->out, ",%" PRIu64 ",%" PRIu64, frame->records[i],
                frame->ticks[i] / STACK_TICKS);
    }
    fprintf(f->out, ",%u", frame->frames->len);
    g_ptr_array_sort_with_data(frame->frames, by_name, (gpointer)f);
    for (unsigned i = 0; i < frame->frames->len; i++) {
        fputc(',', f->out);
        put_frame(f, frame->frames->pdata[i]);
    }
}

/* Text that the page shows, as a string of JSON in HTML */
static void put_text(FILE *out, const char *text)
{
    g_autofree char *quoted = btrail_quote(text, "");
    g_autoptr(GString) string = g_string_new(NULL);

    btrail_quote_json(string, quoted, BTRAIL_QUOTE_STRING "<>&");
    fprintf(out, "\"%s\"", string->str);
}

static void put_texts(FILE *out, const GPtrArray *texts)
{
    fputc('[', out);
    for (unsigned i = 0; i < texts->len; i++) {
        if (i) {
            fputc(',', out);
        }
        put_text(out, texts->pdata[i]);
    }
    fputc(']', out);
}

static void G_GNUC_PRINTF(2, 3) note(struct flame *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_ptr_array_add(f->notes, g_strdup_vprintf(format, args));
    va_end(args);
}

/* Notes which records are in the picture. */
static void note_choice(struct flame *f, const struct analysis *a,
                        const struct between *b)
{
    const struct {
        const char *name;
        const char *text;
    } options[] = {
        { "filter", a->filter_text }, { "comm", a->comm_text },
        { "cpu", a->cpu_text }, { "time", a->time_text },
    };

    if (a->off_cpu) {
        note(f, "the time in which tasks did not run, by where they were then, "
             "and who woke them");
    }
    if (a->paused) {
        note(f, "without %.3f s in which the whole guest was paused",
             a->paused / 1e9);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (options[i].text) {
            note(f, "only --%s %s", options[i].name, options[i].text);
        }
    }
    if (b->given) {
        note(f, "only --between '%s' '%s'", b->texts[0], b->texts[1]);
    }
    if (f->min_share > 0) {
        note(f, "functions with less than %g%% are part of their callers",
             100 * f->min_share);
    }
}

/* Notes what is missing. */
static void note_counts(struct flame *f, const char *path,
                        const struct call_tree *t)
{
    const struct stack_counts *c = stacks_counts(t->stacks);
    g_autofree char *name = g_path_get_basename(path);

    if (t->forgotten) {
        note(f, "%s: %" PRIu64 " times a task was away and it is not known for "
             "how long, which is left out", name, t->forgotten);
    }
    if (t->gaps) {
        note(f, "%s: records are missing in %" PRIu64 " places", name, t->gaps);
    }
    if (c->no_code) {
        note(f, "%s: the instructions of %" PRIu64 " records are unknown; "
             "their calls and returns are guessed", name, c->no_code);
    }
    if (c->dropped) {
        note(f, "%s: %" PRIu64 " calls are part of their callers: there are "
             "too many different stacks", name, c->dropped);
    }
    if (c->deep) {
        note(f, "%s: %" PRIu64 " calls are below fewer callers than they had",
             name, c->deep);
    }
}

/* Adds a trace.  Returns an exit code. */
static int add_trace(struct flame *f, const struct analysis *a,
                     unsigned which, struct frame *root)
{
    struct flame_trace trace = { .flame = f, .which = which };
    const struct off_cpu_sum *sum;
    const struct stack_node *n;
    struct call_tree t;
    int ret = analysis_read_calls(a, &t, NULL, NULL), code;

    if (ret) {
        return analysis_failed(a, ret);
    }
    trace.sums = call_tree_sums(&t);
    for (n = stacks_roots(t.stacks); n; n = n->next) {
        trace.all.records += trace.sums[n->id].records;
        trace.all.ticks += trace.sums[n->id].ticks;
    }
    trace.frames = !a->off_cpu ? NULL :
                   g_new0(struct frame *, stacks_nodes(t.stacks) + 1);
    add_nodes(&trace, root, stacks_roots(t.stacks));
    for (size_t i = 0; a->off_cpu && (sum = off_cpu_sums_get(t.away, i));
         i++) {
        add_away(&trace, sum);
    }
    g_free(trace.frames);
    g_free((gpointer)trace.sums);
    f->timed |= trace.all.ticks > 0;
    note_counts(f, a->trace.path, &t);
    if (a->off_cpu && !t.told) {
        note(f, "who woke tasks, and when, is not in the trace");
    }
    analysis_warn(&t);
    /* Tasks can be away while none runs. */
    code = analysis_chosen(a, a->off_cpu ? trace.all.records : t.chosen,
                           NULL) ?:
           cli_trace_verdict(&a->trace, t.damage);
    if (a->off_cpu && !t.tasks) {
        cli_error("%s: --off-cpu: the trace names no tasks; see backtrail "
                  "info", a->trace.path);
        code = CLI_FAILED;
    }
    call_tree_clear(&t);
    return code;
}

/* Writes the page. */
static void put_page(const struct flame *f, const char *title,
                     const char *before, const struct frame *root)
{
    fputs(template_before, f->out);
    fputs("{\"title\":", f->out);
    put_text(f->out, title);
    if (before) {
        fputs(",\"before\":", f->out);
        put_text(f->out, before);
    }
    if (f->off_cpu) {
        fputs(",\"offCpu\":true", f->out);
    }
    if (f->timed) {
        fputs(",\"timed\":true", f->out);
    }
    fputs(",\"notes\":", f->out);
    put_texts(f->out, f->notes);
    fputs(",\"names\":", f->out);
    put_texts(f->out, f->list);
    fputs(",\"frames\":[", f->out);
    put_frame(f, root);
    fputs("]}", f->out);
    fputs(template_after, f->out);
}

/* @before: the trace to compare with, or NULL */
static int draw(const struct analysis *a, const struct between *b,
                const struct analysis *before, const char *path,
                double min_share)
{
    g_autofree char *title = g_path_get_basename(a->trace.path);
    g_autofree char *other = before ?
                             g_path_get_basename(before->trace.path) : NULL;
    struct flame f = {
        .compares = before, .off_cpu = a->off_cpu, .min_share = min_share / 100,
        .names = g_hash_table_new(btrail_str_hash, g_str_equal),
        .list = g_ptr_array_new_with_free_func(g_free),
        .frames = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                        g_free, NULL),
        .notes = g_ptr_array_new_with_free_func(g_free),
    };
    struct frame *root = new_frame(name_number(&f, "all"), 0);
    struct result out;
    int code, code_before = CLI_OK;

    note_choice(&f, a, b);
    code = add_trace(&f, a, AFTER, root);
    if (before) {
        code_before = add_trace(&f, before, BEFORE, root);
    }
    /* A damaged trace is drawn as far as it can be read. */
    if (code != CLI_FAILED && code_before != CLI_FAILED) {
        code = code ?: code_before;
        if (result_open(&out, path)) {
            f.out = out.file;
            put_page(&f, title, other, root);
            code = result_close(&out) ? code : CLI_FAILED;
        } else {
            code = CLI_FAILED;
        }
    } else {
        code = CLI_FAILED;
    }
    free_frame(root);
    g_hash_table_unref(f.frames);
    g_hash_table_unref(f.names);
    g_ptr_array_unref(f.list);
    g_ptr_array_unref(f.notes);
    return code;
}

static bool open_trace(struct analysis *a, struct between *b,
                       char *const *paths)
{
    return analysis_open(a, paths, true) &&
           (!a->off_cpu || analysis_check_off_cpu(a, "--off-cpu")) &&
           (!b->given || between_restrict(b, a)) &&
           (a->off_cpu ? analysis_leave_out_pauses :
            analysis_leave_out_waits)(a);
}

/* Opens the traces, and draws them. */
static int open_and_draw(struct analysis *a, struct between *b,
                         char *const *paths, char *const *before_paths,
                         const char *path, double min_share)
{
    struct analysis before = *a;
    struct between before_b;
    int code = CLI_FAILED;

    between_copy(&before_b, b);
    /* It gets spans of its own. */
    before.filter = NULL;
    if (analysis_parse(&before) && open_trace(a, b, paths)) {
        if (!before_paths) {
            code = draw(a, b, NULL, path, min_share);
        } else if (open_trace(&before, &before_b, before_paths)) {
            code = draw(a, b, &before, path, min_share);
        }
    }
    /* Its options are those of the other one. */
    between_clear(&before_b);
    filter_free(before.filter);
    times_free(before.unpaused);
    times_free(before.waits);
    symbolizer_free(before.names);
    if (before.trace.trace) {
        cli_trace_close(&before.trace);
    }
    return code;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct analysis a = { NULL };
    struct between between = { FALSE };
    g_autofree char *path = NULL;
    g_auto(GStrv) before = NULL;
    int code = CLI_USAGE;
    double min_share = 0.01;
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
          "output file (default: standard output)", "FILE" },
        { "before", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &before,
          "show what is more and less than in this trace; can be repeated for "
          "its parts", "FILE" },
        { "off-cpu", 0, 0, G_OPTION_ARG_NONE, &a.off_cpu,
          "the time in which tasks did not run, by the call stacks that they "
          "left their vCPUs with", NULL },
        BETWEEN_ENTRIES(&between, "only records of spans from A to B, which "
                        "are the first two operands"),
        ANALYSIS_CPU_ENTRY(&a),
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "count functions with a smaller share as part of their "
          "callers (default: 0.01)", "PERCENT" },
        ANALYSIS_ENTRIES(&a),
        { NULL }
    };

    cli_complete_value("HOW", between_pair_name);
    if (!cli_parse(&argc, &argv, entries, -1, "[A B] FILE...",
                   "Draw call stacks, by branches and by time, as one HTML "
                   "file for a browser.")) {
        code = CLI_USAGE;
    } else if (!(min_share >= 0 && min_share <= 100)) {
        cli_error("--min-share: %g is not between 0 and 100", min_share);
    } else if (between_parse(&between, &argc, &argv) && analysis_parse(&a)) {
        code = open_and_draw(&a, &between, argv + 1, before, path, min_share);
    }
    between_clear(&between);
    analysis_clear(&a);
    return code;
}
