/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail why: what took the time of a span, and what it waited for
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "cli/complete.h"
#include "cli/why/why.h"
#include "find/guest-time.h"
#include "find/record-reader.h"
#include "find/task-names.h"
#include "util/json.h"
#include "util/sort.h"

#define MAX_SLOWEST     100

/* Call stacks that are made for a span, and for one that others are compared
 * with */
#define STACKS          96
#define ORDINARY_STACKS 16

/* So many ordinary spans are read: for the medians, and for where they wait */
#define ORDINARY        64
#define ORDINARY_WAITS  8

/* For more spans than this, states of threads are read once. */
#define FEW             4

const char *why_component_name(enum why_component c)
{
    static const char *const names[WHY_COMPONENTS] = {
        "elapsed", "on_cpu", "runnable", "blocked", "paused", "unknown",
    };

    return names[c];
}

uint64_t why_component(const struct waiting_span *w, enum why_component c)
{
    const uint64_t all[WHY_COMPONENTS] = {
        w->elapsed, w->on_cpu, w->runnable, w->blocked, w->paused, w->unknown,
    };

    return all[c];
}

const char *why_name(const struct function *f, char buf[WHY_NAME])
{
    return f->known ? f->brief ?: f->name :
           call_tree_name_of(NULL, f, buf, WHY_NAME);
}

bool why_is_replay(const struct why *why)
{
    return json_object_has_member(why->in.trace.meta, "recording") &&
           btrail_json_is_true(why->in.trace.meta, "icount");
}

uint64_t why_icount(const struct why *why, const struct waiting_moment *m)
{
    struct visit visit;

    return m->index == THREAD_NO_INDEX ||
           record_read(why->in.trace.trace, m->vcpu, m->index, &visit) ||
           !visit.at.exact ? BTRAIL_NO_ICOUNT : visit.at.icount;
}

bool why_guest_time(const struct why *why, const struct waiting_moment *m,
                    struct why_guest_time *time)
{
    const struct btrail_trace *trace = why->in.trace.trace;

    return m->index != THREAD_NO_INDEX &&
           guest_time_of(trace, m->vcpu, m->index, guest_time_hz(trace),
                         &time->from, &time->to);
}

/* Reads a span, and appends it. */
static bool read_span(struct why *why, const struct why_span *s, GArray *to,
                      unsigned stacks, bool brief)
{
    const struct waiting_options options = {
        .trace = why->in.trace.trace, .symbols = why->in.names,
        .pauses = why->pauses, .clock = why->clock, .tick = why->in.trace.tick,
        .whole = analysis_tells_off_cpu(&why->in), .stacks = stacks,
        .states = why->states,
        .brief = brief,
    };
    struct waiting_span w = {
        .begin = s->begin, .end = s->end, .task = s->task,
        .kernel = s->kernel,
    };
    int ret = waiting_read(&w, &options);

    if (ret) {
        analysis_failed(&why->in, ret);
        return false;
    }
    why->damage = MAX(why->damage, w.damage);
    g_array_append_val(to, w);
    return true;
}

static void find_medians(struct why_ordinary *o)
{
    for (unsigned c = 0; c < WHY_COMPONENTS; c++) {
        g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(uint64_t));

        for (guint i = 0; i < o->read->len; i++) {
            uint64_t ns = why_component(&g_array_index(
                o->read, struct waiting_span, i), c);

            g_array_append_val(all, ns);
        }
        btrail_order_u64(all);
        o->medians[c] = g_array_index(all, uint64_t, (all->len - 1) / 2);
    }
}

/*
 * Reads the states of threads in the time of all spans.  If that is too much
 * for memory, those of each span are read when they are needed.  False after an
 * error message.
 */
