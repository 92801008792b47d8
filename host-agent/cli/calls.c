/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail calls: prints functions as they were called and returned, with
 * their durations; or system calls; or how long those of each function took
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "analyze/call-tracks.h"
#include "analyze/syscall-times.h"
#include "cli/analysis.h"
#include "cli/between.h"
#include "cli/complete.h"
#include "cli/latency-table.h"

#define MAX_DEPTH   (STACK_MAX_DEPTH + 1)
#define MAX_TOP     1000
#define NO_TOP      INT_MIN     /* that no user gives */

/* A call that was paused for more than this part of its time is said to be. */
#define MUCH        20

/*
 * @tracks: of functions; NULL for system calls
 * @sums:   of calls, in place of the calls; or NULL
 * @use:    what threads wait in them; NULL with @sums, and if not all vCPUs and
 *          processes were recorded
 * @told:   of each track, an array by the number of a slice: what its thread
 *          did not run of it, in ns, as far as lines of calls in it say so
 */
struct calls {
    struct analysis in;
    struct between between;
    struct pauses *pauses;
    bool pauses_known;
    struct call_tracks *tracks;
    struct latency_options latency;
    gboolean summary;
    struct latencies *sums;
    struct cpu_use *use;
    GHashTable *told;
    uint64_t shortest;
    int depth;
    char *function;
    gboolean syscalls;
    gboolean json;
};

/* The task that made a call */
static void print_task(const struct process *p)
{
    char name[256];

    cli_printf("%-20s ", call_tree_name_of(p, NULL, name, sizeof(name)));
}

/* A duration is the least that it can be if its begin or end is not known. */
static void print_duration(uint64_t ns, bool least)
{
    char text[32];

    g_snprintf(text, sizeof(text), "%s%.3f us", least ? ">" : "", ns / 1e3);
    cli_printf("%16s  ", text);
}

/* How long of a call was paused, after its name, if that is much */
static void print_paused(uint64_t paused, uint64_t ns)
{
    if (paused > ns / MUCH) {
        cli_printf("  [paused %.3f us, %.0f%%]", paused / 1e3,
                   100.0 * paused / ns);
    }
}

static void print_start(const struct calls *c, uint64_t time, unsigned vcpu,
                        const struct process *p)
{
    char buf[CLI_TIME_SIZE];

    cli_printf("%14s %3u  ", cli_format_time(&c->in.trace, time, buf), vcpu);
    print_task(p);
}

/*
 * What a thread did not run of a call; @least: it is only known in part.  @told
 * is what lines before this say of it, who used its vCPU included.
 */
static void print_off(const struct cpu_use_thread *t,
                      const struct cpu_use_mark *since, bool least,
                      uint64_t told)
{
    const struct cpu_use_sum sum = cpu_use_since(t, since);
    char buf[LATENCY_SIZE], name[256];

    if (sum.ns <= told) {
        return;
    }
    cli_printf("  # off CPU %s%s", least || sum.least ? ">" : "",
               latency_text(sum.ns - told, buf));
    if (told) {
        cli_printf(" more");
        return;
    }
    for (unsigned i = 0; i < sum.n_users; i++) {
        const struct process *p = sum.users[i].process;

        cli_printf("%s %s %s%s", i ? "," : ":", call_tree_name_of(
                   p, NULL, name, sizeof(name)), sum.others ? ">" : "",
                   latency_text(sum.users[i].ns, buf));
    }
    if (sum.others) {
        cli_printf("%s others %s", sum.n_users ? "," : ":",
                   latency_text(sum.others, buf));
    }
}

static void print_off_json(const struct cpu_use_thread *t,
                           const struct cpu_use_mark *since)
{
    const struct cpu_use_sum sum = cpu_use_since(t, since);

    if (!t) {
        return;
    }
    cli_printf(",\"off_ns\":%" PRIu64 ",\"off_known\":%s,\"off_users\":[",
               sum.ns, sum.least ? "false" : "true");
    for (unsigned i = 0; i < sum.n_users; i++) {
        const struct process *p = sum.users[i].process;

        cli_printf("%s{\"ns\":%" PRIu64 ",\"comm\":", i ? "," : "",
                   sum.users[i].ns);
        cli_put_json_string(stdout, p->comm);
        cli_printf(",\"pid\":%" PRId64 ",\"tid\":%" PRId64 "}", p->pid, p->tid);
    }
    cli_printf("],\"off_others_ns\":%" PRIu64, sum.others);
}

