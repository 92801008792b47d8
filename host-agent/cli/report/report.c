/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report: address spaces that ran, and their hottest edges
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "cli/complete.h"
#include "cli/report/report.h"
#include "util/json.h"

/*
 * Limits of what a file can make the command keep: more than any guest has,
 * and less than the memory of a small machine
 */
#define MAX_SPACES          65536
#define MAX_EDGES           (8u << 20)
#define MAX_TOP             1000

/* Values that no user gives */
#define DEFAULT_TOP         INT_MIN
#define DEFAULT_SHARE       -1000.

static struct symbolizer_where where_of(const struct space *s,
                                        const struct tally_moment *m)
{
    return (struct symbolizer_where) {
        .vcpu = m->vcpu, .index = m->index, .cr3 = s->key.cr3, .time = m->time,
        .kernel = s->key.kernel,
    };
}

/* The process that an address space belongs to */
static const struct process *owner(const struct report *r,
                                   const struct space *s,
                                   enum btrail_certainty *certainty)
{
    const struct symbolizer_where where = where_of(s, &s->last);

    return symbolizer_process(r->in.names, &where, certainty);
}

/* What an edge joins, if that is the same all the time */
static void find_places(const struct report *r, const struct space *s,
                        const struct process *process, const struct edge *e,
                        struct place *from, struct place *to)
{
    struct symbolizer_where where = where_of(s, &s->first);

    symbolizer_place_until(r->in.names, process, &where, s->last.time, e->from,
                           from);
    where.leaves = space_leaves(s, e->from, e->to);
    if (where.leaves) {
        symbolizer_target(r->in.names, process, &where, e->to, to);
    } else {
        symbolizer_place_until(r->in.names, process, &where, s->last.time,
                               e->to, to);
    }
}

static void name_place(JsonObject *o, const char *name,
                       const struct place *place, uint64_t address)
{
    char buf[NAMES_SIZE];

    if (place->function->known || place->function->module->elf) {
        json_object_set_string_member(o, name,
                                      names_text(place, address, buf));
    }
}

JsonObject *report_moment_json(const struct report *r,
                               const struct tally_moment *m)
{
    JsonObject *o = json_object_new();

    if (m->time) {
        btrail_json_add(o, "d:time",
                        ((double)m->time - r->in.trace.start) / 1e9,
                        "U:host", m->time, NULL);
    }
    btrail_json_add(o, "u:vcpu", m->vcpu, "U:index", m->index, NULL);
    return o;
}

static JsonArray *tasks_json(struct space_tasks *tasks, const struct space *s)
{
    JsonArray *array = json_array_new();
    size_t n;
    const struct space_task *all = space_tasks_of(tasks, &s->key, &n);

    for (size_t i = 0; i < n; i++) {
        const struct process *process = all[i].process;
        JsonObject *o = btrail_json_new(
            "U:records", all[i].records, "U:likely", all[i].likely,
            "S:comm", process->known ? process->comm : NULL, NULL);

        if (process->pid >= 0) {
            json_object_set_int_member(o, "pid", process->pid);
        }
        json_array_add_object_element(array, o);
    }
    return array;
}

