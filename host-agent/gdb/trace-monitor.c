/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of gdb's "monitor" where it walks a trace: see trace-monitor.h
 */

#include <inttypes.h>
#include <string.h>

#include "find/guest-time.h"
#include "find/place.h"
#include "find/visits.h"
#include "gdb/trace-monitor.h"
#include "gdb/trace-target.h"
#include "lib/agent/thread.h"
#include "util/quote.h"

#define refuse(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* Calls that "why" shows at most, and how far back it searches for each */
#define WHY_CALLS   64
#define WHY_RECORDS (4u << 20)
/* Records that are read at once where a switch is searched */
#define PIECE       65536

/**
 * struct command - what a command is about
 */
struct command {
    struct walk *w;
    struct walk_thread *thread;
    const char *argument;
};

static struct command asked_of(const struct trace_target *target,
                               const char *argument)
{
    return (struct command) {
        trace_target_walk(target), trace_target_thread(target), argument,
    };
}

static void append_function(GString *text, struct walk *w,
                            const struct process *process,
                            const struct symbolizer_where *where,
                            uint64_t address)
{
    g_autofree char *function = NULL, *module = NULL;
    struct place place;

    symbolizer_place(w->symbols, process, where, address, &place);
    module = btrail_quote(place.function->module->name, "");
    if (place.function->known) {
        function = btrail_quote(place.function->name, "");
        g_string_append_printf(text, "%s+0x%" PRIx64 " ", function,
                               place.offset);
    }
    g_string_append_printf(text, *module == '[' ? "%s" : "[%s]", module);
}

/* The function in which a walker is */
static void append_here(GString *text, struct walk *w, struct walker *walker)
{
    const struct symbolizer_where where = walker_where(walker);

    append_function(text, w, walker_process(walker), &where,
                    walker_pc(walker));
}

static void append_time(GString *text, struct walk *w,
                        const struct lane_record *r)
{
    if (r->time.tsc) {
        g_string_append_printf(text, "%.6f s",
                               guest_time_ns(r->time.tsc, w->tsc_hz) / 1e9);
    } else {
        g_string_append(text, "unknown");
    }
}