static void print_json(const struct calls *c, const struct process *p,
                       const struct function *f, const struct syscall_time *s)
{
    char buf[CLI_TIME_SIZE];

    cli_printf("{\"vcpu\":%u,\"time\":%s,\"ns\":%" PRIu64 ",",
               s->vcpu, cli_format_time(&c->in.trace, s->begin, buf),
               s->end - s->begin);
    if (c->pauses_known) {
        cli_printf("\"paused_ns\":%" PRIu64 ",", s->paused);
    }
    cli_printf("\"comm\":");
    cli_put_json_string(stdout, p->comm);
    if (p->pid >= 0) {
        cli_printf(",\"pid\":%" PRId64, p->pid);
    }
    if (p->tid >= 0) {
        cli_printf(",\"tid\":%" PRId64, p->tid);
    }
    cli_printf(",\"begins\":%s,\"ends\":%s", s->late ? "false" : "true",
               s->cut ? "false" : "true");
    if (c->syscalls) {
        cli_printf(",\"syscall\":");
        cli_put_json_string(stdout, f->syscall);
    } else {
        cli_printf(",\"sym\":");
        cli_put_json_string(stdout, f->name);
        cli_printf(",\"dso\":");
        cli_put_json_string(stdout, f->module->name);
    }
    print_off_json(s->use, &s->waited);
}

/* Notes that a slice's line says what its thread did not run of it.  Returns how
 * much of that lines of slices in it have said. */
static uint64_t tell_off(const struct calls *c, const struct call_track *t,
                         unsigned i, unsigned depth)
{
    GArray *told = g_hash_table_lookup(c->told, t);
    uint64_t *sums, before;

    if (!t->use) {
        return 0;
    }
    if (!told) {
        told = g_array_new(FALSE, TRUE, sizeof(uint64_t));
        g_hash_table_insert(c->told, (gpointer)t, told);
    }
    if (told->len <= i) {
        g_array_set_size(told, i + 1);
    }
    sums = (uint64_t *)told->data;
    before = sums[i];
    sums[i] = 0;
    if (depth) {
        sums[i - 1] += cpu_use_since(t->use,
                                     &call_track_slice(t, i)->waited).ns;
    }
    return before;
}

/* How deep a slice is below the task, or below the first one that is wanted */
static unsigned level(const struct calls *c, const struct call_track *t,
                      unsigned i)
{
    unsigned first = i;

    while (c->function && first && call_track_slice(t, first - 1)->wanted) {
        first--;
    }
    return c->function ? i - first : i - 1;
}

static void print_name(const struct calls *c, const struct call_track *t,
                       unsigned i, const char *before, const char *after)
{
    const struct call_slice *s = call_track_slice(t, i);
    char name[256];

    cli_printf("%*s%s%s%s", 2 * (int)level(c, t, i), "", before,
               call_tree_name_of(s->process, s->function, name, sizeof(name)),
               after);
}

static void on_begin(void *opaque, struct call_track *t, unsigned i)
{
    const struct calls *c = opaque;
    const struct call_slice *s = call_track_slice(t, i);

    if (s->function && !c->json) {
        print_start(c, s->begin, s->vcpu, s->process);
        cli_printf("%16s  ", "");
        print_name(c, t, i, "", s->function->brief ? " {" : "() {");
        cli_printf("\n");
    }
}

static void print_end(const struct calls *c, struct call_track *t, unsigned i,
                      uint64_t time, bool cut, bool whole)
{
    const struct call_slice *s = call_track_slice(t, i);
    uint64_t paused;

    if (!s->function) {
        return;
    }
    paused = call_tracks_paused(c->tracks, t, i, time);
    if (c->json) {
        print_json(c, s->process, s->function, &(struct syscall_time) {
            .begin = s->begin, .end = time, .paused = paused,
            .vcpu = s->vcpu, .late = s->late, .cut = cut, .use = t->use,
            .waited = s->waited,
        });
        cli_printf(",\"depth\":%u}\n", level(c, t, i));
        return;
    }
    print_start(c, whole ? s->begin : time, s->vcpu, s->process);
    print_duration(time - s->begin, s->late || cut);
    print_name(c, t, i, whole ? "" : "} /* ", !whole ? " */" :
               s->function->brief ? ";" : "();");
    print_paused(paused, time - s->begin);
    print_off(t->use, &s->waited, s->late || cut,
              tell_off(c, t, i, level(c, t, i)));
    cli_printf("\n");
}

static void on_whole(void *opaque, struct call_track *t, unsigned i,
                     uint64_t time, bool cut)
{
    print_end(opaque, t, i, time, cut, true);
}

static void on_end(void *opaque, struct call_track *t, unsigned i,
                   uint64_t time, bool cut)
{
    print_end(opaque, t, i, time, cut, false);
}

