/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor": see monitor.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/monitor.h"
#include "gdb/rsp.h"
#include "util/parse.h"
#include "util/quote.h"

#define refuse(error, ...) \
    btrail_agent_fail(error, BTRAIL_AGENT_ERROR_COMMAND, __VA_ARGS__)

typedef char *command_fn(struct target *t, struct history *h,
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

static char *run_where(struct target *t, struct history *h,
                       const char *argument, GError **error)
{
    const struct target_place *at = target_place(t);

    g_autoptr(GString) text = g_string_new(NULL);
    struct history_place place;

    g_string_printf(text, "icount  %" G_GUINT64_FORMAT "\n"
                    "pc      0x%" PRIx64 "\n", at->icount, at->pc);
    if (h && history_at(h, at->icount, &place)) {
        /* With -icount, the TSC counts nanoseconds of the guest's time. */
        g_string_append_printf(text, "record  %" G_GUINT64_FORMAT "\n"
                               "time    %.6f s\n", place.index,
                               place.time.tsc / 1e9);
        if (place.task.known) {
            g_autofree char *name = btrail_quote(place.task.name, "");

            g_string_append_printf(text, "task    %s, pid %u, tid %u\n", name,
                                   place.task.pid, place.task.tid);
        }
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static char *run_goto(struct target *t, struct history *h, const char *argument,
                      GError **error)
{
    uint64_t icount;

    if (!btrail_parse_number(argument, NULL, &icount)) {
        refuse(error, "goto: '%s' is not a number of instructions",
               argument);
        return NULL;
    }
    return target_go_icount(t, icount, error) ? run_where(t, h, "", error) :
           NULL;
}

static char *pass_on(struct target *t, const char *line, GError **error)
{
    g_autoptr(GString) request = g_string_new("qRcmd,");
    g_autoptr(GString) output = g_string_new(NULL);
    g_autofree char *answer = NULL;

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
    return g_strdup(output->str);
}

static char *run_checkpoints(struct target *t, struct history *h,
                             const char *argument, GError **error)
{
    return target_checkpoints(t, error);
}

static char *run_help(struct target *t, struct history *h, const char *argument,
                      GError **error);

static const struct command commands[] = {
    { "checkpoints", "states of the guest that are kept to go back to",
      run_checkpoints },
    { "goto", "goto ICOUNT: go to where the guest has executed so many "
      "instructions", run_goto },
    { "help", "help COMMAND for QEMU's own commands", run_help },
    { "where", "where the guest stands", run_where },
};

static char *run_help(struct target *t, struct history *h, const char *argument,
                      GError **error)
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

char *monitor_command(struct target *t, struct history *history,
                      const char *line, GError **error)
{
    g_autofree char *copy = g_strstrip(g_strdup(line));
    char *argument = copy + strcspn(copy, " \t");

    if (*argument) {
        *argument++ = '\0';
        argument += strspn(argument, " \t");
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (!strcmp(copy, commands[i].name)) {
            return commands[i].run(t, history, argument, error);
        }
    }
    if (g_strv_contains(refused, copy)) {
        refuse(error, "'%s' would move the guest, or end it, behind gdb's "
               "back", copy);
        return NULL;
    }
    return pass_on(t, line, error);
}
