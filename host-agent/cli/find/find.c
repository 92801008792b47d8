/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail find: moments at which something happened
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "cli/find/find.h"

/* What is printed without --limit and --depth */
#define LIMIT       10
#define CALLERS     50
#define DEPTH       16
#define MOST_DEPTH  (STACK_MAX_DEPTH + 1)

static int failed(const struct find_options *o, const GError *error)
{
    cli_error("%s: %s", o->in.trace.path, error->message);
    return CLI_FAILED;
}

static int nothing(const struct find_options *o, const struct finder *f)
{
    g_autofree char *hint = analysis_comm_hint(&o->in);

    cli_error("%s: %s%s", o->in.trace.path,
              finder_missing(f) ?: "it did not happen", hint ?: "");
    return CLI_FAILED;
}

/* Says that more may be meant.  What is counted is printed alone. */
static void print_unknown(const struct find_options *o,
                          const struct finder *f, bool alone)
{
    bool wakes = o->what.kind == FIND_EVENT_WAKE;
    uint64_t n = finder_unknown(f);
    g_autofree char *text = g_strdup_printf(
        "%" PRIu64 " more %s may be meant, of which the trace does not say %s",
        n, wakes ? "wake-ups" : "switches",
        wakes ? "who wakes whom" : "who leaves, or why");

    if (n && (alone || o->json)) {
        cli_error("%s: %s", o->in.trace.path, text);
    } else if (n) {
        cli_printf("# %s\n", text);
    }
}

static void add_one(void *opaque, unsigned worker, const struct visit *visit)
{
    ((uint64_t *)opaque)[worker * 16]++;
}

static int print_count(struct find_options *o, struct finder *f)
{
    /* Each thread has a line of the cache. */
    g_autofree uint64_t *counts = g_new0(uint64_t, o->threads * 16);
    g_autoptr(GError) error = NULL;
    struct find_moment found;
    uint64_t n = 0;

    if (finder_has_threads(f)) {
        finder_each(f, add_one, counts, &error);
        for (unsigned i = 0; i < o->threads; i++) {
            n += counts[i * 16];
        }
    } else {
        while (finder_next(f, &found, &error)) {
            n++;
        }
    }
    if (error) {
        return failed(o, error);
    }
    if (!n && finder_missing(f)) {
        return nothing(o, f);
    }
    if (o->json) {
        cli_printf("{\"count\":%" PRIu64 "}\n", n);
    } else {
        cli_printf("%" PRIu64 "\n", n);
    }
    print_unknown(o, f, true);
    return CLI_OK;
}

/*
 * Finds the @n-th moment from the end, the last one being 1.  Returns @n, or
 * the number of moments if there are fewer.
 */
static uint64_t find_from_end(struct finder *f, uint64_t n,
                              struct find_moment *found, GError **error)
{
    g_autofree struct find_moment *last = NULL;
    uint64_t all = 0;

    if (finder_goes_back(f)) {
        while (all < n && finder_previous(f, found, error)) {
            all++;
        }
        return all;
    }
    last = g_new(struct find_moment, n);
    while (finder_next(f, found, error)) {
        last[all++ % n] = *found;
    }
    if (all >= n) {
        *found = last[all % n];
        return n;
    }
    return all;
}

/* Prints one moment. */
static int print_nth(struct find_options *o, struct finder *f)
{
    uint64_t n = o->nth < 0 ? -(uint64_t)o->nth : (uint64_t)o->nth, all = 0;
    g_autoptr(GError) error = NULL;
    struct find_moment found;
    struct find_printer *p;

    if (o->nth < 0) {
        all = find_from_end(f, n, &found, &error);
    } else {
        while (all < n && finder_next(f, &found, &error)) {
            all++;
        }
    }
    if (error) {
        return failed(o, error);
    }
    if (!all) {
        return nothing(o, f);
    }
    if (all < n) {
        cli_error("%s: it happened %" PRIu64 " times", o->in.trace.path,
                  all);
        return CLI_FAILED;
    }
    p = find_printer_new(o);
    finder_complete(f, &found);
    find_print(p, &found);
    find_printer_free(p);
    return CLI_OK;
}