static JsonObject *space_json(const struct report *r, const struct tally *t,
                              struct space_tasks *tasks,
                              const struct space *s, struct edge *top)
{
    enum btrail_certainty certainty;
    const struct process *process = owner(r, s, &certainty);
    JsonArray *vcpus = json_array_new(), *edges = json_array_new();
    size_t i, n = edges_top(s->group.edges, top, r->top);
    JsonObject *o = btrail_json_new(
        "X:cr3", s->key.cr3, "U:records", s->records,
        "d:share", report_share(s->records, t->sums.records),
        "S:comm", process->known ? process->comm : NULL, NULL);

    if (process->pid >= 0) {
        json_object_set_int_member(o, "pid", process->pid);
    }
    if (s->key.kernel) {
        btrail_json_add(o, "u:kernel", s->key.kernel == SYMBOLIZER_NO_KERNEL ?
                        0 : (unsigned)s->key.kernel, NULL);
    }
    for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (s->vcpus[i]) {
            json_array_add_int_element(vcpus, i);
        }
    }
    for (i = 0; i < n; i++) {
        JsonObject *edge = btrail_json_new("X:from", top[i].from,
                                           "X:to", top[i].to, NULL);
        struct place from, to;

        find_places(r, s, process, &top[i], &from, &to);
        name_place(edge, "from_name", &from, top[i].from);
        name_place(edge, "to_name", &to, top[i].to);
        json_object_set_int_member(edge, "count", top[i].count);
        json_array_add_object_element(edges, edge);
    }
    btrail_json_add(o, "s:certainty", btrail_certainty_name(certainty),
                    "U:spans", s->spans, "o:first",
                    report_moment_json(r, &s->first), "o:last",
                    report_moment_json(r, &s->last), "a:vcpus", vcpus,
                    "a:tasks", tasks_json(tasks, s), "a:edges", edges, NULL);
    return o;
}

static bool print_json(struct report *r, const struct tally *t,
                       struct space_tasks *tasks, struct edge *top)
{
    JsonObject *o;
    JsonArray *streams = json_array_new(), *spaces = json_array_new();
    struct btrail_stream_info info;
    unsigned i;

    for (i = 0; !btrail_trace_stream(r->in.trace.trace, i, &info); i++) {
        json_array_add_object_element(streams, btrail_json_new(
            "u:vcpu", info.vcpu, "U:records", info.records, NULL));
    }
    for (i = 0; i < t->spaces->len; i++) {
        json_array_add_object_element(spaces,
                                      space_json(r, t, tasks,
                                                 t->spaces->pdata[i], top));
    }
    o = btrail_json_new("U:records", t->sums.records, "U:lost", t->sums.lost,
                        "b:lost_unknown", t->sums.lost_unknown,
                        "a:streams", streams, "a:spaces", spaces,
                        "U:other_records", t->sums.others, NULL);
    if (!report_ran_json(r, o)) {
        json_object_unref(o);
        return false;
    }
    cli_print_json(o);
    return true;
}

static void print_moment(const struct report *r, const struct tally_moment *m)
{
    char time[CLI_TIME_SIZE];

    cli_printf("  %14s", cli_format_time(&r->in.trace, m->time, time));
}

static void print_name(const struct space_task *task)
{
    const struct process *process = task->process;

    cli_printf("  %s%s", task->likely ? "~" : "",
               process->known ? process->comm : "unknown");
    if (process->pid >= 0) {
        cli_printf(" %" PRId64, process->pid);
    }
}

/* The tasks of an address space, if there are several */
static void print_tasks(const struct report *r, const struct space_task *tasks,
                        size_t n, const struct space *s)
{
    uint64_t rest = s->records;
    size_t i;

    for (i = 0; n > 1 && i < n; i++) {
        double share = report_share(tasks[i].records, s->records);

        /* The rest have fewer records. */
        if (100 * share < r->min_share) {
            break;
        }
        cli_printf("    %13" PRIu64 "   %5.1f%%", tasks[i].records,
                   100 * share);
        print_name(&tasks[i]);
        cli_printf("\n");
        rest -= tasks[i].records;
    }
    if (i && i < n) {
        cli_printf("    %13" PRIu64 "   %5.1f%%  %zu more\n", rest,
                   100 * report_share(rest, s->records), n - i);
    }
}

/* A function, or the address alone */
static const char *edge_end(const struct place *place, uint64_t address,
                            char buf[NAMES_SIZE])
{
    if (place->function->known) {
        return names_text(place, address, buf);
    }
    g_snprintf(buf, NAMES_SIZE, "0x%016" PRIx64, address);
    return buf;
}

