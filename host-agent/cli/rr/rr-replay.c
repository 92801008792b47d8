/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr replay: see rr.h
 */

#include <sys/wait.h>

#include "cli/rr/rr.h"
#include "gdb/replay-session.h"

struct rr_replay {
    struct rr_options common;
    gboolean gdb;
    char **gdb_options;
    char *memory;
    gboolean no_trace;
    char *serial;
};

/* A recording need not have a trace. */
static struct btrail_trace *open_trace(struct rr_replay *r)
{
    g_autofree char *path = recording_path(r->common.recording,
                                           RECORDING_TRACE);
    struct btrail_trace *trace = NULL;

    return btrail_trace_open(&trace, path) ? NULL : trace;
}

static int run_gdb(struct rr_replay *r, struct player *p)
{
    const struct symbolizer_options symbols = rr_symbols(&r->common);
    struct btrail_trace *trace = open_trace(r);
    g_autoptr(GError) error = NULL;
    struct turns *turns = rr_turns(&r->common, &error);
    struct replay_session *s = error ? NULL :
        replay_session_new(p, trace, turns, &symbols, &error);
    int status = 0, code = CLI_OK;

    cli_set_deadline(CLI_DEADLINE_NOT_INT);
    if (!s || !replay_session_run(s, r->gdb_options, r->common.signals, &status,
                                &error)) {
        code = rr_failed(error);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        code = CLI_FAILED;
    }
    replay_session_free(s);
    turns_free(turns);
    btrail_trace_close(trace);
    return code;
}

static int play(struct rr_replay *r)
{
    struct player_options options = rr_player(&r->common);
    g_autofree char *serial = r->serial ?
        g_canonicalize_filename(r->serial, NULL) : NULL;
    g_autoptr(GError) error = NULL;
    struct player *p;
    int code = CLI_OK;

    options.serial = serial;
    if (r->gdb) {
        options.checkpoints = rr_memory(&r->common);
        options.saved = true;
        /* Ctrl-C is for gdb. */
        options.cancel_fd = -1;
    }
    p = rr_start(&r->common, &options, &error);
    if (!p) {
        return rr_failed(error);
    }
    if (r->gdb) {
        code = run_gdb(r, p);
    } else if (!player_finish(p, &error)) {
        rr_end_progress(&r->common);
        code = rr_failed(error);
    } else {
        rr_end_progress(&r->common);
    }
    cli_take_interrupt();
    player_free(p);
    return code;
}

static int replay(struct rr_replay *r)
{
    int code = CLI_OK;

    if (r->no_trace) {
        return play(r);
    }
    if (!rr_has_trace(&r->common)) {
        if (!rr_make_trace(&r->common, &code)) {
            return code;
        }
    } else if (!r->gdb) {
        code = rr_check_trace(&r->common);
    }
    return code == CLI_OK && (r->gdb || r->serial) ? play(r) : code;
}

int rr_replay(int argc, char **argv)
{
    struct rr_replay r = {
        .common.signals = -1,
    };
    const GOptionEntry entries[] = {
        { "gdb", 0, 0, G_OPTION_ARG_NONE, &r.gdb,
          "debug the guest, from before its first instruction", NULL },
        { "gdb-option", 0, 0, G_OPTION_ARG_STRING_ARRAY, &r.gdb_options,
          "pass an option to gdb, which implies --gdb", "OPTION" },
        { "memory", 0, 0, G_OPTION_ARG_STRING, &r.memory,
          "memory for checkpoints, with --gdb (default: 1G)", "SIZE" },
        { "no-trace", 0, 0, G_OPTION_ARG_NONE, &r.no_trace,
          "make no trace, and compare nothing", NULL },
        { "serial", 0, 0, G_OPTION_ARG_FILENAME, &r.serial,
          "write what the guest has written to its first serial port",
          "FILE" },
        RR_SYMBOL_ENTRIES(&r.common),
        RR_ENTRIES(&r.common),
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, 1, "FOLDER",
                  "Replay a recording: the first time, trace it; later, "
                  "compare with that trace.") &&
        (!r.memory ||
         cli_parse_size("--memory", r.memory, &r.common.memory)) &&
        rr_open(&r.common, argv[1], &code)) {
        r.gdb |= r.gdb_options != NULL;
        code = replay(&r);
    }
    rr_clear(&r.common);
    g_free(r.memory);
    g_free(r.serial);
    g_strfreev(r.gdb_options);
    return code == CLI_OK && fflush(stdout) ? CLI_FAILED : code;
}
