/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor": see monitor.h
 */

#include <inttypes.h>
#include <string.h>

#include "find/guest-time.h"
#include "find/place.h"
#include "find/visits.h"
#include "gdb/replay-monitor.h"
#include "gdb/replay-view.h"
#include "gdb/rsp.h"
#include "util/quote-lines.h"

#define refuse(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* How many visits are listed before and after where the guest is */
#define FIND_EACH   10

/*
 * Commands of QEMU that would move the guest, or end QEMU, behind gdb's back.
 * They have these names and abbreviations.
 */
static const char *const refused[] = {
    "c", "cont", "delvm", "gdbserver", "loadvm", "migrate",
    "migrate_incoming", "q", "quit", "replay_break", "replay_delete_break",
    "replay_seek", "s", "snapshot_blkdev", "stop", "system_powerdown",
    "system_reset", "system_wakeup", NULL,
};

static double seconds(const struct trace_index *trace,
                      const struct btrail_time *time)
{
    return guest_time_ns(time->tsc, trace->tsc_hz) / 1e9;
}

static char *describe(const struct replay_view *v)
{
    const struct vm *t = v->r->vm;
    struct trace_index *trace = v->r->trace;
    const struct vm_place *at = vm_place(t);
    g_autoptr(GString) text = g_string_new(NULL);
    struct where where;

    g_string_printf(text, "icount    %" G_GUINT64_FORMAT "\n"
                    "pc        0x%" PRIx64 "\n", at->icount, at->pc);
    if (vm_vcpus(t) > 1) {
        g_string_append_printf(text, "thread    %02x (vCPU %u)\n",
                               at->vcpu + 1, at->vcpu);
    }
    if (trace && trace_index_running(trace, at->icount, &where)) {
        g_autofree char *name = trace_index_name(trace, &where, at->pc);
        g_autofree char *task = where_task(&where);

        if (name) {
            g_string_append_printf(text, "function  %s\n", name);
        }
        g_string_append_printf(text, "task      %s\n"
                               "record    %u:%" G_GUINT64_FORMAT "\n"
                               "time      %.6f s\n", task, where.vcpu,
                               where.at.index,
                               seconds(trace, &where.at.time));
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static char *run_where(void *view, const char *argument, GError **error)
{
    return describe(view);
}

static bool find_place(const struct replay_target *r, const char *argument,
                       uint64_t *icount, GError **error)
{
    const struct trace_index *trace = r->trace;
    struct find_place place;
    bool exact, ok;

    if (!find_place_parse(argument, &place, error)) {
        return false;
    }
    ok = place.kind == FIND_PLACE_OUTPUT ?
         vm_output(r->vm, &place, icount, error) :
         find_place_icount(&place, trace ? trace->trace : NULL,
                           trace ? trace->symbols : NULL, icount, &exact,
                           error);
    find_place_clear(&place);
    return ok;
}

/* Is it no number of an instruction? */
static bool goto_searches(const char *argument)
{
    struct find_place place;
    bool searches = false;

    if (find_place_parse(argument, &place, NULL)) {
        searches = place.kind != FIND_PLACE_ICOUNT;
        find_place_clear(&place);
    }
    return searches;
}

static char *search(struct replay_view *v, const char *command,
                    const char *argument, GError **error)
{
    if (!find_place(v->r, argument, &v->found.icount, error)) {
        return NULL;
    }
    v->found.by = command;
    return g_strdup("");
}

static char *search_goto(void *view, const char *argument, GError **error)
{
    return search(view, "goto", argument, error);
}

static char *search_symbols(void *view, const char *argument, GError **error)
{
    return search(view, "symbols", argument, error);
}

static char *run_symbols(void *view, const char *argument, GError **error)
{
    struct replay_view *v = view;
    g_autofree char *task = NULL;
    uint64_t icount;
    struct where where;

    if (!find_place(v->r, argument, &icount, error)) {
        return NULL;
    }
    if (!v->r->trace || !trace_index_running(v->r->trace, icount, &where)) {
        refuse(error, "the trace does not say what ran there");
        return NULL;
    }
    v->shown = icount;
    task = where_task(&where);
    return g_strdup_printf("task      %s\n", task);
}

static char *run_goto(void *view, const char *argument, GError **error)
{
    struct replay_view *v = view;
    uint64_t icount;

    if (!find_place(v->r, argument, &icount, error) ||
        !vm_go_icount(v->r->vm, icount, error)) {
        return NULL;
    }
    v->shown = UINT64_MAX;
    v->server->moved = vm_place(v->r->vm)->vcpu + 1;
    return describe(v);
}

static void append_visit(GString *text, const struct trace_index *trace,
                         uint64_t number, const struct moment *visit)
{
    g_autofree char *owner = where_owner(&visit->task);

    g_string_append_printf(text, "#%-8" G_GUINT64_FORMAT " %3u:%-12"
                           G_GUINT64_FORMAT " %14" G_GUINT64_FORMAT
                           " %14.6f s  %s\n", number, visit->vcpu,
                           visit->index, visit->icount,
                           seconds(trace, &visit->time), owner ? owner : "");
}

/* The visits that are nearest to an instruction, and how many there are */
static bool list_visits(const struct trace_index *trace, struct visits *v,
                        uint64_t icount, GString *text, uint64_t *total,
                        GError **error)
{
    struct moment before[FIND_EACH];
    struct visit visit;
    g_autoptr(GError) local = NULL;
    uint64_t number = 0, past = 0, shown;

    while (visits_next(v, &visit, &local)) {
        number++;
        if (visit.at.icount > icount) {
            break;
        }
        before[past++ % FIND_EACH] = visit.at;
    }
    for (shown = past - MIN(past, FIND_EACH); shown < past; shown++) {
        append_visit(text, trace, shown + 1, &before[shown % FIND_EACH]);
    }
    g_string_append_printf(text, "-- you are here: icount %" G_GUINT64_FORMAT
                           "\n", icount);
    while (number > past && !local) {
        if (number - past <= FIND_EACH) {
            append_visit(text, trace, number, &visit.at);
        }
        if (!visits_next(v, &visit, &local)) {
            break;
        }
        number++;
    }
    *total = number;
    if (local) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    return true;
}

static char *search_find(void *view, const char *argument, GError **error)
{
    struct replay_view *at = view;
    struct trace_index *trace = at->r->trace;
    g_autofree char *process = NULL, *function = NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    struct find_target *wanted = NULL;
    struct visits *v = NULL;
    uint64_t total = 0;
    bool ok;

    if (!trace) {
        refuse(error, "there is no trace yet; backtrail rr replay makes it");
    } else if (!find_place_split(argument, &process, &function)) {
        refuse(error, "find: '%s' is not FUNCTION or PROCESS:FUNCTION",
               argument);
    } else {
        wanted = find_target_function(trace->trace, trace->symbols, process,
                                      function, error);
    }
    if (wanted) {
        v = visits_new(trace->trace, trace->symbols, wanted, error);
    }
    if (!v) {
        find_target_free(wanted);
        return NULL;
    }
    ok = list_visits(trace, v, at->place.icount, text, &total, error);
    if (ok && !total && wanted->missing) {
        refuse(error, "%s", wanted->missing);
        ok = false;
    }
    visits_free(v);
    find_target_free(wanted);
    g_string_append_printf(text, "%s runs %" G_GUINT64_FORMAT " times\n",
                           argument, total);
    return ok ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

static char *ask_qemu(const struct replay_view *v, const char *line,
                      GError **error)
{
    g_autoptr(GString) request = g_string_new("qRcmd,");
    g_autoptr(GString) output = g_string_new(NULL);
    g_autoptr(GString) quoted = NULL;
    g_autofree char *answer = NULL, *text = NULL;
    g_auto(GStrv) lines = NULL;

    rsp_append_hex(request, line, strlen(line));
    if (request->len > VM_PACKET_SIZE) {
        refuse(error, "the command is too long");
        return NULL;
    }
    answer = stub_ask(vm_stub(v->r->vm), request->str, output, NULL, error);
    if (!answer) {
        return NULL;
    }
    if (strcmp(answer, "OK")) {
        refuse(error, "QEMU has refused the command: %s", answer);
        return NULL;
    }
    /* QEMU has names of the recording's, and ends lines as for a terminal. */
    lines = g_strsplit(output->str, "\r\n", -1);
    text = g_strjoinv("\n", lines);
    quoted = g_string_new(NULL);
    quote_lines(quoted, text, strlen(text));
    return g_string_free(g_steal_pointer(&quoted), FALSE);
}

static char *run_checkpoints(void *view, const char *argument, GError **error)
{
    const struct replay_view *v = view;

    return vm_checkpoints(v->r->vm, error);
}

static char *run_help(void *view, const char *argument, GError **error)
{
    g_autofree char *line = g_strconcat("help ", argument, NULL);

    return *argument ? ask_qemu(view, line, error) :
                       monitor_help(replay_monitor_commands);
}

const struct monitor_command replay_monitor_commands[] = {
    { "checkpoints", "states of the guest that are kept to go back to",
      run_checkpoints },
    { "find", "find [PROCESS:]FUNCTION: when it ran, nearest to here",
      .search = search_find },
    { "goto", "goto PLACE: an icount, 1.5s, @RECORD, [PROCESS:]FUNCTION[#N], "
      "last FUNCTION, last exit of PROCESS, output \"TEXT\"", run_goto,
      search_goto, goto_searches },
    { "help", "help COMMAND for QEMU's own commands", run_help },
    { "symbols", "symbols PLACE: have the symbols of the process there, to set "
      "breakpoints in it, until the guest moves", run_symbols, search_symbols,
      goto_searches },
    { "where", "where the guest is", run_where },
    { NULL },
};

char *replay_monitor_pass_on(struct replay_view *v, const char *line,
                             GError **error)
{
    const char *argument;
    g_autofree char *name = monitor_split(line, &argument);

    if (g_strv_contains(refused, name)) {
        refuse(error, "'%s' would move the guest, or end it, behind gdb's "
               "back", name);
        return NULL;
    }
    return ask_qemu(v, line, error);
}