static void print_space(const struct report *r, const struct tally *t,
                        struct space_tasks *tasks, const struct space *s,
                        struct edge *top)
{
    enum btrail_certainty certainty;
    const struct process *process = owner(r, s, &certainty);
    size_t i, n_tasks, n = edges_top(s->group.edges, top, r->top);
    const struct space_task *all = space_tasks_of(tasks, &s->key, &n_tasks);

    cli_printf("0x%016" PRIx64 " %13" PRIu64 " %5.1f%% %9" PRIu64, s->key.cr3,
               s->records, 100 * report_share(s->records, t->sums.records),
               s->spans);
    print_moment(r, &s->first);
    print_moment(r, &s->last);
    if (n_tasks == 1 && all->process->known) {
        print_name(all);
    }
    cli_printf("\n");
    print_tasks(r, all, n_tasks, s);
    for (i = 0; i < n; i++) {
        char from[NAMES_SIZE], to[NAMES_SIZE];
        struct place from_place, to_place;

        find_places(r, s, process, &top[i], &from_place, &to_place);
        cli_printf("    %13" PRIu64 "   %5.1f%%  %s -> %s\n", top[i].count,
                   100 * report_share(top[i].count, s->records),
                   edge_end(&from_place, top[i].from, from),
                   edge_end(&to_place, top[i].to, to));
    }
    if (edges_others(s->group.edges)) {
        cli_printf("    %13" PRIu64 "           edges beyond the limit of "
                   "different edges\n", edges_others(s->group.edges));
    }
}

static bool print_text(struct report *r, const struct tally *t,
                       struct space_tasks *tasks, struct edge *top)
{
    uint64_t rest = 0;
    unsigned i;

    cli_printf("%" PRIu64 " records of %u vCPUs in %u address spaces, %" PRIu64
               "%s lost\n\n", t->sums.records,
               btrail_trace_streams(r->in.trace.trace), t->spaces->len,
               t->sums.lost, t->sums.lost_unknown ? " or more" : "");
    cli_hold();
    cli_printf("%-18s %13s %6s %9s  %14s  %14s  task\n", "cr3", "records",
               "share", "spans", "first (s)", "last (s)");
    cli_held();
    for (i = 0; i < t->spaces->len; i++) {
        const struct space *s = t->spaces->pdata[i];

        /* The rest have fewer records. */
        if (100 * report_share(s->records, t->sums.records) < r->min_share) {
            break;
        }
        print_space(r, t, tasks, s, top);
    }
    if (i < t->spaces->len) {
        unsigned shown = i;

        for (; i < t->spaces->len; i++) {
            rest += ((const struct space *)t->spaces->pdata[i])->records;
        }
        cli_printf("%-18u %13" PRIu64 " %5.1f%%   with less than %g%% each; "
                   "--min-share=0 shows them\n", i - shown, rest,
                   100 * report_share(rest, t->sums.records), r->min_share);
    }
    if (t->sums.others) {
        cli_printf("%-18s %13" PRIu64 " %5.1f%%\n", "others", t->sums.others,
                   100 * report_share(t->sums.others, t->sums.records));
    }
    return !t->sums.records || report_print_ran(r);
}

static int report_spaces(struct report *r)
{
    g_autofree struct edge *top = g_new(struct edge, r->top + 1);
    static const struct fold_limits limits = { MAX_SPACES, MAX_EDGES };
    struct space_tasks *tasks = space_tasks_new(r->in.names, r->in.filter,
                                                &r->in.window);
    struct tally tally;
    bool ok;
    int ret = tally_trace(&tally, r->in.trace.trace, tasks, r->threads,
                          &limits);

    if (ret) {
        space_tasks_free(tasks);
        return analysis_failed(&r->in, ret);
    }
    ok = (r->json ? print_json : print_text)(r, &tally, tasks, top);
    space_tasks_free(tasks);
    fflush(stdout);
    r->damage = tally.sums.damage;
    ret = ok ? analysis_chosen(&r->in, tally.sums.records, NULL) : CLI_FAILED;
    tally_clear(&tally);
    return ret;
}

