/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr branch: see rr.h
 */

#include <inttypes.h>
#include <unistd.h>

#include "cli/rr/rr-terminal.h"
#include "cli/rr/rr.h"
#include "gdb/start-gdb.h"

struct rr_branch {
    struct rr_options common;
    gboolean gdb;
    struct find_place place;
    struct rr_found found;
};

static void say_live(const struct rr_branch *b, const struct player *p)
{
    g_autofree char *connect = NULL, *quoted = NULL;

    if (b->common.quiet) {
        return;
    }
    cli_fprintf(stderr, "live from instruction %" PRIu64 "%s, without a "
                "network; Ctrl-C ends it\n", b->found.icount,
                b->found.exact ? "" : ", the last counted one before the "
                "place");
    connect = g_strdup_printf("target remote %s", player_gdb_socket(p));
    quoted = g_shell_quote(connect);
    cli_fprintf(stderr, "%s: gdb " START_GDB_OPTION " '" START_GDB_SAFE "' -ex "
                "%s\n",
                b->gdb ? "the guest is stopped until a debugger lets it "
                "run" : "to debug it", quoted);
    cli_fprintf(stderr, "QEMU's monitor (QMP): %s\n", player_qmp_socket(p));
}

static bool run(struct rr_branch *b, struct player *p, struct rr_terminal *t,
                GError **error)
{
    bool ok = player_goto(p, b->found.icount, error);

    rr_end_progress(&b->common);
    if (!ok || !player_go_live(p, error)) {
        return false;
    }
    say_live(b, p);
    rr_terminal_start(t);
    ok = (b->gdb || player_run(p, error)) && player_wait_end(p, error);
    if (!ok && agent_is_cancelled(*error)) {
        /* Ctrl-C, before the guest ran */
        g_clear_error(error);
        ok = true;
    }
    return ok;
}

static int branch(struct rr_branch *b)
{
    struct rr_terminal terminal = RR_TERMINAL_CLOSED;
    struct player_options options = rr_player(&b->common);
    struct player_terminal ends;
    g_autoptr(GError) error = NULL;
    struct player *p = NULL;
    int code = CLI_OK;

    if (!rr_terminal_open(&terminal)) {
        cli_error("there can be no pipe");
        return CLI_FAILED;
    }
    ends = (struct player_terminal) {
        .input = terminal.input,
        .output = terminal.screen,
    };
    options.terminal = &ends;
    options.saved = true;
    if (rr_find(&b->common, &b->place, &b->found, &error)) {
        p = rr_start(&b->common, &options, &error);
    }
    if (!p || !run(b, p, &terminal, &error)) {
        code = rr_failed(error);
    }
    cli_take_interrupt();
    player_free(p);
    rr_found_clear(&b->found);
    rr_terminal_close(&terminal);
    return code;
}

int rr_branch(int argc, char **argv)
{
    struct rr_branch b = { .common.signals = -1 };
    const GOptionEntry entries[] = {
        { "gdb", 0, 0, G_OPTION_ARG_NONE, &b.gdb,
          "keep the guest stopped until a debugger lets it run", NULL },
        RR_SYMBOL_ENTRIES(&b.common),
        RR_ENTRIES_QEMU(&b.common),
        { NULL }
    };
    g_autoptr(GError) error = NULL;
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, 2, "FOLDER PLACE",
                  "Let the guest of a recording run on from a place, with "
                  "other input than it had, and\nwithout a network.  The "
                  "recording stays as it is.")) {
        if (!find_place_parse(argv[2], &b.place, &error)) {
            cli_error("%s", error->message);
        } else if (rr_open(&b.common, argv[1], &code)) {
            code = branch(&b);
        }
    }
    find_place_clear(&b.place);
    rr_clear(&b.common);
    return code;
}
