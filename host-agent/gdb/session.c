/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player with a front end for gdbs: see session.h
 */

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gdb/front-end.h"
#include "gdb/session.h"
#include "gdb/symbol-file.h"
#include "util/json.h"

struct gdb_session {
    struct player *player;
    const struct turns *turns;
    struct front_end *fe;
    struct trace_index *trace;  /* or NULL */
    struct process_symbols *symbols;    /* or NULL */
    char *socket;
    char *commands;
    int sock;                   /* listens */
    guint source;
    GMainLoop *loop;            /* while a gdb runs */
    GPid gdb;
    int status;
};

struct moment {
    struct trace_index *trace;
    uint64_t icount;
};

static gpointer find_moment(gpointer opaque)
{
    const struct moment *m = opaque;

    trace_index_process(m->trace, m->icount);
    return NULL;
}

/*
 * Everybody who comes to a place asks the trace what it is.  It is read while
 * the guest goes there: either takes some milliseconds of a CPU.
 */
static bool go(void *opaque, uint64_t icount, GError **error)
{
    struct gdb_session *s = opaque;
    struct moment moment = { s->trace, icount };
    GThread *thread = s->trace ? g_thread_new("moment", find_moment, &moment) :
                      NULL;
    bool ok = player_goto(s->player, icount, error);

    if (thread) {
        g_thread_join(thread);
    }
    return ok;
}

static bool get_icount(void *opaque, uint64_t *icount, GError **error)
{
    struct gdb_session *s = opaque;

    return player_icount(s->player, icount, error);
}

static char *describe_checkpoints(void *opaque, GError **error)
{
    struct gdb_session *s = opaque;
    g_autoptr(JsonNode) node = player_checkpoints(s->player, error);
    JsonObject *info = node ? json_node_get_object(node) : NULL;
    JsonArray *icounts = info ? btrail_json_array(info, "icounts") : NULL;
    guint n = icounts ? json_array_get_length(icounts) : 0;
    g_autoptr(GString) text = NULL;

    if (!info) {
        return NULL;
    }
    text = g_string_new(NULL);
    g_string_printf(text, "checkpoints  %u\nmemory       %.1f of %.1f MiB\n", n,
                    btrail_json_int(info, "memory", 0) / 1048576.0,
                    btrail_json_int(info, "memory-limit", 0) / 1048576.0);
    if (n) {
        g_string_append_printf(
            text, "icount       from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
            "\n", json_array_get_int_element(icounts, 0),
            json_array_get_int_element(icounts, n - 1));
    }
    if (btrail_json_int(info, "merged", 0)) {
        g_string_append_printf(
            text, "removed      %" G_GINT64_FORMAT ", to keep to the limit\n",
            btrail_json_int(info, "merged", 0));
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* gdb learns of it, too, and its user decides what to do. */
static void on_end(void *opaque, const GError *error)
{
    g_printerr("%s\n", error->message);
}

static int open_socket(const char *path, bool listening, GError **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const struct sockaddr *to = (const struct sockaddr *)&address;
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (g_strlcpy(address.sun_path, path, sizeof(address.sun_path)) >=
        sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
    } else if (sock >= 0 &&
               (listening ? !bind(sock, to, sizeof(address)) &&
                            !listen(sock, 8) :
                            !connect(sock, to, sizeof(address)))) {
        return sock;
    }
    btrail_agent_error_errno(error, path);
    if (sock >= 0) {
        close(sock);
    }
    return -1;
}

static gboolean on_gdb(gint fd, GIOCondition condition, gpointer opaque)
{
    struct gdb_session *s = opaque;
    int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (sock >= 0) {
        front_end_add(s->fe, sock);
    }
    return G_SOURCE_CONTINUE;
}

static bool write_symbols(const struct btrail_trace *trace, const char *path,
                          bool *any, GError **error)
{
    struct btrail_names *names;
    int ret = btrail_names_open(&names, trace);
    GArray *symbols;
    bool ok;

    if (ret) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_NAMES,
                    "the names of the trace: %s", btrail_strerror(ret));
        return false;
    }
    symbols = symbol_file_symbols(names);
    *any = symbols->len;
    ok = !*any || symbol_file_write(path, symbols, error);
    g_array_unref(symbols);
    btrail_names_close(names);
    return ok;
}

/* "monitor goto" moves the guest, of which gdb knows nothing. */
static bool write_commands(struct gdb_session *s, const char *symbols,
                           GError **error)
{
    g_autoptr(GString) text = g_string_new(
        "set architecture i386:x86-64\n"
        "set remotetimeout 120\n");

    if (s->symbols) {
        process_symbols_define(s->symbols, text);
    }
    g_string_append_printf(text, "define hookpost-monitor\n"
                           "maintenance flush register-cache\n"
                           "maintenance flush dcache\n"
                           "%s"
                           "end\n",
                           s->symbols ? PROCESS_SYMBOLS_COMMAND "\n" : "");
    if (symbols) {
        g_string_append_printf(text, "symbol-file %s\n", symbols);
    }
    g_string_append_printf(text,
                           "echo Other gdbs connect with gdb -x %s, or with "
                           "target remote %s\\n\ntarget remote %s\n",
                           s->commands, s->socket, s->socket);
    return g_file_set_contents(s->commands, text->str, text->len, error);
}