/* What the options choose: at most one */
struct report_kind {
    char *sort;
    char *callers;
    char *callees;
    gboolean children;
    gboolean syscalls;
    gboolean interrupts;
    gboolean graph;
    gboolean missing;
    gboolean tasks;
    gboolean marks;
    gboolean spans;
};

static unsigned count_kinds(const struct report_kind *k)
{
    return !!k->sort + !!k->callers + !!k->callees + k->children +
           k->syscalls + k->interrupts + k->graph + k->missing + k->tasks +
           k->marks + k->spans;
}

/* These can be about what hardly ran. */
static bool has_few_rows(const struct report_kind *k)
{
    return k->callers || k->callees || k->syscalls || k->interrupts ||
           k->tasks || k->marks;
}

/* False after an error message. */
static bool check_kind(struct report *r, struct report_kind *k)
{
    if ((k->syscalls || k->interrupts) && k->sort) {
        r->latency.sort_text = g_steal_pointer(&k->sort);
    } else if (k->tasks && k->sort) {
        r->task_key = g_steal_pointer(&k->sort);
    }
    if (count_kinds(k) > 1) {
        cli_error("use only one of --sort, --children, --call-graph, "
                  "--callers, --callees, --syscalls, --interrupts, --tasks, "
                  "--missing, --marks and --spans");
        return false;
    }
    if (k->spans && !r->between.given) {
        cli_error("--spans needs --between");
        return false;
    }
    if (r->latency.bars && !k->syscalls && !k->interrupts && !k->tasks) {
        cli_error("--histogram needs --syscalls, --interrupts or --tasks");
        return false;
    }
    if (r->task_key && !report_check_task_key(r->task_key)) {
        return false;
    }
    if (k->tasks && r->in.filter_text) {
        cli_error("--filter does not go with --tasks, which decodes no "
                  "records; use --comm and --cpu");
        return false;
    }
    return latency_options_parse(&r->latency) &&
           (!k->sort || report_check_keys(k->sort));
}

static int print_report(struct report *r, const struct report_kind *k)
{
    if (r->between.given && !k->spans &&
        !between_restrict(&r->between, &r->in)) {
        return CLI_FAILED;
    }
    if (!k->spans && !k->marks && !k->sort && !k->missing && !k->interrupts &&
        !analysis_leave_out_waits(&r->in)) {
        return CLI_FAILED;
    }
    return k->spans ? report_spans(r) :
           k->tasks ? report_tasks(r) :
           k->marks ? report_marks(r) :
           k->sort ? report_sorted(r, k->sort) :
           k->graph ? report_call_graph(r) :
           k->missing ? report_missing(r) :
           k->children ? report_call_stacks(r, CALL_ROWS_CHILDREN, NULL) :
           k->callers ? report_call_stacks(r, CALL_ROWS_CALLERS, k->callers) :
           k->callees ? report_call_stacks(r, CALL_ROWS_CALLEES, k->callees) :
           k->syscalls ? report_syscalls(r) :
           k->interrupts ? report_interrupts(r) :
           report_spaces(r);
}