static bool read_states(struct why *why)
{
    struct thread_states_options options = {
        .begin = UINT64_MAX, .tick = why->in.trace.tick,
        .whole = analysis_tells_off_cpu(&why->in),
    };
    int ret;

    if (why->spans->len <= FEW) {
        return true;
    }
    for (guint i = 0; i < why->spans->len; i++) {
        const struct why_span *s = &g_array_index(why->spans, struct why_span,
                                                  i);

        options.begin = MIN(options.begin, s->begin.time);
        options.end = MAX(options.end, s->end.time);
    }
    ret = thread_states_read(&why->states, why->in.trace.trace, &options);
    if (ret) {
        analysis_failed(&why->in, ret);
    } else if (thread_states_until(why->states) != UINT64_MAX) {
        g_clear_pointer(&why->states, thread_states_free);
    }
    return !ret;
}

/* Reads some of those that are not the slowest, evenly: few if that takes
 * long. */
static bool read_ordinary(struct why *why)
{
    guint first = why->slow->len, all = why->spans->len - first;
    guint n = MIN(all, why->states || all <= FEW ? ORDINARY : ORDINARY_WAITS);

    why->ordinary.all = why->left_out + all;
    for (guint i = 0; i < n; i++) {
        guint at = first + (guint)((uint64_t)i * all / n);
        unsigned each = MAX(n / ORDINARY_WAITS, 1);

        if (!read_span(why, &g_array_index(why->spans, struct why_span, at),
                       why->ordinary.read,
                       i % each ? 0 : ORDINARY_STACKS, true)) {
            return false;
        }
    }
    why->ordinary.n = n;
    if (n) {
        find_medians(&why->ordinary);
    }
    return true;
}

static bool read_all(struct why *why)
{
    guint n;

    why_sort_spans(why);
    if (!read_states(why)) {
        return false;
    }
    n = MIN(why->spans->len, (guint)why->slowest);
    for (guint i = 0; i < n; i++) {
        if (!read_span(why, &g_array_index(why->spans, struct why_span, i),
                       why->slow, STACKS, false)) {
            return false;
        }
    }
    return read_ordinary(why);
}

static bool is_like(const struct waiting_wait *a, const struct waiting_wait *b)
{
    return a->state == b->state && a->stack && b->stack &&
           a->stack->len == b->stack->len &&
           !memcmp(a->stack->pdata, b->stack->pdata,
                   a->stack->len * sizeof(gpointer));
}

bool why_ordinary_wait(const struct why *why, const struct waiting_wait *wait,
                       uint64_t *ns)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    const GArray *read = why->ordinary.read;
    unsigned each = MAX(read->len / ORDINARY_WAITS, 1);

    for (guint i = 0; i < read->len; i += each) {
        const struct waiting_span *w = &g_array_index(read, struct waiting_span,
                                                      i);
        uint64_t sum = 0;

        for (guint k = 0; k < w->waits->len; k++) {
            const struct waiting_wait *other = &g_array_index(
                w->waits, struct waiting_wait, k);

            sum += is_like(other, wait) ? other->ns : 0;
        }
        g_array_append_val(all, sum);
    }
    if (!all->len) {
        return false;
    }
    btrail_order_u64(all);
    *ns = g_array_index(all, uint64_t, (all->len - 1) / 2);
    return true;
}

/* False after an error message: all that is unknown has one reason. */
static bool check_tasks(const struct why *why)
{
    const char *producer = btrail_json_string(why->in.trace.meta, "producer");
    bool any = task_names_any(why->in.trace.trace);

    if (!any) {
        cli_error("%s: the trace names no tasks%s, so nobody knows what "
                  "threads waited for", why->in.trace.path,
                  !g_strcmp0(producer, "kvm") ? ", as those of KVM do not" :
                  !g_strcmp0(producer, "pt") ? ", as those of Intel PT do not" :
                  "");
    }
    return any;
}

/* Reads the guest's clock, if a replay's would be the host's.  False after an
 * error message. */
static bool read_clock(struct why *why)
{
    int ret = why_is_replay(why) ?
              replay_clock_read(&why->clock, why->in.trace.trace) : 0;

    if (ret) {
        analysis_failed(&why->in, ret);
    }
    return !ret;
}