static bool open_trace(struct gdb_session *s,
                       const struct btrail_trace *trace,
                       const struct symbolizer_options *symbols,
                       const char *folder, GError **error)
{
    s->trace = trace_index_new(trace, s->turns, symbols, error);
    s->symbols = s->trace ? process_symbols_new(s->trace, folder, error) :
                 NULL;
    return s->symbols;
}

static bool start(struct gdb_session *s, const struct btrail_trace *trace,
                  const struct symbolizer_options *symbols_of, GError **error)
{
    const struct target_moves moves = {
        .go = go,
        .icount = get_icount,
        .checkpoints = describe_checkpoints,
        .opaque = s,
        .turns = s->turns,
    };
    const char *stub = player_gdb_socket(s->player);
    g_autofree char *folder = g_path_get_dirname(stub);
    g_autofree char *symbols = g_build_filename(folder, "kernel", NULL);
    struct target *target;
    bool any = false;
    int sock;

    s->socket = g_build_filename(folder, "front-end", NULL);
    s->commands = g_build_filename(folder, "gdb-commands", NULL);
    if (trace && (!write_symbols(trace, symbols, &any, error) ||
                  !open_trace(s, trace, symbols_of, folder, error))) {
        return false;
    }
    if (!write_commands(s, any ? symbols : NULL, error)) {
        return false;
    }
    sock = open_socket(stub, false, error);
    if (sock < 0) {
        return false;
    }
    target = target_new(sock, &moves, error);
    if (!target) {
        return false;
    }
    s->fe = front_end_new(target, on_end, NULL);
    front_end_set_trace(s->fe, s->trace);
    front_end_set_symbols(s->fe, s->symbols);
    s->sock = open_socket(s->socket, true, error);
    if (s->sock < 0) {
        return false;
    }
    s->source = g_unix_fd_add(s->sock, G_IO_IN, on_gdb, s);
    return true;
}

struct gdb_session *gdb_session_new(struct player *player,
                                    const struct btrail_trace *trace,
                                    const struct turns *turns,
                                    const struct symbolizer_options *symbols,
                                    GError **error)
{
    struct gdb_session *s = g_new0(struct gdb_session, 1);

    s->player = player;
    s->turns = turns;
    s->sock = -1;
    if (!start(s, trace, symbols, error)) {
        gdb_session_free(s);
        return NULL;
    }
    return s;
}

void gdb_session_free(struct gdb_session *s)
{
    if (s) {
        if (s->source) {
            g_source_remove(s->source);
        }
        if (s->sock >= 0) {
            close(s->sock);
        }
        front_end_free(s->fe);
        process_symbols_free(s->symbols);
        trace_index_free(s->trace);
        g_free(s->socket);
        g_free(s->commands);
        g_free(s);
    }
}

const char *gdb_session_socket(const struct gdb_session *s)
{
    return s->socket;
}

const char *gdb_session_commands(const struct gdb_session *s)
{
    return s->commands;
}

/* gdb has its own way with the signals that we block. */
static void unblock_signals(void *opaque)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void on_exit_of_gdb(GPid pid, gint status, gpointer opaque)
{
    struct gdb_session *s = opaque;

    s->status = status;
    g_main_loop_quit(s->loop);
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer opaque)
{
    struct gdb_session *s = opaque;
    struct signalfd_siginfo info;

    /* gdb has Ctrl-C, too. */
    if (read(fd, &info, sizeof(info)) == sizeof(info) &&
        info.ssi_signo != SIGINT) {
        kill(s->gdb, SIGTERM);
    }
    return G_SOURCE_CONTINUE;
}

bool gdb_session_run(struct gdb_session *s, char *const *arguments,
                     int signal_fd, int *status, GError **error)
{
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    GSource *signals = NULL;
    bool ok;

    g_ptr_array_add(argv, (char *)"gdb");
    g_ptr_array_add(argv, (char *)"-q");
    g_ptr_array_add(argv, (char *)"-x");
    g_ptr_array_add(argv, s->commands);
    for (; arguments && *arguments; arguments++) {
        g_ptr_array_add(argv, *arguments);
    }
    g_ptr_array_add(argv, NULL);
    ok = g_spawn_async(NULL, (char **)argv->pdata, NULL,
                       G_SPAWN_SEARCH_PATH | G_SPAWN_CHILD_INHERITS_STDIN |
                       G_SPAWN_DO_NOT_REAP_CHILD, unblock_signals, NULL,
                       &s->gdb, error);
    if (!ok) {
        g_prefix_error(error, "install gdb: ");
        return false;
    }
    s->loop = g_main_loop_new(NULL, FALSE);
    g_child_watch_add(s->gdb, on_exit_of_gdb, s);
    if (signal_fd >= 0) {
        signals = g_unix_fd_source_new(signal_fd, G_IO_IN);
        g_source_set_callback(signals, G_SOURCE_FUNC(on_signal), s, NULL);
        g_source_attach(signals, NULL);
    }
    g_main_loop_run(s->loop);
    if (signals) {
        g_source_destroy(signals);
        g_source_unref(signals);
    }
    g_clear_pointer(&s->loop, g_main_loop_unref);
    *status = s->status;
    return true;
}