static int print_all(struct find_options *o, struct finder *f)
{
    struct find_printer *p = NULL;
    g_autoptr(GError) error = NULL;
    struct find_moment found;
    uint64_t n = 0;
    bool more = false;

    while (finder_next(f, &found, &error)) {
        if (n == o->limit) {
            more = true;
            if (!o->json) {
                cli_printf("# ... there are more; see --limit, --count and "
                           "--last\n");
            }
            break;
        }
        p = p ?: find_printer_new(o);
        finder_complete(f, &found);
        find_print(p, &found);
        n++;
    }
    find_printer_free(p);
    if (error) {
        return failed(o, error);
    }
    if (!n && !more) {
        print_unknown(o, f, true);
        return nothing(o, f);
    }
    print_unknown(o, f, false);
    return CLI_OK;
}

static int run(struct find_options *o, char *const *paths)
{
    g_autoptr(GError) error = NULL;
    struct finder *f;
    int code, verdict;

    if (!analysis_open(&o->in, paths, true)) {
        return CLI_FAILED;
    }
    f = finder_new(o, &error);
    if (!f) {
        return failed(o, error);
    }
    signal(SIGPIPE, SIG_DFL);
    code = o->callers_of ? find_callers(o, f) : o->count ? print_count(o, f) :
           o->nth ? print_nth(o, f) : print_all(o, f);
    if (fflush(stdout) || ferror(stdout)) {
        cli_error("cannot write: %s", g_strerror(errno));
        code = CLI_FAILED;
    }
    verdict = cli_trace_verdict(&o->in.trace, finder_damage(f));
    finder_free(f);
    return code ? code : verdict;
}

/* Values as they were given */
struct given {
    char *limit;
    char *depth;
    char *nth;
    char *threads;
    gboolean last;
    gboolean count;
    gboolean json;
    gboolean stack;
    gboolean no_stack;
    gboolean between;
};

static bool parse_nth(struct find_options *o, const char *text)
{
    bool back = *text == '-';
    uint64_t n;

    if (!parse_text_number(text + back, NULL, &n) || !n ||
        n > (back ? 1u << 20 : INT64_MAX)) {
        cli_error("--nth: '%s' is not a number from 1 on, or from -1 to -%u "
                  "from the end", text, 1u << 20);
        return false;
    }
    o->nth = back ? -(gint64)n : (gint64)n;
    return true;
}

static bool parse_values(struct find_options *o, const struct given *g)
{
    uint64_t depth = DEPTH;

    o->limit = o->callers_of ? CALLERS : LIMIT;
    o->count = g->count;
    o->json = g->json;
    o->stack = !g->no_stack;
    if ((g->limit && !cli_parse_u64("--limit", g->limit, &o->limit)) ||
        (g->depth && !cli_parse_u64("--depth", g->depth, &depth)) ||
        (g->nth && !parse_nth(o, g->nth)) ||
        !cli_parse_threads(g->threads, &o->threads)) {
        return false;
    }
    o->depth = MIN(depth, MOST_DEPTH);
    if (!!g->nth + g->last + g->count + !!o->callers_of > 1) {
        cli_error("of --nth, --last, --count and --callers-of, only one can be "
                  "given");
        return false;
    }
    if (g->stack && g->no_stack) {
        cli_error("--stack and --no-stack contradict each other");
        return false;
    }
    o->nth = g->last ? -1 : o->nth;
    return true;
}