static int explain(struct why *why)
{
    int code = CLI_OK;

    signal(SIGPIPE, SIG_DFL);
    if (!check_tasks(why)) {
        return CLI_FAILED;
    }
    why->pauses = cli_trace_pauses(&why->in.trace, &why->pauses_known);
    if (!why->pauses || !read_clock(why) || !why_find_spans(why) ||
        !read_all(why)) {
        return CLI_FAILED;
    }
    (why->json ? why_print_json : why_print_text)(why);
    if (fflush(stdout) || ferror(stdout)) {
        cli_error("cannot write: %s", g_strerror(errno));
        code = CLI_FAILED;
    }
    return code ?: cli_trace_verdict(&why->in.trace,
                                     MAX(why->damage, why->between.damage));
}

/* One thing is asked for.  Takes its operand. */
static bool parse_what(struct why *why, int *argc, char ***argv)
{
    int given = why->between.given + !!why->syscall + !!why->process +
                !!why->boot;

    if (given > 1) {
        cli_error("of --between, --syscall, --process and --boot, only one can "
                  "be given");
        return false;
    }
    if (!given) {
        if (*argc < 3) {
            cli_error("name what took so long, and a trace");
            return false;
        }
        why->what = g_strdup(*++*argv);
        --*argc;
    }
    if (why->slowest < 1 || why->slowest > MAX_SLOWEST) {
        cli_error("--slowest: %d is not between 1 and %d", why->slowest,
                  MAX_SLOWEST);
        return false;
    }
    return true;
}

static void clear_waiting(gpointer p)
{
    waiting_clear(p);
}

static GArray *new_waitings(void)
{
    GArray *a = g_array_new(FALSE, FALSE, sizeof(struct waiting_span));

    g_array_set_clear_func(a, clear_waiting);
    return a;
}

int cmd_why(int argc, char **argv)
{
    struct why why = { .slowest = 1 };
    int code = CLI_USAGE;
    const GOptionEntry entries[] = {
        BETWEEN_ENTRIES(&why.between, "spans from A to B, which are the first "
                        "two operands"),
        { "syscall", 0, 0, G_OPTION_ARG_STRING, &why.syscall,
          "system calls of this name", "NAME" },
        { "process", 0, 0, G_OPTION_ARG_STRING, &why.process,
          "the life of the first process of this name, or with this number",
          "NAME|PID" },
        { "boot", 0, 0, G_OPTION_ARG_NONE, &why.boot,
          "from the first record to the first one of user space's init", NULL },
        { "slowest", 0, 0, G_OPTION_ARG_INT, &why.slowest,
          "the N slowest ones (default: 1)", "N" },
        ANALYSIS_ENTRIES(&why.in),
        { "json", 0, 0, G_OPTION_ARG_NONE, &why.json, "print JSON", NULL },
        { NULL }
    };

    why.spans = g_array_new(FALSE, FALSE, sizeof(struct why_span));
    why.slow = new_waitings();
    why.ordinary.read = new_waitings();
    cli_complete_value("HOW", between_pair_name);
    if (cli_parse(&argc, &argv, entries, -1, "[A B|WHAT] FILE...",
                  "Say why something took so long: what ran, what it waited "
                  "for, and what that waited for.  WHAT is a function, whose "
                  "slowest call is meant, or a place: why did its thread come "
                  "there only then.") &&
        parse_what(&why, &argc, &argv) &&
        between_parse(&why.between, &argc, &argv) && analysis_parse(&why.in)) {
        code = analysis_open(&why.in, argv + 1, true) ? explain(&why) :
               CLI_FAILED;
    }
    g_array_unref(why.spans);
    g_array_unref(why.slow);
    g_array_unref(why.ordinary.read);
    pauses_free(why.pauses);
    replay_clock_free(why.clock);
    thread_states_free(why.states);
    between_clear(&why.between);
    analysis_clear(&why.in);
    g_free(why.what);
    g_free(why.syscall);
    g_free(why.process);
    return code;
}