static void on_syscall(void *opaque, const struct syscall_time *s)
{
    const struct calls *c = opaque;

    if (c->json) {
        print_json(c, s->process, s->function, s);
        cli_printf("}\n");
        return;
    }
    print_start(c, s->begin, s->vcpu, s->process);
    print_duration(s->end - s->begin, s->late || s->cut);
    cli_printf("%s", s->function->syscall);
    print_paused(s->paused, s->end - s->begin);
    print_off(s->use, &s->waited, s->late || s->cut, 0);
    cli_printf("\n");
}

/* With --summary, functions that begin are not its business. */
static void on_begin_summed(void *opaque, struct call_track *t, unsigned i)
{
}

static void on_end_summed(void *opaque, struct call_track *t, unsigned i,
                          uint64_t time, bool cut)
{
    const struct calls *c = opaque;
    const struct call_slice *s = call_track_slice(t, i);
    char buf[256];
    const char *names[LATENCIES_NAMES];

    if (s->function) {
        names[0] = s->process->comm;
        names[1] = s->function->module->name;
        names[2] = call_tree_name_of(s->process, s->function, buf,
                                     sizeof(buf));
        latencies_add(c->sums, names, time - s->begin -
                      call_tracks_paused(c->tracks, t, i, time),
                      !s->late && !cut);
    }
}

static void on_syscall_summed(void *opaque, const struct syscall_time *s)
{
    const struct calls *c = opaque;
    const char *const names[LATENCIES_NAMES] = {
        s->process->comm, s->function->module->name, s->function->syscall,
    };

    latencies_add(c->sums, names, s->end - s->begin - s->paused,
                  !s->late && !s->cut);
}

/* Was the function or system call that is wanted called?  An exit code */
static int check_found(const struct calls *c,
                       const struct closest *closest)
{
    g_autofree char *hint = NULL;

    if (!c->function || (closest->found && !closest->distance)) {
        return CLI_OK;
    }
    hint = closest_hint(closest);
    cli_error("%s: no %s '%s' was called%s", c->in.trace.path,
              c->syscalls ? "system call" : "function", c->function, hint);
    return CLI_FAILED;
}

/* Returns as call_tree_read(); @code gets an exit code. */
static int print_syscalls(struct calls *c, struct call_tree *t, int *code)
{
    struct syscall_times *times = syscall_times_new(
        &(struct syscall_times_options) {
            .shortest = c->shortest, .name = c->function, .use = c->use,
            .ended = c->sums ? on_syscall_summed : on_syscall, .opaque = c,
            .pauses = c->pauses,
        });
    int ret = analysis_read_calls(&c->in, t, &syscall_times_tree_ops, times);

    if (!ret) {
        syscall_times_end(times, c->in.trace.trace, &c->in.window);
        *code = check_found(c, syscall_times_closest(times));
    }
    syscall_times_free(times);
    return ret;
}

/* The same */
static int print_functions(struct calls *c, struct call_tree *t, int *code)
{
    static const struct call_tracks_ops ops = { on_begin, on_whole, on_end };
    static const struct call_tracks_ops summed = {
        on_begin_summed, on_end_summed, on_end_summed,
    };
    struct call_tracks *tracks = call_tracks_new(&(struct call_tracks_options) {
        .shortest = c->shortest, .prompt = true, .function = c->function,
        .depth = c->depth, .use = c->use,
        .ops = c->sums ? &summed : &ops, .opaque = c, .pauses = c->pauses,
    });
    int ret;

    c->tracks = tracks;
    ret = analysis_read_calls(&c->in, t, &call_tracks_tree_ops, tracks);
    if (!ret) {
        call_tracks_end(tracks, c->in.trace.trace, &c->in.window);
        *code = check_found(c, call_tracks_closest(tracks));
    }
    call_tracks_free(tracks);
    return ret;
}

static void warn_of_pauses(const struct calls *c)
{
    g_autofree char *unknown = cli_unknown_pauses(c->pauses, c->pauses_known);

    if (unknown) {
        cli_error("%s", unknown);
    }
}

static void print_summary(const struct calls *c)
{
    if (c->json) {
        latency_print_json(c->sums, &c->latency,
                           c->syscalls ? "syscall" : "sym", c->pauses,
                           c->pauses_known);
    } else {
        latency_print_table(c->sums, &c->latency,
                            c->syscalls ? "System call" : "Call");
    }
}

static int print_calls(struct calls *c)
{
    struct call_tree t;
    int ret, code;

    signal(SIGPIPE, SIG_DFL);
    c->pauses = cli_trace_pauses(&c->in.trace, &c->pauses_known);
    if (!c->pauses) {
        return CLI_FAILED;
    }
    if (!c->json && !c->sums) {
        cli_hold();
        cli_printf("#    Time (s) CPU  %-20s %16s  %s\n", "Task", "Elapsed",
                   c->syscalls ? "System call" : "Call");
        cli_held();
    }
    ret = (c->syscalls ? print_syscalls : print_functions)(c, &t, &code);
    if (ret) {
        return analysis_failed(&c->in, ret);
    }
    if (c->sums) {
        print_summary(c);
    }
    if (fflush(stdout) || ferror(stdout)) {
        cli_error("cannot write: %s", g_strerror(errno));
        code = CLI_FAILED;
    }
    analysis_warn(&t);
    warn_of_pauses(c);
    code = analysis_chosen(&c->in, t.chosen, NULL) ?: code ?:
           cli_trace_verdict(&c->in.trace, MAX(t.damage, c->between.damage));
    call_tree_clear(&t);
    return code;
}