/* What is looked for: an operand, or the function of --callers-of */
static bool parse_what(struct find_options *o, char ***argv)
{
    const char *text = o->callers_of;
    g_autoptr(GError) error = NULL;

    if (!text) {
        text = *++*argv;
    }
    if (!find_event_parse(text, &o->what, &error)) {
        cli_error("%s", error->message);
        return false;
    }
    if (o->callers_of && o->what.kind != FIND_EVENT_FUNCTION) {
        cli_error("--callers-of: '%s' is not FUNCTION or PROCESS:FUNCTION",
                  text);
        return false;
    }
    return true;
}

/* The two places after --between, which takes them from the operands */
static bool take_places(struct find_options *o, int *argc, char ***argv)
{
    if (*argc < 4) {
        cli_error("--between needs two places before what is looked for");
        return false;
    }
    o->between = *argv + 1;
    return true;
}

int cmd_find(int argc, char **argv)
{
    struct find_options o = { .nth = 0 };
    struct given g = { .limit = NULL };
    g_auto(GStrv) between = NULL;
    const GOptionEntry entries[] = {
        { "nth", 0, 0, G_OPTION_ARG_STRING, &g.nth,
          "only the Nth one; -1 is the last one", "N" },
        { "last", 0, 0, G_OPTION_ARG_NONE, &g.last, "only the last one",
          NULL },
        { "count", 0, 0, G_OPTION_ARG_NONE, &g.count, "only how many", NULL },
        { "limit", 0, 0, G_OPTION_ARG_STRING, &g.limit,
          "at most N (default: 10; of callers: 50)", "N" },
        { "callers-of", 0, 0, G_OPTION_ARG_STRING, &o.callers_of,
          "instead of moments, who has called FUNCTION, and how often",
          "FUNCTION" },
        { "between", 0, 0, G_OPTION_ARG_NONE, &g.between,
          "only from place A to before place B, which are the first two "
          "operands", NULL },
        { "while", 0, 0, G_OPTION_ARG_STRING, &o.meanwhile,
          "only while this is true, such as 'cpu 0: in mutex_lock'",
          "CONDITION" },
        { "stack", 0, 0, G_OPTION_ARG_NONE, &g.stack,
          "print call stacks (the default)", NULL },
        { "no-stack", 0, 0, G_OPTION_ARG_NONE, &g.no_stack,
          "print no call stacks", NULL },
        { "depth", 0, 0, G_OPTION_ARG_STRING, &g.depth,
          "at most N functions of a call stack (default: 16)", "N" },
        ANALYSIS_CPU_ENTRY(&o.in),
        ANALYSIS_ENTRIES(&o.in),
        { "json", 0, 0, G_OPTION_ARG_NONE, &g.json,
          "print one JSON object per line", NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &g.threads,
          "count with N threads (default: one per CPU)", "N" },
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, -1, "[A B] WHAT FILE...",
                  "Find the moments at which something happened: FUNCTION, "
                  "PROCESS:FUNCTION, *ADDRESS, 'switch to TASK', 'wake TASK', "
                  "'syscall NAME', 'interrupt N', 'exception N', mark:NAME, or "
                  "a place, such as 'output \"TEXT\"' of a recording.") &&
        parse_values(&o, &g) && analysis_parse(&o.in)) {
        if (g.between && !take_places(&o, &argc, &argv)) {
            goto out;
        }
        if (g.between) {
            between = g_new0(char *, 3);
            between[0] = g_strdup(argv[1]);
            between[1] = g_strdup(argv[2]);
            o.between = between;
            argv += 2;
            argc -= 2;
        }
        if (argc < 2 + !o.callers_of) {
            cli_error("name what is looked for, and a trace");
        } else if (parse_what(&o, &argv)) {
            code = run(&o, argv + 1);
        }
    }
out:
    find_event_clear(&o.what);
    analysis_clear(&o.in);
    g_free(o.callers_of);
    g_free(o.meanwhile);
    g_free(g.nth);
    g_free(g.limit);
    g_free(g.depth);
    g_free(g.threads);
    return code;
}
