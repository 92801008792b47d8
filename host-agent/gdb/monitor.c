/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor": see monitor.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/monitor.h"
#include "walk/guest-time.h"
#include "gdb/rsp.h"
#include "walk/place.h"
#include "walk/visits.h"
#include "util/parse.h"
#include "util/quote-lines.h"
#include "util/quote.h"

#define refuse(error, ...) \
    btrail_agent_fail(error, BTRAIL_AGENT_ERROR_COMMAND, __VA_ARGS__)

/* How many visits are listed before and behind where the guest stands */
#define FIND_EACH   10

typedef char *command_fn(struct target *t, struct trace_index *trace,
                         const char *argument, GError **error);

/**
 * struct command
 * @usage: for help
 */
struct command {
    const char *name;
    const char *usage;
    command_fn *run;
};

/* Commands of QEMU that would move the guest, or end QEMU, behind the back of
 * gdb.  They have these names and abbreviations. */
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

static char *run_where(struct target *t, struct trace_index *trace,
                       const char *argument, GError **error)
{
    const struct target_place *at = target_place(t);
    g_autoptr(GString) text = g_string_new(NULL);
    struct where where;

    g_string_printf(text, "icount    %" G_GUINT64_FORMAT "\n"
                    "pc        0x%" PRIx64 "\n", at->icount, at->pc);
    if (target_vcpus(t) > 1) {
        g_string_append_printf(text, "thread    %s (vCPU %u)\n",
                               target_thread(t, at->vcpu), at->vcpu);
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

static char *run_goto(struct target *t, struct trace_index *trace,
                      const char *argument, GError **error)
{
    struct walk_place place;
    uint64_t icount;
    bool exact, ok;

    if (!walk_place_parse(argument, &place, error)) {
        return NULL;
    }
    ok = walk_place_icount(&place, trace ? trace->trace : NULL,
                           trace ? trace->symbols : NULL, &icount, &exact,
                           error);
    walk_place_clear(&place);
    return ok && target_go_icount(t, icount, error) ?
           run_where(t, trace, "", error) : NULL;
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

static char *find(struct trace_index *trace, const char *argument,
                  uint64_t icount, GError **error)
{
    g_autofree char *process = NULL, *function = NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    struct sought *sought = NULL;
    struct visits *v = NULL;
    uint64_t total = 0;
    bool ok;

    if (!trace) {
        refuse(error, "there is no trace yet; backtrail rr replay makes it");
    } else if (!walk_place_split(argument, &process, &function)) {
        refuse(error, "find: '%s' is not FUNCTION or PROCESS:FUNCTION",
               argument);
    } else {
        sought = sought_function(trace->trace, trace->symbols, process,
                                 function, error);
    }
    if (sought) {
        v = visits_new(trace->trace, trace->symbols, sought, error);
    }
    if (!v) {
        sought_free(sought);
        return NULL;
    }
    ok = list_visits(trace, v, icount, text, &total, error);
    visits_free(v);
    sought_free(sought);
    g_string_append_printf(text, "%s runs %" G_GUINT64_FORMAT " times\n",
                           argument, total);
    return ok ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}

static char *run_find(struct target *t, struct trace_index *trace,
                      const char *argument, GError **error)
{
    return find(trace, argument, target_place(t)->icount, error);
}

static char *pass_on(struct target *t, const char *line, GError **error)
{
    g_autoptr(GString) request = g_string_new("qRcmd,");
    g_autoptr(GString) output = g_string_new(NULL);
    g_autoptr(GString) quoted = NULL;
    g_autofree char *answer = NULL, *text = NULL;
    g_auto(GStrv) lines = NULL;

    rsp_append_hex(request, line, strlen(line));
    if (request->len > TARGET_PACKET_SIZE) {
        refuse(error, "the command is too long");
        return NULL;
    }
    answer = stub_ask(target_stub(t), request->str, output, NULL, error);
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
    btrail_quote_lines(quoted, text, strlen(text));
    return g_string_free(g_steal_pointer(&quoted), FALSE);
}

static char *run_checkpoints(struct target *t, struct trace_index *trace,
                             const char *argument, GError **error)
{
    return target_checkpoints(t, error);
}

static char *run_help(struct target *t, struct trace_index *trace,
                      const char *argument, GError **error);

static const struct command commands[] = {
    { "checkpoints", "states of the guest that are kept to go back to",
      run_checkpoints },
    { "find", "find [PROCESS:]FUNCTION: when it ran, nearest to here",
      run_find },
    { "goto", "goto PLACE: an icount, 1.5s, @RECORD, [PROCESS:]FUNCTION[#N], "
      "last FUNCTION, last exit of PROCESS", run_goto },
    { "help", "help COMMAND for QEMU's own commands", run_help },
    { "where", "where the guest stands", run_where },
};

static char *run_help(struct target *t, struct trace_index *trace,
                      const char *argument, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);

    if (*argument) {
        g_autofree char *line = g_strconcat("help ", argument, NULL);

        return pass_on(t, line, error);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_string_append_printf(text, "%-12s %s\n", commands[i].name,
                               commands[i].usage);
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* The name of a command, to be freed, and its argument, which is in it */
static char *split(const char *line, char **argument)
{
    char *copy = g_strstrip(g_strdup(line));

    *argument = copy + strcspn(copy, " \t");
    if (**argument) {
        *(*argument)++ = '\0';
        *argument += strspn(*argument, " \t");
    }
    return copy;
}

bool monitor_searches(const char *line)
{
    char *argument;
    g_autofree char *name = split(line, &argument);
    struct walk_place place;
    bool searches = !strcmp(name, "find");

    if (!strcmp(name, "goto") && walk_place_parse(argument, &place, NULL)) {
        searches = place.kind != WALK_PLACE_ICOUNT;
        walk_place_clear(&place);
    }
    return searches;
}

/* What an answer begins with, and a text follows */
enum found_kind {
    FOUND_TEXT = 'T',
    FOUND_ERROR = 'E',
    FOUND_ICOUNT = 'I',
};

static char *find_place(struct trace_index *trace, const char *argument,
                        GError **error)
{
    struct walk_place place;
    uint64_t icount;
    bool exact, ok;

    if (!walk_place_parse(argument, &place, error)) {
        return NULL;
    }
    ok = walk_place_icount(&place, trace->trace, trace->symbols, &icount,
                           &exact, error);
    walk_place_clear(&place);
    return ok ? g_strdup_printf("goto %" PRIu64, icount) : NULL;
}

void monitor_search(struct trace_index *trace, const char *line,
                    uint64_t icount, GByteArray *found)
{
    char *argument;
    g_autofree char *name = split(line, &argument), *text = NULL;
    g_autoptr(GError) error = NULL;
    bool visits = !strcmp(name, "find");
    uint8_t kind;

    text = visits ? find(trace, argument, icount, &error) :
                    find_place(trace, argument, &error);
    kind = !text ? FOUND_ERROR : visits ? FOUND_TEXT : FOUND_ICOUNT;
    g_byte_array_append(found, &kind, 1);
    g_byte_array_append(found, (const void *)(text ? text : error->message),
                        strlen(text ? text : error->message));
}

char *monitor_found(const GByteArray *found, char **then, GError **error)
{
    g_autofree char *text = found && found->len ?
        g_strndup((const char *)found->data + 1, found->len - 1) : NULL;

    *then = NULL;
    if (!text) {
        refuse(error, "the search has ended early");
        return NULL;
    }
    switch (found->data[0]) {
    case FOUND_TEXT:
        return g_steal_pointer(&text);
    case FOUND_ICOUNT:
        *then = g_steal_pointer(&text);
        return NULL;
    default:
        refuse(error, "%s", text);
        return NULL;
    }
}

char *monitor_command(struct target *t, struct trace_index *trace,
                      const char *line, GError **error)
{
    char *argument;
    g_autofree char *copy = split(line, &argument);

    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (!strcmp(copy, commands[i].name)) {
            return commands[i].run(t, trace, argument, error);
        }
    }
    if (g_strv_contains(refused, copy)) {
        refuse(error, "'%s' would move the guest, or end it, behind gdb's "
               "back", copy);
        return NULL;
    }
    return pass_on(t, line, error);
}
