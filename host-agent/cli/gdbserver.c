/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail gdbserver: walks a trace in gdb
 */

#include <sys/wait.h>

#include "cli/analysis.h"
#include "find/place.h"
#include "gdb/trace-session.h"
#include "util/parse.h"

/* gdb's place in the world is not ours: a port of this host */
#define MAX_PORT    65535

struct gdbserver {
    struct analysis in;
    char *process;
    char *vcpu_text;
    int vcpu;
    char *at_text;
    gboolean stdio;
    char **gdb_options;
    uint64_t port;
    bool has_port;
    int signals;
};

static int failed(const GError *error)
{
    cli_error("%s", error->message);
    return CLI_FAILED;
}

static void say_ready(const char *command, const char *address)
{
    cli_printf("%s\nor, without symbols: target remote %s\n", command,
               address);
    fflush(stdout);
}

static int run_gdb(struct gdbserver *g, struct trace_session *s)
{
    g_autoptr(GError) error = NULL;
    int status = 0;

    cli_set_deadline(CLI_DEADLINE_NOT_INT);
    if (!trace_session_gdb(s, g->gdb_options, g->signals, &status, &error)) {
        return failed(error);
    }
    return WIFEXITED(status) && !WEXITSTATUS(status) ? CLI_OK : CLI_FAILED;
}

static int serve(struct gdbserver *g, const struct moment *at)
{
    const struct trace_target_options options = {
        .trace = g->in.trace.trace,
        .symbols = g->in.names,
        .walk = { g->process, g->vcpu },
        .at = at,
    };
    g_autoptr(GError) error = NULL;
    struct trace_session *s = trace_session_new(&options, &error);
    int code = CLI_OK;

    if (!s) {
        return failed(error);
    }
    if (g->stdio) {
        trace_session_stdio(s, g->signals);
    } else if (!g->has_port) {
        code = run_gdb(g, s);
    } else if (!trace_session_port(s, g->port, g->signals, say_ready,
                                   &error)) {
        code = failed(error);
    }
    trace_session_free(s);
    return code;
}

/* Finds where to begin; false after an error message. */
static bool find_place(struct gdbserver *g, struct moment *at)
{
    g_autoptr(GError) error = NULL;
    struct find_place place;
    bool ok = find_place_parse(g->at_text, &place, &error);

    if (ok) {
        ok = find_place_find(&place, g->in.trace.trace, g->in.names, at,
                             &error);
        find_place_clear(&place);
    }
    if (!ok) {
        cli_error("--at: %s", error->message);
    }
    return ok;
}

static int run(struct gdbserver *g, char *const *paths)
{
    struct moment at;
    int verdict;

    if (!analysis_open(&g->in, paths, true)) {
        return CLI_FAILED;
    }
    g->signals = cli_open_signals();
    if (g->signals < 0 || (g->at_text && !find_place(g, &at))) {
        return CLI_FAILED;
    }
    verdict = cli_trace_verdict(&g->in.trace, 0);
    return serve(g, g->at_text ? &at : NULL) ?: verdict;
}

/* A port is the last operand, after the files. */
static void take_port(struct gdbserver *g, int *argc, char **argv)
{
    if (*argc > 2 && parse_text_number(argv[*argc - 1], NULL, &g->port)) {
        g->has_port = true;
        argv[--*argc] = NULL;
    }
}

static bool check(struct gdbserver *g)
{
    uint64_t vcpu;

    if (g->has_port && g->port > MAX_PORT) {
        cli_error("a port is at most %d", MAX_PORT);
        return false;
    }
    if (g->has_port + !!g->stdio + (g->gdb_options != NULL) > 1) {
        cli_error("PORT, --stdio and --gdb-option exclude each other");
        return false;
    }
    if (g->process && g->vcpu_text) {
        cli_error("--process and --vcpu exclude each other");
        return false;
    }
    if (g->vcpu_text &&
        (!parse_text_number(g->vcpu_text, NULL, &vcpu) ||
         vcpu >= BTRAIL_MAX_VCPUS)) {
        cli_error("--vcpu: '%s' is not the number of a vCPU", g->vcpu_text);
        return false;
    }
    g->vcpu = g->vcpu_text ? (int)vcpu : -1;
    return true;
}

int cmd_gdbserver(int argc, char **argv)
{
    struct gdbserver g = { .signals = -1 };
    int code = CLI_USAGE;
    const GOptionEntry entries[] = {
        { "process", 'p', 0, G_OPTION_ARG_STRING, &g.process,
          "walk along the threads of processes with this name or number",
          "PROCESS" },
        { "vcpu", 0, 0, G_OPTION_ARG_STRING, &g.vcpu_text,
          "walk along this vCPU alone", "N" },
        { "at", 0, 0, G_OPTION_ARG_STRING, &g.at_text,
          "begin at a place, such as 'last panic' (default: the end)",
          "PLACE" },
        { "stdio", 0, 0, G_OPTION_ARG_NONE, &g.stdio,
          "serve the gdb at standard input and output", NULL },
        { "gdb-option", 0, 0, G_OPTION_ARG_STRING_ARRAY, &g.gdb_options,
          "pass an option to the gdb that is started", "OPTION" },
        ANALYSIS_NAME_ENTRIES(&g.in),
        { NULL }
    };

    if (cli_parse(&argc, &argv, entries, -1, "FILE... [PORT]",
                  "Walk a trace in gdb, also backwards: starts a gdb, or "
                  "serves those that connect to a port of this host.")) {
        take_port(&g, &argc, argv);
        if (check(&g)) {
            code = run(&g, argv + 1);
        }
    }
    analysis_clear(&g.in);
    g_free(g.process);
    g_free(g.vcpu_text);
    g_free(g.at_text);
    g_strfreev(g.gdb_options);
    return code;
}