/* Makes the sums, if options ask for them.  False after an error message. */
static bool check_summary(struct calls *c)
{
    struct latency_options *o = &c->latency;

    if (!c->summary && (o->sort_text || o->bars || o->top != NO_TOP)) {
        cli_error("--sort, --top and --histogram need --summary");
        return false;
    }
    if (o->top == NO_TOP) {
        o->top = 0;
    }
    if (o->top < 0 || o->top > MAX_TOP) {
        cli_error("--top: %d is not between 0 and %d", o->top, MAX_TOP);
        return false;
    }
    c->sums = c->summary ? latencies_new(0) : NULL;
    return true;
}

static bool open_calls(struct calls *c, char *const *paths)
{
    if (!analysis_open(&c->in, paths, true)) {
        return false;
    }
    if (!c->sums && analysis_tells_off_cpu(&c->in)) {
        c->use = cpu_use_new();
        c->told = g_hash_table_new_full(NULL, NULL, NULL,
                                        (GDestroyNotify)g_array_unref);
    }
    return !c->between.given || between_restrict(&c->between, &c->in);
}

int cmd_calls(int argc, char **argv)
{
    struct calls c = { .latency = { .key = LATENCY_TOTAL, .top = NO_TOP } };
    g_autofree char *shortest = NULL;
    int code = CLI_USAGE;
    const GOptionEntry entries[] = {
        { "syscalls", 0, 0, G_OPTION_ARG_NONE, &c.syscalls,
          "system calls of Linux", NULL },
        { "function", 0, 0, G_OPTION_ARG_STRING, &c.function,
          "only calls of NAME, and what they called", "NAME" },
        { "depth", 0, 0, G_OPTION_ARG_INT, &c.depth,
          "only this many levels of calls", "N" },
        { "shortest", 0, 0, G_OPTION_ARG_STRING, &shortest,
          "leave out shorter calls", "TIME" },
        { "summary", 0, 0, G_OPTION_ARG_NONE, &c.summary,
          "only how long the calls of each function took, in all, mean, "
          "percentiles, and the longest one", NULL },
        { "sort", 's', 0, G_OPTION_ARG_STRING, &c.latency.sort_text,
          "order of --summary: count, total (default), mean, p50, p95, p99 "
          "or max", "KEY" },
        { "top", 0, 0, G_OPTION_ARG_INT, &c.latency.top,
          "print N rows of --summary (default: 0, for all)", "N" },
        LATENCY_BARS_ENTRY(&c.latency),
        BETWEEN_ENTRIES(&c.between, "only calls in which there are records "
                        "of spans from A to B, which are the first two "
                        "operands"),
        ANALYSIS_CPU_ENTRY(&c.in),
        ANALYSIS_ENTRIES(&c.in),
        { "json", 0, 0, G_OPTION_ARG_NONE, &c.json,
          "print one JSON object per call, or for --summary", NULL },
        { NULL }
    };

    cli_complete_value("KEY", latency_key_name);
    cli_complete_value("HOW", between_pair_name);
    if (!cli_parse(&argc, &argv, entries, -1, "[A B] FILE...",
                   "Print calls of functions as they began and ended, with "
                   "their durations; or system calls.") ||
        (shortest && !cli_parse_duration("--shortest", shortest,
                                         &c.shortest))) {
        code = CLI_USAGE;
    } else if (c.depth < 0 || c.depth > MAX_DEPTH) {
        cli_error("--depth: %d is not between 0 and %d", c.depth, MAX_DEPTH);
    } else if (c.depth && c.syscalls) {
        cli_error("--depth does not go with --syscalls");
    } else if (latency_options_parse(&c.latency) && check_summary(&c) &&
               between_parse(&c.between, &argc, &argv) &&
               analysis_parse(&c.in)) {
        code = open_calls(&c, argv + 1) ? print_calls(&c) : CLI_FAILED;
    }
    pauses_free(c.pauses);
    between_clear(&c.between);
    analysis_clear(&c.in);
    latencies_free(c.sums);
    g_clear_pointer(&c.told, g_hash_table_unref);
    cpu_use_free(c.use);
    g_free(c.latency.sort_text);
    g_free(c.function);
    return code;
}
