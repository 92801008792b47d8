/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr replay: see rr.h
 */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/rr.h"

struct rr_replay {
    struct rr_options common;
    gboolean gdb;
    gboolean no_trace;
    char *serial;
};

/* Ctrl-C is for gdb, which is in our process group. */
static void set_up_gdb(void *opaque)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int run_gdb(struct player *p)
{
    g_autofree char *target = g_strdup_printf("target remote %s",
                                              player_gdb_socket(p));
    char *arguments[] = {
        (char *)"gdb", (char *)"-q", (char *)"-ex",
        (char *)"set architecture i386:x86-64", (char *)"-ex", target, NULL
    };
    g_autoptr(GError) error = NULL;
    GPid pid;
    int status;

    if (!g_spawn_async(NULL, arguments, NULL, G_SPAWN_SEARCH_PATH |
                       G_SPAWN_CHILD_INHERITS_STDIN |
                       G_SPAWN_DO_NOT_REAP_CHILD, set_up_gdb, NULL, &pid,
                       &error)) {
        cli_error("%s; install gdb", error->message);
        return CLI_FAILED;
    }
    while (waitpid(pid, &status, 0) < 0) {
        continue;
    }
    return WIFEXITED(status) && !WEXITSTATUS(status) ? CLI_OK : CLI_FAILED;
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
    options.forward = !r->gdb;
    p = player_start(&options, &error);
    if (!p) {
        return rr_failed(error);
    }
    if (r->gdb) {
        code = run_gdb(p);
    } else if (!player_finish(p, &error)) {
        rr_end_progress(&r->common);
        code = rr_failed(error);
    } else {
        rr_end_progress(&r->common);
    }
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
    struct rr_replay r = { .common.signals = -1 };
    const GOptionEntry entries[] = {
        { "gdb", 0, 0, G_OPTION_ARG_NONE, &r.gdb,
          "debug the guest, from before its first instruction", NULL },
        { "no-trace", 0, 0, G_OPTION_ARG_NONE, &r.no_trace,
          "make no trace, and compare nothing", NULL },
        { "serial", 0, 0, G_OPTION_ARG_FILENAME, &r.serial,
          "write what the guest has written to its first serial port",
          "FILE" },
        RR_ENTRIES(&r.common),
        { NULL }
    };
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, 1, "FOLDER",
                  "Replay a recording: the first time, trace it; later, "
                  "compare with that trace.") &&
        rr_open(&r.common, argv[1], &code)) {
        code = replay(&r);
    }
    rr_clear(&r.common);
    g_free(r.serial);
    return code == CLI_OK && fflush(stdout) ? CLI_FAILED : code;
}
