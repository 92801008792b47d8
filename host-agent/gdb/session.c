/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player with a front end for gdbs: see session.h
 */

#include <glib-unix.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/front-end.h"
#include "gdb/session.h"
#include "gdb/start-gdb.h"
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

static gboolean on_gdb(gint fd, GIOCondition condition, gpointer opaque)
{
    struct gdb_session *s = opaque;
    int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (sock >= 0) {
        front_end_add(s->fe, sock);
    }
    return G_SOURCE_CONTINUE;
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
    s->symbols = s->trace ? process_symbols_new(s->trace->symbols,
                                                   folder, error) :
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
    if (trace && (!symbol_file_write_trace(symbols, trace, &any, error) ||
                  !open_trace(s, trace, symbols_of, folder, error))) {
        return false;
    }
    if (!write_commands(s, any ? symbols : NULL, error)) {
        return false;
    }
    sock = start_gdb_connect(stub, error);
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
    s->sock = start_gdb_listen(s->socket, error);
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

bool gdb_session_run(struct gdb_session *s, char *const *arguments,
                     int signal_fd, int *status, GError **error)
{
    return start_gdb(s->commands, arguments, signal_fd, status, error);
}