static char *describe(const struct command *a, GError **error)
{
    struct walk_thread *t = a->thread;
    struct walker *walker = walk_walker(a->w, t);
    g_autofree char *task = walk_describe(a->w, t);
    g_autoptr(GString) text = g_string_new(NULL);
    const struct lane_record *r;
    struct moment m;

    if (!walker_spot(walker)) {
        refuse(error, "the trace is damaged here");
        return NULL;
    }
    r = walker_record(walker);
    m = walk_moment(walker);
    g_string_append_printf(text, "pc        0x%" PRIx64 "\nfunction  ",
                           walker_pc(walker));
    append_here(text, a->w, walker);
    g_string_append_printf(text, "\ntask      %s\nrecord    %u:%"
                           G_GUINT64_FORMAT "\n", task, r->vcpu, r->at.index);
    if (m.icount != BTRAIL_NO_ICOUNT) {
        g_string_append_printf(text, "icount    %" G_GUINT64_FORMAT "\n",
                               m.icount);
    }
    g_string_append(text, "time      ");
    append_time(text, a->w, r);
    g_string_append_c(text, '\n');
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Of the thread that has moved */
static char *where_now(const struct command *a, GError **error)
{
    struct command now = *a;

    now.thread = a->w->current;
    return describe(&now, error);
}

static char *run_where(void *target, const char *argument, GError **error)
{
    const struct command asked = asked_of(target, argument);

    return describe(&asked, error);
}

static char *run_goto(void *target, const char *argument, GError **error)
{
    const struct command asked = asked_of(target, argument);
    struct walk *w = asked.w;
    struct find_place place;
    struct moment at;
    bool ok;

    if (!find_place_parse(argument, &place, error)) {
        return NULL;
    }
    ok = find_place_find(&place, w->trace, w->symbols, &at, error);
    find_place_clear(&place);
    if (!ok) {
        return NULL;
    }
    walk_go(w, &at);
    return where_now(&asked, error);
}

/* The addresses of a function in the files of a process */
struct file_search {
    const char *name;
    GArray *addresses;
};

static void find_in_file(void *opaque, const struct mapping *m, uint64_t bias)
{
    struct file_search *s = opaque;
    const struct elf_symbol *symbol = elf_file_find(m->elf, s->name);
    uint64_t address = symbol ? symbol->start + bias : 0;

    if (symbol && address >= m->start && address < m->end) {
        g_array_append_val(s->addresses, address);
    }
}

/* A function of the kernel, or else of the process that runs */
static struct find_target *function_of(const struct command *a,
                                       const char *name, GError **error)
{
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct walker *walker = walk_walker(a->w, a->thread);
    g_autoptr(GError) local = NULL;
    struct find_target *kernel = find_target_function(a->w->trace,
                                                      a->w->symbols, NULL,
                                                      name, &local);
    struct file_search s = { name, addresses };

    if (kernel) {
        return kernel;
    }
    if (!g_error_matches(local, AGENT_ERROR,
                                AGENT_ERROR_NAMES)) {
        g_propagate_error(error, g_steal_pointer(&local));
        return NULL;
    }
    if (walker_spot(walker)) {
        const struct symbolizer_where where = walker_where(walker);

        symbolizer_files(a->w->symbols, walker_process(walker), &where,
                         walker_pc(walker), find_in_file, &s);
    }
    if (!addresses->len) {
        agent_fail(error, AGENT_ERROR_NAMES,
                   "neither the kernel nor the process that runs here "
                   "has a function %s that is known; for one of another "
                   "process there is PROCESS:%s", name, name);
        return NULL;
    }
    return find_target_addresses(g_steal_pointer(&addresses));
}

/* The visit nearest to here.  False if there is none, or with an error. */
static bool find_visit(const struct command *a, struct visits *v, bool forward,
                       struct visit *visit, GError **error)
{
    struct moment here = walk_moment(a->w->current->walker);
    int order = 0;

    clock_order_stamp(a->w->order, &here);
    visits_limit(v, here.vcpu, forward ? here.index + 1 : 0,
                 forward ? UINT64_MAX : here.index);
    while ((forward ? order <= 0 : order >= 0) &&
           (forward ? visits_next(v, visit, error) :
                      visits_previous(v, visit, error))) {
        clock_order_stamp(a->w->order, &visit->at);
        order = moment_compare(&visit->at, &here);
    }
    return forward ? order > 0 : order < 0;
}

/* To the visit of a process nearest to here */
static bool go_to_visit(const struct command *a, const char *process,
                        const char *function, bool forward, GError **error)
{
    struct find_target *wanted = find_target_function(a->w->trace,
                                                      a->w->symbols,
                                                      process, function,
                                                      error);
    struct visits *v = wanted ? visits_new(a->w->trace, a->w->symbols, wanted,
                                           error) : NULL;
    g_autoptr(GError) local = NULL;
    struct visit visit;
    bool found;

    found = v && find_visit(a, v, forward, &visit, &local);
    visits_free(v);
    find_target_free(wanted);
    if (!v) {
        return false;
    }
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    if (!found) {
        return refuse(error, "%s:%s does not run %s this", process, function,
                      forward ? "after" : "before");
    }
    walk_go(a->w, &visit.at);
    return true;
}

static bool never_given_up(void *opaque)
{
    return true;
}

/* Continues the search where other code had the addresses. */
static enum walker_answer search(const struct command *a,
                                 const struct find_target *s,
                                 bool forward)
{
    enum walker_answer answer;
    bool there = false;

    do {
        answer = walk_search(a->w, NULL, (uint64_t *)s->addresses->data,
                             s->addresses->len, forward, never_given_up, NULL);
        if (answer == WALKER_FOUND) {
            struct walker *walker = a->w->current->walker;
            const struct symbolizer_where where = walker_where(walker);

            there = find_target_at(s, walker_pc(walker), where.kernel,
                                   where.time);
        }
    } while (answer == WALKER_FOUND && !there);
    return answer;
}

static bool go_to_function(const struct command *a, const char *name,
                           bool forward, GError **error)
{
    struct find_target *wanted = function_of(a, name, error);
    struct walk_thread *from = a->w->current;
    enum walker_answer answer;
    struct walker_spot spot;

    if (!wanted || !walker_spot(from->walker)) {
        find_target_free(wanted);
        return false;
    }
    spot = *walker_spot(from->walker);
    answer = search(a, wanted, forward);
    find_target_free(wanted);
    switch (answer) {
    case WALKER_FOUND:
        return true;
    default:
        walker_go(from->walker, &spot);
        walk_moved(a->w, from);
        return refuse(error, "%s does not run %s this", name,
                      forward ? "after" : "before");
    }
}

static char *go_to_call(const struct command *a, bool forward, GError **error)
{
    g_autofree char *process = NULL, *function = NULL;

    /* What is known of the others follows from it. */
    walk_walker(a->w, a->thread);
    if (!walker_spot(a->w->current->walker)) {
        refuse(error, "the trace is damaged here");
        return NULL;
    }
    if (!find_place_split(a->argument, &process, &function)) {
        refuse(error, "'%s' is not FUNCTION or PROCESS:FUNCTION", a->argument);
        return NULL;
    }
    return (process ? go_to_visit(a, process, function, forward, error) :
                      go_to_function(a, function, forward, error)) ?
           where_now(a, error) : NULL;
}

static char *run_next_call(void *target, const char *argument, GError **error)
{
    const struct command asked = asked_of(target, argument);

    return go_to_call(&asked, true, error);
}

static char *run_prev_call(void *target, const char *argument, GError **error)
{
    const struct command asked = asked_of(target, argument);

    return go_to_call(&asked, false, error);
}

/* Do two records belong to different tasks? */
static bool switches(const struct lane_record *a, const struct lane_record *b)
{
    if (a->task.known && b->task.known) {
        return btrail_thread(&a->task) != btrail_thread(&b->task);
    }
    return btrail_cr3_root(a->cr3) != btrail_cr3_root(b->cr3);
}

/* Which record of a piece is the last one before a switch, or -1 */
static ssize_t find_switch(const GArray *records, ssize_t here)
{
    const struct lane_record *r = (const struct lane_record *)records->data;

    for (ssize_t i = here; i > 0; i--) {
        if (switches(&r[i - 1], &r[i])) {
            return i - 1;
        }
    }
    return -1;
}

/* Of a vCPU: to the last record of the task that ran before */
static bool go_to_switch(const struct command *a, GError **error)
{
    struct walker *walker = walk_walker(a->w, a->thread);
    struct lane *lane = walker_lane(walker);
    struct walker_spot spot = *walker_spot(walker);
    bool more = true;

    while (more) {
        ssize_t here, found;
        GArray *records = lane_read(lane, &spot.at, PIECE, 1, &here);
        struct lane_at first = { 0, 0 };

        found = find_switch(records, here);
        if (found >= 0) {
            spot = (struct walker_spot) {
                g_array_index(records, struct lane_record, found).at, 0,
            };
        } else if (records->len) {
            first = g_array_index(records, struct lane_record, 0).at;
        }
        lane_release(lane, records);
        if (found >= 0) {
            walker_go(walker, &spot);
            walk_moved(a->w, a->thread);
            return true;
        }
        more = lane_before(&first, &spot.at);
        spot.at = first;
    }
    return refuse(error, "nothing else runs before this");
}

/* Of a thread of the guest: to where it ran before, as far as that shows */
static bool go_to_run(const struct command *a, GError **error)
{
    struct walker *walker = walk_walker(a->w, a->thread);
    size_t run = walker_spot(walker)->at.run;
    const GArray *runs = lane_runs(walker_lane(walker));
    struct walker_spot spot;

    if (!run) {
        return refuse(error, "it does not run before this");
    }
    spot = (struct walker_spot) {
        { run - 1, g_array_index(runs, struct lane_run, run - 1).end - 1 }, 0,
    };
    walker_go(walker, &spot);
    walk_moved(a->w, a->thread);
    return true;
}

static char *run_prev_switch(void *target, const char *argument,
                             GError **error)
{
    const struct command asked = asked_of(target, argument), *a = &asked;

    if (!walker_spot(walk_walker(a->w, a->thread))) {
        refuse(error, "the trace is damaged here");
        return NULL;
    }
    return (a->thread->vcpu < 0 ? go_to_run(a, error) :
                                  go_to_switch(a, error)) ?
           where_now(a, error) : NULL;
}

static const char *word_for(const struct stack_edge *e,
                            const struct lane_record *r)
{
    bool user = r->record.from < ADDRESS_SHARED &&
                r->record.to >= ADDRESS_SHARED;

    switch (e->kind) {
    case STACK_EDGE_ENTRY:
        return e->back == r->record.from ? "interrupted" : "enters the kernel";
    case STACK_EDGE_INTERRUPT:
        return "interrupted";
    default:
        return user ? "enters the kernel" : "calls";
    }
}

static void append_call(GString *text, const struct command *a,
                        struct walker *walker, unsigned number)
{
    const struct lane_record *r = walker_next_record(walker);
    const struct symbolizer_where where = lane_where(r);
    const struct stack_edge *e = stack_edges_get(a->w->edges, r->process,
                                                 &where, &r->record);

    g_string_append_printf(text, "#%-3u 0x%016" PRIx64 " ", number,
                           r->record.from);
    append_function(text, a->w, r->process, &where, r->record.from);
    g_string_append_printf(text, ", %s, record %u:%" G_GUINT64_FORMAT ", ",
                           word_for(e, r), r->vcpu, r->at.index);
    append_time(text, a->w, r);
    g_string_append_c(text, '\n');
}

/* The calls that have led here */
static char *run_why(void *target, const char *argument, GError **error)
{
    const struct command asked = asked_of(target, argument), *a = &asked;
    struct walker *walker = walk_walker(a->w, a->thread);
    const struct walker_stops stops = { NULL, 0, never_given_up, NULL };
    g_autoptr(GString) text = g_string_new(NULL);
    struct walker_spot spot;
    unsigned n = 0;

    if (!walker_spot(walker)) {
        refuse(error, "the trace is damaged here");
        return NULL;
    }
    spot = *walker_spot(walker);
    g_string_append_printf(text, "#0   0x%016" PRIx64 " ", walker_pc(walker));
    append_here(text, a->w, walker);
    g_string_append(text, ", here\n");
    while (++n < WHY_CALLS &&
           walker_caller(walker, a->w->edges, WHY_RECORDS, &stops) ==
           WALKER_CALLER) {
        append_call(text, a, walker, n);
    }
    walker_go(walker, &spot);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

const struct monitor_command trace_monitor_commands[] = {
    { "goto", "goto PLACE: @RECORD, VCPU:RECORD, 1.5s, [PROCESS:]FUNCTION[#N], "
      "last FUNCTION, last exit of PROCESS, an icount", .search = run_goto },
    { "help", "this list" },
    { "next-call", "next-call [PROCESS:]FUNCTION: to where it runs next",
      .search = run_next_call },
    { "prev-call", "prev-call [PROCESS:]FUNCTION: to where it ran last",
      .search = run_prev_call },
    { "prev-switch", "to before the task that runs here began to run",
      .search = run_prev_switch },
    { "where", "what runs here", .search = run_where },
    { "why", "the calls that have led here", .search = run_why },
    { NULL },
};