int cmd_report(int argc, char **argv)
{
    struct report r = { .latency.key = LATENCY_TOTAL };
    struct report_kind kind = { NULL };
    g_autofree char *threads = NULL;
    int top = DEFAULT_TOP, code = CLI_USAGE;
    bool spaces;
    double min_share = DEFAULT_SHARE;
    const GOptionEntry entries[] = {
        { "sort", 's', 0, G_OPTION_ARG_STRING, &kind.sort,
          "one row per combination of KEYS: comm, pid, tid, cr3, cpu, dso, "
          "sym, srcline, edge and more; with --syscalls and --interrupts, "
          "their order: count, total (default), mean, p50, p95, p99 or max; "
          "with --tasks: ran "
          "(default), off, waited, switches, mean, p50, p95, p99 or max", "KEYS" },
        { "children", 0, 0, G_OPTION_ARG_NONE, &kind.children,
          "functions, including their callees, from call stacks", NULL },
        { "call-graph", 'g', 0, G_OPTION_ARG_NONE, &kind.graph,
          "functions as they called each other, from call stacks", NULL },
        { "callers", 0, 0, G_OPTION_ARG_STRING, &kind.callers,
          "callers of FUNCTION", "FUNCTION" },
        { "callees", 0, 0, G_OPTION_ARG_STRING, &kind.callees,
          "callees of FUNCTION", "FUNCTION" },
        { "syscalls", 0, 0, G_OPTION_ARG_NONE, &kind.syscalls,
          "system calls of Linux, and how long they took", NULL },
        { "interrupts", 0, 0, G_OPTION_ARG_NONE, &kind.interrupts,
          "interrupts, their handlers, and softirqs of Linux, and how long "
          "they took", NULL },
        LATENCY_BARS_ENTRY(&r.latency),
        { "tasks", 0, 0, G_OPTION_ARG_NONE, &kind.tasks,
          "threads: how long they ran, and were off their vCPUs", NULL },
        { "missing", 0, 0, G_OPTION_ARG_NONE, &kind.missing,
          "files whose symbols are missing, and their build-ids", NULL },
        { "marks", 0, 0, G_OPTION_ARG_NONE, &kind.marks,
          "marks of programs: how often, values, and when", NULL },
        { "spans", 0, 0, G_OPTION_ARG_NONE, &kind.spans,
          "the spans of --between themselves, and how long they are", NULL },
        BETWEEN_ENTRIES(&r.between, "only records of spans from A to B, which "
                        "are the first two operands"),
        { "top", 0, 0, G_OPTION_ARG_INT, &top,
          "print N hottest edges of each address space (default: 3), or N "
          "rows of other reports (default: all)", "N" },
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "sum up everything with a smaller share of the records, or of both "
          "records and time (default: 1; 0.1 for rows, 0.5 for --call-graph; "
          "--json has all)",
          "PERCENT" },
        ANALYSIS_CPU_ENTRY(&r.in),
        ANALYSIS_ENTRIES(&r.in),
        { "json", 0, 0, G_OPTION_ARG_NONE, &r.json, "print JSON", NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &threads,
          "decode with N threads (default: one per CPU)", "N" },
        { NULL }
    };

    cli_complete_value("KEYS", report_key);
    cli_complete_value("HOW", between_pair_name);
    if (!cli_parse(&argc, &argv, entries, -1, "[A B] FILE...",
                   "Show the address spaces that ran, when, and their hottest "
                   "edges; or the functions that ran.")) {
        goto out;
    }
    spaces = !count_kinds(&kind);
    if (top == DEFAULT_TOP) {
        top = spaces ? 3 : 0;
    }
    r.top = top;
    r.min_share = min_share != DEFAULT_SHARE ? min_share :
                  spaces ? 1 : kind.graph ? 0.5 : has_few_rows(&kind) ? 0 : 0.1;
    if (top < 0 || top > MAX_TOP) {
        cli_error("--top: %d is not between 0 and %d", top, MAX_TOP);
    } else if (!(r.min_share >= 0 && r.min_share <= 100)) {
        cli_error("--min-share: %g is not between 0 and 100", min_share);
    } else if (cli_parse_threads(threads, &r.threads) &&
               check_kind(&r, &kind) &&
               between_parse(&r.between, &argc, &argv) &&
               analysis_parse(&r.in)) {
        code = CLI_FAILED;
        if (analysis_open(&r.in, argv + 1, true)) {
            code = print_report(&r, &kind);
            r.damage = MAX(r.damage, r.between.damage);
            fflush(stdout);
            if (!code) {
                code = cli_trace_verdict(&r.in.trace, r.damage);
            }
        }
    }
out:
    between_clear(&r.between);
    analysis_clear(&r.in);
    g_free(kind.sort);
    g_free(r.latency.sort_text);
    g_free(r.task_key);
    g_free(kind.callers);
    g_free(kind.callees);
    return code;
}
